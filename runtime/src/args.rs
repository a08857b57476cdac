//! The arguments of a launch, as the caller has them.

use crate::dtype::DType;
use std::fmt;

/// A tensor in device memory. Nothing is owned: the memory must stay valid until the launch has finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorArg<'a> {
    /// Device address of element 0.
    pub pointer: u64,
    /// Element type.
    pub dtype: DType,
    /// Length of each axis.
    pub shape: &'a [i64],
    /// Stride of each axis, in elements.
    pub strides: &'a [i64],
    /// Number of the GPU whose memory it is; −1 for host memory.
    pub device: i32,
}

impl TensorArg<'_> {
    /// Number of elements; `None` if a length is negative or the product leaves 64 bits.
    pub fn elements(&self) -> Option<i64> {
        if self.shape.contains(&0) {
            return Some(0);
        }
        self.shape.iter().try_fold(1i64, |n, &d| if d < 0 { None } else { n.checked_mul(d) })
    }
}

/// A scalar argument.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar {
    /// `true` or `false`.
    Bool(bool),
    /// An integer of any type.
    Int(i128),
    /// A float of any type.
    Float(f64),
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scalar::Bool(b) => write!(f, "{b}"),
            Scalar::Int(i) => write!(f, "{i}"),
            Scalar::Float(x) => write!(f, "{x:?}"),
        }
    }
}

impl From<bool> for Scalar {
    fn from(b: bool) -> Scalar {
        Scalar::Bool(b)
    }
}

impl From<i64> for Scalar {
    fn from(i: i64) -> Scalar {
        Scalar::Int(i.into())
    }
}

impl From<u64> for Scalar {
    fn from(i: u64) -> Scalar {
        Scalar::Int(i.into())
    }
}

impl From<f64> for Scalar {
    fn from(x: f64) -> Scalar {
        Scalar::Float(x)
    }
}

/// All arguments of a launch: each tensor and each scalar once, by position (in the order of declaration,
/// tensors and scalars counted apart) or by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Args<'a> {
    pub(crate) tensors: Vec<(Option<&'a str>, TensorArg<'a>)>,
    pub(crate) scalars: Vec<(Option<&'a str>, Scalar)>,
}

impl<'a> Args<'a> {
    /// No arguments yet.
    pub fn new() -> Args<'a> {
        Args::default()
    }

    /// Adds the next tensor.
    pub fn tensor(mut self, t: TensorArg<'a>) -> Self {
        self.push_tensor(None, t);
        self
    }

    /// Adds a tensor by name.
    pub fn named_tensor(mut self, name: &'a str, t: TensorArg<'a>) -> Self {
        self.push_tensor(Some(name), t);
        self
    }

    /// Adds the next scalar.
    pub fn scalar(mut self, s: impl Into<Scalar>) -> Self {
        self.push_scalar(None, s);
        self
    }

    /// Adds a scalar by name.
    pub fn named_scalar(mut self, name: &'a str, s: impl Into<Scalar>) -> Self {
        self.push_scalar(Some(name), s);
        self
    }

    /// Adds a tensor, in a loop.
    pub fn push_tensor(&mut self, name: Option<&'a str>, t: TensorArg<'a>) {
        self.tensors.push((name, t));
    }

    /// Adds a scalar, in a loop.
    pub fn push_scalar(&mut self, name: Option<&'a str>, s: impl Into<Scalar>) {
        self.scalars.push((name, s.into()));
    }
}

/// The strides of a tensor without gaps, last axis contiguous.
pub fn contiguous_strides(shape: &[i64]) -> Vec<i64> {
    let mut strides = vec![1; shape.len()];
    for i in (0..shape.len().saturating_sub(1)).rev() {
        strides[i] = strides[i + 1] * shape[i + 1].max(1);
    }
    strides
}
