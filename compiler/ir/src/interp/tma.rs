//! The tensor memory accelerator and mbarriers.
//!
//! A copy is computed here from the definition of the tensor map, not from `layout`: box by box, rows of
//! one swizzle width, the hardware's swizzle on the address in shared memory. It is queued, and lands
//! as late as it may: when a thread waits for the phase that it completes.

use super::descriptor::swizzled;
use super::global::bits_at;
use super::program::{Machine, Value};
use super::shared::SharedState;
use super::tensor::HostTensor;
use super::{Fault, Mode, Res, TrapKind, malformed, stop};
use crate::func::Op;
use crate::types::BufferType;

/// Longest axis of a box.
const MAX_BOX: i64 = 256;

/// A barrier in shared memory.
#[derive(Clone, Debug)]
pub(super) struct Mbarrier {
    count: i64,
    /// Arrivals that the phase still needs.
    missing: i64,
    /// Parity of the phase that is not complete yet.
    parity: i64,
}

impl Mbarrier {
    pub(super) fn new(count: i64) -> Mbarrier {
        Mbarrier { count, missing: count, parity: 0 }
    }
}

/// A copy in flight.
#[derive(Clone, Debug)]
pub(super) struct Copy {
    barrier: i64,
    bytes: Vec<(i64, u8)>,
}

/// Can a tensor map describe this tensor with this axis innermost? In words if not.
fn mappable(t: &HostTensor, inner: usize) -> Result<(), String> {
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
        let Some(m) = self.shared.barriers.get_mut(&barrier) else { return malformed("no barrier there") };
        if m.missing == 0 {
            return stop(TrapKind::Barrier, "an arrival at a phase that has all its arrivals");
        }
        m.missing -= 1;
        self.shared.copies.push(Copy { barrier, bytes });
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

    /// `BarrierWait`: the phase of this parity is complete, or completes now that its copies land.
    pub(super) fn barrier_wait(&mut self, op: &Op) -> Res<()> {
        let (barrier, parity) = (self.barrier_address(op, 0)?, self.int(op, 1)?);
        self.report.barrier_waits += 1;
        self.shared.wait_phase(barrier, parity)
    }
}

impl SharedState {
    fn wait_phase(&mut self, barrier: i64, parity: i64) -> Res<()> {
        self.tick();
        let Some(m) = self.barriers.get_mut(&barrier) else { return malformed("no barrier there") };
        if parity & !1 != 0 {
            return malformed(format!("a parity of {parity}"));
        }
        if m.parity != parity {
            return Ok(());
        }
        if m.missing > 0 {
            let why =
                format!("the phase of parity {parity} waits for {} arrivals that cannot come", m.missing);
            return stop(TrapKind::Deadlock, why);
        }
        m.missing = m.count;
        m.parity ^= 1;
        let (landed, rest) = std::mem::take(&mut self.copies).into_iter().partition(|c| c.barrier == barrier);
        self.copies = rest;
        let landed: Vec<Copy> = landed;
        for (at, value) in landed.iter().flat_map(|c| &c.bytes) {
            self.land(*at, *value);
        }
        Ok(())
    }
}
