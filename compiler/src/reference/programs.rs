//! References of the programs in the test corpus.

use super::formulas::product;
use super::{Array, Inputs, Outputs, outputs, round};
use flashc_ir::Elem;

fn map(a: &Array, f: impl Fn(f64) -> f64) -> Array {
    Array { shape: a.shape.clone(), data: a.data.iter().map(|x| f(*x)).collect() }
}

/// The type that tiles are cast to between dots.
fn low(inputs: &Inputs) -> Elem {
    if inputs.generic("T") == "bf16" { Elem::BF16 } else { Elem::F16 }
}

fn generic_int(inputs: &Inputs, name: &str) -> i64 {
    inputs.generic(name).parse().unwrap_or(1)
}

pub(super) fn dot_under_if(inputs: &Inputs) -> Outputs {
    let (a, b, flag) = (inputs.tensor("a"), inputs.tensor("b"), inputs.scalar("flag"));
    let block = generic_int(inputs, "BM");
    let c = product(&a, &b);
    let runs = |m: i64| flag > 0.0 && (m / block) % 2 == 0;
    outputs([("c", Array::build(&c.shape, &mut |at| if runs(at[0]) { c.at(at) } else { flag }))])
}

pub(super) fn two_dots(inputs: &Inputs) -> Outputs {
    let a = inputs.tensor("a");
    outputs([("c", product(&a, &inputs.tensor("b"))), ("d", product(&a, &inputs.tensor("e")))])
}

pub(super) fn dot_of_computed(inputs: &Inputs) -> Outputs {
    let (a, b, r) = (inputs.tensor("a"), inputs.tensor("b"), inputs.tensor("r"));
    let scale = inputs.scalar("scale");
    let x = map(&a, |x| round((x * scale).tanh(), Elem::F16));
    let y = Array::build(&b.shape, &mut |at| round(b.at(at) + r.at(&at[1..]), Elem::F16));
    outputs([("c", product(&x, &y))])
}

pub(super) fn chained_relu(inputs: &Inputs) -> Outputs {
    let elem = low(inputs);
    let hidden = map(&product(&inputs.tensor("a"), &inputs.tensor("w1")), |x| round(x.max(0.0), elem));
    outputs([("c", product(&hidden, &inputs.tensor("w2")))])
}

pub(super) fn three_dots(inputs: &Inputs) -> Outputs {
    let half = |a: Array| map(&a, |x| round(x, Elem::F16));
    let p = half(product(&inputs.tensor("a"), &inputs.tensor("b")));
    let q = half(product(&p, &inputs.tensor("d")));
    let e = inputs.tensor("e");
    let (block, rows) = (e.shape[0], q.shape[0]);
    // Each block of rows is multiplied by e; rows past the end are 0.
    let y = Array::build(&q.shape, &mut |at| {
        let first = at[0] / block * block;
        let here = (rows - first).min(block);
        (0..here).map(|k| e.at(&[at[0] - first, k]) * q.at(&[first + k, at[1]])).sum()
    });
    outputs([("y", y)])
}

pub(super) fn stored_operand(inputs: &Inputs) -> Outputs {
    let p = map(&product(&inputs.tensor("a"), &inputs.tensor("w")), |x| round(x, Elem::F16));
    let e = inputs.tensor("e");
    let (block, rows) = (e.shape[0], p.shape[0]);
    // Each block of rows is multiplied by e; rows past the end are 0.
    let y = Array::build(&p.shape, &mut |at| {
        let first = at[0] / block * block;
        let here = (rows - first).min(block);
        (0..here).map(|k| e.at(&[at[0] - first, k]) * p.at(&[first + k, at[1]])).sum()
    });
    outputs([("p", p), ("y", y)])
}

pub(super) fn shifted_columns(inputs: &Inputs) -> Outputs {
    let (a, b, by) = (inputs.tensor("a"), inputs.tensor("b"), inputs.scalar("by") as i64);
    let (rows, depth) = (a.shape[0], a.shape[1]);
    let c = Array::build(&[rows, inputs.dim("W")], &mut |at| {
        let n = at[1] - by;
        if n >= b.shape[0] { 0.0 } else { (0..depth).map(|k| a.at(&[at[0], k]) * b.at(&[n, k])).sum() }
    });
    outputs([("c", c)])
}

pub(super) fn carried_tiles(inputs: &Inputs) -> Outputs {
    let x = inputs.tensor("x");
    let (steps, n) = (x.shape[0], x.shape[1]);
    let top =
        Array::build(&[n], &mut |at| (0..steps).map(|t| x.at(&[t, at[0]])).fold(f64::NEG_INFINITY, f64::max));
    let before = |t: i64, n: i64| if t == 0 { 0.0 } else { x.at(&[t - 1, n]) };
    let jump =
        Array::build(&[n], &mut |at| (0..steps).map(|t| (x.at(&[t, at[0]]) - before(t, at[0])).abs()).sum());
    outputs([("top", top), ("jump", jump)])
}

pub(super) fn transposed_a(inputs: &Inputs) -> Outputs {
    let a = inputs.tensor("a");
    let turned = Array::build(&[a.shape[1], a.shape[0]], &mut |at| a.at(&[at[1], at[0]]));
    outputs([("c", product(&turned, &inputs.tensor("b")))])
}

/// In f32, as the decision when to start again depends on the rounding.
pub(super) fn scan_if(inputs: &Inputs) -> Outputs {
    let (x, limit) = (inputs.tensor("x"), inputs.scalar("limit") as f32);
    let mut y = Array::zeros(&x.shape);
    let mut resets = Array::zeros(&x.shape[..1]);
    for m in 0..x.shape[0] {
        let mut total = 0f32;
        for n in 0..x.shape[1] {
            total += x.at(&[m, n]) as f32;
            y.data[(m * x.shape[1] + n) as usize] = f64::from(total);
            if total.abs() > limit {
                total = 0.0;
                resets.data[m as usize] += 1.0;
            }
        }
    }
    outputs([("y", y), ("resets", resets)])
}

pub(super) fn broadcasts(inputs: &Inputs) -> Outputs {
    let (x, row, column) = (inputs.tensor("x"), inputs.tensor("row"), inputs.tensor("column"));
    let y = Array::build(&x.shape, &mut |at| {
        let (x, r, c) = (x.at(at), row.at(&at[1..]), column.at(&at[..1]));
        if r < c { x * c + r } else { 1.0 / (1.0 + (-x).exp()) }
    });
    outputs([("y", y)])
}

pub(super) fn column_sums(inputs: &Inputs) -> Outputs {
    let x = inputs.tensor("x");
    let column = |n: i64| (0..x.shape[0]).map(move |m| [m, n]);
    let cols = [x.shape[1]];
    let total = Array::build(&cols, &mut |at| column(at[0]).map(|at| x.at(&at)).sum());
    let top =
        Array::build(&cols, &mut |at| column(at[0]).map(|at| x.at(&at)).fold(f64::NEG_INFINITY, f64::max));
    let low = Array::build(&cols, &mut |at| column(at[0]).map(|at| x.at(&at)).fold(f64::INFINITY, f64::min));
    outputs([("total", total), ("top", top), ("low", low)])
}

pub(super) fn loop_bounds(inputs: &Inputs) -> Outputs {
    let n = inputs.dim("N");
    let (lo, hi) = (inputs.scalar("lo") as i64, inputs.scalar("hi") as i64);
    let up: Vec<i64> = (lo..hi).collect();
    let by_three: Vec<i64> = (lo..hi).step_by(3).collect();
    let down: Vec<i64> = (lo + 1..hi + 1).rev().step_by(2).collect();
    // The last goes from hi down to lo: nothing unless hi is above.
    let rounds = (up.len() + by_three.len() + down.len()) as f64;
    let sum = |all: &[i64]| {
        let total: i64 = all.iter().sum();
        Array::build(&[n], &mut |at| f64::from((total + at[0]) as i32))
    };
    outputs([
        ("up", sum(&up)),
        ("by_three", sum(&by_three)),
        ("down", sum(&down)),
        ("rounds", Array::build(&[n], &mut |_| rounds)),
    ])
}

pub(super) fn integers(inputs: &Inputs) -> Outputs {
    let (x, y) = (inputs.tensor("x"), inputs.tensor("y"));
    let each =
        |f: &dyn Fn(i32, i32) -> f64| Array::build(&x.shape, &mut |at| f(x.at(at) as i32, y.at(at) as i32));
    let cdiv = |a: i32, b: i32| if b == 0 { 0.0 } else { (f64::from(a) / f64::from(b)).ceil() };
    let unsigned = |a: i32, b: i32| {
        let (u, w) = (a as u32, b as u32);
        f64::from((u / 3).max(w >> 28).wrapping_add(u % 5).wrapping_add(w.div_ceil(1000)))
    };
    outputs([
        ("quotient", each(&|a, b| f64::from(a.checked_div(b).unwrap_or(0)))),
        ("rest", each(&|a, b| f64::from(a.checked_rem(b).unwrap_or(a)))),
        ("up", each(&cdiv)),
        ("up_by_seven", each(&|a, _| cdiv(a, 7))),
        ("bits", each(&|a, b| f64::from(((a << 3) ^ (b >> 1)) & !(a | b)))),
        ("unsigned", each(&unsigned)),
    ])
}
