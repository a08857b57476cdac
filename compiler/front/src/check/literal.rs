//! Literals, which take the type of what they meet.

use super::context::Checker;
use crate::ast;
use crate::codes::Code;
use crate::constexpr::ConstExpr;
use crate::diagnostic::Diagnostic;
use crate::hir::*;
use crate::source::Span;
use crate::types::{Elem, ElemRef, Ty};

/// Named float literals.
pub(super) const PREDEFINED: &[(&str, f64)] =
    &[("inf", f64::INFINITY), ("LOG2E", std::f64::consts::LOG2_E), ("LN2", std::f64::consts::LN_2)];

pub(super) fn is_predefined(name: &str) -> bool {
    PREDEFINED.iter().any(|p| p.0 == name)
}

/// Whether an expression is made of literals only, so that its type is open.
pub(super) fn is_open(e: &ast::Expr) -> bool {
    match &e.kind {
        ast::ExprKind::Int(_) | ast::ExprKind::Float(_) => true,
        ast::ExprKind::Name(name) => is_predefined(name),
        ast::ExprKind::Unary(op, e) => *op != ast::UnaryOp::Not && is_open(e),
        ast::ExprKind::Binary(op, _, a, b) => arithmetic(*op) && is_open(a) && is_open(b),
        _ => false,
    }
}

fn arithmetic(op: ast::BinaryOp) -> bool {
    use ast::BinaryOp as B;
    !matches!(op, B::Eq | B::Ne | B::Lt | B::Le | B::Gt | B::Ge | B::AndAnd | B::OrOr)
}

/// Whether an open expression has a float literal in it.
pub(super) fn has_float(e: &ast::Expr) -> bool {
    match &e.kind {
        ast::ExprKind::Float(_) | ast::ExprKind::Name(_) => true,
        ast::ExprKind::Unary(_, e) => has_float(e),
        ast::ExprKind::Binary(_, _, a, b) => has_float(a) || has_float(b),
        _ => false,
    }
}

/// The type of an open expression that meets nothing.
pub(super) fn default_elem(e: &ast::Expr) -> ElemRef {
    if has_float(e) { Elem::F32.into() } else { Elem::I32.into() }
}

impl Checker<'_> {
    /// An integer literal as a value of the type.
    pub(super) fn int_literal(&mut self, value: i128, elem: ElemRef, span: Span) -> Option<Expr> {
        let holds = |e: Elem| {
            e.holds_int(value)
                || e.significand_bits().is_some_and(|b| value.unsigned_abs() <= 1u128 << b)
                || exact_in(e, value)
        };
        if let Some(bad) = self.counterexample(elem, holds) {
            let d = Diagnostic::new(Code::LiteralRange, span, format!("{value} does not fit in {bad}"));
            let help = if bad == Elem::Bool {
                "a bool is `true` or `false`".to_owned()
            } else if bad.is_int() {
                let (lo, hi) = int_range(bad);
                format!(
                    "{bad} goes from {lo} to {hi}; for a wider value cast the other operand: `cast(x, i64)`"
                )
            } else {
                format!(
                    "not every whole number of that size is a {bad}; write it as a float to have it rounded: `{value}.0`"
                )
            };
            let label = self.literal_label(elem);
            return self.error(d.label(label).help(help));
        }
        let floats = self.counterexample(elem, |e| e.significand_bits().is_some()).is_none();
        let literal = if floats { Literal::Float(value as f64) } else { Literal::Int(value) };
        let constant = (elem == Elem::I32.into()).then(|| Box::new(ConstExpr::int(value as i64)));
        Some(Expr { kind: ExprKind::Literal(literal), ty: Ty::Scalar(elem), span, constant })
    }

    /// A float literal as a value of the type.
    pub(super) fn float_literal(&mut self, value: f64, elem: ElemRef, span: Span) -> Option<Expr> {
        let bad_type = self.counterexample(elem, |e| e.significand_bits().is_some());
        if let Some(bad) = bad_type {
            let d = Diagnostic::new(Code::LiteralRange, span, format!("a float where {bad} is needed"));
            let label = self.literal_label(elem);
            return self
                .error(d.label(label).help(
                    "write a whole number without a point, or cast the other operand: `cast(x, f32)`",
                ));
        }
        let fits = |e: Elem| {
            if value.is_infinite() {
                e != Elem::E4m3
            } else {
                e.max_finite().is_some_and(|m| value.abs() <= m)
            }
        };
        if let Some(bad) = self.counterexample(elem, fits) {
            let max = bad.max_finite().unwrap_or(0.0);
            let label = self.literal_label(elem);
            return self.error(
                Diagnostic::new(Code::LiteralRange, span, format!("{value:?} does not fit in {bad}"))
                    .label(label)
                    .help(format!("the largest {bad} is {max:?}; cast the other operand to f32 first")),
            );
        }
        Some(Expr {
            kind: ExprKind::Literal(Literal::Float(value)),
            ty: Ty::Scalar(elem),
            span,
            constant: None,
        })
    }

    fn literal_label(&self, elem: ElemRef) -> String {
        format!("takes the type {} of what it meets", self.elem_text(elem))
    }

    /// `true` and `false`.
    pub(super) fn bool_literal(&self, value: bool, span: Span) -> Expr {
        Expr {
            kind: ExprKind::Literal(Literal::Bool(value)),
            ty: Ty::scalar(Elem::Bool),
            span,
            constant: Some(Box::new(ConstExpr::bool(value))),
        }
    }
}

/// Whether a float type has exactly this integer.
fn exact_in(e: Elem, value: i128) -> bool {
    let (Some(bits), Some(max)) = (e.significand_bits(), e.max_finite()) else { return false };
    let magnitude = value.unsigned_abs();
    let used = 128 - magnitude.leading_zeros() - magnitude.trailing_zeros().min(127);
    magnitude as f64 <= max && used <= bits
}

fn int_range(e: Elem) -> (i128, i128) {
    let bits = e.bits();
    if e.is_signed_int() {
        (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1)
    } else {
        (0, (1i128 << bits) - 1)
    }
}
