//! Expressions: dispatch, names, and those that give several values.

use super::context::{Checker, Entity, Place};
use super::literal::{self, PREDEFINED};
use crate::ast;
use crate::builtins;
use crate::codes::Code;
use crate::constexpr::{ConstExpr, ConstOp};
use crate::diagnostic::Diagnostic;
use crate::hir::*;
use crate::source::Span;
use crate::types::{Elem, ElemRef, Ty};

impl Checker<'_> {
    /// One value. Literals become of the type `hint` if they meet nothing else.
    pub(super) fn expr(&mut self, e: &ast::Expr, hint: Option<ElemRef>) -> Option<Expr> {
        self.deeper(e.span, |c| c.expr_inner(e, hint))
    }

    fn expr_inner(&mut self, e: &ast::Expr, hint: Option<ElemRef>) -> Option<Expr> {
        let span = e.span;
        match &e.kind {
            ast::ExprKind::Int(v) => {
                self.int_literal(i128::from(*v), hint.unwrap_or(Elem::I32.into()), span)
            }
            ast::ExprKind::Float(v) => self.float_literal(*v, hint.unwrap_or(Elem::F32.into()), span),
            ast::ExprKind::Bool(v) => Some(self.bool_literal(*v, span)),
            ast::ExprKind::Name(name) => self.name(name, hint, span),
            ast::ExprKind::Unary(op, inner) => self.unary_expr(*op, inner, hint, span),
            ast::ExprKind::Binary(op, at, a, b) => self.binary_expr(*op, *at, [a, b], hint, span),
            ast::ExprKind::Index(base, items) => self.index_expr(base, items, span),
            ast::ExprKind::Call(..) | ast::ExprKind::If(_) => {
                let mut values = self.values(e, &[hint])?;
                if values.len() == 1 {
                    return values.pop();
                }
                let n = values.len();
                let names = ["a", "b", "c", "d"][..n.min(4)].join(", ");
                self.error(
                    Diagnostic::new(Code::TupleCount, span, format!("one value is needed here, this gives {n}"))
                        .label(format!("{n} values"))
                        .help(format!("take it apart first: `let ({names}) = ...;`")),
                )
            }
            ast::ExprKind::Tuple(items) => self.error(
                Diagnostic::new(Code::TupleCount, span, "one value is needed here")
                    .label(format!("{} values", items.len()))
                    .help("several values at once are only for `let (a, b) = ...` and results of functions"),
            ),
            ast::ExprKind::List(_) => self.error(
                Diagnostic::new(Code::NotAValue, span, "a list is no value")
                    .label("only for shapes")
                    .help("lists are shapes, as in `zeros(f32, [BM, D])`; a tile of one value is `full(value, type, shape)`"),
            ),
            ast::ExprKind::Error => None,
        }
    }

    /// The values of an expression; more than one of a tuple, a call or an `if`.
    pub(super) fn values(&mut self, e: &ast::Expr, hints: &[Option<ElemRef>]) -> Option<Vec<Expr>> {
        let hint = |i: usize| hints.get(i).copied().flatten();
        match &e.kind {
            ast::ExprKind::Tuple(items) => {
                let values: Vec<Option<Expr>> =
                    items.iter().enumerate().map(|(i, item)| self.expr(item, hint(i))).collect();
                values.into_iter().collect()
            }
            ast::ExprKind::Call(callee, args) => self.call_values(callee, args, hint(0), e.span),
            ast::ExprKind::If(i) => self.deeper(e.span, |c| c.if_values(i, hints)),
            _ => self.expr(e, hint(0)).map(|v| vec![v]),
        }
    }

    fn name(&mut self, name: &str, hint: Option<ElemRef>, span: Span) -> Option<Expr> {
        let Some((entity, declared)) = self.lookup(name).cloned() else {
            if let Some((_, value)) = PREDEFINED.iter().find(|p| p.0 == name) {
                return self.float_literal(*value, hint.unwrap_or(Elem::F32.into()), span);
            }
            if self.items.functions.contains_key(name) || builtins::find(name).is_some() {
                return self.error(
                    Diagnostic::new(Code::NotAValue, span, format!("`{name}` is a function"))
                        .label("no value")
                        .help(format!("call it: `{name}(...)`")),
                );
            }
            if Elem::from_name(name).is_some() && self.place == Place::Body {
                return self.not_a_value(name, "a type", span, "types stand in calls such as `cast(x, f32)`");
            }
            return self.unknown_name(name, span);
        };
        let make = |kind, elem: ElemRef, constant: Option<ConstExpr>| {
            Some(Expr { kind, ty: Ty::Scalar(elem), span, constant: constant.map(Box::new) })
        };
        match entity {
            Entity::Var(id) => Some(self.read(id, span)),
            Entity::Const(c, elem) => make(ExprKind::Const(c.clone()), elem.into(), Some(c)),
            Entity::Dim(id) => {
                let constant = (self.place == Place::TensorDim).then(|| ConstExpr::dim(id));
                if self.place == Place::Default {
                    return self.unknown_name(name, span);
                }
                make(ExprKind::Dim(id), Elem::I32.into(), constant)
            }
            Entity::Param(id) => match &self.kernel.param(id).kind {
                ParamKind::Scalar(elem) => make(ExprKind::ScalarParam(id), *elem, None),
                ParamKind::Tensor { dims, .. } => {
                    let colons = vec![":"; dims.len()].join(", ");
                    let example = match dims.len() {
                        1 => format!("`{name}[start :+ length]`"),
                        _ => format!(
                            "`{name}[i, start :+ length, ...]` with one index for each of its {} axes",
                            dims.len()
                        ),
                    };
                    let _ = colons;
                    let d = Diagnostic::new(
                        Code::NotAValue,
                        span,
                        format!("the tensor `{name}` is in memory; it is no value"),
                    )
                    .label("not loaded")
                    .note(declared, "declared here")
                    .help(format!("load a tile of it: {example}"));
                    self.error(d)
                }
            },
            Entity::Type(_) => {
                self.not_a_value(name, "a type", span, "types stand in calls such as `cast(x, T)`")
            }
            Entity::Bad => None,
        }
    }

    fn not_a_value<T>(&mut self, name: &str, what: &str, span: Span, help: &str) -> Option<T> {
        self.error(
            Diagnostic::new(Code::NotAValue, span, format!("`{name}` is {what}, no value"))
                .label(format!("{what}, where a value is needed"))
                .help(help),
        )
    }

    // ---- if as an expression ----

    /// An `if` whose branches give values: a statement before the current one, and reads of its results.
    pub(super) fn if_values(&mut self, i: &ast::If, hints: &[Option<ElemRef>]) -> Option<Vec<Expr>> {
        let cond = self.condition(&i.cond, "the condition of an `if`");
        if self.place != Place::Body {
            return self.error(
                Diagnostic::new(Code::BadGrid, i.span, "an `if` cannot stand outside of a body")
                    .label("not here")
                    .help("write `select(cond, a, b)`"),
            );
        }
        let Some(otherwise) = &i.otherwise else {
            return self.error(
                Diagnostic::new(Code::Branches, i.span, "an `if` that gives a value needs an `else`")
                    .label("no value when the condition is false")
                    .help("add `else { ... }`"),
            );
        };
        let constant = cond.as_ref().and_then(|c| c.constant.as_deref().cloned());
        // A branch of literals takes its type from the other one.
        let first = self.branch(&i.then, constant.clone(), true, |c| c.block_values(&i.then, hints));
        let otherwise_open = otherwise.tail.as_deref().is_some_and(literal::is_open);
        let learned: Vec<Option<ElemRef>> = match &first.1 {
            Some(values) if otherwise_open => values.iter().map(|v| Some(v.ty.elem())).collect(),
            _ => hints.to_vec(),
        };
        let second = self.branch(otherwise, constant.clone(), false, |c| c.block_values(otherwise, &learned));
        let (mut then, mut a) = (first.0, first.1?);
        let (other, b) = (second.0, second.1?);
        if let (Some(tail), [x], [y]) = (i.then.tail.as_deref(), a.as_slice(), b.as_slice())
            && literal::is_open(tail)
            && x.ty.elem() != y.ty.elem()
        {
            let elem = y.ty.elem();
            let (stmts, again) =
                self.branch(&i.then, constant.clone(), true, |c| c.block_values(&i.then, &[Some(elem)]));
            (then, a) = (stmts, again?);
        }
        let cond = cond?;
        if a.len() != b.len() {
            return self.error(
                Diagnostic::new(Code::Branches, i.span, "the branches give different numbers of values")
                    .label(format!("{} and {}", a.len(), b.len()))
                    .note(i.then.span, format!("gives {}", a.len()))
                    .note(otherwise.span, format!("gives {}", b.len()))
                    .help("both branches give the same number of values"),
            );
        }
        let mut results = Vec::new();
        for (x, y) in a.iter().zip(&b) {
            self.same_branches(x, y, i.span)?;
            let constant = match (&cond.constant, &x.constant, &y.constant) {
                (Some(c), Some(x), Some(y)) => {
                    let select =
                        ConstExpr::op(ConstOp::Select, vec![(**c).clone(), (**x).clone(), (**y).clone()]);
                    (select.size() <= 256).then_some(select)
                }
                _ => None,
            };
            let id = self.new_var("if", x, false, i.span);
            self.kernel.vars[id.index()].constant = constant;
            results.push(id);
        }
        let reads: Vec<Expr> = results.iter().map(|&id| self.read(id, i.span)).collect();
        let block = |stmts, values| Block { stmts, values };
        let (then, otherwise) = (block(then, a), block(other, b));
        let node = If { cond, results, then, otherwise, carried: Vec::new() };
        self.emit(StmtKind::If(Box::new(node)), i.span);
        Some(reads)
    }

    fn same_branches(&mut self, x: &Expr, y: &Expr, span: Span) -> Option<()> {
        let notes: Vec<_> = self.origin(x).into_iter().chain(self.origin(y)).collect();
        let what = "the branches need equal lengths";
        let equal = x.ty.elem() == y.ty.elem()
            && x.ty.rank() == y.ty.rank()
            && self.same_shape(x.ty.shape(), y.ty.shape(), what, span, &notes).is_ok();
        if equal {
            return Some(());
        }
        let (xt, yt) = (self.ty_text(&x.ty), self.ty_text(&y.ty));
        let d = Diagnostic::new(Code::Branches, span, format!("one branch gives {xt}, the other {yt}"))
            .label("both branches must give the same type and shape")
            .help("convert with `cast`, or make a tile of a scalar with `full`");
        self.error(super::context::with_notes(d, notes))
    }
}
