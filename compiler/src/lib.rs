//! flashc-compiler: from a typed tile program to an artifact.

pub mod lower;
pub mod passes;
