//! One binary, since each links LLVM.

mod codegen;
mod every_op;
mod round_trip;
mod upstream;
