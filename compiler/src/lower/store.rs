//! Copies from shared memory to tensors, and the barriers of single warpgroups.

use super::emit::V;
use super::roles::{GROUP, TURN_BARRIER};
use super::{Failure, Lower};
use flashc_ir::artifact::TensorMapSpec;
use flashc_ir::layout::{WARPGROUP, box_rows};
use flashc_ir::types::Dim;
use flashc_ir::{Op, Type};

impl Lower<'_> {
    pub(super) fn tma_store(&mut self, op: &Op, axes: &[usize], wgm: i64, wgn: i64) -> Result<(), Failure> {
        let tensor = self.tensor(op.operands[0])?;
        let buffer = op.operands[op.operands.len() - 1];
        let at = self.buffer(buffer)?;
        let Type::Buffer(b) = self.func.ty(buffer).clone() else {
            return Err(Failure::Bug("a copy from something that is no buffer".into()));
        };
        let (rank, swizzle) = (self.tensors[tensor].dims.len(), b.layout.swizzle);
        let (rows, cols) = (b.shape[0] / wgm, b.shape[1] / wgn);
        let slab_cols = b.layout.slab_cols(b.shape[1], b.elem);
        let slab_bytes = b.layout.slab_bytes(&b.shape, b.elem);
        let box_rows =
            box_rows(rows).ok_or_else(|| Failure::Bug(format!("{rows} rows are no whole boxes")))?;
        let mut order = vec![axes[1], axes[0]];
        order.extend((0..rank).rev().filter(|a| !axes.contains(a)));
        let mut box_dims = vec![slab_cols as u32, box_rows as u32];
        box_dims.resize(rank, 1);
        let map =
            self.tensor_map(TensorMapSpec { tensor, axes: order.clone(), box_dims, swizzle: swizzle as u32 });
        self.aligned.insert(tensor);
        if matches!(self.tensors[tensor].dims[axes[1]], Dim::Sym(_)) {
            self.whole.insert((tensor, axes[1]));
        }

        let mut starts = vec![];
        for axis in &order {
            starts.push(self.scalar(op.operands[1 + axis])?);
        }
        // A tensor without elements has no address, and its map names one element all the same.
        let mut some = None;
        for axis in 0..rank {
            if matches!(self.tensors[tensor].dims[axis], Dim::Sym(_)) {
                let (len, zero) = (self.dim(tensor, axis)?, self.e.i32(0));
                let any = self.e.icmp(4, len, zero);
                some = self.e.and(some, Some(any));
            }
        }
        let mut first = if self.alone { None } else { Some(self.threads.first(&mut self.e)) };
        let mut from = self.smem_address(at);
        if wgm * wgn > 1 {
            // Each warpgroup's part; computed here, for kept it would cost registers for long.
            let (two, parts) = (self.e.i32(WARPGROUP.ilog2().into()), self.e.i32(wgn));
            let group = self.e.bin("shrui", self.threads.warp, two);
            let (i, j) = match (wgm, wgn) {
                (_, 1) => (Some(group), None),
                (1, _) => (None, Some(group)),
                _ => (Some(self.e.bin("divui", group, parts)), Some(self.e.bin("remui", group, parts))),
            };
            if let Some(i) = i {
                let (down, bytes) = (self.e.mul(i, rows), self.e.mul(i, rows * swizzle));
                starts[1] = self.e.bin("addi", starts[1], down);
                from = self.e.bin("addi", from, bytes);
            }
            if let Some(j) = j {
                let (right, bytes) = (self.e.mul(j, cols), self.e.mul(j, cols / slab_cols * slab_bytes));
                starts[0] = self.e.bin("addi", starts[0], right);
                from = self.e.bin("addi", from, bytes);
            }
            let (mask, zero) = (self.e.i32(GROUP - 1), self.e.i32(0));
            let within = self.e.bin("andi", self.threads.tid, mask);
            first = Some(self.e.icmp(0, within, zero));
        }
        let first = self.e.and(first, some);
        let places: Vec<_> = (2..2 + rank).map(|i| format!("${i}")).collect();
        let text = format!(
            "cp.async.bulk.tensor.{rank}d.global.shared::cta.tile.bulk_group [$0, {{{}}}], [$1];",
            places.join(", ")
        );
        let constraints = format!("l,r,{}~{{memory}}", "r,".repeat(rank));
        self.e.when(first, |e| {
            for slab in 0..cols / slab_cols {
                for i in 0..rows / box_rows {
                    let from = e.add(from, slab * slab_bytes + i * box_rows * swizzle);
                    let mut operands: Vec<V> = vec![map, from];
                    operands.push(e.add(starts[0], slab * slab_cols));
                    operands.push(e.add(starts[1], i * box_rows));
                    operands.extend(&starts[2..]);
                    e.asm(&text, &constraints, &operands, &[], true);
                }
            }
            e.asm("cp.async.bulk.commit_group;", "~{memory}", &[], &[], true);
        });
        Ok(())
    }

    /// Threads that have issued nothing go on at once.
    pub(super) fn tma_store_wait(&mut self, pending: i64, read: bool) {
        let read = if read { ".read" } else { "" };
        let text = format!("cp.async.bulk.wait_group{read} {pending};");
        self.e.asm(&text, "~{memory}", &[], &[], true);
    }

    /// The threads of each warpgroup, at the named barriers that follow those of turns.
    pub(super) fn group_barrier(&mut self) {
        let groups = self.func.tile_warps().unwrap_or(WARPGROUP) / WARPGROUP;
        if groups <= 1 {
            return self.cta_barrier();
        }
        let (two, base) = (self.e.i32(WARPGROUP.ilog2().into()), self.e.i32(TURN_BARRIER + groups));
        let group = self.e.bin("shrui", self.threads.warp, two);
        let (id, threads) = (self.e.bin("addi", group, base), self.e.i32(GROUP));
        self.e.op0("nvvm.barrier", "operandSegmentSizes = array<i32: 1, 1, 0>", &[id, threads]);
    }
}
