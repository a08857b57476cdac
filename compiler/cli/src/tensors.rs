//! Tensors in files, `.npy` and `.safetensors`, and between files, the interpreter and the GPU.

use flashc_ir::interp::{HostData, HostTensor};
use flashc_ir::types::Elem;
use flashc_runtime::DType;
use safetensors::tensor::{Dtype, TensorView};
use std::path::Path;

/// A tensor without gaps, last axis contiguous, in little-endian bytes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FileTensor {
    /// Element type.
    pub dtype: Stored,
    /// Length of each axis.
    pub shape: Vec<i64>,
    /// Its elements.
    pub bytes: Vec<u8>,
}

/// What a file says of the element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stored {
    /// A type of the language.
    Known(DType),
    /// Opaque elements of so many bytes: how NumPy stores bf16 and the 8-bit floats.
    Opaque(usize),
}

impl std::fmt::Display for Stored {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Stored::Known(d) => write!(f, "{d}"),
            Stored::Opaque(n) => write!(f, "{n} opaque bytes"),
        }
    }
}

impl FileTensor {
    /// As a tensor of this element type, which must be the file's; the error says what the file has.
    pub(crate) fn to_host(&self, wants: DType) -> Result<HostTensor, String> {
        let fits = match self.dtype {
            Stored::Known(d) => d == wants,
            Stored::Opaque(n) => {
                n as i64 == wants.bytes() && matches!(wants, DType::BF16 | DType::E4M3 | DType::E5M2)
            }
        };
        if !fits {
            return Err(format!("has elements of {}, not {wants}", self.dtype));
        }
        Ok(host(wants.elem(), &self.shape, &self.bytes))
    }

    /// The elements of a tensor.
    pub(crate) fn from_host(dtype: DType, t: &HostTensor) -> FileTensor {
        let bytes = pack(&t.to_bits(), t.elem);
        FileTensor { dtype: Stored::Known(dtype), shape: t.shape.clone(), bytes }
    }
}

/// The storage of a tensor, gaps included, as a GPU sees it.
pub(crate) fn storage_bytes(t: &HostTensor) -> Vec<u8> {
    let flat = match &t.data {
        HostData::Float(v) => HostTensor::unrounded(t.elem, &[v.len() as i64], v),
        HostData::Int(v) => HostTensor::from_i64(t.elem, &[v.len() as i64], v),
    };
    pack(&flat.to_bits(), t.elem)
}

/// The same view of another storage.
pub(crate) fn with_storage(t: &HostTensor, bytes: &[u8]) -> HostTensor {
    let mut new = host(t.elem, &[bytes.len() as i64 / t.elem.bytes()], bytes);
    new.shape = t.shape.clone();
    new.strides = t.strides.clone();
    new.offset = t.offset;
    new
}

fn pack(bits: &[u64], elem: Elem) -> Vec<u8> {
    let n = elem.bytes() as usize;
    bits.iter().flat_map(|b| b.to_le_bytes().into_iter().take(n)).collect()
}

fn host(elem: Elem, shape: &[i64], bytes: &[u8]) -> HostTensor {
    let n = elem.bytes() as usize;
    let bits = bytes.chunks_exact(n).map(|c| c.iter().rev().fold(0u64, |x, b| x << 8 | *b as u64));
    if elem.is_float() {
        return HostTensor::from_f64(elem, shape, &bits.map(|b| float(elem, b)).collect::<Vec<_>>());
    }
    HostTensor::from_i64(elem, shape, &bits.map(|b| b as i64).collect::<Vec<_>>())
}

fn float(elem: Elem, bits: u64) -> f64 {
    match elem {
        Elem::F16 => half::f16::from_bits(bits as u16).to_f64(),
        Elem::BF16 => half::bf16::from_bits(bits as u16).to_f64(),
        Elem::F32 => f32::from_bits(bits as u32) as f64,
        Elem::E5M2 => half::f16::from_bits((bits as u16) << 8).to_f64(),
        Elem::E4M3 => {
            let (sign, exponent, mantissa) = (bits >> 7 & 1, (bits >> 3 & 15) as i32, (bits & 7) as f64);
            let size = match (exponent, bits & 7) {
                (15, 7) => f64::NAN,
                (0, _) => mantissa / 8.0 * 2f64.powi(-6),
                _ => (1.0 + mantissa / 8.0) * 2f64.powi(exponent - 7),
            };
            if sign == 1 { -size } else { size }
        }
        _ => f64::from_bits(bits),
    }
}

/// Reads a file: every tensor of a `.safetensors`, or the one of a `.npy` under the file's own name.
pub(crate) fn read(path: &Path) -> Result<Vec<(String, FileTensor)>, String> {
    let bytes = std::fs::read(path).map_err(|e| format!("cannot read {}: {e}", path.display()))?;
    let named = |problem: String| format!("{}: {problem}", path.display());
    match extension(path) {
        "npy" => {
            let name = path.file_stem().and_then(|s| s.to_str()).unwrap_or_default().to_owned();
            Ok(vec![(name, read_npy(&bytes).map_err(named)?)])
        }
        "safetensors" => read_safetensors(&bytes).map_err(named),
        _ => Err(named("neither .npy nor .safetensors".into())),
    }
}

/// Writes a file; a `.npy` takes one tensor.
pub(crate) fn write(path: &Path, tensors: &[(String, FileTensor)]) -> Result<(), String> {
    let named = |problem: String| format!("{}: {problem}", path.display());
    let bytes = match (extension(path), tensors) {
        ("npy", [(_, one)]) => write_npy(one),
        ("npy", _) => {
            return Err(named(format!("a .npy holds one tensor, not {}: use .safetensors", tensors.len())));
        }
        ("safetensors", _) => write_safetensors(tensors).map_err(named)?,
        _ => return Err(named("the name must end in .safetensors or .npy".into())),
    };
    std::fs::write(path, bytes).map_err(|e| format!("cannot write {}: {e}", path.display()))
}

fn extension(path: &Path) -> &str {
    path.extension().and_then(|e| e.to_str()).unwrap_or_default()
}

const SAFETENSORS: &[(Dtype, DType)] = &[
    (Dtype::BOOL, DType::Bool),
    (Dtype::I8, DType::I8),
    (Dtype::I16, DType::I16),
    (Dtype::I32, DType::I32),
    (Dtype::I64, DType::I64),
    (Dtype::U8, DType::U8),
    (Dtype::U16, DType::U16),
    (Dtype::U32, DType::U32),
    (Dtype::U64, DType::U64),
    (Dtype::F16, DType::F16),
    (Dtype::BF16, DType::BF16),
    (Dtype::F32, DType::F32),
    (Dtype::F64, DType::F64),
    (Dtype::F8_E4M3, DType::E4M3),
    (Dtype::F8_E5M2, DType::E5M2),
];

fn read_safetensors(bytes: &[u8]) -> Result<Vec<(String, FileTensor)>, String> {
    let file =
        safetensors::SafeTensors::deserialize(bytes).map_err(|e| format!("not a safetensors file: {e}"))?;
    let one = |(name, view): (&str, TensorView<'_>)| {
        let dtype = SAFETENSORS.iter().find(|(s, _)| *s == view.dtype());
        let dtype = dtype
            .ok_or_else(|| format!("{name} has elements of {:?}, which no kernel takes", view.dtype()))?;
        let shape = view.shape().iter().map(|n| *n as i64).collect();
        Ok((
            name.to_owned(),
            FileTensor { dtype: Stored::Known(dtype.1), shape, bytes: view.data().to_vec() },
        ))
    };
    file.iter().map(one).collect()
}

fn write_safetensors(tensors: &[(String, FileTensor)]) -> Result<Vec<u8>, String> {
    let view = |(name, t): &'_ (String, FileTensor)| {
        let Stored::Known(dtype) = t.dtype else { return Err(format!("{name} has no element type")) };
        let dtype = SAFETENSORS.iter().find(|(_, d)| *d == dtype).map(|(s, _)| *s);
        let dtype = dtype.ok_or_else(|| format!("{name} cannot be stored"))?;
        Ok((dtype, t.shape.iter().map(|n| *n as usize).collect::<Vec<_>>()))
    };
    let mut views = vec![];
    for tensor in tensors {
        let (dtype, shape) = view(tensor)?;
        let view = TensorView::new(dtype, shape, &tensor.1.bytes).map_err(|e| e.to_string())?;
        views.push((tensor.0.as_str(), view));
    }
    safetensors::serialize(views, None).map_err(|e| e.to_string())
}

const NPY: &[(&str, DType)] = &[
    ("|b1", DType::Bool),
    ("|i1", DType::I8),
    ("<i2", DType::I16),
    ("<i4", DType::I32),
    ("<i8", DType::I64),
    ("|u1", DType::U8),
    ("<u2", DType::U16),
    ("<u4", DType::U32),
    ("<u8", DType::U64),
    ("<f2", DType::F16),
    ("<f4", DType::F32),
    ("<f8", DType::F64),
];

fn read_npy(bytes: &[u8]) -> Result<FileTensor, String> {
    let short = || "the file ends in its header".to_owned();
    let rest = bytes.strip_prefix(b"\x93NUMPY").ok_or("not a .npy file")?;
    let (version, rest) = rest.split_at_checked(2).ok_or_else(short)?;
    let (length, rest) = match version[0] {
        1 => rest.split_at_checked(2).map(|(n, r)| (u16::from_le_bytes([n[0], n[1]]) as usize, r)),
        _ => {
            rest.split_at_checked(4).map(|(n, r)| (u32::from_le_bytes([n[0], n[1], n[2], n[3]]) as usize, r))
        }
    }
    .ok_or_else(short)?;
    let (header, body) = rest.split_at_checked(length).ok_or_else(short)?;
    let header = String::from_utf8_lossy(header);
    let value = |key: &str| {
        let at = header.find(&format!("'{key}':"))? + key.len() + 3;
        Some(header[at..].trim_start())
    };
    let descr = value("descr")
        .and_then(|v| v.strip_prefix('\'')?.split('\'').next())
        .ok_or("no `descr` in the header")?;
    let dtype = match NPY.iter().find(|(d, _)| *d == descr) {
        Some((_, d)) => Stored::Known(*d),
        None => match descr.trim_start_matches(['<', '|']).strip_prefix('V').and_then(|n| n.parse().ok()) {
            Some(n @ (1 | 2)) => Stored::Opaque(n),
            _ => return Err(format!("elements of `{descr}`, which no kernel takes")),
        },
    };
    if !value("fortran_order").is_some_and(|v| v.starts_with("False")) {
        return Err(
            "its memory order is Fortran's: save a C-contiguous copy (numpy.ascontiguousarray)".into()
        );
    }
    let shape = value("shape")
        .and_then(|v| v.strip_prefix('(')?.split(')').next())
        .ok_or("no `shape` in the header")?;
    let shape: Result<Vec<i64>, _> =
        shape.split(',').map(str::trim).filter(|s| !s.is_empty()).map(str::parse).collect();
    let shape = shape.map_err(|e| format!("its shape cannot be read: {e}"))?;
    let size = match dtype {
        Stored::Known(d) => d.bytes(),
        Stored::Opaque(n) => n as i64,
    };
    let wants = shape.iter().try_fold(size, |n, d| n.checked_mul(*d)).filter(|n| *n >= 0);
    if wants != Some(body.len() as i64) {
        return Err(format!("{} bytes of elements do not fill a shape of {shape:?}", body.len()));
    }
    Ok(FileTensor { dtype, shape, bytes: body.to_vec() })
}

fn write_npy(t: &FileTensor) -> Vec<u8> {
    let descr = match t.dtype {
        Stored::Known(d) => match NPY.iter().find(|(_, n)| *n == d) {
            Some((s, _)) => (*s).to_owned(),
            None => format!("|V{}", d.bytes()),
        },
        Stored::Opaque(n) => format!("|V{n}"),
    };
    let lengths: String = t.shape.iter().map(|n| format!("{n}, ")).collect();
    let shape = if t.shape.len() == 1 { lengths.trim_end() } else { lengths.trim_end_matches(", ") };
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}), }}");
    // Magic, version, length, header and newline together fill a multiple of 64 bytes.
    let unpadded = 10 + header.len() + 1;
    header += &" ".repeat(unpadded.next_multiple_of(64) - unpadded);
    header.push('\n');
    let mut out = b"\x93NUMPY\x01\x00".to_vec();
    out.extend((header.len() as u16).to_le_bytes());
    out.extend(header.as_bytes());
    out.extend(&t.bytes);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(dtype: DType) -> FileTensor {
        let values: Vec<f64> =
            (0..6).map(|i| if dtype == DType::Bool { (i % 2) as f64 } else { i as f64 }).collect();
        FileTensor::from_host(dtype, &HostTensor::from_f64(dtype.elem(), &[2, 3], &values))
    }

    #[test]
    fn every_type_survives_both_formats() {
        for dtype in DType::ALL {
            let t = sample(dtype);
            let host = t.to_host(dtype).expect("its own type");
            assert_eq!(host.to_vec().len(), 6);
            assert_eq!(FileTensor::from_host(dtype, &host), t, "{dtype}");
            let st = write_safetensors(&[("x".into(), t.clone())]).expect("known types");
            assert_eq!(read_safetensors(&st), Ok(vec![("x".into(), t.clone())]), "{dtype}");
            let npy = read_npy(&write_npy(&t)).expect("a header of our own");
            assert_eq!((npy.shape.as_slice(), npy.bytes.as_slice()), (&[2, 3][..], t.bytes.as_slice()));
            assert_eq!(npy.to_host(dtype), Ok(host), "{dtype}");
        }
    }

    #[test]
    fn a_wrong_type_is_named() {
        let e = sample(DType::F32).to_host(DType::BF16).unwrap_err();
        assert_eq!(e, "has elements of f32, not bf16");
    }

    #[test]
    fn broken_npy_files_are_refused() {
        let good = write_npy(&sample(DType::F32));
        for cut in [0, 5, 7, 9, 60, good.len() - 1] {
            assert!(read_npy(&good[..cut]).is_err(), "cut to {cut}");
        }
        let text = |from: &str, to: &str| {
            let s: Vec<u8> = good.clone();
            let at = s.windows(from.len()).position(|w| w == from.as_bytes()).expect("in the header");
            [&s[..at], to.as_bytes(), &s[at + from.len()..]].concat()
        };
        insta::assert_snapshot!(
            [
                read_npy(&text("<f4", "<c8")).unwrap_err(),
                read_npy(&text("(2, 3)", "(9, 3)")).unwrap_err(),
                read_npy(&text("(2, 3)", "(2, x)")).unwrap_err(),
                read_npy(&text("False", "True ")).unwrap_err(),
            ]
            .join("\n"),
            @r"
        elements of `<c8`, which no kernel takes
        24 bytes of elements do not fill a shape of [9, 3]
        its shape cannot be read: invalid digit found in string
        its memory order is Fortran's: save a C-contiguous copy (numpy.ascontiguousarray)
        "
        );
    }

    #[test]
    fn eight_bit_floats() {
        assert_eq!(float(Elem::E4M3, 0x7e), 448.0);
        assert_eq!(float(Elem::E4M3, 0x81), -(2f64.powi(-9)));
        assert!(float(Elem::E4M3, 0xff).is_nan());
        assert_eq!(float(Elem::E5M2, 0x7b), 57344.0);
    }

    #[test]
    fn storage_keeps_gaps_and_strides() {
        let t = HostTensor::from_f64(Elem::F16, &[2, 2], &[1.0, 2.0, 3.0, 4.0]).with_strides(&[1, 3], 1);
        let bytes = storage_bytes(&t);
        assert_eq!(bytes.len(), 12);
        assert_eq!(with_storage(&t, &bytes).to_vec(), t.to_vec());
    }
}
