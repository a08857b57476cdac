//! Shared memory: buffers, mbarriers, TMA, and exchanges between threads through scratch.

use super::emit::{I32, I64, Ty, V};
use super::{BARRIER_BYTES, Failure, Lower, Place};
use crate::passes::exchange::{axis_slots, reshape_is_free};
use flashc_ir::artifact::TensorMapSpec;
use flashc_ir::layout::box_rows;
use flashc_ir::ops::Kind;
use flashc_ir::shuffle;
use flashc_ir::{Block, BufferType, Distribution, Elem, Func, Op, TileType, Type, ValueId};
use std::collections::HashMap;

/// Bytes of the widest access.
const RUN_BYTES: i64 = 16;
/// Bytes that a thread holds on their way from global to shared memory.
const COPY_BATCH: usize = 16;

impl Lower<'_> {
    /// Initialises every mbarrier before anything else.
    pub(super) fn barriers(&mut self) -> Result<(), Failure> {
        let mut all = vec![];
        self.func.walk(&mut |op| {
            if let Kind::BarrierAlloc { count, offset } = op.kind {
                let n = if let Type::BarrierRing(n) = self.func.ty(op.result()) { *n } else { 1 };
                all.extend((0..n).map(|i| (count, offset.map(|o| o + i * BARRIER_BYTES))));
            }
        });
        if all.is_empty() {
            return Ok(());
        }
        let first = self.threads.first(&mut self.e);
        let smem = self.smem;
        let mut places = vec![];
        for (count, offset) in all {
            let at = self.e.int(offset.ok_or_else(|| Failure::Bug("a barrier without offset".into()))?, I64);
            let count = self.e.i32(count);
            places.push((at, count));
        }
        self.e.when(Some(first), |e| {
            for (at, count) in places {
                let p = e.offset(smem, at);
                e.op0("nvvm.mbarrier.init", "", &[p, count]);
            }
            e.asm("fence.mbarrier_init.release.cluster;", "~{memory}", &[], &[], true);
        });
        self.e.op0("nvvm.barrier0", "", &[]);
        Ok(())
    }

    /// A pointer into shared memory.
    pub(super) fn smem_at(&mut self, place: Place) -> V {
        let at = self.e.int(place.offset, I64);
        let smem = self.smem;
        let p = self.e.in_prologue(|e| e.offset(smem, at));
        match place.turn {
            None => p,
            Some((index, bytes)) => {
                let by = self.e.mul(index, bytes);
                let wide = self.e.op("arith.extui", "", &[by], I64);
                self.e.offset(p, wide)
            }
        }
    }

    /// The same as a 32-bit address.
    pub(super) fn smem_address(&mut self, place: Place) -> V {
        let p = self.smem_at(Place::at(place.offset));
        let p = self.e.in_prologue(|e| e.op("llvm.ptrtoint", "", &[p], I32));
        match place.turn {
            None => p,
            Some((index, bytes)) => {
                let by = self.e.mul(index, bytes);
                self.e.bin("addi", p, by)
            }
        }
    }

    pub(super) fn barrier_wait(&mut self, op: &Op) -> Result<(), Failure> {
        let at = self.buffer(op.operands[0])?;
        let (address, parity) = (self.smem_address(at), self.scalar(op.operands[1])?);
        // One assembly block: a loop of basic blocks would let code move past the wait.
        let text = "{\\0A.reg .pred p;\\0AWAIT_${:uid}:\\0Ambarrier.try_wait.parity.shared::cta.b64 p, [$0], $1;\\0A\
                    @!p bra.uni WAIT_${:uid};\\0A}";
        self.e.asm(text, "r,r,~{memory}", &[address, parity], &[], true);
        Ok(())
    }

    pub(super) fn tma_load(&mut self, op: &Op, axes: &[usize]) -> Result<(), Failure> {
        let n = op.operands.len();
        let tensor = self.tensor(op.operands[0])?;
        let (buffer, barrier) = (op.operands[n - 2], op.operands[n - 1]);
        let (at, bar) = (self.buffer(buffer)?, self.buffer(barrier)?);
        let Type::Buffer(b) = self.func.ty(buffer).clone() else {
            return Err(Failure::Bug("a copy to something that is no buffer".into()));
        };
        let rank = self.tensors[tensor].dims.len();
        // Padding of the buffer is filled too: it holds what lies next in the tensor, and nobody looks.
        let shape = &b.shape;
        let (row_axis, col_axis) = (axes[0], axes[1]);
        let mut order = vec![col_axis, row_axis];
        order.extend((0..rank).rev().filter(|a| !axes.contains(a)));
        let slab_cols = b.layout.slab_cols(b.shape[1], b.elem);
        let slabs = (shape[1] + slab_cols - 1) / slab_cols;
        let box_rows = box_rows(shape[0]).unwrap_or(8);
        let boxes = shape[0] / box_rows;
        let mut box_dims = vec![slab_cols as u32, box_rows as u32];
        box_dims.resize(rank, 1);
        let spec = TensorMapSpec { tensor, axes: order.clone(), box_dims, swizzle: b.layout.swizzle as u32 };
        let map = self.tensor_map(spec);
        self.aligned.insert(tensor);

        let mut starts = vec![];
        for axis in &order {
            starts.push(self.scalar(op.operands[1 + axis])?);
        }
        let bar = self.smem_address(bar);
        let bytes = self.e.i32(slabs * boxes * box_rows * b.layout.swizzle);
        let mut copies = vec![];
        for slab in 0..slabs {
            for i in 0..boxes {
                let to =
                    at.plus(slab * b.layout.slab_bytes(&b.shape, b.elem) + i * box_rows * b.layout.swizzle);
                let to = self.smem_address(to);
                let mut coords = starts.clone();
                coords[0] = self.e.add(coords[0], slab * slab_cols);
                coords[1] = self.e.add(coords[1], i * box_rows);
                copies.push((to, coords));
            }
        }
        let first = if self.alone { None } else { Some(self.threads.first(&mut self.e)) };
        let places: Vec<_> = (2..2 + rank).map(|i| format!("${i}")).collect();
        let text = format!(
            "cp.async.bulk.tensor.{rank}d.shared::cta.global.tile.mbarrier::complete_tx::bytes [$0], [$1, {{{}}}], [${}];",
            places.join(", "),
            rank + 2
        );
        let constraints = format!("r,l,{}r,~{{memory}}", "r,".repeat(rank));
        self.e.when(first, |e| {
            let text_expect = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;";
            e.asm(text_expect, "r,r,~{memory}", &[bar, bytes], &[], true);
            for (to, coords) in copies {
                let mut operands = vec![to, map];
                operands.extend(coords);
                operands.push(bar);
                e.asm(&text, &constraints, &operands, &[], true);
            }
        });
        Ok(())
    }

    /// The parameter of a tensor map; equal maps are one parameter.
    pub(super) fn tensor_map(&mut self, spec: TensorMapSpec) -> V {
        if let Some((_, v)) = self.maps.iter().find(|(s, _)| *s == spec) {
            return *v;
        }
        let v = self.e.fresh(Ty::Ptr);
        self.maps.push((spec, v));
        v
    }

    /// A tile that is only copied is loaded here, a few registers at a time.
    pub(super) fn local_store(&mut self, op: &Op) -> Result<(), Failure> {
        let t = self.tile_type(op.operands[0])?;
        let (at, Type::Buffer(b)) = (self.buffer(op.operands[1])?, self.func.ty(op.operands[1]).clone())
        else {
            return Err(Failure::Bug("a store to something that is no buffer".into()));
        };
        let Some(load) = self.copied.get(&op.operands[0]).copied() else {
            let regs = self.tile(op.operands[0])?;
            return self.put(&t, &regs, 0, &b, at);
        };
        let Kind::Load { axes } = &load.kind else { return Ok(()) };
        let mut going = self.begin_load(load, axes)?;
        let all = self.registers(op.operands[0])?;
        let batch = COPY_BATCH / t.elem.bytes() as usize;
        for first in (0..all).step_by(batch) {
            let regs = self.load_registers(&mut going, first..(first + batch).min(all))?;
            self.put(&t, &regs, first, &b, at)?;
        }
        Ok(())
    }

    pub(super) fn local_load(&mut self, op: &Op) -> Result<Vec<V>, Failure> {
        let t = self.tile_type(op.result())?;
        let (at, Type::Buffer(b)) = (self.buffer(op.operands[0])?, self.func.ty(op.operands[0]).clone())
        else {
            return Err(Failure::Bug("a load from something that is no buffer".into()));
        };
        self.get(&t, &b, at, false)
    }

    /// Registers, of which `from` is the first, to a buffer.
    fn put(
        &mut self,
        t: &TileType,
        regs: &[V],
        from: usize,
        b: &BufferType,
        at: Place,
    ) -> Result<(), Failure> {
        let d = self.distribution(t)?;
        if regs.len() == d.regs.len() && self.put_matrices(t, &d, regs, b, at)? {
            return Ok(());
        }
        let run = run_length(&d, b);
        let owner = self.threads.owner(&mut self.e, &d);
        for first in (0..regs.len()).step_by(run) {
            let (p, ok) = self.place(&d, t, b, at, from + first, false);
            let ok = self.e.and(ok, owner);
            let parts: Vec<V> = regs[first..first + run].iter().map(|v| self.stored(*v)).collect();
            let v = if run == 1 { parts[0] } else { self.e.vector(&parts) };
            let attrs = format!("alignment = {} : i64", run as i64 * b.elem.bytes());
            self.e.when(ok, |e| e.op0("llvm.store", &attrs, &[v, p]));
        }
        Ok(())
    }

    /// A buffer to registers; `trans` reads element (j, i) where the tile wants (i, j).
    fn get(&mut self, t: &TileType, b: &BufferType, at: Place, trans: bool) -> Result<Vec<V>, Failure> {
        let d = self.distribution(t)?;
        let run = if trans { 1 } else { run_length(&d, b) };
        let mut out = vec![];
        for first in (0..d.regs.len()).step_by(run) {
            let (p, ok) = self.place(&d, t, b, at, first, trans);
            // A hole reads the buffer's first element instead.
            let p = match ok {
                Some(ok) => {
                    let safe = self.smem_at(at);
                    self.e.select(ok, p, safe)
                }
                None => p,
            };
            let attrs = format!("alignment = {} : i64", run as i64 * b.elem.bytes());
            let elem = if b.elem == Elem::I1 { Elem::I8 } else { b.elem };
            let ty = if run == 1 { Ty::Num(elem) } else { Ty::Vec(run as u32, elem) };
            let v = self.e.op("llvm.load", &attrs, &[p], ty);
            for i in 0..run {
                let x = if run == 1 { v } else { self.e.extract(v, i) };
                out.push(if b.elem == Elem::I1 {
                    self.e.op("arith.trunci", "", &[x], super::emit::I1)
                } else {
                    x
                });
            }
        }
        Ok(out)
    }

    fn stored(&mut self, v: V) -> V {
        if v.ty == super::emit::I1 { self.e.op("arith.extui", "", &[v], Ty::Num(Elem::I8)) } else { v }
    }

    /// Address of a register's element in a buffer, and whether the register holds one.
    fn place(
        &mut self,
        d: &Distribution,
        t: &TileType,
        b: &BufferType,
        at: Place,
        reg: usize,
        trans: bool,
    ) -> (V, Option<V>) {
        let rank = t.shape.len();
        let (mut ok, mut index) = (None, vec![]);
        for axis in 0..rank {
            let base = self.threads.base(&mut self.e, d, axis);
            let i = self.e.add(base, d.regs[reg][axis]);
            if d.extent(axis) > t.shape[axis] {
                let len = self.e.i32(t.shape[axis]);
                let real = self.e.icmp(6, i, len);
                ok = self.e.and(ok, Some(real));
            }
            index.push(i);
        }
        let elem = b.elem.bytes();
        let bytes = if b.layout.swizzle == 0 {
            // Row-major over the tile's own lengths (the transpose's, if it is read so).
            let (mut shape, mut order) = (t.shape.clone(), index.clone());
            if trans {
                shape.reverse();
                order.reverse();
            }
            let mut linear = order[0];
            for a in 1..rank {
                linear = self.e.mul(linear, shape[a]);
                linear = self.e.bin("addi", linear, order[a]);
            }
            self.e.mul(linear, elem)
        } else {
            let slab_cols = b.layout.slab_cols(b.shape[1], b.elem);
            let (mut row, col) = (index[0], index[rank - 1]);
            for (i, n) in index[1..rank - 1].iter().zip(&t.shape[1..]) {
                row = self.e.mul(row, *n);
                row = self.e.bin("addi", row, *i);
            }
            let per = self.e.i32(slab_cols);
            let (slab, within) = (self.e.bin("divui", col, per), self.e.bin("remui", col, per));
            let a = self.e.mul(slab, b.layout.slab_bytes(&b.shape, b.elem));
            let r = self.e.mul(row, b.layout.swizzle);
            let c = self.e.mul(within, elem);
            let linear = self.e.bin("addi", a, r);
            let linear = self.e.bin("addi", linear, c);
            let (seven, four, mask) = (self.e.i32(7), self.e.i32(4), self.e.i32(b.layout.mask()));
            let x = self.e.bin("shrui", linear, seven);
            let x = self.e.bin("andi", x, mask);
            let x = self.e.bin("shli", x, four);
            self.e.bin("xori", linear, x)
        };
        let base = self.smem_at(at);
        let wide = self.e.op("arith.extui", "", &[bytes], I64);
        (self.e.offset(base, wide), ok)
    }

    /// Reshape, transpose and conversion between layouts.
    pub(super) fn exchange(&mut self, op: &Op) -> Result<Vec<V>, Failure> {
        let (from, to) = (self.tile_type(op.operands[0])?, self.tile_type(op.result())?);
        let regs = self.tile(op.operands[0])?;
        let (before, after) = (self.distribution(&from)?, self.distribution(&to)?);
        let free = match op.kind {
            Kind::Convert => before == after,
            Kind::Reshape => reshape_is_free(&from, &to),
            _ => false,
        };
        if free {
            return Ok(regs);
        }
        if let (Kind::Convert, Some(plan)) = (&op.kind, shuffle::plan(&before, &after)) {
            return self.exchange_lanes(&regs, &plan, from.elem);
        }
        let (at, b) = self.scratch(op)?;
        self.put(&from, &regs, 0, &b, at)?;
        self.cta_barrier();
        self.get(&to, &b, at, op.kind == Kind::Trans)
    }

    /// The scratch buffer of an operation.
    pub(super) fn scratch(&mut self, op: &Op) -> Result<(Place, BufferType), Failure> {
        let v: ValueId =
            *op.operands.get(1).ok_or_else(|| Failure::Bug(format!("{:?} has no scratch", op.kind)))?;
        match self.func.ty(v).clone() {
            Type::Buffer(b) => Ok((self.buffer(v)?, b)),
            other => Err(Failure::Bug(format!("scratch of type {other}"))),
        }
    }

    /// Combines what warps hold of a reduction: each writes its part, all read all parts.
    pub(super) fn across_warps(
        &mut self,
        op: &Op,
        d: &Distribution,
        axis: usize,
        parts: &[(Vec<i64>, V)],
        combine: &mut dyn FnMut(&mut Self, V, V) -> V,
    ) -> Result<Vec<V>, Failure> {
        let (slots, count) = axis_slots(d, axis);
        if count == 1 {
            return Ok(parts.iter().map(|p| p.1).collect());
        }
        let (at, b) = self.scratch(op)?;
        let kept: Vec<usize> = (0..d.shape.len()).filter(|a| *a != axis).collect();
        let row: i64 = kept.iter().map(|a| d.shape[*a]).product();
        let table: Vec<i64> = slots.iter().map(|s| *s as i64).collect();
        let slot = self.threads.choose(&mut self.e, &table);
        let mine = self.e.mul(slot, row);
        let mut places = vec![];
        for (offset, _) in parts {
            let (mut linear, mut ok) = (self.e.i32(0), None);
            for (i, a) in kept.iter().enumerate() {
                let base = self.threads.base(&mut self.e, d, *a);
                let x = self.e.add(base, offset[i]);
                if d.extent(*a) > d.shape[*a] {
                    let len = self.e.i32(d.shape[*a]);
                    let real = self.e.icmp(6, x, len);
                    ok = self.e.and(ok, Some(real));
                }
                linear = self.e.mul(linear, d.shape[*a]);
                linear = self.e.bin("addi", linear, x);
            }
            places.push((linear, ok));
        }
        let attrs = format!("alignment = {} : i64", b.elem.bytes());
        let base = self.smem_at(at);
        let address = |s: &mut Self, index: V| {
            let bytes = s.e.mul(index, b.elem.bytes());
            let wide = s.e.op("arith.extui", "", &[bytes], I64);
            s.e.offset(base, wide)
        };
        for ((linear, ok), (_, v)) in places.iter().zip(parts) {
            let index = self.e.bin("addi", mine, *linear);
            let p = address(self, index);
            let v = self.stored(*v);
            self.e.when(*ok, |e| e.op0("llvm.store", &attrs, &[v, p]));
        }
        self.cta_barrier();
        let mut out = vec![];
        for ((linear, ok), (_, v)) in places.iter().zip(parts) {
            let linear = match ok {
                Some(ok) => {
                    let zero = self.e.i32(0);
                    self.e.select(*ok, *linear, zero)
                }
                None => *linear,
            };
            let mut sum: Option<V> = None;
            for s in 0..count {
                let index = self.e.add(linear, s * row);
                let p = address(self, index);
                let x = self.e.op("llvm.load", &attrs, &[p], v.ty);
                sum = Some(match sum {
                    Some(t) => combine(self, t, x),
                    None => x,
                });
            }
            out.extend(sum);
        }
        Ok(out)
    }
}

/// Elements that every thread holds in adjacent registers and that lie adjacent and aligned in a buffer.
/// Tiles that are loaded only to be stored to shared memory a little later in the same block: such a load needs no
/// registers for the whole tile. Nothing that writes to tensors may come between.
pub(super) fn copied_tiles(func: &Func) -> HashMap<ValueId, &Op> {
    let uses = func.uses();
    let mut found = HashMap::new();
    fn walk<'a>(block: &'a Block, uses: &HashMap<ValueId, Vec<&Op>>, found: &mut HashMap<ValueId, &'a Op>) {
        for (i, op) in block.ops.iter().enumerate() {
            op.regions.iter().for_each(|r| walk(r, uses, found));
            let (Kind::Load { .. }, Some(tile)) = (&op.kind, op.results.first()) else { continue };
            let next = block.ops[i + 1..].iter().take_while(|o| {
                o.regions.is_empty() && !matches!(o.kind, Kind::Store { .. } | Kind::StoreScalar)
            });
            let stored = next.into_iter().find(|o| o.operands.contains(tile));
            if uses[tile].len() == 1 && stored.is_some_and(|o| o.kind == Kind::LocalStore) {
                found.insert(*tile, op);
            }
        }
    }
    walk(&func.body, &uses, &mut found);
    found
}

fn run_length(d: &Distribution, b: &BufferType) -> usize {
    let last = d.shape.len() - 1;
    let fits = |run: i64| {
        let others = |o: &Vec<i64>| o[last] % run == 0;
        d.regs.len() as i64 % run == 0
            // Row-major scratch has rows of the tile's own length.
            && d.shape[last] % run == 0
            && d.lanes.iter().all(others)
            && d.warps.iter().all(others)
            && d.regs.chunks(run as usize).all(|c| {
                c[0][last] % run == 0
                    && c.iter().enumerate().all(|(i, r)| r[last] == c[0][last] + i as i64 && r[..last] == c[0][..last])
            })
    };
    let mut run = (RUN_BYTES / b.elem.bytes()).max(1);
    while run > 1 && !fits(run) {
        run /= 2;
    }
    run as usize
}
