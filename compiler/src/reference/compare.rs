//! Results against the reference.

use super::{Array, Inputs, Outputs, low_precision, reference, round};
use crate::run_header::Tolerance;
use flashc_ir::Elem;
use flashc_ir::artifact::TensorParam;
use std::fmt;

/// One output against its reference.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The tensor.
    pub name: String,
    /// Is it close enough?
    pub ok: bool,
    /// Distance of the worst element: the one nearest to its bound, or furthest beyond.
    pub error: f64,
    /// What is allowed there.
    pub bound: f64,
    /// Its position, value and expected value. None for an empty tensor.
    pub worst: Option<(Vec<i64>, f64, f64)>,
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.ok { "ok" } else { "WRONG" };
        write!(f, "{}: {verdict}, error {:.3e} of {:.3e}", self.name, self.error, self.bound)?;
        match &self.worst {
            Some((at, got, want)) if !self.ok => write!(f, " at {at:?}: {got} instead of {want}"),
            _ => Ok(()),
        }
    }
}

/// Compares all results of a launch. An error is about the request: no such reference, a result missing.
pub fn check(
    name: &str,
    tolerance: Tolerance,
    tensors: &[TensorParam],
    inputs: &Inputs,
    got: &Outputs,
) -> Result<Vec<Comparison>, String> {
    let Some(exact) = reference(name) else {
        let known: Vec<_> = super::REFERENCES.iter().map(|r| r.0).collect();
        return Err(format!("there is no reference `{name}`; there are {}", known.join(", ")));
    };
    let want = exact(inputs);
    let low = match tolerance {
        Tolerance::FlashAttention => {
            let low =
                low_precision(name).ok_or(format!("`{name}` has no low-precision reference for `fa`"))?;
            Some(low(inputs))
        }
        _ => None,
    };
    let mut out = vec![];
    for t in tensors.iter().filter(|t| t.out) {
        let missing = |what: &str| format!("{what} has no `{}`", t.name);
        let got = got.get(&t.name).ok_or_else(|| missing("the launch"))?;
        let want = want.get(&t.name).ok_or_else(|| missing("the reference"))?;
        if got.shape != want.shape {
            return Err(format!("`{}` has shape {:?}, its reference {:?}", t.name, got.shape, want.shape));
        }
        let low = low.as_ref().and_then(|l| l.get(&t.name));
        out.push(compare(t, tolerance, got, want, low));
    }
    Ok(out)
}

fn compare(
    t: &TensorParam,
    tolerance: Tolerance,
    got: &Array,
    want: &Array,
    low: Option<&Array>,
) -> Comparison {
    let criterion = low.map(|low| flash_attention_bound(t.elem, want, low));
    let mut worst = Comparison { name: t.name.clone(), ok: true, error: 0.0, bound: 0.0, worst: None };
    let mut share = 0.0;
    for (i, (&x, &y)) in got.data.iter().zip(&want.data).enumerate() {
        let x =
            if x < 0.0 && t.dtype.starts_with('u') { x + f64::powi(256.0, t.elem.bytes() as i32) } else { x };
        let y = if t.elem.is_float() { y } else { y.trunc() };
        let error = distance(x, y);
        let bound = match (criterion, tolerance) {
            (Some(bound), _) => bound,
            (None, Tolerance::Close { rel, abs }) if y.is_finite() => abs + rel * y.abs(),
            // An exact result is the reference rounded to the type.
            (None, Tolerance::Exact) if t.elem.is_float() => distance(round(y, t.elem), y),
            _ => 0.0,
        };
        worst.ok &= error <= bound;
        let used = if error == 0.0 { 0.0 } else { error / bound };
        if used > share || worst.worst.is_none() {
            share = used;
            worst = Comparison { error, bound, worst: Some((position(i, &got.shape), x, y)), ..worst };
        }
    }
    worst
}

/// 0 for equal infinities and for NaN twice, infinite where only one is.
fn distance(x: f64, y: f64) -> f64 {
    match (x == y || (x.is_nan() && y.is_nan()), (x - y).abs()) {
        (true, _) => 0.0,
        (false, d) if d.is_nan() => f64::INFINITY,
        (false, d) => d,
    }
}

fn position(index: usize, shape: &[i64]) -> Vec<i64> {
    let mut rest = index as i64;
    let mut at: Vec<i64> = shape.iter().rev().map(|&n| (rest % n, rest /= n).0).collect();
    at.reverse();
    at
}

/// `2 max|low - ref| + 2 max|(ref + 0.3 - 0.3) - ref|`, the latter in the type of the result. For f32 results (the
/// logarithms) a little more: rounding the scores may by chance have changed nothing.
fn flash_attention_bound(elem: Elem, want: &Array, low: &Array) -> f64 {
    let max =
        |f: &dyn Fn(usize) -> f64| (0..want.data.len()).map(f).filter(|x| x.is_finite()).fold(0.0, f64::max);
    let error = max(&|i| distance(low.data[i], want.data[i]));
    let unit = max(&|i| {
        let x = round(want.data[i], elem);
        distance(round(round(x + 0.3, elem) - 0.3, elem), x)
    });
    2.0 * error + 2.0 * unit + if elem == Elem::F32 { 1e-4 } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn param(elem: Elem, dtype: &str) -> TensorParam {
        TensorParam { name: "x".into(), dtype: dtype.into(), elem, dims: vec![], out: true }
    }

    fn array(data: &[f64]) -> Array {
        Array { shape: vec![data.len() as i64], data: data.to_vec() }
    }

    #[test]
    fn every_element_counts_and_the_worst_is_named() {
        let t = param(Elem::F32, "f32");
        let close = Tolerance::Close { rel: 1e-2, abs: 0.0 };
        let (inf, nan) = (f64::INFINITY, f64::NAN);
        let c = compare(&t, close, &array(&[1.005, -inf, nan]), &array(&[1.0, -inf, nan]), None);
        assert!(c.ok, "{c}");
        let c = compare(&t, close, &array(&[1.0, 2.5, 100.0]), &array(&[1.0, 2.0, 100.1]), None);
        assert_eq!((c.ok, c.worst), (false, Some((vec![1], 2.5, 2.0))));
        assert!(!compare(&t, close, &array(&[nan]), &array(&[1.0]), None).ok);
        assert!(!compare(&t, close, &array(&[inf]), &array(&[1.0]), None).ok);
        assert!(!compare(&t, close, &array(&[1.0]), &array(&[inf]), None).ok);
    }

    #[test]
    fn integers_compare_in_their_own_type() {
        let c = compare(
            &param(Elem::I32, "u32"),
            Tolerance::Exact,
            &array(&[-1.0]),
            &array(&[4294967295.0]),
            None,
        );
        assert!(c.ok, "{c}");
    }

    #[test]
    fn positions_are_row_major() {
        assert_eq!(position(7, &[2, 3, 2]), [1, 0, 1]);
    }
}
