//! Scalar arguments: checked against their parameters and put into the bytes that the kernel takes.

use crate::args::Scalar;
use crate::dtype::DType;
use crate::error::{Error, Result};
use flashc_ir::artifact::HostValue;

/// The parameter's bytes, and its value for conditions and the grid (`host_read`: do they use it?).
pub(crate) fn encode(name: &str, ty: DType, given: Scalar, host_read: bool) -> Result<(u64, HostValue)> {
    let wrong = |given: String| Error::ScalarType { scalar: name.to_owned(), wants: ty.to_string(), given };
    match (given, range(ty)) {
        (Scalar::Bool(b), _) if ty == DType::Bool => Ok((b.into(), HostValue::Bool(b))),
        (Scalar::Int(i), Some((low, high))) => {
            if !(low..=high).contains(&i) {
                return Err(wrong(format!("{i}, which it cannot hold,")));
            }
            match i64::try_from(i) {
                Ok(v) => Ok((v as u64, HostValue::Int(v))),
                // Conditions compute in i64; a value beyond must not be read by one.
                Err(_) if host_read => {
                    Err(wrong(format!("{i}, too large for the `where` or grid that reads it,")))
                }
                Err(_) => Ok((i as u64, HostValue::Int(i64::MAX))),
            }
        }
        (Scalar::Float(x), _) if ty.elem().is_float() => float(ty, x).ok_or_else(|| wrong(kind(given))),
        (Scalar::Int(i), _) if ty.elem().is_float() => float(ty, i as f64).ok_or_else(|| wrong(kind(given))),
        _ => Err(wrong(kind(given))),
    }
}

/// A float, rounded to the parameter's type; the host sees the rounded value too.
fn float(ty: DType, x: f64) -> Option<(u64, HostValue)> {
    let (word, rounded) = match ty {
        DType::F16 => {
            let h = half::f16::from_f64(x);
            (h.to_bits().into(), h.to_f64())
        }
        DType::BF16 => {
            let h = half::bf16::from_f64(x);
            (h.to_bits().into(), h.to_f64())
        }
        DType::F32 => ((x as f32).to_bits().into(), (x as f32).into()),
        DType::F64 => (x.to_bits(), x),
        _ => return None,
    };
    Some((word, HostValue::Float(rounded)))
}

fn kind(s: Scalar) -> String {
    match s {
        Scalar::Bool(b) => format!("the bool {b}"),
        Scalar::Int(i) => format!("the integer {i}"),
        Scalar::Float(x) => format!("the float {x:?}"),
    }
}

/// The range of an integer type.
fn range(t: DType) -> Option<(i128, i128)> {
    let bits = 8 * t.bytes() as u32;
    match t {
        DType::Bool => None,
        _ if t.elem().is_float() => None,
        _ if t.is_unsigned() => Some((0, (1i128 << bits) - 1)),
        _ => Some((-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(ty: DType, given: impl Into<Scalar>) -> Result<u64> {
        encode("x", ty, given.into(), true).map(|(w, _)| w)
    }

    #[test]
    fn bytes_of_every_type() {
        assert_eq!(word(DType::Bool, true), Ok(1));
        assert_eq!(word(DType::I8, -1i64).map(|w| w as u8), Ok(0xff));
        assert_eq!(word(DType::U8, 255i64), Ok(255));
        assert_eq!(word(DType::I32, -2i64).map(|w| w as u32), Ok(0xffff_fffe));
        assert_eq!(encode("x", DType::U64, u64::MAX.into(), false).map(|w| w.0), Ok(u64::MAX));
        assert_eq!(word(DType::F16, 1.0), Ok(0x3c00));
        assert_eq!(word(DType::BF16, 1.0), Ok(0x3f80));
        assert_eq!(word(DType::F32, 0.5), Ok(0x3f00_0000));
        assert_eq!(word(DType::F32, 2i64), Ok(0x4000_0000));
        assert_eq!(word(DType::F64, 0.5), Ok(0x3fe0_0000_0000_0000));
    }

    #[test]
    fn what_does_not_fit() {
        let all = [
            word(DType::I8, 128i64),
            word(DType::U32, -1i64),
            word(DType::I32, 1.0),
            word(DType::F32, true),
            word(DType::Bool, 1i64),
            word(DType::U64, u64::MAX),
            word(DType::E4M3, 1.0),
        ];
        let text: Vec<String> = all.map(|r| r.unwrap_err().to_string()).into();
        insta::assert_snapshot!(text.join("\n"), @r"
        `x` is i8, but 128, which it cannot hold, is given
        `x` is u32, but -1, which it cannot hold, is given
        `x` is i32, but the float 1.0 is given
        `x` is f32, but the bool true is given
        `x` is bool, but the integer 1 is given
        `x` is u64, but 18446744073709551615, too large for the `where` or grid that reads it, is given
        `x` is e4m3, but the float 1.0 is given
        ");
    }
}
