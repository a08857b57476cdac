//! Writes operations of the `llvm`, `nvvm`, `arith`, `scf` and `vector` dialects in MLIR's generic syntax.
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

/// The text so far.
pub(super) struct Emit {
    out: String,
    prologue: String,
    next: u32,
    constants: HashMap<(u64, Ty), V>,
    loc: String,
    line_info: bool,
}

impl Emit {
    pub(super) fn new(line_info: bool) -> Emit {
        Emit {
            out: String::with_capacity(1 << 20),
            prologue: String::new(),
            next: 0,
            constants: HashMap::new(),
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

    /// Prologue and body.
    pub(super) fn finish(self) -> (String, String) {
        (self.prologue, self.out)
    }

    /// Ends a line, with the location if it is wanted.
    pub(super) fn end_line(&mut self) {
        let _ = writeln!(self.out, "{}", self.loc);
    }

    fn head(&mut self, name: &str, attrs: &str, operands: &[V]) {
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
                let fields: Vec<_> = many.iter().map(|t| t.to_string()).collect();
                let strukt = format!("!llvm.struct<({})>", fields.join(", "));
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

    /// Vector from scalars of one type.
    pub(super) fn vector(&mut self, parts: &[V]) -> V {
        let Ty::Num(e) = parts[0].ty else { return parts[0] };
        self.op("vector.from_elements", "", parts, Ty::Vec(parts.len() as u32, e))
    }

    /// Scalar out of a vector.
    pub(super) fn extract(&mut self, v: V, i: usize) -> V {
        let Ty::Vec(_, e) = v.ty else { return v };
        self.op("vector.extract", &format!("static_position = array<i64: {i}>"), &[v], Ty::Num(e))
    }

    /// `if cond { then }` without results.
    pub(super) fn when(&mut self, cond: Option<V>, then: impl FnOnce(&mut Emit)) {
        let Some(cond) = cond else { return then(self) };
        let _ = writeln!(self.out, "\"scf.if\"({cond}) ({{");
        then(self);
        self.out.push_str("\"scf.yield\"() : () -> ()\n}, {\n}) : (i1) -> ()");
        self.end_line();
    }

    /// `if cond { then } else { otherwise }` with results of the same types.
    pub(super) fn if_else(
        &mut self,
        cond: V,
        then: impl FnOnce(&mut Emit) -> Vec<V>,
        otherwise: impl FnOnce(&mut Emit) -> Vec<V>,
    ) -> Vec<V> {
        let body = std::mem::take(&mut self.out);
        let a = then(self);
        self.yields(&a);
        let then_text = std::mem::take(&mut self.out);
        let b = otherwise(self);
        self.yields(&b);
        let else_text = std::mem::replace(&mut self.out, body);
        let results: Vec<V> = a.iter().map(|v| self.fresh(v.ty)).collect();
        self.results(&results);
        let _ = write!(self.out, "\"scf.if\"({cond}) ({{\n{then_text}}}, {{\n{else_text}}}) : (i1) -> (");
        self.types(&results);
        self.out.push(')');
        self.end_line();
        results
    }

    /// A counted loop; `body` gets the counter and the carried values and returns the next ones.
    pub(super) fn for_loop<E>(
        &mut self,
        bounds: [V; 3],
        inits: &[V],
        body: impl FnOnce(&mut Emit, V, &[V]) -> Result<Vec<V>, E>,
    ) -> Result<Vec<V>, E> {
        let outer = std::mem::take(&mut self.out);
        let iv = self.fresh(I32);
        let carried: Vec<V> = inits.iter().map(|v| self.fresh(v.ty)).collect();
        let _ = write!(self.out, "^bb0({iv}: i32");
        for v in &carried {
            let _ = write!(self.out, ", {v}: {}", v.ty);
        }
        self.out.push_str("):\n");
        let next = body(self, iv, &carried);
        let next = match next {
            Ok(n) => n,
            Err(e) => {
                self.out = outer;
                return Err(e);
            }
        };
        self.yields(&next);
        let text = std::mem::replace(&mut self.out, outer);
        let results: Vec<V> = inits.iter().map(|v| self.fresh(v.ty)).collect();
        self.results(&results);
        let operands: Vec<V> = bounds.iter().chain(inits).copied().collect();
        self.out.push_str("\"scf.for\"(");
        self.names(&operands);
        let _ = write!(self.out, ") ({{\n{text}}}) : (");
        self.types(&operands);
        self.out.push_str(") -> (");
        self.types(&results);
        self.out.push(')');
        self.end_line();
        Ok(results)
    }

    fn yields(&mut self, vs: &[V]) {
        self.out.push_str("\"scf.yield\"(");
        self.names(vs);
        self.out.push_str(") : (");
        self.types(vs);
        self.out.push_str(") -> ()");
        self.end_line();
    }

    fn results(&mut self, vs: &[V]) {
        if !vs.is_empty() {
            self.names(vs);
            self.out.push_str(" = ");
        }
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
