//! Tile level: results against plain loops in f64.

use crate::kernels::*;
use flashc_ir::func::{Builder, Func};
use flashc_ir::interp::{HostTensor, Launch, Mode, Options, Report, Trap, TrapKind, run};
use flashc_ir::ops::{BinaryOp, CastOp, Kind, Literal, Predicate, ReduceOp, UnaryOp};
use flashc_ir::types::{Elem, Type};

pub(crate) fn check(func: &Func, launch: &mut Launch) -> Report {
    if let Err(v) = flashc_ir::verify::verify(func) {
        panic!("{v:?}");
    }
    run(func, launch, &Options::default()).unwrap_or_else(|t| panic!("{t}"))
}

pub(crate) fn close(got: &HostTensor, want: &[f64], tolerance: f64) {
    assert!(got.all_written(), "an output element was never written");
    for (i, (g, w)) in got.to_vec().iter().zip(want).enumerate() {
        let fine = (g - w).abs() <= tolerance * (1.0 + w.abs()) || g.is_nan() && w.is_nan();
        assert!(fine, "element {i}: {g}, expected {w}");
    }
}

pub(crate) fn blocks(n: i64, tile: i64) -> i64 {
    (n + tile - 1) / tile
}

#[test]
fn vector_add_of_ragged_lengths() {
    for elem in [Elem::F32, Elem::BF16, Elem::F16, Elem::F64] {
        for n in [0, 1, 15, 16, 17, 97] {
            let (x, y) = (numbers(n, 1), numbers(n, 2));
            let mut l = Launch::new([blocks(n, 16), 1, 1])
                .tensor("x", HostTensor::from_f64(elem, &[n], &x))
                .tensor("y", HostTensor::from_f64(elem, &[n], &y))
                .tensor("z", HostTensor::uninitialised(elem, &[n]));
            check(&vector_add(elem, 16), &mut l);
            let want: Vec<f64> =
                l.get("x").to_vec().iter().zip(l.get("y").to_vec()).map(|(a, b)| a + b).collect();
            let rounded = HostTensor::from_f64(elem, &[n], &want);
            assert_eq!(l.get("z").to_bits(), rounded.to_bits(), "{elem} {n}");
        }
    }
}

pub(crate) fn softmax_launch(m: i64, n: i64, rows: i64) -> (Launch, Vec<f64>) {
    let x = HostTensor::from_f64(Elem::F32, &[m, n], &numbers(m * n, 3));
    let mut want = vec![];
    for row in x.to_vec().chunks(n.max(1) as usize) {
        let top = row.iter().fold(f64::NEG_INFINITY, |a, b| a.max(*b));
        let sum: f64 = row.iter().map(|x| (x - top).exp()).sum();
        want.extend(row.iter().map(|x| (x - top).exp() / sum));
    }
    let y = HostTensor::uninitialised(Elem::F32, &[m, n]);
    (Launch::new([blocks(m, rows), 1, 1]).tensor("x", x).tensor("y", y), want)
}

#[test]
fn softmax_of_ragged_rows() {
    for (m, n) in [(1, 1), (3, 7), (4, 31), (5, 32), (9, 13), (0, 8)] {
        let (mut l, want) = softmax_launch(m, n, 4);
        check(&softmax(4, 32), &mut l);
        close(l.get("y"), &want, 1e-6);
    }
}

pub(crate) fn matmul_launch(elem: Elem, m: i64, n: i64, k: i64, bm: i64, bn: i64) -> (Launch, Vec<f64>) {
    let a = HostTensor::from_f64(elem, &[m, k], &numbers(m * k, 5));
    let b = HostTensor::from_f64(elem, &[k, n], &numbers(k * n, 6));
    let mut want = vec![];
    for i in 0..m {
        for j in 0..n {
            want.push((0..k).map(|p| a.get(&[i, p]) * b.get(&[p, j])).sum());
        }
    }
    let c = HostTensor::uninitialised(Elem::F32, &[m, n]);
    let l = Launch::new([blocks(m, bm), blocks(n, bn), 1]).tensor("a", a).tensor("b", b).tensor("c", c);
    (l, want)
}

#[test]
fn matmul_of_ragged_sizes() {
    let elem = Elem::BF16;
    for (m, n, k) in [(1, 1, 1), (16, 24, 8), (17, 23, 9), (31, 29, 37), (5, 7, 0)] {
        let (mut l, want) = matmul_launch(elem, m, n, k, 16, 24);
        check(&matmul(elem, 16, 24, 8), &mut l);
        close(l.get("c"), &want, 1e-5);
    }
    let (mut l, want) = matmul_launch(Elem::F32, 17, 25, 33, 16, 24);
    check(&matmul(Elem::F32, 16, 24, 8), &mut l);
    close(l.get("c"), &want, 1e-5);
}

pub(crate) fn attention_launch(elem: Elem, sq: i64, sk: i64, d: i64, bm: i64) -> (Launch, Vec<f64>) {
    let scale = 1.0 / (d as f64).sqrt();
    let t = |n: i64, seed| HostTensor::from_f64(elem, &[n, d], &numbers(n * d, seed));
    let (q, k, v) = (t(sq, 7), t(sk, 8), t(sk, 9));
    let mut want = vec![];
    for i in 0..sq {
        let dot = |j: i64| (0..d).map(|c| q.get(&[i, c]) * k.get(&[j, c])).sum::<f64>() * scale;
        let s: Vec<f64> = (0..sk).map(dot).collect();
        let top = s.iter().fold(f64::NEG_INFINITY, |a, b| a.max(*b));
        let p: Vec<f64> = s.iter().map(|x| (x - top).exp()).collect();
        let sum: f64 = p.iter().sum();
        want.extend((0..d).map(|c| (0..sk).map(|j| p[j as usize] * v.get(&[j, c])).sum::<f64>() / sum));
    }
    let l = Launch::new([blocks(sq, bm), 1, 1])
        .float("scale", scale)
        .tensor("q", q)
        .tensor("k", k)
        .tensor("v", v)
        .tensor("o", HostTensor::uninitialised(Elem::F32, &[sq, d]));
    (l, want)
}

#[test]
fn attention_of_ragged_lengths() {
    for (sq, sk) in [(1, 1), (31, 33), (32, 48), (37, 97)] {
        let (mut l, want) = attention_launch(Elem::BF16, sq, sk, 16, 32);
        check(&attention(Elem::BF16, 16, 32, 48), &mut l);
        close(l.get("o"), &want, 6e-3);
    }
}

#[test]
fn attention_is_fast_enough_to_be_used_everywhere() {
    let (mut l, want) = attention_launch(Elem::BF16, 200, 200, 64, 64);
    let func = attention(Elem::BF16, 64, 64, 48);
    let begin = std::time::Instant::now();
    check(&func, &mut l);
    let took = begin.elapsed();
    close(l.get("o"), &want, 6e-3);
    assert!(took.as_secs_f64() < 2.0, "{took:?}");
}

#[test]
fn without_rounding_the_error_vanishes() {
    let (mut l, want) = attention_launch(Elem::BF16, 37, 65, 16, 32);
    let f64_mode = Options { mode: Mode::F64, ..Options::default() };
    run(&attention(Elem::BF16, 16, 32, 48), &mut l, &f64_mode).unwrap_or_else(|t| panic!("{t}"));
    close(l.get("o"), &want, 1e-13);
    // Small steps survive: finite differences work.
    let nudged = |h: f64| {
        let x: Vec<f64> = vec![0.5 + h, 1.0];
        let mut l = Launch::new([1, 1, 1])
            .tensor("x", HostTensor::unrounded(Elem::BF16, &[2], &x))
            .tensor("y", HostTensor::zeros(Elem::BF16, &[2]))
            .tensor("z", HostTensor::uninitialised(Elem::BF16, &[2]));
        run(&vector_add(Elem::BF16, 16), &mut l, &f64_mode).unwrap_or_else(|t| panic!("{t}"));
        l.get("z").get(&[0])
    };
    assert!(((nudged(1e-6) - nudged(-1e-6)) / 2e-6 - 1.0).abs() < 1e-6);
}

#[test]
fn strides_may_be_anything() {
    let (mut l, want) = matmul_launch(Elem::F16, 9, 11, 13, 16, 24);
    for (name, strides, offset) in [("a", [1, 9], 3), ("b", [-16, 1], 300), ("c", [24, 2], 0)] {
        let t = l.get(name).with_strides(&strides, offset);
        l.tensors.insert(name.into(), t);
    }
    check(&matmul(Elem::F16, 16, 24, 8), &mut l);
    close(l.get("c"), &want, 1e-4);
}

#[test]
fn indices_before_the_start_and_past_the_end() {
    let (mut b, a) = start(
        "shift",
        &[scalar("by", Elem::I32), tensor("x", &["5"], Elem::I32), tensor("y", &["5"], Elem::I32)],
    );
    let x = b.load(a[1], &[a[0]], &[0], &[8]);
    let zero = b.i32(0);
    b.store(a[2], &[zero], &[0], x);
    b.store(a[2], &[a[0]], &[0], x);
    let f = b.finish();
    for by in [i32::MIN as i64, -9, -3, 0, 2, 5, i32::MAX as i64] {
        let data: Vec<i64> = (1..=5).collect();
        let mut l = Launch::new([1, 1, 1])
            .int("by", by)
            .tensor("x", HostTensor::from_i64(Elem::I32, &[5], &data))
            .tensor("y", HostTensor::uninitialised(Elem::I32, &[5]));
        check(&f, &mut l);
        let at = |i: i64| data.get(i as usize).copied().unwrap_or(0);
        let mut want: Vec<i64> = (0..5).map(|i| at(by + i)).collect();
        for i in 0..8 {
            if (0..5).contains(&(by + i)) {
                want[(by + i) as usize] = at(by + i);
            }
        }
        assert_eq!(l.get("y").to_vec(), want.iter().map(|x| *x as f64).collect::<Vec<_>>(), "by {by}");
    }
}

/// Runs an operation on scalars and returns the result's bits.
fn scalar_op(kind: Kind, args: &[(Literal, Elem)], result: Elem) -> u64 {
    let (mut b, a) = start("one", &[tensor("out", &["1"], result)]);
    let operands: Vec<_> = args.iter().map(|(v, e)| b.constant(*v, *e)).collect();
    let r = b.op1(kind, &operands, Type::Scalar(result));
    let zero = b.i32(0);
    b.op(Kind::StoreScalar, &[a[0], zero, r], &[]);
    let mut l = Launch::new([1, 1, 1]).tensor("out", HostTensor::uninitialised(result, &[1]));
    check(&b.finish(), &mut l);
    l.get("out").to_bits()[0]
}

#[test]
fn integer_operations_are_total() {
    use BinaryOp::*;
    let edges = [i32::MIN, i32::MIN + 1, -33, -32, -2, -1, 0, 1, 2, 7, 31, 32, 33, i32::MAX - 1, i32::MAX];
    for x in edges {
        for y in edges {
            let go = |op| {
                let args = [(Literal::Int(x as i64), Elem::I32), (Literal::Int(y as i64), Elem::I32)];
                scalar_op(Kind::Binary(op), &args, Elem::I32) as u32 as i32
            };
            let shift = |f: &dyn Fn(u32) -> i32| if (0..32).contains(&y) { f(y as u32) } else { 0 };
            assert_eq!(go(AddI), x.wrapping_add(y));
            assert_eq!(go(MulI), x.wrapping_mul(y));
            assert_eq!(go(DivSI), if y == 0 { 0 } else { x.wrapping_div(y) });
            assert_eq!(go(RemSI), if y == 0 { x } else { x.wrapping_rem(y) });
            assert_eq!(go(DivUI), (x as u32).checked_div(y as u32).unwrap_or(0) as i32);
            assert_eq!(go(RemUI), (x as u32).checked_rem(y as u32).unwrap_or(x as u32) as i32);
            assert_eq!(x, go(DivSI).wrapping_mul(y).wrapping_add(go(RemSI)));
            assert_eq!(go(ShlI), shift(&|s| x << s));
            assert_eq!(go(ShrUI), shift(&|s| (x as u32 >> s) as i32));
            assert_eq!(go(ShrSI), if (0..32).contains(&y) { x >> y } else { x >> 31 });
            assert_eq!(go(MinUI), (x as u32).min(y as u32) as i32);
            assert_eq!(go(MaxSI), x.max(y));
        }
    }
}

/// Every pair of `i8`, so every overflow, division and shift of the narrow types.
#[test]
fn narrow_integers_wrap() {
    use BinaryOp::*;
    let n = 1 << 16;
    let all = |f: &dyn Fn(i64) -> i64| (0..n).map(f).collect::<Vec<i64>>();
    let (x, y) = (all(&|i| (i / 256) as i8 as i64), all(&|i| i as i8 as i64));
    for op in [AddI, SubI, MulI, DivSI, RemSI, DivUI, RemUI, ShlI, ShrSI, ShrUI, MinSI, MaxUI] {
        let t = |name| tensor(name, &["65536"], Elem::I8);
        let (mut b, a) = start("narrow", &[t("x"), t("y"), t("z")]);
        let zero = b.i32(0);
        let (p, q) = (b.load(a[0], &[zero], &[0], &[n]), b.load(a[1], &[zero], &[0], &[n]));
        let r = b.binary(op, p, q);
        b.store(a[2], &[zero], &[0], r);
        let mut l = Launch::new([1, 1, 1])
            .tensor("x", HostTensor::from_i64(Elem::I8, &[n], &x))
            .tensor("y", HostTensor::from_i64(Elem::I8, &[n], &y))
            .tensor("z", HostTensor::uninitialised(Elem::I8, &[n]));
        check(&b.finish(), &mut l);
        for (i, got) in l.get("z").to_vec().into_iter().enumerate() {
            let (a, b) = (x[i] as i8, y[i] as i8);
            let (ua, ub, shift) = (a as u8, b as u8, (0..8).contains(&b));
            let want = match op {
                AddI => a.wrapping_add(b),
                SubI => a.wrapping_sub(b),
                MulI => a.wrapping_mul(b),
                DivSI => {
                    if b == 0 {
                        0
                    } else {
                        a.wrapping_div(b)
                    }
                }
                RemSI => {
                    if b == 0 {
                        a
                    } else {
                        a.wrapping_rem(b)
                    }
                }
                DivUI => ua.checked_div(ub).unwrap_or(0) as i8,
                RemUI => ua.checked_rem(ub).unwrap_or(ua) as i8,
                ShlI => {
                    if shift {
                        a << b
                    } else {
                        0
                    }
                }
                ShrSI => {
                    if shift {
                        a >> b
                    } else {
                        a >> 7
                    }
                }
                ShrUI => {
                    if shift {
                        (ua >> ub) as i8
                    } else {
                        0
                    }
                }
                MinSI => a.min(b),
                _ => ua.max(ub) as i8,
            };
            assert_eq!(got, want as f64, "{op} {a} {b}");
        }
    }
}

#[test]
fn casts_are_total() {
    let cast = |op, x: f64, to| scalar_op(Kind::Cast(op), &[(Literal::Float(x), Elem::F32)], to);
    for (x, signed, unsigned) in [
        (f64::NAN, 0i32, 0u32),
        (f64::INFINITY, i32::MAX, u32::MAX),
        (f64::NEG_INFINITY, i32::MIN, 0),
        (-1.9, -1, 0),
        (3e9, i32::MAX, 3_000_000_000),
    ] {
        assert_eq!(cast(CastOp::FPToSI, x, Elem::I32) as u32 as i32, signed);
        assert_eq!(cast(CastOp::FPToUI, x, Elem::I32) as u32, unsigned);
    }
    assert_eq!(cast(CastOp::Bitcast, 1.0, Elem::I32), 0x3f80_0000);
    let one = [(Literal::Int(1), Elem::I1)];
    assert_eq!(scalar_op(Kind::Cast(CastOp::ExtUI), &one, Elem::I32), 1);
    assert_eq!(scalar_op(Kind::Cast(CastOp::ExtSI), &one, Elem::I8), 0xff);
    let big = [(Literal::Int((1 << 24) + 1), Elem::I32)];
    assert_eq!(scalar_op(Kind::Cast(CastOp::SIToFP), &big, Elem::F32), 0x4b80_0000);
}

#[test]
fn nan_loses_and_comparisons_with_it_are_false() {
    let two = |a: f64, b: f64| [(Literal::Float(a), Elem::F32), (Literal::Float(b), Elem::F32)];
    let max = |a, b| f32::from_bits(scalar_op(Kind::Binary(BinaryOp::MaxNumF), &two(a, b), Elem::F32) as u32);
    assert_eq!((max(f64::NAN, -1.0), max(2.0, f64::NAN), max(1.0, 3.0)), (-1.0, 2.0, 3.0));
    assert!(max(f64::NAN, f64::NAN).is_nan());
    assert!(max(-0.0, 0.0).is_sign_positive() && max(0.0, -0.0).is_sign_positive());
    for p in [Predicate::Feq, Predicate::Flt, Predicate::Fle, Predicate::Fgt, Predicate::Fge] {
        assert_eq!(scalar_op(Kind::Compare(p), &two(f64::NAN, 1.0), Elem::I1), 0);
    }
    assert_eq!(scalar_op(Kind::Compare(Predicate::Fne), &two(f64::NAN, f64::NAN), Elem::I1), 1);
}

#[test]
fn every_unary_function() {
    use UnaryOp::*;
    for op in UnaryOp::ALL {
        for x in [-2.5f64, -0.5, 0.25, 1.0, 3.0] {
            let want = match op {
                AbsI => continue,
                NegF => -x,
                AbsF => x.abs(),
                Exp => x.exp(),
                Exp2 => x.exp2(),
                Log => x.ln(),
                Log2 => x.log2(),
                Sqrt => x.sqrt(),
                Rsqrt => 1.0 / x.sqrt(),
                Sin => x.sin(),
                Cos => x.cos(),
                Tanh => x.tanh(),
                Erf => continue,
                Floor => x.floor(),
                Ceil => x.ceil(),
            };
            let got = f32::from_bits(
                scalar_op(Kind::Unary(*op), &[(Literal::Float(x), Elem::F32)], Elem::F32) as u32,
            );
            assert!(got == want as f32 || got.is_nan() && want.is_nan(), "{op} {x}: {got}");
        }
    }
}

#[test]
fn sums_of_16_bits_are_rounded_once() {
    let (mut b, a) = start("sum", &[tensor("x", &["500"], Elem::BF16), tensor("out", &["1"], Elem::BF16)]);
    let zero = b.i32(0);
    let x = b.load(a[0], &[zero], &[0], &[512]);
    let s = b.reduce(ReduceOp::Sum, 0, x);
    b.op(Kind::StoreScalar, &[a[1], zero, s], &[]);
    // One at a time in bf16 the sum would stick at 256.
    let mut l = Launch::new([1, 1, 1])
        .tensor("x", HostTensor::from_f64(Elem::BF16, &[500], &vec![1.0; 500]))
        .tensor("out", HostTensor::uninitialised(Elem::BF16, &[1]));
    check(&b.finish(), &mut l);
    assert_eq!(l.get("out").get(&[0]), 500.0);
}

fn trap_of(f: &Func, l: &mut Launch) -> Trap {
    run(f, l, &Options::default()).expect_err("a trap is expected")
}

#[test]
fn a_read_of_what_nobody_wrote_traps() {
    let mut l = Launch::new([1, 1, 1])
        .tensor("x", HostTensor::uninitialised(Elem::F32, &[4]))
        .tensor("y", HostTensor::zeros(Elem::F32, &[4]))
        .tensor("z", HostTensor::uninitialised(Elem::F32, &[4]));
    let t = trap_of(&vector_add(Elem::F32, 16), &mut l);
    assert_eq!((t.kind, t.loc.line), (TrapKind::Uninitialised, 1));
}

#[test]
fn launches_that_do_not_fit_are_refused() {
    let ok = |n| HostTensor::zeros(Elem::F32, &[n]);
    let f = vector_add(Elem::F32, 16);
    let cases = [
        Launch::new([1, 1, 1]).tensor("x", ok(4)).tensor("y", ok(4)),
        Launch::new([1, 1, 1]).tensor("x", ok(4)).tensor("y", ok(5)).tensor("z", ok(4)),
        Launch::new([1, 1, 1]).int("n", 3).tensor("x", ok(4)).tensor("y", ok(4)).tensor("z", ok(4)),
        Launch::new([1, 1, 1])
            .tensor("x", HostTensor::zeros(Elem::F16, &[4]))
            .tensor("y", ok(4))
            .tensor("z", ok(4)),
    ];
    for mut l in cases {
        assert_eq!(trap_of(&f, &mut l).kind, TrapKind::Launch);
    }
}

#[test]
fn a_step_that_is_not_positive_traps() {
    let (mut b, _) = start("loop", &[]);
    let zero = b.i32(0);
    b.begin(&[Type::I32]);
    let region = b.end(&[]);
    b.op_with(Kind::For { unordered: false }, &[zero, zero, zero], &[], vec![region]);
    assert_eq!(trap_of(&b.finish(), &mut Launch::new([1, 1, 1])).kind, TrapKind::Step);
}

#[test]
fn branches_and_programs() {
    let (mut b, a) = start("branch", &[tensor("out", &["5"], Elem::I32)]);
    let (p, n) = (b.op1(Kind::ProgramId(0), &[], Type::I32), b.op1(Kind::NumPrograms(0), &[], Type::I32));
    let two = b.i32(2);
    let odd = b.binary(BinaryOp::RemSI, p, two);
    let zero = b.i32(0);
    let c = b.compare(Predicate::Ne, odd, zero);
    b.begin(&[]);
    let yes = b.end(&[n]);
    b.begin(&[]);
    let no = b.end(&[p]);
    let r = b.op_with(Kind::If, &[c], &[Type::I32], vec![yes, no])[0];
    b.op(Kind::StoreScalar, &[a[0], p, r], &[]);
    let f = b.finish();
    let fresh = || Launch::new([5, 1, 1]).tensor("out", HostTensor::uninitialised(Elem::I32, &[5]));
    let mut l = fresh();
    check(&f, &mut l);
    assert_eq!(l.get("out").to_vec(), [0.0, 5.0, 2.0, 5.0, 4.0]);
    let mut l = fresh();
    let only = Options { only_program: Some([3, 0, 0]), ..Options::default() };
    run(&f, &mut l, &only).unwrap_or_else(|t| panic!("{t}"));
    assert!(l.get("out").is_written(&[3]) && !l.get("out").is_written(&[2]));
}

/// Malformed functions trap; they never panic.
#[test]
fn garbage_is_refused() {
    let good = attention(Elem::BF16, 16, 32, 48);
    let mut seed = 1u64;
    let mut next = |n: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % n
    };
    for _ in 0..300 {
        let mut f = good.clone();
        let n = f.values.len();
        let (i, j) = (next(n), next(n));
        match next(3) {
            0 => f.values.swap(i, j),
            1 => {
                let ops = f.body.ops.len();
                let op = &mut f.body.ops[next(ops)];
                if let Some(v) = op.operands.first_mut() {
                    v.0 = i as u32;
                }
            }
            _ => {
                let ops = f.body.ops.len();
                f.body.ops.remove(next(ops));
            }
        }
        let (mut l, _) = attention_launch(Elem::BF16, 3, 5, 16, 32);
        let _ = run(&f, &mut l, &Options::default());
        let _ = flashc_ir::verify::verify(&f);
    }
    let b = Builder::like(&good).0;
    let mut f = b.finish();
    f.body.ops.clear();
    let (mut l, _) = attention_launch(Elem::BF16, 3, 5, 16, 32);
    assert_eq!(trap_of(&f, &mut l).kind, TrapKind::Malformed);
}
