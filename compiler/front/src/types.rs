//! Element types and the types of values: a scalar, or a tile with a symbolic shape.

use crate::constexpr::ConstExpr;
use crate::hir::GenericId;

/// A concrete element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Elem {
    /// `bool`
    Bool,
    /// `i8`
    I8,
    /// `i16`
    I16,
    /// `i32`
    I32,
    /// `i64`
    I64,
    /// `u8`
    U8,
    /// `u16`
    U16,
    /// `u32`
    U32,
    /// `u64`
    U64,
    /// `f16`
    F16,
    /// `bf16`
    Bf16,
    /// `f32`
    F32,
    /// `f64`
    F64,
    /// 8-bit float, 4 exponent and 3 mantissa bits
    E4m3,
    /// 8-bit float, 5 exponent and 2 mantissa bits
    E5m2,
}

impl Elem {
    /// Every element type, in the order in which messages list them.
    pub const ALL: [Elem; 15] = [
        Elem::Bool,
        Elem::I8,
        Elem::I16,
        Elem::I32,
        Elem::I64,
        Elem::U8,
        Elem::U16,
        Elem::U32,
        Elem::U64,
        Elem::F16,
        Elem::Bf16,
        Elem::F32,
        Elem::F64,
        Elem::E4m3,
        Elem::E5m2,
    ];

    /// The name in the language.
    pub fn name(self) -> &'static str {
        match self {
            Elem::Bool => "bool",
            Elem::I8 => "i8",
            Elem::I16 => "i16",
            Elem::I32 => "i32",
            Elem::I64 => "i64",
            Elem::U8 => "u8",
            Elem::U16 => "u16",
            Elem::U32 => "u32",
            Elem::U64 => "u64",
            Elem::F16 => "f16",
            Elem::Bf16 => "bf16",
            Elem::F32 => "f32",
            Elem::F64 => "f64",
            Elem::E4m3 => "e4m3",
            Elem::E5m2 => "e5m2",
        }
    }

    /// The element type of that name.
    pub fn from_name(name: &str) -> Option<Elem> {
        Elem::ALL.into_iter().find(|e| e.name() == name)
    }

    /// Size in memory, in bits (a `bool` is a byte).
    pub fn bits(self) -> u32 {
        match self {
            Elem::Bool | Elem::I8 | Elem::U8 | Elem::E4m3 | Elem::E5m2 => 8,
            Elem::I16 | Elem::U16 | Elem::F16 | Elem::Bf16 => 16,
            Elem::I32 | Elem::U32 | Elem::F32 => 32,
            Elem::I64 | Elem::U64 | Elem::F64 => 64,
        }
    }

    /// f16, bf16, f32 or f64: the floats that arithmetic works on.
    pub fn is_float(self) -> bool {
        matches!(self, Elem::F16 | Elem::Bf16 | Elem::F32 | Elem::F64)
    }

    /// The 8-bit floats: loaded, stored and cast only.
    pub fn is_fp8(self) -> bool {
        matches!(self, Elem::E4m3 | Elem::E5m2)
    }

    /// A signed or unsigned integer; `bool` is none.
    pub fn is_int(self) -> bool {
        self.is_signed_int() || matches!(self, Elem::U8 | Elem::U16 | Elem::U32 | Elem::U64)
    }

    /// A signed integer.
    pub fn is_signed_int(self) -> bool {
        matches!(self, Elem::I8 | Elem::I16 | Elem::I32 | Elem::I64)
    }

    /// Whether the integer literal is a value of this integer type (false for other types).
    pub fn holds_int(self, value: i128) -> bool {
        if !self.is_int() {
            return false;
        }
        let bits = self.bits();
        if self.is_signed_int() {
            let half = 1i128 << (bits - 1);
            (-half..half).contains(&value)
        } else {
            (0..1i128 << bits).contains(&value)
        }
    }

    /// The largest finite value of a float type.
    pub fn max_finite(self) -> Option<f64> {
        match self {
            Elem::F16 => Some(65504.0),
            Elem::Bf16 => Some(3.389_531_389_251_535_5e38),
            Elem::F32 => Some(f64::from(f32::MAX)),
            Elem::F64 => Some(f64::MAX),
            Elem::E4m3 => Some(448.0),
            Elem::E5m2 => Some(57344.0),
            _ => None,
        }
    }

    /// Bits of the significand of a float type, the implicit one included.
    pub fn significand_bits(self) -> Option<u32> {
        match self {
            Elem::F16 => Some(11),
            Elem::Bf16 => Some(8),
            Elem::F32 => Some(24),
            Elem::F64 => Some(53),
            Elem::E4m3 => Some(4),
            Elem::E5m2 => Some(3),
            _ => None,
        }
    }
}

impl std::fmt::Display for Elem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// An element type, or a type parameter of the kernel that stands for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ElemRef {
    /// A known type.
    Concrete(Elem),
    /// The kernel's type parameter (`hir::Kernel::generics`).
    Param(GenericId),
}

impl From<Elem> for ElemRef {
    fn from(elem: Elem) -> Self {
        ElemRef::Concrete(elem)
    }
}

/// The lengths of a tile's axes; never empty. No runtime dimension occurs in them.
pub type Shape = Vec<ConstExpr>;

/// The type of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ty {
    /// One element.
    Scalar(ElemRef),
    /// A block of elements.
    Tile {
        /// The type of the elements.
        elem: ElemRef,
        /// The length of each axis; at least one.
        shape: Shape,
    },
}

impl Ty {
    /// The tile type, or the scalar where the shape has no axis.
    pub fn new(elem: impl Into<ElemRef>, shape: Shape) -> Ty {
        let elem = elem.into();
        if shape.is_empty() { Ty::Scalar(elem) } else { Ty::Tile { elem, shape } }
    }

    /// A scalar.
    pub fn scalar(elem: impl Into<ElemRef>) -> Ty {
        Ty::Scalar(elem.into())
    }

    /// The element type.
    pub fn elem(&self) -> ElemRef {
        match self {
            Ty::Scalar(elem) | Ty::Tile { elem, .. } => *elem,
        }
    }

    /// The lengths of the axes; empty for a scalar.
    pub fn shape(&self) -> &[ConstExpr] {
        match self {
            Ty::Scalar(_) => &[],
            Ty::Tile { shape, .. } => shape,
        }
    }

    /// Number of axes; 0 for a scalar.
    pub fn rank(&self) -> usize {
        self.shape().len()
    }

    /// Whether this is a scalar.
    pub fn is_scalar(&self) -> bool {
        matches!(self, Ty::Scalar(_))
    }

    /// The same shape with another element type.
    pub fn with_elem(&self, elem: impl Into<ElemRef>) -> Ty {
        Ty::new(elem, self.shape().to_vec())
    }
}
