//! Element types as a caller sees them: [`Elem`] plus signedness.

use flashc_ir::types::Elem;
use std::fmt;
use std::str::FromStr;

/// The element type of an argument. Unlike [`Elem`], it tells signed from unsigned integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
#[repr(i32)]
pub enum DType {
    Bool = 0,
    I8 = 1,
    I16 = 2,
    I32 = 3,
    I64 = 4,
    U8 = 5,
    U16 = 6,
    U32 = 7,
    U64 = 8,
    F16 = 9,
    BF16 = 10,
    F32 = 11,
    F64 = 12,
    E4M3 = 13,
    E5M2 = 14,
}

impl DType {
    /// Every type; the position of a type is its number in the C interface.
    pub const ALL: [DType; 15] = [
        DType::Bool,
        DType::I8,
        DType::I16,
        DType::I32,
        DType::I64,
        DType::U8,
        DType::U16,
        DType::U32,
        DType::U64,
        DType::F16,
        DType::BF16,
        DType::F32,
        DType::F64,
        DType::E4M3,
        DType::E5M2,
    ];

    /// The program's spelling.
    pub fn name(self) -> &'static str {
        match self {
            DType::Bool => "bool",
            DType::I8 => "i8",
            DType::I16 => "i16",
            DType::I32 => "i32",
            DType::I64 => "i64",
            DType::U8 => "u8",
            DType::U16 => "u16",
            DType::U32 => "u32",
            DType::U64 => "u64",
            DType::F16 => "f16",
            DType::BF16 => "bf16",
            DType::F32 => "f32",
            DType::F64 => "f64",
            DType::E4M3 => "e4m3",
            DType::E5M2 => "e5m2",
        }
    }

    /// The type without signedness.
    pub fn elem(self) -> Elem {
        match self {
            DType::Bool => Elem::I1,
            DType::I8 | DType::U8 => Elem::I8,
            DType::I16 | DType::U16 => Elem::I16,
            DType::I32 | DType::U32 => Elem::I32,
            DType::I64 | DType::U64 => Elem::I64,
            DType::F16 => Elem::F16,
            DType::BF16 => Elem::BF16,
            DType::F32 => Elem::F32,
            DType::F64 => Elem::F64,
            DType::E4M3 => Elem::E4M3,
            DType::E5M2 => Elem::E5M2,
        }
    }

    /// Bytes of an element in memory.
    pub fn bytes(self) -> i64 {
        self.elem().bytes()
    }

    /// Is it an unsigned integer?
    pub fn is_unsigned(self) -> bool {
        matches!(self, DType::U8 | DType::U16 | DType::U32 | DType::U64)
    }

    /// From the number used by the C interface.
    pub fn from_number(n: i32) -> Option<DType> {
        usize::try_from(n).ok().and_then(|i| DType::ALL.get(i).copied())
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for DType {
    type Err = String;

    fn from_str(s: &str) -> Result<DType, String> {
        DType::ALL.into_iter().find(|d| d.name() == s).ok_or_else(|| format!("no element type `{s}`"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_round_trip() {
        for (i, d) in DType::ALL.into_iter().enumerate() {
            assert_eq!(d as usize, i);
            assert_eq!(DType::from_number(i as i32), Some(d));
            assert_eq!(d.name().parse::<DType>(), Ok(d));
        }
        assert_eq!(DType::from_number(-1), None);
        assert_eq!(DType::from_number(15), None);
    }
}
