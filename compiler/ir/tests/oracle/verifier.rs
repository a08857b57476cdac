//! The verifier accepts what the other modules build, and names each broken rule.

use crate::kernels::*;
use crate::roles::{self, Handover};
use crate::sm90::{Mistake, Product};
use flashc_ir::func::{Func, Loc, Op, ValueId};
use flashc_ir::layout::Layout;
use flashc_ir::ops::{BinaryOp, Kind, Literal};
use flashc_ir::types::{Elem, Type};
use flashc_ir::verify::verify;

fn rejected(f: &Func, part: &str) {
    match verify(f) {
        Ok(()) => panic!("accepted; expected a complaint about: {part}"),
        Err(v) => assert!(v.iter().any(|v| v.to_string().contains(part)), "expected `{part}` in {v:?}"),
    }
}

fn find(f: &mut Func, pick: impl Fn(&Op) -> bool) -> &mut Op {
    fn go<'a>(b: &'a mut flashc_ir::Block, pick: &dyn Fn(&Op) -> bool) -> Option<&'a mut Op> {
        for op in &mut b.ops {
            if pick(op) {
                return Some(op);
            }
            for r in &mut op.regions {
                if let Some(found) = go(r, pick) {
                    return Some(found);
                }
            }
        }
        None
    }
    go(&mut f.body, &pick).expect("the operation is there")
}

/// A good function with one edit.
fn edited(edit: impl Fn(&mut Func)) -> Func {
    let mut f = attention(Elem::BF16, 16, 32, 48);
    assert_eq!(verify(&f), Ok(()));
    edit(&mut f);
    f
}

#[test]
fn structure() {
    rejected(&edited(|f| f.body.ops.truncate(3)), "wrong place");
    rejected(&edited(|f| f.body.ops.swap(1, 2)), "used where it is not defined");
    rejected(&edited(|f| f.body.ops.insert(1, f.body.ops[0].clone())), "defined twice");
    rejected(&edited(|f| f.arg_names[0] = "other".into()), "which no argument binds");
    rejected(&edited(|f| f.body.ops[0].loc = Loc::new("", 1, 1)), "has no location");
    rejected(&edited(|f| f.body.ops[0].loc.line = 0), "has no location");
    rejected(&edited(|f| f.body.ops[0].results[0] = ValueId(9999)), "has no type");
    // A value of the loop's body, used after the loop.
    let inner = |f: &mut Func| {
        let v = find(f, |o| o.kind == Kind::Trans).operands[0];
        find(f, |o| matches!(o.kind, Kind::Store { .. })).operands[3] = v;
    };
    rejected(&edited(inner), "used where it is not defined");
}

#[test]
fn types() {
    let is_for = |o: &Op| matches!(o.kind, Kind::For { .. });
    rejected(&edited(|f| find(f, |o| o.kind == Kind::Dot).operands.swap(0, 1)), "tile.dot");
    rejected(&edited(|f| find(f, is_for).operands.swap(3, 5)), "scf.for");
    rejected(&edited(|f| find(f, is_for).regions[0].args.truncate(2)), "scf.for");
    rejected(&edited(|f| find(f, |o| o.kind == Kind::Yield).operands.swap(0, 2)), "scf.yield");
    rejected(
        &edited(|f| find(f, |o| matches!(o.kind, Kind::Load { .. })).kind = Kind::Load { axes: vec![1, 0] }),
        "axes",
    );
    rejected(
        &edited(|f| find(f, |o| matches!(o.kind, Kind::Load { .. })).kind = Kind::Load { axes: vec![0, 2] }),
        "axes",
    );
    rejected(&edited(|f| find(f, |o| matches!(o.kind, Kind::Load { .. })).operands.truncate(2)), "operands");
    rejected(&edited(|f| find(f, |o| o.kind == Kind::Select).operands.swap(0, 1)), "tile.select");
    rejected(
        &edited(|f| find(f, |o| o.kind == Kind::Binary(BinaryOp::SubF)).kind = Kind::Binary(BinaryOp::SubI)),
        "tile.subi",
    );
    rejected(
        &edited(|f| {
            find(f, |o| matches!(o.kind, Kind::Constant(_))).kind = Kind::Constant(Literal::Float(1.0))
        }),
        "arith.constant",
    );
    rejected(
        &edited(|f| find(f, |o| matches!(o.kind, Kind::Reduce { .. })).operands[0] = ValueId(0)),
        "not a tile",
    );
    rejected(
        &edited(|f| {
            find(f, |o| matches!(o.kind, Kind::Broadcast { .. })).kind = Kind::Broadcast { dims: vec![0] }
        }),
        "broadcast",
    );
    rejected(
        &edited(|f| find(f, |o| matches!(o.kind, Kind::ProgramId(_))).kind = Kind::ProgramId(3)),
        "axis 3",
    );
}

#[test]
fn layouts() {
    let acc = Layout::Acc { wgm: 1, wgn: 1 };
    let good = |s: &[i64]| match s {
        [_, _] => acc.clone(),
        [32] => acc.slice(1),
        _ => acc.slice(0),
    };
    let f = attention(Elem::BF16, 16, 32, 48);
    assert_eq!(verify(&with_layouts(f.clone(), 4, good)), Ok(()));
    rejected(&with_layouts(f.clone(), 8, good), "4 warps, the function 8");
    let swapped = |s: &[i64]| match s {
        [_, _] => acc.clone(),
        [32] => acc.slice(0),
        _ => acc.slice(1),
    };
    rejected(&with_layouts(f.clone(), 4, swapped), "tile.reduce");
    rejected(&with_layouts(f.clone(), 4, |_| acc.clone()), "is for rank 2");
    let blocked =
        |lanes: &[i64]| Layout::Blocked { per_thread: vec![1; 2], lanes: lanes.to_vec(), warps: vec![4, 1] };
    for (lanes, part) in [(&[4, 4][..], "product 32"), (&[32][..], "differ in length")] {
        rejected(&with_layouts(f.clone(), 4, |_| blocked(lanes)), part);
    }
    for (run, part) in [(3, "power of two"), (0, "power of two"), (128, "power of two")] {
        rejected(&with_layouts(f.clone(), 4, |_| Layout::AccRuns { wgm: 1, wgn: 1, run }), part);
    }
    // One tile that differs, and one that lacks its layout after allocation.
    let mut g = with_layouts(f.clone(), 4, good);
    let v = find(&mut g, |o| o.kind == Kind::Binary(BinaryOp::MulF)).results[0];
    if let Type::Tile(t) = &mut g.values[v.0 as usize] {
        t.layout = Some(blocked(&[4, 8]));
    }
    rejected(&g, "tile.mulf");
    if let Type::Tile(t) = &mut g.values[v.0 as usize] {
        t.layout = None;
    }
    g.shared_bytes = Some(0);
    rejected(&g, "a tile without a layout");
}

#[test]
fn memory_and_wgmma() {
    let p = Product::new(48, 72, 64);
    let edited = |edit: &dyn Fn(&mut Func)| {
        let mut f = p.func();
        assert_eq!(verify(&f), Ok(()));
        edit(&mut f);
        f
    };
    let is_wgmma = |o: &Op| matches!(o.kind, Kind::Wgmma { .. });
    let is_alloc = |o: &Op| matches!(o.kind, Kind::Alloc { .. });
    let is_barrier = |o: &Op| matches!(o.kind, Kind::BarrierAlloc { .. });
    rejected(&edited(&|f| find(f, is_alloc).kind = Kind::Alloc { offset: Some(512) }), "multiple of 1024");
    rejected(
        &edited(&|f| find(f, is_barrier).kind = Kind::BarrierAlloc { count: 1, offset: Some(4) }),
        "multiple of 8",
    );
    rejected(
        &edited(&|f| find(f, is_barrier).kind = Kind::BarrierAlloc { count: 0, offset: None }),
        "arrivals",
    );
    rejected(&edited(&|f| f.shared_bytes = Some(1 << 17)), "no offset");
    let out_of_range = |f: &mut Func| {
        f.shared_bytes = Some(1024);
        find(f, is_alloc).kind = Kind::Alloc { offset: Some(1024) };
    };
    rejected(&edited(&out_of_range), "more than 1024");
    let overlap = |f: &mut Func| {
        find(f, is_alloc).kind = Kind::Alloc { offset: Some(0) };
        find(f, is_barrier).kind = Kind::BarrierAlloc { count: 1, offset: Some(8) };
    };
    rejected(&edited(&overlap), "overlaps");
    rejected(
        &edited(&|f| find(f, is_wgmma).kind = Kind::Wgmma { trans_a: false, trans_b: true, acc: true }),
        "sm90.wgmma",
    );
    rejected(&edited(&|f| find(f, is_wgmma).operands.truncate(2)), "operands");
    let unswizzled = |f: &mut Func| {
        let v = find(f, is_alloc).results[0];
        if let Type::Buffer(b) = &mut f.values[v.0 as usize] {
            b.layout.swizzle = 0;
        }
    };
    rejected(&edited(&unswizzled), "cannot be read");
    let narrow = |f: &mut Func| {
        let v = find(f, is_alloc).results[0];
        if let Type::Buffer(b) = &mut f.values[v.0 as usize] {
            b.shape = vec![48, 64];
        }
    };
    rejected(&edited(&narrow), "64 are read");
    let odd_k = |f: &mut Func| {
        let v = find(f, is_alloc).results[0];
        if let Type::Buffer(b) = &mut f.values[v.0 as usize] {
            b.shape = vec![64, 56];
        }
    };
    rejected(&edited(&odd_k), "K = 56");

    // Groups in flight: used once, by a wait that names the registers.
    let is_wait = |o: &Op| matches!(o.kind, Kind::WgmmaWait { .. });
    let mut f = Product { registers: true, ..p.clone() }.func();
    assert_eq!(verify(&f), Ok(()));
    find(&mut f, is_wait).operands.truncate(1);
    rejected(&f, "does not name");
    let no_wait = |f: &mut Func| {
        let l = find(f, |o| matches!(o.kind, Kind::For { .. }));
        l.regions[0].ops.retain(|o| !matches!(o.kind, Kind::WgmmaWait { .. }));
        let last = l.regions[0].ops.len() - 1;
        l.regions[0].ops[last].operands[0] = l.regions[0].args[1];
    };
    rejected(&edited(&no_wait), "nothing waits");
    let yielded = |f: &mut Func| {
        let v = find(f, is_wgmma).results[0];
        find(f, |o| o.kind == Kind::Yield).operands[0] = v;
    };
    rejected(&edited(&yielded), "in flight and used by something else");
    assert_eq!(
        verify(&Product::with(Mistake::NoFence, true).func()),
        Ok(()),
        "order is the interpreter's to check"
    );
}

#[test]
fn roles_rings_and_turns() {
    let edited = |edit: &dyn Fn(&mut Func)| {
        let mut f = Handover { two: true, ..Handover::new(3, 2, 2) }.func();
        assert_eq!(verify(&f), Ok(()));
        edit(&mut f);
        f
    };
    fn roles(f: &mut Func) -> &mut Op {
        find(f, |o| matches!(o.kind, Kind::Roles { .. }))
    }
    let of = |change: &dyn Fn(&mut flashc_ir::ops::Role)| {
        edited(&|f| {
            if let Kind::Roles { roles } = &mut roles(f).kind {
                change(&mut roles[1]);
            }
        })
    };
    rejected(&of(&|r| r.warps = 6), "6 warps");
    rejected(&of(&|r| r.warps = 8), "roles of 16 warps, the function has 12");
    rejected(&of(&|r| r.registers = 20), "20 registers");
    rejected(&edited(&|f| drop(roles(f).regions.pop())), "regions");
    rejected(&edited(&|f| roles(f).regions.swap(0, 1)), "in a role that one thread runs");
    rejected(&edited(&|f| f.warps = Some(8)), "roles of 12 warps");
    rejected(&edited(&|f| f.body.ops.insert(f.body.ops.len() - 1, f.body.ops[6].clone())), "part twice");
    let nested = |f: &mut Func| {
        let inner = roles(f).clone();
        roles(f).regions[0].ops.insert(0, inner);
    };
    rejected(&edited(&nested), "inside of another operation");
    let meets = |f: &mut Func| {
        let mut op = roles(f).regions[1].ops[0].clone();
        (op.kind, op.results) = (Kind::CtaBarrier, vec![]);
        roles(f).regions[1].ops.insert(0, op);
    };
    rejected(&edited(&meets), "one thread runs");

    let is_slot = |o: &Op| o.kind == Kind::Slot;
    rejected(&edited(&|f| find(f, is_slot).operands.swap(0, 1)), "not a ring");
    rejected(&edited(&|f| find(f, is_slot).operands.truncate(1)), "operands");
    let slot = edited(&|f| {
        let v = find(f, is_slot).results[0];
        f.values[v.0 as usize] = Type::I32;
    });
    rejected(&slot, "sm90.slot");
    let is_alloc = |o: &Op| matches!(o.kind, Kind::Alloc { .. });
    let is_barrier = |o: &Op| matches!(o.kind, Kind::BarrierAlloc { .. });
    let sized = |pick: fn(&Op) -> bool, n: i64| {
        edited(&|f| {
            let v = find(f, pick).results[0];
            match &mut f.values[v.0 as usize] {
                Type::Ring(_, slots) | Type::BarrierRing(slots) => *slots = n,
                _ => {}
            }
        })
    };
    rejected(&sized(is_alloc, 0), "a ring of 0");
    rejected(&sized(is_barrier, -1), "a ring of -1");
    rejected(&edited(&|f| find(f, is_alloc).kind = Kind::Alloc { offset: Some(512) }), "multiple of 1024");
    let late = |f: &mut Func| {
        f.shared_bytes = Some(16_384);
        find(f, is_alloc).kind = Kind::Alloc { offset: Some(8192) };
        find(f, is_barrier).kind = Kind::BarrierAlloc { count: 1, offset: Some(16_376) };
    };
    let f = edited(&late);
    rejected(&f, "8192 + 16384 is more than 16384");
    rejected(&f, "16376 + 16 is more than 16384");
    let overlap = |f: &mut Func| {
        find(f, is_alloc).kind = Kind::Alloc { offset: Some(0) };
        find(f, is_barrier).kind = Kind::BarrierAlloc { count: 1, offset: Some(16_376) };
    };
    rejected(&edited(&overlap), "overlaps");

    let arrive = |f: &mut Func| {
        let ring = f.body.ops[2].results[0];
        find(f, |o| o.kind == Kind::BarrierArrive).operands[0] = ring;
    };
    rejected(&edited(&arrive), "sm90.barrier_arrive");
    let wait = |f: &mut Func| {
        let ring = f.body.ops[2].results[0];
        find(f, |o| o.kind == Kind::BarrierWait).operands[0] = ring;
    };
    rejected(&edited(&wait), "sm90.barrier_wait");
    let copy = |f: &mut Func| {
        let ring = f.body.ops[0].results[0];
        find(f, |o| matches!(o.kind, Kind::TmaLoad { .. })).operands[3] = ring;
    };
    rejected(&edited(&copy), "not a buffer");

    let turn = |n: i64| {
        move |f: &mut Func| {
            find(f, |o| matches!(o.kind, Kind::TurnWait { .. })).kind = Kind::TurnWait { turns: n };
        }
    };
    rejected(&edited(&turn(3)), "3 turns for 2 warpgroups");
    for (mistake, part) in [
        (roles::Mistake::SwappedTurn, "a turn is passed that is not held"),
        (roles::Mistake::SwappedTurn, "a turn is not passed"),
        (roles::Mistake::KeptTurn, "a turn is not passed"),
        (roles::Mistake::PassedTwice, "a turn is passed that is not held"),
        (roles::Mistake::WaitCount, "0 follow the one it is for"),
    ] {
        rejected(&Handover { mistake, ..Handover::new(3, 2, 2) }.func(), part);
    }
    let swapped = |f: &mut Func| {
        let (at, kind) = (roles(f).regions[1].ops.len() - 1, Kind::TurnPass { turns: 2 });
        let mut op = roles(f).regions[1].ops[at].clone();
        op.kind = kind;
        roles(f).regions[1].ops.insert(at, op);
    };
    rejected(&edited(&swapped), "outside of the first role");
}
