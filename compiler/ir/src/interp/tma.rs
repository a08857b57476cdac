//! The tensor memory accelerator.
//!
//! A copy is computed here from the definition of the tensor map, not from `layout`: box by box, rows of
//! one swizzle width, the hardware's swizzle on the address in shared memory. It is queued, a slab at a
//! time, and lands when the schedule says: see [`super::control`] and [`super::sync`].

use super::descriptor::swizzled;
use super::global::bits_at;
use super::program::{Machine, Value};
use super::replay::What;
use super::sync::Copy;
use super::tensor::HostTensor;
use super::{Fault, Mode, Res, TrapKind, malformed, stop};
use crate::func::Op;
use crate::layout::WARPGROUP;
use crate::types::BufferType;

/// Longest axis of a box.
const MAX_BOX: i64 = 256;

/// Can a tensor map describe this tensor with this axis innermost? In words if not.
pub(super) fn mappable(t: &HostTensor, inner: usize) -> Result<(), String> {
    let bytes = t.elem.bytes();
    if !(1..=5).contains(&t.shape.len()) {
        return Err(format!("a tensor of rank {}", t.shape.len()));
    }
    if t.offset * bytes % 16 != 0 {
        return Err(format!("the tensor starts at byte {}, not a multiple of 16", t.offset * bytes));
    }
    for (d, (n, s)) in t.shape.iter().zip(&t.strides).enumerate() {
        if d == inner && *s != 1 && *n > 1 {
            return Err(format!("axis {d} is innermost in the box and has stride {s}"));
        }
        if d != inner && *n > 1 && (*s <= 0 || s * bytes % 16 != 0) {
            return Err(format!("axis {d} has a stride of {} bytes", s * bytes));
        }
    }
    Ok(())
}

impl Machine<'_> {
    fn barrier_address(&self, op: &Op, i: usize) -> Res<i64> {
        match self.value(op, i)? {
            Value::Barrier(at) => Ok(*at),
            _ => malformed(format!("operand {i} is not a barrier")),
        }
    }

    /// `TmaLoad`: checks, announces and queues.
    pub(super) fn tma_load(&mut self, op: &Op, axes: &[usize]) -> Res<()> {
        let (t, start) = self.tensor_and_start(op)?;
        let (at, b) = self.buffer(op, start.len() + 1)?;
        let barrier = self.barrier_address(op, start.len() + 2)?;
        if self.options.mode == Mode::F64 {
            return stop(TrapKind::Unsupported, "shared memory holds no unrounded numbers");
        }
        let tensor = self.tensor(t);
        let rank = tensor.shape.len();
        let ascending = axes.windows(2).all(|w| w[0] < w[1]) && axes.iter().all(|a| *a < rank);
        if axes.len() != b.shape.len() || !ascending || tensor.elem != b.elem {
            return malformed(format!("a copy along {axes:?} of a tensor of rank {rank} to {:?}", b.shape));
        }
        if let Err(e) = mappable(tensor, axes[axes.len() - 1]) {
            return stop(TrapKind::Tma, e);
        }
        let bytes = self.boxes(tensor, &start, axes, at, &b)?;
        let n = bytes.len() as i64;
        self.shared.tick();
        for (to, _) in &bytes {
            self.shared.begin_copy(*to)?;
        }
        let announced = match self.options.fault {
            Some(Fault::ShortExpect(short)) if short < n => n - short,
            _ => n,
        };
        self.shared.arrive(barrier, 1, announced)?;
        let slabs = b.layout.slabs(&b.shape, b.elem).max(1) as usize;
        let per_slab = bytes.len().div_ceil(slabs).max(1);
        let copies = bytes.chunks(per_slab).map(|c| Copy { barrier, bytes: c.to_vec() });
        self.shared.copies.extend(copies);
        self.record(op, What::ArriveOne(barrier));
        self.report.tma_copies += b.layout.slabs(&b.shape, b.elem) as u64;
        self.report.tma_bytes += n as u64;
        Ok(())
    }

    /// Every byte that the copies write: one box a slab, each row as long as the swizzle is wide.
    fn boxes(
        &self,
        t: &HostTensor,
        start: &[i64],
        axes: &[usize],
        base: i64,
        b: &BufferType,
    ) -> Res<Vec<(i64, u8)>> {
        let (outer, cols) = (&b.shape[..b.shape.len() - 1], b.shape[b.shape.len() - 1]);
        let elem = b.elem.bytes();
        let box_cols = if b.layout.swizzle == 0 { cols } else { b.layout.swizzle / elem };
        let pitch = box_cols * elem;
        // Rows may be split over several boxes, columns may not.
        if pitch % 16 != 0
            || box_cols > MAX_BOX
            || outer[..outer.len().saturating_sub(1)].iter().any(|n| *n > MAX_BOX)
        {
            return stop(TrapKind::Tma, format!("a box of {outer:?} rows of {box_cols} elements"));
        }
        let swizzle = match self.options.fault {
            Some(Fault::TmaSwizzle(s)) => s,
            _ => b.layout.swizzle,
        };
        let mut out = vec![];
        for slab in 0..(cols + box_cols - 1) / box_cols {
            let slab_base = base + slab * b.layout.slab_bytes(&b.shape, b.elem);
            for (row, at) in crate::layout::counted(outer).iter().enumerate() {
                for c in 0..box_cols {
                    let mut coords = start.to_vec();
                    for (axis, i) in axes.iter().zip(at.iter().chain([&(slab * box_cols + c)])) {
                        coords[*axis] += i;
                    }
                    let inside = coords.iter().zip(&t.shape).all(|(x, n)| (0..*n).contains(x));
                    let bits = if inside {
                        let i = t.offset + coords.iter().zip(&t.strides).map(|(x, s)| x * s).sum::<i64>();
                        if !t.has_value(i as usize) {
                            return stop(
                                TrapKind::Uninitialised,
                                format!("element {coords:?} has no value yet"),
                            );
                        }
                        bits_at(t, i as usize)
                    } else {
                        0
                    };
                    let linear = slab_base + row as i64 * pitch + c * elem;
                    for i in 0..elem {
                        out.push((swizzled(linear, swizzle) + i, (bits >> (8 * i)) as u8));
                    }
                }
            }
        }
        Ok(out)
    }

    /// Barrier and parity of a `BarrierWait`.
    pub(super) fn wait_operands(&self, op: &Op) -> Res<(i64, i64)> {
        Ok((self.barrier_address(op, 0)?, self.int(op, 1)?))
    }

    /// `BarrierArrive`: once for each warpgroup of the role that holds tiles, once for another role.
    pub(super) fn barrier_arrive(&mut self, op: &Op) -> Res<()> {
        let at = self.barrier_address(op, 0)?;
        let groups = (self.func.tile_warps().unwrap_or(WARPGROUP) / WARPGROUP).max(1);
        self.shared.arrive(at, if self.shared.role == 0 { groups } else { 1 }, 0)?;
        self.record(op, What::Arrive(at));
        Ok(())
    }
}
