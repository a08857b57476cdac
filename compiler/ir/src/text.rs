//! MLIR text: prints a [`Func`] in MLIR's generic syntax, and reads types and attributes back.
//!
//! Writing a function to MLIR is printing it here and letting MLIR parse and verify it; reading one is
//! a walk in `flashc-mlir` that hands names and attribute texts to [`kind_from_mlir`].

use crate::func::{Block, Func, Loc, Op, ValueId};
use crate::layout::{Layout, Shared};
use crate::ops::*;
use crate::types::*;
use std::fmt::{self, Write};

/// A module with this one function, in generic syntax.
pub fn print_module(func: &Func) -> String {
    let mut p = Printer { func, out: String::with_capacity(256 * func.values.len()) };
    p.out.push_str("\"builtin.module\"() ({\n");
    p.function();
    p.out.push_str("}) : () -> ()\n");
    p.out
}

struct Printer<'a> {
    func: &'a Func,
    out: String,
}

impl Printer<'_> {
    fn function(&mut self) {
        let f = self.func;
        let _ = write!(self.out, "\"func.func\"() <{{function_type = (");
        for (i, a) in f.body.args.iter().enumerate() {
            let _ = write!(self.out, "{}{}", sep(i), f.ty(*a));
        }
        let _ = write!(self.out, ") -> (), sym_name = \"{}\"}}> ({{\n^bb0(", f.name);
        self.block_args(&f.body);
        self.out.push_str("):\n");
        self.ops(&f.body);
        self.out.push_str("}) {tile.args = [");
        for (i, n) in f.arg_names.iter().enumerate() {
            let _ = write!(self.out, "{}\"{n}\"", sep(i));
        }
        self.out.push(']');
        if let Some(w) = f.warps {
            let _ = write!(self.out, ", tile.warps = {w} : i64");
        }
        if let Some(s) = f.shared_bytes {
            let _ = write!(self.out, ", tile.shared_bytes = {s} : i64");
        }
        self.out.push_str("} : () -> ()");
        self.loc(&f.loc);
    }

    fn block_args(&mut self, b: &Block) {
        for (i, a) in b.args.iter().enumerate() {
            let _ = write!(self.out, "{}%{}: {}", sep(i), a.0, self.func.ty(*a));
        }
    }

    fn ops(&mut self, b: &Block) {
        for op in &b.ops {
            self.op(op, false);
        }
    }

    fn values(&mut self, vs: &[ValueId]) {
        for (i, v) in vs.iter().enumerate() {
            let _ = write!(self.out, "{}%{}", sep(i), v.0);
        }
    }

    fn types(&mut self, vs: &[ValueId]) {
        for (i, v) in vs.iter().enumerate() {
            let _ = write!(self.out, "{}{}", sep(i), self.func.ty(*v));
        }
    }

    /// `in_role`: it stands directly in a role, where `scf.yield` may not.
    fn op(&mut self, op: &Op, in_role: bool) {
        let (mut name, inherent, discardable) = mlir_op(self.func, op);
        if in_role && op.kind == Kind::Yield {
            name = "sm90.end".into();
        }
        self.values(&op.results);
        let _ = write!(self.out, "{}\"{name}\"(", if op.results.is_empty() { "" } else { " = " });
        self.values(&op.operands);
        self.out.push(')');
        if !inherent.is_empty() {
            let _ = write!(self.out, " <{{{inherent}}}>");
        }
        for (i, r) in op.regions.iter().enumerate() {
            self.out.push_str(if i == 0 { " ({\n" } else { "}, {\n" });
            if !r.args.is_empty() {
                self.out.push_str("^bb0(");
                self.block_args(r);
                self.out.push_str("):\n");
            }
            for inner in &r.ops {
                self.op(inner, matches!(op.kind, Kind::Roles { .. }));
            }
        }
        if !op.regions.is_empty() {
            self.out.push_str("})");
        }
        if !discardable.is_empty() {
            let _ = write!(self.out, " {{{discardable}}}");
        }
        self.out.push_str(" : (");
        self.types(&op.operands);
        self.out.push_str(") -> (");
        self.types(&op.results);
        self.out.push(')');
        self.loc(&op.loc);
    }

    fn loc(&mut self, l: &Loc) {
        let _ = writeln!(self.out, " loc({:?}:{}:{})", l.file, l.line, l.column);
    }
}

fn sep(i: usize) -> &'static str {
    if i == 0 { "" } else { ", " }
}

/// Does the operation's MLIR name take the tile form?
fn on_tile(func: &Func, op: &Op) -> bool {
    op.results.first().is_some_and(|r| matches!(func.ty(*r), Type::Tile(_)))
}

/// Name, inherent attributes, discardable attributes.
fn mlir_op(func: &Func, op: &Op) -> (String, String, String) {
    let name = op.kind.mlir_name(on_tile(func, op));
    let mut discardable = String::new();
    let inherent = match &op.kind {
        Kind::Constant(l) => {
            format!("value = {}", literal(*l, func.ty(op.result()).elem().unwrap_or(Elem::I32)))
        }
        Kind::Compare(p) => format!("predicate = \"{p}\""),
        Kind::ProgramId(axis) | Kind::NumPrograms(axis) => format!("axis = {axis} : i64"),
        Kind::For { unordered } => {
            if *unordered {
                discardable = "tile.unordered".into();
            }
            String::new()
        }
        Kind::Broadcast { dims } => format!("dims = {}", array(dims)),
        Kind::Reduce { op, axis } => format!("axis = {axis} : i64, op = \"{op}\""),
        Kind::CtaCount { up_to } => up_to.map(|n| format!("up_to = {n} : i64")).unwrap_or_default(),
        Kind::Fold { op } => format!("op = \"{op}\""),
        Kind::Rows { part } => format!("part = {part} : i64"),
        Kind::Load { axes } | Kind::Store { axes } | Kind::TmaLoad { axes } => {
            format!("axes = {}", array(axes))
        }
        Kind::TmaStore { axes, wgm, wgn } => {
            format!("axes = {}, wgm = {wgm} : i64, wgn = {wgn} : i64", array(axes))
        }
        Kind::TmaStoreWait { pending, read } => {
            format!("pending = {pending} : i64{}", if *read { ", read" } else { "" })
        }
        Kind::Alloc { offset } => offset.map(|o| format!("offset = {o} : i64")).unwrap_or_default(),
        Kind::BarrierAlloc { count, offset } => {
            let offset = offset.map(|o| format!(", offset = {o} : i64")).unwrap_or_default();
            format!("count = {count} : i64{offset}")
        }
        Kind::Wgmma { trans_a, trans_b, acc: _ } => {
            let flags: Vec<_> = [(*trans_a, "trans_a"), (*trans_b, "trans_b")]
                .into_iter()
                .filter(|f| f.0)
                .map(|f| f.1)
                .collect();
            flags.join(", ")
        }
        Kind::WgmmaWait { pending } => format!("pending = {pending} : i64"),
        Kind::Roles { roles } => {
            let each = |f: &dyn Fn(&Role) -> String| roles.iter().map(f).collect::<Vec<_>>().join(", ");
            format!(
                "names = [{}], warps = array<i64: {}>, registers = array<i64: {}>",
                each(&|r| format!("\"{}\"", r.name)),
                each(&|r| r.warps.to_string()),
                each(&|r| r.registers.to_string())
            )
        }
        Kind::TurnWait { turns } | Kind::TurnPass { turns } => format!("turns = {turns} : i64"),
        _ => String::new(),
    };
    (name, inherent, discardable)
}

fn array(v: &[usize]) -> String {
    let items: Vec<_> = v.iter().map(|x| x.to_string()).collect();
    if items.is_empty() { "array<i64>".into() } else { format!("array<i64: {}>", items.join(", ")) }
}

/// A typed MLIR attribute. Floats are written as bit patterns: exact, infinities and NaN included.
fn literal(l: Literal, elem: Elem) -> String {
    match l {
        Literal::Int(i) if elem == Elem::I1 => if i != 0 { "true" } else { "false" }.into(),
        Literal::Int(i) => format!("{i} : {elem}"),
        Literal::Float(x) => match elem {
            Elem::F64 => format!("0x{:016X} : f64", x.to_bits()),
            Elem::F16 => format!("0x{:04X} : f16", half::f16::from_f64(x).to_bits()),
            Elem::BF16 => format!("0x{:04X} : bf16", half::bf16::from_f64(x).to_bits()),
            _ => format!("0x{:08X} : f32", (x as f32).to_bits()),
        },
    }
}

/// A text that is not what the IR's own printer would have written.
#[derive(Debug, Clone, thiserror::Error)]
#[error("cannot read `{text}`: {why}")]
pub struct TextError {
    /// The offending text.
    pub text: String,
    /// What was expected.
    pub why: String,
}

fn bad<T>(text: &str, why: impl fmt::Display) -> Result<T, TextError> {
    Err(TextError { text: text.into(), why: why.to_string() })
}

/// The [`Kind`] of an MLIR operation. `attr` gives the text of an attribute as MLIR prints it;
/// `operands` counts operands (the accumulator of a `wgmma` is optional).
pub fn kind_from_mlir(
    name: &str,
    operands: usize,
    attr: &dyn Fn(&str) -> Option<String>,
) -> Result<Kind, TextError> {
    let int = |key: &str| -> Result<i64, TextError> {
        let t = attr(key).unwrap_or_default();
        t.split(':').next().unwrap_or("").trim().parse().or_else(|_| bad(name, format!("attribute {key}")))
    };
    let optional = |key: &str| attr(key).map(|_| int(key)).transpose();
    let string = |key: &str| attr(key).unwrap_or_default().trim_matches('"').to_string();
    let ints = |key: &str| -> Result<Vec<usize>, TextError> {
        let t = attr(key).unwrap_or_default();
        let inner = t.trim_start_matches("array<i64").trim_end_matches('>').trim_start_matches(':');
        let items = inner.split(',').map(str::trim).filter(|s| !s.is_empty());
        items.map(|s| s.parse().or_else(|_| bad(&t, "an array of integers"))).collect()
    };
    let (dialect, op) = name.split_once('.').unwrap_or(("", name));
    Ok(match (dialect, op) {
        ("arith", "constant") => Kind::Constant(read_literal(&attr("value").unwrap_or_default())?),
        ("arith" | "tile", "select") => Kind::Select,
        ("tile", "cmp") => match Predicate::from_name(&string("predicate")) {
            Some(p) => Kind::Compare(p),
            None => return bad(name, "a predicate"),
        },
        ("tile", "fma") => Kind::Fma,
        ("tile", "program_id") => Kind::ProgramId(int("axis")? as usize),
        ("tile", "num_programs") => Kind::NumPrograms(int("axis")? as usize),
        ("tile", "cta_index") => Kind::CtaIndex,
        ("tile", "cta_count") => Kind::CtaCount { up_to: optional("up_to")? },
        ("scf", "for") => Kind::For { unordered: attr("tile.unordered").is_some() },
        ("scf", "if") => Kind::If,
        ("scf", "yield") | ("sm90", "end") => Kind::Yield,
        ("func", "return") => Kind::Return,
        ("tile", "splat") => Kind::Splat,
        ("tile", "iota") => Kind::Iota,
        ("tile", "broadcast") => Kind::Broadcast { dims: ints("dims")? },
        ("tile", "reshape") => Kind::Reshape,
        ("tile", "trans") => Kind::Trans,
        ("tile", "reduce") => match ReduceOp::from_name(&string("op")) {
            Some(op) => Kind::Reduce { op, axis: int("axis")? as usize },
            None => return bad(name, "a reduction"),
        },
        ("tile", "fold") => match ReduceOp::from_name(&string("op")) {
            Some(op) => Kind::Fold { op },
            None => return bad(name, "a reduction"),
        },
        ("tile", "rows") => Kind::Rows { part: int("part")? as usize },
        ("tile", "join_rows") => Kind::JoinRows,
        ("tile", "dot") => Kind::Dot,
        ("tile", "load") => Kind::Load { axes: ints("axes")? },
        ("tile", "load_scalar") => Kind::LoadScalar,
        ("tile", "store") => Kind::Store { axes: ints("axes")? },
        ("tile", "store_scalar") => Kind::StoreScalar,
        ("tile", "convert") => Kind::Convert,
        ("sm90", "alloc") => Kind::Alloc { offset: optional("offset")? },
        ("sm90", "barrier_alloc") => Kind::BarrierAlloc { count: int("count")?, offset: optional("offset")? },
        ("sm90", "tma_load") => Kind::TmaLoad { axes: ints("axes")? },
        ("sm90", "tma_store") => Kind::TmaStore { axes: ints("axes")?, wgm: int("wgm")?, wgn: int("wgn")? },
        ("sm90", "tma_store_wait") => {
            Kind::TmaStoreWait { pending: int("pending")?, read: attr("read").is_some() }
        }
        ("sm90", "barrier_wait") => Kind::BarrierWait,
        ("sm90", "local_store") => Kind::LocalStore,
        ("sm90", "local_load") => Kind::LocalLoad,
        ("sm90", "wgmma") => Kind::Wgmma {
            trans_a: attr("trans_a").is_some(),
            trans_b: attr("trans_b").is_some(),
            acc: operands == 3,
        },
        ("sm90", "wgmma_wait") => Kind::WgmmaWait { pending: int("pending")? },
        ("sm90", "roles") => {
            let (warps, registers) = (ints("warps")?, ints("registers")?);
            let names = attr("names").unwrap_or_default();
            let names =
                names.trim_matches(['[', ']']).split(',').map(|n| n.trim().trim_matches('"').to_string());
            let roles = names.zip(warps.iter().zip(&registers));
            let role = |(name, (w, r)): (String, (&usize, &usize))| Role {
                name,
                warps: *w as i64,
                registers: *r as i64,
            };
            Kind::Roles { roles: roles.map(role).collect() }
        }
        ("sm90", "slot") => Kind::Slot,
        ("sm90", "barrier_arrive") => Kind::BarrierArrive,
        ("sm90", "turn_wait") => Kind::TurnWait { turns: int("turns")? },
        ("sm90", "turn_pass") => Kind::TurnPass { turns: int("turns")? },
        ("sm90", "fence_async") => Kind::FenceAsync,
        ("sm90", "cta_barrier") => Kind::CtaBarrier,
        ("sm90", "group_barrier") => Kind::GroupBarrier,
        ("arith" | "tile", _) => {
            if let Some(op) = BinaryOp::from_name(op) {
                Kind::Binary(op)
            } else if let (Some(op), "tile") = (UnaryOp::from_name(op), dialect) {
                Kind::Unary(op)
            } else if let (Some(op), "tile") = (CastOp::from_name(op), dialect) {
                Kind::Cast(op)
            } else if let Some(k) = from_folded_arith(op, &string("predicate"), &int) {
                k
            } else {
                return bad(name, "an operation of these levels");
            }
        }
        _ => return bad(name, "an operation of these levels"),
    })
}

/// What upstream canonicalization may turn our scalars into.
fn from_folded_arith(
    op: &str,
    _predicate: &str,
    int: &dyn Fn(&str) -> Result<i64, TextError>,
) -> Option<Kind> {
    use Predicate::*;
    match op {
        "cmpi" => {
            let by_code = [Eq, Ne, Slt, Sle, Sgt, Sge, Ult, Ule, Ugt, Uge];
            by_code.get(int("predicate").ok()? as usize).map(|p| Kind::Compare(*p))
        }
        "extui" => Some(Kind::Cast(CastOp::ExtUI)),
        "extsi" => Some(Kind::Cast(CastOp::ExtSI)),
        "trunci" => Some(Kind::Cast(CastOp::TruncI)),
        _ => None,
    }
}

/// A constant as MLIR prints it: `3 : i32`, `true`, `0x7F800000 : f32`, `1.000000e+00 : f32`.
fn read_literal(text: &str) -> Result<Literal, TextError> {
    if text == "true" || text == "false" {
        return Ok(Literal::Int((text == "true") as i64));
    }
    let Some((value, ty)) = text.rsplit_once(" : ") else { return bad(text, "a typed constant") };
    let Some(elem) = Elem::from_mlir(ty) else { return bad(text, "a scalar type") };
    if !elem.is_float() {
        return value.parse().map(Literal::Int).or_else(|_| bad(text, "an integer"));
    }
    let float = if let Some(hex) = value.strip_prefix("0x") {
        let bits = u64::from_str_radix(hex, 16).or_else(|_| bad(text, "a bit pattern"))?;
        match elem {
            Elem::F64 => f64::from_bits(bits),
            Elem::F16 => half::f16::from_bits(bits as u16).to_f64(),
            Elem::BF16 => half::bf16::from_bits(bits as u16).to_f64(),
            _ => f32::from_bits(bits as u32) as f64,
        }
    } else {
        value.parse().or_else(|_| bad(text, "a float"))?
    };
    Ok(Literal::Float(float))
}

impl std::str::FromStr for Type {
    type Err = TextError;
    fn from_str(s: &str) -> Result<Type, TextError> {
        let mut p = Reader { s, at: 0 };
        let t = p.ty()?;
        if p.rest().trim().is_empty() { Ok(t) } else { bad(s, "the end of the type") }
    }
}

struct Reader<'a> {
    s: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        &self.s[self.at..]
    }

    fn eat(&mut self, t: &str) -> bool {
        let skip = self.rest().len() - self.rest().trim_start().len();
        let found = self.rest()[skip..].starts_with(t);
        if found {
            self.at += skip + t.len();
        }
        found
    }

    fn want(&mut self, t: &str) -> Result<(), TextError> {
        if self.eat(t) { Ok(()) } else { bad(self.s, format!("`{t}` at byte {}", self.at)) }
    }

    fn word(&mut self) -> &'a str {
        self.eat("");
        let rest = self.rest().trim_start();
        let start = self.s.len() - rest.len();
        let n = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        self.at = start + n;
        &rest[..n]
    }

    fn int(&mut self) -> Result<i64, TextError> {
        let w = self.word();
        w.parse().or_else(|_| bad(self.s, format!("an integer, not `{w}`")))
    }

    fn quoted(&mut self) -> Result<String, TextError> {
        self.want("\"")?;
        let n = self.rest().find('"').map_or_else(|| bad(self.s, "a closing quote"), Ok)?;
        let t = self.rest()[..n].to_string();
        self.at += n + 1;
        Ok(t)
    }

    fn elem(&mut self) -> Result<Elem, TextError> {
        let w = self.word();
        Elem::from_mlir(w).map_or_else(|| bad(self.s, format!("an element type, not `{w}`")), Ok)
    }

    /// `128x64xbf16`
    fn shaped(&mut self) -> Result<(Vec<i64>, Elem), TextError> {
        let w = self.word();
        let mut parts: Vec<_> = w.split('x').collect();
        let elem = parts.pop().and_then(Elem::from_mlir);
        let shape: Result<Vec<i64>, _> = parts.iter().map(|p| p.parse()).collect();
        match (elem, shape) {
            (Some(e), Ok(s)) => Ok((s, e)),
            _ => bad(self.s, format!("lengths and an element type, not `{w}`")),
        }
    }

    fn ty(&mut self) -> Result<Type, TextError> {
        if self.eat("!tile.tile<") {
            let (shape, elem) = self.shaped()?;
            let layout = if self.eat(",") { Some(self.layout()?) } else { None };
            self.want(">")?;
            Ok(Type::Tile(TileType { shape, elem, layout }))
        } else if self.eat("!tile.tensor<") {
            let name = self.quoted()?;
            self.want(",")?;
            self.want("[")?;
            let mut dims = vec![];
            while !self.eat("]") {
                let d = self.quoted()?;
                dims.push(d.parse().map(Dim::Const).unwrap_or(Dim::Sym(d)));
                self.eat(",");
            }
            self.want(",")?;
            let elem = self.elem()?;
            self.want(">")?;
            Ok(Type::Tensor(TensorType { name, dims, elem }))
        } else if self.eat("!sm90.buffer<") {
            let (shape, elem) = self.shaped()?;
            self.want(",")?;
            self.want("#tile.shared<")?;
            self.want("swizzle")?;
            self.want("=")?;
            let swizzle = self.int()?;
            self.want(">")?;
            self.want(">")?;
            Ok(Type::Buffer(BufferType { shape, elem, layout: Shared { swizzle } }))
        } else if self.eat("!sm90.ring<") {
            let n = self.int()?;
            self.want(",")?;
            let inner = self.ty()?;
            self.want(">")?;
            match inner {
                Type::Buffer(b) => Ok(Type::Ring(b, n)),
                _ => bad(self.s, "a ring of buffers"),
            }
        } else if self.eat("!sm90.barrier_ring<") {
            let n = self.int()?;
            self.want(">")?;
            Ok(Type::BarrierRing(n))
        } else if self.eat("!sm90.barrier") {
            Ok(Type::Barrier)
        } else if self.eat("!sm90.inflight<") {
            let inner = self.ty()?;
            self.want(">")?;
            match inner {
                Type::Tile(t) => Ok(Type::InFlight(t)),
                _ => bad(self.s, "a tile in flight"),
            }
        } else {
            Ok(Type::Scalar(self.elem()?))
        }
    }

    fn field(&mut self, name: &str) -> Result<(), TextError> {
        self.want(name)?;
        self.want("=")
    }

    fn list(&mut self) -> Result<Vec<i64>, TextError> {
        self.want("[")?;
        let mut v = vec![];
        while !self.eat("]") {
            v.push(self.int()?);
            self.eat(",");
        }
        Ok(v)
    }

    /// `wgm = 2, wgn = 1`
    fn warpgroups(&mut self) -> Result<(i64, i64), TextError> {
        self.field("wgm")?;
        let wgm = self.int()?;
        self.want(",")?;
        self.field("wgn")?;
        Ok((wgm, self.int()?))
    }

    fn layout(&mut self) -> Result<Layout, TextError> {
        let l = if self.eat("#tile.acc<") {
            let (wgm, wgn) = self.warpgroups()?;
            Layout::Acc { wgm, wgn }
        } else if self.eat("#tile.acc_half<") {
            let (wgm, wgn) = self.warpgroups()?;
            Layout::AccHalf { wgm, wgn }
        } else if self.eat("#tile.acc_runs<") {
            let (wgm, wgn) = self.warpgroups()?;
            self.want(",")?;
            self.field("run")?;
            Layout::AccRuns { wgm, wgn, run: self.int()? }
        } else if self.eat("#tile.slice<") {
            self.field("dim")?;
            let dim = self.int()? as usize;
            self.want(",")?;
            self.field("parent")?;
            Layout::Slice { dim, parent: Box::new(self.layout()?) }
        } else if self.eat("#tile.blocked<") {
            self.field("per_thread")?;
            let per_thread = self.list()?;
            self.want(",")?;
            self.field("lanes")?;
            let lanes = self.list()?;
            self.want(",")?;
            self.field("warps")?;
            Layout::Blocked { per_thread, lanes, warps: self.list()? }
        } else {
            return bad(self.s, "a layout");
        };
        self.want(">")?;
        Ok(l)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_round_trip() {
        let acc = Layout::Acc { wgm: 2, wgn: 1 };
        let blocked = Layout::Blocked { per_thread: vec![1, 8], lanes: vec![2, 16], warps: vec![4, 1] };
        let runs = Layout::AccRuns { wgm: 1, wgn: 2, run: 8 };
        let types = [
            Type::I32,
            Type::tile(&[128, 64], Elem::BF16),
            Type::Tile(TileType::new(&[128], Elem::F32).with_layout(acc.slice(1))),
            Type::Tile(TileType::new(&[8, 128], Elem::E4M3).with_layout(blocked)),
            Type::Tensor(TensorType {
                name: "q".into(),
                dims: vec![Dim::Sym("B".into()), Dim::Const(64)],
                elem: Elem::F16,
            }),
            Type::Buffer(BufferType {
                shape: vec![128, 64],
                elem: Elem::BF16,
                layout: Shared { swizzle: 128 },
            }),
            Type::Tile(TileType::new(&[64, 128], Elem::F16).with_layout(runs)),
            Type::Barrier,
            Type::InFlight(TileType::new(&[64, 64], Elem::F32).with_layout(acc)),
        ];
        for t in types {
            assert_eq!(t.to_string().parse::<Type>().unwrap(), t);
        }
        for bad in
            ["", "i3", "!tile.tile<4x>", "!tile.tile<4xf32", "!tile.tile<4xf32>x", "!sm90.inflight<i32>"]
        {
            assert!(bad.parse::<Type>().is_err(), "{bad}");
        }
    }

    #[test]
    fn literals_round_trip() {
        for (l, e) in [
            (Literal::Int(-7), Elem::I32),
            (Literal::Int(1), Elem::I1),
            (Literal::Float(f64::NEG_INFINITY), Elem::F32),
            (Literal::Float(1.5), Elem::BF16),
            (Literal::Float(std::f64::consts::LOG2_E), Elem::F64),
        ] {
            assert_eq!(read_literal(&literal(l, e)).unwrap(), l);
        }
    }
}
