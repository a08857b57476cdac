//! Types and how MLIR spells them.
//!
//! [`std::fmt::Display`] prints the MLIR syntax, [`std::str::FromStr`] reads it back; the ODS
//! definitions in `flashc-mlir` accept exactly these spellings.

use crate::layout::{Layout, SWIZZLE_ALIGN, Shared};
use serde::{Deserialize, Serialize};
use std::fmt;

/// An element type. Integers are signless, as in MLIR: operations carry the signedness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum Elem {
    I1,
    I8,
    I16,
    I32,
    I64,
    F16,
    BF16,
    F32,
    F64,
    /// 8-bit float, 4 exponent bits, no infinity.
    E4M3,
    /// 8-bit float, 5 exponent bits.
    E5M2,
}

impl Elem {
    /// Every element type, for tables and tests.
    pub const ALL: [Elem; 11] = [
        Elem::I1,
        Elem::I8,
        Elem::I16,
        Elem::I32,
        Elem::I64,
        Elem::F16,
        Elem::BF16,
        Elem::F32,
        Elem::F64,
        Elem::E4M3,
        Elem::E5M2,
    ];

    /// Bytes in memory (a bool takes one).
    pub fn bytes(self) -> i64 {
        match self {
            Elem::I1 | Elem::I8 | Elem::E4M3 | Elem::E5M2 => 1,
            Elem::I16 | Elem::F16 | Elem::BF16 => 2,
            Elem::I32 | Elem::F32 => 4,
            Elem::I64 | Elem::F64 => 8,
        }
    }

    /// Is it a floating-point type?
    pub fn is_float(self) -> bool {
        matches!(self, Elem::F16 | Elem::BF16 | Elem::F32 | Elem::F64 | Elem::E4M3 | Elem::E5M2)
    }

    /// The MLIR name.
    pub fn mlir(self) -> &'static str {
        match self {
            Elem::I1 => "i1",
            Elem::I8 => "i8",
            Elem::I16 => "i16",
            Elem::I32 => "i32",
            Elem::I64 => "i64",
            Elem::F16 => "f16",
            Elem::BF16 => "bf16",
            Elem::F32 => "f32",
            Elem::F64 => "f64",
            Elem::E4M3 => "f8E4M3FN",
            Elem::E5M2 => "f8E5M2",
        }
    }

    /// From the MLIR name.
    pub fn from_mlir(s: &str) -> Option<Elem> {
        Elem::ALL.into_iter().find(|e| e.mlir() == s)
    }
}

impl fmt::Display for Elem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.mlir())
    }
}

/// A tile: a block of values with constant lengths, held by the threads of one CTA.
///
/// `layout` is absent until `assign-layouts` has run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TileType {
    /// Lengths, outermost first; rank 1 to 5.
    pub shape: Vec<i64>,
    /// Element type.
    pub elem: Elem,
    /// Which thread holds which element in which register.
    pub layout: Option<Layout>,
}

impl TileType {
    /// A tile with no layout yet.
    pub fn new(shape: &[i64], elem: Elem) -> Self {
        TileType { shape: shape.to_vec(), elem, layout: None }
    }

    /// The same tile with another element type.
    pub fn with_elem(&self, elem: Elem) -> Self {
        TileType { elem, ..self.clone() }
    }

    /// The same tile with a layout.
    pub fn with_layout(&self, layout: Layout) -> Self {
        TileType { layout: Some(layout), ..self.clone() }
    }

    /// Number of elements.
    pub fn len(&self) -> i64 {
        self.shape.iter().product()
    }

    /// Never true: tile lengths are positive.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A tensor parameter in global memory. Lengths are symbolic names (bound at launch to the `i32`
/// arguments of the same name) or constants.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorType {
    /// The parameter's name in the program.
    pub name: String,
    /// One entry an axis: a dimension's name, or a decimal constant.
    pub dims: Vec<Dim>,
    /// Element type.
    pub elem: Elem,
}

/// The length of one tensor axis.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Dim {
    /// Bound at launch: the value of the kernel's dimension argument of this name.
    Sym(String),
    /// Fixed by the specialization.
    Const(i64),
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Dim::Sym(s) => f.write_str(s),
            Dim::Const(c) => write!(f, "{c}"),
        }
    }
}

/// A tile's place in shared memory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BufferType {
    /// Lengths, as stored: the last axis is contiguous within a slab.
    pub shape: Vec<i64>,
    /// Element type.
    pub elem: Elem,
    /// Slabs and swizzle.
    pub layout: Shared,
}

impl BufferType {
    /// Bytes that the buffer takes, padding included.
    pub fn bytes(&self) -> i64 {
        self.layout.bytes(&self.shape, self.elem)
    }

    /// Bytes of a ring of so many: slots lie a whole number of swizzle periods apart.
    pub fn ring_bytes(&self, slots: i64) -> i64 {
        (self.bytes() + SWIZZLE_ALIGN - 1) / SWIZZLE_ALIGN * SWIZZLE_ALIGN * slots
    }
}

/// The type of a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// A number or bool, the same in every thread.
    Scalar(Elem),
    /// A block of values.
    Tile(TileType),
    /// A tensor parameter.
    Tensor(TensorType),
    /// Shared memory.
    Buffer(BufferType),
    /// Several buffers of one type, used in turn.
    Ring(BufferType, i64),
    /// An mbarrier in shared memory.
    Barrier,
    /// Several mbarriers, used in turn.
    BarrierRing(i64),
    /// A wgmma result that is still being computed: only a wait makes it a tile.
    InFlight(TileType),
}

impl Type {
    /// The scalar type `i32`.
    pub const I32: Type = Type::Scalar(Elem::I32);
    /// The scalar type `i1`.
    pub const BOOL: Type = Type::Scalar(Elem::I1);

    /// A tile with no layout yet.
    pub fn tile(shape: &[i64], elem: Elem) -> Type {
        Type::Tile(TileType::new(shape, elem))
    }

    /// Element type of a scalar, tile, tensor or buffer.
    pub fn elem(&self) -> Option<Elem> {
        match self {
            Type::Scalar(e) => Some(*e),
            Type::Tile(t) | Type::InFlight(t) => Some(t.elem),
            Type::Tensor(t) => Some(t.elem),
            Type::Buffer(b) | Type::Ring(b, _) => Some(b.elem),
            Type::Barrier | Type::BarrierRing(_) => None,
        }
    }

    /// The tile type, if it is one.
    pub fn as_tile(&self) -> Option<&TileType> {
        match self {
            Type::Tile(t) => Some(t),
            _ => None,
        }
    }

    /// The tensor type, if it is one.
    pub fn as_tensor(&self) -> Option<&TensorType> {
        match self {
            Type::Tensor(t) => Some(t),
            _ => None,
        }
    }

    /// The buffer type, if it is one.
    pub fn as_buffer(&self) -> Option<&BufferType> {
        match self {
            Type::Buffer(t) => Some(t),
            _ => None,
        }
    }
}

struct Shape<'a>(&'a [i64], Elem);

impl fmt::Display for Shape<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for n in self.0 {
            write!(f, "{n}x")?;
        }
        write!(f, "{}", self.1)
    }
}

impl fmt::Display for TileType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "!tile.tile<{}", Shape(&self.shape, self.elem))?;
        if let Some(l) = &self.layout {
            write!(f, ", {l}")?;
        }
        f.write_str(">")
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Scalar(e) => write!(f, "{e}"),
            Type::Tile(t) => write!(f, "{t}"),
            Type::Tensor(t) => {
                write!(f, "!tile.tensor<\"{}\", [", t.name)?;
                for (i, d) in t.dims.iter().enumerate() {
                    write!(f, "{}\"{d}\"", if i == 0 { "" } else { ", " })?;
                }
                write!(f, "], {}>", t.elem)
            }
            Type::Buffer(b) => write!(f, "!sm90.buffer<{}, {}>", Shape(&b.shape, b.elem), b.layout),
            Type::Ring(b, n) => write!(f, "!sm90.ring<{n}, {}>", Type::Buffer(b.clone())),
            Type::Barrier => f.write_str("!sm90.barrier"),
            Type::BarrierRing(n) => write!(f, "!sm90.barrier_ring<{n}>"),
            Type::InFlight(t) => write!(f, "!sm90.inflight<{t}>"),
        }
    }
}
