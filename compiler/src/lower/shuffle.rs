//! Conversions between layouts within a warp: exchanges between lanes, several narrow elements at a time.

use super::emit::{I32, I64, Ty, V};
use super::{Failure, Lower};
use flashc_ir::Elem;
use flashc_ir::shuffle::Shuffles;

/// Bytes that a shuffle moves.
const WORD: i64 = 4;

impl Lower<'_> {
    pub(super) fn exchange_lanes(
        &mut self,
        regs: &[V],
        plan: &Shuffles,
        elem: Elem,
    ) -> Result<Vec<V>, Failure> {
        let zero = match elem {
            Elem::I1 => self.e.int(0, Ty::Num(Elem::I8)),
            e => self.e.int(0, Ty::Num(integer(e))),
        };
        let start: Vec<V> = plan.start.iter().map(|r| r.map_or(zero, |r| self.whole_bits(regs[r]))).collect();
        let pack = packed(plan, (WORD / elem.bytes()).max(1) as usize);
        let mut words: Vec<Vec<V>> = start.chunks(pack).map(|c| self.words(c)).collect();
        for swap in &plan.swaps {
            let bit = self.threads.lane_bit(&mut self.e, swap.bit);
            for (low, high) in swap.pairs.iter().filter(|p| p.0 % pack == 0) {
                let (low, high) = (low / pack, high / pack);
                for i in 0..words[low].len() {
                    let (x, y) = (words[low][i], words[high][i]);
                    let sent = self.e.select(bit, x, y);
                    let got = self.e.shuffle_xor(sent, 1 << swap.bit);
                    words[low][i] = self.e.select(bit, got, x);
                    words[high][i] = self.e.select(bit, y, got);
                }
            }
        }
        let mut out = Vec::with_capacity(start.len());
        for w in &words {
            self.of_words(w, pack, elem, &mut out);
        }
        Ok(out)
    }

    /// An element as an integer of its width in memory.
    pub(super) fn whole_bits(&mut self, v: V) -> V {
        match v.ty {
            Ty::Num(Elem::I1) => self.e.op("arith.extui", "", &[v], Ty::Num(Elem::I8)),
            Ty::Num(e) if e.is_float() => self.e.bitcast(v, Ty::Num(integer(e))),
            _ => v,
        }
    }

    /// Integers side by side in 32-bit words.
    pub(super) fn words(&mut self, parts: &[V]) -> Vec<V> {
        let Ty::Num(elem) = parts[0].ty else { return parts.to_vec() };
        if elem.bytes() == 2 * WORD {
            let halves = self.e.bitcast(parts[0], Ty::Vec(2, Elem::I32));
            return vec![self.e.extract(halves, 0), self.e.extract(halves, 1)];
        }
        let bits = match parts {
            [one] => *one,
            many => {
                let v = self.e.vector(many);
                self.e.bitcast(v, Ty::Num(of_bytes(elem.bytes() * many.len() as i64)))
            }
        };
        vec![if bits.ty == I32 { bits } else { self.e.op("arith.extui", "", &[bits], I32) }]
    }

    /// And back to elements.
    fn of_words(&mut self, words: &[V], n: usize, elem: Elem, out: &mut Vec<V>) {
        let int = integer(elem);
        let parts: Vec<V> = if elem.bytes() == 2 * WORD {
            let halves = self.e.vector(words);
            vec![self.e.bitcast(halves, I64)]
        } else {
            let total = of_bytes(int.bytes() * n as i64);
            let bits = match total {
                Elem::I32 => words[0],
                narrow => self.e.op("arith.trunci", "", &[words[0]], Ty::Num(narrow)),
            };
            if n == 1 {
                vec![bits]
            } else {
                let v = self.e.bitcast(bits, Ty::Vec(n as u32, int));
                (0..n).map(|i| self.e.extract(v, i)).collect()
            }
        };
        for v in parts {
            out.push(match elem {
                Elem::I1 => self.e.op("arith.trunci", "", &[v], super::emit::I1),
                e => self.e.bitcast(v, Ty::Num(e)),
            });
        }
    }
}

/// The integer type of an element's width in memory.
fn integer(elem: Elem) -> Elem {
    of_bytes(elem.bytes())
}

fn of_bytes(bytes: i64) -> Elem {
    match bytes {
        1 => Elem::I8,
        2 => Elem::I16,
        4 => Elem::I32,
        _ => Elem::I64,
    }
}

/// How many neighbouring registers, `most` or fewer, always move together.
fn packed(plan: &Shuffles, most: usize) -> usize {
    let together = |n: usize| {
        plan.start.len().is_multiple_of(n)
            && plan.swaps.iter().all(|s| {
                s.pairs.iter().all(|(low, high)| {
                    let first = low - low % n;
                    let shift = high.checked_sub(low % n);
                    shift.is_some_and(|h| h % n == 0 && s.pairs.contains(&(first, h)))
                })
            })
    };
    let mut n = most;
    while n > 1 && !together(n) {
        n /= 2;
    }
    n
}
