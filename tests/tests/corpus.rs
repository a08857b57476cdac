//! Everything that needs the whole compiler, in one binary: it links LLVM.
//!
//! | module | what |
//! |---|---|
//! | `passes` | one folder a pass: the IR after it, as a reader can review it |
//! | `run` | every program is interpreted after import and after every pass, against a plain reference |
//! | `ptx` | counts of what the PTX holds, and what ptxas says: a ratchet |
//! | `plans` | names and order of independent lines change nothing |
//! | `rules` | which package may use which, and that every case is one |
//! | `docs` | every program in the documentation compiles |

mod docs;
mod passes;
mod plans;
mod ptx;
mod rules;
mod run;
