//! flashc-mlir.
