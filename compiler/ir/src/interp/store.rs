//! Copies from shared memory to tensors by the tensor memory accelerator.
//!
//! As in [`super::tma`] the boxes follow from the definition of the tensor map. A copy is a group of its own
//! of the thread that issues it. From then on it may read its buffer at any time, so a write to the buffer
//! before a wait is a mistake; the wait tells the issuing thread only, so others need a barrier after it. The
//! tensor is written at the latest moment: when a wait asks for that, or at the end of the program.

use super::descriptor::swizzled;
use super::global::set_bits;
use super::program::Machine;
use super::shared::Group;
use super::tma::mappable;
use super::{Fault, Mode, Res, TrapKind, malformed, stop};
use crate::func::Op;
use crate::layout::{WARPGROUP, box_rows};
use crate::types::BufferType;
use std::collections::HashSet;

/// Groups of copies that have been issued, oldest first.
#[derive(Debug, Default)]
pub(super) struct Stores {
    queue: Vec<Store>,
    /// Elements of tensors, by number and index, that are not written yet.
    landing: HashSet<(usize, usize)>,
}

#[derive(Debug)]
struct Store {
    role: usize,
    /// The warpgroup whose first thread has issued it.
    issuer: usize,
    tensor: usize,
    /// Bytes of shared memory that it reads.
    reads: Vec<u32>,
    /// Has a wait seen that it has read them?
    has_read: bool,
    /// Index and bits of each element that it writes.
    writes: Vec<(usize, u64)>,
}

impl Stores {
    /// Does any still read shared memory?
    pub(super) fn reading(&self) -> bool {
        self.queue.iter().any(|s| !s.has_read)
    }

    /// Is an element of a tensor still to be written?
    pub(super) fn lands_at(&self, tensor: usize, index: usize) -> bool {
        self.landing.contains(&(tensor, index))
    }
}

/// What a copy is of, and where it goes.
struct Route<'a> {
    buffer: BufferType,
    base: i64,
    tensor: usize,
    start: Vec<i64>,
    axes: &'a [usize],
}

/// The part of a buffer that one thread copies: first row and column, lengths, and whose thread it is.
struct Part {
    first: [i64; 2],
    len: [i64; 2],
    by: Group,
}

/// Bytes of shared memory that are read; index and bits of elements that are written.
type Effects = (Vec<u32>, Vec<(usize, u64)>);

impl Machine<'_> {
    /// `TmaStore`: checks and queues.
    pub(super) fn tma_store(&mut self, op: &Op, axes: &[usize], wgm: i64, wgn: i64) -> Res<()> {
        let (t, start) = self.tensor_and_start(op)?;
        let (at, b) = self.buffer(op, start.len() + 1)?;
        if self.options.mode == Mode::F64 {
            return stop(TrapKind::Unsupported, "shared memory holds no unrounded numbers");
        }
        let tensor = self.tensor(t);
        let ascending = axes.windows(2).all(|w| w[0] < w[1]) && axes.iter().all(|a| *a < tensor.shape.len());
        let &[rows, cols] = &b.shape[..] else { return malformed("a buffer of rank 2 is expected") };
        if axes.len() != 2 || !ascending || tensor.elem != b.elem {
            return malformed(format!("a copy along {axes:?} of {:?} to a tensor", b.shape));
        }
        if let Err(e) = mappable(tensor, axes[1]) {
            return stop(TrapKind::Tma, e);
        }
        let unit = |elements: i64| elements * b.elem.bytes() % 16 != 0;
        if unit(start[axes[1]]) || unit(tensor.shape[axes[1]]) {
            let why = format!(
                "a bulk store from column {} to rows of {} elements does not write whole units of 16 bytes",
                start[axes[1]], tensor.shape[axes[1]]
            );
            return stop(TrapKind::Tma, why);
        }
        let groups = (self.func.tile_warps().unwrap_or(WARPGROUP) / WARPGROUP).max(1);
        let split = wgm >= 1 && wgn >= 1 && rows % wgm == 0 && cols % wgn == 0;
        if !split || wgm * wgn != 1 && (wgm * wgn != groups || self.shared.role > 0) {
            return malformed(format!("{wgm} by {wgn} parts for {groups} warpgroups"));
        }
        self.shared.tick();
        let role = self.shared.role;
        let route = Route { buffer: b, base: at, tensor: t, start, axes };
        for issuer in 0..wgm * wgn {
            let len = [rows / wgm, cols / wgn];
            let first = [issuer / wgn * len[0], issuer % wgn * len[1]];
            let part = Part { first, len, by: (role == 0).then_some(issuer as u8) };
            let (reads, writes) = self.part(&route, &part)?;
            if let Some((i, _)) = writes.iter().find(|w| self.shared.stores.lands_at(t, w.0)) {
                let name = self.tensor_name(t);
                let why = format!("element {i} of `{name}` is the target of two copies in flight");
                return stop(TrapKind::Race, why);
            }
            self.shared.begin_group(&reads);
            self.shared.stores.landing.extend(writes.iter().map(|w| (t, w.0)));
            let issuer = issuer as usize;
            let store = Store { role, issuer, tensor: t, reads, has_read: false, writes };
            self.shared.stores.queue.push(store);
            self.report.tma_stores += 1;
        }
        Ok(())
    }

    /// What the boxes of a part read and write, a box a slab and group of rows.
    fn part(&self, route: &Route<'_>, part: &Part) -> Res<Effects> {
        let (b, axes) = (&route.buffer, route.axes);
        let (mut reads, mut writes) = (vec![], vec![]);
        let (elem, pitch) = (b.elem.bytes(), b.layout.swizzle);
        let (box_cols, cols) = (if pitch == 0 { 1 } else { pitch / elem }, b.shape[1]);
        let whole = pitch != 0 && part.len[1] % box_cols == 0 && part.first[1] % box_cols == 0;
        // A box starts where the swizzle's period does.
        if !whole || cols % box_cols != 0 || box_rows(part.len[0]).is_none() || part.first[0] % 8 != 0 {
            let why = format!("{:?} elements from {:?} on are no whole boxes", part.len, part.first);
            return stop(TrapKind::Tma, why);
        }
        let (swizzle, down) = match self.options.fault {
            Some(Fault::TmaSwizzle(s)) => (s, 0),
            Some(Fault::StoreRow(n)) => (pitch, n),
            _ => (pitch, 0),
        };
        let tensor = self.tensor(route.tensor);
        for row in part.first[0]..part.first[0] + part.len[0] {
            for col in part.first[1]..part.first[1] + part.len[1] {
                let slab = route.base + col / box_cols * b.layout.slab_bytes(&b.shape, b.elem);
                let from = swizzled(slab + (row + down) * pitch + col % box_cols * elem, swizzle);
                let mut coords = route.start.clone();
                coords[axes[0]] += row;
                coords[axes[1]] += col;
                if !coords.iter().zip(&tensor.shape).all(|(x, n)| (0..*n).contains(x)) {
                    continue;
                }
                let bits = self.shared.async_read(from, elem, part.by)?;
                reads.extend((0..elem).map(|i| (from + i) as u32));
                let to = tensor.offset + coords.iter().zip(&tensor.strides).map(|(x, s)| x * s).sum::<i64>();
                writes.push((to as usize, bits));
            }
        }
        Ok((reads, writes))
    }

    /// `TmaStoreWait`: every thread of the role waits for its own groups.
    pub(super) fn tma_store_wait(&mut self, pending: i64, read: bool) -> Res<()> {
        self.shared.tick();
        let role = self.shared.role;
        let mut left: Vec<Store> = vec![];
        let mut newer: Vec<usize> = vec![];
        // Newest first: so many of each thread stay.
        for mut s in std::mem::take(&mut self.shared.stores.queue).into_iter().rev() {
            let mine = s.role == role;
            if mine {
                newer.push(s.issuer);
            }
            if !mine || newer.iter().filter(|i| **i == s.issuer).count() as i64 <= pending {
                left.push(s);
                continue;
            }
            let by: Group = (role == 0).then_some(s.issuer as u8);
            self.shared.end_group(&std::mem::take(&mut s.reads), by);
            s.has_read = true;
            if read {
                left.push(s);
            } else {
                self.land_store(&s);
            }
        }
        left.reverse();
        self.shared.stores.queue = left;
        Ok(())
    }

    fn land_store(&mut self, s: &Store) {
        for (i, bits) in &s.writes {
            set_bits(self.tensor_mut(s.tensor), *i, *bits);
            self.shared.stores.landing.remove(&(s.tensor, *i));
        }
    }

    /// The program is over, and with it everything that it has issued.
    pub(super) fn land_stores(&mut self) -> Res<()> {
        for s in std::mem::take(&mut self.shared.stores.queue) {
            self.land_store(&s);
        }
        Ok(())
    }
}
