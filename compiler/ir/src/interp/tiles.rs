//! Operations on whole tiles: what a thread reads, it must hold, unless the operation moves elements.

use super::cells::{Cells, Data, HOLE, narrow};
use super::frame::{Frame, row_major};
use super::program::Machine;
use super::{Mode, Res, TrapKind, malformed, number, stop};
use crate::func::Op;
use crate::layout::LANES;
use crate::ops::ReduceOp;
use crate::types::Elem;
use std::rc::Rc;

/// How a reduction combines what threads hold; positions are cells of the result, one a thread if it is
/// a scalar.
#[derive(Debug)]
pub(super) struct ReducePlan {
    /// The position that each operand cell goes to.
    target: Vec<u32>,
    /// Positions of one thread.
    regs: usize,
    threads: usize,
    /// Lane bits that move along the axis.
    lane_bits: Vec<usize>,
    /// Warps that combine, ascending along the axis.
    warp_groups: Vec<Vec<usize>>,
    /// For each warp its group.
    group_of: Vec<usize>,
}

/// For each cell of `to`, the cell of the same thread in `from` that holds element `element(cell)`.
fn same_thread(from: &Frame, to: &Frame, element: impl Fn(u32) -> u32, strict: bool) -> Res<Vec<u32>> {
    if from.threads != to.threads {
        let why = format!("{} threads hold the operand and {} the result", from.threads, to.threads);
        return stop(TrapKind::LayoutMismatch, why);
    }
    let mut held = vec![(u32::MAX, HOLE); from.len()];
    let mut out = Vec::with_capacity(to.at.len());
    for t in 0..to.threads {
        for r in 0..from.regs {
            let cell = t * from.regs + r;
            if from.at[cell] != HOLE {
                held[from.at[cell] as usize] = (t as u32, cell as u32);
            }
        }
        for r in 0..to.regs {
            let at = to.at[t * to.regs + r];
            let want = if at == HOLE { HOLE } else { element(at) };
            out.push(match held.get(want as usize) {
                Some((thread, cell)) if *thread == t as u32 => *cell,
                Some(_) if strict => {
                    let why = format!("thread {t} needs element {want} of the operand and does not hold it");
                    return stop(TrapKind::LayoutMismatch, why);
                }
                _ => HOLE,
            });
        }
    }
    Ok(out)
}

/// Where a broadcast takes each cell of its result from.
pub(super) fn broadcast_plan(from: &Frame, to: &Frame, dims: &[usize]) -> Res<Vec<u32>> {
    let fits = dims.len() == from.shape.len()
        && dims.windows(2).all(|w| w[0] < w[1])
        && dims.iter().zip(&from.shape).all(|(d, n)| to.shape.get(*d) == Some(n));
    if !fits {
        return malformed(format!("broadcast of {:?} along {dims:?} to {:?}", from.shape, to.shape));
    }
    let (outer, inner) = (row_major(&to.shape), row_major(&from.shape));
    let element = |at: u32| {
        let one = |(i, d): (usize, &usize)| at as i64 / outer[*d] % to.shape[*d] * inner[i];
        dims.iter().enumerate().map(one).sum::<i64>() as u32
    };
    same_thread(from, to, element, true)
}

/// The plan of a reduction of `from` along `axis`; `to` is absent if the result is a scalar.
pub(super) fn reduce_plan(from: &Frame, to: Option<&Frame>, axis: usize) -> Res<ReducePlan> {
    let mut rest = from.shape.clone();
    if axis >= rest.len() {
        return malformed(format!("axis {axis} of rank {}", rest.len()));
    }
    rest.remove(axis);
    let want_layout = from.layout.as_ref().filter(|_| !rest.is_empty()).map(|l| l.slice(axis));
    match to {
        None if rest.is_empty() => {}
        Some(f) if f.shape == rest && f.layout == want_layout => {}
        Some(f) if f.shape == rest => {
            return stop(
                TrapKind::LayoutMismatch,
                "the result's layout is not the operand's without the axis",
            );
        }
        _ => return malformed(format!("reduction of {:?} along {axis}", from.shape)),
    }
    let (outer, inner) = (row_major(&from.shape), row_major(&rest));
    let element = |at: u32| {
        let coord = |d: usize| at as i64 / outer[d] % from.shape[d];
        (0..rest.len()).map(|d| coord(d + (d >= axis) as usize) * inner[d]).sum::<i64>() as u32
    };
    let (target, regs) = match to {
        None => {
            let t = |(c, at): (usize, &u32)| if *at == HOLE { HOLE } else { (c / from.regs) as u32 };
            (from.at.iter().enumerate().map(t).collect(), 1)
        }
        Some(f) => {
            // Each element that a thread combines is one of the result that the same thread holds.
            let back = same_thread(f, from, element, true)?;
            (back, f.regs)
        }
    };
    let (mut lane_bits, mut groups, mut group_of) = (vec![], vec![vec![0]], vec![0]);
    if let Some(d) = &from.dist {
        for (bit, off) in d.lanes.iter().enumerate().filter(|(_, off)| off[axis] != 0) {
            if off.iter().enumerate().any(|(i, x)| i != axis && *x != 0) {
                return malformed("a lane bit moves along two axes");
            }
            lane_bits.push(bit);
        }
        let key = |w: &Vec<i64>| [&w[..axis], &w[axis + 1..]].concat();
        let mut keys: Vec<Vec<i64>> = vec![];
        groups.clear();
        group_of.clear();
        for (w, off) in d.warps.iter().enumerate() {
            let g = keys.iter().position(|k| *k == key(off)).unwrap_or_else(|| {
                keys.push(key(off));
                groups.push(vec![]);
                keys.len() - 1
            });
            group_of.push(g);
            if !groups[g].iter().any(|x: &usize| d.warps[*x][axis] == off[axis]) {
                groups[g].push(w);
            }
        }
        groups.iter_mut().for_each(|g| g.sort_by_key(|w| d.warps[*w][axis]));
    }
    Ok(ReducePlan { target, regs, threads: from.threads, lane_bits, warp_groups: groups, group_of })
}

/// The columns of a tile and of half its rows.
fn half_of(whole: &Frame, half: &Frame) -> Res<i64> {
    let fits = whole.shape[0] == 2 * half.shape[0]
        && whole.shape[0] % 16 == 0
        && whole.shape[1..] == half.shape[1..];
    if !fits {
        return malformed(format!("{:?} is not half of {:?}", half.shape, whole.shape));
    }
    Ok(whole.shape[1..].iter().product())
}

impl ReducePlan {
    /// Combines registers, then lanes, then warps; every holder gets the result.
    fn run<T: Copy>(&self, x: &[T], f: impl Fn(T, T) -> T) -> Vec<Option<T>> {
        let join = |a: Option<T>, b: Option<T>| match (a, b) {
            (Some(a), Some(b)) => Some(f(a, b)),
            (a, b) => a.or(b),
        };
        let mut part: Vec<Option<T>> = vec![None; self.threads * self.regs];
        for (x, t) in x.iter().zip(&self.target).filter(|(_, t)| **t != HOLE) {
            let p = &mut part[*t as usize];
            *p = join(*p, Some(*x));
        }
        for bit in &self.lane_bits {
            let old = part.clone();
            for (i, p) in part.iter_mut().enumerate() {
                let (t, r) = (i / self.regs, i % self.regs);
                let other = (t ^ 1 << bit) * self.regs + r;
                // Both lanes must get the same bits, so the lower one comes first.
                *p = if t >> bit & 1 == 0 { join(old[i], old[other]) } else { join(old[other], old[i]) };
            }
        }
        if self.warp_groups.iter().all(|g| g.len() == 1) {
            return part;
        }
        let per_warp = LANES * self.regs;
        let old = part.clone();
        for (i, p) in part.iter_mut().enumerate() {
            let group = &self.warp_groups[self.group_of[i / per_warp]];
            *p = group.iter().fold(None, |acc, w| join(acc, old[w * per_warp + i % per_warp]));
        }
        part
    }

    fn cells(&self, op: ReduceOp, a: &Cells, mode: Mode) -> Cells {
        fn flat<T: Copy + Default>(v: Vec<Option<T>>) -> Vec<T> {
            v.into_iter().map(Option::unwrap_or_default).collect()
        }
        use ReduceOp::*;
        let elem = a.elem;
        let data = match (&a.data, op) {
            (Data::F32(v), Sum) => {
                let v = flat(self.run(v, |x, y| x + y));
                Data::F32(v.into_iter().map(|x| number::round32(x, elem)).collect())
            }
            (Data::F32(v), Max) => Data::F32(flat(self.run(v, number::max32))),
            (Data::F32(v), Min) => Data::F32(flat(self.run(v, number::min32))),
            (Data::F64(v), Sum) => Data::F64(flat(self.run(v, |x, y| x + y))),
            (Data::F64(v), Max) => Data::F64(flat(self.run(v, number::max64))),
            (Data::F64(v), Min) => Data::F64(flat(self.run(v, number::min64))),
            (Data::Int(v), Sum) => Data::Int(flat(self.run(v, |x, y| number::wrap(x.wrapping_add(y), elem)))),
            (Data::Int(v), Max) => Data::Int(flat(self.run(v, |x, y| x.max(y)))),
            (Data::Int(v), Min) => Data::Int(flat(self.run(v, |x, y| x.min(y)))),
        };
        debug_assert!(elem.is_float() || !narrow(elem, mode) || matches!(data, Data::Int(_)));
        let n = self.threads * self.regs;
        let bad: Vec<bool> = (0..a.len()).map(|i| a.is_poison(i)).collect();
        let bad: Vec<bool> = self.run(&bad, |x, y| x | y).into_iter().map(|b| b.unwrap_or(true)).collect();
        debug_assert_eq!(bad.len(), n);
        let poison = bad.contains(&true).then(|| bad.into());
        Cells { elem, data, poison }
    }
}

impl Machine<'_> {
    /// `Splat`.
    pub(super) fn splat(&mut self, op: &Op) -> Res<Cells> {
        let a = self.cells(op, 0)?;
        let frame = self.result_frame(op)?;
        if a.len() != 1 {
            return malformed("splat of a tile");
        }
        Ok(frame.with_holes(a.pick(&vec![0; frame.at.len()])))
    }

    /// `Iota`.
    pub(super) fn iota(&mut self, op: &Op) -> Res<Cells> {
        let frame = self.result_frame(op)?;
        if frame.shape.len() != 1 {
            return malformed("iota has rank 1");
        }
        Ok(frame.scatter(&Cells::ints(Elem::I32, (0..frame.len() as i64).collect())))
    }

    /// `Broadcast`.
    pub(super) fn broadcast(&mut self, op: &Op, dims: &[usize]) -> Res<Cells> {
        let (a, from) = self.tile(op, 0)?;
        let to = self.result_frame(op)?;
        let key = (op.operands[0], op.results[0]);
        let plan = match self.broadcasts.get(&key) {
            Some(p) => p.clone(),
            None => {
                let p = Rc::new(broadcast_plan(&from, &to, dims)?);
                self.broadcasts.insert(key, p.clone());
                p
            }
        };
        Ok(a.pick(&plan))
    }

    /// `Reshape` and `Convert`: the same elements in row-major order, wherever they go.
    pub(super) fn redistribute(&mut self, op: &Op, reshape: bool) -> Res<Cells> {
        let (a, from) = self.tile(op, 0)?;
        let to = self.result_frame(op)?;
        self.use_scratch(op)?;
        if from.len() != to.len() || !reshape && from.shape != to.shape {
            return malformed(format!("{:?} to {:?}", from.shape, to.shape));
        }
        Ok(to.scatter(&from.gather(&a)?))
    }

    /// `Trans`.
    pub(super) fn trans(&mut self, op: &Op) -> Res<Cells> {
        let (a, from) = self.tile(op, 0)?;
        let to = self.result_frame(op)?;
        self.use_scratch(op)?;
        let (&[m, n], &[n2, m2]) = (&from.shape[..], &to.shape[..]) else {
            return malformed("transpose has rank 2");
        };
        if m != m2 || n != n2 {
            return malformed(format!("transpose of {:?} to {:?}", from.shape, to.shape));
        }
        let index: Vec<u32> = (0..n * m).map(|e| (e % m * n + e / m) as u32).collect();
        Ok(to.scatter(&from.gather(&a)?.pick(&index)))
    }

    /// `Reduce`.
    pub(super) fn reduce(&mut self, op: &Op, how: ReduceOp, axis: usize) -> Res<Cells> {
        let (a, from) = self.tile(op, 0)?;
        let to = self.frame_of(op.results.first())?;
        self.use_scratch(op)?;
        let key = (op.operands[0], op.results[0]);
        let plan = match self.reductions.get(&key) {
            Some(p) => p.clone(),
            None => {
                let p = Rc::new(reduce_plan(&from, to.as_deref(), axis)?);
                self.reductions.insert(key, p.clone());
                p
            }
        };
        let mode = self.options.mode;
        if how == ReduceOp::Sum && a.elem.is_float() && self.options.ordered_sums && from.dist.is_some() {
            let plain = |shape: &[i64]| Frame::new(&crate::types::TileType::new(shape, a.elem), None);
            let dense = from.gather(&a)?;
            let inner = to.as_ref().map(|t| plain(&t.shape)).transpose()?;
            let sum = reduce_plan(&plain(&from.shape)?, inner.as_ref(), axis)?.cells(how, &dense, mode);
            return Ok(to.map_or(sum.clone(), |t| t.scatter(&sum)));
        }
        let all = plan.cells(how, &a, mode);
        if to.is_some() {
            return Ok(all);
        }
        if (1..all.len()).any(|i| all.key(i) != all.key(0)) {
            return stop(TrapKind::Replicas, "threads disagree about a reduction to a scalar");
        }
        Ok(all.pick(&[0]))
    }

    /// `Fold`: a thread combines what it holds, registers in order.
    pub(super) fn fold(&mut self, op: &Op, how: ReduceOp) -> Res<Cells> {
        let (a, from) = self.tile(op, 0)?;
        let to = self.result_frame(op)?;
        let (&[m, n], &[m2, 8]) = (&from.shape[..], &to.shape[..]) else {
            return malformed(format!("fold of {:?} to {:?}", from.shape, to.shape));
        };
        if m != m2 || n % 8 != 0 {
            return malformed(format!("fold of {:?} to {:?}", from.shape, to.shape));
        }
        let element = |at: u32| (at as i64 / n * 8 + at as i64 % 8) as u32;
        let target = same_thread(&to, &from, element, true)?;
        let plan = ReducePlan {
            target,
            regs: to.regs,
            threads: to.threads,
            lane_bits: vec![],
            warp_groups: vec![],
            group_of: vec![],
        };
        Ok(to.with_holes(plan.cells(how, &a, self.options.mode)))
    }

    /// `Rows`.
    pub(super) fn rows(&mut self, op: &Op, part: usize) -> Res<Cells> {
        let (a, from) = self.tile(op, 0)?;
        let to = self.result_frame(op)?;
        let cols = half_of(&from, &to)?;
        let element = |at: u32| {
            let (row, col) = (at as i64 / cols, at as i64 % cols);
            ((row / 8 * 16 + part as i64 * 8 + row % 8) * cols + col) as u32
        };
        Ok(a.pick(&same_thread(&from, &to, element, true)?))
    }

    /// `JoinRows`.
    pub(super) fn join_rows(&mut self, op: &Op) -> Res<Cells> {
        let ((a, half), (b, other)) = (self.tile(op, 0)?, self.tile(op, 1)?);
        let to = self.result_frame(op)?;
        let cols = half_of(&to, &half)?;
        half_of(&to, &other)?;
        let cells = |part: i64| {
            let element = |at: u32| {
                let (row, col) = (at as i64 / cols, at as i64 % cols);
                if row / 8 % 2 == part { ((row / 16 * 8 + row % 8) * cols + col) as u32 } else { HOLE }
            };
            same_thread(&half, &to, element, true)
        };
        let (first, second) = (cells(0)?, cells(1)?);
        let (first, second) = (a.pick(&first), b.pick(&second));
        let bits = to.at.iter().map(|at| (*at == HOLE || (*at as i64 / cols) / 8 % 2 == 0) as i64).collect();
        super::elementwise::select(&Cells::ints(Elem::I1, bits), &first, &second)
    }

    /// `Dot`.
    pub(super) fn dot(&mut self, op: &Op) -> Res<Cells> {
        let ((a, fa), (b, fb), (c, fc)) = (self.tile(op, 0)?, self.tile(op, 1)?, self.tile(op, 2)?);
        let to = self.result_frame(op)?;
        let (&[m, k], &[k2, n]) = (&fa.shape[..], &fb.shape[..]) else {
            return malformed("dot has rank 2");
        };
        if k != k2 || fc.shape != [m, n] || to.shape != [m, n] {
            let why = format!("dot of {:?}, {:?} and {:?} to {:?}", fa.shape, fb.shape, fc.shape, to.shape);
            return malformed(why);
        }
        let (a, b, c) = (fa.gather(&a)?, fb.gather(&b)?, fc.gather(&c)?);
        Ok(to.scatter(&multiply_add(&a, &b, &c, m as usize, n as usize, k as usize)?))
    }
}

fn accumulate<T: Copy>(a: &[T], b: &[T], c: &mut [T], n: usize, k: usize, f: impl Fn(T, T, T) -> T) {
    for (row, out) in c.chunks_exact_mut(n).enumerate() {
        for p in 0..k {
            let x = a[row * k + p];
            for (o, y) in out.iter_mut().zip(&b[p * n..(p + 1) * n]) {
                *o = f(x, *y, *o);
            }
        }
    }
}

/// Is the product of any two of these exact in `f32`, so that two operations are one fused?
fn products_exact(a: &Cells, v: &[f32]) -> bool {
    match a.elem {
        Elem::F16 | Elem::E4M3 | Elem::E5M2 => true,
        Elem::BF16 => v.iter().all(|x| *x == 0.0 || (1e-15..1e18).contains(&x.abs())),
        _ => false,
    }
}

/// `c + a · b`, row-major, in ascending k.
pub(super) fn multiply_add(a: &Cells, b: &Cells, c: &Cells, m: usize, n: usize, k: usize) -> Res<Cells> {
    let mut out = c.clone();
    match (&a.data, &b.data, &mut out.data) {
        (Data::F32(x), Data::F32(y), Data::F32(z)) if c.elem == Elem::F32 => {
            if products_exact(a, x) && products_exact(b, y) {
                accumulate(x, y, z, n, k, |a, b, c| c + a * b);
            } else {
                accumulate(x, y, z, n, k, |a, b, c| a.mul_add(b, c));
            }
        }
        (Data::F64(x), Data::F64(y), Data::F64(z)) => accumulate(x, y, z, n, k, |a, b, c| c + a * b),
        (Data::Int(x), Data::Int(y), Data::Int(z)) => {
            let elem = c.elem;
            accumulate(x, y, z, n, k, |a, b, c| number::wrap(c.wrapping_add(a.wrapping_mul(b)), elem));
        }
        _ => return malformed(format!("dot of {} and {} into {}", a.elem, b.elem, c.elem)),
    }
    if a.poison.is_some() || b.poison.is_some() {
        let row: Vec<bool> = (0..m).map(|i| (0..k).any(|p| a.is_poison(i * k + p))).collect();
        let col: Vec<bool> = (0..n).map(|j| (0..k).any(|p| b.is_poison(p * n + j))).collect();
        let bad = (0..m * n).map(|i| row[i / n] || col[i % n] || c.is_poison(i));
        out.poison = Some(bad.collect());
    }
    Ok(out)
}
