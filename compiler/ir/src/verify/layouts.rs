//! Shapes and layouts that a tile can have.

use crate::layout::{LANES, Layout};
use crate::types::TileType;

/// Tiles longer than this are refused.
const MAX_LEN: i64 = 1 << 24;
/// Adjacent columns that a thread may hold in the rows of an accumulator.
const MAX_RUN: i64 = 64;

/// Is this a layout for this shape? In words if not.
pub(crate) fn check_layout(layout: &Layout, shape: &[i64]) -> Result<(), String> {
    fn rank(l: &Layout) -> Result<usize, String> {
        match l {
            Layout::Acc { wgm, wgn } | Layout::AccHalf { wgm, wgn } | Layout::AccRuns { wgm, wgn, .. }
                if !((1..=8).contains(wgm) && (1..=8).contains(wgn) && wgm * wgn <= 8) =>
            {
                Err(format!("{l}: one to eight warpgroups are expected"))
            }
            Layout::AccRuns { run, .. } if !(1..=MAX_RUN).contains(run) || run & (run - 1) != 0 => {
                Err(format!("{l}: the run must be a power of two up to {MAX_RUN}"))
            }
            Layout::Acc { .. } | Layout::AccHalf { .. } | Layout::AccRuns { .. } => Ok(2),
            Layout::Slice { dim, parent } => match rank(parent)? {
                n if n < 2 || *dim >= n => Err(format!("{l}: the parent has no such axis to give away")),
                n => Ok(n - 1),
            },
            Layout::Blocked { per_thread, lanes, warps } => {
                let n = per_thread.len();
                let pow2 = |v: &[i64]| v.iter().all(|x| *x >= 1 && x & (x - 1) == 0);
                if n == 0 || lanes.len() != n || warps.len() != n {
                    return Err(format!("{l}: the lists differ in length"));
                }
                if !pow2(lanes) || lanes.iter().product::<i64>() != LANES as i64 {
                    return Err(format!("{l}: lanes must be powers of two with product 32"));
                }
                let fine = |v: &[i64], max| v.iter().all(|x| (1..=max).contains(x));
                if !fine(per_thread, 1 << 16) || !fine(warps, 32) || warps.iter().product::<i64>() > 32 {
                    return Err(format!("{l}: lengths must be positive and warps at most 32"));
                }
                Ok(n)
            }
        }
    }
    let r = rank(layout)?;
    if r != shape.len() {
        return Err(format!("{layout} is for rank {r}, the tile has rank {}", shape.len()));
    }
    Ok(())
}

/// Is this a shape that a tile can have?
pub(crate) fn check_shape(shape: &[i64]) -> Result<i64, String> {
    let len = shape.iter().try_fold(1i64, |n, d| if *d >= 1 { n.checked_mul(*d) } else { None });
    match len {
        Some(n) if n <= MAX_LEN && (1..=5).contains(&shape.len()) => Ok(n),
        _ => Err(format!("{shape:?} is not a tile's shape")),
    }
}

/// Can a broadcast give each thread of the result what the same thread holds of the operand?
pub(super) fn check_broadcast(from: &TileType, to: &TileType, dims: &[usize]) -> Result<(), String> {
    let (Some(have), Some(want)) = (&from.layout, &to.layout) else { return Ok(()) };
    let mut slice = want.clone();
    for axis in (0..to.shape.len()).rev().filter(|a| !dims.contains(a)) {
        slice = slice.slice(axis);
    }
    if *have == slice {
        return Ok(());
    }
    crate::interp::broadcast_holds(from, to, dims)
}
