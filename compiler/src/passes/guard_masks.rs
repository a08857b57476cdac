//! # guard-masks
//!
//! A mask that only the last iterations of a loop need is applied under a condition: the others skip it.
//!
//! Before
//! ```text
//! for n from 0 to N {
//!   %ok = tile.cmp slt, n*64 + iota, SK ; %s2 = tile.select %ok, %s, -inf ; ...
//! ```
//! After
//! ```text
//! %t = clamp((SK - 64) / 64 + 1, 0, N)      // from here on some element may fail the test
//! for n from 0 to N {
//!   %s2 = scf.if n >= %t { %ok = ... ; yield tile.select %ok, %s, -inf } else { yield %s } ; ...
//! ```
//! Requires: tiles without layouts. Ensures: every iteration computes what it did.
//!
//! How: a condition is a comparison of integer tiles that are affine in the loop's counter, in `iota`s and
//! in scalars from outside the loop. Its smallest margin over the tile, as a function of the counter,
//! says from which iteration on it can fail. Index arithmetic is taken not to wrap: lengths are below 2³⁰.
//!
//! Two loops, one with the mask, were tried first: the pipeline of products then drains and fills once more
//! for each program, and the code doubles. A branch that all threads take costs next to nothing, because the
//! mask comes where a product has just been waited for.
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

/// What goes under the condition.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    /// Results of selects, in order; each but the first chooses between the one before and something else, or
    /// stands alone.
    pub selects: Vec<ValueId>,
    /// Their margins: where all are at least 1 the selects take their first value.
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
    let operands: Vec<ValueId> = op.operands.iter().map(|v| map[v]).collect();
    let (lo, hi) = (operands[0], operands[1]);
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
    let body: &Block = &op.regions[0];
    let last = body.ops.len() - 1;
    let guarded = guarded(body, plan);
    let types: Vec<_> = body.args.iter().map(|v| old.ty(*v).clone()).collect();
    let args = b.begin(&types);
    map.extend(body.args.iter().copied().zip(args.iter().copied()));
    for (i, o) in body.ops[..last].iter().enumerate() {
        if !guarded.contains(&i) {
            b.copy(old, o, map);
            continue;
        }
        // A chain of selects ends where its result is used by something else.
        let chain = chain_of(body, plan, i);
        if chain.last() != Some(&i) {
            continue;
        }
        b.loc = o.loc.clone();
        let masked = b.compare(Predicate::Sge, args[0], middle);
        b.begin(&[]);
        let mut inner = map.clone();
        for j in slice_of(body, &guarded, &chain) {
            b.copy(old, &body.ops[j], &mut inner);
        }
        let then = b.end(&[inner[&o.result()]]);
        b.begin(&[]);
        let otherwise = b.end(&[map[&body.ops[chain[0]].operands[1]]]);
        b.loc = o.loc.clone();
        let ty = old.ty(o.result()).clone();
        let chosen = b.op_with(Kind::If, &[masked], &[ty], vec![then, otherwise])[0];
        map.insert(o.result(), chosen);
    }
    let yields: Vec<_> = body.ops[last].operands.iter().map(|v| map[v]).collect();
    let region = b.end(&yields);
    b.loc = op.loc.clone();
    let results = b.op_with(op.kind.clone(), &operands, &types[1..], vec![region]);
    map.extend(op.results.iter().copied().zip(results));
}

/// The selects, and what only they need.
fn guarded(body: &Block, plan: &Plan) -> Vec<usize> {
    let last = body.ops.len() - 1;
    let mut under: Vec<usize> = vec![];
    for i in (0..last).rev() {
        let op = &body.ops[i];
        let Some(result) = op.results.first() else { continue };
        let users: Vec<usize> = (i + 1..=last).filter(|j| body.ops[*j].uses(*result)).collect();
        let select = op.kind == Kind::Select && plan.selects.contains(result);
        // The value that a select takes where its test holds is wanted in any case.
        let only_tested = |j: &usize| under.contains(j) && body.ops[*j].operands.get(1) != Some(result);
        let needed_here = op.kind.is_pure() && !users.is_empty() && users.iter().all(only_tested);
        if select || needed_here {
            under.push(i);
        }
    }
    under.sort_unstable();
    under
}

/// The selects that a select continues and that continue it, in order.
fn chain_of(body: &Block, plan: &Plan, i: usize) -> Vec<usize> {
    let last = body.ops.len() - 1;
    let is_select =
        |j: usize| plan.selects.contains(&body.ops[j].results.first().copied().unwrap_or(ValueId(u32::MAX)));
    if !is_select(i) {
        return vec![];
    }
    let mut chain = vec![i];
    while let Some(before) =
        (0..chain[0]).find(|j| is_select(*j) && body.ops[*j].result() == body.ops[chain[0]].operands[1])
    {
        if (before + 1..=last).filter(|j| body.ops[*j].uses(body.ops[before].result())).count() != 1 {
            break;
        }
        chain.insert(0, before);
    }
    loop {
        let end = chain[chain.len() - 1];
        let users: Vec<usize> =
            (end + 1..=last).filter(|j| body.ops[*j].uses(body.ops[end].result())).collect();
        match users[..] {
            [next] if is_select(next) && body.ops[next].operands[1] == body.ops[end].result() => {
                chain.push(next)
            }
            _ => return chain,
        }
    }
}

/// Of what is guarded, what a chain needs, in order.
fn slice_of(body: &Block, guarded: &[usize], chain: &[usize]) -> Vec<usize> {
    let mut wanted: Vec<usize> = chain.to_vec();
    for i in guarded.iter().rev() {
        let op = &body.ops[*i];
        let selects_other = wanted.iter().any(|j| body.ops[*j].uses(op.results[0]));
        if !wanted.contains(i) && selects_other {
            wanted.push(*i);
        }
    }
    wanted.sort_unstable();
    wanted
}
