//! # split-loops
//!
//! A mask that only the last iterations of a loop need is left out of the others: the loop becomes two,
//! the first without the mask.
//!
//! Before
//! ```text
//! for n from 0 to N {
//!   %ok = tile.cmp slt, n*64 + iota, SK ; %s2 = tile.select %ok, %s, -inf ; ...
//! ```
//! After
//! ```text
//! %t = clamp((SK - 64) / 64 + 1, 0, N)      // from here on some element may fail the test
//! for n from 0 to %t { ... %s ... }
//! for n from %t to N { %ok = ... ; %s2 = tile.select %ok, %s, -inf ; ... }
//! ```
//! Requires: tiles without layouts. Ensures: every iteration computes what it did, in the same order.
//!
//! How: a condition is a comparison of integer tiles that are affine in the loop's counter, in `iota`s and
//! in scalars from outside the loop. Its smallest margin over the tile, as a function of the counter,
//! says from which iteration on it can fail. Index arithmetic is taken not to wrap: lengths are below 2³⁰.
//!
//! The fallback variant skips this pass: it holds tiles in registers on their way to shared memory, and the
//! second loop would make it spill.
//!
//! Declines when: no condition is of that form, none gets harder as the counter grows, or the step is not 1.

use flashc_ir::ops::{BinaryOp, Kind, Literal, Predicate};
use flashc_ir::{Block, Builder, Func, Op, Step, Type, ValueId};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

/// An integer: `iv`·counter + Σ coefficient·scalar + something from `low` to `high`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Affine {
    /// Coefficient of the loop's counter.
    pub iv: i64,
    /// Coefficients of scalars from outside the loop.
    pub outside: BTreeMap<ValueId, i64>,
    /// The least that the constant and the `iota`s add.
    pub low: i64,
    /// The most.
    pub high: i64,
}

impl Affine {
    fn constant(c: i64) -> Affine {
        Affine { low: c, high: c, ..Affine::default() }
    }

    fn plus(&self, other: &Affine, sign: i64) -> Affine {
        let mut sum = self.clone();
        sum.iv += sign * other.iv;
        for (v, c) in &other.outside {
            *sum.outside.entry(*v).or_default() += sign * c;
        }
        sum.outside.retain(|_, c| *c != 0);
        let (a, b) = (sign * other.low, sign * other.high);
        sum.low += a.min(b);
        sum.high += a.max(b);
        sum
    }

    fn times(&self, c: i64) -> Affine {
        Affine {
            iv: self.iv * c,
            outside: self.outside.iter().map(|(v, x)| (*v, x * c)).filter(|x| x.1 != 0).collect(),
            low: (self.low * c).min(self.high * c),
            high: (self.low * c).max(self.high * c),
        }
    }
}

impl fmt::Display for Affine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}·n", self.iv)?;
        for (v, c) in &self.outside {
            write!(f, " + {c}·%{}", v.0)?;
        }
        write!(f, " + {}..={}", self.low, self.high)
    }
}

/// What is left out of the first loop.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    /// Results of the selects that the first loop takes the first value of.
    pub selects: Vec<ValueId>,
    /// Their margins: all at least 1 in the first loop.
    pub margins: Vec<Affine>,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for m in &self.margins {
            writeln!(f, "unmasked while {m} >= 1")?;
        }
        Ok(())
    }
}

/// Runs the pass on every loop that allows it.
pub fn run(func: &Func) -> Func {
    let defs = func.defs();
    Builder::rebuild(func, &mut |b, old, op, map| match op.kind {
        Kind::For { .. } => match plan(old, op, &defs) {
            Some(p) => {
                apply(b, old, op, &p, map);
                Step::Done
            }
            None => Step::Copy,
        },
        _ => Step::Copy,
    })
}

struct Analysis<'a> {
    func: &'a Func,
    defs: &'a HashMap<ValueId, &'a Op>,
    counter: ValueId,
    inside: HashSet<ValueId>,
}

/// Decides for one loop.
pub fn plan(func: &Func, op: &Op, defs: &HashMap<ValueId, &Op>) -> Option<Plan> {
    if !matches!(defs.get(&op.operands[2]).map(|d| &d.kind), Some(Kind::Constant(Literal::Int(1)))) {
        return None;
    }
    let body = &op.regions[0];
    // The innermost loop is where the work is.
    if body.ops.iter().any(|o| matches!(o.kind, Kind::For { .. })) {
        return None;
    }
    let mut inside: HashSet<ValueId> = body.args.iter().copied().collect();
    flashc_ir::func::walk_block(body, &mut |o| inside.extend(&o.results));
    let a = Analysis { func, defs, counter: body.args[0], inside };
    let mut plan = Plan::default();
    for o in &body.ops {
        if o.kind == Kind::Select && func.ty(o.operands[0]).as_tile().is_some() {
            let mut margins = vec![];
            if a.margins(o.operands[0], &mut margins) && margins.iter().all(|m: &Affine| m.iv < 0) {
                plan.selects.push(o.result());
                plan.margins.extend(margins);
            }
        }
    }
    (!plan.selects.is_empty()).then_some(plan)
}

impl Analysis<'_> {
    /// The margins whose being at least 1 makes a condition true everywhere.
    fn margins(&self, cond: ValueId, out: &mut Vec<Affine>) -> bool {
        let Some(op) = self.defs.get(&cond) else { return false };
        match &op.kind {
            Kind::Broadcast { .. } | Kind::Reshape => self.margins(op.operands[0], out),
            Kind::Binary(BinaryOp::AndI) => {
                self.margins(op.operands[0], out) && self.margins(op.operands[1], out)
            }
            Kind::Compare(p) => {
                let (Some(x), Some(y)) = (self.affine(op.operands[0]), self.affine(op.operands[1])) else {
                    return false;
                };
                let one = Affine::constant(1);
                out.push(match p {
                    Predicate::Slt => y.plus(&x, -1),
                    Predicate::Sle => y.plus(&x, -1).plus(&one, 1),
                    Predicate::Sgt => x.plus(&y, -1),
                    Predicate::Sge => x.plus(&y, -1).plus(&one, 1),
                    _ => return false,
                });
                true
            }
            _ => false,
        }
    }

    /// A scalar or tile as an affine form.
    fn affine(&self, v: ValueId) -> Option<Affine> {
        if v == self.counter {
            return Some(Affine { iv: 1, ..Affine::default() });
        }
        let op = self.defs.get(&v);
        let part = |i: usize| op.and_then(|o| self.affine(o.operands[i]));
        let derived = match op.map(|o| &o.kind) {
            Some(Kind::Constant(Literal::Int(c))) => Some(Affine::constant(*c)),
            Some(Kind::Iota) => {
                let last = self.func.ty(v).as_tile()?.len() - 1;
                Some(Affine { high: last, ..Affine::default() })
            }
            Some(Kind::Splat | Kind::Broadcast { .. } | Kind::Reshape) => part(0),
            Some(Kind::Binary(BinaryOp::AddI)) => part(0).zip(part(1)).map(|(x, y)| x.plus(&y, 1)),
            Some(Kind::Binary(BinaryOp::SubI)) => part(0).zip(part(1)).map(|(x, y)| x.plus(&y, -1)),
            Some(Kind::Binary(BinaryOp::MulI)) => part(0).zip(part(1)).and_then(|(x, y)| {
                let number =
                    |a: &Affine| (a.iv == 0 && a.outside.is_empty() && a.low == a.high).then_some(a.low);
                number(&x).map(|c| y.times(c)).or_else(|| number(&y).map(|c| x.times(c)))
            }),
            _ => None,
        };
        // Any other scalar from outside the loop is a symbol.
        let symbol = !self.inside.contains(&v) && matches!(self.func.ty(v), Type::Scalar(_));
        derived.or_else(|| symbol.then(|| Affine { outside: BTreeMap::from([(v, 1)]), ..Affine::default() }))
    }
}

fn apply(b: &mut Builder, old: &Func, op: &Op, plan: &Plan, map: &mut HashMap<ValueId, ValueId>) {
    let bounds: Vec<ValueId> = op.operands[..3].iter().map(|v| map[v]).collect();
    let (lo, hi, step) = (bounds[0], bounds[1], bounds[2]);
    b.loc = op.loc.clone();
    // The first iteration that may fail a test.
    let mut middle = hi;
    for m in &plan.margins {
        let mut sum = b.i32(m.low - 1);
        for (v, c) in &m.outside {
            let c = b.i32(*c);
            let term = b.binary(BinaryOp::MulI, map[v], c);
            sum = b.binary(BinaryOp::AddI, sum, term);
        }
        let (by, one, zero) = (b.i32(-m.iv), b.i32(1), b.i32(0));
        let quotient = b.binary(BinaryOp::DivSI, sum, by);
        let from = b.binary(BinaryOp::AddI, quotient, one);
        let some = b.compare(Predicate::Sge, sum, zero);
        let from = b.op1(Kind::Select, &[some, from, lo], Type::I32);
        middle = b.binary(BinaryOp::MinSI, middle, from);
    }
    middle = b.binary(BinaryOp::MaxSI, middle, lo);
    let inits: Vec<ValueId> = op.operands[3..].iter().map(|v| map[v]).collect();
    let first = copy(b, old, op, [lo, middle, step], &inits, map, &plan.selects);
    let second = copy(b, old, op, [middle, hi, step], &first, map, &[]);
    map.extend(op.results.iter().copied().zip(second));
}

/// A copy of the loop over a part of its range; these selects take their first value.
fn copy(
    b: &mut Builder,
    old: &Func,
    op: &Op,
    bounds: [ValueId; 3],
    inits: &[ValueId],
    map: &HashMap<ValueId, ValueId>,
    taken: &[ValueId],
) -> Vec<ValueId> {
    let body: &Block = &op.regions[0];
    let types: Vec<_> = body.args.iter().map(|v| old.ty(*v).clone()).collect();
    let mut inner = map.clone();
    let args = b.begin(&types);
    inner.extend(body.args.iter().copied().zip(args));
    for o in &body.ops[..body.ops.len() - 1] {
        if o.kind == Kind::Select && taken.contains(&o.result()) {
            inner.insert(o.result(), inner[&o.operands[1]]);
        } else {
            b.copy(old, o, &mut inner);
        }
    }
    let yields: Vec<_> = body.ops[body.ops.len() - 1].operands.iter().map(|v| inner[v]).collect();
    b.loc = op.loc.clone();
    let region = b.end(&yields);
    let operands: Vec<_> = bounds.iter().chain(inits).copied().collect();
    b.loc = op.loc.clone();
    b.op_with(op.kind.clone(), &operands, &types[1..], vec![region])
}
