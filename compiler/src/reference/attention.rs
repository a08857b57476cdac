//! Attention, all scores of a row at once.

use super::{Array, Inputs, Outputs, outputs, round};
use flashc_ir::Elem;

/// In f64.
pub(super) fn forward(inputs: &Inputs) -> Outputs {
    attention(inputs, &|x| x)
}

/// With scores, probabilities and results rounded to the inputs' type.
pub(super) fn forward_low(inputs: &Inputs) -> Outputs {
    let elem = if inputs.generic("T") == "f16" { Elem::F16 } else { Elem::BF16 };
    attention(inputs, &|x| round(x, elem))
}

fn attention(inputs: &Inputs, rounded: &dyn Fn(f64) -> f64) -> Outputs {
    let (q, k, v) = (inputs.tensor("q"), inputs.tensor("k"), inputs.tensor("v"));
    let (scale, causal) = (inputs.scalar("scale"), inputs.generic("CAUSAL") == "true");
    let [batches, heads, rows, width] = [0, 1, 2, 3].map(|axis| q.shape[axis]);
    let (key_heads, keys) = (k.shape[1], k.shape[2]);
    let mut o = Array::zeros(&q.shape);
    let mut lse = Array::zeros(&[batches, heads, rows]);
    for b in 0..batches {
        for h in 0..heads {
            let hk = h / (heads / key_heads);
            for i in 0..rows {
                // Bottom-right: the last query sees the last key.
                let seen = if causal { (i + keys - rows + 1).clamp(0, keys) } else { keys };
                let score = |j: i64| {
                    let dot: f64 = (0..width).map(|d| q.at(&[b, h, i, d]) * k.at(&[b, hk, j, d])).sum();
                    rounded(rounded(dot) * scale)
                };
                let s: Vec<f64> = (0..seen).map(score).collect();
                let top = s.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let total: f64 = s.iter().map(|s| (s - top).exp()).sum();
                let row = (b * heads + h) * rows + i;
                lse.data[row as usize] = if seen == 0 { f64::NEG_INFINITY } else { top + total.ln() };
                let p: Vec<f64> = s.iter().map(|s| rounded((s - top).exp() / total)).collect();
                for d in 0..width {
                    let sum = p.iter().enumerate().map(|(j, p)| p * v.at(&[b, hk, j as i64, d])).sum();
                    o.data[(row * width + d) as usize] = rounded(sum);
                }
            }
        }
    }
    outputs([("o", o), ("lse", lse)])
}
