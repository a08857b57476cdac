//! Which thread this is, and where the elements that it holds lie.

use super::emit::{Emit, I32, V};
use flashc_ir::Distribution;
use std::collections::HashMap;

/// Values that depend on the thread alone, computed once in the prologue.
pub(super) struct Threads {
    /// Index in the CTA.
    pub(super) tid: V,
    lane: V,
    /// Index of the warp, the same register in all its threads.
    pub(super) warp: V,
    bases: HashMap<(Vec<i64>, Vec<i64>), V>,
    owners: HashMap<(Vec<usize>, Vec<usize>), Option<V>>,
    first: Option<V>,
}

impl Threads {
    pub(super) fn new(e: &mut Emit, warps: i64) -> Threads {
        let (mask, five, zero, all, clamp) = (e.i32(31), e.i32(5), e.i32(0), e.i32(-1), e.i32(31));
        e.in_prologue(|e| {
            let range = format!("range = #llvm.constant_range<i32, 0, {}>", warps * 32);
            let tid = e.op("nvvm.read.ptx.sreg.tid.x", &range, &[], I32);
            let lane = e.bin("andi", tid, mask);
            let warp = e.bin("shrui", tid, five);
            let warp = e.op("nvvm.shfl.sync", "kind = #nvvm<shfl_kind idx>", &[all, warp, zero, clamp], I32);
            Threads { tid, lane, warp, bases: HashMap::new(), owners: HashMap::new(), first: None }
        })
    }

    /// Is this the CTA's first thread?
    pub(super) fn first(&mut self, e: &mut Emit) -> V {
        if let Some(v) = self.first {
            return v;
        }
        let zero = e.i32(0);
        let v = e.in_prologue(|e| e.icmp(0, self.tid, zero));
        self.first = Some(v);
        v
    }

    /// Has this lane's index that bit? Computed where it is used: kept, it would cost a register for long.
    pub(super) fn lane_bit(&self, e: &mut Emit, bit: usize) -> V {
        let (mask, zero) = (e.i32(1 << bit), e.i32(0));
        let x = e.bin("andi", self.lane, mask);
        e.icmp(1, x, zero)
    }

    /// The thread's part of an element's coordinate along an axis; a register adds its own offset.
    pub(super) fn base(&mut self, e: &mut Emit, d: &Distribution, axis: usize) -> V {
        let lanes: Vec<i64> = d.lanes.iter().map(|l| l[axis]).collect();
        let warps: Vec<i64> = d.warps.iter().map(|w| w[axis]).collect();
        let key = (lanes.clone(), warps.clone());
        if let Some(v) = self.bases.get(&key) {
            return *v;
        }
        let parts = [self.lane_part(e, &lanes), self.warp_part(e, &warps)];
        let v = match parts {
            [Some(a), Some(b)] => e.in_prologue(|e| e.bin("addi", a, b)),
            [a, b] => a.or(b).unwrap_or_else(|| e.i32(0)),
        };
        self.bases.insert(key, v);
        v
    }

    /// Runs of bits whose offsets double are one shift, mask and product.
    fn lane_part(&self, e: &mut Emit, offsets: &[i64]) -> Option<V> {
        let mut sum: Option<V> = None;
        let mut bit = 0;
        while bit < offsets.len() {
            let mut end = bit + 1;
            while end < offsets.len() && offsets[bit] != 0 && offsets[end] == offsets[bit] << (end - bit) {
                end += 1;
            }
            if offsets[bit] != 0 {
                let (shift, mask, scale) =
                    (e.i32(bit as i64), e.i32((1 << (end - bit)) - 1), e.i32(offsets[bit]));
                let part = e.in_prologue(|e| {
                    let x = e.bin("shrui", self.lane, shift);
                    let x = e.bin("andi", x, mask);
                    e.bin("muli", x, scale)
                });
                sum = Some(sum.map_or(part, |s| e.in_prologue(|e| e.bin("addi", s, part))));
            }
            bit = end;
        }
        sum
    }

    /// A sum of digits of the warp's index where that fits, else a choice.
    fn warp_part(&self, e: &mut Emit, offsets: &[i64]) -> Option<V> {
        if offsets.iter().all(|o| *o == 0) {
            return None;
        }
        let n = offsets.len() as i64;
        let digits: Vec<(i64, i64)> = (1..n)
            .flat_map(|a| (2..=n).map(move |b| (a, b)))
            .filter(|(a, b)| a * b <= n && n % (a * b) == 0)
            .collect();
        let term = |(a, b): (i64, i64), w: i64| w / a % b;
        // The coefficient of a digit is the offset of the warp where it alone is 1.
        let coefficient = |(a, _): (i64, i64)| offsets[a as usize];
        let fits = |terms: &[(i64, i64)]| {
            (0..n).all(|w| {
                offsets[w as usize] == terms.iter().map(|t| term(*t, w) * coefficient(*t)).sum::<i64>()
            })
        };
        let one = digits.iter().map(|d| vec![*d]).find(|t| fits(t));
        let found = one.or_else(|| {
            let pairs = digits.iter().flat_map(|a| digits.iter().map(move |b| vec![*a, *b]));
            pairs.into_iter().find(|t| t[0] != t[1] && fits(t))
        });
        if let Some(terms) = found {
            let mut sum: Option<V> = None;
            for t in terms {
                let (a, b, c) = (e.i32(t.0), e.i32(t.1), e.i32(coefficient(t)));
                let part = e.in_prologue(|e| {
                    let x = if t.0 == 1 { self.warp } else { e.bin("divui", self.warp, a) };
                    let x = if t.0 * t.1 == n { x } else { e.bin("remui", x, b) };
                    e.bin("muli", x, c)
                });
                sum = Some(sum.map_or(part, |s| e.in_prologue(|e| e.bin("addi", s, part))));
            }
            return sum;
        }
        Some(self.choose(e, offsets))
    }

    /// `table[warp]`.
    pub(super) fn choose(&self, e: &mut Emit, table: &[i64]) -> V {
        let mut v = e.i32(table[0]);
        for (w, o) in table.iter().enumerate().skip(1) {
            if *o != table[w - 1] || table[..w].iter().any(|x| x != o) {
                let (w, o) = (e.i32(w as i64), e.i32(*o));
                v = e.in_prologue(|e| {
                    let here = e.icmp(0, self.warp, w);
                    e.select(here, o, v)
                });
            }
        }
        v
    }

    /// Does this thread speak for the elements that it holds? `None`: every thread does.
    pub(super) fn owner(&mut self, e: &mut Emit, d: &Distribution) -> Option<V> {
        let (bits, owner) = (d.replicated_lane_bits(), d.warp_owner());
        let key = (bits.clone(), owner.clone());
        if let Some(v) = self.owners.get(&key) {
            return *v;
        }
        let mut v = None;
        if !bits.is_empty() {
            let mask = bits.iter().map(|b| 1 << b).sum();
            let (mask, zero) = (e.i32(mask), e.i32(0));
            v = Some(e.in_prologue(|e| {
                let x = e.bin("andi", self.lane, mask);
                e.icmp(0, x, zero)
            }));
        }
        let speaks: Vec<i64> = owner.iter().enumerate().map(|(w, o)| (w == *o) as i64).collect();
        if speaks.contains(&0) {
            let (x, one) = (self.choose(e, &speaks), e.i32(1));
            let w = e.in_prologue(|e| e.icmp(0, x, one));
            v = Some(v.map_or(w, |v| e.in_prologue(|e| e.bin("andi", v, w))));
        }
        self.owners.insert(key, v);
        v
    }
}
