//! The elementwise operations and reductions, with what they do at the edges.

/// Operations on one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[rustfmt::skip]
#[allow(missing_docs, reason = "each is the builtin of that name")]
pub enum UnaryOp {
    /// `-x`; integers wrap.
    Neg,
    /// `!x` of a bool.
    Not,
    /// `~x` of an integer.
    BitNot,
    /// Of integers (wraps at the least one) and floats.
    Abs,
    Floor, Ceil, Exp, Exp2, Log, Log2, Sqrt, Rsqrt, Sin, Cos, Tanh, Erf, Sigmoid,
}

/// Operations on two operands of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BinaryOp {
    /// Integers wrap.
    Add,
    /// Integers wrap.
    Sub,
    /// Integers wrap.
    Mul,
    /// Integers truncate toward zero, `x / 0 == 0`.
    Div,
    /// Sign of the dividend, `x % 0 == x`; floats as C's fmod.
    Rem,
    /// Integer division rounding up; `cdiv(x, 0) == 0`.
    CeilDiv,
    /// The smaller; a NaN operand loses against a number.
    Min,
    /// The larger; a NaN operand loses against a number.
    Max,
    /// Of integers bit by bit, of bools logical (both sides are evaluated).
    And,
    /// Of integers bit by bit, of bools logical (both sides are evaluated).
    Or,
    /// Of integers bit by bit, of bools `!=`.
    Xor,
    /// 0 when the distance is not below the width.
    Shl,
    /// Arithmetic for signed integers; all sign bits when the distance is not below the width.
    Shr,
}

/// Comparisons. Of floats they are ordered, except that `!=` is true with a NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are the usual ones")]
pub enum CompareOp {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

/// Reductions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReduceOp {
    /// Sum; of integers it wraps.
    Sum,
    /// Largest; NaNs lose against numbers.
    Max,
    /// Smallest; NaNs lose against numbers.
    Min,
}
