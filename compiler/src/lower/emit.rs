//! Writes operations of the `llvm` and `nvvm` dialects in MLIR's generic syntax.
//!
//! Nothing is left to convert: branches are written where the structure is still known, loops with their test
//! at the bottom. Callers name arithmetic as `arith` and `math` do; [`spelling`] has what stands for it.
//!
//! A value is its number and its type. Constants and what every thread computes once go to the
//! prologue, which precedes the body and so dominates it.

use flashc_ir::{Elem, Loc};
use std::collections::HashMap;
use std::fmt::{self, Write};

/// A type of the lowered function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Ty {
    /// A number.
    Num(Elem),
    /// Generic pointer.
    Ptr,
    /// Pointer to global memory.
    Global,
    /// Pointer to shared memory.
    Smem,
    /// A short vector.
    Vec(u32, Elem),
}

pub(super) const I1: Ty = Ty::Num(Elem::I1);
pub(super) const I32: Ty = Ty::Num(Elem::I32);
pub(super) const I64: Ty = Ty::Num(Elem::I64);
pub(super) const F32: Ty = Ty::Num(Elem::F32);

impl fmt::Display for Ty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ty::Num(e) => write!(f, "{e}"),
            Ty::Ptr => f.write_str("!llvm.ptr"),
            Ty::Global => f.write_str("!llvm.ptr<1>"),
            Ty::Smem => f.write_str("!llvm.ptr<3>"),
            Ty::Vec(n, e) => write!(f, "vector<{n}x{e}>"),
        }
    }
}

/// A value of the lowered function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct V {
    id: u32,
    /// Its type.
    pub(super) ty: Ty,
}

impl fmt::Display for V {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "%v{}", self.id)
    }
}

/// The operation of `llvm` that one of `arith` or `math` becomes; the attributes mean the same, except that
/// fast-math flags are called `fastmathFlags` there. Any other name stands for itself.
fn spelling(name: &str) -> &str {
    match name {
        "arith.addi" => "llvm.add",
        "arith.subi" => "llvm.sub",
        "arith.muli" => "llvm.mul",
        "arith.divsi" => "llvm.sdiv",
        "arith.divui" => "llvm.udiv",
        "arith.remsi" => "llvm.srem",
        "arith.remui" => "llvm.urem",
        "arith.andi" => "llvm.and",
        "arith.ori" => "llvm.or",
        "arith.xori" => "llvm.xor",
        "arith.shli" => "llvm.shl",
        "arith.shrsi" => "llvm.ashr",
        "arith.shrui" => "llvm.lshr",
        "arith.minsi" => "llvm.intr.smin",
        "arith.maxsi" => "llvm.intr.smax",
        "arith.minui" => "llvm.intr.umin",
        "arith.maxui" => "llvm.intr.umax",
        "arith.addf" => "llvm.fadd",
        "arith.subf" => "llvm.fsub",
        "arith.mulf" => "llvm.fmul",
        "arith.divf" => "llvm.fdiv",
        "arith.negf" => "llvm.fneg",
        "arith.minnumf" => "llvm.intr.minnum",
        "arith.maxnumf" => "llvm.intr.maxnum",
        "arith.cmpi" => "llvm.icmp",
        "arith.cmpf" => "llvm.fcmp",
        "arith.select" => "llvm.select",
        "arith.extsi" => "llvm.sext",
        "arith.extui" => "llvm.zext",
        "arith.trunci" => "llvm.trunc",
        "arith.extf" => "llvm.fpext",
        "arith.truncf" => "llvm.fptrunc",
        "arith.sitofp" => "llvm.sitofp",
        "arith.uitofp" => "llvm.uitofp",
        "arith.constant" => "llvm.mlir.constant",
        "math.fma" => "llvm.intr.fma",
        "math.absf" => "llvm.intr.fabs",
        "math.floor" => "llvm.intr.floor",
        "math.ceil" => "llvm.intr.ceil",
        "math.copysign" => "llvm.intr.copysign",
        other => other,
    }
}

/// The text so far.
pub(super) struct Emit {
    out: String,
    prologue: String,
    next: u32,
    constants: HashMap<(u64, Ty), V>,
    structs: HashMap<Vec<Ty>, usize>,
    aliases: String,
    loc: String,
    line_info: bool,
}

impl Emit {
    pub(super) fn new(line_info: bool) -> Emit {
        Emit {
            out: String::new(),
            prologue: String::new(),
            next: 0,
            constants: HashMap::new(),
            structs: HashMap::new(),
            aliases: String::new(),
            loc: String::new(),
            line_info,
        }
    }

    /// Location of the next operations.
    pub(super) fn at(&mut self, loc: &Loc) {
        if self.line_info {
            self.loc = format!(" loc({:?}:{}:{})", loc.file, loc.line, loc.column);
        }
    }

    /// A fresh value, for block arguments.
    pub(super) fn fresh(&mut self, ty: Ty) -> V {
        self.next += 1;
        V { id: self.next, ty }
    }

    /// Emits into the prologue.
    pub(super) fn in_prologue<T>(&mut self, f: impl FnOnce(&mut Emit) -> T) -> T {
        let body = std::mem::take(&mut self.out);
        let t = f(self);
        let made = std::mem::replace(&mut self.out, body);
        self.prologue.push_str(&made);
        t
    }

    /// Type aliases, which come before the module, prologue and body.
    pub(super) fn finish(self) -> (String, String, String) {
        (self.aliases, self.prologue, self.out)
    }

    /// Ends a line, with the location if it is wanted.
    pub(super) fn end_line(&mut self) {
        let _ = writeln!(self.out, "{}", self.loc);
    }

    fn head(&mut self, name: &str, attrs: &str, operands: &[V]) {
        let name = spelling(name);
        let _ = write!(self.out, "\"{name}\"(");
        for (i, v) in operands.iter().enumerate() {
            let _ = write!(self.out, "{}{v}", if i == 0 { "" } else { ", " });
        }
        self.out.push(')');
        if !attrs.is_empty() {
            let _ = write!(self.out, " <{{{attrs}}}>");
        }
        self.out.push_str(" : (");
        for (i, v) in operands.iter().enumerate() {
            let _ = write!(self.out, "{}{}", if i == 0 { "" } else { ", " }, v.ty);
        }
        self.out.push_str(") -> ");
    }

    /// An operation with one result.
    pub(super) fn op(&mut self, name: &str, attrs: &str, operands: &[V], ty: Ty) -> V {
        let v = self.fresh(ty);
        let _ = write!(self.out, "{v} = ");
        self.head(name, attrs, operands);
        let _ = write!(self.out, "{ty}");
        self.end_line();
        v
    }

    /// An operation without a result.
    pub(super) fn op0(&mut self, name: &str, attrs: &str, operands: &[V]) {
        self.head(name, attrs, operands);
        self.out.push_str("()");
        self.end_line();
    }

    /// Inline assembly; several results come back one by one.
    pub(super) fn asm(
        &mut self,
        text: &str,
        constraints: &str,
        operands: &[V],
        results: &[Ty],
        effects: bool,
    ) -> Vec<V> {
        let effects = if effects { ", has_side_effects" } else { "" };
        let attrs = format!(
            "asm_string = \"{text}\", constraints = \"{constraints}\"{effects}, asm_dialect = 0 : i64"
        );
        match results {
            [] => {
                self.op0("llvm.inline_asm", &attrs, operands);
                vec![]
            }
            [ty] => vec![self.op("llvm.inline_asm", &attrs, operands, *ty)],
            many => {
                let strukt = self.structure(many);
                self.next += 1;
                let id = self.next;
                let _ = write!(self.out, "%v{id} = ");
                self.head("llvm.inline_asm", &attrs, operands);
                self.out.push_str(&strukt);
                self.end_line();
                many.iter()
                    .enumerate()
                    .map(|(i, ty)| {
                        let v = self.fresh(*ty);
                        let _ = write!(
                            self.out,
                            "{v} = \"llvm.extractvalue\"(%v{id}) <{{position = array<i64: {i}>}}> : ({strukt}) -> {ty}"
                        );
                        self.end_line();
                        v
                    })
                    .collect()
            }
        }
    }

    /// The name of a struct type. Spelled out at every use, the types of matrix multiplies would be most of the
    /// text.
    fn structure(&mut self, fields: &[Ty]) -> String {
        let next = self.structs.len();
        let n = *self.structs.entry(fields.to_vec()).or_insert_with(|| {
            let fields: Vec<_> = fields.iter().map(|t| t.to_string()).collect();
            let _ = writeln!(self.aliases, "!s{next} = !llvm.struct<({})>", fields.join(", "));
            next
        });
        format!("!s{n}")
    }

    /// An LLVM intrinsic without effects.
    pub(super) fn intrinsic(&mut self, name: &str, operands: &[V], ty: Ty) -> V {
        let attrs = format!(
            "intrin = \"{name}\", op_bundle_sizes = array<i32>, operandSegmentSizes = array<i32: {}, 0>",
            operands.len()
        );
        self.op("llvm.call_intrinsic", &attrs, operands, ty)
    }

    /// An integer constant.
    pub(super) fn int(&mut self, value: i64, ty: Ty) -> V {
        let attr = if ty == I1 {
            if value & 1 == 1 { "true" } else { "false" }.to_string()
        } else {
            format!("{value} : {ty}")
        };
        self.constant(value as u64, ty, &attr)
    }

    /// A float constant, rounded to the type.
    pub(super) fn float(&mut self, value: f64, ty: Ty) -> V {
        let (bits, digits) = match ty {
            Ty::Num(Elem::F64) => (value.to_bits(), 16),
            Ty::Num(Elem::F16) => (half::f16::from_f64(value).to_bits() as u64, 4),
            Ty::Num(Elem::BF16) => (half::bf16::from_f64(value).to_bits() as u64, 4),
            _ => ((value as f32).to_bits() as u64, 8),
        };
        self.constant(bits, ty, &format!("0x{bits:0digits$X} : {ty}"))
    }

    fn constant(&mut self, bits: u64, ty: Ty, attr: &str) -> V {
        if let Some(v) = self.constants.get(&(bits, ty)) {
            return *v;
        }
        let attrs = format!("value = {attr}");
        let v = self.in_prologue(|e| e.op("arith.constant", &attrs, &[], ty));
        self.constants.insert((bits, ty), v);
        v
    }

    /// An `i32` constant.
    pub(super) fn i32(&mut self, value: i64) -> V {
        self.int(value, I32)
    }

    /// A two-operand `arith` operation of the operands' type.
    pub(super) fn bin(&mut self, op: &str, a: V, b: V) -> V {
        self.op(&format!("arith.{op}"), "", &[a, b], a.ty)
    }

    /// `a + c`; nothing if `c` is 0.
    pub(super) fn add(&mut self, a: V, c: i64) -> V {
        if c == 0 {
            return a;
        }
        let c = self.int(c, a.ty);
        self.bin("addi", a, c)
    }

    /// `a · c`; nothing if `c` is 1.
    pub(super) fn mul(&mut self, a: V, c: i64) -> V {
        if c == 1 {
            return a;
        }
        let c = self.int(c, a.ty);
        self.bin("muli", a, c)
    }

    /// Integer comparison by MLIR's predicate number: 0 eq, 1 ne, 2 slt, 3 sle, 4 sgt, 5 sge, 6 ult …
    pub(super) fn icmp(&mut self, predicate: u32, a: V, b: V) -> V {
        self.op("arith.cmpi", &format!("predicate = {predicate} : i64"), &[a, b], I1)
    }

    /// Conjunction; `None` is true.
    pub(super) fn and(&mut self, a: Option<V>, b: Option<V>) -> Option<V> {
        match (a, b) {
            (Some(a), Some(b)) => Some(self.bin("andi", a, b)),
            (a, b) => a.or(b),
        }
    }

    /// `cond ? a : b`.
    pub(super) fn select(&mut self, cond: V, a: V, b: V) -> V {
        self.op("arith.select", "", &[cond, a, b], a.ty)
    }

    /// Sign extension to 64 bits.
    pub(super) fn extend(&mut self, a: V) -> V {
        self.op("arith.extsi", "", &[a], I64)
    }

    /// Same bits, other type.
    pub(super) fn bitcast(&mut self, a: V, ty: Ty) -> V {
        if a.ty == ty { a } else { self.op("llvm.bitcast", "", &[a], ty) }
    }

    /// `p` moved by bytes.
    pub(super) fn offset(&mut self, p: V, bytes: V) -> V {
        let attrs = "elem_type = i8, rawConstantIndices = array<i32: -2147483648>";
        self.op("llvm.getelementptr", attrs, &[p, bytes], p.ty)
    }

    /// A value exchanged within the warp: lane `l` gets that of lane `l ^ mask`.
    pub(super) fn shuffle_xor(&mut self, v: V, mask: i64) -> V {
        let (all, mask, clamp) = (self.i32(-1), self.i32(mask), self.i32(31));
        self.op("nvvm.shfl.sync", "kind = #nvvm<shfl_kind bfly>", &[all, v, mask, clamp], v.ty)
    }

    /// Arrives at a named barrier without waiting. In `nvvm` it would be the one operation that still needs a
    /// conversion pass.
    pub(super) fn barrier_arrive(&mut self, id: V, threads: i64) {
        self.asm(&format!("bar.arrive $0, {threads};"), "r", &[id], &[], true);
    }

    /// Vector from scalars of one type.
    pub(super) fn vector(&mut self, parts: &[V]) -> V {
        let Ty::Num(e) = parts[0].ty else { return parts[0] };
        let ty = Ty::Vec(parts.len() as u32, e);
        let empty = self.op("llvm.mlir.poison", "", &[], ty);
        parts.iter().enumerate().fold(empty, |v, (i, part)| {
            let i = self.int(i as i64, I64);
            self.op("llvm.insertelement", "", &[v, *part, i], ty)
        })
    }

    /// Scalar out of a vector.
    pub(super) fn extract(&mut self, v: V, i: usize) -> V {
        let Ty::Vec(_, e) = v.ty else { return v };
        let i = self.int(i as i64, I64);
        self.op("llvm.extractelement", "", &[v, i], Ty::Num(e))
    }

    /// `if cond { then }` without results.
    pub(super) fn when(&mut self, cond: Option<V>, then: impl FnOnce(&mut Emit)) {
        let Some(cond) = cond else { return then(self) };
        let (inside, after) = (self.label(), self.label());
        self.branch_if(cond, (inside, &[]), (after, &[]));
        self.begin(inside, &[]);
        then(self);
        self.branch(after, &[]);
        self.begin(after, &[]);
    }

    /// `if cond { then } else { otherwise }` with results of the same types.
    pub(super) fn if_else(
        &mut self,
        cond: V,
        then: impl FnOnce(&mut Emit) -> Vec<V>,
        otherwise: impl FnOnce(&mut Emit) -> Vec<V>,
    ) -> Vec<V> {
        let (yes, no, after) = (self.label(), self.label(), self.label());
        self.branch_if(cond, (yes, &[]), (no, &[]));
        self.begin(yes, &[]);
        let a = then(self);
        self.branch(after, &a);
        self.begin(no, &[]);
        let b = otherwise(self);
        self.branch(after, &b);
        let results: Vec<V> = a.iter().map(|v| self.fresh(v.ty)).collect();
        self.begin(after, &results);
        results
    }

    /// A counted loop; `body` gets the counter and the carried values and returns the next ones.
    pub(super) fn for_loop<E>(
        &mut self,
        [from, to, step]: [V; 3],
        inits: &[V],
        body: impl FnOnce(&mut Emit, V, &[V]) -> Result<Vec<V>, E>,
    ) -> Result<Vec<V>, E> {
        let (inside, after) = (self.label(), self.label());
        let iv = self.fresh(from.ty);
        let carried: Vec<V> = inits.iter().map(|v| self.fresh(v.ty)).collect();
        let with =
            |first: V, rest: &[V]| -> Vec<V> { std::iter::once(first).chain(rest.iter().copied()).collect() };
        let any = self.icmp(SLT, from, to);
        self.branch_if(any, (inside, &with(from, inits)), (after, inits));
        self.begin(inside, &with(iv, &carried));
        let next = body(self, iv, &carried)?;
        let following = self.bin("addi", iv, step);
        let again = self.icmp(SLT, following, to);
        self.branch_if(again, (inside, &with(following, &next)), (after, &next));
        let results: Vec<V> = inits.iter().map(|v| self.fresh(v.ty)).collect();
        self.begin(after, &results);
        Ok(results)
    }

    /// A block that does not exist yet.
    fn label(&mut self) -> Label {
        self.next += 1;
        Label(self.next)
    }

    /// Starts a block; the one before it must have ended.
    fn begin(&mut self, label: Label, args: &[V]) {
        let _ = write!(self.out, "{label}");
        for (i, v) in args.iter().enumerate() {
            let _ = write!(self.out, "{}{v}: {}", if i == 0 { "(" } else { ", " }, v.ty);
        }
        self.out.push_str(if args.is_empty() { ":\n" } else { "):\n" });
    }

    fn branch(&mut self, to: Label, args: &[V]) {
        self.out.push_str("\"llvm.br\"(");
        self.names(args);
        let _ = write!(self.out, ")[{to}] : (");
        self.types(args);
        self.out.push_str(") -> ()");
        self.end_line();
    }

    fn branch_if(&mut self, cond: V, yes: (Label, &[V]), no: (Label, &[V])) {
        let operands: Vec<V> = std::iter::once(&cond).chain(yes.1).chain(no.1).copied().collect();
        self.out.push_str("\"llvm.cond_br\"(");
        self.names(&operands);
        let _ = write!(
            self.out,
            ")[{}, {}] <{{operandSegmentSizes = array<i32: 1, {}, {}>}}> : (",
            yes.0,
            no.0,
            yes.1.len(),
            no.1.len()
        );
        self.types(&operands);
        self.out.push_str(") -> ()");
        self.end_line();
    }

    fn names(&mut self, vs: &[V]) {
        for (i, v) in vs.iter().enumerate() {
            let _ = write!(self.out, "{}{v}", if i == 0 { "" } else { ", " });
        }
    }

    fn types(&mut self, vs: &[V]) {
        for (i, v) in vs.iter().enumerate() {
            let _ = write!(self.out, "{}{}", if i == 0 { "" } else { ", " }, v.ty);
        }
    }
}

/// A block.
#[derive(Clone, Copy)]
struct Label(u32);

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "^b{}", self.0)
    }
}

/// MLIR's number of the predicate "less, signed".
const SLT: u32 = 2;
