//! Each deliberate mistake is noticed: by a trap of the right kind, or by other bits in the result.

use crate::kernels::*;
use crate::sm90::{Mistake, Product};
use crate::tile::*;
use flashc_ir::func::Func;
use flashc_ir::interp::{Fault, HostTensor, Launch, Options, TrapKind, run};
use flashc_ir::layout::{Layout, Shared};
use flashc_ir::ops::Kind;
use flashc_ir::types::{BufferType, Elem, TileType, Type};

fn trap(p: &Product) -> TrapKind {
    match p.run_with(&Options::default()) {
        Err(t) => t.kind,
        Ok((_, same)) => panic!("{p:?}: no trap, the same bits: {same}"),
    }
}

#[test]
fn synchronisation_mistakes_trap() {
    use Mistake::*;
    for (mistake, generic, kind) in [
        (Parity, false, TrapKind::CopyInFlight),
        (NoWait, false, TrapKind::CopyInFlight),
        (OneWait, false, TrapKind::CopyInFlight),
        (Count, false, TrapKind::Deadlock),
        (SecondCopy, false, TrapKind::CopyInFlight),
        (NoBarrier, false, TrapKind::Race),
        (NoBarrier, true, TrapKind::Race),
        (Early, false, TrapKind::Overwritten),
        (Early, true, TrapKind::Overwritten),
        (NoFence, true, TrapKind::MissingFence),
        (NoStoreBarrier, true, TrapKind::MissingFence),
        (Pending, false, TrapKind::GroupInFlight),
    ] {
        assert_eq!(trap(&Product::with(mistake, generic)), kind, "{mistake:?}, generic: {generic}");
    }
}

/// Runs with an injected fault and says whether anyone noticed.
fn noticed(p: &Product, fault: Fault) -> bool {
    let o = Options { fault: Some(fault), ..Options::default() };
    match p.run_with(&o) {
        Ok((_, same)) => !same,
        Err(_) => true,
    }
}

#[test]
fn a_tensor_map_with_another_swizzle_is_noticed() {
    for swizzle in [128, 64, 32] {
        for wrong in [128, 64, 32, 0].into_iter().filter(|w| *w != swizzle) {
            let p = Product { swizzle: (swizzle, swizzle), ..Product::new(48, 72, 64) };
            assert!(noticed(&p, Fault::TmaSwizzle(wrong)), "{wrong} instead of {swizzle}");
            assert!(!noticed(&p, Fault::TmaSwizzle(swizzle)));
        }
    }
}

#[test]
fn wrong_descriptor_fields_are_noticed() {
    // One bit of the address, of the strides, of the swizzle mode. A K-major swizzled operand has no
    // leading offset, so its product is MN-major here.
    let p = Product { trans: (true, false), ..Product::new(128, 128, 64) };
    assert!(!noticed(&p, Fault::Descriptor(0)));
    for bit in [0, 1, 4, 6, 16 + 9, 16 + 8, 32 + 6, 32 + 5, 32 + 7, 62, 63] {
        assert!(noticed(&p, Fault::Descriptor(1 << bit)), "bit {bit}");
    }
    let p = Product { trans: (false, true), ..Product::new(128, 128, 64) };
    for bit in [0, 1, 4, 6, 32 + 6, 32 + 5, 32 + 7, 62, 63] {
        assert!(noticed(&p, Fault::Descriptor(1 << bit)), "bit {bit}");
    }
    assert!(!noticed(&p, Fault::Descriptor(1 << 20)), "the leading offset is ignored");
}

#[test]
fn swapped_lanes_are_noticed() {
    for (a, b) in [(0, 1), (0, 2), (1, 4), (2, 3)] {
        assert!(noticed(&Product::new(48, 72, 64), Fault::SwapLaneBits(a, b)), "{a} and {b}");
        let p = Product { registers: true, ..Product::new(64, 72, 64) };
        // Rows exchanged in A and in the result alike are the same product.
        assert!((a, b) == (2, 3) || noticed(&p, Fault::SwapLaneBits(a, b)), "{a} and {b}, A in registers");
    }
}

#[test]
fn a_buffer_read_under_another_type_is_noticed() {
    let (mut b, a) =
        start("types", &[tensor("x", &["16", "64"], Elem::BF16), tensor("y", &["16", "64"], Elem::BF16)]);
    b.func.warps = Some(4);
    let l = Layout::Blocked { per_thread: vec![1, 8], lanes: vec![4, 8], warps: vec![4, 1] };
    let ty = TileType::new(&[16, 64], Elem::BF16).with_layout(l);
    let buffer = |swizzle| {
        Type::Buffer(BufferType { shape: vec![16, 64], elem: Elem::BF16, layout: Shared { swizzle } })
    };
    let right = b.op1(Kind::Alloc { offset: Some(0) }, &[], buffer(128));
    let wrong = b.op1(Kind::Alloc { offset: Some(0) }, &[], buffer(64));
    let zero = b.i32(0);
    let bar = b.op1(Kind::BarrierAlloc { count: 1, offset: Some(2048) }, &[], Type::Barrier);
    b.func.shared_bytes = Some(2056);
    b.op(Kind::TmaLoad { axes: vec![0, 1] }, &[a[0], zero, zero, right, bar], &[]);
    b.op(Kind::BarrierWait, &[bar, zero], &[]);
    let x = b.op1(Kind::LocalLoad, &[wrong], Type::Tile(ty));
    b.store(a[1], &[zero, zero], &[0, 1], x);
    let f = b.finish();
    let mut l = copy_launch(&[16, 64]);
    check(&f, &mut l);
    assert_ne!(l.get("x").to_bits(), l.get("y").to_bits());
}

fn copy_launch(shape: &[i64]) -> Launch {
    let n = shape.iter().product();
    Launch::new([1, 1, 1])
        .tensor("x", HostTensor::from_f64(Elem::BF16, shape, &numbers(n, 3)))
        .tensor("y", HostTensor::uninitialised(Elem::BF16, shape))
}

/// A tile goes to shared memory and comes back; `edit` spoils the operations between.
fn through_shared(edit: impl Fn(&mut Func)) -> Result<bool, TrapKind> {
    let (mut b, a) =
        start("copy", &[tensor("x", &["16", "64"], Elem::BF16), tensor("y", &["16", "64"], Elem::BF16)]);
    b.func.warps = Some(4);
    let held = |lanes: [i64; 2], warps: [i64; 2]| {
        let l = Layout::Blocked { per_thread: vec![1, 8], lanes: lanes.to_vec(), warps: warps.to_vec() };
        Type::Tile(TileType::new(&[16, 64], Elem::BF16).with_layout(l))
    };
    let buffer = BufferType { shape: vec![16, 64], elem: Elem::BF16, layout: Shared { swizzle: 128 } };
    let buf = b.op1(Kind::Alloc { offset: None }, &[], Type::Buffer(buffer));
    let zero = b.i32(0);
    let x = b.op1(Kind::Load { axes: vec![0, 1] }, &[a[0], zero, zero], held([4, 8], [4, 1]));
    b.op(Kind::LocalStore, &[x, buf], &[]);
    b.op(Kind::CtaBarrier, &[], &[]);
    let y = b.op1(Kind::LocalLoad, &[buf], held([16, 2], [1, 4]));
    b.op(Kind::CtaBarrier, &[], &[]);
    b.op(Kind::LocalStore, &[x, buf], &[]);
    b.store(a[1], &[zero, zero], &[0, 1], y);
    let mut f = b.finish();
    edit(&mut f);
    let mut l = copy_launch(&[16, 64]);
    run(&f, &mut l, &Options::default()).map_err(|t| t.kind)?;
    Ok(l.get("x").to_bits() == l.get("y").to_bits())
}

fn remove(f: &mut Func, kind: &Kind, nth: usize) {
    let at = f.body.ops.iter().enumerate().filter(|(_, o)| o.kind == *kind).map(|(i, _)| i).nth(nth);
    f.body.ops.remove(at.expect("the operation is there"));
}

#[test]
fn threads_that_meet_without_a_barrier_race() {
    assert_eq!(through_shared(|_| {}), Ok(true));
    assert_eq!(through_shared(|f| remove(f, &Kind::CtaBarrier, 0)), Err(TrapKind::Race));
    assert_eq!(through_shared(|f| remove(f, &Kind::CtaBarrier, 1)), Err(TrapKind::Race));
    assert_eq!(through_shared(|f| remove(f, &Kind::LocalStore, 0)), Err(TrapKind::Unwritten));
}

#[test]
fn a_generic_access_then_a_copy_needs_fence_and_barrier() {
    let build = |fence: bool, barrier: bool| {
        let (mut b, a) = start(
            "refill",
            &[tensor("x", &["16", "64"], Elem::BF16), tensor("y", &["16", "64"], Elem::BF16)],
        );
        b.func.warps = Some(4);
        let l = Layout::Blocked { per_thread: vec![1, 8], lanes: vec![4, 8], warps: vec![4, 1] };
        let ty = Type::Tile(TileType::new(&[16, 64], Elem::BF16).with_layout(l));
        let buffer = BufferType { shape: vec![16, 64], elem: Elem::BF16, layout: Shared { swizzle: 128 } };
        let buf = b.op1(Kind::Alloc { offset: None }, &[], Type::Buffer(buffer));
        let bar = b.op1(Kind::BarrierAlloc { count: 1, offset: None }, &[], Type::Barrier);
        let (zero, one) = (b.i32(0), b.i32(1));
        let copy = |b: &mut flashc_ir::Builder, parity| {
            b.op(Kind::TmaLoad { axes: vec![0, 1] }, &[a[0], zero, zero, buf, bar], &[]);
            b.op(Kind::BarrierWait, &[bar, parity], &[]);
        };
        copy(&mut b, zero);
        let x = b.op1(Kind::LocalLoad, &[buf], ty);
        if fence {
            b.op(Kind::FenceAsync, &[], &[]);
        }
        if barrier {
            b.op(Kind::CtaBarrier, &[], &[]);
        }
        copy(&mut b, one);
        b.store(a[1], &[zero, zero], &[0, 1], x);
        b.finish()
    };
    let result =
        |f: &Func| run(f, &mut copy_launch(&[16, 64]), &Options::default()).map(|_| ()).map_err(|t| t.kind);
    assert_eq!(result(&build(true, true)), Ok(()));
    assert_eq!(result(&build(false, true)), Err(TrapKind::MissingFence));
    assert_eq!(result(&build(true, false)), Err(TrapKind::MissingFence));
}

#[test]
fn tensors_that_cannot_be_copied_are_refused() {
    let p = Product::new(48, 72, 64);
    for (strides, offset) in [([STEPS_K, 1], 4), ([STEPS_K + 4, 1], 0), ([1, 48], 0)] {
        let (mut l, _) = p.launch();
        let a = l.get("a").with_strides(&strides, offset);
        l.tensors.insert("a".into(), a);
        let t = run(&p.func(), &mut l, &Options::default()).expect_err("not a tensor map");
        assert_eq!(t.kind, TrapKind::Tma, "{strides:?} {offset}");
    }
}

const STEPS_K: i64 = crate::sm90::STEPS * 64;

#[test]
fn an_unfinished_copy_or_group_at_the_end_traps() {
    let p = Product::new(48, 72, 64);
    let mut f = p.func();
    // The last wait of the loop's body goes: the next step meets the copy.
    let body = f.body.ops.iter_mut().find(|o| matches!(o.kind, Kind::For { .. })).expect("a loop");
    body.regions[0]
        .ops
        .retain(|o| !matches!(o.kind, Kind::BarrierWait | Kind::Wgmma { .. } | Kind::WgmmaWait { .. }));
    let acc = body.regions[0].args[1];
    let last = body.regions[0].ops.len() - 1;
    body.regions[0].ops[last].operands[0] = acc;
    body.operands[1] = body.operands[2];
    let (mut l, _) = p.launch();
    let t = run(&f, &mut l, &Options::default()).expect_err("a copy is left");
    assert_eq!((t.kind, t.message.contains("ends")), (TrapKind::CopyInFlight, true));
}
