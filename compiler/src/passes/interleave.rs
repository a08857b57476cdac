//! # interleave
//!
//! Orders the work between the end of one product and the end of the next by halves of the rows: while the
//! special-function unit computes the exponentials of one half, the other half's maxima and scalings run, and
//! the product in flight is collected about when it ends.
//!
//! Before
//! ```text
//! S = wgmma_wait 1 ; m = max S ; P = exp2 S - m ; l = sum P
//! O = wgmma_wait 0 ; P = cast P ; O = O · a
//! ```
//! After
//! ```text
//! S = wgmma_wait 1
//! m0 = max S0 ; P0 = exp2 S0 - m0 ; l0 = sum P0 ; m1 = max S1
//! O = wgmma_wait 0 ; O0 = O0 · a0
//! P1 = exp2 S1 - m1 ; O1 = O1 · a1 ; l1 = sum P1 ; P0 = cast P0 ; P1 = cast P1
//! ```
//! Requires: `assign-layouts`. Ensures: the same operations on the same values, each on half the rows at a
//! time: results are bit for bit the same, and every wait keeps its place among waits.
//!
//! Why this order: a thread holds two rows of each 16, and rows are independent, so the halves are two strands
//! of work for one warp. See docs/design/order.md.
//!
//! Declines when: no product is in flight over such work, the products of an iteration take so long that they hide
//! the work in any order (which then costs a little for nothing), the work between is not row by row, or columns are
//! split over warpgroups.

use super::{Choices, Order};
use flashc_ir::layout::Layout;
use flashc_ir::ops::{Kind, UnaryOp};
use flashc_ir::{Block, Builder, Func, Op, Step, TileType, Type, ValueId};
use std::collections::{HashMap, HashSet};
use std::fmt;

/// One step of a block's new order.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Item {
    /// An operation as it is.
    Whole(usize),
    /// An operation on half the rows.
    Half(usize, usize),
}

/// The new order of a block.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Indices of operations that become two.
    pub split: Vec<usize>,
    /// Every operation but the last, once or in halves.
    pub order: Vec<Item>,
}

impl Plan {
    /// Shows the order.
    pub fn display<'a>(&'a self, block: &'a Block) -> impl fmt::Display + 'a {
        Shown { plan: self, block }
    }
}

struct Shown<'a> {
    plan: &'a Plan,
    block: &'a Block,
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for item in &self.plan.order {
            let (i, half) = match item {
                Item::Whole(i) => (*i, String::new()),
                Item::Half(i, part) => (*i, format!(" rows {part}")),
            };
            let op = &self.block.ops[i];
            writeln!(f, "line {}: {}{half}", op.loc.line, op.kind.mlir_name(true))?;
        }
        Ok(())
    }
}

/// Runs the pass.
pub fn run(func: &Func, choices: &Choices) -> Func {
    if choices.order == Order::Program {
        return func.clone();
    }
    let always = choices.order == Order::Halves;
    Builder::rebuild(func, &mut |b, old, op, map| step(b, old, op, map, always))
}

fn step(b: &mut Builder, old: &Func, op: &Op, map: &mut HashMap<ValueId, ValueId>, always: bool) -> Step {
    let (Kind::For { .. }, [body]) = (&op.kind, &op.regions[..]) else { return Step::Copy };
    if !always && products_hide_all(old, body) {
        return Step::Copy;
    }
    let Some(plan) = plan(old, body) else { return Step::Copy };
    b.loc = op.loc.clone();
    let operands: Vec<ValueId> = op.operands.iter().map(|v| map[v]).collect();
    let types: Vec<Type> = body.args.iter().map(|v| old.ty(*v).clone()).collect();
    let args = b.begin(&types);
    map.extend(body.args.iter().copied().zip(args));
    let yields = Halves { old, body, plan: &plan, parts: HashMap::new() }.build(b, map);
    let region = b.end(&yields);
    b.loc = op.loc.clone();
    let results = b.op_with(op.kind.clone(), &operands, &types[1..], vec![region]);
    map.extend(op.results.iter().copied().zip(results));
    Step::Done
}

/// The type of half the rows, if the layout has such halves and one warpgroup has whole rows.
fn half_type(ty: &Type) -> Option<TileType> {
    let t = ty.as_tile()?;
    let wgm = match t.layout.as_ref()? {
        Layout::Acc { wgm, wgn: 1 } => *wgm,
        Layout::Slice { dim: 1, parent } => match **parent {
            Layout::Acc { wgm, wgn: 1 } => wgm,
            _ => return None,
        },
        _ => return None,
    };
    if t.shape[0] % (64 * wgm) != 0 {
        return None;
    }
    let mut shape = t.shape.clone();
    shape[0] /= 2;
    let layout = t.layout.as_ref().and_then(Layout::half_rows);
    Some(TileType { shape, elem: t.elem, layout })
}

/// Row by row: half the rows of the operands give half the rows of the result.
fn by_rows(func: &Func, op: &Op) -> bool {
    let kind = match &op.kind {
        Kind::Binary(_) | Kind::Unary(_) | Kind::Fma | Kind::Compare(_) | Kind::Select | Kind::Cast(_) => {
            true
        }
        Kind::Broadcast { dims } => dims.len() == 1,
        Kind::Reduce { axis: 1, .. } => func.ty(op.operands[0]).as_tile().is_some_and(|t| t.shape.len() == 2),
        Kind::Fold { .. } | Kind::Splat => true,
        _ => false,
    };
    let fits = |v: &ValueId| func.ty(*v).as_tile().is_none() || half_type(func.ty(*v)).is_some();
    let column = matches!(&op.kind, Kind::Broadcast { dims } if dims[0] == 1);
    kind && half_type(func.ty(op.result())).is_some() && (column || op.operands.iter().all(fits))
}

/// A conditional that only computes.
fn is_choice(op: &Op) -> bool {
    let computes = |o: &Op| o.kind.is_pure() || o.kind == Kind::Yield;
    op.kind == Kind::If && op.regions.iter().all(|r| r.ops.iter().all(computes))
}

/// A special function of every element of a tile.
fn is_special(func: &Func, op: &Op) -> bool {
    use UnaryOp::*;
    matches!(op.kind, Kind::Unary(u) if !matches!(u, NegF | AbsF | AbsI | Floor | Ceil))
        && func.ty(op.result()).as_tile().is_some_and(|t| t.shape.len() == 2)
}

/// From so many multiplications for each special function on, products hide the work in any order. On Hopper a
/// multiprocessor does 1024 of the former in a cycle in 16 bits and 16 of the latter; the rest of a softmax takes
/// as long again as its exponentials, and more where warps wait for each other. Measured: 256 gains, 512 does not.
const HIDDEN_FROM: i64 = 384;

/// Do the products of a block take much longer than its special functions?
fn products_hide_all(func: &Func, block: &Block) -> bool {
    let (mut products, mut specials) = (0, 0);
    for op in &block.ops {
        match (&op.kind, op.results.first().map(|r| func.ty(*r))) {
            (Kind::Wgmma { trans_a, .. }, Some(Type::InFlight(t))) => {
                let k = match func.ty(op.operands[0]) {
                    Type::Tile(a) => a.shape[1],
                    Type::Buffer(a) => a.shape[if *trans_a { 0 } else { 1 }],
                    _ => 0,
                };
                products += t.len() * k;
            }
            (_, Some(Type::Tile(t))) if is_special(func, op) => specials += t.len(),
            _ => {}
        }
    }
    products >= specials * HIDDEN_FROM
}

/// Decides for one block.
pub fn plan(func: &Func, block: &Block) -> Option<Plan> {
    let last = block.ops.len() - 1;
    let wait = |from: usize, flying: bool| {
        (from..last)
            .find(|i| matches!(block.ops[*i].kind, Kind::WgmmaWait { pending } if (pending > 0) == flying))
    };
    let first = wait(0, true)?;
    let second = wait(first + 1, false)?;
    let ops = &block.ops;

    // Work that hangs on the first product, row by row.
    let mut reached: HashSet<ValueId> = ops[first].results.iter().copied().collect();
    let mut split = vec![];
    for (i, op) in ops.iter().enumerate().take(last).skip(first + 1) {
        if split.is_empty() && is_choice(op) && reached.iter().any(|v| op.uses(*v)) {
            // A mask under a condition: as a whole, then its result stands for the product.
            reached.extend(&op.results);
        } else if op.operands.iter().any(|v| reached.contains(v)) && op.kind.is_pure() && by_rows(func, op) {
            reached.extend(&op.results);
            split.push(i);
        }
    }
    if !split.iter().any(|i| *i < second && is_special(func, &ops[*i])) {
        return None;
    }

    // Of the second half: what waits for exponentials, and the exponentials.
    let mut late: HashSet<ValueId> = HashSet::new();
    let mut is_late = |i: usize| {
        let op = &ops[i];
        let late_now = is_special(func, op) || op.operands.iter().any(|v| late.contains(v));
        if late_now {
            late.extend(&op.results);
        }
        late_now
    };
    let before: Vec<usize> = split.iter().copied().filter(|i| *i < second).collect();
    let after: Vec<usize> = split.iter().copied().filter(|i| *i > second).collect();
    let (deferred, early): (Vec<usize>, Vec<usize>) = before.iter().partition(|i| is_late(**i));
    // What only prepares tiles for them belongs to them.
    let mut fed: Vec<usize> = vec![];
    for i in early.iter().rev() {
        let mut users = (*i + 1..=last).filter(|j| ops[*j].uses(ops[*i].result()));
        let tile = func.ty(ops[*i].result()).as_tile().is_some_and(|t| t.shape.len() == 2);
        if tile && users.all(|j| deferred.contains(&j) || fed.contains(&j)) {
            fed.push(*i);
        }
    }
    let early: Vec<usize> = early.into_iter().filter(|i| !fed.contains(i)).collect();
    let is_cast = |i: &usize| matches!(ops[*i].kind, Kind::Cast(_));
    let specials_end = deferred.iter().rposition(|i| is_special(func, &ops[*i])).map_or(0, |p| p + 1);
    let mut exponentials: Vec<usize> =
        fed.iter().copied().chain(deferred[..specials_end].iter().copied()).collect();
    exponentials.sort_unstable();
    let rest = &deferred[specials_end..];

    let mut order = vec![];
    let whole = |range: std::ops::Range<usize>| range.filter(|i| !split.contains(i)).map(Item::Whole);
    let half = |items: &[usize], part: usize| items.iter().map(|i| Item::Half(*i, part)).collect::<Vec<_>>();
    // What does not wait for the second product keeps its place before the work; what does follows the wait.
    let holds = |i: &usize| {
        ops[*i].kind.is_pure() || is_choice(&ops[*i]) || matches!(ops[*i].kind, Kind::BarrierArrive)
    };
    let lead =
        (first + 1..second).take_while(|i| split.contains(i) || holds(i)).last().map_or(first + 1, |i| i + 1);
    order.extend(whole(0..lead));
    order.extend(half(&before, 0));
    order.extend(half(&early, 1));
    order.extend(whole(lead..last));
    let (casts, scalings): (Vec<usize>, Vec<usize>) = after.iter().partition(|i| is_cast(i));
    order.extend(half(&scalings, 0));
    order.extend(half(&exponentials, 1));
    order.extend(half(&scalings, 1));
    order.extend(half(rest, 1));
    order.extend(half(&casts, 0));
    order.extend(half(&casts, 1));
    let plan = Plan { split, order };
    legal(block, &plan).then_some(plan)
}

/// Does every operation follow those whose results it reads?
fn legal(block: &Block, plan: &Plan) -> bool {
    let inside: HashSet<ValueId> = block.ops.iter().flat_map(|o| o.results.iter().copied()).collect();
    let mut done: HashSet<(ValueId, usize)> = HashSet::new();
    for item in &plan.order {
        let (i, parts) = match item {
            Item::Whole(i) => (*i, vec![0, 1]),
            Item::Half(i, part) => (*i, vec![*part]),
        };
        let op = &block.ops[i];
        let ready = |v: &ValueId| !inside.contains(v) || parts.iter().all(|p| done.contains(&(*v, *p)));
        let reads = |o: &Op| o.operands.iter().all(ready);
        if !reads(op) {
            return false;
        }
        done.extend(op.results.iter().flat_map(|r| parts.iter().map(|p| (*r, *p))));
    }
    let count: usize = plan.order.iter().map(|i| if matches!(i, Item::Whole(_)) { 2 } else { 1 }).sum();
    count == 2 * (block.ops.len() - 1)
}

struct Halves<'a> {
    old: &'a Func,
    body: &'a Block,
    plan: &'a Plan,
    /// Halves of values of the old function.
    parts: HashMap<(ValueId, usize), ValueId>,
}

impl Halves<'_> {
    /// Builds the block but its end; gives what it yields.
    fn build(mut self, b: &mut Builder, map: &mut HashMap<ValueId, ValueId>) -> Vec<ValueId> {
        let ops = &self.body.ops;
        for item in &self.plan.order {
            match item {
                Item::Whole(i) => {
                    for v in reads(&ops[*i]) {
                        self.join(b, v, map);
                    }
                    b.copy(self.old, &ops[*i], map);
                }
                Item::Half(i, part) => self.half_op(b, &ops[*i], *part, map),
            }
        }
        let yields = ops[ops.len() - 1].operands.clone();
        yields.iter().for_each(|v| self.join(b, *v, map));
        yields.iter().map(|v| map[v]).collect()
    }

    fn half_op(&mut self, b: &mut Builder, op: &Op, part: usize, map: &HashMap<ValueId, ValueId>) {
        b.loc = op.loc.clone();
        let Some(ty) = half_type(self.old.ty(op.result())) else { return };
        let column = matches!(&op.kind, Kind::Broadcast { dims } if dims[0] == 1);
        let mut operands = vec![];
        for v in &op.operands {
            let whole = column || self.old.ty(*v).as_tile().is_none();
            operands.push(if whole { map[v] } else { self.half(b, *v, part, map) });
        }
        let half = b.op1(op.kind.clone(), &operands, Type::Tile(ty));
        self.parts.insert((op.result(), part), half);
    }

    /// Half the rows of a value.
    fn half(&mut self, b: &mut Builder, v: ValueId, part: usize, map: &HashMap<ValueId, ValueId>) -> ValueId {
        if let Some(half) = self.parts.get(&(v, part)) {
            return *half;
        }
        let Some(ty) = half_type(self.old.ty(v)) else { return map[&v] };
        let half = b.op1(Kind::Rows { part }, &[map[&v]], Type::Tile(ty));
        self.parts.insert((v, part), half);
        half
    }

    /// Makes a value whole again, if it is in halves.
    fn join(&self, b: &mut Builder, v: ValueId, map: &mut HashMap<ValueId, ValueId>) {
        if map.contains_key(&v) {
            return;
        }
        if let (Some(x), Some(y)) = (self.parts.get(&(v, 0)), self.parts.get(&(v, 1))) {
            let whole = b.op1(Kind::JoinRows, &[*x, *y], self.old.ty(v).clone());
            map.insert(v, whole);
        }
    }
}

/// Every value that an operation or one in it reads.
fn reads(op: &Op) -> Vec<ValueId> {
    let inner = op.regions.iter().flat_map(|r| &r.ops).flat_map(reads);
    op.operands.iter().copied().chain(inner).collect()
}
