//! Threads hold the tiles: the same bits as without layouts.

use crate::kernels::*;
use crate::tile::*;
use flashc_ir::func::Func;
use flashc_ir::interp::{Launch, Options, TrapKind, run};
use flashc_ir::layout::Layout;
use flashc_ir::ops::Kind;
use flashc_ir::types::{Elem, Type};

pub(crate) fn run_ordered(f: &Func, l: &mut Launch) {
    if let Err(v) = flashc_ir::verify::verify(f) {
        panic!("{v:?}");
    }
    let o = Options { ordered_sums: true, ..Options::default() };
    run(f, l, &o).unwrap_or_else(|t| panic!("{t}"));
}

/// Both functions leave the same bits in the output.
fn twins(plain: &Func, held: &Func, launch: &Launch, out: &str) {
    let (mut a, mut b) = (launch.clone(), launch.clone());
    check(plain, &mut a);
    run_ordered(held, &mut b);
    assert_eq!(a.get(out).to_bits(), b.get(out).to_bits());
}

fn blocked(per_thread: &[i64], lanes: &[i64], warps: &[i64]) -> Layout {
    Layout::Blocked { per_thread: per_thread.to_vec(), lanes: lanes.to_vec(), warps: warps.to_vec() }
}

#[test]
fn vector_add_in_any_blocked_layout() {
    let f = vector_add(Elem::F16, 96);
    for (p, w) in [(1, 1), (4, 1), (3, 2), (8, 4)] {
        let held = with_layouts(f.clone(), w, |_| blocked(&[p], &[32], &[w]));
        for n in [1, 95, 96, 97, 200] {
            let t = |s| flashc_ir::interp::HostTensor::from_f64(Elem::F16, &[n], &numbers(n, s));
            let z = flashc_ir::interp::HostTensor::uninitialised(Elem::F16, &[n]);
            let l = Launch::new([blocks(n, 96), 1, 1]).tensor("x", t(1)).tensor("y", t(2)).tensor("z", z);
            twins(&f, &held, &l, "z");
        }
    }
}

#[test]
fn softmax_in_blocked_and_accumulator_layouts() {
    let f = softmax(6, 40);
    let layouts = [
        (blocked(&[1, 4], &[4, 8], &[4, 1]), 4),
        (blocked(&[2, 1], &[1, 32], &[1, 2]), 2),
        (blocked(&[1, 2], &[8, 4], &[1, 4]), 4),
        (Layout::Acc { wgm: 1, wgn: 1 }, 4),
        (Layout::Acc { wgm: 1, wgn: 2 }, 8),
        (Layout::Acc { wgm: 2, wgn: 1 }, 8),
        (Layout::AccRuns { wgm: 1, wgn: 1, run: 8 }, 4),
        (Layout::AccRuns { wgm: 1, wgn: 2, run: 4 }, 8),
    ];
    for (l, warps) in layouts {
        let held = with_layouts(f.clone(), warps, |s| match s {
            [_, _] => l.clone(),
            [6] => l.slice(1),
            _ => l.slice(0),
        });
        for (m, n) in [(1, 1), (7, 39), (6, 40), (13, 17)] {
            let (launch, want) = softmax_launch(m, n, 6);
            twins(&f, &held, &launch, "y");
            // In the order of the threads the sums differ by rounding only.
            let mut launch = launch;
            check(&held, &mut launch);
            close(launch.get("y"), &want, 1e-6);
        }
    }
}

#[test]
fn matmul_and_attention_in_accumulator_layouts() {
    for (wgm, wgn) in [(1, 1), (2, 1), (1, 2)] {
        let acc = Layout::Acc { wgm, wgn };
        let warps = 4 * wgm * wgn;
        let f = matmul(Elem::BF16, 80, 24, 16);
        let held = with_layouts(f.clone(), warps, |_| acc.clone());
        let (l, _) = matmul_launch(Elem::BF16, 83, 25, 33, 80, 24);
        twins(&f, &held, &l, "c");

        let f = attention(Elem::F16, 16, 64, 48);
        let held = with_layouts(f.clone(), warps, |s| match s {
            [_, _] => acc.clone(),
            [64] => acc.slice(1),
            _ => acc.slice(0),
        });
        let (l, _) = attention_launch(Elem::F16, 70, 97, 16, 64);
        twins(&f, &held, &l, "o");
    }
}

#[test]
fn a_thread_must_hold_what_it_broadcasts() {
    let f = softmax(6, 40);
    let l = blocked(&[1, 4], &[4, 8], &[4, 1]);
    // Row vectors spread over all lanes instead of copied to the lanes of a row.
    let (mut launch, _) = softmax_launch(6, 40, 6);
    let held = with_layouts(f, 4, |s| match s {
        [_, _] => l.clone(),
        [6] => l.slice(1),
        _ => blocked(&[1], &[32], &[4]),
    });
    let trap = run(&held, &mut launch, &Options::default()).expect_err("it does not hold it");
    assert_eq!(trap.kind, TrapKind::LayoutMismatch);
    assert!(flashc_ir::verify::verify(&held).is_err());
}

#[test]
fn conversions_move_every_element() {
    let (mut b, a) =
        start("convert", &[tensor("x", &["19", "12"], Elem::F32), tensor("y", &["12", "19"], Elem::F32)]);
    let layouts = [
        blocked(&[1, 4], &[4, 8], &[4, 1]),
        Layout::Acc { wgm: 1, wgn: 1 },
        blocked(&[2, 2], &[16, 2], &[2, 2]),
        Layout::AccRuns { wgm: 1, wgn: 1, run: 4 },
    ];
    let zero = b.i32(0);
    let held = |shape: &[i64], l: &Layout| match Type::tile(shape, Elem::F32) {
        Type::Tile(t) => Type::Tile(t.with_layout(l.clone())),
        other => other,
    };
    let mut x = b.op1(Kind::Load { axes: vec![0, 1] }, &[a[0], zero, zero], held(&[20, 12], &layouts[0]));
    for l in &layouts {
        x = b.op1(Kind::Convert, &[x], held(&[20, 12], l));
    }
    x = b.op1(Kind::Reshape, &[x], held(&[10, 24], &layouts[0]));
    x = b.op1(Kind::Reshape, &[x], held(&[20, 12], &layouts[1]));
    x = b.op1(Kind::Trans, &[x], held(&[12, 20], &layouts[2]));
    b.store(a[1], &[zero, zero], &[0, 1], x);
    b.func.warps = Some(4);
    let f = b.finish();
    let x = flashc_ir::interp::HostTensor::from_f64(Elem::F32, &[19, 12], &numbers(19 * 12, 4));
    let y = flashc_ir::interp::HostTensor::uninitialised(Elem::F32, &[12, 19]);
    let mut l = Launch::new([1, 1, 1]).tensor("x", x).tensor("y", y);
    check(&f, &mut l);
    for i in 0..19 {
        for j in 0..12 {
            assert_eq!(l.get("x").get(&[i, j]), l.get("y").get(&[j, i]));
        }
    }
}
