//! Numbers: rounding to the float types, their bits, and total integer arithmetic.

use crate::ops::{BinaryOp, Predicate, UnaryOp};
use crate::types::Elem;

/// Mantissa bits, smallest normal exponent and largest value of a float type.
fn format(elem: Elem) -> (i32, i32, f64) {
    match elem {
        Elem::F16 => (10, -14, 65504.0),
        Elem::BF16 => (7, -126, f32::from_bits(0x7f7f_0000) as f64),
        Elem::E4M3 => (3, -6, 448.0),
        Elem::E5M2 => (2, -14, 57344.0),
        Elem::F32 => (23, -126, f32::MAX as f64),
        _ => (52, -1022, f64::MAX),
    }
}

/// Do conversions that overflow give the largest finite value?
fn saturates(elem: Elem) -> bool {
    matches!(elem, Elem::E4M3 | Elem::E5M2)
}

/// To the nearest value of a float type, ties to even.
pub(super) fn round(x: f64, elem: Elem) -> f64 {
    match elem {
        Elem::F64 => return x,
        Elem::F32 => return x as f32 as f64,
        _ => {}
    }
    let (mantissa, min_exp, max) = format(elem);
    if x.is_nan() || x == 0.0 {
        return x;
    }
    let exp = (((x.to_bits() >> 52) & 0x7ff) as i32 - 1023).max(min_exp);
    let ulp = f64::from_bits(((exp - mantissa + 1023) as u64) << 52);
    let y = if x.is_infinite() { x } else { (x / ulp).round_ties_even() * ulp };
    match y.abs() > max {
        true if saturates(elem) => max.copysign(x),
        true => f64::INFINITY.copysign(x),
        false => y,
    }
}

/// As [`round`], for values that are `f32` already.
pub(super) fn round32(x: f32, elem: Elem) -> f32 {
    match elem {
        Elem::F32 | Elem::F64 => x,
        Elem::BF16 if x.is_nan() => x,
        Elem::BF16 => {
            let b = x.to_bits();
            f32::from_bits((b.wrapping_add(0x7fff + (b >> 16 & 1))) & 0xffff_0000)
        }
        Elem::F16 => half::f16::from_f32(x).to_f32(),
        _ => round(x as f64, elem) as f32,
    }
}

/// The bits of a number of this type; a float is rounded to it first, NaN has one encoding.
pub(super) fn float_bits(x: f64, elem: Elem) -> u64 {
    let x = round(x, elem);
    match elem {
        Elem::F64 if x.is_nan() => f64::NAN.to_bits(),
        Elem::F64 => x.to_bits(),
        Elem::F32 if x.is_nan() => f32::NAN.to_bits() as u64,
        Elem::F32 => (x as f32).to_bits() as u64,
        _ => {
            let (mantissa, min_exp, _) = format(elem);
            let width = elem.bytes() * 8;
            let sign = (x.is_sign_negative() as u64) << (width - 1);
            let exp_bits = width as i32 - 1 - mantissa;
            let exp_mask = ((1u64 << exp_bits) - 1) << mantissa;
            if x.is_nan() {
                return exp_mask | if elem == Elem::E4M3 { 7 } else { 1 << (mantissa - 1) };
            }
            if x.is_infinite() {
                return sign | exp_mask;
            }
            let exp = ((x.to_bits() >> 52) & 0x7ff) as i32 - 1023;
            let unit = f64::from_bits(((min_exp - mantissa + 1023) as u64) << 52);
            sign | if x == 0.0 || exp < min_exp {
                (x.abs() / unit) as u64
            } else {
                ((exp - min_exp + 1) as u64) << mantissa
                    | (x.to_bits() >> (52 - mantissa)) & ((1 << mantissa) - 1)
            }
        }
    }
}

/// The float of these bits.
pub(super) fn float_from_bits(bits: u64, elem: Elem) -> f64 {
    match elem {
        Elem::F64 => f64::from_bits(bits),
        Elem::F32 => f32::from_bits(bits as u32) as f64,
        _ => {
            let (mantissa, min_exp, max) = format(elem);
            let width = elem.bytes() * 8;
            let exp_bits = width as i32 - 1 - mantissa;
            let sign = if bits >> (width - 1) & 1 == 1 { -1.0 } else { 1.0 };
            let exp = (bits >> mantissa) as i32 & ((1 << exp_bits) - 1);
            let frac = bits & ((1 << mantissa) - 1);
            let unit = f64::from_bits(((exp.max(1) - 1 + min_exp - mantissa + 1023) as u64) << 52);
            let value = (frac + ((exp > 0) as u64) * (1 << mantissa)) as f64 * unit;
            if value <= max {
                sign * value
            } else if elem != Elem::E4M3 && frac == 0 {
                sign * f64::INFINITY
            } else {
                f64::NAN
            }
        }
    }
}

/// Bits of an integer type.
pub(super) fn width(elem: Elem) -> u32 {
    if elem == Elem::I1 { 1 } else { elem.bytes() as u32 * 8 }
}

/// The low bits, sign-extended; a bool is 0 or 1.
pub(super) fn wrap(x: i64, elem: Elem) -> i64 {
    match elem {
        Elem::I1 => x & 1,
        Elem::I8 => x as i8 as i64,
        Elem::I16 => x as i16 as i64,
        Elem::I32 => x as i32 as i64,
        _ => x,
    }
}

/// The value read with a sign: the bool `true` is −1.
pub(super) fn signed(x: i64, elem: Elem) -> i64 {
    if elem == Elem::I1 { -x } else { x }
}

/// The value read without a sign.
pub(super) fn unsigned(x: i64, elem: Elem) -> u64 {
    match width(elem) {
        64 => x as u64,
        w => x as u64 & ((1 << w) - 1),
    }
}

/// Total integer arithmetic; `None` for operations on floats.
pub(super) fn int_binary(op: BinaryOp, a: i64, b: i64, elem: Elem) -> Option<i64> {
    use BinaryOp::*;
    let (sa, sb) = (signed(a, elem), signed(b, elem));
    let (ua, ub) = (unsigned(a, elem), unsigned(b, elem));
    let shift = (ub < width(elem) as u64).then_some(ub as u32);
    let r = match op {
        AddI => a.wrapping_add(b),
        SubI => a.wrapping_sub(b),
        MulI => a.wrapping_mul(b),
        DivSI => {
            if sb == 0 {
                0
            } else {
                sa.wrapping_div(sb)
            }
        }
        RemSI => {
            if sb == 0 {
                sa
            } else {
                sa.wrapping_rem(sb)
            }
        }
        DivUI => ua.checked_div(ub).unwrap_or(0) as i64,
        RemUI => ua.checked_rem(ub).unwrap_or(ua) as i64,
        AndI => a & b,
        OrI => a | b,
        XorI => a ^ b,
        ShlI => shift.map_or(0, |s| ua << s) as i64,
        ShrUI => shift.map_or(0, |s| ua >> s) as i64,
        ShrSI => sa >> shift.unwrap_or(63),
        MinSI => sa.min(sb),
        MaxSI => sa.max(sb),
        MinUI => ua.min(ub) as i64,
        MaxUI => ua.max(ub) as i64,
        AddF | SubF | MulF | DivF | MinNumF | MaxNumF => return None,
    };
    Some(wrap(r, elem))
}

/// Compares integers; `None` for predicates of floats.
pub(super) fn int_compare(p: Predicate, a: i64, b: i64, elem: Elem) -> Option<bool> {
    use Predicate::*;
    let (sa, sb) = (signed(a, elem), signed(b, elem));
    let (ua, ub) = (unsigned(a, elem), unsigned(b, elem));
    Some(match p {
        Eq => a == b,
        Ne => a != b,
        Slt => sa < sb,
        Sle => sa <= sb,
        Sgt => sa > sb,
        Sge => sa >= sb,
        Ult => ua < ub,
        Ule => ua <= ub,
        Ugt => ua > ub,
        Uge => ua >= ub,
        Feq | Fne | Flt | Fle | Fgt | Fge => return None,
    })
}

/// Compares floats; `None` for predicates of integers.
pub(super) fn float_compare(p: Predicate, a: f64, b: f64) -> Option<bool> {
    use Predicate::*;
    Some(match p {
        Feq => a == b,
        Fne => a != b,
        Flt => a < b,
        Fle => a <= b,
        Fgt => a > b,
        Fge => a >= b,
        Eq | Ne | Slt | Sle | Sgt | Sge | Ult | Ule | Ugt | Uge => return None,
    })
}

macro_rules! min_max_num {
    ($t:ident, $max:ident, $min:ident) => {
        /// `maxNum`: NaN loses, +0 is above −0.
        pub(super) fn $max(a: $t, b: $t) -> $t {
            if b.is_nan() || a > b || a == b && a.is_sign_positive() { a } else { b }
        }
        /// `minNum`: NaN loses, −0 is below +0.
        pub(super) fn $min(a: $t, b: $t) -> $t {
            if b.is_nan() || a < b || a == b && a.is_sign_negative() { a } else { b }
        }
    };
}
min_max_num!(f32, max32, min32);
min_max_num!(f64, max64, min64);

/// `a * b + c` so that one more rounding to a type of at most 24 bits is the only one: the product is
/// exact, the sum is rounded to odd.
pub(super) fn fma_narrow(a: f64, b: f64, c: f64) -> f64 {
    let p = a * b;
    let s = p + c;
    let bb = s - p;
    let err = (p - (s - bb)) + (c - bb);
    if err == 0.0 || !err.is_finite() || s.to_bits() & 1 == 1 {
        return s;
    }
    let up = (err > 0.0) == (s > 0.0);
    f64::from_bits(if up { s.to_bits() + 1 } else { s.to_bits() - 1 })
}

/// A function of one float; `None` for operations on integers.
pub(super) fn float_unary(op: UnaryOp, x: f64) -> Option<f64> {
    use UnaryOp::*;
    Some(match op {
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
        Erf => erf(x),
        Floor => x.floor(),
        Ceil => x.ceil(),
        AbsI => return None,
    })
}

/// The error function by its series of positive terms: `2/√π · e^(−x²) · Σ 2ⁿ x^(2n+1) / (2n+1)!!`.
fn erf(x: f64) -> f64 {
    if x.is_nan() || x == 0.0 {
        return x;
    }
    if x.abs() > 6.0 {
        return 1f64.copysign(x);
    }
    let (mut term, mut sum, mut n) = (x, x, 0.0);
    while (term / sum).abs() > 1e-18 {
        n += 1.0;
        term *= 2.0 * x * x / (2.0 * n + 1.0);
        sum += term;
    }
    (sum * (-x * x).exp() * 2.0 / std::f64::consts::PI.sqrt()).clamp(-1.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_pattern_of_the_small_floats_round_trips() {
        for elem in [Elem::F16, Elem::BF16, Elem::E4M3, Elem::E5M2] {
            for bits in 0..1u64 << (elem.bytes() * 8) {
                let x = float_from_bits(bits, elem);
                if x.is_nan() {
                    assert!(float_from_bits(float_bits(x, elem), elem).is_nan());
                } else if x.is_finite() || !saturates(elem) {
                    assert_eq!(float_bits(x, elem), bits, "{elem} {bits:#x} {x}");
                }
            }
        }
        assert_eq!(float_from_bits(0x3f80, Elem::BF16), 1.0);
        assert_eq!(float_from_bits(0x7e, Elem::E4M3), 448.0);
        assert!(float_from_bits(0x7f, Elem::E4M3).is_nan());
    }

    #[test]
    fn both_roundings_agree_with_half() {
        let mut x = 0x1234_5678u32;
        for _ in 0..20_000 {
            x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let f = f32::from_bits(x);
            if f.is_nan() {
                continue;
            }
            assert_eq!(round32(f, Elem::BF16), half::bf16::from_f32(f).to_f32());
            assert_eq!(round(f as f64, Elem::BF16) as f32, half::bf16::from_f32(f).to_f32());
            assert_eq!(round(f as f64, Elem::F16) as f32, half::f16::from_f32(f).to_f32());
        }
        assert_eq!(round(1e9, Elem::E4M3), 448.0);
        assert_eq!(round(65520.0, Elem::F16), f64::INFINITY);
    }

    #[test]
    fn a_narrow_fma_rounds_once() {
        // The product is halfway between two bf16 values; only the tiny addend says where to go.
        let (a, b, c) = (1.0 + 1.0 / 128.0, 1.0 + 1.0 / 128.0, 1e-30);
        let tie = 1.0 + 1.0 / 256.0;
        assert_eq!(round(fma_narrow(tie, 1.0, c), Elem::BF16), 1.0 + 1.0 / 128.0);
        assert_eq!(round(fma_narrow(tie, 1.0, -c), Elem::BF16), 1.0);
        assert_eq!(fma_narrow(a, b, 0.0), a * b);
    }

    #[test]
    fn erf_values() {
        for (x, want) in
            [(0.5, 0.520_499_877_813_046_5), (2.0, 0.995_322_265_018_952_7), (-3.5, -0.999_999_256_901_627_7)]
        {
            assert!((erf(x) - want).abs() < 1e-14, "{x}: {}", erf(x));
        }
    }
}
