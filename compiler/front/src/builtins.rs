//! The table of builtin functions.

use crate::hir::{BinaryOp, ReduceOp, UnaryOp};

/// A builtin function.
#[derive(Debug)]
pub struct Builtin {
    /// Its name.
    pub name: &'static str,
    /// Its parameters.
    pub params: &'static [Param],
    /// What it does, for the reference and for help lines.
    pub doc: &'static str,
    /// How it is checked.
    pub op: Op,
}

/// A parameter of a builtin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Param {
    /// Its name, by which it may be given.
    pub name: &'static str,
    /// Whether and how it has to be given.
    pub need: Need,
}

/// Whether and how a parameter has to be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// In its place or by name.
    Required,
    /// Always by name.
    ByName,
    /// By name, or not at all.
    Optional,
}

/// What a builtin is, to the checker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the builtin of that name")]
pub enum Op {
    /// On floats, elementwise.
    Float(UnaryOp),
    Abs,
    /// On numbers, elementwise.
    Binary(BinaryOp),
    Clamp,
    Fma,
    Select,
    Cast,
    /// `zeros` and `ones`
    Fill(u8),
    Full,
    Iota,
    Reduce(ReduceOp),
    Dot,
    Trans,
    Permute,
    Reshape,
    BroadcastTo,
    ProgramId,
    NumPrograms,
}

const fn req(name: &'static str) -> Param {
    Param { name, need: Need::Required }
}

const X: &[Param] = &[req("x")];
const AB: &[Param] = &[req("a"), req("b")];
const X_AXIS: &[Param] = &[req("x"), Param { name: "axis", need: Need::ByName }];
const X_SHAPE: &[Param] = &[req("x"), req("shape")];
const TYPE_SHAPE: &[Param] = &[req("type"), req("shape")];

const fn row(name: &'static str, params: &'static [Param], op: Op, doc: &'static str) -> Builtin {
    Builtin { name, params, doc, op }
}

/// All builtins.
#[rustfmt::skip]
pub const BUILTINS: &[Builtin] = &[
    row("program_id", &[], Op::ProgramId, "this program's place in the grid: one i32 for each axis of the grid"),
    row("num_programs", &[], Op::NumPrograms, "the extent of the grid: one i32 for each axis"),
    row("zeros", TYPE_SHAPE, Op::Fill(0), "a tile of zeros: `zeros(f32, [BM, D])`"),
    row("ones", TYPE_SHAPE, Op::Fill(1), "a tile of ones: `ones(f32, [BM])`"),
    row("full", &[req("value"), req("type"), req("shape")], Op::Full, "a tile of one value: `full(-inf, f32, [BM])`"),
    row("iota", &[req("length")], Op::Iota, "0, 1, ... as an i32 tile: `iota(BM)`"),
    row("cast", &[req("x"), req("type")], Op::Cast, "to another element type: `cast(x, bf16)`; floats round to nearest even, to fp8 they saturate, float to integer truncates and saturates"),
    row("select", &[req("cond"), req("a"), req("b")], Op::Select, "`a` where `cond` is true, else `b`, element by element"),
    row("minimum", AB, Op::Binary(BinaryOp::Min), "the smaller of two, element by element; a NaN loses against a number"),
    row("maximum", AB, Op::Binary(BinaryOp::Max), "the larger of two, element by element; a NaN loses against a number"),
    row("clamp", &[req("x"), req("lo"), req("hi")], Op::Clamp, "`minimum(maximum(x, lo), hi)`"),
    row("cdiv", AB, Op::Binary(BinaryOp::CeilDiv), "integer division rounding up; `cdiv(x, 0) == 0`"),
    row("fma", &[req("a"), req("b"), req("c")], Op::Fma, "`a * b + c` rounded once; floats"),
    row("abs", X, Op::Abs, "absolute value"),
    row("exp", X, Op::Float(UnaryOp::Exp), "e to the x"),
    row("exp2", X, Op::Float(UnaryOp::Exp2), "2 to the x"),
    row("log", X, Op::Float(UnaryOp::Log), "natural logarithm"),
    row("log2", X, Op::Float(UnaryOp::Log2), "logarithm to base 2"),
    row("sqrt", X, Op::Float(UnaryOp::Sqrt), "square root"),
    row("rsqrt", X, Op::Float(UnaryOp::Rsqrt), "1 over the square root"),
    row("sin", X, Op::Float(UnaryOp::Sin), "sine"),
    row("cos", X, Op::Float(UnaryOp::Cos), "cosine"),
    row("tanh", X, Op::Float(UnaryOp::Tanh), "hyperbolic tangent"),
    row("erf", X, Op::Float(UnaryOp::Erf), "error function"),
    row("sigmoid", X, Op::Float(UnaryOp::Sigmoid), "1 / (1 + exp(-x))"),
    row("floor", X, Op::Float(UnaryOp::Floor), "largest whole number not above x"),
    row("ceil", X, Op::Float(UnaryOp::Ceil), "smallest whole number not below x"),
    row("sum", X_AXIS, Op::Reduce(ReduceOp::Sum), "sum along an axis: `sum(x, axis = 1)`"),
    row("max", X_AXIS, Op::Reduce(ReduceOp::Max), "largest along an axis: `max(x, axis = 1)`; of two values: `maximum(a, b)`"),
    row("min", X_AXIS, Op::Reduce(ReduceOp::Min), "smallest along an axis: `min(x, axis = 1)`; of two values: `minimum(a, b)`"),
    row("dot", &[req("a"), req("b"), Param { name: "acc", need: Need::Optional }], Op::Dot, "matrix product of f16 or bf16 tiles into f32: `dot(a, b, acc = c)`"),
    row("trans", X, Op::Trans, "a tile with its two axes swapped"),
    row("permute", &[req("x"), req("order")], Op::Permute, "axes in another order: `permute(x, [1, 0, 2])`"),
    row("reshape", X_SHAPE, Op::Reshape, "the same elements, row by row, under another shape: `reshape(x, [BM, 2, D / 2])`"),
    row("broadcast_to", X_SHAPE, Op::BroadcastTo, "axes of length 1 repeated: `broadcast_to(x[:, None], [BM, BN])`"),
];

/// The builtin of that name.
pub fn find(name: &str) -> Option<&'static Builtin> {
    BUILTINS.iter().find(|b| b.name == name)
}

impl Builtin {
    /// How it is called: `max(x, axis = ..)`.
    pub fn signature(&self) -> String {
        let params: Vec<String> = self
            .params
            .iter()
            .map(|p| match p.need {
                Need::Required => p.name.to_owned(),
                Need::ByName => format!("{} = ..", p.name),
                Need::Optional => format!("[{} = ..]", p.name),
            })
            .collect();
        format!("{}({})", self.name, params.join(", "))
    }
}
