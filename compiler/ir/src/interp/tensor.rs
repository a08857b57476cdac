//! Arguments of a run: tensors in host memory, scalars, dimensions, the grid.

use super::Mode;
use super::number;
use crate::types::Elem;
use indexmap::IndexMap;

/// Numbers of a tensor's storage.
#[derive(Clone, Debug, PartialEq)]
pub enum HostData {
    /// Floats, each exact in the tensor's type unless made by [`HostTensor::unrounded`] or written in
    /// [`Mode::F64`].
    Float(Vec<f64>),
    /// Integers, sign-extended; bools are 0 or 1.
    Int(Vec<i64>),
}

/// A tensor in host memory: a strided view of its own storage.
#[derive(Clone, Debug, PartialEq)]
pub struct HostTensor {
    /// Element type.
    pub elem: Elem,
    /// Lengths; zero is allowed.
    pub shape: Vec<i64>,
    /// Elements between neighbours, any order and sign, 0 for a repeated axis.
    pub strides: Vec<i64>,
    /// Index in the storage of the element at the origin.
    pub offset: i64,
    /// Storage.
    pub data: HostData,
    /// Which elements of the storage have a value; empty if all have.
    written: Vec<bool>,
}

impl HostTensor {
    fn contiguous(elem: Elem, shape: &[i64], data: HostData) -> HostTensor {
        let strides = super::frame::row_major(shape);
        let n: i64 = shape.iter().product();
        let len = match &data {
            HostData::Float(v) => v.len(),
            HostData::Int(v) => v.len(),
        };
        assert_eq!(n as usize, len, "{shape:?} needs {n} elements");
        HostTensor { elem, shape: shape.to_vec(), strides, offset: 0, data, written: vec![] }
    }

    /// Row-major from numbers, rounded to the type.
    pub fn from_f64(elem: Elem, shape: &[i64], data: &[f64]) -> HostTensor {
        let data = match elem.is_float() {
            true => HostData::Float(data.iter().map(|x| number::round(*x, elem)).collect()),
            false => HostData::Int(data.iter().map(|x| number::wrap(*x as i64, elem)).collect()),
        };
        HostTensor::contiguous(elem, shape, data)
    }

    /// Row-major from numbers, rounded to the type.
    pub fn from_f32(elem: Elem, shape: &[i64], data: &[f32]) -> HostTensor {
        HostTensor::from_f64(elem, shape, &data.iter().map(|x| *x as f64).collect::<Vec<_>>())
    }

    /// Row-major from integers, wrapped or rounded to the type.
    pub fn from_i64(elem: Elem, shape: &[i64], data: &[i64]) -> HostTensor {
        if elem.is_float() {
            return HostTensor::from_f64(elem, shape, &data.iter().map(|x| *x as f64).collect::<Vec<_>>());
        }
        HostTensor::contiguous(
            elem,
            shape,
            HostData::Int(data.iter().map(|x| number::wrap(*x, elem)).collect()),
        )
    }

    /// Row-major from floats that are not rounded: inputs of finite differences, in [`Mode::F64`] only.
    pub fn unrounded(elem: Elem, shape: &[i64], data: &[f64]) -> HostTensor {
        HostTensor::contiguous(elem, shape, HostData::Float(data.to_vec()))
    }

    /// Row-major zeros.
    pub fn zeros(elem: Elem, shape: &[i64]) -> HostTensor {
        let n = shape.iter().product::<i64>() as usize;
        let data = if elem.is_float() { HostData::Float(vec![0.0; n]) } else { HostData::Int(vec![0; n]) };
        HostTensor::contiguous(elem, shape, data)
    }

    /// Row-major, no element has a value yet: for outputs. Reading one traps.
    pub fn uninitialised(elem: Elem, shape: &[i64]) -> HostTensor {
        let t = HostTensor::zeros(elem, shape);
        let n = shape.iter().product::<i64>() as usize;
        HostTensor { written: vec![false; n], ..t }
    }

    /// The same elements in storage of these strides and offset; what lies between them has no value.
    ///
    /// # Panics
    /// If an element would lie before the storage's start.
    pub fn with_strides(&self, strides: &[i64], offset: i64) -> HostTensor {
        let end = |t: &[i64]| t.iter().zip(&self.shape).map(|(s, n)| (s * (n - 1)).max(0)).sum::<i64>();
        let len = (offset + end(strides) + 1) as usize;
        let data = match &self.data {
            HostData::Float(_) => HostData::Float(vec![0.0; len]),
            HostData::Int(_) => HostData::Int(vec![0; len]),
        };
        let mut t = HostTensor {
            elem: self.elem,
            shape: self.shape.clone(),
            strides: strides.to_vec(),
            offset,
            data,
            written: vec![false; len],
        };
        for at in crate::layout::counted(&self.shape) {
            let (from, to) = (self.index(&at), t.index(&at));
            match (&self.data, &mut t.data) {
                (HostData::Float(a), HostData::Float(b)) => b[to] = a[from],
                (HostData::Int(a), HostData::Int(b)) => b[to] = a[from],
                _ => {}
            }
            t.written[to] = self.has_value(from);
        }
        t
    }

    fn index(&self, at: &[i64]) -> usize {
        (self.offset + at.iter().zip(&self.strides).map(|(i, s)| i * s).sum::<i64>()) as usize
    }

    /// An element as a float.
    pub fn get(&self, at: &[i64]) -> f64 {
        match &self.data {
            HostData::Float(v) => v[self.index(at)],
            HostData::Int(v) => v[self.index(at)] as f64,
        }
    }

    /// Sets an element, rounded to the type.
    pub fn set(&mut self, at: &[i64], x: f64) {
        let i = self.index(at);
        let elem = self.elem;
        match &mut self.data {
            HostData::Float(v) => v[i] = number::round(x, elem),
            HostData::Int(v) => v[i] = number::wrap(x as i64, elem),
        }
        self.mark(i);
    }

    /// Has this element a value?
    pub fn is_written(&self, at: &[i64]) -> bool {
        self.has_value(self.index(at))
    }

    /// Has every element a value?
    pub fn all_written(&self) -> bool {
        self.written.is_empty() || crate::layout::counted(&self.shape).iter().all(|at| self.is_written(at))
    }

    /// Every element in row-major order.
    pub fn to_vec(&self) -> Vec<f64> {
        crate::layout::counted(&self.shape).iter().map(|at| self.get(at)).collect()
    }

    /// Every element's bits in row-major order, all NaNs being one.
    pub fn to_bits(&self) -> Vec<u64> {
        let bits = |at: &Vec<i64>| match &self.data {
            HostData::Float(v) => number::float_bits(v[self.index(at)], self.elem),
            HostData::Int(v) => number::unsigned(v[self.index(at)], self.elem),
        };
        crate::layout::counted(&self.shape).iter().map(bits).collect()
    }

    pub(super) fn has_value(&self, index: usize) -> bool {
        self.written.is_empty() || self.written[index]
    }

    pub(super) fn mark(&mut self, index: usize) {
        if let Some(w) = self.written.get_mut(index) {
            *w = true;
        }
    }

    /// Does every element lie in the storage, and has the storage the type's form?
    pub(super) fn is_sound(&self) -> bool {
        let (len, form) = match &self.data {
            HostData::Float(v) => (v.len(), self.elem.is_float()),
            HostData::Int(v) => (v.len(), !self.elem.is_float()),
        };
        if !form || self.shape.len() != self.strides.len() || self.shape.iter().any(|n| *n < 0) {
            return false;
        }
        if !self.written.is_empty() && self.written.len() != len {
            return false;
        }
        if self.shape.contains(&0) {
            return true;
        }
        let (mut lo, mut hi) = (self.offset as i128, self.offset as i128);
        for (n, s) in self.shape.iter().zip(&self.strides) {
            let far = (*n as i128 - 1) * *s as i128;
            if far < 0 { lo += far } else { hi += far }
        }
        lo >= 0 && hi < len as i128
    }
}

/// A scalar argument.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Number {
    Int(i64),
    Float(f64),
}

/// Everything that a run needs besides the function. Arguments go by name; a dimension that is not given
/// is taken from the shapes of the tensors.
#[derive(Clone, Debug, Default)]
pub struct Launch {
    /// Programs along each axis.
    pub grid: [i64; 3],
    /// Tensors, and the results after a run.
    pub tensors: IndexMap<String, HostTensor>,
    pub(super) scalars: IndexMap<String, Number>,
}

impl Launch {
    /// A grid and no arguments.
    pub fn new(grid: [i64; 3]) -> Launch {
        Launch { grid, ..Launch::default() }
    }

    /// Adds an integer, bool or dimension.
    pub fn int(mut self, name: &str, value: i64) -> Launch {
        self.scalars.insert(name.into(), Number::Int(value));
        self
    }

    /// Adds a float; it is rounded to the argument's type.
    pub fn float(mut self, name: &str, value: f64) -> Launch {
        self.scalars.insert(name.into(), Number::Float(value));
        self
    }

    /// Adds a tensor.
    pub fn tensor(mut self, name: &str, tensor: HostTensor) -> Launch {
        self.tensors.insert(name.into(), tensor);
        self
    }

    /// A tensor by name.
    ///
    /// # Panics
    /// If there is none.
    pub fn get(&self, name: &str) -> &HostTensor {
        &self.tensors[name]
    }
}

impl Number {
    /// As a scalar argument of this type.
    pub(super) fn cells(self, elem: Elem, mode: Mode) -> Option<super::cells::Cells> {
        use super::cells::Cells;
        match self {
            Number::Int(i) if elem.is_float() => Some(Cells::float(elem, i as f64, mode)),
            Number::Int(i) => Some(Cells::ints(elem, vec![number::wrap(i, elem)])),
            Number::Float(x) if elem.is_float() => Some(Cells::float(elem, x, mode)),
            Number::Float(_) => None,
        }
    }
}
