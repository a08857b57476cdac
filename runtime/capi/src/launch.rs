//! Launching, and planning without launching.

use crate::error::{Failure, guard};
use crate::{give_text, handle, put, text};
use flashc_runtime::{Args, DType, Kernel, LaunchReport, Scalar, TensorArg};
use std::ffi::c_char;

/// `flashc_tensor` of the header.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CTensor {
    /// Null: by position.
    pub name: *const c_char,
    /// Device address.
    pub data: u64,
    /// Number of a [`DType`].
    pub dtype: i32,
    /// GPU number, −1 for host memory.
    pub device: i32,
    /// Number of axes.
    pub rank: u32,
    /// 0.
    pub reserved: u32,
    /// Lengths.
    pub shape: *const i64,
    /// Strides in elements.
    pub strides: *const i64,
}

/// `flashc_scalar` of the header.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CScalar {
    /// Null: by position.
    pub name: *const c_char,
    /// 0 bool (in `integer`), 1 signed (in `integer`), 2 unsigned (in `integer`), 3 float (in `real`).
    pub kind: i32,
    /// 0.
    pub reserved: u32,
    /// An integer's bits.
    pub integer: i64,
    /// A float.
    pub real: f64,
}

/// `flashc_report` of the header.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CReport {
    /// Index of the variant.
    pub variant: u32,
    /// Programs along each axis.
    pub grid: [u32; 3],
    /// 0 if there was nothing to do.
    pub launched: u32,
    /// Number of better variants that could not run.
    pub rejected: u32,
    /// Number of notes.
    pub notes: u32,
}

/// Launches a kernel.
///
/// # Safety
/// As `flashc.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flashc_launch(
    kernel: *const Kernel,
    tensors: *const CTensor,
    tensor_count: usize,
    scalars: *const CScalar,
    scalar_count: usize,
    stream: u64,
    report: *mut CReport,
) -> i32 {
    guard(|| {
        // SAFETY: the caller's promise.
        let (kernel, args) =
            unsafe { (handle(kernel, "kernel")?, arguments(tensors, tensor_count, scalars, scalar_count)?) };
        // SAFETY: the caller's promise about the stream.
        let done: LaunchReport = unsafe { kernel.launch_raw(stream, &args) }?;
        if report.is_null() {
            return Ok(());
        }
        let filled = CReport {
            variant: done.variant as u32,
            grid: done.grid,
            launched: done.launched.into(),
            rejected: done.rejected.len() as u32,
            notes: done.notes.len() as u32,
        };
        // SAFETY: the caller's promise.
        unsafe { put(report, filled) }
    })
}

/// Says what a launch would do, as JSON.
///
/// # Safety
/// As `flashc.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flashc_plan(
    kernel: *const Kernel,
    tensors: *const CTensor,
    tensor_count: usize,
    scalars: *const CScalar,
    scalar_count: usize,
    out: *mut *mut c_char,
) -> i32 {
    guard(|| {
        // SAFETY: the caller's promise.
        let (kernel, args) =
            unsafe { (handle(kernel, "kernel")?, arguments(tensors, tensor_count, scalars, scalar_count)?) };
        let plan = kernel.plan(&args)?;
        let artifact = kernel.artifact();
        let rejected =
            plan.rejected.iter().map(|r| serde_json::json!({"variant": r.variant, "reason": r.reason}));
        let json = serde_json::json!({
            "variant": artifact.variants[plan.variant].name,
            "grid": plan.grid,
            "empty": plan.empty,
            "dims": artifact.dims.iter().zip(&plan.dims).map(|(n, v)| (n.clone(), *v))
                .collect::<std::collections::BTreeMap<_, _>>(),
            "rejected": rejected.collect::<Vec<_>>(),
            "notes": plan.notes.iter().map(ToString::to_string).collect::<Vec<_>>(),
        });
        // SAFETY: the caller's promise.
        unsafe { give_text(out, json.to_string()) }
    })
}

unsafe fn slice<'a, T>(p: *const T, n: usize, what: &str) -> Result<&'a [T], Failure> {
    match (p.is_null(), n) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Failure::misuse(format!("`{what}` is null"))),
        // SAFETY: `n` values by the caller's promise.
        (false, n) => Ok(unsafe { std::slice::from_raw_parts(p, n) }),
    }
}

unsafe fn name<'a>(p: *const c_char) -> Result<Option<&'a str>, Failure> {
    // SAFETY: terminated by the caller's promise.
    if p.is_null() { Ok(None) } else { unsafe { text(p, "name") }.map(Some) }
}

unsafe fn arguments<'a>(
    tensors: *const CTensor,
    tensor_count: usize,
    scalars: *const CScalar,
    scalar_count: usize,
) -> Result<Args<'a>, Failure> {
    let mut args = Args::new();
    // SAFETY: here and below, the caller's promise about pointers and counts.
    for t in unsafe { slice(tensors, tensor_count, "tensors") }? {
        let dtype = DType::from_number(t.dtype)
            .ok_or_else(|| Failure::misuse(format!("no element type number {}", t.dtype)))?;
        let rank = t.rank as usize;
        // SAFETY: as above.
        let (shape, strides, name) =
            unsafe { (slice(t.shape, rank, "shape")?, slice(t.strides, rank, "strides")?, name(t.name)?) };
        args.push_tensor(name, TensorArg { pointer: t.data, dtype, shape, strides, device: t.device });
    }
    // SAFETY: as above.
    for s in unsafe { slice(scalars, scalar_count, "scalars") }? {
        let value = match s.kind {
            0 => Scalar::Bool(s.integer != 0),
            1 => Scalar::Int(s.integer.into()),
            2 => Scalar::Int((s.integer as u64).into()),
            3 => Scalar::Float(s.real),
            k => return Err(Failure::misuse(format!("no scalar kind {k}"))),
        };
        // SAFETY: as above.
        args.push_scalar(unsafe { name(s.name) }?, value);
    }
    Ok(args)
}
