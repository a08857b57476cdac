//! Calls: which function is meant, and which argument is which.

use super::context::Checker;
use crate::ast;
use crate::builtins::{self, Builtin, Need, Op};
use crate::codes::Code;
use crate::diagnostic::Diagnostic;
use crate::hir::Expr;
use crate::source::Span;
use crate::suggest::nearest;
use crate::types::ElemRef;

impl Checker<'_> {
    /// A call of a builtin or function.
    pub(super) fn call_values(
        &mut self,
        callee: &ast::Expr,
        args: &[ast::Arg],
        hint: Option<ElemRef>,
        span: Span,
    ) -> Option<Vec<Expr>> {
        let (name, generics, at) = match &callee.kind {
            ast::ExprKind::Name(name) => (name, None, callee.span),
            ast::ExprKind::Index(base, items) => match &base.kind {
                ast::ExprKind::Name(name) => (name, Some(items.as_slice()), base.span),
                _ => return self.not_callable(callee.span),
            },
            ast::ExprKind::Error => return None,
            _ => return self.not_callable(callee.span),
        };
        if let Some(function) = self.items.functions.get(name.as_str()).copied() {
            return self.inline(function, generics.unwrap_or(&[]), args, span);
        }
        let Some(builtin) = builtins::find(name) else { return self.unknown_function(name, at) };
        if generics.is_some() {
            return self.error(
                Diagnostic::new(
                    Code::ArgCount,
                    callee.span,
                    format!("`{name}` takes no arguments in brackets"),
                )
                .label("a builtin function")
                .help(format!("write `{}`", builtin.signature())),
            );
        }
        let slots = self.slots(builtin, args, span)?;
        self.builtin(builtin, &slots, hint, span)
    }

    fn not_callable<T>(&mut self, span: Span) -> Option<T> {
        self.error(
            Diagnostic::new(Code::UnknownFunction, span, "only functions are called")
                .label("not the name of a function")
                .help("a call is `name(...)`; tensors are indexed with brackets: `x[i]`"),
        )
    }

    fn unknown_function<T>(&mut self, name: &str, span: Span) -> Option<T> {
        if self.items.broken.contains(name) {
            return None;
        }
        let foreign = match name {
            "range" | "arange" => Some("iota"),
            "where" => Some("select"),
            "load" | "store" => None,
            "matmul" | "mma" => Some("dot"),
            "transpose" => Some("trans"),
            "fmax" => Some("maximum"),
            "fmin" => Some("minimum"),
            "ceil_div" | "ceildiv" => Some("cdiv"),
            "ln" => Some("log"),
            "to" | "astype" => Some("cast"),
            _ => None,
        };
        let known = builtins::BUILTINS.iter().map(|b| b.name).chain(self.items.functions.keys().copied());
        let help = match foreign.or_else(|| nearest(name, known)) {
            Some(near) => match builtins::find(near) {
                Some(b) => format!("did you mean `{}`?", b.signature()),
                None => format!("did you mean `{near}`?"),
            },
            None if matches!(name, "load" | "store") => {
                "tiles are loaded and stored with brackets: `x[i :+ N]`, `o[i :+ N] = value;`".to_owned()
            }
            None if self.lookup(name).is_some() => {
                "it is no function; tensors are indexed with brackets: `x[i]`".to_owned()
            }
            None => format!("declare it: `fn {name}(x: f32) -> f32 {{ ... }}`"),
        };
        self.error(
            Diagnostic::new(Code::UnknownFunction, span, format!("there is no function `{name}`"))
                .label("not known")
                .help(help),
        )
    }

    /// Arguments by parameter.
    fn slots<'e>(
        &mut self,
        b: &Builtin,
        args: &'e [ast::Arg],
        span: Span,
    ) -> Option<Vec<Option<&'e ast::Expr>>> {
        let mut slots: Vec<Option<&ast::Expr>> = vec![None; b.params.len()];
        let usage = format!("write `{}`: {}", b.signature(), b.doc);
        let mut position = 0;
        for arg in args {
            let slot = match &arg.keyword {
                Some(name) => match b.params.iter().position(|p| p.name == name.text) {
                    Some(i) => i,
                    None => {
                        let near = nearest(&name.text, b.params.iter().map(|p| p.name));
                        let help = near.map_or(usage, |n| format!("did you mean `{n} = ...`?"));
                        return self.error(
                            Diagnostic::new(
                                Code::UnknownKeyword,
                                name.span,
                                format!("`{}` has no argument `{}`", b.name, name.text),
                            )
                            .label("not known")
                            .help(help),
                        );
                    }
                },
                None => {
                    let free = b.params.get(position).filter(|p| p.need == Need::Required);
                    if free.is_none() {
                        let (message, help) = if matches!(b.op, Op::Reduce(_)) && position == 1 {
                            (
                                format!("`{}` reduces one tile along an axis", b.name),
                                match b.name {
                                    "sum" => {
                                        "write `sum(x, axis = 1)`; to add two values write `a + b`".to_owned()
                                    }
                                    n => format!("write `{n}(x, axis = 1)`; of two values: `{n}imum(a, b)`"),
                                },
                            )
                        } else {
                            (format!("too many arguments for `{}`", b.name), usage)
                        };
                        return self.error(
                            Diagnostic::new(Code::ArgCount, arg.value.span, message)
                                .label("one too many")
                                .help(help),
                        );
                    }
                    position += 1;
                    position - 1
                }
            };
            if slots[slot].replace(&arg.value).is_some() {
                let name = b.params[slot].name;
                return self.error(
                    Diagnostic::new(Code::ArgCount, arg.value.span, format!("`{name}` is given twice"))
                        .label("again here")
                        .help(usage),
                );
            }
        }
        let missing: Vec<String> = b
            .params
            .iter()
            .zip(&slots)
            .filter(|(p, s)| p.need != Need::Optional && s.is_none())
            .map(|(p, _)| format!("`{}`", p.name))
            .collect();
        if missing.is_empty() {
            return Some(slots);
        }
        self.error(
            Diagnostic::new(Code::ArgCount, span, format!("`{}` needs {}", b.name, missing.join(" and ")))
                .label("not given")
                .help(usage),
        )
    }
}
