//! Which tensors share memory, where that can be seen from addresses and strides.
//!
//! Both questions are answered only when the answer is certain: a tensor reported here does overlap, one
//! that is not reported may.

use crate::args::TensorArg;

/// Two axes of a tensor that collide: two different indices along them are the same element. Any axis with
/// stride 0 is the caller's business. Collisions of three axes at once are not seen.
pub(crate) fn colliding_axes(t: &TensorArg) -> Option<(usize, usize)> {
    let rank = t.shape.len();
    for a in 0..rank {
        for b in a + 1..rank {
            let (len_a, len_b, step_a, step_b) = (t.shape[a], t.shape[b], t.strides[a], t.strides[b]);
            if len_a < 2 || len_b < 2 || step_a == 0 || step_b == 0 {
                continue;
            }
            // The smallest i, j > 0 with i * step_a = j * step_b.
            let g = gcd(step_a, step_b);
            if step_b / g < len_a && step_a / g < len_b {
                return Some((a, b));
            }
        }
    }
    None
}

/// Is some byte certainly in both? Both must have elements.
pub(crate) fn share_memory(a: &TensorArg, b: &TensorArg) -> bool {
    if a.pointer == b.pointer {
        return true;
    }
    let (low, high) = if a.pointer < b.pointer { (a, b) } else { (b, a) };
    match span_bytes(low) {
        Some(span) if high.pointer - low.pointer < span => is_dense(low),
        _ => false,
    }
}

/// Bytes from the first to the last element; `None` if they leave 63 bits.
pub(crate) fn span_bytes(t: &TensorArg) -> Option<u64> {
    let mut last = 0i64;
    for (len, stride) in t.shape.iter().zip(t.strides) {
        last = last.checked_add((len - 1).max(0).checked_mul(*stride)?)?;
    }
    Some(last.checked_add(1)?.checked_mul(t.dtype.bytes())? as u64)
}

/// Is every element of its span its own? Then whatever begins in it, shares an element with it.
fn is_dense(t: &TensorArg) -> bool {
    let elements = t.elements().unwrap_or(0);
    colliding_axes(t).is_none()
        && t.strides.iter().zip(t.shape).all(|(s, n)| *s > 0 || *n < 2)
        && span_bytes(t) == elements.checked_mul(t.dtype.bytes()).map(|b| b as u64)
}

fn gcd(a: i64, b: i64) -> i64 {
    let (mut a, mut b) = (a, b);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;
    use std::collections::HashSet;

    fn tensor<'a>(pointer: u64, shape: &'a [i64], strides: &'a [i64]) -> TensorArg<'a> {
        TensorArg { pointer, dtype: DType::BF16, shape, strides, device: 0 }
    }

    #[test]
    fn colliding_axes_are_found_exactly_for_two() {
        for (s0, s1) in (1..8).flat_map(|a| (1..8).map(move |b| (a, b))) {
            for (n0, n1) in (1..6).flat_map(|a| (1..6).map(move |b| (a, b))) {
                let (shape, strides) = ([n0, n1], [s0, s1]);
                let offsets: HashSet<i64> =
                    (0..n0).flat_map(|i| (0..n1).map(move |j| i * s0 + j * s1)).collect();
                let collide = offsets.len() < (n0 * n1) as usize;
                let seen = colliding_axes(&tensor(0, &shape, &strides)).is_some();
                assert_eq!(seen, collide, "shape {shape:?} strides {strides:?}");
            }
        }
    }

    #[test]
    fn interleaved_views_do_not_share_memory() {
        // dq, dk and dv in one tensor (B, S, 3, D).
        let (shape, strides) = ([2, 8, 64], [8 * 192, 192, 1]);
        let (dq, dk) = (tensor(4096, &shape, &strides), tensor(4096 + 128, &shape, &strides));
        assert!(!share_memory(&dq, &dk));
        assert!(share_memory(&dq, &dq));
    }

    #[test]
    fn dense_tensors_share_memory_when_their_ranges_meet() {
        let (shape, strides) = ([8, 64], [64, 1]);
        let a = tensor(4096, &shape, &strides);
        assert!(share_memory(&a, &tensor(4096 + 1022, &shape, &strides)));
        assert!(share_memory(&tensor(4096 + 1022, &shape, &strides), &a));
        assert!(!share_memory(&a, &tensor(4096 + 1024, &shape, &strides)));
        // Transposed is dense as well.
        let (shape_t, strides_t) = ([64, 8], [1, 64]);
        assert!(share_memory(&tensor(4096, &shape_t, &strides_t), &tensor(4098, &shape, &strides)));
    }
}
