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

pub mod ast;
pub mod builtins;
mod check;
pub mod codes;
pub mod constexpr;
pub mod diagnostic;
pub mod hir;
mod parse;
pub mod source;
mod suggest;
pub mod token;
pub mod types;

use diagnostic::{Diagnostic, Severity};
use source::{MAX_SOURCE_BYTES, Source, Span};

pub use token::dump_tokens;

/// What `analyze` finds.
#[derive(Clone, Debug, Default)]
pub struct Analysis {
    /// The syntax tree of all that could be read.
    pub ast: Option<ast::File>,
    /// The program, if there is no error.
    pub program: Option<hir::Program>,
    /// Everything there is to say, in source order.
    pub diagnostics: Vec<Diagnostic>,
}

/// Text to typed program.
pub fn analyze(source: &Source) -> Analysis {
    if source.text().len() > MAX_SOURCE_BYTES {
        let end = source.text().find('\n').unwrap_or(0).min(80);
        let d = source::too_large(source.text().len(), Span::new(0, end));
        return Analysis { diagnostics: vec![d], ..Analysis::default() };
    }
    let parsed = parse::parse(source);
    let mut diagnostics = parsed.diagnostics;
    let (program, found) = check::check(&parsed.file, &parsed.broken);
    diagnostics.extend(found);
    diagnostics.sort_by_key(|d| (d.span, d.code));
    diagnostics.dedup();
    let failed = diagnostics.iter().any(|d| d.severity == Severity::Error);
    Analysis { ast: Some(parsed.file), program: (!failed).then_some(program), diagnostics }
}
