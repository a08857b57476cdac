//! What programs should compute: plain loops in f64, for the examples and the programs of the test corpus.
//!
//! Nothing here knows tiles, layouts or the compiler; the point is to be obviously right. [`Inputs::generate`] fills
//! the arguments of a case of a run header, [`check`] compares results with the reference under its tolerance.

mod attention;
mod compare;
mod formulas;
mod inputs;
mod programs;

pub use compare::{Comparison, check};
pub use inputs::{Signature, round};

use std::collections::BTreeMap;

/// Numbers in row-major order, whatever the order in memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Array {
    /// Lengths of the axes.
    pub shape: Vec<i64>,
    /// The elements.
    pub data: Vec<f64>,
}

impl Array {
    /// Zeros.
    pub fn zeros(shape: &[i64]) -> Array {
        Array { shape: shape.to_vec(), data: vec![0.0; shape.iter().product::<i64>().max(0) as usize] }
    }

    /// From a function of the position.
    pub fn build(shape: &[i64], f: &mut dyn FnMut(&[i64]) -> f64) -> Array {
        let mut out = Array::zeros(shape);
        let mut at = vec![0; shape.len()];
        for x in &mut out.data {
            *x = f(&at);
            for axis in (0..shape.len()).rev() {
                at[axis] += 1;
                if at[axis] < shape[axis] {
                    break;
                }
                at[axis] = 0;
            }
        }
        out
    }

    /// One element.
    pub fn at(&self, at: &[i64]) -> f64 {
        self.data[at.iter().zip(&self.shape).fold(0, |i, (&a, &n)| i * n + a) as usize]
    }
}

/// The arguments of a launch.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    /// What is read, by name. The numbers are exact in the tensor's type.
    pub tensors: BTreeMap<String, Array>,
    /// Scalars, by name.
    pub scalars: BTreeMap<String, f64>,
    /// Dimensions, by name.
    pub dims: BTreeMap<String, i64>,
    /// Values of generics, by name, as text.
    pub generics: BTreeMap<String, String>,
}

/// Results by name of the tensor, not rounded.
pub type Outputs = BTreeMap<String, Array>;

/// A plain computation.
pub type Reference = fn(&Inputs) -> Outputs;

/// All references by name.
pub const REFERENCES: &[(&str, Reference)] = &[
    ("vector_add", formulas::vector_add),
    ("softmax", formulas::softmax),
    ("layer_norm", formulas::layer_norm),
    ("matmul", formulas::matmul),
    ("attention_fwd", attention::forward),
    ("dot_under_if", programs::dot_under_if),
    ("two_dots", programs::two_dots),
    ("dot_of_computed", programs::dot_of_computed),
    ("chained_relu", programs::chained_relu),
    ("three_dots", programs::three_dots),
    ("stored_operand", programs::stored_operand),
    ("shifted_columns", programs::shifted_columns),
    ("carried_tiles", programs::carried_tiles),
    ("transposed_a", programs::transposed_a),
    ("scan_if", programs::scan_if),
    ("broadcasts", programs::broadcasts),
    ("column_sums", programs::column_sums),
    ("loop_bounds", programs::loop_bounds),
    ("integers", programs::integers),
];

/// The reference of this name.
pub fn reference(name: &str) -> Option<Reference> {
    REFERENCES.iter().find(|r| r.0 == name).map(|r| r.1)
}

/// The same formula with every intermediate tensor rounded to the inputs' type: what [`check`] measures the error of
/// low precision with.
pub fn low_precision(name: &str) -> Option<Reference> {
    (name == "attention_fwd").then_some(attention::forward_low as Reference)
}

impl Inputs {
    /// A tensor; empty if there is none of the name.
    pub(crate) fn tensor(&self, name: &str) -> Array {
        self.tensors.get(name).cloned().unwrap_or_default()
    }

    /// A dimension; 0 if there is none of the name.
    pub(crate) fn dim(&self, name: &str) -> i64 {
        self.dims.get(name).copied().unwrap_or(0)
    }

    /// A scalar; 0 if there is none of the name.
    pub(crate) fn scalar(&self, name: &str) -> f64 {
        self.scalars.get(name).copied().unwrap_or(0.0)
    }

    /// A generic as text.
    pub(crate) fn generic(&self, name: &str) -> &str {
        self.generics.get(name).map_or("", String::as_str)
    }
}

/// Outputs from pairs.
pub(crate) fn outputs<const N: usize>(pairs: [(&str, Array); N]) -> Outputs {
    pairs.into_iter().map(|(n, a)| (n.to_owned(), a)).collect()
}
