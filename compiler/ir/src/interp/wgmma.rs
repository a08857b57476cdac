//! The asynchronous warpgroup matrix multiply: operands through decoded descriptors or fragments, results
//! in fragments, and groups in flight until a wait.
//!
//! Fragments come from the PTX ISA, not from `layout`. The bytes that a group in flight reads are locked:
//! a write to them traps, so reading them at issue or at completion is the same.

use super::cells::{Cells, Data, HOLE};
use super::descriptor::decode;
use super::frame::Frame;
use super::program::{Machine, Value};
use super::tiles::multiply_add;
use super::{Fault, Mode, Res, TrapKind, malformed, stop};
use crate::func::Op;
use crate::layout::{LANES, Layout, OperandView, WARPGROUP, acc_cols, acc_layout, acc_rows};
use crate::types::{Elem, Type};
use std::rc::Rc;

/// Threads of a warpgroup.
const THREADS: usize = 4 * LANES;
/// Rows of one instruction.
const ROWS: usize = 64;

/// One group: everything that one operation issues.
#[derive(Debug)]
pub(super) struct Group {
    result: Option<Cells>,
    reads: Vec<u32>,
    register_a: bool,
    done: bool,
}

impl Group {
    pub(super) fn is_done(&self) -> bool {
        self.done
    }
}

/// Row and column of an accumulator register in the 64 × N of one warpgroup.
fn accumulator(thread: usize, i: usize) -> (usize, usize) {
    let (w, l) = (thread / LANES, thread % LANES);
    (16 * w + l / 4 + 8 * (i >> 1 & 1), 8 * (i >> 2) + 2 * (l % 4) + (i & 1))
}

/// Row and k of half `e` of A register `r` in the 64 × 16 of one warpgroup.
fn fragment_a(thread: usize, r: usize, e: usize) -> (usize, usize) {
    let (w, l) = (thread / LANES, thread % LANES);
    (16 * w + l / 4 + 8 * (r & 1), 2 * (l % 4) + 8 * (r >> 1) + e)
}

/// An operand in shared memory.
struct Smem {
    at: i64,
    view: OperandView,
    elem: Elem,
    /// Elements along MN that are observable.
    len: i64,
}

/// Lengths of the whole product and of a warpgroup's part.
struct Sizes {
    m: usize,
    n: usize,
    k: usize,
    wgm: usize,
    wgn: usize,
    rows: usize,
    cols: usize,
}

impl Machine<'_> {
    fn operand(&self, op: &Op, i: usize, k_major: bool, len: i64) -> Res<(Smem, i64, i64)> {
        let (at, b) = self.buffer(op, i)?;
        let &[rows, cols] = &b.shape[..] else { return malformed("an operand of rank 2 is expected") };
        if b.layout.swizzle == 0 {
            return stop(TrapKind::Unsupported, "wgmma on a buffer without swizzle");
        }
        let fits = match b.elem {
            Elem::F16 | Elem::BF16 => true,
            Elem::E4M3 | Elem::E5M2 => k_major,
            _ => false,
        };
        if !fits {
            return malformed(format!(
                "wgmma on {} with K {}contiguous",
                b.elem,
                if k_major { "" } else { "not " }
            ));
        }
        let view = OperandView::new(&b.shape, b.elem, b.layout, k_major);
        let (mn, k) = if k_major { (rows, cols) } else { (cols, rows) };
        Ok((Smem { at, view, elem: b.elem, len }, mn, k))
    }

    /// The `count` × K elements from `first` on, fetched instruction by instruction; row-major, MN × K.
    fn fetch(&self, s: &Smem, first: usize, count: usize, k: usize, reads: &mut Vec<u32>) -> Res<Cells> {
        let bytes = s.elem.bytes();
        let step = 32 / bytes as usize;
        let mut bits = vec![0u64; count * k];
        let defined = |i: usize| ((first + i) as i64) < s.len;
        for k0 in (0..k).step_by(step) {
            let address = s.at + s.view.offset(first as i64, k0 as i64);
            let mut word = s.view.descriptor(address).encode();
            if let Some(Fault::Descriptor(flip)) = self.options.fault {
                word ^= flip;
            }
            let d = decode(word);
            if d.base_offset != 0 {
                return stop(TrapKind::Unsupported, "a base offset in a matrix descriptor");
            }
            for i in (0..count).filter(|i| defined(*i)) {
                for j in 0..step {
                    let at = d.element(s.view.k_major, i as i64, j as i64, bytes);
                    bits[i * k + k0 + j] = self.shared.async_read(at, bytes, None)?;
                    reads.extend((0..bytes).map(|b| (at + b) as u32));
                }
            }
        }
        let cells = Cells::from_bits(s.elem, &bits, Mode::Exact);
        let poison =
            (0..count).any(|i| !defined(i)).then(|| (0..count * k).map(|e| !defined(e / k)).collect());
        Ok(Cells { poison, ..cells })
    }

    /// The 64 × K elements of register A that a warpgroup holds of one block of rows.
    fn registers_a(&self, a: &Cells, frame: &Frame, s: &Sizes, gm: usize, block: usize) -> Cells {
        let first = gm * s.rows + block * ROWS;
        let mut index = vec![HOLE; ROWS * s.k];
        if frame.dist.is_none() {
            for (e, at) in index.iter_mut().enumerate() {
                let (row, k) = (first + e / s.k, e % s.k);
                *at = if row < s.m { (row * s.k + k) as u32 } else { HOLE };
            }
            return a.pick(&index);
        }
        for thread in 0..THREADS {
            for step in 0..s.k / 16 {
                for r in 0..4 {
                    for e in 0..2 {
                        let (row, k) = fragment_a(thread, r, e);
                        let reg = block * (s.k / 2) + 8 * step + 2 * r + e;
                        index[row * s.k + 16 * step + k] =
                            ((gm * THREADS + thread) * frame.regs + reg) as u32;
                    }
                }
            }
        }
        a.pick(&index)
    }

    /// `Wgmma`: computes and hides the result; returns the group's number.
    pub(super) fn issue(&mut self, op: &Op, trans_a: bool, trans_b: bool, with_acc: bool) -> Res<usize> {
        if self.options.mode == Mode::F64 {
            return stop(TrapKind::Unsupported, "wgmma without rounding");
        }
        let frame = self.result_frame(op)?;
        let ty = match op.results.first().and_then(|v| self.func.values.get(v.0 as usize)) {
            Some(Type::InFlight(t)) => t.clone(),
            _ => return malformed("the result is not in flight"),
        };
        let (&[m, n], Elem::F32) = (&ty.shape[..], ty.elem) else {
            return malformed(format!("{ty} is not an accumulator"));
        };
        // Before layouts are assigned it is the one that it will get.
        let groups = (self.func.tile_warps().unwrap_or(WARPGROUP) / WARPGROUP).max(1);
        let layout = ty.layout.clone().unwrap_or_else(|| acc_layout(m, n, groups, trans_b));
        let Layout::Acc { wgm, wgn } = &layout else {
            return malformed(format!("{ty} is not an accumulator"));
        };
        let (rows, cols) = (acc_rows(m, *wgm), acc_cols(n, *wgn));
        if cols > 256 {
            return malformed(format!("a warpgroup with {cols} columns"));
        }
        let (b, _, b_k) = self.operand(op, 1, trans_b, n)?;
        let register_a = matches!(self.value(op, 0)?, Value::Cells(_));
        let (a_smem, a_tile, k, elem) = if register_a {
            let (a, f) = self.tile(op, 0)?;
            let laid_out = f.layout.is_none() || f.layout == Some(Layout::Acc { wgm: *wgm, wgn: 1 });
            if trans_a
                || *wgn != 1
                || !laid_out
                || f.shape.len() != 2
                || f.shape[0] != m
                || a.elem.bytes() != 2
            {
                return malformed("A in registers does not have the accumulator's rows");
            }
            (None, Some((a.clone(), f.clone())), f.shape[1], a.elem)
        } else {
            let (a, _, k) = self.operand(op, 0, !trans_a, m)?;
            let elem = a.elem;
            (Some(a), None, k, elem)
        };
        if k > b_k || k % (32 / b.elem.bytes()) != 0 || elem.bytes() != b.elem.bytes() {
            return malformed(format!("wgmma of K = {k} {elem} with a B of {b_k} {}", b.elem));
        }
        let s = Sizes {
            m: m as usize,
            n: n as usize,
            k: k as usize,
            wgm: *wgm as usize,
            wgn: *wgn as usize,
            rows: rows as usize,
            cols: cols as usize,
        };
        let acc = if with_acc { Some(self.tile(op, 2)?) } else { None };
        if acc
            .as_ref()
            .is_some_and(|(c, f)| c.elem != Elem::F32 || f.shape != frame.shape || f.layout != frame.layout)
        {
            return malformed("the accumulator has another type than the result");
        }
        self.shared.tick();
        let mut reads = vec![];
        let mut out = Cells::zeros(Elem::F32, frame.at.len(), Mode::Exact);
        let mut bad = vec![true; frame.at.len()];
        for gn in 0..s.wgn {
            let bt = self.fetch(&b, gn * s.cols, s.cols, s.k, &mut reads)?;
            let index: Vec<u32> = (0..s.k * s.cols).map(|e| (e % s.cols * s.k + e / s.cols) as u32).collect();
            let b_block = bt.pick(&index);
            for (gm, block) in (0..s.wgm).flat_map(|g| (0..s.rows / ROWS).map(move |b| (g, b))) {
                let a_block = match (&a_smem, &a_tile) {
                    (Some(a), _) => self.fetch(a, gm * s.rows + block * ROWS, ROWS, s.k, &mut reads)?,
                    (None, Some((a, f))) => self.registers_a(a, f, &s, gm, block),
                    (None, None) => return malformed("wgmma without A"),
                };
                // Which cell each element of this warpgroup's block is.
                let mut cell = vec![HOLE; ROWS * s.cols];
                for thread in 0..THREADS {
                    for i in 0..s.cols / 2 {
                        let (row, col) = accumulator(thread, i);
                        let (at_m, at_n) = (gm * s.rows + block * ROWS + row, gn * s.cols + col);
                        cell[row * s.cols + col] = if frame.dist.is_some() {
                            let group = gm * s.wgn + gn;
                            ((group * THREADS + thread) * frame.regs + block * (s.cols / 2) + i) as u32
                        } else if at_m < s.m && at_n < s.n {
                            (at_m * s.n + at_n) as u32
                        } else {
                            HOLE
                        };
                    }
                }
                let c = match &acc {
                    Some((c, _)) => c.pick(&cell),
                    None => Cells::zeros(Elem::F32, cell.len(), Mode::Exact),
                };
                let d = multiply_add(&a_block, &b_block, &c, ROWS, s.cols, s.k)?;
                let (Data::F32(to), Data::F32(from)) = (&mut out.data, &d.data) else {
                    return malformed("an accumulator of another type");
                };
                for (e, at) in cell.iter().enumerate().filter(|(_, at)| **at != HOLE) {
                    to[*at as usize] = from[e];
                    bad[*at as usize] = d.is_poison(e);
                }
                self.report.wgmma += (s.k / (32 / b.elem.bytes() as usize)) as u64;
            }
        }
        out.poison = bad.contains(&true).then(|| Rc::from(bad));
        reads.sort_unstable();
        reads.dedup();
        self.shared.begin_group(&reads);
        self.groups.push(Group { result: Some(out), reads, register_a, done: false });
        self.report.groups += 1;
        let flying = self.groups.iter().filter(|g| !g.done).count() as u64;
        self.report.max_groups_in_flight = self.report.max_groups_in_flight.max(flying);
        Ok(self.groups.len() - 1)
    }

    /// `WgmmaWait`: completes all but the latest groups, of which this one must not be one.
    pub(super) fn wait(&mut self, op: &Op, pending: i64) -> Res<Cells> {
        let group = match self.value(op, 0)? {
            Value::InFlight(g) => *g,
            _ => return malformed("a wait for something that is not in flight"),
        };
        self.shared.tick();
        let flying: Vec<usize> = (0..self.groups.len()).filter(|g| !self.groups[*g].done).collect();
        let complete = flying.len().saturating_sub(usize::try_from(pending).unwrap_or(0));
        for g in &flying[..complete] {
            let done = &mut self.groups[*g];
            done.done = true;
            self.shared.end_group(&std::mem::take(&mut done.reads), None);
        }
        let Some(g) = self.groups.get_mut(group) else { return malformed("no such group") };
        if !g.done {
            let why = format!("a wait that leaves {pending} groups in flight does not cover this one");
            return stop(TrapKind::GroupInFlight, why);
        }
        if g.register_a && op.operands.len() < 2 {
            return malformed("the wait does not keep the registers of A");
        }
        match g.result.take() {
            Some(c) => Ok(c),
            None => malformed("a second wait for one group"),
        }
    }
}
