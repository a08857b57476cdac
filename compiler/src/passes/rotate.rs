//! # rotate
//!
//! Overlaps the matrix products of a loop with its other work: the last product of an iteration, whose
//! result only the next iteration wants, is issued one iteration later, right behind that iteration's
//! first product. The tensor cores then have work while the other units compute.
//!
//! Before
//! ```text
//! for n { S = wgmma Q K[n]; wait; P = f(S); O = wgmma P V[n] O·a; wait }
//! ```
//! After
//! ```text
//! S = wgmma Q K[0]; wait; P = f(S)
//! for n from 1 { S = wgmma Q K[n]; O = wgmma P V[n-1] O; wait<1> S; ...; wait<0> O; P = f(S); O = O·a }
//! O = wgmma P V[last] O; wait
//! ```
//! Requires: `warpgroup-mma`. Ensures: the same operations on the same values, so results are bit for bit
//! the same; wait counts are those of the groups issued since.
//!
//! With several warpgroups that compute, they take turns at issuing, so that one's products run under the
//! other's work.
//!
//! Declines when: the loop does not have two products, the last one's result is wanted in the same
//! iteration, its first operand does not come from registers, or its buffer is filled anew before the
//! next iteration's first product.

use flashc_ir::layout::WARPGROUP;
use flashc_ir::ops::{BinaryOp, Kind, Predicate};
use flashc_ir::{Block, Builder, Func, Op, Step, Type, ValueId};
use std::collections::{HashMap, HashSet};

/// What moves.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Index of the first product in the body.
    pub first: usize,
    /// Indices of the last product, its wait, and what follows from the wait: the release of its buffer.
    pub last: usize,
    wait: usize,
    release: Vec<usize>,
    /// Operations on the carried accumulator, and those that only prepare the last product's registers:
    /// they follow its wait.
    after: Vec<usize>,
    /// Which carried value is the accumulator.
    accumulator: usize,
    /// Values of an iteration that the last product and its release need one iteration later.
    pub carried: Vec<ValueId>,
    /// Slots that are looked up again from carried indices.
    slots: Vec<usize>,
}

/// Runs the pass on every loop that allows it.
pub fn run(func: &Func) -> Func {
    let groups = func.tile_warps().unwrap_or(WARPGROUP) / WARPGROUP;
    Builder::rebuild(func, &mut |b, old, op, map| match op.kind {
        Kind::For { .. } => match plan(old, op) {
            Some(p) => {
                apply(b, old, op, &p, map, groups);
                Step::Done
            }
            None => Step::Copy,
        },
        _ => Step::Copy,
    })
}

/// Decides for one loop.
pub fn plan(func: &Func, op: &Op) -> Option<Plan> {
    let body = &op.regions[0];
    let products: Vec<usize> =
        (0..body.ops.len()).filter(|i| matches!(body.ops[*i].kind, Kind::Wgmma { .. })).collect();
    let (&first, &last) = (products.first()?, products.last()?);
    let nested = body.ops.iter().flat_map(|o| &o.regions).flat_map(|r| &r.ops);
    if products.len() != 2
        || nested.into_iter().any(|o| matches!(o.kind, Kind::Wgmma { .. } | Kind::For { .. }))
    {
        return None;
    }
    let product = &body.ops[last];
    let a = product.operands[0];
    if !matches!(func.ty(a), Type::Tile(_)) || product.operands.len() != 3 {
        return None;
    }
    // The buffer must still hold the tile an iteration later: a slot of a ring does, one that is filled anew
    // each time does not.
    let buffer = product.operands[1];
    let refilled = body
        .ops
        .iter()
        .any(|o| matches!(o.kind, Kind::LocalStore | Kind::TmaLoad { .. }) && o.operands.contains(&buffer));
    if refilled {
        return None;
    }
    let wait = (last..body.ops.len()).find(|i| body.ops[*i].operands.first() == Some(&product.result()))?;
    let result = body.ops[wait].result();
    let yields = &body.ops.last()?.operands;
    let accumulator = yields.iter().position(|v| *v == result)?;
    let reads = |i: usize, v: ValueId| body.ops[i].uses(v);
    // Nothing else may want the result in this iteration.
    if (0..body.ops.len() - 1).any(|i| reads(i, result)) {
        return None;
    }
    let wait_first =
        (first..body.ops.len()).find(|i| body.ops[*i].operands.first() == Some(&body.ops[first].result()))?;
    if wait_first > last {
        return None;
    }
    let defined: HashMap<ValueId, usize> =
        body.ops.iter().enumerate().flat_map(|(i, o)| o.results.iter().map(move |r| (*r, i))).collect();

    // What depends on the carried accumulator.
    let mut tainted: HashSet<ValueId> = HashSet::from([body.args[1 + accumulator]]);
    let mut after: Vec<usize> = vec![];
    for (i, o) in body.ops.iter().enumerate().take(last) {
        if tainted.iter().any(|v| o.uses(*v)) {
            tainted.extend(&o.results);
            after.push(i);
        }
    }
    let free = |i: &usize| body.ops[*i].kind.is_pure();
    if !after.iter().all(free) || !tainted.contains(&product.operands[2]) {
        return None;
    }
    // The accumulator must reach nothing but the product.
    let other_use = (last + 1..body.ops.len()).any(|i| tainted.iter().any(|v| reads(i, *v)));
    if other_use || tainted.contains(&a) {
        return None;
    }
    // The packing of A's registers: the product in flight still reads the old ones.
    let mut v = a;
    while let Some(&i) = defined.get(&v) {
        let only_for_a = (0..body.ops.len())
            .filter(|j| reads(*j, v))
            .all(|j| j == last || j == wait || after.contains(&j));
        if !matches!(body.ops[i].kind, Kind::Cast(_)) || !only_for_a {
            break;
        }
        after.push(i);
        v = body.ops[i].operands[0];
    }
    after.sort_unstable();

    // The release of the product's buffer stands after its wait.
    let release: Vec<usize> =
        (wait + 1..body.ops.len()).filter(|i| matches!(body.ops[*i].kind, Kind::BarrierArrive)).collect();
    let mut slots: Vec<usize> = vec![];
    let mut carried = vec![];
    let mut carry = |v: ValueId| {
        if (defined.contains_key(&v) || body.args.contains(&v)) && !carried.contains(&v) {
            carried.push(v);
        }
    };
    for i in [last].iter().chain(&release) {
        for v in &body.ops[*i].operands {
            match defined.get(v) {
                Some(&d) if body.ops[d].kind == Kind::Slot => {
                    slots.push(d);
                    carry(body.ops[d].operands[1]);
                }
                _ => carry(*v),
            }
        }
    }
    if carried.iter().any(|v| !matches!(func.ty(*v), Type::Tile(_) | Type::Scalar(_))) {
        return None;
    }
    Some(Plan { first, last, wait, release, after, accumulator, carried, slots })
}

/// Values of the previous iteration.
struct Previous {
    carried: Vec<ValueId>,
}

struct Rotation<'a> {
    old: &'a Func,
    body: &'a Block,
    plan: &'a Plan,
    turns: i64,
}

fn apply(
    b: &mut Builder,
    old: &Func,
    op: &Op,
    plan: &Plan,
    map: &mut HashMap<ValueId, ValueId>,
    groups: i64,
) {
    let body = &op.regions[0];
    let r = Rotation { old, body, plan, turns: groups };
    let bounds: Vec<ValueId> = op.operands[..3].iter().map(|v| map[v]).collect();
    let inits: Vec<ValueId> = op.operands[3..].iter().map(|v| map[v]).collect();
    let types: Vec<Type> = op.results.iter().map(|v| old.ty(*v).clone()).collect();
    b.loc = op.loc.clone();
    let any = b.compare(Predicate::Slt, bounds[0], bounds[1]);

    b.begin(&[]);
    // The first iteration, without its last product.
    let mut first = map.clone();
    first.insert(body.args[0], bounds[0]);
    first.extend(body.args[1..].iter().copied().zip(inits.iter().copied()));
    r.iteration(b, &mut first, None);
    let yields = &body.ops[body.ops.len() - 1].operands;
    let carry_types: Vec<Type> = plan.carried.iter().map(|v| old.ty(*v).clone()).collect();
    let next = |m: &HashMap<ValueId, ValueId>| -> Vec<ValueId> {
        let mut v: Vec<ValueId> = vec![];
        for (i, y) in yields.iter().enumerate() {
            if i != plan.accumulator {
                v.push(m[y]);
            }
        }
        v.extend(plan.carried.iter().map(|c| m[c]));
        v
    };
    let start = next(&first);
    let second = b.binary(BinaryOp::AddI, bounds[0], bounds[2]);

    let mut loop_types: Vec<Type> =
        types.iter().enumerate().filter(|(i, _)| *i != plan.accumulator).map(|(_, t)| t.clone()).collect();
    let kept = loop_types.len();
    loop_types.extend(carry_types);
    let mut arg_types = vec![Type::I32];
    arg_types.extend(loop_types.iter().cloned());
    let args = b.begin(&arg_types);
    let mut steady = map.clone();
    steady.insert(body.args[0], args[0]);
    let others = body.args[1..].iter().enumerate().filter(|(i, _)| *i != plan.accumulator).map(|(_, a)| *a);
    steady.extend(others.zip(args[1..1 + kept].iter().copied()));
    r.iteration(b, &mut steady, Some(Previous { carried: args[1 + kept..].to_vec() }));
    let region = b.end(&next(&steady));
    let mut operands = vec![second, bounds[1], bounds[2]];
    operands.extend(start);
    b.loc = op.loc.clone();
    let results = b.op_with(op.kind.clone(), &operands, &loop_types, vec![region]);

    // The last product.
    let mut tail = map.clone();
    let inflight = r.issue(b, &mut tail, &Previous { carried: results[kept..].to_vec() });
    r.collect(b, &mut tail, inflight, &results[kept..]);
    let mut out = results[..kept].to_vec();
    out.insert(plan.accumulator, tail[&body.ops[plan.wait].result()]);
    let then = b.end(&out);
    b.begin(&[]);
    let otherwise = b.end(&inits);
    b.loc = op.loc.clone();
    let results = b.op_with(Kind::If, &[any], &types, vec![then, otherwise]);
    map.extend(op.results.iter().copied().zip(results));
}

impl Rotation<'_> {
    /// One iteration without its last product; with the previous iteration's, if there is one.
    fn iteration(&self, b: &mut Builder, map: &mut HashMap<ValueId, ValueId>, previous: Option<Previous>) {
        let p = self.plan;
        let mut flying = None;
        for (i, op) in self.body.ops.iter().enumerate() {
            let moved = i == p.wait || p.release.contains(&i) || p.after.contains(&i);
            if moved || i + 1 == self.body.ops.len() {
                continue;
            }
            if i == p.last {
                let accumulator = self.body.args[1 + p.accumulator];
                if let (Some(prev), Some(f)) = (&previous, flying) {
                    self.collect(b, map, f, &prev.carried);
                    map.insert(accumulator, map[&self.body.ops[p.wait].result()]);
                }
                for j in &p.after {
                    b.copy(self.old, &self.body.ops[*j], map);
                }
                continue;
            }
            let turns = self.turns > 1 && previous.is_some() && i == p.first;
            if turns {
                b.op(Kind::TurnWait { turns: self.turns }, &[], &[]);
            }
            // The first product's wait lets the one issued behind it fly on.
            let waits_for_first = op.operands.first() == Some(&self.body.ops[p.first].result());
            if waits_for_first && previous.is_some() && matches!(op.kind, Kind::WgmmaWait { .. }) {
                b.loc = op.loc.clone();
                let operands: Vec<_> = op.operands.iter().map(|v| map[v]).collect();
                let ty = self.old.ty(op.result()).clone();
                let done = b.op1(Kind::WgmmaWait { pending: 1 }, &operands, ty);
                map.insert(op.result(), done);
                continue;
            }
            b.copy(self.old, op, map);
            if i == p.first {
                flying = previous.as_ref().map(|prev| self.issue(b, map, prev));
                if turns {
                    b.op(Kind::TurnPass { turns: self.turns }, &[], &[]);
                }
            }
        }
    }

    /// The previous iteration's values, under the names of this one's.
    fn past(
        &self,
        b: &mut Builder,
        map: &HashMap<ValueId, ValueId>,
        carried: &[ValueId],
    ) -> HashMap<ValueId, ValueId> {
        let mut past = map.clone();
        past.extend(self.plan.carried.iter().copied().zip(carried.iter().copied()));
        for s in &self.plan.slots {
            b.copy(self.old, &self.body.ops[*s], &mut past);
        }
        past
    }

    /// Issues the last product of the previous iteration.
    fn issue(&self, b: &mut Builder, map: &mut HashMap<ValueId, ValueId>, previous: &Previous) -> ValueId {
        let mut past = self.past(b, map, &previous.carried);
        let product = &self.body.ops[self.plan.last];
        b.copy(self.old, product, &mut past);
        past[&product.result()]
    }

    /// Waits for it and releases its buffer.
    fn collect(
        &self,
        b: &mut Builder,
        map: &mut HashMap<ValueId, ValueId>,
        inflight: ValueId,
        carried: &[ValueId],
    ) {
        let mut past = self.past(b, map, carried);
        past.insert(self.body.ops[self.plan.last].result(), inflight);
        let wait = &self.body.ops[self.plan.wait];
        b.copy(self.old, wait, &mut past);
        map.insert(wait.result(), past[&wait.result()]);
        for i in &self.plan.release {
            b.copy(self.old, &self.body.ops[*i], &mut past);
        }
    }
}
