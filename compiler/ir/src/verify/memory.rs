//! Rules of tensors, shared memory, tensor copies and wgmma.

use super::roles::check_slots;
use super::{Check, Checker, ensure};
use crate::func::{Op, ValueId};
use crate::layout::{Layout, SWIZZLE_ALIGN, Shared, WARPGROUP, acc_cols, acc_layout, acc_rows, box_rows};
use crate::ops::Kind;
use crate::types::{BufferType, Elem, TensorType, TileType, Type};

/// Bytes of an mbarrier.
const BARRIER_BYTES: i64 = 8;
/// Columns of one wgmma instruction at most.
const MAX_COLUMNS: i64 = 256;
/// Warpgroups that can have a named barrier each, besides those of the CTA, of a role and of turns.
const MAX_GROUP_BARRIERS: i64 = 7;
/// Axes of a tensor map at most.
const MAX_MAP_RANK: usize = 5;

impl Checker<'_> {
    /// A tensor, one index for each of its axes, and `rest` more operands.
    fn indexed(&self, op: &Op, rest: usize, results: usize) -> Result<&TensorType, String> {
        let first = op.operands.first().map(|v| self.func.ty(*v));
        let Some(Type::Tensor(t)) = first else { return Err("the first operand is not a tensor".into()) };
        self.counts(op, 1 + t.dims.len() + rest, results)?;
        for v in &op.operands[1..=t.dims.len()] {
            ensure_i32(self.func.ty(*v), *v)?;
        }
        Ok(t)
    }

    /// Axes ascend, exist, and are as many as the tile has.
    fn axes(&self, axes: &[usize], rank: usize, tile: usize) -> Check {
        let ascending = axes.windows(2).all(|w| w[0] < w[1]);
        ensure!(
            axes.len() == tile && ascending && axes.iter().all(|a| *a < rank),
            "axes {axes:?} of a tensor of rank {rank} for a tile of rank {tile}"
        );
        Ok(())
    }

    pub(super) fn load(&self, op: &Op, axes: &[usize]) -> Check {
        let t = self.indexed(op, 0, 1)?;
        let tile = self.tile(op.results[0])?;
        ensure!(tile.elem == t.elem, "{tile} from a tensor of {}", t.elem);
        self.axes(axes, t.dims.len(), tile.shape.len())
    }

    pub(super) fn load_scalar(&self, op: &Op) -> Check {
        let t = self.indexed(op, 0, 1)?;
        let ty = self.func.ty(op.results[0]);
        ensure!(*ty == Type::Scalar(t.elem), "{ty} from a tensor of {}", t.elem);
        Ok(())
    }

    pub(super) fn store(&self, op: &Op, axes: &[usize]) -> Check {
        let t = self.indexed(op, 1, 0)?;
        let tile = self.tile(op.operands[t.dims.len() + 1])?;
        ensure!(tile.elem == t.elem, "{tile} to a tensor of {}", t.elem);
        self.axes(axes, t.dims.len(), tile.shape.len())
    }

    pub(super) fn store_scalar(&self, op: &Op) -> Check {
        let t = self.indexed(op, 1, 0)?;
        let ty = self.func.ty(op.operands[t.dims.len() + 1]);
        ensure!(*ty == Type::Scalar(t.elem), "{ty} to a tensor of {}", t.elem);
        Ok(())
    }

    fn buffer(&self, v: ValueId) -> Result<&BufferType, String> {
        match self.func.ty(v) {
            Type::Buffer(b) => Ok(b),
            t => Err(format!("%{} is {t}, not a buffer", v.0)),
        }
    }

    /// An offset, once there are any, is aligned and in range.
    fn placed(&self, offset: Option<i64>, bytes: i64, align: i64) -> Check {
        match (offset, self.func.shared_bytes) {
            (None, Some(_)) => Err("no offset after shared memory was allocated".into()),
            (Some(at), _) if at < 0 || at % align != 0 => {
                Err(format!("offset {at} is not a multiple of {align}"))
            }
            (Some(at), Some(total)) if bytes > total - at => {
                Err(format!("{at} + {bytes} is more than {total} bytes"))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn alloc(&self, op: &Op, offset: Option<i64>) -> Check {
        self.counts(op, 0, 1)?;
        let (b, slots) = match self.func.ty(op.results[0]) {
            Type::Ring(b, n) => (b, Some(*n)),
            _ => (self.buffer(op.results[0])?, None),
        };
        slots.map_or(Ok(()), check_slots)?;
        let shape = (1..=5).contains(&b.shape.len()) && b.shape.iter().all(|n| (1..=1 << 20).contains(n));
        ensure!(shape, "shape {:?}", b.shape);
        ensure!([0, 32, 64, 128].contains(&b.layout.swizzle), "swizzle {}", b.layout.swizzle);
        self.placed(offset, slots.map_or(b.bytes(), |n| b.ring_bytes(n)), SWIZZLE_ALIGN)
    }

    pub(super) fn barrier_alloc(&self, op: &Op, count: i64, offset: Option<i64>) -> Check {
        let n = match op.results.first().map(|v| self.func.ty(*v)) {
            Some(Type::BarrierRing(n)) => {
                check_slots(*n)?;
                self.counts(op, 0, 1)?;
                *n
            }
            _ => {
                self.signature_is(op, &[], &[Type::Barrier])?;
                1
            }
        };
        ensure!(count >= 1, "counts {count} arrivals");
        self.placed(offset, BARRIER_BYTES * n, BARRIER_BYTES)
    }

    /// No buffer overlaps a barrier, which lives all the time.
    pub(super) fn placement(&mut self) {
        let (mut barriers, mut buffers) = (vec![], vec![]);
        self.func.walk(&mut |op| match (
            &op.kind,
            op.results.first().and_then(|v| self.func.values.get(v.0 as usize)),
        ) {
            (Kind::BarrierAlloc { offset: Some(at), .. }, ty) => {
                let n = if let Some(Type::BarrierRing(n)) = ty { (*n).clamp(1, 256) } else { 1 };
                barriers.push((*at, BARRIER_BYTES * n, op.loc.clone()))
            }
            (Kind::Alloc { offset: Some(at) }, Some(Type::Buffer(b))) if sane(b) => {
                buffers.push((*at, b.bytes()));
            }
            (Kind::Alloc { offset: Some(at) }, Some(Type::Ring(b, n))) if sane(b) => {
                buffers.push((*at, b.ring_bytes((*n).clamp(1, 256))));
            }
            _ => {}
        });
        for (i, (at, n, loc)) in barriers.iter().enumerate() {
            let others = barriers[..i].iter().map(|b| (b.0, b.1));
            if buffers.iter().copied().chain(others).any(|(b, m)| b < at + n && *at < b + m) {
                self.report(format!("the barrier at {at} overlaps something"), loc);
            }
        }
    }

    pub(super) fn tma_load(&self, op: &Op, axes: &[usize]) -> Check {
        let t = self.indexed(op, 2, 0)?;
        let n = op.operands.len();
        let b = self.buffer(op.operands[n - 2])?;
        let barrier = self.func.ty(op.operands[n - 1]);
        ensure!(*barrier == Type::Barrier, "the last operand is {barrier}, not a barrier");
        ensure!(t.elem == b.elem, "of {} to a buffer of {}", t.elem, b.elem);
        ensure!(t.dims.len() <= MAX_MAP_RANK, "a tensor of rank {}", t.dims.len());
        self.axes(axes, t.dims.len(), b.shape.len())
    }

    /// Boxes of a copy to a tensor hold what was stored and nothing else: whole slabs, whole parts.
    pub(super) fn tma_store(&self, op: &Op, axes: &[usize], wgm: i64, wgn: i64) -> Check {
        let t = self.indexed(op, 1, 0)?;
        let b = self.buffer(op.operands[op.operands.len() - 1])?;
        ensure!(t.elem == b.elem, "of {} from a buffer of {}", t.elem, b.elem);
        ensure!(t.dims.len() <= MAX_MAP_RANK, "a tensor of rank {}", t.dims.len());
        self.axes(axes, t.dims.len(), b.shape.len())?;
        let &[rows, cols] = &b.shape[..] else { return Err(format!("a buffer of rank {}", b.shape.len())) };
        let slab = b.layout.slab_cols(cols, b.elem);
        ensure!(b.layout.swizzle != 0 && cols % slab == 0, "{cols} columns are no whole slabs of {slab}");
        let groups = self.func.tile_warps().unwrap_or(WARPGROUP) / WARPGROUP;
        let one = wgm == 1 && wgn == 1;
        let each =
            wgm >= 1 && wgn >= 1 && wgm.checked_mul(wgn) == Some(groups) && self.role.unwrap_or(0) == 0;
        ensure!(one || each, "{wgm} by {wgn} parts for {groups} warpgroups");
        let whole = rows % wgm == 0 && cols % (slab * wgn) == 0 && (wgm == 1 || rows / wgm % 8 == 0);
        ensure!(
            whole && box_rows(rows / wgm).is_some(),
            "{} in {wgm} by {wgn} parts of whole boxes",
            Type::Buffer(b.clone())
        );
        Ok(())
    }

    pub(super) fn group_barrier(&self, op: &Op) -> Check {
        let groups = self.func.tile_warps().unwrap_or(WARPGROUP) / WARPGROUP;
        ensure!(groups <= MAX_GROUP_BARRIERS, "{groups} warpgroups with a barrier each");
        self.signature_is(op, &[], &[])
    }

    pub(super) fn tma_store_wait(&self, op: &Op, pending: i64) -> Check {
        ensure!(pending >= 0, "pending = {pending}");
        self.counts(op, op.operands.len(), 0)?;
        op.operands.iter().try_for_each(|v| self.buffer(*v).map(|_| ()))
    }

    /// A tile to or from a buffer that is at least as large.
    pub(super) fn local(&self, op: &Op, operands: usize, results: usize) -> Check {
        self.counts(op, operands, results)?;
        let (tile, buffer) = match results {
            0 => (op.operands[0], op.operands[1]),
            _ => (op.results[0], op.operands[0]),
        };
        let (t, b) = (self.tile(tile)?, self.buffer(buffer)?);
        let fits = t.shape.len() == b.shape.len() && t.shape.iter().zip(&b.shape).all(|(t, b)| t <= b);
        ensure!(t.elem == b.elem && fits, "{t} and {}", Type::Buffer(b.clone()));
        Ok(())
    }

    /// MN, K and K-majorness of an operand in a buffer.
    fn operand(&self, v: ValueId, k_major: bool) -> Result<(i64, i64, &BufferType), String> {
        let b = self.buffer(v)?;
        let &[rows, cols] = &b.shape[..] else {
            return Err(format!("{} has not rank 2", Type::Buffer(b.clone())));
        };
        let elem =
            matches!(b.elem, Elem::F16 | Elem::BF16) || k_major && matches!(b.elem, Elem::E4M3 | Elem::E5M2);
        if !elem || b.layout.swizzle == 0 {
            return Err(format!(
                "{} cannot be read with K {}contiguous",
                Type::Buffer(b.clone()),
                not(k_major)
            ));
        }
        Ok(if k_major { (rows, cols, b) } else { (cols, rows, b) })
    }

    pub(super) fn wgmma(&self, op: &Op, trans_a: bool, trans_b: bool, acc: bool) -> Check {
        self.counts(op, 2 + acc as usize, 1)?;
        let ty = self.func.ty(op.results[0]);
        let Type::InFlight(t) = ty else { return Err(format!("the result is {ty}, not in flight")) };
        let (&[m, n], Elem::F32) = (&t.shape[..], t.elem) else {
            return Err(format!("{t} is not an accumulator"));
        };
        // Before layouts are assigned it is the one that it will get.
        let groups = (self.func.tile_warps().unwrap_or(WARPGROUP) / WARPGROUP).max(1);
        let layout = t.layout.clone().unwrap_or_else(|| acc_layout(m, n, groups, trans_b));
        ensure!(t.layout.is_some() || !self.laid_out, "{t} has no layout");
        let Layout::Acc { wgm, wgn } = &layout else {
            return Err(format!("{t} is not an accumulator"));
        };
        let (rows, cols) = (acc_rows(m, *wgm), acc_cols(n, *wgn));
        ensure!(cols <= MAX_COLUMNS, "{cols} columns for a warpgroup, {MAX_COLUMNS} are possible");
        let (b_n, b_k, b) = self.operand(op.operands[1], trans_b)?;
        ensure!(b_n >= cols * wgn, "B has {b_n} columns, {} are read", cols * wgn);
        let slab = Shared::slab_cols(&b.layout, b.shape[1], b.elem);
        ensure!(
            trans_b || *wgn == 1 || cols % slab == 0,
            "a warpgroup's {cols} columns are no whole slabs of {slab}"
        );
        let (k, elem) = match self.func.ty(op.operands[0]) {
            Type::Tile(a) => {
                ensure!(!trans_a && *wgn == 1, "A in registers, transposed or split along the columns");
                ensure!(a.shape.len() == 2 && a.shape[0] == m && a.elem.bytes() == 2, "A is {a}");
                let layout = Layout::Acc { wgm: *wgm, wgn: 1 };
                ensure!(
                    !self.laid_out || a.layout == Some(layout),
                    "A is {a}, not in the accumulator's layout"
                );
                (a.shape[1], a.elem)
            }
            _ => {
                let (a_m, a_k, a) = self.operand(op.operands[0], !trans_a)?;
                ensure!(a_m >= rows * wgm, "A has {a_m} rows, {} are read", rows * wgm);
                (a_k, a.elem)
            }
        };
        let step = 32 / elem.bytes();
        ensure!(elem == b.elem, "of {elem} and {}", b.elem);
        ensure!(k % step == 0 && k <= b_k, "K = {k} of A, {b_k} of B, {step} an instruction");
        if acc {
            let (have, want) = (self.tile(op.operands[2])?, TileType { layout: None, ..t.clone() });
            let want = if self.laid_out { t.clone() } else { want };
            ensure!(have == want, "the accumulator is {have}, not {want}");
        }
        Ok(())
    }

    pub(super) fn wgmma_wait(&self, op: &Op, pending: i64) -> Check {
        ensure!(pending >= 0, "pending = {pending}");
        ensure!(!op.operands.is_empty(), "nothing to wait for");
        self.counts(op, op.operands.len(), 1)?;
        let (from, to) = (self.ty(op.operands[0]), self.ty(op.results[0]));
        ensure!(matches!((&from, &to), (Type::InFlight(a), Type::Tile(b)) if a == b), "{from} becomes {to}");
        op.operands[1..].iter().try_for_each(|v| self.tile(*v).map(|_| ()))
    }
}

/// Can the buffer's bytes be counted?
fn sane(b: &BufferType) -> bool {
    b.shape.iter().all(|n| *n < 1 << 20)
}

fn ensure_i32(ty: &Type, v: ValueId) -> Check {
    ensure!(*ty == Type::I32, "the index %{} is {ty}", v.0);
    Ok(())
}

fn not(holds: bool) -> &'static str {
    if holds { "" } else { "not " }
}
