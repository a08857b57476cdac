//! Loads and stores of tensors in global memory. Elements out of range read as zero and swallow writes.

use super::cells::{Cells, HOLE};
use super::frame::row_major;
use super::program::{Machine, Value};
use super::tensor::{HostData, HostTensor};
use super::{Res, TrapKind, malformed, number, stop};
use crate::func::Op;

/// Where each element of a tile lies in a tensor's storage; `None` for out of range.
pub(super) fn addresses(
    t: &HostTensor,
    start: &[i64],
    axes: &[usize],
    shape: &[i64],
) -> Res<Vec<Option<usize>>> {
    let rank = t.shape.len();
    let ascending = axes.windows(2).all(|w| w[0] < w[1]);
    if start.len() != rank || axes.len() != shape.len() || !ascending || axes.iter().any(|a| *a >= rank) {
        return malformed(format!("axes {axes:?} and {} indices for a tensor of rank {rank}", start.len()));
    }
    let fixed = |d: &usize| !axes.contains(d);
    let outside = (0..rank).filter(fixed).any(|d| start[d] < 0 || start[d] >= t.shape[d]);
    let base: i64 =
        t.offset + (0..rank).filter(fixed).map(|d| start[d].wrapping_mul(t.strides[d])).sum::<i64>();
    let n: i64 = shape.iter().product();
    if outside {
        return Ok(vec![None; n as usize]);
    }
    let steps = row_major(shape);
    let one = |e: i64| {
        let mut at = base;
        for (i, axis) in axes.iter().enumerate() {
            let x = start[*axis] + e / steps[i] % shape[i];
            if x < 0 || x >= t.shape[*axis] {
                return None;
            }
            at += x * t.strides[*axis];
        }
        Some(at as usize)
    };
    Ok((0..n).map(one).collect())
}

impl Machine<'_> {
    /// The tensor's number and the index operands that follow it.
    pub(super) fn tensor_and_start(&self, op: &Op) -> Res<(usize, Vec<i64>)> {
        let t = match self.value(op, 0)? {
            Value::Tensor(t) => *t,
            _ => return malformed("the first operand is not a tensor"),
        };
        let rank = self.tensor(t).shape.len();
        let start = (1..=rank).map(|i| self.int(op, i)).collect::<Res<_>>()?;
        Ok((t, start))
    }

    fn read(&self, t: usize, at: &[Option<usize>]) -> Res<Cells> {
        if let Some(i) = at.iter().flatten().find(|i| self.shared.stores.lands_at(t, **i)) {
            let why =
                format!("element {i} of `{}` is read while a copy to it is in flight", self.tensor_name(t));
            return stop(TrapKind::CopyInFlight, why);
        }
        let tensor = self.tensor(t);
        if let Some(i) = at.iter().flatten().find(|i| !tensor.has_value(**i)) {
            return stop(
                TrapKind::Uninitialised,
                format!("element {i} of `{}` is read before anything wrote it", self.tensor_name(t)),
            );
        }
        Ok(match &tensor.data {
            HostData::Float(v) => {
                let v = at.iter().map(|a| a.map_or(0.0, |i| v[i])).collect();
                Cells::floats(tensor.elem, v, self.options.mode)
            }
            HostData::Int(v) => Cells::ints(tensor.elem, at.iter().map(|a| a.map_or(0, |i| v[i])).collect()),
        })
    }

    fn write(&mut self, t: usize, at: &[Option<usize>], values: &Cells) -> Res<()> {
        if let Some(e) = (0..at.len()).find(|e| at[*e].is_some() && values.is_poison(*e)) {
            return stop(
                TrapKind::Poison,
                format!("element {e} stored to `{}` has no defined value", self.tensor_name(t)),
            );
        }
        if let Some(i) = at.iter().flatten().find(|i| self.shared.stores.lands_at(t, **i)) {
            let why =
                format!("element {i} of `{}` is stored while a copy to it is in flight", self.tensor_name(t));
            return stop(TrapKind::CopyInFlight, why);
        }
        let tensor = self.tensor_mut(t);
        if tensor.elem != values.elem {
            return malformed(format!("{} stored to a tensor of {}", values.elem, tensor.elem));
        }
        for (e, i) in at.iter().enumerate().filter_map(|(e, i)| Some((e, (*i)?))) {
            match &mut tensor.data {
                HostData::Float(v) => v[i] = values.f64_at(e),
                HostData::Int(v) => v[i] = values.as_ints()?[e],
            }
            tensor.mark(i);
        }
        Ok(())
    }

    /// `Load`.
    pub(super) fn load(&mut self, op: &Op, axes: &[usize]) -> Res<Cells> {
        let (t, start) = self.tensor_and_start(op)?;
        let frame = self.result_frame(op)?;
        let at = addresses(self.tensor(t), &start, axes, &frame.shape)?;
        Ok(frame.scatter(&self.read(t, &at)?))
    }

    /// `LoadScalar`.
    pub(super) fn load_scalar(&mut self, op: &Op) -> Res<Cells> {
        let (t, start) = self.tensor_and_start(op)?;
        let at = addresses(self.tensor(t), &start, &[], &[])?;
        self.read(t, &at)
    }

    /// `Store`: owners write, and copies must agree.
    pub(super) fn store(&mut self, op: &Op, axes: &[usize]) -> Res<()> {
        let (t, start) = self.tensor_and_start(op)?;
        let (cells, frame) = self.tile(op, start.len() + 1)?;
        let at = addresses(self.tensor(t), &start, axes, &frame.shape)?;
        frame.gather(&cells)?;
        // What a thread that owns nothing holds is not written.
        let mut from = vec![HOLE; frame.len()];
        for (cell, e) in frame.at.iter().enumerate() {
            if *e != HOLE && frame.owner[cell / frame.regs] {
                from[*e as usize] = cell as u32;
            }
        }
        self.write(t, &at, &cells.pick(&from))
    }

    /// `StoreScalar`.
    pub(super) fn store_scalar(&mut self, op: &Op) -> Res<()> {
        let (t, start) = self.tensor_and_start(op)?;
        let value = self.cells(op, start.len() + 1)?;
        let at = addresses(self.tensor(t), &start, &[], &[])?;
        if value.len() != 1 {
            return malformed("one scalar is stored");
        }
        self.write(t, &at, &value)
    }
}

/// A number of a tensor from bits, for copies of bytes.
pub(super) fn set_bits(t: &mut HostTensor, i: usize, bits: u64) {
    match &mut t.data {
        HostData::Float(v) => v[i] = number::float_from_bits(bits, t.elem),
        HostData::Int(v) => v[i] = number::wrap(bits as i64, t.elem),
    }
    t.mark(i);
}

/// Numbers of a tensor as bits, for copies of bytes.
pub(super) fn bits_at(t: &HostTensor, i: usize) -> u64 {
    match &t.data {
        HostData::Float(v) => number::float_bits(v[i], t.elem),
        HostData::Int(v) => number::unsigned(v[i], t.elem),
    }
}
