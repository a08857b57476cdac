//! What divides a scalar, as far as its definition shows: whether an access may take several elements at
//! once depends on where it starts.

use crate::func::{Func, Op, ValueId};
use crate::ops::{BinaryOp, Kind, Literal};
use std::collections::HashMap;

/// No larger divisor is looked for.
const MOST: i64 = 128;

/// Powers of two that divide scalars.
#[derive(Debug)]
pub struct Divisors<'a> {
    defs: HashMap<ValueId, &'a Op>,
    /// Lower bound and step of each loop counter.
    counters: HashMap<ValueId, (ValueId, ValueId)>,
    known: HashMap<ValueId, i64>,
}

impl<'a> Divisors<'a> {
    /// For a function's scalars.
    pub fn new(func: &'a Func) -> Divisors<'a> {
        let mut counters = HashMap::new();
        func.walk(&mut |op| {
            if let (Kind::For { .. }, Some(counter)) =
                (&op.kind, op.regions.first().and_then(|r| r.args.first()))
            {
                counters.insert(*counter, (op.operands[0], op.operands[2]));
            }
        });
        Divisors { defs: func.defs(), counters, known: HashMap::new() }
    }

    /// A power of two that divides a scalar.
    pub fn of(&mut self, v: ValueId) -> i64 {
        if let Some(d) = self.known.get(&v) {
            return *d;
        }
        let mut d = 1;
        if let Some(op) = self.defs.get(&v).copied() {
            let of = |s: &mut Self, i: usize| s.of(op.operands[i]);
            d = match &op.kind {
                Kind::Constant(Literal::Int(0)) => MOST,
                Kind::Constant(Literal::Int(c)) => (1 << c.trailing_zeros().min(62)).min(MOST),
                Kind::Binary(BinaryOp::MulI) => (of(self, 0) * of(self, 1)).min(MOST),
                Kind::Binary(BinaryOp::AddI | BinaryOp::SubI | BinaryOp::MinSI | BinaryOp::MaxSI) => {
                    of(self, 0).min(of(self, 1))
                }
                Kind::Select => of(self, 1).min(of(self, 2)),
                _ => 1,
            };
        } else if let Some((lo, step)) = self.counters.get(&v).copied() {
            d = self.of(lo).min(self.of(step));
        }
        self.known.insert(v, d);
        d
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::func::{Builder, Loc};
    use crate::types::Type;

    #[test]
    fn products_sums_and_counters() {
        let args = [("n".to_string(), Type::I32)];
        let mut b = Builder::new("f", &args, Loc::new("f.tile", 1, 1));
        let n = b.args()[0];
        let (zero, six, forty) = (b.i32(0), b.i32(6), b.i32(40));
        let a = b.binary(BinaryOp::MulI, n, forty);
        let c = b.binary(BinaryOp::AddI, a, six);
        let counter = b.begin(&[Type::I32])[0];
        let by_counter = b.binary(BinaryOp::MulI, counter, six);
        let body = b.end(&[]);
        b.op_with(Kind::For { unordered: false }, &[zero, n, forty], &[], vec![body]);
        let f = b.finish();
        let mut d = Divisors::new(&f);
        let found: Vec<i64> = [n, zero, six, forty, a, c, by_counter].map(|v| d.of(v)).to_vec();
        assert_eq!(found, [1, MOST, 2, 8, 8, 2, 16]);
    }
}
