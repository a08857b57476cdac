//! # partial-sums
//!
//! A sum over the columns of a tile that a loop only accumulates stays split over the threads that hold the
//! columns until the loop has ended: they exchange once instead of in every iteration.
//!
//! Before
//! ```text
//! for iter_args(%l) { %s = tile.reduce sum %p axis 1; yield %l · %a + %s }
//! ```
//! After
//! ```text
//! for iter_args(%w) { %s = tile.fold sum %p; yield %w · broadcast %a + %s }
//! %l = tile.reduce sum %w axis 1
//! ```
//! Requires: `assign-layouts`. Ensures: the same sums, in another order of additions: only loops that the
//! program calls `unordered` change.
//!
//! Declines when: the carried vector has another use in the loop, the tile is not in the layout of an
//! accumulator, or its columns are split over warpgroups.

use flashc_ir::layout::Layout;
use flashc_ir::ops::{BinaryOp, Kind, Literal, Predicate, ReduceOp};
use flashc_ir::{Builder, Elem, Func, Op, Step, TileType, Type, ValueId};
use std::collections::HashMap;
use std::fmt;

/// Columns that a partial sum keeps: the least that an accumulator has.
const COLUMNS: i64 = 8;

/// One carried sum.
#[derive(Debug, Clone, PartialEq)]
pub struct Sum {
    /// Which carried value.
    pub carried: usize,
    /// Index in the body of the reduction, of the product with the carried vector if there is one, and of
    /// the addition.
    reduce: usize,
    scale: Option<usize>,
    add: usize,
    /// What the carried vector is multiplied with.
    factor: Option<ValueId>,
    /// The carried tile.
    wide: TileType,
}

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "carried value {}: {}", self.carried, self.wide)
    }
}

/// Runs the pass.
pub fn run(func: &Func) -> Func {
    Builder::rebuild(func, &mut step)
}

fn step(b: &mut Builder, old: &Func, op: &Op, map: &mut HashMap<ValueId, ValueId>) -> Step {
    let sums = plan(old, op);
    if sums.is_empty() {
        return Step::Copy;
    }
    apply(b, old, op, &sums, map);
    Step::Done
}

/// The sums of a loop that can stay split.
pub fn plan(func: &Func, op: &Op) -> Vec<Sum> {
    if op.kind != (Kind::For { unordered: true }) {
        return vec![];
    }
    (0..op.results.len()).filter_map(|i| sum(func, op, i)).collect()
}

fn sum(func: &Func, op: &Op, carried: usize) -> Option<Sum> {
    let body = &op.regions[0];
    let ops = &body.ops;
    let arg = body.args[1 + carried];
    let vector = func.ty(arg).as_tile()?;
    let yields = &ops.last()?.operands;
    let define = |v: ValueId| ops.iter().position(|o| o.results.contains(&v));
    // The only use of a value in the body, nested regions counted.
    let only_use = |v: ValueId| {
        let mut users = (0..ops.len()).filter(|i| ops[*i].uses(v));
        users.next().filter(|_| users.next().is_none())
    };
    let result = yields[carried];
    let add = define(result)?;
    let once = yields.iter().filter(|y| **y == result).count() == 1;
    if ops[add].kind != Kind::Binary(BinaryOp::AddF) || !once || only_use(result)? != ops.len() - 1 {
        return None;
    }
    let [x, y] = ops[add].operands[..] else { return None };
    let is_sum = |v: ValueId| {
        define(v).filter(|i| {
            ops[*i].kind == Kind::Reduce { op: ReduceOp::Sum, axis: 1 } && only_use(v) == Some(add)
        })
    };
    let (reduce, kept) = is_sum(x).map(|i| (i, y)).or_else(|| is_sum(y).map(|i| (i, x)))?;
    let (scale, factor) = if kept == arg {
        (None, None)
    } else {
        let scale = define(kept)?;
        let [p, q] = ops[scale].operands[..] else { return None };
        let factor = if p == arg { q } else { p };
        let product = ops[scale].kind == Kind::Binary(BinaryOp::MulF) && (p == arg) != (q == arg);
        if !product || only_use(kept)? != add {
            return None;
        }
        (Some(scale), Some(factor))
    };
    if only_use(arg)? != scale.unwrap_or(add) {
        return None;
    }
    let tile = func.ty(ops[reduce].operands[0]).as_tile()?;
    let alone = matches!(tile.layout, Some(Layout::Acc { wgn: 1, .. }));
    if !alone || tile.shape[1] % COLUMNS != 0 || tile.shape[1] == COLUMNS || tile.elem != Elem::F32 {
        return None;
    }
    let wide = TileType { shape: vec![vector.shape[0], COLUMNS], ..tile.clone() };
    Some(Sum { carried, reduce, scale, add, factor, wide })
}

fn apply(b: &mut Builder, old: &Func, op: &Op, sums: &[Sum], map: &mut HashMap<ValueId, ValueId>) {
    let body = &op.regions[0];
    b.loc = op.loc.clone();
    let mut operands: Vec<ValueId> = op.operands.iter().map(|v| map[v]).collect();
    for s in sums {
        let at = 3 + s.carried;
        operands[at] = first_column(b, operands[at], &s.wide);
    }
    let types: Vec<Type> = operands[3..].iter().map(|v| b.ty(*v).clone()).collect();
    let args = b.begin(&[vec![Type::I32], types.clone()].concat());
    map.extend(body.args.iter().copied().zip(args.iter().copied()));
    for (i, inner) in body.ops.iter().enumerate().take(body.ops.len() - 1) {
        if sums.iter().any(|s| s.reduce == i || s.scale == Some(i)) {
            continue;
        }
        let Some(s) = sums.iter().find(|s| s.add == i) else {
            b.copy_with(old, inner, map, &mut step);
            continue;
        };
        b.loc = inner.loc.clone();
        let wide = Type::Tile(s.wide.clone());
        let value = map[&body.ops[s.reduce].operands[0]];
        let mut kept = args[1 + s.carried];
        if let Some(f) = s.factor {
            let factor = b.op1(Kind::Broadcast { dims: vec![0] }, &[map[&f]], wide.clone());
            kept = b.binary(BinaryOp::MulF, kept, factor);
        }
        let folded = b.op1(Kind::Fold { op: ReduceOp::Sum }, &[value], wide);
        let sum = b.binary(BinaryOp::AddF, kept, folded);
        map.insert(inner.result(), sum);
    }
    let yields: Vec<ValueId> = body.ops[body.ops.len() - 1].operands.iter().map(|v| map[v]).collect();
    let region = b.end(&yields);
    b.loc = op.loc.clone();
    let mut results = b.op_with(op.kind.clone(), &operands, &types, vec![region]);
    for s in sums {
        let ty = old.ty(op.results[s.carried]).clone();
        results[s.carried] = b.op1(Kind::Reduce { op: ReduceOp::Sum, axis: 1 }, &[results[s.carried]], ty);
    }
    map.extend(op.results.iter().copied().zip(results));
}

/// A tile whose rows sum to a vector: the vector, then zeros.
fn first_column(b: &mut Builder, vector: ValueId, wide: &TileType) -> ValueId {
    let ty = Type::Tile(wide.clone());
    let zero = b.constant(Literal::Float(0.0), wide.elem);
    let zeros = b.op1(Kind::Splat, &[zero], ty.clone());
    let columns =
        TileType { shape: vec![COLUMNS], elem: Elem::I32, layout: wide.layout.as_ref().map(|l| l.slice(0)) };
    let column = b.op1(Kind::Iota, &[], Type::Tile(columns.clone()));
    let zero = b.i32(0);
    let first = b.op1(Kind::Splat, &[zero], Type::Tile(columns));
    let is_first = b.compare(Predicate::Eq, column, first);
    let is_first =
        b.op1(Kind::Broadcast { dims: vec![1] }, &[is_first], Type::Tile(wide.with_elem(Elem::I1)));
    let spread = b.op1(Kind::Broadcast { dims: vec![0] }, &[vector], ty.clone());
    b.op1(Kind::Select, &[is_first, spread, zeros], ty)
}
