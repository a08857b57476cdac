//! What went wrong, with everything that MLIR and LLVM said about it.

use std::fmt;

/// A step that failed. All are faults of the compiler, not of the user's program, unless the text was
/// written by hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The step, for example `parse`, `verify`, `passes`, `translate`, `select`.
    pub stage: &'static str,
    /// One sentence.
    pub message: String,
    /// The diagnostics of MLIR or LLVM, in order: `location: severity: text`, notes indented below.
    pub diagnostics: Vec<String>,
}

impl Failure {
    pub(crate) fn new(stage: &'static str, message: impl Into<String>) -> Failure {
        Failure { stage, message: message.into(), diagnostics: vec![] }
    }

    pub(crate) fn with(mut self, diagnostics: Vec<String>) -> Failure {
        self.diagnostics.extend(diagnostics);
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.stage, self.message)?;
        self.diagnostics.iter().try_for_each(|d| write!(f, "\n{d}"))
    }
}

impl std::error::Error for Failure {}
