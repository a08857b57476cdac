//! The values of a scalar or tile: one number a cell, and which of them are undefined.

use super::number;
use super::{Mode, Res, malformed};
use crate::types::Elem;
use std::rc::Rc;

/// The cell index that stands for no element.
pub(super) const HOLE: u32 = u32::MAX;

/// Which cells are undefined; `None` if all are defined.
pub(super) type Mask = Option<Rc<[bool]>>;

/// Numbers in their fastest exact form.
#[derive(Clone, Debug)]
pub(super) enum Data {
    /// Floats of at most 32 bits, in [`Mode::Exact`].
    F32(Vec<f32>),
    /// `f64`, and every float in [`Mode::F64`].
    F64(Vec<f64>),
    /// Integers, sign-extended; bools are 0 or 1.
    Int(Vec<i64>),
}

/// A scalar (one cell) or tile.
#[derive(Clone, Debug)]
pub(super) struct Cells {
    pub(super) elem: Elem,
    pub(super) data: Data,
    pub(super) poison: Mask,
}

/// Does this type live in `f32` cells?
pub(super) fn narrow(elem: Elem, mode: Mode) -> bool {
    mode == Mode::Exact && elem != Elem::F64
}

impl Cells {
    /// Defined numbers.
    pub(super) fn new(elem: Elem, data: Data) -> Cells {
        Cells { elem, data, poison: None }
    }

    /// Integers of this type.
    pub(super) fn ints(elem: Elem, data: Vec<i64>) -> Cells {
        Cells::new(elem, Data::Int(data))
    }

    /// Floats of this type, which they must fit.
    pub(super) fn floats(elem: Elem, data: Vec<f64>, mode: Mode) -> Cells {
        let data = match narrow(elem, mode) {
            true => Data::F32(data.into_iter().map(|x| x as f32).collect()),
            false => Data::F64(data),
        };
        Cells::new(elem, data)
    }

    /// One float, rounded to the type.
    pub(super) fn float(elem: Elem, x: f64, mode: Mode) -> Cells {
        Cells::floats(elem, vec![if mode == Mode::F64 { x } else { number::round(x, elem) }], mode)
    }

    /// Zeros, or false.
    pub(super) fn zeros(elem: Elem, n: usize, mode: Mode) -> Cells {
        let data = match (elem.is_float(), narrow(elem, mode)) {
            (true, true) => Data::F32(vec![0.0; n]),
            (true, false) => Data::F64(vec![0.0; n]),
            (false, _) => Data::Int(vec![0; n]),
        };
        Cells::new(elem, data)
    }

    pub(super) fn len(&self) -> usize {
        match &self.data {
            Data::F32(v) => v.len(),
            Data::F64(v) => v.len(),
            Data::Int(v) => v.len(),
        }
    }

    /// Is this cell undefined?
    pub(super) fn is_poison(&self, i: usize) -> bool {
        self.poison.as_ref().is_some_and(|p| p[i])
    }

    /// As a float; integers are converted.
    pub(super) fn f64_at(&self, i: usize) -> f64 {
        match &self.data {
            Data::F32(v) => v[i] as f64,
            Data::F64(v) => v[i],
            Data::Int(v) => v[i] as f64,
        }
    }

    /// A form in which equal means equal to the last bit, every NaN being the same.
    pub(super) fn key(&self, i: usize) -> u64 {
        match &self.data {
            Data::F32(v) if v[i].is_nan() => u64::MAX,
            Data::F64(v) if v[i].is_nan() => u64::MAX,
            Data::F32(v) => v[i].to_bits() as u64,
            Data::F64(v) => v[i].to_bits(),
            Data::Int(v) => v[i] as u64,
        }
    }

    /// The bits in memory, in the low end.
    pub(super) fn bits(&self, i: usize) -> u64 {
        match &self.data {
            Data::F32(v) => number::float_bits(v[i] as f64, self.elem),
            Data::F64(v) => number::float_bits(v[i], self.elem),
            Data::Int(v) => number::unsigned(v[i], self.elem),
        }
    }

    /// Numbers from their bits in memory.
    pub(super) fn from_bits(elem: Elem, bits: &[u64], mode: Mode) -> Cells {
        if elem.is_float() {
            return Cells::floats(
                elem,
                bits.iter().map(|b| number::float_from_bits(*b, elem)).collect(),
                mode,
            );
        }
        let one = |b: &u64| if elem == Elem::I1 { (*b != 0) as i64 } else { number::wrap(*b as i64, elem) };
        Cells::ints(elem, bits.iter().map(one).collect())
    }

    /// The integers.
    pub(super) fn as_ints(&self) -> Res<&[i64]> {
        match &self.data {
            Data::Int(v) => Ok(v),
            _ => malformed("an integer is expected, not a float"),
        }
    }

    /// The cells of these indices; a [`HOLE`] gives an undefined zero.
    pub(super) fn pick(&self, index: &[u32]) -> Cells {
        fn go<T: Copy + Default>(v: &[T], index: &[u32]) -> Vec<T> {
            index.iter().map(|i| v.get(*i as usize).copied().unwrap_or_default()).collect()
        }
        let data = match &self.data {
            Data::F32(v) => Data::F32(go(v, index)),
            Data::F64(v) => Data::F64(go(v, index)),
            Data::Int(v) => Data::Int(go(v, index)),
        };
        let bad = |i: &u32| *i == HOLE || self.is_poison(*i as usize);
        let poison = index.iter().any(bad).then(|| index.iter().map(bad).collect());
        Cells { elem: self.elem, data, poison }
    }
}

/// Undefined where either is.
pub(super) fn either(a: &Mask, b: &Mask) -> Mask {
    match (a, b) {
        (None, x) | (x, None) => x.clone(),
        (Some(x), Some(y)) if Rc::ptr_eq(x, y) => a.clone(),
        (Some(x), Some(y)) => Some(x.iter().zip(y.iter()).map(|(a, b)| *a || *b).collect()),
    }
}
