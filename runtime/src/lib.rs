//! Loads flashc kernels on a GPU and launches them.
//!
//! ```no_run
//! # fn demo(artifact: &flashc_ir::artifact::Artifact, x: u64, y: u64) -> flashc_runtime::Result<()> {
//! use flashc_runtime::{Args, DType, Device, Kernel, LoadOptions, Stream, TensorArg};
//!
//! let device = Device::open(0)?;
//! let kernel = Kernel::load(&device, artifact, &LoadOptions::default())?;
//! let tensor = |pointer| TensorArg { pointer, dtype: DType::F32, shape: &[1000], strides: &[1], device: 0 };
//! let args = Args::new().tensor(tensor(x)).named_tensor("y", tensor(y)).scalar(2.0);
//! let report = kernel.launch(&Stream::legacy(&device), &args)?;
//! assert!(report.launched);
//! # Ok(())
//! # }
//! ```
//!
//! What happens at a launch is decided by [`plan_launch`], a pure function of the artifact, the arguments and
//! the device's facts: it checks everything that the host can check, chooses the first variant of the code
//! that fits, and says why better ones do not. The driver is loaded at run time; without one,
//! [`Device::open`] says so and everything that needs no GPU still works.
//!
//! Raw driver calls are in `driver`, `module`, `launch` and `tensor_map` only.

mod args;
mod bench;
mod cache;
mod codes;
mod device;
mod driver;
mod dtype;
mod error;
mod launch;
mod memory;
mod module;
mod overlap;
mod plan;
pub mod ptxas;
#[cfg(test)]
mod samples;
mod scalar;
mod signature;
mod tensor_map;
pub mod watchdog;

pub use args::{Args, Scalar, TensorArg, contiguous_strides};
pub use bench::{BenchOptions, Stats, bench};
pub use cache::Cache;
pub use codes::{Code, codes};
pub use device::{Device, DeviceFacts, ptx_version};
pub use dtype::DType;
pub use error::{Error, Result};
pub use launch::{Kernel, LaunchReport, LoadOptions};
pub use memory::{DeviceBuffer, Event, Stream};
pub use module::{Assembler, Resources};
pub use plan::{Note, ParamValue, Plan, Rejected, plan_launch};
pub use signature::Signature;
pub use tensor_map::{MapProblem, TensorMapParams};
