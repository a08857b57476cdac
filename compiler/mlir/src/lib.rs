//! The safe layer over MLIR and LLVM: the only crate that links them, and the home of `unsafe`.
//!
//! - [`Context`] owns MLIR's memory. [`Context::write`] makes a [`Module`] of a [`flashc_ir::Func`] by
//!   letting MLIR parse and verify what `flashc_ir::text` prints; [`Module::to_func`] walks it back.
//! - The dialects `tile` and `sm90` are defined in `src/tile/TileOps.td` and `src/sm90/Sm90Ops.td`.
//! - [`UpstreamPass`] lists the passes of MLIR itself that we use; [`Module::run`] runs some.
//! - [`compile_to_ptx`] takes LLVM-level text (`tests/llvm_level.mlir` shows every spelling) to PTX.
//!
//! Nothing of melior, mlir-sys or inkwell shows in the interface. Everything that MLIR or LLVM has to say
//! arrives in a [`Failure`]: nothing is printed, and no error of theirs ends the process. A `Context`
//! stays on its thread; make one for each compilation.

mod codegen;
mod context;
mod failure;
mod module;
mod passes;
mod read;

pub use codegen::{CodegenOptions, Ptx, compile_module_to_ptx, compile_to_ptx};
pub use context::Context;
pub use failure::Failure;
pub use module::Module;
pub use passes::UpstreamPass;
