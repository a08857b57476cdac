//! Small kernels: what the imported function looks like, and what it computes on the interpreter.

use super::{Imported, import};
use flashc_front::diagnostic::{Diagnostic, render};
use flashc_front::hir::{SpecValue, Specialization};
use flashc_front::source::Source;
use flashc_ir::artifact::HostValue;
use flashc_ir::interp::{HostTensor, Launch, Options, run};
use flashc_ir::ops::{BinaryOp, CastOp, UnaryOp};
use flashc_ir::{Elem, Kind, Op, Type};

fn try_import(text: &str, set: &str) -> Result<Imported, Vec<Diagnostic>> {
    let source = Source::new("test.tile", text);
    let analysis = flashc_front::analyze(&source);
    let program = analysis.program.filter(|_| analysis.diagnostics.is_empty());
    let program = program.unwrap_or_else(|| panic!("{}", render(&analysis.diagnostics, &source, false)));
    let mut spec = Specialization::new();
    for pair in set.split_whitespace() {
        let (name, value) = pair.split_once('=').expect("name=value");
        spec.set(name, SpecValue::parse(value).expect("a value"));
    }
    let kernel = &program.kernels[0];
    import(&source, kernel, &kernel.specialize(&spec)?)
}

fn imported(text: &str, set: &str) -> Imported {
    let i = try_import(text, set).unwrap_or_else(|d| panic!("{d:?}"));
    // What holds of every imported function.
    i.func.walk(&mut |op| assert!(op.loc.line > 0 && op.loc.column > 0 && &*op.loc.file == "test.tile"));
    for ty in &i.func.values {
        let units = matches!(ty, Type::Tile(t) if t.shape.contains(&1));
        assert!(!units || text.contains("dot("), "{ty}");
    }
    i
}

fn count(i: &Imported, wanted: impl Fn(&Op) -> bool) -> usize {
    let mut n = 0;
    i.func.walk(&mut |op| n += usize::from(wanted(op)));
    n
}

fn count_kind(i: &Imported, kind: &Kind) -> usize {
    count(i, |op| op.kind == *kind)
}

/// Runs a kernel with a grid of one and gives `y`.
fn results(i: &Imported, ints: &[(&str, i64)], tensors: &[(&str, HostTensor)]) -> Vec<f64> {
    let mut launch = Launch::new([1, 1, 1]);
    for (name, v) in ints {
        launch = launch.int(name, *v);
    }
    for (name, t) in tensors {
        launch = launch.tensor(name, t.clone());
    }
    run(&i.func, &mut launch, &Options::default()).unwrap_or_else(|t| panic!("{t}"));
    launch.get("y").to_vec()
}

#[test]
fn constants_fold_and_only_the_taken_branch_is_there() {
    let text = "kernel f[BM: const, FLAG: const bool](x: tensor(f32)[N], y: out tensor(f32)[N], n: i32) dims N grid (1) {
        let half = BM * 2 / 4 + 0 * n;
        var t = x[n * 1 + half :+ BM];
        if FLAG && BM > 2 { t = exp(t); } else { t = log(t); }
        y[0 :+ BM] = t;
    }";
    let i = imported(text, "BM=8 FLAG=true");
    assert_eq!(count(&i, |op| matches!(op.kind, Kind::Binary(_))), 1, "n + 4");
    assert_eq!(count_kind(&i, &Kind::Unary(UnaryOp::Exp)), 1);
    assert_eq!(count(&i, |op| matches!(op.kind, Kind::If | Kind::Compare(_) | Kind::Unary(UnaryOp::Log))), 0);
    assert_eq!(i.specialization, [("BM".into(), "8".into()), ("FLAG".into(), "true".into())]);
}

#[test]
fn arguments_are_scalars_then_dims_then_tensors() {
    let text = "kernel f[D: const](y: out tensor(bf16)[M, D], s: u32, x: tensor(e4m3)[N], b: bool) dims N, M grid (N, M) {
    }";
    let i = imported(text, "D=16");
    assert_eq!(i.func.arg_names, ["s", "b", "N", "M", "y", "x"]);
    let types: Vec<String> = i.func.body.args.iter().map(|v| i.func.ty(*v).to_string()).collect();
    assert_eq!(types[..4], ["i32", "i1", "i32", "i32"]);
    assert_eq!(types[4], "!tile.tensor<\"y\", [\"M\", \"16\"], bf16>");
    assert_eq!(
        (i.scalars[0].dtype.as_str(), i.tensors[0].out, i.tensors[1].dtype.as_str()),
        ("u32", true, "e4m3")
    );
}

#[test]
fn a_vector_meets_a_tile_in_one_broadcast() {
    let text = "kernel f[M: const, N: const](r: tensor(f32)[N], c: tensor(f32)[M], y: out tensor(f32)[M, N]) grid (1) {
        let a = r[:][None, :];
        let b = c[:][:, None] * 2.0;
        y[:, :] = a - b;
    }";
    let i = imported(text, "M=4 N=8");
    let dims = |d: usize| Kind::Broadcast { dims: vec![d] };
    assert_eq!(
        (count_kind(&i, &dims(0)), count_kind(&i, &dims(1)), count_kind(&i, &Kind::Reshape)),
        (1, 1, 0)
    );
    let data = |n: i64| HostTensor::from_f64(Elem::F32, &[n], &(0..n).map(|x| x as f64).collect::<Vec<_>>());
    let y = |m, n| ("y", HostTensor::zeros(Elem::F32, &[m, n]));
    let got = results(&i, &[], &[("r", data(8)), ("c", data(4)), y(4, 8)]);
    assert_eq!((got[7], got[8], got[31]), (7.0, -2.0, 1.0));
    // With axes of length 1 there are scalars and vectors in the place of tiles.
    for (m, n) in [(1, 8), (4, 1), (1, 1)] {
        let i = imported(text, &format!("M={m} N={n}"));
        let got = results(&i, &[], &[("r", data(n)), ("c", data(m)), y(m, n)]);
        let want: Vec<f64> = (0..m * n).map(|i| (i % n) as f64 - 2.0 * (i / n) as f64).collect();
        assert_eq!(got, want);
    }
}

#[test]
fn dots_with_axes_of_length_one() {
    let text = "kernel f[M: const, N: const, K: const](a: tensor(f16)[M, K], b: tensor(f16)[K, N], c: tensor(f32)[M, N],
                y: out tensor(f32)[M, N]) grid (1) {
        y[:, :] = dot(a[:, :], b[:, :], acc = c[:, :]);
    }";
    for (m, n, k) in [(1, 1, 1), (1, 3, 2), (3, 1, 2), (2, 3, 1), (2, 2, 2)] {
        let i = imported(text, &format!("M={m} N={n} K={k}"));
        let data = |elem, m: i64, n: i64| {
            HostTensor::from_f64(elem, &[m, n], &(0..m * n).map(|x| x as f64 + 1.0).collect::<Vec<_>>())
        };
        let got = results(
            &i,
            &[],
            &[
                ("a", data(Elem::F16, m, k)),
                ("b", data(Elem::F16, k, n)),
                ("c", data(Elem::F32, m, n)),
                ("y", HostTensor::zeros(Elem::F32, &[m, n])),
            ],
        );
        for (at, x) in got.iter().enumerate() {
            let (r, c) = (at as i64 / n, at as i64 % n);
            let sum: i64 = (0..k).map(|l| (r * k + l + 1) * (l * n + c + 1)).sum();
            assert_eq!(*x, (sum + at as i64 + 1) as f64, "{m} {n} {k}");
        }
    }
}

#[test]
fn cdiv_rounds_up_for_every_sign_and_size() {
    let text = |b: &str| {
        format!("kernel f(y: out tensor(i32)[1], a: i32, b: i32) grid (1) {{ y[0] = cdiv(a, {b}); }}")
    };
    let values = [0, 1, 2, 3, 7, 127, 128, 129, 1000, i64::from(i32::MAX)];
    let values: Vec<i64> = values.iter().flat_map(|v| [*v, -v, -v - 1]).collect();
    let y = || ("y", HostTensor::zeros(Elem::I32, &[1]));
    let dynamic = imported(&text("b"), "");
    for &b in &values {
        let fixed = imported(&text(&b.to_string()), "");
        for &a in &values {
            let exact = if b == 0 { 0 } else { a.div_euclid(b) + i64::from(a.rem_euclid(b) != 0 && b > 0) };
            // Euclid rounds down for positive divisors and up for negative ones.
            let want = f64::from(exact as i32);
            for i in [&dynamic, &fixed] {
                assert_eq!(results(i, &[("a", a), ("b", b)], &[y()]), [want], "cdiv({a}, {b})");
            }
        }
    }
}

#[test]
fn unsigned_numbers_have_their_own_operations() {
    let text = "kernel f(x: tensor(u32)[4], y: out tensor(u32)[4]) grid (1) {
        let t = x[:];
        let top = max(t, axis = 0) - min(t, axis = 0);
        y[:] = select(t > 5, t / 2, t % 3) + top;
    }";
    let i = imported(text, "");
    assert_eq!(count(&i, |op| matches!(op.kind, Kind::Binary(BinaryOp::DivSI | BinaryOp::RemSI))), 0);
    let x = HostTensor::from_i64(Elem::I32, &[4], &[1, 0xffff_fff0, 7, 2]);
    let got = results(&i, &[], &[("x", x), ("y", HostTensor::zeros(Elem::I32, &[4]))]);
    let top = 0xffff_ffefu32;
    let want = [1u32, 0x7fff_fff8, 3, 2].map(|v| f64::from(v.wrapping_add(top) as i32));
    assert_eq!(got, want);
}

#[test]
fn an_index_beyond_i32_is_out_of_range() {
    let text = "kernel f(x: tensor(f32)[N], y: out tensor(f32)[2], i: i64, u: u32) dims N grid (1) {
        y[0] = x[i];
        y[1] = sum(x[u :+ 2], axis = 0);
    }";
    let i = imported(text, "");
    for (index, want) in
        [(1i64, 1.0), (1 << 32, 0.0), ((1 << 32) + 1, 0.0), (-1, 0.0), (i64::MIN, 0.0), (i64::MAX, 0.0)]
    {
        let x = HostTensor::from_f64(Elem::F32, &[3], &[4.0, 1.0, 5.0]);
        let y = HostTensor::zeros(Elem::F32, &[2]);
        let got = results(&i, &[("i", index), ("u", -1), ("N", 3)], &[("x", x), ("y", y)]);
        assert_eq!(got, [want, 0.0], "{index}");
    }
}

#[test]
fn narrow_floats_are_widened_for_functions_and_sums() {
    let text = "kernel f[T: f16 | bf16 | f32](x: tensor(T)[8], y: out tensor(T)[8]) grid (1) {
        y[:] = sigmoid(x[:]) + sum(x[:], axis = 0);
    }";
    let casts = |i: &Imported, op| count_kind(i, &Kind::Cast(op));
    let i = imported(text, "T=f16");
    assert_eq!((casts(&i, CastOp::ExtF), casts(&i, CastOp::TruncF)), (2, 2));
    let i = imported(text, "T=f32");
    assert_eq!((casts(&i, CastOp::ExtF), casts(&i, CastOp::TruncF)), (0, 0));
}

#[test]
fn casts_go_by_the_book() {
    let text = "kernel f(x: tensor(f32)[5], y: out tensor(i32)[5]) grid (1) {
        let t = x[:];
        let b = cast(t, bool);
        y[:] = cast(t, i32) + cast(cast(t, u8), i32) * 1000 + cast(b, i32) * 1000000 + cast(cast(t, e4m3), i32);
    }";
    let i = imported(text, "");
    let x = HostTensor::from_f64(Elem::F32, &[5], &[0.0, -3.7, 300.0, f64::NAN, 0.5]);
    let got = results(&i, &[], &[("x", x), ("y", HostTensor::zeros(Elem::I32, &[5]))]);
    // e4m3: -3.75, 288 (304 is further away); NaN is 0 as an integer and true as a bool.
    assert_eq!(got, [0.0, 999_994.0, 1_255_588.0, 1_000_000.0, 1_000_000.0]);
}

#[test]
fn branches_and_loops_return_what_they_assign() {
    let text = "kernel f(y: out tensor(i32)[3], n: i32) grid (1) {
        var a = 1;
        var b = 10;
        for i in 0 .. n step 2 {
            if i % 4 == 0 { a += i; } else { b = a; }
        }
        let c = if a > 4 && n > 0 { a * 2 } else if b == 10 { -1 } else { b };
        y[0] = a;
        y[1] = b;
        y[2] = c;
    }";
    let i = imported(text, "");
    let reference = |n: i64| {
        let (mut a, mut b) = (1, 10);
        for i in (0..n).step_by(2) {
            if i % 4 == 0 { a += i } else { b = a }
        }
        let c = if a > 4 && n > 0 {
            a * 2
        } else if b == 10 {
            -1
        } else {
            b
        };
        [a, b, c].map(|x| x as f64)
    };
    for n in [-3, 0, 1, 3, 5, 9, 12] {
        assert_eq!(results(&i, &[("n", n)], &[("y", HostTensor::zeros(Elem::I32, &[3]))]), reference(n));
    }
}

#[test]
fn axes_are_rotated_by_transposing() {
    let text = "kernel f[A: const, B: const, C: const](x: tensor(f32)[A, B, C], y: out tensor(f32)[C, A, B]) grid (1) {
        y[:, :, :] = permute(x[:, :, :], [2, 0, 1]);
    }";
    for (a, b, c) in [(2i64, 3i64, 4i64), (1, 3, 4), (2, 1, 4), (2, 3, 1)] {
        let i = imported(text, &format!("A={a} B={b} C={c}"));
        let data: Vec<f64> = (0..a * b * c).map(|x| x as f64).collect();
        let x = HostTensor::from_f64(Elem::F32, &[a, b, c], &data);
        let got = results(&i, &[], &[("x", x), ("y", HostTensor::zeros(Elem::F32, &[c, a, b]))]);
        let want: Vec<f64> = (0..c).flat_map(|k| (0..a * b).map(move |ij| (ij * c + k) as f64)).collect();
        assert_eq!(got, want);
    }
    let swapped = text.replace("[C, A, B]", "[A, C, B]").replace("[2, 0, 1]", "[0, 2, 1]");
    assert!(try_import(&swapped, "A=2 B=2 C=2").is_err());
    assert!(try_import(&swapped, "A=1 B=2 C=2").is_ok(), "the outer axis is not there");
}

#[test]
fn conditions_are_folded_or_left_to_the_launch() {
    let text = "kernel f[BM: const](x: tensor(f32)[N], s: f32) dims N
                where BM > 4 || N < 3, N % BM == 0, s > 0.5 && BM == 8, N >= 0 || BM < 100
                grid (cdiv(N, BM * 2) + 1) { }";
    let i = imported(text, "BM=8");
    let texts: Vec<_> = i.wheres.iter().map(|w| w.text.as_str()).collect();
    assert_eq!(texts, ["N % BM == 0", "s > 0.5 && BM == 8"]);
    let hold = |n: i64, s: f64| {
        i.wheres.iter().all(|w| w.holds.eval(&[n], &[HostValue::Float(s)]) == Some(HostValue::Bool(true)))
    };
    assert_eq!((hold(16, 1.0), hold(17, 1.0), hold(16, 0.5)), (true, false, false));
    assert_eq!(i.grid[0].eval(&[33], &[]), Some(HostValue::Int(4)));
    let errors = try_import(text, "BM=100").unwrap_err();
    assert_eq!(errors.len(), 1);
    assert_eq!(errors[0].message, "`s > 0.5 && BM == 8` never holds");
}

#[test]
fn a_computed_length_is_bound_by_the_tensor_and_checked() {
    let text = "kernel f(x: tensor(f32)[N], s: tensor(f32)[cdiv(N, 32), 2]) dims N grid (1) { }";
    let i = imported(text, "");
    assert_eq!(i.dims, ["N", "s.0"]);
    assert_eq!(i.func.arg_names, ["N", "s.0", "x", "s"]);
    assert_eq!(i.wheres[0].text, "axis 0 of `s` has length cdiv(N, 32)");
    let holds = |n, m| i.wheres[0].holds.eval(&[n, m], &[]) == Some(HostValue::Bool(true));
    assert_eq!((holds(65, 3), holds(64, 3)), (true, false));
}

#[test]
fn what_the_ir_cannot_do_is_said() {
    let text = "kernel f(x: tensor(f32)[4], y: out tensor(f32)[4]) grid (1) { y[:] = x[:] % 2.0; }";
    let errors = try_import(text, "").unwrap_err();
    assert_eq!(errors[0].message, "the remainder of f32 numbers");
}
