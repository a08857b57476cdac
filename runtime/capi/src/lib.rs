//! The C interface of flashc; `runtime/include/flashc.h` describes it for callers.
//!
//! Rules of this file and its modules: nothing panics across the boundary (`error::guard`); every function
//! that can fail returns 0 or the number of its error code and keeps the message for
//! `flashc_error_message`; handles are boxes that the caller frees; pointers are checked for null.
#![allow(unsafe_code)]

pub mod compile;
pub mod error;
pub mod launch;

use error::{Failure, guard};
use flashc_ir::artifact::Artifact;
use flashc_runtime::{Assembler, Cache, Device, Kernel, LoadOptions, Resources, ptxas};
use serde::Deserialize;
use std::ffi::{CStr, CString, c_char};
use std::path::PathBuf;

/// Version of the binary interface: changes whenever a struct or a function does.
pub const ABI: u32 = 1;

/// See [`ABI`].
#[unsafe(no_mangle)]
pub extern "C" fn flashc_abi_version() -> u32 {
    ABI
}

/// How to load, as JSON.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct LoadRequest {
    /// A directory; `""` turns the cache off; absent: the user's.
    cache: Option<String>,
    /// A path; `""` looks for it; absent: the driver compiles.
    ptxas: Option<String>,
    preload_all: bool,
}

/// Reads an artifact from its JSON form.
///
/// # Safety
/// As `flashc.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flashc_artifact_read(json: *const c_char, out: *mut *mut Artifact) -> i32 {
    guard(|| {
        // SAFETY: the caller's promise.
        let json = unsafe { text(json, "json") }?;
        let artifact = Artifact::from_json(json).map_err(|text| flashc_runtime::Error::Format { text })?;
        // SAFETY: the caller's promise.
        unsafe { give(out, artifact) }
    })
}

/// The JSON form of an artifact.
///
/// # Safety
/// As `flashc.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flashc_artifact_json(artifact: *const Artifact, out: *mut *mut c_char) -> i32 {
    guard(|| {
        // SAFETY: the caller's promise.
        unsafe {
            let artifact = handle(artifact, "artifact")?;
            give_text(out, artifact.to_json())
        }
    })
}

/// Loads an artifact on a GPU.
///
/// # Safety
/// As `flashc.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flashc_load(
    artifact: *const Artifact,
    device: i32,
    options: *const c_char,
    out: *mut *mut Kernel,
) -> i32 {
    guard(|| {
        // SAFETY: the caller's promise.
        let (artifact, request) = unsafe { (handle(artifact, "artifact")?, json::<LoadRequest>(options)?) };
        let options = LoadOptions {
            cache: match request.cache {
                None => Cache::User,
                Some(d) if d.is_empty() => Cache::Off,
                Some(d) => Cache::Directory(PathBuf::from(d)),
            },
            assembler: match request.ptxas {
                None => Assembler::Driver,
                Some(p) if p.is_empty() => Assembler::Ptxas(ptxas::find(None)?),
                Some(p) => Assembler::Ptxas(ptxas::find(Some(p.as_ref()))?),
            },
            preload_all: request.preload_all,
            ..LoadOptions::default()
        };
        let kernel = Kernel::load(&Device::open(device)?, artifact, &options)?;
        // SAFETY: the caller's promise.
        unsafe { give(out, kernel) }
    })
}

/// `flashc_resources` of the header.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CResources {
    registers: u32,
    local_bytes: u32,
    static_shared: u32,
    dynamic_shared: u32,
    max_threads: u32,
}

/// The resources of a variant.
///
/// # Safety
/// As `flashc.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flashc_kernel_resources(
    kernel: *const Kernel,
    variant: u32,
    out: *mut CResources,
) -> i32 {
    guard(|| {
        // SAFETY: the caller's promise.
        let kernel = unsafe { handle(kernel, "kernel") }?;
        if variant as usize >= kernel.artifact().variants.len() {
            return Err(Failure::misuse(format!("no variant {variant}")));
        }
        let Resources { registers, local_bytes, static_shared, dynamic_shared, max_threads } =
            kernel.resources(variant as usize)?;
        let r = CResources { registers, local_bytes, static_shared, dynamic_shared, max_threads };
        // SAFETY: the caller's promise.
        unsafe { put(out, r) }
    })
}

/// Frees an artifact; null is ignored.
///
/// # Safety
/// As `flashc.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flashc_artifact_free(artifact: *mut Artifact) {
    // SAFETY: the caller's promise.
    unsafe { take(artifact) }
}

/// Frees a kernel, after the GPU has finished its work; null is ignored.
///
/// # Safety
/// As `flashc.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flashc_kernel_free(kernel: *mut Kernel) {
    // SAFETY: the caller's promise.
    unsafe { take(kernel) }
}

/// Frees a text that a function gave; null is ignored.
///
/// # Safety
/// As `flashc.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flashc_string_free(text: *mut c_char) {
    if !text.is_null() {
        // SAFETY: made by `give_text`, freed once.
        drop(unsafe { CString::from_raw(text) });
    }
}

/// A handle's object.
unsafe fn handle<'a, T>(p: *const T, what: &str) -> Result<&'a T, Failure> {
    // SAFETY: a live handle by the caller's promise, or null.
    unsafe { p.as_ref() }.ok_or_else(|| Failure::misuse(format!("`{what}` is null")))
}

/// A terminated string.
unsafe fn text<'a>(p: *const c_char, what: &str) -> Result<&'a str, Failure> {
    if p.is_null() {
        return Err(Failure::misuse(format!("`{what}` is null")));
    }
    // SAFETY: terminated by the caller's promise.
    unsafe { CStr::from_ptr(p) }.to_str().map_err(|_| Failure::misuse(format!("`{what}` is not UTF-8")))
}

/// Options as JSON; null means the defaults.
unsafe fn json<T: Default + for<'a> Deserialize<'a>>(p: *const c_char) -> Result<T, Failure> {
    if p.is_null() {
        return Ok(T::default());
    }
    // SAFETY: not null, terminated by the caller's promise.
    let text = unsafe { text(p, "options") }?;
    serde_json::from_str(text).map_err(|e| Failure::misuse(format!("the options are wrong: {e}")))
}

unsafe fn put<T>(out: *mut T, value: T) -> Result<(), Failure> {
    if out.is_null() {
        return Err(Failure::misuse("the result pointer is null".into()));
    }
    // SAFETY: room for one value by the caller's promise; what was there is not read.
    unsafe { out.write(value) };
    Ok(())
}

unsafe fn give<T>(out: *mut *mut T, value: T) -> Result<(), Failure> {
    // SAFETY: as `put`. The box is leaked only once it is stored.
    unsafe {
        put(out, std::ptr::null_mut())?;
        put(out, Box::into_raw(Box::new(value)))
    }
}

unsafe fn give_text(out: *mut *mut c_char, value: String) -> Result<(), Failure> {
    let text = CString::new(value).map_err(|_| Failure::misuse("a zero byte in a result".into()))?;
    // SAFETY: as `put`.
    unsafe {
        put(out, std::ptr::null_mut())?;
        put(out, text.into_raw())
    }
}

unsafe fn take<T>(p: *mut T) {
    if !p.is_null() {
        // A panic while dropping must not cross the boundary either.
        let _ = guard(|| {
            // SAFETY: made by `give`, freed once.
            drop(unsafe { Box::from_raw(p) });
            Ok(())
        });
    }
}

#[cfg(test)]
mod tests;
