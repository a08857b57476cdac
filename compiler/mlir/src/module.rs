//! A module of MLIR: printing, verifying, running passes.
#![allow(unsafe_code)]

use crate::{Context, Failure, UpstreamPass};
use melior::ir::operation::{OperationLike, OperationPrintingFlags, WalkOrder, WalkResult};
use melior::pass::PassManager;

unsafe extern "C" {
    fn flashcIsAssembly(op: mlir_sys::MlirOperation) -> bool;
}

/// A module, owned by a [`Context`].
pub struct Module<'c> {
    pub(crate) raw: melior::ir::Module<'c>,
    pub(crate) context: &'c Context,
}

impl std::fmt::Debug for Module<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.print(false))
    }
}

impl Module<'_> {
    /// The text in the dialects' own syntax; [`Context::parse`] reads it back.
    pub fn print(&self, with_locations: bool) -> String {
        let flags = OperationPrintingFlags::new();
        let flags = if with_locations { flags.enable_debug_info(true, false) } else { flags };
        self.raw.as_operation().to_string_with_flags(flags).unwrap_or_default()
    }

    /// Checks what the operations' definitions demand. Parsing and passes do that by themselves.
    pub fn verify(&self) -> Result<(), Failure> {
        let valid = || self.raw.as_operation().verify().then_some(());
        self.context.capture("verify", "the module is malformed", valid)
    }

    /// What LLVM IR cannot express yet: has it operations beside those of `llvm` and `nvvm`, and has it
    /// operations of `nvvm` that are inline assembly?
    pub(crate) fn unconverted(&self) -> (bool, bool) {
        let (mut other, mut assembly) = (false, false);
        self.raw.as_operation().walk(WalkOrder::PreOrder, |op| {
            let name = op.name();
            match name.as_string_ref().as_str().unwrap_or_default().split('.').next() {
                Some("llvm") => {}
                // SAFETY: the operation is alive; the function only looks at it.
                Some("nvvm") => assembly |= unsafe { flashcIsAssembly(op.to_raw()) },
                Some("builtin") if op.parent_operation().is_none() => {}
                _ => other = true,
            }
            WalkResult::Advance
        });
        (other, assembly)
    }

    /// Runs passes in order. After a failure the module is in no useful state.
    pub fn run(&mut self, passes: &[UpstreamPass]) -> Result<(), Failure> {
        let context = self.context;
        let names: Vec<_> = passes.iter().map(|p| p.name()).collect();
        let manager = PassManager::new(&context.raw);
        manager.enable_verifier(false);
        for pass in passes {
            manager.add_pass(pass.create());
        }
        let message = format!("one of these failed: {}", names.join(", "));
        context.capture("passes", &message, || manager.run(&mut self.raw).ok())?;
        self.verify()
    }
}
