//! What a compilation produces: everything a runtime needs to check arguments and launch.
//!
//! An [`Artifact`] is one kernel, specialized. It holds several [`Variant`]s of its code, each with the
//! conditions under which it may run; a launch takes the first whose conditions hold. The last has none.
//! Kernel parameters are passed in the order of [`Variant::params`].

use crate::types::{Dim, Elem};
use serde::{Deserialize, Serialize};

/// Version of the JSON form; a reader refuses another.
pub const FORMAT: u32 = 1;

/// One specialized kernel, ready to launch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Artifact {
    /// [`FORMAT`].
    pub format: u32,
    /// The kernel's name in the program.
    pub kernel: String,
    /// Its doc comment.
    pub doc: String,
    /// Target name, for example `sm_90a`.
    pub target: String,
    /// Compute capability that a device must have.
    pub capability: (u32, u32),
    /// Generics and their values, in the order of declaration.
    pub specialization: Vec<(String, String)>,
    /// User scalars, in the order of declaration.
    pub scalars: Vec<ScalarParam>,
    /// Dimensions, in the order of `dims`; bound from the tensors' shapes.
    pub dims: Vec<String>,
    /// Tensors, in the order of declaration.
    pub tensors: Vec<TensorParam>,
    /// Conditions of the `where` clause.
    pub wheres: Vec<Where>,
    /// Programs along each axis, 1 to 3 of them.
    pub grid: Vec<Expr>,
    /// Code, best first.
    pub variants: Vec<Variant>,
}

/// A scalar argument.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScalarParam {
    /// Name in the program.
    pub name: String,
    /// Type in the program's spelling: `f32`, `u64`, `bool`.
    pub dtype: String,
    /// Its element type.
    pub elem: Elem,
}

/// A tensor argument.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TensorParam {
    /// Name in the program.
    pub name: String,
    /// Element type in the program's spelling.
    pub dtype: String,
    /// Its element type.
    pub elem: Elem,
    /// Length of each axis.
    pub dims: Vec<Dim>,
    /// Is it written?
    pub out: bool,
}

/// A condition on the arguments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Where {
    /// True when it holds.
    pub holds: Expr,
    /// As written in the program.
    pub text: String,
    /// Line of the program.
    pub line: u32,
}

/// A scalar expression over dimensions and scalar arguments, evaluated on the host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Expr {
    /// A constant integer.
    Int(i64),
    /// A constant float.
    Float(f64),
    /// A constant bool.
    Bool(bool),
    /// A dimension, by index.
    Dim(usize),
    /// A scalar argument, by index.
    Scalar(usize),
    /// A negation, arithmetic or logical.
    Unary(HostUnary, Box<Expr>),
    /// Two operands.
    Binary(HostBinary, Box<Expr>, Box<Expr>),
    /// `Select(cond, a, b)`.
    Select(Box<Expr>, Box<Expr>, Box<Expr>),
}

/// One operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum HostUnary {
    Neg,
    Not,
}

/// Two operands; integers as in the language (wrapping at 64 bits here, total).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum HostBinary {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
    CeilDiv,
    Min,
    Max,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    And,
    Or,
}

/// A value of a host expression.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum HostValue {
    /// Any integer.
    Int(i64),
    /// Any float.
    Float(f64),
    /// A condition.
    Bool(bool),
}

impl HostValue {
    /// The integer, if it is one.
    pub fn int(self) -> Option<i64> {
        match self {
            HostValue::Int(i) => Some(i),
            _ => None,
        }
    }
}

impl Expr {
    /// The value for these dimensions and scalars; `None` on a type mix-up, an index out of range or an
    /// integer overflow.
    pub fn eval(&self, dims: &[i64], scalars: &[HostValue]) -> Option<HostValue> {
        use HostValue::*;
        Some(match self {
            Expr::Int(i) => Int(*i),
            Expr::Float(x) => Float(*x),
            Expr::Bool(b) => Bool(*b),
            Expr::Dim(i) => Int(*dims.get(*i)?),
            Expr::Scalar(i) => *scalars.get(*i)?,
            Expr::Unary(op, a) => match (op, a.eval(dims, scalars)?) {
                (HostUnary::Neg, Int(i)) => Int(i.checked_neg()?),
                (HostUnary::Neg, Float(x)) => Float(-x),
                (HostUnary::Not, Bool(b)) => Bool(!b),
                _ => return None,
            },
            Expr::Binary(op, a, b) => host_binary(*op, a.eval(dims, scalars)?, b.eval(dims, scalars)?)?,
            Expr::Select(c, a, b) => match c.eval(dims, scalars)? {
                Bool(true) => a.eval(dims, scalars)?,
                Bool(false) => b.eval(dims, scalars)?,
                _ => return None,
            },
        })
    }
}

fn host_binary(op: HostBinary, a: HostValue, b: HostValue) -> Option<HostValue> {
    use HostBinary::*;
    use HostValue::*;
    Some(match (a, b) {
        (Int(a), Int(b)) => match op {
            Add => Int(a.checked_add(b)?),
            Sub => Int(a.checked_sub(b)?),
            Mul => Int(a.checked_mul(b)?),
            Div => Int(if b == 0 { 0 } else { a.checked_div(b)? }),
            Rem => Int(if b == 0 { a } else { a.checked_rem(b)? }),
            CeilDiv => {
                Int(if b == 0 { 0 } else { a.checked_div(b)? + ((a % b != 0 && (a < 0) == (b < 0)) as i64) })
            }
            Min => Int(a.min(b)),
            Max => Int(a.max(b)),
            Eq => Bool(a == b),
            Ne => Bool(a != b),
            Lt => Bool(a < b),
            Le => Bool(a <= b),
            Gt => Bool(a > b),
            Ge => Bool(a >= b),
            And | Or => return None,
        },
        (Float(a), Float(b)) => match op {
            Add => Float(a + b),
            Sub => Float(a - b),
            Mul => Float(a * b),
            Div => Float(a / b),
            Rem => Float(a % b),
            Min => Float(a.min(b)),
            Max => Float(a.max(b)),
            Eq => Bool(a == b),
            Ne => Bool(a != b),
            Lt => Bool(a < b),
            Le => Bool(a <= b),
            Gt => Bool(a > b),
            Ge => Bool(a >= b),
            CeilDiv | And | Or => return None,
        },
        (Bool(a), Bool(b)) => match op {
            And => Bool(a && b),
            Or => Bool(a || b),
            Eq => Bool(a == b),
            Ne => Bool(a != b),
            _ => return None,
        },
        _ => return None,
    })
}

/// One body of code.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Variant {
    /// Shown in launch reports: `tma` or `fallback`.
    pub name: String,
    /// What must hold of the arguments.
    pub requires: Vec<Requirement>,
    /// PTX text.
    pub ptx: String,
    /// Entry point in the PTX.
    pub entry: String,
    /// Threads of a CTA.
    pub threads: u32,
    /// Who runs the programs.
    #[serde(default)]
    pub persistent: Persistent,
    /// Dynamic shared memory in bytes.
    pub shared_bytes: u32,
    /// Registers a thread, once ptxas has said.
    pub registers: Option<u32>,
    /// Kernel parameters in order.
    pub params: Vec<Param>,
    /// Tensor maps to encode.
    pub tensor_maps: Vec<TensorMapSpec>,
}

/// Does a CTA run several programs? Then the CTAs stand along one axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Persistent {
    /// One CTA a program, in the grid of the kernel.
    #[default]
    No,
    /// As many CTAs as the GPU has multiprocessors, or programs if they are fewer.
    Always,
    /// The same if there are at most so many programs along the first axis; else one CTA a program.
    UpTo(u32),
}

/// A condition on the tensors of a launch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Requirement {
    /// The pointer is a multiple of 16 bytes, the stride of `contiguous` is 1, every other stride of an
    /// axis longer than 1 is positive and a multiple of 16 bytes.
    Aligned16 {
        /// Index of the tensor.
        tensor: usize,
        /// The axis whose elements are adjacent.
        contiguous: usize,
    },
    /// The axis is a whole number of 16 bytes long: a bulk store writes no less at the end of a row.
    Whole16 {
        /// Index of the tensor.
        tensor: usize,
        /// The axis whose elements are adjacent.
        axis: usize,
    },
}

/// One kernel parameter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Param {
    /// A user scalar, by index, in its own type (bool: 1 byte).
    Scalar(usize),
    /// A dimension as `i32`.
    Dim(usize),
    /// A tensor's device pointer, 64 bits.
    Pointer(usize),
    /// A stride in elements, `i64`.
    Stride {
        /// Index of the tensor.
        tensor: usize,
        /// Axis of the tensor.
        axis: usize,
    },
    /// Programs along an axis of the grid, `i32`.
    Grid(usize),
    /// A tensor map, 128 bytes by value, 64-byte aligned.
    TensorMap(usize),
}

/// How to encode a tensor map (`cuTensorMapEncodeTiled`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TensorMapSpec {
    /// Index of the tensor.
    pub tensor: usize,
    /// The map's dimensions, innermost first, as axes of the tensor.
    pub axes: Vec<usize>,
    /// Box lengths, innermost first.
    pub box_dims: Vec<u32>,
    /// Swizzle in bytes: 0, 32, 64 or 128.
    pub swizzle: u32,
}

impl Artifact {
    /// The JSON form.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// Reads the JSON form.
    pub fn from_json(text: &str) -> Result<Artifact, String> {
        let a: Artifact = serde_json::from_str(text).map_err(|e| format!("not a flashc artifact: {e}"))?;
        if a.format != FORMAT {
            return Err(format!("artifact format {} is not {FORMAT}: compile it again", a.format));
        }
        Ok(a)
    }

    /// Digest of everything that matters for a launch.
    pub fn digest(&self) -> String {
        blake3::hash(self.to_json().as_bytes()).to_hex().to_string()
    }
}
