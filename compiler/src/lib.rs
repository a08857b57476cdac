//! flashc-compiler.
