//! The passes, one file each. [`crate::pipeline`] lists them in order.
//!
//! A pass reads a function, plans in plain data, and rebuilds. It never panics on what a user wrote:
//! what cannot be compiled is a [`Problem`] with a place in the source; what should not happen is a bug
//! of ours, which the verifier that runs after every pass reports.

pub mod allocate_shared;
pub mod assign_layouts;
pub mod budget_registers;
pub mod exchange;
pub mod place_barriers;
pub mod rotate;
pub mod specialize_roles;
pub mod split_loops;
pub mod tma_loads;
pub mod tma_stores;
pub mod warpgroup_mma;
pub mod wide_stores;

use flashc_front::codes::Code;
use flashc_ir::Loc;

/// What a user's program asks for and the target cannot do.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    /// Stable code, listed by `flashc explain`.
    pub code: Code,
    /// What is wrong, in the user's words.
    pub message: String,
    /// What to write under the underlined source.
    pub label: String,
    /// What to do about it.
    pub help: String,
    /// Where.
    pub loc: Loc,
}

/// Why a pass stopped.
#[derive(Clone, Debug, PartialEq)]
pub enum Failure {
    /// The user's: the program asks for what cannot be done.
    User(Vec<Problem>),
    /// Ours.
    Bug(String),
}

impl Failure {
    /// One problem of the user's.
    pub fn user(p: Problem) -> Failure {
        Failure::User(vec![p])
    }
}
