//! References of the examples.

use super::{Array, Inputs, Outputs, outputs};

pub(super) fn vector_add(inputs: &Inputs) -> Outputs {
    let (x, y) = (inputs.tensor("x"), inputs.tensor("y"));
    outputs([("z", Array::build(&x.shape, &mut |at| x.at(at) + y.at(at)))])
}

pub(super) fn softmax(inputs: &Inputs) -> Outputs {
    let x = inputs.tensor("x");
    let (rows, cols) = (x.shape[0], x.shape[1]);
    let mut y = Array::zeros(&x.shape);
    for m in 0..rows {
        let top = (0..cols).map(|n| x.at(&[m, n])).fold(f64::NEG_INFINITY, f64::max);
        let total: f64 = (0..cols).map(|n| (x.at(&[m, n]) - top).exp()).sum();
        for n in 0..cols {
            y.data[(m * cols + n) as usize] = (x.at(&[m, n]) - top).exp() / total;
        }
    }
    outputs([("y", y)])
}

pub(super) fn layer_norm(inputs: &Inputs) -> Outputs {
    let (x, w, b) = (inputs.tensor("x"), inputs.tensor("w"), inputs.tensor("b"));
    let eps = inputs.scalar("eps");
    let (rows, cols) = (x.shape[0], x.shape[1]);
    let count = cols as f64;
    let mean = Array::build(&[rows], &mut |at| (0..cols).map(|n| x.at(&[at[0], n])).sum::<f64>() / count);
    let rstd = Array::build(&[rows], &mut |at| {
        let squares: f64 = (0..cols).map(|n| (x.at(&[at[0], n]) - mean.at(at)).powi(2)).sum();
        1.0 / (squares / count + eps).sqrt()
    });
    let y = Array::build(&x.shape, &mut |at| {
        let (m, n) = (&at[..1], &at[1..]);
        (x.at(at) - mean.at(m)) * rstd.at(m) * w.at(n) + b.at(n)
    });
    outputs([("y", y), ("mean", mean), ("rstd", rstd)])
}

pub(super) fn matmul(inputs: &Inputs) -> Outputs {
    outputs([("c", product(&inputs.tensor("a"), &inputs.tensor("b")))])
}

/// `a b`.
pub(super) fn product(a: &Array, b: &Array) -> Array {
    let inner = a.shape[1];
    Array::build(&[a.shape[0], b.shape[1]], &mut |at| {
        (0..inner).map(|k| a.at(&[at[0], k]) * b.at(&[k, at[1]])).sum()
    })
}
