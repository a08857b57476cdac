//! Tensor maps: what to ask of the driver (pure), asking it, and remembering the answers.
#![allow(unsafe_code)]

use crate::args::TensorArg;
use crate::driver;
use crate::dtype::DType;
use crate::error::Result;
use cudarc::driver::sys;
use flashc_ir::artifact::TensorMapSpec;
use std::collections::HashMap;
use std::fmt;
use std::mem::MaybeUninit;
use std::sync::{Mutex, PoisonError};

/// Address in the map of a tensor without elements: aligned, and never read.
const NOWHERE: u64 = 1 << 12;
/// Strides in bytes are below this.
const STRIDE_LIMIT: i64 = 1 << 40;
/// Number of maps that a kernel remembers.
const REMEMBERED: usize = 512;

/// The arguments of `cuTensorMapEncodeTiled`, innermost axis first. Unused entries are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TensorMapParams {
    /// Device address, a multiple of 16.
    pub pointer: u64,
    /// Element type.
    pub dtype: DType,
    /// Number of axes.
    pub rank: u32,
    /// Lengths.
    pub dims: [u64; 5],
    /// Strides in bytes of all axes but the innermost.
    pub strides: [u64; 4],
    /// Box lengths.
    pub box_dims: [u32; 5],
    /// Swizzle in bytes.
    pub swizzle: u32,
}

/// Why a tensor has no tensor map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapProblem {
    /// The address is not a multiple of 16.
    Address,
    /// The elements along this axis are not adjacent.
    NotContiguous {
        /// Axis of the tensor.
        axis: usize,
        /// Its stride in elements.
        stride: i64,
    },
    /// The stride of this axis is zero, not a multiple of 16 bytes or too long.
    Stride {
        /// Axis of the tensor.
        axis: usize,
        /// Its stride in elements.
        stride: i64,
        /// The stride in bytes, if it fits.
        bytes: Option<i64>,
    },
    /// The length of this axis is not a multiple of 16 bytes.
    RowEnd {
        /// Axis of the tensor.
        axis: usize,
        /// Its length in bytes.
        bytes: i64,
    },
}

impl fmt::Display for MapProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MapProblem::RowEnd { axis, bytes } => {
                write!(f, "its axis {axis} is {bytes} bytes long, not a multiple of 16")
            }
            MapProblem::Address => write!(f, "its address is not a multiple of 16"),
            MapProblem::NotContiguous { axis, stride } => {
                write!(f, "its axis {axis} has stride {stride}, not 1")
            }
            MapProblem::Stride { axis, stride, bytes: Some(bytes) } => {
                write!(f, "the stride of its axis {axis} is {stride} elements or {bytes} bytes, ")?;
                match *bytes {
                    b if b >= STRIDE_LIMIT => write!(f, "2^40 or more"),
                    _ => write!(f, "not a positive multiple of 16"),
                }
            }
            MapProblem::Stride { axis, stride, bytes: None } => {
                write!(f, "the stride {stride} of its axis {axis} is too long")
            }
        }
    }
}

/// The checks of `Aligned16`: address, the contiguous axis, and every other stride that matters.
pub(crate) fn aligned16(t: &TensorArg, contiguous: usize) -> std::result::Result<(), MapProblem> {
    if t.shape.contains(&0) {
        return Ok(());
    }
    if !t.pointer.is_multiple_of(16) {
        return Err(MapProblem::Address);
    }
    for axis in 0..t.shape.len() {
        let (len, stride) = (t.shape[axis], t.strides[axis]);
        if len <= 1 {
            continue;
        }
        if axis != contiguous {
            byte_stride(t, axis)?;
        } else if stride != 1 {
            return Err(MapProblem::NotContiguous { axis, stride });
        }
    }
    Ok(())
}

/// The check of `Whole16`.
pub(crate) fn whole16(t: &TensorArg, axis: usize) -> std::result::Result<(), MapProblem> {
    let bytes = t.shape[axis] * t.dtype.bytes();
    if bytes % 16 == 0 || t.shape.contains(&0) { Ok(()) } else { Err(MapProblem::RowEnd { axis, bytes }) }
}

fn byte_stride(t: &TensorArg, axis: usize) -> std::result::Result<u64, MapProblem> {
    let stride = t.strides[axis];
    let bytes = stride.checked_mul(t.dtype.bytes());
    match bytes {
        Some(b) if b > 0 && b % 16 == 0 && b < STRIDE_LIMIT => Ok(b as u64),
        _ => Err(MapProblem::Stride { axis, stride, bytes }),
    }
}

impl TensorMapParams {
    /// The map of a tensor. An axis of length 1 may have any stride, so it gets a legal one. A tensor
    /// without elements is never read, so it gets a legal map of one element.
    pub fn new(spec: &TensorMapSpec, t: &TensorArg) -> std::result::Result<TensorMapParams, MapProblem> {
        let empty = t.shape.contains(&0);
        let mut map = TensorMapParams {
            pointer: if empty { NOWHERE } else { t.pointer },
            dtype: t.dtype,
            rank: spec.axes.len() as u32,
            dims: [0; 5],
            strides: [0; 4],
            box_dims: [0; 5],
            swizzle: spec.swizzle,
        };
        if !map.pointer.is_multiple_of(16) {
            return Err(MapProblem::Address);
        }
        // Bytes that the axes so far span: what the stride of an axis of length 1 is set to.
        let mut span = t.dtype.bytes() as u64;
        for (i, (&axis, &length)) in spec.axes.iter().zip(&spec.box_dims).enumerate() {
            let len = if empty { 1 } else { t.shape[axis] as u64 };
            map.dims[i] = len;
            map.box_dims[i] = length;
            let stride = if i == 0 {
                if len > 1 && t.strides[axis] != 1 {
                    return Err(MapProblem::NotContiguous { axis, stride: t.strides[axis] });
                }
                t.dtype.bytes() as u64
            } else if len > 1 {
                byte_stride(t, axis)?
            } else {
                span.next_multiple_of(16).min(STRIDE_LIMIT as u64 - 16)
            };
            if i > 0 {
                map.strides[i - 1] = stride;
            }
            span = span.max(stride.saturating_mul(len));
        }
        Ok(map)
    }

    /// Asks the driver for the map.
    fn encode(&self) -> Result<sys::CUtensorMap> {
        use sys::CUtensorMapDataType_enum as Type;
        let dtype = match self.dtype {
            DType::Bool | DType::I8 | DType::U8 | DType::E4M3 | DType::E5M2 => {
                Type::CU_TENSOR_MAP_DATA_TYPE_UINT8
            }
            DType::I16 | DType::U16 => Type::CU_TENSOR_MAP_DATA_TYPE_UINT16,
            DType::I32 => Type::CU_TENSOR_MAP_DATA_TYPE_INT32,
            DType::U32 => Type::CU_TENSOR_MAP_DATA_TYPE_UINT32,
            DType::I64 => Type::CU_TENSOR_MAP_DATA_TYPE_INT64,
            DType::U64 => Type::CU_TENSOR_MAP_DATA_TYPE_UINT64,
            DType::F16 => Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
            DType::BF16 => Type::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
            DType::F32 => Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
            DType::F64 => Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT64,
        };
        use sys::CUtensorMapSwizzle_enum as Swizzle;
        let swizzle = match self.swizzle {
            32 => Swizzle::CU_TENSOR_MAP_SWIZZLE_32B,
            64 => Swizzle::CU_TENSOR_MAP_SWIZZLE_64B,
            128 => Swizzle::CU_TENSOR_MAP_SWIZZLE_128B,
            _ => Swizzle::CU_TENSOR_MAP_SWIZZLE_NONE,
        };
        let steps = [1u32; 5];
        let mut map = MaybeUninit::<sys::CUtensorMap>::zeroed();
        // SAFETY: the arrays have `rank` (strides: `rank - 1`) entries or more and outlive the call, which
        // only reads them and writes the map; the address is only stored. All-zero is a valid map value.
        unsafe {
            let status = sys::cuTensorMapEncodeTiled(
                map.as_mut_ptr(),
                dtype,
                self.rank,
                self.pointer as usize as *mut _,
                self.dims.as_ptr(),
                self.strides.as_ptr(),
                self.box_dims.as_ptr(),
                steps.as_ptr(),
                sys::CUtensorMapInterleave_enum::CU_TENSOR_MAP_INTERLEAVE_NONE,
                swizzle,
                sys::CUtensorMapL2promotion_enum::CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                sys::CUtensorMapFloatOOBfill_enum::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
            );
            driver::check("cuTensorMapEncodeTiled", status)?;
            Ok(map.assume_init())
        }
    }
}

/// Maps that were encoded before. A map depends on nothing but its parameters, so an entry is never stale.
#[derive(Debug, Default)]
pub(crate) struct MapCache(Mutex<HashMap<TensorMapParams, sys::CUtensorMap>>);

impl MapCache {
    /// The map for these parameters. When full, forgets everything: encoding again takes a microsecond.
    pub(crate) fn get(&self, params: &TensorMapParams) -> Result<sys::CUtensorMap> {
        let mut maps = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(map) = maps.get(params) {
            return Ok(*map);
        }
        let map = params.encode()?;
        if maps.len() >= REMEMBERED {
            maps.clear();
        }
        maps.insert(*params, map);
        Ok(map)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arg<'a>(shape: &'a [i64], strides: &'a [i64]) -> TensorArg<'a> {
        TensorArg { pointer: 0x7000_0000, dtype: DType::BF16, shape, strides, device: 0 }
    }

    /// Axes of [B, H, S, D], innermost first.
    fn spec() -> TensorMapSpec {
        TensorMapSpec { tensor: 0, axes: vec![3, 2, 1, 0], box_dims: vec![64, 128, 1, 1], swizzle: 128 }
    }

    #[test]
    fn a_bshd_tensor_seen_as_bhsd() {
        // Stored (B, S, H, D) = (2, 1000, 16, 128).
        let map =
            TensorMapParams::new(&spec(), &arg(&[2, 16, 1000, 128], &[1000 * 16 * 128, 128, 16 * 128, 1]));
        let map = map.unwrap();
        assert_eq!(map.rank, 4);
        assert_eq!(map.dims, [128, 1000, 16, 2, 0]);
        assert_eq!(map.strides, [16 * 128 * 2, 128 * 2, 1000 * 16 * 128 * 2, 0][..4]);
        assert_eq!(map.box_dims, [64, 128, 1, 1, 0]);
        assert_eq!(map.swizzle, 128);
        assert_eq!(map.pointer, 0x7000_0000);
    }

    #[test]
    fn axes_of_length_one_get_a_legal_stride() {
        // One head and one batch, with strides that mean nothing.
        let map = TensorMapParams::new(&spec(), &arg(&[1, 1, 1000, 128], &[7, 3, 128, 1])).unwrap();
        assert_eq!(map.dims, [128, 1000, 1, 1, 0]);
        assert_eq!(map.strides, [256, 256_000, 256_000, 0]);
        // One row: the row's own bytes, rounded up to 16.
        let one = TensorMapSpec { axes: vec![1, 0], box_dims: vec![8, 1], swizzle: 0, tensor: 0 };
        let map = TensorMapParams::new(&one, &arg(&[1, 13], &[1, 1])).unwrap();
        assert_eq!((map.dims[..2].to_vec(), map.strides[0]), (vec![13, 1], 32));
        // A column: the innermost axis has length 1, so its stride does not matter.
        let map = TensorMapParams::new(&one, &arg(&[9, 1], &[8, 5])).unwrap();
        assert_eq!((map.dims[..2].to_vec(), map.strides[0]), (vec![1, 9], 16));
    }

    #[test]
    fn empty_tensors_get_a_map_that_is_never_read() {
        let mut t = arg(&[2, 16, 0, 128], &[0, 3, 0, 9]);
        t.pointer = 0;
        let map = TensorMapParams::new(&spec(), &t).unwrap();
        assert_eq!(map.pointer, NOWHERE);
        assert_eq!(map.dims, [1, 1, 1, 1, 0]);
        assert!(map.strides[..3].iter().all(|s| *s > 0 && s % 16 == 0));
        assert_eq!(aligned16(&t, 3), Ok(()));
    }

    #[test]
    fn what_tma_cannot_take() {
        let problem = |shape: &[i64], strides: &[i64], offset: u64| {
            let mut t = arg(shape, strides);
            t.pointer += offset;
            let map = TensorMapParams::new(&spec(), &t).unwrap_err();
            assert_eq!(aligned16(&t, 3), Err(map), "both checks agree");
            map.to_string()
        };
        let shape = [2, 16, 1000, 128];
        let all = [
            problem(&shape, &[2_048_000, 128_000, 128, 1], 2),
            problem(&shape, &[2_048_000, 128_000, 256, 2], 0),
            problem(&shape, &[2_048_000, 128_000, 132, 1], 0),
            problem(&shape, &[0, 128_000, 128, 1], 0),
            problem(&shape, &[1 << 39, 128_000, 128, 1], 0),
            problem(&shape, &[i64::MAX, 128_000, 128, 1], 0),
        ];
        insta::assert_snapshot!(all.join("\n"), @r"
        its address is not a multiple of 16
        its axis 3 has stride 2, not 1
        the stride of its axis 2 is 132 elements or 264 bytes, not a positive multiple of 16
        the stride of its axis 0 is 0 elements or 0 bytes, not a positive multiple of 16
        the stride of its axis 0 is 549755813888 elements or 1099511627776 bytes, 2^40 or more
        the stride 9223372036854775807 of its axis 0 is too long
        ");
    }
}
