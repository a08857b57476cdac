//! The passes, one file each. [`crate::pipeline`] lists them in order.
//!
//! A pass reads a function, plans in plain data, and rebuilds. It never panics on what a user wrote:
//! what cannot be compiled is a [`Problem`] with a place in the source; what should not happen is a bug
//! of ours, which the verifier that runs after every pass reports.

pub mod allocate_shared;
pub mod assign_layouts;
pub mod budget_registers;
pub mod exchange;
pub mod guard_masks;
pub mod interleave;
pub mod partial_sums;
pub mod place_barriers;
pub mod rotate;
pub mod schedule_programs;
pub mod specialize_roles;
pub mod tma_loads;
pub mod tma_stores;
pub mod warpgroup_mma;
pub mod wide_stores;

use flashc_front::codes::Code;
use flashc_ir::Loc;
use flashc_ir::target::Target;

/// What a pass goes by besides the function.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The hardware.
    pub target: Target,
    /// What measurement decides better than any rule.
    pub choices: Choices,
}

/// Decisions that passes leave to whoever measures. Every one is correct.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Choices {
    /// See [`interleave`].
    pub order: Order,
    /// See [`schedule_programs`].
    pub schedule: Schedule,
    /// See [`tma_stores`].
    pub stores: tma_stores::Stores,
}

/// Who runs which program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Schedule {
    /// Several programs a CTA where all have as much to do.
    #[default]
    Auto,
    /// One program a CTA.
    Single,
}

/// The order of the work that runs while a product is in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Halves where the work under a product takes about as long as it, else as the program says.
    #[default]
    Auto,
    /// Half the rows, then the other half; the product is collected in between.
    Halves,
    /// As the program says; the product is collected at the end.
    Program,
}

impl Choices {
    /// Sets a choice by name, as on the command line: `order`, `program`. False if there is no such choice.
    pub fn set(&mut self, name: &str, value: &str) -> bool {
        match (name, value) {
            ("order", "auto") => self.order = Order::Auto,
            ("order", "halves") => self.order = Order::Halves,
            ("order", "program") => self.order = Order::Program,
            ("schedule", "auto") => self.schedule = Schedule::Auto,
            ("schedule", "single") => self.schedule = Schedule::Single,
            ("stores", name) => match tma_stores::Stores::from_name(name) {
                Some(stores) => self.stores = stores,
                None => return false,
            },
            _ => return false,
        }
        true
    }

    /// What [`Choices::set`] takes, for help texts.
    pub const NAMES: &str = "order=auto|halves|program, schedule=auto|single, stores=auto|direct|tma";
}

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
