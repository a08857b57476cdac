//! The typed picture of a kernel, in plain Rust.
//!
//! A kernel under compilation lives in an MLIR module. Passes do not think in MLIR: each one reads the
//! module into a [`Func`] (a tree of typed operations over dense value ids), plans and rebuilds in plain
//! Rust, and the result is written back and verified as MLIR. So everything here is free of FFI and
//! `unsafe`, and the interpreter and the passes are testable without linking LLVM.
//!
//! - [`types`]: element, tile, tensor, buffer types and their MLIR spelling
//! - [`layout`]: the closed set of register and shared-memory layouts, and who holds which element
//! - [`shuffle`]: conversions between layouts that stay within a warp
//! - [`divisor`]: what divides a scalar
//! - [`ops`]: the closed set of operations (`arith`, `scf`, `tile`, `sm90`) and their MLIR names
//! - [`func`]: functions, blocks, values, a builder
//! - [`verify`]: what must hold after every pass
//! - [`interp`]: the CPU oracle
//! - [`artifact`]: what a compilation produces and a runtime launches
//! - [`target`]: what the hardware can do
#![warn(missing_docs)]

pub mod artifact;
pub mod divisor;
pub mod func;
pub mod interp;
pub mod layout;
pub mod ops;
pub mod shuffle;
pub mod target;
pub mod text;
pub mod types;
pub mod verify;

pub use func::{Block, Builder, Func, Loc, Op, Step, ValueId};
pub use layout::{Distribution, Layout, Shared};
pub use ops::Kind;
pub use types::{BufferType, Elem, TensorType, TileType, Type};
