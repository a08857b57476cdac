//! Which element of a tile each cell holds: row-major without a layout, by thread and register with one.

use super::cells::{Cells, HOLE, Mask};
use super::{Fault, Res, TrapKind, malformed, stop};
use crate::layout::{Distribution, LANES, Layout};
use crate::types::TileType;
use crate::verify::layouts::{check_layout, check_shape};
use std::rc::Rc;

/// The cells of a tile type. Without a layout there is one thread that holds everything in order.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) shape: Vec<i64>,
    /// Element (row-major) of each cell, cells counted thread by thread; [`HOLE`] for a hole.
    pub(super) at: Vec<u32>,
    /// The holes, as an undefined mask.
    pub(super) holes: Mask,
    /// Cells of one thread.
    pub(super) regs: usize,
    /// Threads; a warp's lanes follow each other.
    pub(super) threads: usize,
    /// Does this thread speak for the elements that it holds?
    pub(super) owner: Vec<bool>,
    pub(super) dist: Option<Distribution>,
    pub(super) layout: Option<Layout>,
}

/// Distance of neighbours along each axis in row-major order.
pub(super) fn row_major(shape: &[i64]) -> Vec<i64> {
    let mut strides = vec![1; shape.len()];
    for d in (1..shape.len()).rev() {
        strides[d - 1] = strides[d] * shape[d];
    }
    strides
}

impl Frame {
    pub(super) fn new(tile: &TileType, fault: Option<Fault>) -> Res<Frame> {
        let len = match check_shape(&tile.shape) {
            Ok(n) => n as usize,
            Err(e) => return malformed(e),
        };
        let Some(layout) = &tile.layout else {
            let at = (0..len as u32).collect();
            let shape = tile.shape.clone();
            return Ok(Frame {
                shape,
                at,
                holes: None,
                regs: len,
                threads: 1,
                owner: vec![true],
                dist: None,
                layout: None,
            });
        };
        if let Err(e) = check_layout(layout, &tile.shape) {
            return malformed(e);
        }
        let mut dist = layout.distribution(&tile.shape);
        if let Some(Fault::SwapLaneBits(a, b)) = fault {
            dist.lanes.swap(a % 5, b % 5);
        }
        let rank = tile.shape.len();
        let strides = row_major(&tile.shape);
        let (warps, regs) = (dist.warps.len(), dist.regs.len());
        let mut at = Vec::with_capacity(warps * LANES * regs);
        for warp in &dist.warps {
            for lane in 0..LANES {
                let mut base = warp.clone();
                for (bit, off) in dist.lanes.iter().enumerate() {
                    if lane >> bit & 1 == 1 {
                        (0..rank).for_each(|d| base[d] += off[d]);
                    }
                }
                for reg in &dist.regs {
                    let inside = (0..rank).all(|d| base[d] + reg[d] < tile.shape[d]);
                    let index: i64 = (0..rank).map(|d| (base[d] + reg[d]) * strides[d]).sum();
                    at.push(if inside { index as u32 } else { HOLE });
                }
            }
        }
        let holes = at.contains(&HOLE).then(|| at.iter().map(|a| *a == HOLE).collect::<Rc<[bool]>>());
        let warp_owner = dist.warp_owner();
        let copies = dist.replicated_lane_bits();
        let owns =
            |t: usize| warp_owner[t / LANES] == t / LANES && copies.iter().all(|b| (t % LANES) >> b & 1 == 0);
        let owner = (0..warps * LANES).map(owns).collect();
        Ok(Frame {
            shape: tile.shape.clone(),
            at,
            holes,
            regs,
            threads: warps * LANES,
            owner,
            dist: Some(dist),
            layout: Some(layout.clone()),
        })
    }

    /// Elements of the tile.
    pub(super) fn len(&self) -> usize {
        self.shape.iter().product::<i64>() as usize
    }

    /// The elements in row-major order; copies must agree.
    pub(super) fn gather(&self, cells: &Cells) -> Res<Cells> {
        if cells.len() != self.at.len() {
            return malformed(format!("{} cells for {} of the type", cells.len(), self.at.len()));
        }
        if self.dist.is_none() {
            return Ok(cells.clone());
        }
        let mut from = vec![HOLE; self.len()];
        for (cell, at) in self.at.iter().enumerate().filter(|(_, at)| **at != HOLE) {
            let first = &mut from[*at as usize];
            if *first == HOLE {
                *first = cell as u32;
            } else {
                let (a, b) = (*first as usize, cell);
                if cells.is_poison(a) != cells.is_poison(b)
                    || !cells.is_poison(a) && cells.key(a) != cells.key(b)
                {
                    let (ta, tb) = (a / self.regs, b / self.regs);
                    let value =
                        |i| if cells.is_poison(i) { "undefined".into() } else { cells.f64_at(i).to_string() };
                    return stop(
                        TrapKind::Replicas,
                        format!(
                            "threads {ta} and {tb} hold copies of element {at} that differ: {} and {}",
                            value(a),
                            value(b)
                        ),
                    );
                }
            }
        }
        Ok(cells.pick(&from))
    }

    /// The cells of elements in row-major order.
    pub(super) fn scatter(&self, dense: &Cells) -> Cells {
        if self.dist.is_none() { dense.clone() } else { dense.pick(&self.at) }
    }

    /// Marks the holes undefined.
    pub(super) fn with_holes(&self, cells: Cells) -> Cells {
        let poison = super::cells::either(&cells.poison, &self.holes);
        Cells { poison, ..cells }
    }
}
