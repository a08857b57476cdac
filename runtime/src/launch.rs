//! A kernel on a device, and launching it.
#![allow(unsafe_code)]

use crate::args::Args;
use crate::cache::Cache;
use crate::device::Device;
use crate::driver;
use crate::error::Result;
use crate::memory::Stream;
use crate::module::{self, Assembler, Code, Module, Resources};
use crate::plan::{Note, ParamValue, Plan, Rejected, plan_launch};
use crate::signature::Signature;
use crate::tensor_map::MapCache;
use cudarc::driver::sys;
use flashc_ir::artifact::Artifact;
use std::ffi::c_void;
use std::fmt;
use std::ptr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// How to load a kernel.
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    /// Where machine code is kept.
    pub cache: Cache,
    /// Who compiles PTX.
    pub assembler: Assembler,
    /// Machine code of the variants, by index, in place of compiling their PTX.
    pub cubins: Vec<Option<Vec<u8>>>,
    /// Load every variant now. Otherwise the first is loaded now and another when it is first needed,
    /// which must not be while a stream is being captured.
    pub preload_all: bool,
}

/// What a launch did.
#[derive(Clone, Debug, PartialEq)]
pub struct LaunchReport {
    /// Index of the variant that ran.
    pub variant: usize,
    /// Programs along each axis.
    pub grid: [u32; 3],
    /// False if there was nothing to do: an empty grid, or only outputs without elements.
    pub launched: bool,
    /// Better variants and why they could not run.
    pub rejected: Vec<Rejected>,
    /// What is legal but suspicious about the arguments.
    pub notes: Vec<Note>,
}

/// A kernel loaded on a device. Cheap to clone; launches from several threads at once are fine.
///
/// The machine code is unloaded with the last clone, after the device has finished its work.
#[derive(Clone, Debug)]
pub struct Kernel(Arc<Inner>);

struct Inner {
    device: Device,
    signature: Signature,
    options: LoadOptions,
    modules: Vec<OnceLock<Module>>,
    loading: Mutex<()>,
    maps: MapCache,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let a = self.signature.artifact();
        write!(f, "{} {:?} on GPU {}", a.kernel, a.specialization, self.device.ordinal())
    }
}

impl Kernel {
    /// Checks an artifact and loads its code on a device.
    pub fn load(device: &Device, artifact: &Artifact, options: &LoadOptions) -> Result<Kernel> {
        let signature = Signature::new(artifact.clone())?;
        device.facts().accepts(artifact)?;
        let count = artifact.variants.len();
        let kernel = Kernel(Arc::new(Inner {
            device: device.clone(),
            signature,
            options: options.clone(),
            modules: (0..count).map(|_| OnceLock::new()).collect(),
            loading: Mutex::new(()),
            maps: MapCache::default(),
        }));
        for variant in 0..if options.preload_all { count } else { 1 } {
            kernel.module(variant)?;
        }
        Ok(kernel)
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.0.device
    }

    /// What was loaded.
    pub fn artifact(&self) -> &Artifact {
        self.0.signature.artifact()
    }

    /// The resources of a variant; loads it if need be.
    pub fn resources(&self, variant: usize) -> Result<Resources> {
        self.module(variant).map(|m| m.resources)
    }

    /// What the driver's compiler warned of when it compiled a variant's PTX; loads it if need be. Empty where
    /// the driver had the machine code in its cache.
    pub fn warnings(&self, variant: usize) -> Result<&[String]> {
        self.module(variant).map(|m| m.warnings.as_slice())
    }

    /// Checks arguments and decides as [`Kernel::launch`] does, without launching.
    pub fn plan(&self, args: &Args) -> Result<Plan> {
        plan_launch(&self.0.signature, args, self.0.device.facts())
    }

    /// Enqueues the kernel on a stream and returns. Nothing waits for the device.
    ///
    /// The tensors' memory must be as large as their shapes and strides say and stay allocated until the
    /// kernel has finished: the device cannot check it.
    pub fn launch(&self, stream: &Stream, args: &Args) -> Result<LaunchReport> {
        // SAFETY: the stream is alive, and a stream of a wrong context makes the driver return an error.
        unsafe { self.launch_raw(stream.raw(), args) }
    }

    /// The same on a `CUstream` of another library, PyTorch's `torch.cuda.current_stream().cuda_stream`;
    /// 0 is the legacy default stream.
    ///
    /// # Safety
    /// `stream` is 0, 1, 2 (the driver's constants) or a live stream of the device's primary context.
    pub unsafe fn launch_raw(&self, stream: u64, args: &Args) -> Result<LaunchReport> {
        let plan = self.plan(args)?;
        if !plan.empty {
            // SAFETY: the caller's promise.
            unsafe { self.run(&plan, stream as usize as sys::CUstream)? };
        }
        Ok(LaunchReport {
            variant: plan.variant,
            grid: plan.grid,
            launched: !plan.empty,
            rejected: plan.rejected,
            notes: plan.notes,
        })
    }

    unsafe fn run(&self, plan: &Plan, stream: sys::CUstream) -> Result<()> {
        let variant = &self.artifact().variants[plan.variant];
        let module = self.module(plan.variant)?;
        let _entered = self.0.device.enter()?;
        let mut maps = plan.maps.iter().map(|m| self.0.maps.get(m)).collect::<Result<Vec<_>>>()?;
        let mut words: Vec<u64> = plan
            .params
            .iter()
            .map(|p| match p {
                ParamValue::Word(w) => *w,
                ParamValue::Map(_) => 0,
            })
            .collect();
        let mut pointers: Vec<*mut c_void> = Vec::with_capacity(plan.params.len());
        for (word, p) in words.iter_mut().zip(&plan.params) {
            pointers.push(match *p {
                ParamValue::Word(_) => ptr::from_mut(word).cast(),
                ParamValue::Map(i) => ptr::from_mut(&mut maps[i]).cast(),
            });
        }
        let [x, y, z] = plan.grid;
        // SAFETY: the function is loaded while `self` lives. There is one pointer a parameter, in the order
        // of the artifact, each to at least as many bytes as the parameter takes (8, or a tensor map of
        // 128); the driver copies them before it returns.
        let status = unsafe {
            sys::cuLaunchKernel(
                module.function,
                x,
                y,
                z,
                variant.threads,
                1,
                1,
                variant.shared_bytes,
                stream,
                pointers.as_mut_ptr(),
                ptr::null_mut(),
            )
        };
        driver::check("cuLaunchKernel", status)
    }

    fn module(&self, variant: usize) -> Result<&Module> {
        let inner = &*self.0;
        let slot = &inner.modules[variant];
        if let Some(module) = slot.get() {
            return Ok(module);
        }
        let _one_at_a_time = inner.loading.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(module) = slot.get() {
            return Ok(module);
        }
        let (device, artifact, options) = (&inner.device, self.artifact(), &inner.options);
        let v = &artifact.variants[variant];
        let code = match options.cubins.get(variant) {
            Some(Some(given)) => Code::Cubin(given.clone()),
            _ => module::code(device, artifact, v, &options.assembler, &options.cache)?,
        };
        let module = Module::load(device, artifact, v, &code)?;
        Ok(slot.get_or_init(|| module))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_can_be_shared_between_threads() {
        fn shared<T: Send + Sync + Clone>() {}
        shared::<Kernel>();
        shared::<Device>();
    }
}
