//! From source to artifact: the one place where the compiler is plugged in.

use crate::error::{Failure, guard};
use flashc_ir::artifact::Artifact;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ffi::c_char;

/// What to compile, as JSON.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct CompileRequest {
    /// Which kernel of the file.
    kernel: Option<String>,
    /// Values of generics.
    set: BTreeMap<String, String>,
    /// Target name; absent: the compiler's default.
    target: Option<String>,
}

/// Compiles a program.
///
/// # Safety
/// As `flashc.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flashc_compile(
    name: *const c_char,
    source: *const u8,
    length: usize,
    options: *const c_char,
    out: *mut *mut Artifact,
) -> i32 {
    guard(|| {
        if source.is_null() {
            return Err(Failure::misuse("`source` is null".into()));
        }
        // SAFETY: `length` bytes by the caller's promise.
        let source = unsafe { std::slice::from_raw_parts(source, length) };
        // SAFETY: the caller's promise.
        let (name, request) = unsafe { (crate::text(name, "name")?, crate::json(options)?) };
        let artifact = compile(name, source, request)?;
        // SAFETY: the caller's promise.
        unsafe { crate::give(out, artifact) }
    })
}

#[cfg(feature = "compiler")]
fn compile(name: &str, source: &[u8], request: CompileRequest) -> Result<Artifact, Failure> {
    use flashc_compiler::{CompileOptions, Failure as Problem, Quiet};
    let mut options = CompileOptions {
        kernel: request.kernel,
        set: request.set.into_iter().collect(),
        ..CompileOptions::default()
    };
    if let Some(target) = request.target {
        options.target = target;
    }
    match flashc_compiler::compile(name, source, &options, &mut Quiet) {
        Ok(compiled) => Ok(compiled.artifact),
        Err(Problem::User { rendered, .. }) => Err(flashc_runtime::Error::Compile { rendered }.into()),
        Err(bug) => Err(Failure::bug(bug.to_string())),
    }
}

#[cfg(not(feature = "compiler"))]
fn compile(name: &str, _source: &[u8], _request: CompileRequest) -> Result<Artifact, Failure> {
    let rendered =
        format!("error: this build of the library has no compiler, so {name} must be compiled by `flashc`");
    Err(flashc_runtime::Error::Compile { rendered }.into())
}
