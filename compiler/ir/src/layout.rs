//! The closed set of layouts: which thread holds which element of a tile in which register, and
//! where an element of a buffer lies in shared memory.
//!
//! There is no layout solver. A [`Layout`] is a name; [`Layout::distribution`] expands it to a
//! [`Distribution`], in which an element's coordinates are a sum: one offset of the register, one of
//! each bit of the lane, one of the warp. Lowering, the interpreter and the passes all work on that
//! sum, so they need no case for each layout.
//!
//! Lengths need not divide: an element outside the tile is a *hole*, whose register exists and whose
//! value is never observed.

use crate::types::Elem;
use std::fmt;

/// Threads of a warp.
pub const LANES: usize = 32;
/// Warps of a warpgroup.
pub const WARPGROUP: i64 = 4;
/// Lanes that hold one row of an accumulator.
pub const QUAD: i64 = 4;
/// Adjacent columns of a thread in an accumulator.
pub const ACC_RUN: i64 = 2;

/// Which thread holds which element of a tile in which register.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Layout {
    /// The accumulator of `wgmma` (PTX ISA, "Register fragments for wgmma.mma_async"): rows split over
    /// `wgm` warpgroups, columns over `wgn`. A 16-bit tile in this layout is, register for register,
    /// the A fragment of the next `wgmma`: two adjacent columns pack into one 32-bit register.
    Acc {
        /// Warpgroups along the rows.
        wgm: i64,
        /// Warpgroups along the columns.
        wgn: i64,
    },
    /// Half the rows of an accumulator (see [`crate::ops::Kind::Rows`]): of each 16 that a warp holds, eight.
    AccHalf {
        /// Warpgroups along the rows.
        wgm: i64,
        /// Warpgroups along the columns.
        wgn: i64,
    },
    /// The rows of an accumulator, each lane of a quad with `run` adjacent columns: what it takes to access
    /// memory row by row. A conversion from [`Layout::Acc`] stays within quads (see [`crate::shuffle`]) if the
    /// columns of a warpgroup are whole groups of `4 · run`, or are not split.
    AccRuns {
        /// Warpgroups along the rows.
        wgm: i64,
        /// Warpgroups along the columns.
        wgn: i64,
        /// Adjacent columns of one thread, a power of two.
        run: i64,
    },
    /// A tile whose parent has one axis more; every holder of an element along that axis has a copy.
    Slice {
        /// The axis of the parent that is missing here.
        dim: usize,
        /// The parent's layout.
        parent: Box<Layout>,
    },
    /// Contiguous runs per thread, lanes and warps in row-major order, repeated over the tile.
    Blocked {
        /// Elements a thread holds in a row, one entry an axis.
        per_thread: Vec<i64>,
        /// Lanes along each axis; the product is 32, each a power of two.
        lanes: Vec<i64>,
        /// Warps along each axis.
        warps: Vec<i64>,
    },
}

impl Layout {
    /// The layout of a row vector (`dim` = 1) or column vector (`dim` = 0) of this one.
    pub fn slice(&self, dim: usize) -> Layout {
        Layout::Slice { dim, parent: Box::new(self.clone()) }
    }

    /// The layout of half the rows (see [`crate::ops::Kind::Rows`]), if threads hold both halves.
    pub fn half_rows(&self) -> Option<Layout> {
        match self {
            Layout::Acc { wgm, wgn } => Some(Layout::AccHalf { wgm: *wgm, wgn: *wgn }),
            Layout::Slice { dim: 1, parent } => parent.half_rows().map(|p| p.slice(1)),
            _ => None,
        }
    }

    /// Warps that take part.
    pub fn warps(&self) -> i64 {
        match self {
            Layout::Acc { wgm, wgn } | Layout::AccHalf { wgm, wgn } | Layout::AccRuns { wgm, wgn, .. } => {
                wgm * wgn * WARPGROUP
            }
            Layout::Slice { parent, .. } => parent.warps(),
            Layout::Blocked { warps, .. } => warps.iter().product(),
        }
    }

    /// The rank of the tiles that can have this layout.
    pub fn rank(&self) -> usize {
        match self {
            Layout::Acc { .. } | Layout::AccHalf { .. } | Layout::AccRuns { .. } => 2,
            Layout::Slice { parent, .. } => parent.rank() - 1,
            Layout::Blocked { per_thread, .. } => per_thread.len(),
        }
    }

    /// The smallest tile that repeats: lengths covered by one register of each thread, or one run.
    fn unit(&self) -> Vec<i64> {
        match self {
            Layout::Acc { wgm, wgn } => vec![64 * wgm, 8 * wgn],
            Layout::AccHalf { wgm, wgn } => vec![32 * wgm, 8 * wgn],
            Layout::AccRuns { wgm, wgn, run } => vec![64 * wgm, QUAD * run * wgn],
            Layout::Slice { dim, parent } => {
                let mut u = parent.unit();
                u.remove(*dim);
                u
            }
            Layout::Blocked { per_thread, lanes, warps } => {
                (0..per_thread.len()).map(|d| per_thread[d] * lanes[d] * warps[d]).collect()
            }
        }
    }

    /// Who holds what, for a tile of these lengths.
    ///
    /// # Panics
    /// If the rank is not [`Layout::rank`]; the verifier checks that.
    pub fn distribution(&self, shape: &[i64]) -> Distribution {
        assert_eq!(shape.len(), self.rank(), "layout {self} on shape {shape:?}");
        match self {
            Layout::Acc { wgm, wgn } => acc(shape, *wgm, *wgn, 2, ACC_RUN),
            Layout::AccHalf { wgm, wgn } => acc(shape, *wgm, *wgn, 1, ACC_RUN),
            Layout::AccRuns { wgm, wgn, run } => acc(shape, *wgm, *wgn, 2, *run),
            Layout::Slice { dim, parent } => {
                let mut full = shape.to_vec();
                full.insert(*dim, parent.unit()[*dim]);
                parent.distribution(&full).without(*dim)
            }
            Layout::Blocked { per_thread, lanes, warps } => blocked(shape, per_thread, lanes, warps),
        }
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Layout::Acc { wgm, wgn } => write!(f, "#tile.acc<wgm = {wgm}, wgn = {wgn}>"),
            Layout::AccHalf { wgm, wgn } => write!(f, "#tile.acc_half<wgm = {wgm}, wgn = {wgn}>"),
            Layout::AccRuns { wgm, wgn, run } => {
                write!(f, "#tile.acc_runs<wgm = {wgm}, wgn = {wgn}, run = {run}>")
            }
            Layout::Slice { dim, parent } => write!(f, "#tile.slice<dim = {dim}, parent = {parent}>"),
            Layout::Blocked { per_thread, lanes, warps } => {
                write!(f, "#tile.blocked<per_thread = {per_thread:?}, lanes = {lanes:?}, warps = {warps:?}>")
            }
        }
    }
}

/// Who holds what: the coordinates of an element are
/// `regs[register] + Σ lanes[bit] (over the set bits of the lane) + warps[warp]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distribution {
    /// The tile's lengths.
    pub shape: Vec<i64>,
    /// One offset a register.
    pub regs: Vec<Vec<i64>>,
    /// One offset a bit of the lane index.
    pub lanes: [Vec<i64>; 5],
    /// One offset a warp.
    pub warps: Vec<Vec<i64>>,
}

impl Distribution {
    /// Coordinates of a register of a thread, or `None` for a hole.
    pub fn coords(&self, warp: usize, lane: usize, reg: usize) -> Option<Vec<i64>> {
        let mut at = self.regs[reg].clone();
        for d in 0..at.len() {
            at[d] += self.warps[warp][d];
            for (bit, off) in self.lanes.iter().enumerate() {
                if lane >> bit & 1 == 1 {
                    at[d] += off[d];
                }
            }
        }
        at.iter().zip(&self.shape).all(|(a, n)| a < n).then_some(at)
    }

    /// Lane bits that change nothing: threads that differ only there hold the same elements.
    pub fn replicated_lane_bits(&self) -> Vec<usize> {
        (0..5).filter(|b| self.lanes[*b].iter().all(|x| *x == 0)).collect()
    }

    /// For each warp the first warp that holds the same elements.
    pub fn warp_owner(&self) -> Vec<usize> {
        self.warps.iter().map(|w| self.warps.iter().position(|x| x == w).unwrap_or(0)).collect()
    }

    /// Is this thread the one that speaks for the elements that it holds?
    pub fn is_owner(&self, warp: usize, lane: usize) -> bool {
        self.warp_owner()[warp] == warp && self.replicated_lane_bits().iter().all(|b| lane >> b & 1 == 0)
    }

    /// Can a register be a hole in some thread? Then its coordinates need a comparison.
    pub fn has_holes(&self) -> bool {
        (0..self.shape.len()).any(|d| self.extent(d) > self.shape[d])
    }

    /// One more than the largest coordinate along an axis, holes counted.
    pub fn extent(&self, d: usize) -> i64 {
        let max = |it: &mut dyn Iterator<Item = i64>| it.max().unwrap_or(0);
        max(&mut self.regs.iter().map(|r| r[d]))
            + self.lanes.iter().map(|l| l[d]).sum::<i64>()
            + max(&mut self.warps.iter().map(|w| w[d]))
            + 1
    }

    /// Drops an axis; registers that then coincide become one.
    fn without(mut self, dim: usize) -> Distribution {
        let cut = |v: &mut Vec<i64>| {
            v.remove(dim);
        };
        cut(&mut self.shape);
        self.regs.iter_mut().for_each(cut);
        self.lanes.iter_mut().for_each(cut);
        self.warps.iter_mut().for_each(cut);
        let mut seen = Vec::new();
        self.regs.retain(|r| {
            let new = !seen.contains(r);
            if new {
                seen.push(r.clone());
            }
            new
        });
        self
    }
}

fn round_up(n: i64, to: i64) -> i64 {
    (n + to - 1) / to * to
}

/// Rows that one warpgroup holds of an accumulator with `m` rows.
pub fn acc_rows(m: i64, wgm: i64) -> i64 {
    round_up(m, 64 * wgm) / wgm
}

/// Columns that one warpgroup holds of an accumulator with `n` columns.
pub fn acc_cols(n: i64, wgn: i64) -> i64 {
    round_up(n, 8 * wgn) / wgn
}

/// The accumulator layout of an `m` × `n` product over so many warpgroups: along M as far as it has blocks
/// of 64 rows, the rest along N where columns divide; else along M over padding. `trans_b` says that B is
/// stored N × K: a split of N then starts at any group of eight rows, else at a slab of any swizzle.
pub fn acc_layout(m: i64, n: i64, warpgroups: i64, trans_b: bool) -> Layout {
    let blocks = (m + 63) / 64;
    let wgm = (1..=warpgroups).filter(|w| warpgroups % w == 0 && *w <= blocks).max().unwrap_or(1);
    let wgn = warpgroups / wgm;
    let unit = if trans_b { 8 } else { 64 };
    if wgn == 1 || n % (unit * wgn) == 0 {
        Layout::Acc { wgm, wgn }
    } else {
        Layout::Acc { wgm: warpgroups, wgn: 1 }
    }
}

/// Rows as in the accumulator of `wgmma`, with `high` groups of eight a warp in each block: two, or one in a half
/// of it. A lane holds `run` adjacent columns of each `4 · run`; the accumulator itself has runs of two.
fn acc(shape: &[i64], wgm: i64, wgn: i64, high: i64, run: i64) -> Distribution {
    let block_rows = 32 * high;
    let rows = round_up(shape[0], block_rows * wgm) / wgm;
    let cols = round_up(shape[1], QUAD * run * wgn) / wgn;
    let mut regs = Vec::new();
    for block in 0..rows / block_rows {
        for chunk in 0..cols / (QUAD * run) {
            for high in 0..high {
                for c in 0..run {
                    regs.push(vec![block * block_rows + high * 8, chunk * QUAD * run + c]);
                }
            }
        }
    }
    let mut warps = Vec::new();
    for gm in 0..wgm {
        for gn in 0..wgn {
            for w in 0..WARPGROUP {
                warps.push(vec![gm * rows + w * 8 * high, gn * cols]);
            }
        }
    }
    let lanes = [vec![0, run], vec![0, 2 * run], vec![1, 0], vec![2, 0], vec![4, 0]];
    Distribution { shape: shape.to_vec(), regs, lanes, warps }
}

fn blocked(shape: &[i64], per_thread: &[i64], lanes: &[i64], warps: &[i64]) -> Distribution {
    let rank = shape.len();
    let step: Vec<i64> = (0..rank).map(|d| per_thread[d] * lanes[d] * warps[d]).collect();
    let reps: Vec<i64> = (0..rank).map(|d| (shape[d] + step[d] - 1) / step[d]).collect();
    let mut regs = Vec::new();
    for rep in counted(&reps) {
        for run in counted(per_thread) {
            regs.push((0..rank).map(|d| rep[d] * step[d] + run[d]).collect());
        }
    }
    // Lane bits go to the last axis first, so that neighbours in a warp are neighbours in memory.
    let mut bits = Vec::new();
    for d in (0..rank).rev() {
        let mut n = 1;
        while n < lanes[d] {
            let mut off = vec![0; rank];
            off[d] = n * per_thread[d];
            bits.push(off);
            n *= 2;
        }
    }
    bits.resize(5, vec![0; rank]);
    let warp_offsets = counted(warps)
        .into_iter()
        .map(|w| (0..rank).map(|d| w[d] * per_thread[d] * lanes[d]).collect())
        .collect();
    let lanes = bits.try_into().expect("32 lanes are five bits: the verifier checks the product");
    Distribution { shape: shape.to_vec(), regs, lanes, warps: warp_offsets }
}

/// Every coordinate below `shape`, row-major.
pub fn counted(shape: &[i64]) -> Vec<Vec<i64>> {
    let mut all = vec![vec![]];
    for n in shape {
        all = all.into_iter().flat_map(|v| (0..*n).map(move |i| [v.clone(), vec![i]].concat())).collect();
    }
    all
}

/// A placement in shared memory.
///
/// The last axis is cut into slabs of `swizzle` bytes; a slab holds every row, `swizzle` bytes each,
/// and within it the hardware's swizzle XORs address bits `[4, 4+B)` with bits `[7, 7+B)`, where B is
/// 3, 2, 1 for 128, 64, 32 bytes (PTX ISA, "Swizzling modes"). `swizzle = 0` is plain row-major.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shared {
    /// 0, 32, 64 or 128 bytes.
    pub swizzle: i64,
}

impl fmt::Display for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#tile.shared<swizzle = {}>", self.swizzle)
    }
}

/// Alignment that keeps the base offset of swizzle patterns zero.
pub const SWIZZLE_ALIGN: i64 = 1024;

impl Shared {
    /// The largest swizzle that divides a row of `cols` elements; a row is padded to 32 bytes.
    pub fn widest(cols: i64, elem: Elem) -> Shared {
        let row = round_up(cols * elem.bytes(), 32);
        let swizzle = [128, 64, 32].into_iter().find(|s| row % s == 0).unwrap_or(32);
        Shared { swizzle }
    }

    /// Columns of one slab.
    pub fn slab_cols(&self, cols: i64, elem: Elem) -> i64 {
        if self.swizzle == 0 { cols } else { self.swizzle / elem.bytes() }
    }

    /// Slabs of a buffer.
    pub fn slabs(&self, shape: &[i64], elem: Elem) -> i64 {
        let cols = shape[shape.len() - 1];
        let s = self.slab_cols(cols, elem);
        (cols + s - 1) / s
    }

    /// Bytes from one slab to the next.
    pub fn slab_bytes(&self, shape: &[i64], elem: Elem) -> i64 {
        let rows: i64 = shape[..shape.len() - 1].iter().product();
        if self.swizzle == 0 {
            rows * shape[shape.len() - 1] * elem.bytes()
        } else {
            round_up(rows * self.swizzle, SWIZZLE_ALIGN)
        }
    }

    /// Bytes of a buffer.
    pub fn bytes(&self, shape: &[i64], elem: Elem) -> i64 {
        self.slabs(shape, elem) * self.slab_bytes(shape, elem)
    }

    /// Byte offset of an element; `row` counts over all axes but the last.
    pub fn offset(&self, shape: &[i64], elem: Elem, row: i64, col: i64) -> i64 {
        let b = elem.bytes();
        if self.swizzle == 0 {
            return (row * shape[shape.len() - 1] + col) * b;
        }
        let per = self.slab_cols(shape[shape.len() - 1], elem);
        let linear = col / per * self.slab_bytes(shape, elem) + row * self.swizzle + col % per * b;
        linear ^ (linear >> 7 & self.mask()) << 4
    }

    /// The swizzle's mask: 7, 3, 1 or 0.
    pub fn mask(&self) -> i64 {
        match self.swizzle {
            128 => 7,
            64 => 3,
            32 => 1,
            _ => 0,
        }
    }
}

/// Rows of a TMA box at most.
const BOX_ROWS: i64 = 256;

/// The most rows that boxes of equal size can have which make up so many: whole groups of eight, so that each
/// starts at a period of the swizzle, or all in one.
pub fn box_rows(rows: i64) -> Option<i64> {
    (1..=rows.min(BOX_ROWS)).rev().find(|n| rows % n == 0 && (n % 8 == 0 || *n == rows))
}

/// How `wgmma` finds an operand in shared memory (PTX ISA, "Matrix descriptor").
///
/// Field values are bytes here; [`MatrixDescriptor::encode`] packs them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatrixDescriptor {
    /// Byte address of the first element.
    pub address: i64,
    /// Leading-dimension byte offset: between swizzle-wide columns of atoms, MN-major only.
    pub lbo: i64,
    /// Stride-dimension byte offset: between groups of eight rows.
    pub sbo: i64,
    /// Swizzle of the buffer.
    pub swizzle: i64,
}

impl MatrixDescriptor {
    /// The 64-bit descriptor.
    pub fn encode(&self) -> u64 {
        let field = |x: i64| (x as u64 >> 4) & 0x3fff;
        let mode = match self.swizzle {
            128 => 1u64,
            64 => 2,
            32 => 3,
            _ => 0,
        };
        field(self.address) | field(self.lbo) << 16 | field(self.sbo) << 32 | mode << 62
    }
}

/// One operand of a `wgmma` within a buffer.
///
/// Seen by the instruction, the operand is MN × K. `k_major` says that K is the buffer's last axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperandView {
    /// Is K contiguous?
    pub k_major: bool,
    /// Swizzle of the buffer.
    pub swizzle: i64,
    /// Bytes from slab to slab.
    pub slab_bytes: i64,
    /// Columns of a slab.
    pub slab_cols: i64,
}

impl OperandView {
    /// The view of a whole buffer of rank 2.
    pub fn new(shape: &[i64], elem: Elem, layout: Shared, k_major: bool) -> OperandView {
        OperandView {
            k_major,
            swizzle: layout.swizzle,
            slab_bytes: layout.slab_bytes(shape, elem),
            slab_cols: layout.slab_cols(shape[1], elem),
        }
    }

    /// Byte offset of the instruction that starts at element (`mn`, `k`) of the operand; `mn` is a
    /// multiple of 8 (K-major) or of a slab (MN-major), `k` one of 16 elements of 16 bits.
    pub fn offset(&self, mn: i64, k: i64) -> i64 {
        let (row, col) = if self.k_major { (mn, k) } else { (k, mn) };
        let elem_bytes = self.swizzle / self.slab_cols;
        col / self.slab_cols * self.slab_bytes + row * self.swizzle + col % self.slab_cols * elem_bytes
    }

    /// The descriptor of an instruction that starts at this byte address.
    pub fn descriptor(&self, address: i64) -> MatrixDescriptor {
        let lbo = if self.k_major { 16 } else { self.slab_bytes };
        MatrixDescriptor { address, lbo, sbo: 8 * self.swizzle, swizzle: self.swizzle }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every element of the tile is held, and only copies share an element.
    fn covers(layout: &Layout, shape: &[i64]) {
        let d = layout.distribution(shape);
        let mut owners = std::collections::HashMap::new();
        for w in 0..d.warps.len() {
            for l in 0..LANES {
                for r in 0..d.regs.len() {
                    if let (Some(at), true) = (d.coords(w, l, r), d.is_owner(w, l)) {
                        *owners.entry(at).or_insert(0) += 1;
                    }
                }
            }
        }
        assert_eq!(owners.len() as i64, shape.iter().product::<i64>(), "{layout} {shape:?}");
        assert!(owners.values().all(|n| *n == 1), "{layout} {shape:?}: an element has two owners");
    }

    #[test]
    fn every_element_has_one_owner() {
        for (wgm, wgn) in [(1, 1), (2, 1), (1, 2), (3, 1)] {
            for shape in [[64, 8], [128, 176], [192, 80], [48, 20], [1, 1], [65, 72]] {
                let l = Layout::Acc { wgm, wgn };
                covers(&l, &shape);
                covers(&l.slice(0), &shape[1..]);
                covers(&l.slice(1), &shape[..1]);
            }
        }
        let b = Layout::Blocked { per_thread: vec![1, 4], lanes: vec![4, 8], warps: vec![4, 1] };
        for shape in [[16, 32], [17, 33], [1, 1], [128, 7]] {
            covers(&b, &shape);
            covers(&b.slice(0), &shape[1..]);
            covers(&b.slice(1), &shape[..1]);
        }
        covers(&Layout::Blocked { per_thread: vec![4], lanes: vec![32], warps: vec![8] }, &[1000]);
    }

    /// PTX ISA: accumulator register i of lane l in warp w is at row 16w + l/4 + 8((i>>1)&1) and column
    /// 8(i>>2) + 2(l%4) + (i&1).
    #[test]
    fn accumulator_fragment_is_the_hardware_s() {
        let d = Layout::Acc { wgm: 1, wgn: 1 }.distribution(&[64, 24]);
        for w in 0..4 {
            for l in 0..32 {
                for i in 0..12 {
                    let want = vec![
                        (16 * w + l / 4 + 8 * (i >> 1 & 1)) as i64,
                        (8 * (i >> 2) + 2 * (l % 4) + (i & 1)) as i64,
                    ];
                    assert_eq!(d.coords(w, l, i), Some(want));
                }
            }
        }
    }

    #[test]
    fn swizzled_offsets_are_a_permutation() {
        for (swizzle, cols) in [(128, 128), (64, 96), (32, 16), (0, 20)] {
            let (s, shape) = (Shared { swizzle }, [24, cols]);
            let mut seen = std::collections::HashSet::new();
            for r in 0..24 {
                for c in 0..cols {
                    let o = s.offset(&shape, Elem::BF16, r, c);
                    assert!(o + 2 <= s.bytes(&shape, Elem::BF16));
                    assert!(seen.insert(o));
                }
            }
        }
        // Row 1, chunk 0 of a 128-byte swizzle moves to chunk 1.
        assert_eq!(Shared { swizzle: 128 }.offset(&[8, 64], Elem::BF16, 1, 0), 128 + 16);
    }

    #[test]
    fn descriptor_bits() {
        // 128-byte swizzle, K-major: leading offset 1, stride 64 (1024 bytes), mode 1 in bits 62-63.
        let v = OperandView::new(&[128, 128], Elem::BF16, Shared { swizzle: 128 }, true);
        assert_eq!(v.descriptor(0x4000).encode(), 0x400 | 1 << 16 | 64 << 32 | 1 << 62);
        assert_eq!(v.offset(64, 16), 64 * 128 + 32);
        assert_eq!(v.offset(0, 64), 128 * 128);
        let v = OperandView::new(&[128, 128], Elem::BF16, Shared { swizzle: 128 }, false);
        assert_eq!(v.descriptor(0).encode(), ((128 * 128) >> 4) << 16 | 64 << 32 | 1 << 62);
        assert_eq!(v.offset(64, 16), 128 * 128 + 16 * 128);
    }
}
