//! What MLIR's own passes do to our operations.

use crate::every_op::{kernel, sm90_level, tile_level};
use flashc_ir::ops::*;
use flashc_ir::types::*;
use flashc_ir::{Func, Op};
use flashc_mlir::{Context, UpstreamPass};

const CLEANUP: &[UpstreamPass] =
    &[UpstreamPass::Canonicalize, UpstreamPass::Cse, UpstreamPass::LoopInvariantCodeMotion];

fn run(func: &Func) -> Func {
    let cx = Context::new();
    let mut module = cx.write(func).unwrap();
    module.run(CLEANUP).unwrap();
    let after = module.to_func().unwrap();
    // What is read can be written, read and run again.
    let mut module = cx.write(&after).unwrap();
    assert_eq!(module.to_func().unwrap(), after);
    module.run(CLEANUP).unwrap();
    after
}

fn count(func: &Func, pred: impl Fn(&Op) -> bool) -> usize {
    let mut n = 0;
    func.walk(&mut |op| n += pred(op) as usize);
    n
}

#[test]
fn every_function_survives() {
    run(&tile_level(None));
    let func = sm90_level();
    let effects = |f: &Func| count(f, |op| op.kind.mlir_name(true).starts_with("sm90."));
    assert_eq!(effects(&run(&func)), effects(&func));
}

#[test]
fn loops_stay_unordered() {
    let mut b = kernel();
    let args = b.args();
    let (zero, one) = (b.i32(0), b.i32(1));
    let x = b.constant(Literal::Float(0.0), Elem::BF16);
    // The second carried value is dead, so that the loop is rebuilt.
    let inner = b.begin(&[Type::I32, Type::Scalar(Elem::BF16), Type::I32]);
    let sum = b.binary(BinaryOp::AddF, inner[1], inner[1]);
    let body = b.end(&[sum, zero]);
    let results = [Type::Scalar(Elem::BF16), Type::I32];
    let r = b.op_with(Kind::For { unordered: true }, &[zero, args[0], one, x, zero], &results, vec![body]);
    b.op(Kind::StoreScalar, &[args[3], zero, zero, r[0]], &[]);
    let after = run(&b.finish());
    assert_eq!(count(&after, |op| op.kind == Kind::For { unordered: true } && op.results.len() == 1), 1);
}

#[test]
fn equal_operations_merge_but_not_loads_across_stores() {
    let mut b = kernel();
    let args = b.args();
    let zero = b.i32(0);
    let tile = Type::tile(&[64, 64], Elem::BF16);
    let load = Kind::Load { axes: vec![0, 1] };
    let x = b.op1(load.clone(), &[args[2], zero, zero], tile.clone());
    let same = b.op1(load.clone(), &[args[2], zero, zero], tile.clone());
    let (e, f) = (
        b.op1(Kind::Unary(UnaryOp::Exp), &[x], tile.clone()),
        b.op1(Kind::Unary(UnaryOp::Exp), &[same], tile.clone()),
    );
    let s = b.binary(BinaryOp::AddF, e, f);
    b.op(Kind::Store { axes: vec![0, 1] }, &[args[3], zero, zero, s], &[]);
    let other = b.op1(load.clone(), &[args[2], zero, zero], tile.clone());
    b.op(Kind::Store { axes: vec![0, 1] }, &[args[3], zero, zero, other], &[]);
    // Unused: a load may go, an allocation and a barrier stay.
    b.op1(load.clone(), &[args[3], zero, zero], tile);
    b.op1(Kind::BarrierAlloc { count: 1, offset: None }, &[], Type::Barrier);
    b.op1(Kind::BarrierAlloc { count: 1, offset: None }, &[], Type::Barrier);
    let after = run(&b.finish());
    assert_eq!(count(&after, |op| op.kind == load), 2);
    assert_eq!(count(&after, |op| op.kind == Kind::Unary(UnaryOp::Exp)), 1);
    assert_eq!(count(&after, |op| matches!(op.kind, Kind::BarrierAlloc { .. })), 2);
}

#[test]
fn invariant_operations_leave_loops() {
    let mut b = kernel();
    let args = b.args();
    let (zero, one) = (b.i32(0), b.i32(1));
    b.begin(&[Type::I32]);
    let x = b.op1(Kind::Cast(CastOp::SIToFP), &[args[0]], Type::Scalar(Elem::BF16));
    let y = b.op1(Kind::LoadScalar, &[args[2], zero, zero], Type::Scalar(Elem::BF16));
    let s = b.binary(BinaryOp::AddF, x, y);
    b.op(Kind::StoreScalar, &[args[3], zero, zero, s], &[]);
    let body = b.end(&[]);
    b.op_with(Kind::For { unordered: false }, &[zero, args[0], one], &[], vec![body]);
    let after = run(&b.finish());
    let top = |k: &Kind| after.body.ops.iter().any(|op| op.kind == *k);
    assert!(top(&Kind::Cast(CastOp::SIToFP)) && !top(&Kind::LoadScalar));
}

#[test]
fn folded_branches_read_back() {
    let mut b = kernel();
    let args = b.args();
    let zero = b.i32(0);
    let tile = Type::tile(&[64, 64], Elem::BF16);
    let load = Kind::Load { axes: vec![0, 1] };
    let x = b.op1(load.clone(), &[args[2], zero, zero], tile.clone());
    let y = b.op1(load, &[args[3], zero, zero], tile.clone());
    let c = b.compare(Predicate::Slt, args[0], args[1]);
    b.begin(&[]);
    let yes = b.end(&[x, zero]);
    b.begin(&[]);
    let no = b.end(&[y, args[0]]);
    let r = b.op_with(Kind::If, &[c], &[tile, Type::I32], vec![yes, no]);
    b.begin(&[]);
    b.op(Kind::Store { axes: vec![0, 1] }, &[args[3], r[1], zero, r[0]], &[]);
    let yes = b.end(&[]);
    b.begin(&[]);
    let no = b.end(&[]);
    b.op_with(Kind::If, &[c], &[], vec![yes, no]);
    let after = run(&b.finish());
    assert_eq!(count(&after, |op| op.kind == Kind::Select), 2);
    assert_eq!(count(&after, |op| op.kind == Kind::If && op.regions.len() == 2), 1);
}
