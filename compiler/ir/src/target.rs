//! What the hardware can do: one table a target.

use serde::{Deserialize, Serialize};

/// Capabilities that passes and checks ask for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// The name on the command line and in PTX, for example `sm_90a`.
    pub name: String,
    /// PTX ISA version as ptxas and LLVM write it, for example 90 for 9.0.
    pub ptx: u32,
    /// Compute capability, major and minor, that a device must have.
    pub capability: (u32, u32),
    /// Shared memory that one CTA may use, in bytes.
    pub shared_bytes: i64,
    /// Registers a thread may hold.
    pub max_registers: i64,
    /// Registers of one multiprocessor.
    pub registers_per_sm: i64,
    /// Threads of one CTA at most.
    pub max_threads: i64,
    /// Largest number of elements of a TMA box along one axis.
    pub tma_box: i64,
}

impl Target {
    /// NVIDIA Hopper with its architecture-specific instructions (wgmma, setmaxnreg).
    /// Figures: CUDA C++ programming guide, compute capability 9.0; PTX ISA 9.0.
    pub fn sm_90a() -> Target {
        Target {
            name: "sm_90a".into(),
            ptx: 90,
            capability: (9, 0),
            shared_bytes: 232_448,
            max_registers: 255,
            registers_per_sm: 65_536,
            max_threads: 1024,
            tma_box: 256,
        }
    }

    /// The target of this name.
    pub fn by_name(name: &str) -> Option<Target> {
        Target::all().into_iter().find(|t| t.name == name)
    }

    /// Every target that can be compiled for.
    pub fn all() -> Vec<Target> {
        vec![Target::sm_90a()]
    }
}
