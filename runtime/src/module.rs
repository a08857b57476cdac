//! Machine code: compiled by the driver or ptxas, kept in the cache, loaded into a context.
#![allow(unsafe_code)]

use crate::cache::{self, Cache};
use crate::device::Device;
use crate::driver;
use crate::error::{Error, Result};
use crate::ptxas;
use cudarc::driver::sys::{self, CUfunction_attribute as Attribute, CUjit_option as Jit, CUresult};
use flashc_ir::artifact::{Artifact, Variant};
use std::ffi::{CString, c_int, c_void};
use std::path::PathBuf;
use std::ptr;

/// Bytes for each log of the driver's compiler.
const LOG_BYTES: usize = 32 << 10;

/// Who turns PTX into machine code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Assembler {
    /// The driver.
    #[default]
    Driver,
    /// This ptxas (see [`ptxas::find`]).
    Ptxas(PathBuf),
}

/// What a loaded kernel takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resources {
    /// Registers a thread at launch.
    pub registers: u32,
    /// Local memory (spills, stack) a thread, in bytes.
    pub local_bytes: u32,
    /// Static shared memory of a CTA, in bytes.
    pub static_shared: u32,
    /// Dynamic shared memory of a CTA, in bytes.
    pub dynamic_shared: u32,
    /// Most threads that a CTA can have with so many registers.
    pub max_threads: u32,
}

/// What a module is loaded from.
pub(crate) enum Code {
    /// Machine code.
    Cubin(Vec<u8>),
    /// PTX, for the driver to compile; it keeps the result in its own cache on disk.
    Ptx(CString),
}

/// The code of a variant: machine code by ptxas, from the cache if it is there, or PTX for the driver.
pub(crate) fn code(
    device: &Device,
    artifact: &Artifact,
    variant: &Variant,
    assembler: &Assembler,
    cache: &Cache,
) -> Result<Code> {
    match assembler {
        Assembler::Driver => {
            device.facts().accepts_ptx(&variant.ptx)?;
            CString::new(variant.ptx.as_str()).map(Code::Ptx).map_err(|_| Error::BadArtifact {
                kernel: artifact.kernel.clone(),
                problem: format!("the PTX of variant {} has a zero byte", variant.name),
            })
        }
        Assembler::Ptxas(path) => {
            let stamp = path.metadata().map(|m| (m.len(), m.modified().ok()));
            let maker = format!("ptxas {} {stamp:?}", path.display());
            let key = cache::key(&[variant.ptx.as_bytes(), artifact.target.as_bytes(), maker.as_bytes()]);
            if let Some(code) = cache.get(&key) {
                return Ok(Code::Cubin(code));
            }
            let code = ptxas::assemble(&variant.ptx, &artifact.target, path)?.cubin;
            cache.put(&key, &code);
            Ok(Code::Cubin(code))
        }
    }
}

/// Loads a module; what the driver's compiler had to say about PTX comes with it.
///
/// The whole program goes to `cuModuleLoadDataEx`. Linking it instead (`cuLink…`) would compile it as one
/// unit of several, where ptxas ignores `setmaxnreg` and serialises `wgmma`.
fn load_image(artifact: &Artifact, variant: &Variant, code: &Code) -> Result<(sys::CUmodule, Vec<String>)> {
    let mut raw = ptr::null_mut();
    let ptx = match code {
        Code::Cubin(bytes) => {
            // SAFETY: a complete ELF image in memory, which the driver copies.
            driver::check("cuModuleLoadData", unsafe {
                sys::cuModuleLoadData(&mut raw, bytes.as_ptr().cast::<c_void>())
            })?;
            return Ok((raw, vec![]));
        }
        Code::Ptx(ptx) => ptx,
    };
    let (mut errors, mut infos) = (vec![0u8; LOG_BYTES], vec![0u8; LOG_BYTES]);
    let mut options = [
        Jit::CU_JIT_ERROR_LOG_BUFFER,
        Jit::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
        Jit::CU_JIT_INFO_LOG_BUFFER,
        Jit::CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
    ];
    let mut values = [
        errors.as_mut_ptr().cast::<c_void>(),
        LOG_BYTES as *mut c_void,
        infos.as_mut_ptr().cast::<c_void>(),
        LOG_BYTES as *mut c_void,
    ];
    // SAFETY: the PTX is a terminated string that the driver only reads; the option arrays have four entries
    // of the kinds that it documents, and the log buffers outlive the call.
    let status = unsafe {
        let image = ptx.as_ptr().cast::<c_void>();
        sys::cuModuleLoadDataEx(&mut raw, image, 4, options.as_mut_ptr(), values.as_mut_ptr())
    };
    let log = |b: &[u8]| String::from_utf8_lossy(b.split(|c| *c == 0).next().unwrap_or(b)).into_owned();
    let log = log(&errors) + &log(&infos);
    if status != CUresult::CUDA_SUCCESS {
        let (name, text) = driver::describe(status);
        return Err(Error::Jit {
            kernel: artifact.kernel.clone(),
            variant: variant.name.clone(),
            reason: format!("{name} ({text})"),
            log,
        });
    }
    Ok((raw, ptxas::read_report(&log).warnings))
}

/// One kernel in a context. Unloaded when dropped, after the device has finished its work.
#[derive(Debug)]
pub(crate) struct Module {
    device: Device,
    raw: sys::CUmodule,
    /// Valid as long as the module is loaded.
    pub(crate) function: sys::CUfunction,
    pub(crate) resources: Resources,
    /// What the driver's compiler warned of.
    pub(crate) warnings: Vec<String>,
}

// SAFETY: module and function handles may be used from any thread with the context current.
unsafe impl Send for Module {}
// SAFETY: as above; nothing is changed after loading.
unsafe impl Sync for Module {}

impl Module {
    /// Loads code and prepares its entry for launches.
    pub(crate) fn load(device: &Device, artifact: &Artifact, v: &Variant, code: &Code) -> Result<Module> {
        let kernel = || artifact.kernel.clone();
        let variant = || v.name.clone();
        let _entered = device.enter()?;
        let (raw, warnings) = load_image(artifact, v, code)?;
        let mut module = Module {
            device: device.clone(),
            raw,
            function: ptr::null_mut(),
            resources: Resources {
                registers: 0,
                local_bytes: 0,
                static_shared: 0,
                dynamic_shared: v.shared_bytes,
                max_threads: 0,
            },
            warnings,
        };
        let no_entry = || Error::NoEntry { kernel: kernel(), variant: variant(), entry: v.entry.clone() };
        let entry = CString::new(v.entry.as_str()).map_err(|_| no_entry())?;
        // SAFETY: writes one handle; the name is a terminated string.
        match unsafe { sys::cuModuleGetFunction(&mut module.function, raw, entry.as_ptr()) } {
            CUresult::CUDA_ERROR_NOT_FOUND => return Err(no_entry()),
            status => driver::check("cuModuleGetFunction", status)?,
        }
        let get = |which| {
            let mut value: c_int = 0;
            // SAFETY: writes one integer; the function belongs to the loaded module.
            driver::check("cuFuncGetAttribute", unsafe {
                sys::cuFuncGetAttribute(&mut value, which, module.function)
            })
            .map(|()| value as u32)
        };
        let r = Resources {
            registers: get(Attribute::CU_FUNC_ATTRIBUTE_NUM_REGS)?,
            local_bytes: get(Attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?,
            static_shared: get(Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?,
            dynamic_shared: v.shared_bytes,
            max_threads: get(Attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
        };
        let needs = u64::from(r.static_shared) + u64::from(v.shared_bytes);
        let limit = u64::from(device.facts().shared_limit);
        if needs > limit {
            return Err(Error::SharedMemory { kernel: kernel(), variant: variant(), needs, limit });
        }
        if v.threads > r.max_threads {
            let (threads, registers, limit) = (v.threads, r.registers, r.max_threads);
            return Err(Error::Threads { kernel: kernel(), variant: variant(), threads, registers, limit });
        }
        let which = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: the function belongs to the loaded module.
        driver::check("cuFuncSetAttribute", unsafe {
            sys::cuFuncSetAttribute(module.function, which, v.shared_bytes as c_int)
        })?;
        module.resources = r;
        Ok(module)
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // A kernel may still be running: its code must stay until it is done.
        let _ = self.device.synchronize();
        if let Ok(_entered) = self.device.enter() {
            // SAFETY: loaded once in `load`, with its context current; nothing uses the function afterwards.
            let _ = unsafe { sys::cuModuleUnload(self.raw) };
        }
    }
}
