//! Names, types and shapes: syntax tree to typed program.
//!
//! One `Checker` builds one kernel. A function is checked once by itself, with its generics left open, and again at
//! each call, which inlines it. Every `Option` here is `None` after the error has been reported.

mod builtin;
mod call;
mod constant;
mod context;
mod dot;
mod expr;
mod function;
mod header;
mod index;
mod literal;
mod operator;
mod shape;
mod stmt;

use std::collections::HashSet;

use indexmap::IndexMap;

use crate::ast;
use crate::codes::Code;
use crate::diagnostic::Diagnostic;
use crate::hir::Program;
use context::Checker;

/// What a file declares.
pub(crate) struct Items<'a> {
    functions: IndexMap<&'a str, &'a ast::Function>,
    /// Items with errors of their own: uses of them are no further errors.
    broken: HashSet<&'a str>,
}

/// Checks a file.
pub(crate) fn check(file: &ast::File, broken: &[String]) -> (Program, Vec<Diagnostic>) {
    let mut diagnostics = Vec::new();
    let mut items = Items { functions: IndexMap::new(), broken: broken.iter().map(String::as_str).collect() };
    let mut names: IndexMap<&str, &ast::Name> = IndexMap::new();
    for item in &file.items {
        let name = match item {
            ast::Item::Kernel(k) => &k.name,
            ast::Item::Function(f) => &f.name,
        };
        if let Some(first) = names.insert(&name.text, name) {
            diagnostics.push(
                Diagnostic::new(Code::Duplicate, name.span, format!("`{}` is declared twice", name.text))
                    .label("again here")
                    .note(first.span, "first here")
                    .help("rename one of them"),
            );
        }
        if let ast::Item::Function(f) = item {
            if crate::builtins::find(&f.name.text).is_some() {
                diagnostics.push(
                    Diagnostic::new(
                        Code::Duplicate,
                        f.name.span,
                        format!("`{}` is a builtin function", f.name.text),
                    )
                    .label("cannot be declared again")
                    .help("choose another name"),
                );
            }
            items.functions.entry(&f.name.text).or_insert(f);
        }
    }
    let functions: Vec<&ast::Function> = items.functions.values().copied().collect();
    for function in functions {
        let found = Checker::new(&items).check_function(function);
        if !found.is_empty() {
            items.broken.insert(&function.name.text);
            diagnostics.extend(found);
        }
    }
    let mut program = Program::default();
    for item in &file.items {
        if let ast::Item::Kernel(k) = item {
            let (kernel, found) = Checker::new(&items).check_kernel(k);
            diagnostics.extend(found);
            program.kernels.push(kernel);
        }
    }
    (program, diagnostics)
}
