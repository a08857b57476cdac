//! The front end of flashc: text of the tile language to a typed program.
//!
//! `analyze` runs everything and never stops at the first error. No FFI, no IO, no environment, no panics: every text
//! gives a program or diagnostics.
//!
//! | file | role |
//! |---|---|
//! | `source` | text, spans, lines |
//! | `diagnostic`, `codes`, `suggest` | errors, their rendering and their explanations |
//! | `token` | lexer |
//! | `grammar.lalrpop`, `parse`, `ast` | LR(1) parser with recovery; syntax tree |
//! | `types`, `constexpr`, `hir` | the typed program, its constants, binding them |
//! | `builtins` | the table of builtin functions |
//! | `check` | names, types, shapes: syntax tree to typed program |

pub mod codes;
pub mod constexpr;
pub mod diagnostic;
pub mod hir;
pub mod source;
mod suggest;
pub mod types;
