//! Conversions between register layouts in which only lanes of one warp exchange values.
//!
//! A [`Distribution`] is linear in the bits of the lane. Exchanging a lane bit with a distance between
//! registers is one shuffle for each pair of registers: lane 0 of the bit sends the upper register of the
//! pair and keeps the lower, lane 1 the other way round. A conversion that only moves bits between lanes and
//! registers is a few of these exchanges; from an accumulator to runs of its rows it is two, with the
//! neighbours at lane distances 1 and 2, and touches no shared memory.

use crate::layout::{Distribution, LANES};
use std::collections::HashMap;

/// A conversion within warps. It works on as many registers as the result has, in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shuffles {
    /// The register of the operand that each starts with; `None`: it only ever holds holes.
    pub start: Vec<Option<usize>>,
    /// Exchanges, in order.
    pub swaps: Vec<Swap>,
}

/// An exchange between lanes that differ in one bit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Swap {
    /// The bit.
    pub bit: usize,
    /// Lower and upper register of each pair: lanes without the bit send the upper, lanes with it the lower,
    /// and each gets in its place what the other sends.
    pub pairs: Vec<(usize, usize)>,
}

/// The exchanges that lead from one distribution to another; `None` if shuffles alone cannot.
pub fn plan(from: &Distribution, to: &Distribution) -> Option<Shuffles> {
    if from.shape != to.shape || from.warps != to.warps {
        return None;
    }
    // Backwards: the result's registers are the ones that all must become.
    let (mut at, mut lanes, mut swaps) = (to.regs.clone(), to.lanes.clone(), vec![]);
    while lanes != from.lanes {
        let (bit, pairs) = (0..lanes.len())
            .filter(|b| lanes[*b] != from.lanes[*b] && lanes[*b].iter().any(|x| *x != 0))
            .find_map(|b| Some((b, pairs(&at, &from.lanes[b])?)))?;
        for (low, high) in &pairs {
            at[*high] = sum(&at[*low], &lanes[bit]);
        }
        lanes[bit] = from.lanes[bit].clone();
        swaps.push(Swap { bit, pairs });
    }
    swaps.reverse();
    let place: HashMap<&Vec<i64>, usize> = from.regs.iter().enumerate().map(|(i, r)| (r, i)).collect();
    let start: Vec<Option<usize>> = at.iter().map(|r| place.get(r).copied()).collect();
    // Registers that only one side has must be holes.
    let mut work = from.clone();
    work.regs = at.iter().zip(&start).filter(|(_, s)| s.is_none()).map(|(r, _)| r.clone()).collect();
    work.regs.extend(from.regs.iter().filter(|r| !at.contains(r)).cloned());
    let holes = (0..work.regs.len())
        .all(|r| (0..work.warps.len()).all(|w| (0..LANES).all(|l| work.coords(w, l, r).is_none())));
    holes.then_some(Shuffles { start, swaps })
}

fn sum(a: &[i64], b: &[i64]) -> Vec<i64> {
    a.iter().zip(b).map(|(x, y)| x + y).collect()
}

/// Splits registers into pairs of this distance.
fn pairs(at: &[Vec<i64>], distance: &[i64]) -> Option<Vec<(usize, usize)>> {
    if distance.iter().all(|d| *d == 0) {
        return None;
    }
    let place: HashMap<&[i64], usize> = at.iter().enumerate().map(|(i, r)| (&r[..], i)).collect();
    let mut order: Vec<usize> = (0..at.len()).collect();
    order.sort_by_key(|i| &at[*i]);
    let mut taken = vec![false; at.len()];
    let mut out = vec![];
    for low in order {
        if std::mem::replace(&mut taken[low], true) {
            continue;
        }
        let high = *place.get(&sum(&at[low], distance)[..])?;
        if std::mem::replace(&mut taken[high], true) {
            return None;
        }
        out.push((low, high));
    }
    out.sort_unstable();
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Layout;

    /// Does what the lowering does, thread by thread, and compares every register that is no hole.
    fn simulate(from: &Distribution, to: &Distribution, s: &Shuffles) {
        for w in 0..from.warps.len() {
            let mut lanes: Vec<Vec<Option<Vec<i64>>>> =
                (0..LANES).map(|l| s.start.iter().map(|r| from.coords(w, l, (*r)?)).collect()).collect();
            for swap in &s.swaps {
                for (low, high) in &swap.pairs {
                    let sent: Vec<_> = (0..LANES)
                        .map(|l| lanes[l][if l >> swap.bit & 1 == 1 { *low } else { *high }].clone())
                        .collect();
                    for (l, regs) in lanes.iter_mut().enumerate() {
                        let place = if l >> swap.bit & 1 == 1 { *low } else { *high };
                        regs[place] = sent[l ^ (1 << swap.bit)].clone();
                    }
                }
            }
            for (l, regs) in lanes.iter().enumerate() {
                for (r, have) in regs.iter().enumerate() {
                    let want = to.coords(w, l, r);
                    assert!(want.is_none() || *have == want, "warp {w} lane {l} register {r}");
                }
            }
        }
    }

    #[test]
    fn accumulators_become_runs_within_quads() {
        for (wgm, wgn) in [(1, 1), (2, 1), (1, 2)] {
            for run in [1, 2, 4, 8, 16] {
                for (m, n) in [(64, 64), (128, 256), (100, 128), (128, 128)] {
                    let shape = [m, n * wgn];
                    let a = Layout::Acc { wgm, wgn }.distribution(&shape);
                    let b = Layout::AccRuns { wgm, wgn, run }.distribution(&shape);
                    let s = plan(&a, &b).expect("a conversion within quads");
                    assert!(s.swaps.len() <= 2 && s.swaps.iter().all(|w| w.bit < 2), "{s:?}");
                    simulate(&a, &b, &s);
                    simulate(&b, &a, &plan(&b, &a).expect("and back"));
                }
            }
        }
    }

    #[test]
    fn a_last_group_may_be_part_hole() {
        for n in [8, 16, 24, 40, 100, 176] {
            let shape = [64, n];
            let a = Layout::Acc { wgm: 1, wgn: 1 }.distribution(&shape);
            let b = Layout::AccRuns { wgm: 1, wgn: 1, run: 8 }.distribution(&shape);
            let s = plan(&a, &b).expect("holes fill up the group");
            simulate(&a, &b, &s);
        }
    }

    #[test]
    fn what_crosses_warps_is_refused() {
        let acc = Layout::Acc { wgm: 1, wgn: 1 }.distribution(&[64, 64]);
        let wide = Layout::Blocked { per_thread: vec![1, 8], lanes: vec![4, 8], warps: vec![4, 1] };
        assert_eq!(plan(&acc, &wide.distribution(&[64, 64])), None);
        // Columns of a warpgroup that are no whole groups would move to the next warpgroup.
        let (a, b) = (Layout::Acc { wgm: 1, wgn: 2 }, Layout::AccRuns { wgm: 1, wgn: 2, run: 8 });
        assert_eq!(plan(&a.distribution(&[64, 48]), &b.distribution(&[64, 48])), None);
        // Blocked layouts of one warp each, rows against columns.
        let blocked = |p: [i64; 2], l: [i64; 2]| Layout::Blocked {
            per_thread: p.to_vec(),
            lanes: l.to_vec(),
            warps: vec![1, 1],
        };
        let (a, b) = (blocked([1, 4], [4, 8]), blocked([4, 1], [1, 32]));
        let (a, b) = (a.distribution(&[4, 32]), b.distribution(&[4, 32]));
        let s = plan(&a, &b).expect("within the warp");
        simulate(&a, &b, &s);
    }
}
