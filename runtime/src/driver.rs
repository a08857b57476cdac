//! A thin safe layer over the driver calls that concern devices, memory, streams and events.
//!
//! Modules, launches and tensor maps make their own calls. Every call here goes through [`check`], which
//! turns the driver's status into an [`Error`]; nothing but [`init`] may run before [`init`] has succeeded,
//! and a [`Context`] is the proof that it has.
#![allow(unsafe_code)]

use crate::error::{Error, Result};
use cudarc::driver::sys::{self, CUresult};
use std::ffi::{CStr, c_char, c_int};
use std::ptr;
use std::sync::OnceLock;

const LIBRARY: &str = if cfg!(windows) { "nvcuda.dll" } else { "libcuda.so.1" };

/// Loads the driver's library and initializes it, once.
pub(crate) fn init() -> Result<()> {
    static PRESENT: OnceLock<bool> = OnceLock::new();
    // SAFETY: only opens and closes the library; its initializers are those of NVIDIA's driver.
    if !*PRESENT.get_or_init(|| unsafe { sys::is_culib_present() }) {
        return Err(Error::NoDriver { library: LIBRARY });
    }
    // SAFETY: the library is there; 0 is the only legal flag.
    match unsafe { sys::cuInit(0) } {
        CUresult::CUDA_ERROR_NO_DEVICE => Err(Error::NoDevice { ordinal: 0, count: 0 }),
        status => check("cuInit", status),
    }
}

/// The driver's name of a status, and its description.
pub(crate) fn describe(status: CUresult) -> (String, String) {
    let read = |f: unsafe fn(CUresult, *mut *const c_char) -> CUresult| {
        let mut text: *const c_char = ptr::null();
        // SAFETY: `text` outlives the call; on success the driver stores a pointer to a static string.
        unsafe {
            if f(status, &mut text) == CUresult::CUDA_SUCCESS && !text.is_null() {
                CStr::from_ptr(text).to_string_lossy().into_owned()
            } else {
                format!("status {}", status as u32)
            }
        }
    };
    (read(sys::cuGetErrorName), read(sys::cuGetErrorString))
}

/// Turns a status into a result.
#[inline]
pub(crate) fn check(call: &'static str, status: CUresult) -> Result<()> {
    if status == CUresult::CUDA_SUCCESS { Ok(()) } else { Err(failure(call, status)) }
}

#[cold]
fn failure(call: &'static str, status: CUresult) -> Error {
    use CUresult::*;
    let (name, text) = describe(status);
    match status {
        CUDA_ERROR_ILLEGAL_ADDRESS
        | CUDA_ERROR_LAUNCH_FAILED
        | CUDA_ERROR_LAUNCH_TIMEOUT
        | CUDA_ERROR_ASSERT
        | CUDA_ERROR_ILLEGAL_INSTRUCTION
        | CUDA_ERROR_MISALIGNED_ADDRESS
        | CUDA_ERROR_INVALID_ADDRESS_SPACE
        | CUDA_ERROR_INVALID_PC
        | CUDA_ERROR_HARDWARE_STACK_ERROR => Error::Fault { call, name, text },
        _ => Error::Driver { call, name, text },
    }
}

/// CUDA version that the driver supports, as (major, minor).
pub(crate) fn version() -> Result<(u32, u32)> {
    let mut v: c_int = 0;
    // SAFETY: writes one integer.
    check("cuDriverGetVersion", unsafe { sys::cuDriverGetVersion(&mut v) })?;
    Ok((v as u32 / 1000, v as u32 % 1000 / 10))
}

/// Number of devices.
pub(crate) fn device_count() -> Result<i32> {
    let mut n: c_int = 0;
    // SAFETY: writes one integer.
    check("cuDeviceGetCount", unsafe { sys::cuDeviceGetCount(&mut n) })?;
    Ok(n)
}

/// A device's primary context, retained: the one that PyTorch and the CUDA runtime use as well.
#[derive(Debug)]
pub(crate) struct Context {
    device: sys::CUdevice,
    raw: sys::CUcontext,
}

// SAFETY: a context handle may be used from any thread; the driver does its own locking.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    /// Retains the primary context of a device. The thread's current context stays as it is.
    pub(crate) fn retain(ordinal: i32) -> Result<Context> {
        let (mut device, mut raw) = (0, ptr::null_mut());
        // SAFETY: both calls write one handle; `retain` is paired with the release in `Drop`.
        unsafe {
            check("cuDeviceGet", sys::cuDeviceGet(&mut device, ordinal))?;
            check("cuDevicePrimaryCtxRetain", sys::cuDevicePrimaryCtxRetain(&mut raw, device))?;
        }
        Ok(Context { device, raw })
    }

    /// Makes the context current until the guard is dropped. Cheap if it already is.
    #[inline]
    pub(crate) fn enter(&self) -> Result<Entered> {
        let mut now = ptr::null_mut();
        // SAFETY: writes one handle.
        check("cuCtxGetCurrent", unsafe { sys::cuCtxGetCurrent(&mut now) })?;
        if now == self.raw {
            return Ok(Entered { pushed: false });
        }
        // SAFETY: `raw` is retained for as long as `self` lives.
        check("cuCtxPushCurrent", unsafe { sys::cuCtxPushCurrent_v2(self.raw) })?;
        Ok(Entered { pushed: true })
    }

    /// One attribute of the device.
    pub(crate) fn attribute(&self, which: sys::CUdevice_attribute) -> Result<i32> {
        let mut v: c_int = 0;
        // SAFETY: writes one integer; the device handle is valid.
        check("cuDeviceGetAttribute", unsafe { sys::cuDeviceGetAttribute(&mut v, which, self.device) })?;
        Ok(v)
    }

    /// The device's product name.
    pub(crate) fn name(&self) -> Result<String> {
        let mut text = [0u8; 256];
        // SAFETY: the driver writes at most the given length, a terminated string.
        let status =
            unsafe { sys::cuDeviceGetName(text.as_mut_ptr().cast(), text.len() as c_int, self.device) };
        check("cuDeviceGetName", status)?;
        Ok(CStr::from_bytes_until_nul(&text).map(|s| s.to_string_lossy().into_owned()).unwrap_or_default())
    }

    /// Waits until everything on the device has finished.
    pub(crate) fn synchronize(&self) -> Result<()> {
        let _entered = self.enter()?;
        // SAFETY: the context is current.
        check("cuCtxSynchronize", unsafe { sys::cuCtxSynchronize() })
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: paired with the retain. The status does not matter: at process exit the driver may be gone.
        let _ = unsafe { sys::cuDevicePrimaryCtxRelease_v2(self.device) };
    }
}

/// See [`Context::enter`].
pub(crate) struct Entered {
    pushed: bool,
}

impl Drop for Entered {
    fn drop(&mut self) {
        if self.pushed {
            let mut old = ptr::null_mut();
            // SAFETY: undoes the push of `enter` on this thread; guards nest.
            let _ = unsafe { sys::cuCtxPopCurrent_v2(&mut old) };
        }
    }
}

/// Allocates device memory; the context must be current.
pub(crate) fn allocate(_current: &Entered, bytes: usize) -> Result<u64> {
    let mut p: sys::CUdeviceptr = 0;
    // SAFETY: writes one pointer.
    match unsafe { sys::cuMemAlloc_v2(&mut p, bytes.max(1)) } {
        CUresult::CUDA_ERROR_OUT_OF_MEMORY => Err(Error::OutOfMemory { bytes: bytes as u64 }),
        status => check("cuMemAlloc", status).map(|()| p),
    }
}

/// Frees what [`allocate`] gave. Waits for the work that uses it.
pub(crate) fn free(_current: &Entered, pointer: u64) {
    // SAFETY: the only caller owns the allocation and does not use it afterwards.
    let _ = unsafe { sys::cuMemFree_v2(pointer) };
}

/// Copies to the device; returns when the copy is done. `pointer` must have room for it: callers check.
pub(crate) fn copy_in(_current: &Entered, pointer: u64, bytes: &[u8]) -> Result<()> {
    // SAFETY: the source is a live slice, the target a part of a live allocation.
    check("cuMemcpyHtoD", unsafe { sys::cuMemcpyHtoD_v2(pointer, bytes.as_ptr().cast(), bytes.len()) })
}

/// Copies from the device; returns when the copy is done. `pointer` must have the bytes: callers check.
pub(crate) fn copy_out(_current: &Entered, pointer: u64, bytes: &mut [u8]) -> Result<()> {
    // SAFETY: the target is a live slice, the source a part of a live allocation.
    check("cuMemcpyDtoH", unsafe { sys::cuMemcpyDtoH_v2(bytes.as_mut_ptr().cast(), pointer, bytes.len()) })
}

/// Fills device memory on a stream.
pub(crate) fn fill(
    _current: &Entered,
    pointer: u64,
    byte: u8,
    bytes: usize,
    stream: sys::CUstream,
) -> Result<()> {
    // SAFETY: the range is a part of a live allocation; freeing it waits for the stream.
    check("cuMemsetD8Async", unsafe { sys::cuMemsetD8Async(pointer, byte, bytes, stream) })
}

/// Creates a stream that does not wait for the legacy default stream.
pub(crate) fn stream_create(_current: &Entered) -> Result<sys::CUstream> {
    let mut s = ptr::null_mut();
    let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
    // SAFETY: writes one handle.
    check("cuStreamCreate", unsafe { sys::cuStreamCreate(&mut s, flags) })?;
    Ok(s)
}

/// Destroys a stream once its work is done.
pub(crate) fn stream_destroy(_current: &Entered, stream: sys::CUstream) {
    // SAFETY: the only caller owns the stream.
    let _ = unsafe { sys::cuStreamDestroy_v2(stream) };
}

/// Waits for a stream.
pub(crate) fn stream_synchronize(_current: &Entered, stream: sys::CUstream) -> Result<()> {
    // SAFETY: a live stream or null, the default one.
    check("cuStreamSynchronize", unsafe { sys::cuStreamSynchronize(stream) })
}

/// Creates an event that records time.
pub(crate) fn event_create(_current: &Entered) -> Result<sys::CUevent> {
    let mut e = ptr::null_mut();
    // SAFETY: writes one handle.
    check("cuEventCreate", unsafe { sys::cuEventCreate(&mut e, 0) })?;
    Ok(e)
}

/// Records an event on a stream.
pub(crate) fn event_record(_current: &Entered, event: sys::CUevent, stream: sys::CUstream) -> Result<()> {
    // SAFETY: live handles of this context.
    check("cuEventRecord", unsafe { sys::cuEventRecord(event, stream) })
}

/// Waits until an event has happened.
pub(crate) fn event_synchronize(_current: &Entered, event: sys::CUevent) -> Result<()> {
    // SAFETY: a live event.
    check("cuEventSynchronize", unsafe { sys::cuEventSynchronize(event) })
}

/// Milliseconds between two events that have happened.
pub(crate) fn event_elapsed(_current: &Entered, start: sys::CUevent, end: sys::CUevent) -> Result<f32> {
    let mut ms = 0f32;
    // SAFETY: writes one float; live events.
    check("cuEventElapsedTime", unsafe { sys::cuEventElapsedTime_v2(&mut ms, start, end) })?;
    Ok(ms)
}

/// Destroys an event.
pub(crate) fn event_destroy(_current: &Entered, event: sys::CUevent) {
    // SAFETY: the only caller owns the event.
    let _ = unsafe { sys::cuEventDestroy_v2(event) };
}
