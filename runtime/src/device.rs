//! A GPU, opened.

use crate::driver::{self, Context, Entered};
use crate::error::{Error, Result};
use cudarc::driver::sys::CUdevice_attribute as Attribute;
use flashc_ir::artifact::Artifact;
use std::sync::Arc;

/// Oldest CUDA version of a driver that has everything the runtime calls.
const OLDEST_DRIVER: (u32, u32) = (12, 8);

/// What planning and loading need to know of a GPU; plain data, so that both can be tested without one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceFacts {
    /// Its number.
    pub ordinal: i32,
    /// Product name.
    pub name: String,
    /// Compute capability.
    pub capability: (u32, u32),
    /// CUDA version that the driver supports.
    pub driver: (u32, u32),
    /// Largest dynamic shared memory of a CTA, in bytes.
    pub shared_limit: u32,
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
}

impl DeviceFacts {
    /// Can code of this artifact run here? The capability must be at least the artifact's; a target whose
    /// name ends in `a` (or `f`) needs exactly its own.
    pub fn accepts(&self, artifact: &Artifact) -> Result<()> {
        let exact = artifact.target.ends_with(['a', 'f']);
        let needs = artifact.capability;
        if self.capability == needs || (!exact && self.capability > needs) {
            return Ok(());
        }
        Err(Error::Capability {
            ordinal: self.ordinal,
            name: self.name.clone(),
            has: self.capability,
            needs,
            target: artifact.target.clone(),
            exact,
        })
    }

    /// Can the driver compile this PTX? Looks at its `.version` line.
    pub fn accepts_ptx(&self, ptx: &str) -> Result<()> {
        let Some(version) = ptx_version(ptx) else { return Ok(()) };
        let needs = driver_for_ptx(version);
        if self.driver >= needs {
            return Ok(());
        }
        let what = format!("compiling PTX {}.{}", version.0, version.1);
        Err(Error::DriverTooOld { has: self.driver, needs, what })
    }
}

/// The version that PTX declares.
pub fn ptx_version(ptx: &str) -> Option<(u32, u32)> {
    let line = ptx.lines().map(str::trim).find_map(|l| l.strip_prefix(".version"))?;
    let (major, minor) = line.trim().split_once('.')?;
    Some((major.parse().ok()?, minor.trim().parse().ok()?))
}

/// The CUDA version of the first driver that takes a version of PTX.
fn driver_for_ptx(version: (u32, u32)) -> (u32, u32) {
    match version {
        (9, minor) => (13, minor),
        (8, minor @ 0..=5) => (12, minor),
        (8, 6) => (12, 7),
        (8, minor) => (12, minor + 1),
        (major, _) if major < 8 => OLDEST_DRIVER,
        (major, minor) => (major + 4, minor),
    }
}

/// A GPU. Cheap to clone; safe to share between threads.
///
/// Holds the device's primary context, which is also the one that PyTorch and the CUDA runtime use, so
/// their pointers and streams are valid here. The calling thread's current context is never changed.
#[derive(Clone, Debug)]
pub struct Device {
    context: Arc<Context>,
    facts: Arc<DeviceFacts>,
}

impl Device {
    /// Opens GPU number `ordinal`.
    pub fn open(ordinal: i32) -> Result<Device> {
        driver::init()?;
        let driver = driver::version()?;
        if driver < OLDEST_DRIVER {
            return Err(Error::DriverTooOld { has: driver, needs: OLDEST_DRIVER, what: "flashc".into() });
        }
        let count = driver::device_count()?;
        if ordinal < 0 || ordinal >= count {
            return Err(Error::NoDevice { ordinal, count });
        }
        let context = Context::retain(ordinal)?;
        let get = |a| context.attribute(a).map(|v| v as u32);
        let facts = DeviceFacts {
            ordinal,
            name: context.name()?,
            capability: (
                get(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
                get(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
            ),
            driver,
            shared_limit: get(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
            multiprocessors: get(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        };
        Ok(Device { context: Arc::new(context), facts: Arc::new(facts) })
    }

    /// What is known of it.
    pub fn facts(&self) -> &DeviceFacts {
        &self.facts
    }

    /// Its number.
    pub fn ordinal(&self) -> i32 {
        self.facts.ordinal
    }

    /// Waits until everything on it has finished; reports a fault of an earlier kernel.
    pub fn synchronize(&self) -> Result<()> {
        self.context.synchronize()
    }

    #[inline]
    pub(crate) fn enter(&self) -> Result<Entered> {
        self.context.enter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    #[test]
    fn without_a_driver_opening_says_so() {
        match Device::open(0) {
            Err(e @ Error::NoDriver { .. }) => insta::assert_snapshot!(e.render(), @r"
            error[L0101]: no NVIDIA driver here: the library libcuda.so.1 cannot be loaded
              help: install the NVIDIA driver, 580 or newer; without a GPU, programs run on the interpreter
            "),
            Ok(d) => assert_eq!(d.ordinal(), 0),
            Err(e) => assert!(matches!(e, Error::NoDevice { .. } | Error::Driver { .. }), "{e}"),
        }
    }

    #[test]
    fn a_target_with_a_suffix_needs_its_own_capability() {
        let artifact = samples::attention();
        let mut facts = samples::facts();
        assert_eq!(facts.accepts(&artifact), Ok(()));
        facts.capability = (10, 0);
        let e = facts.accepts(&artifact).unwrap_err();
        insta::assert_snapshot!(e.render(), @r"
        error[L0104]: GPU 0 (NVIDIA H200) has compute capability 10.0, but the kernel is compiled for sm_90a, which needs exactly 9.0
          help: compile the kernel for this GPU's target, or choose another GPU
        ");
        let generic = Artifact { target: "sm_90".into(), ..artifact };
        assert_eq!(facts.accepts(&generic), Ok(()));
        facts.capability = (8, 6);
        assert_eq!(facts.accepts(&generic).unwrap_err().code(), "L0104");
    }

    #[test]
    fn a_driver_takes_ptx_up_to_its_version() {
        let mut facts = samples::facts();
        let ptx = "//\n.version 9.0\n.target sm_90a\n";
        assert_eq!(ptx_version(ptx), Some((9, 0)));
        assert_eq!(facts.accepts_ptx(ptx), Ok(()));
        facts.driver = (12, 8);
        let e = facts.accepts_ptx(ptx).unwrap_err();
        insta::assert_snapshot!(e.render(), @r"
        error[L0102]: the NVIDIA driver supports CUDA 12.8, but compiling PTX 9.0 needs 13.0
          help: update the driver to one for CUDA 13.0, or give a cubin made by a matching ptxas
        ");
        assert_eq!(facts.accepts_ptx(".version 8.7"), Ok(()));
        assert!(facts.accepts_ptx(".version 8.8").is_err());
    }
}
