//! What is known from the specialization alone: constants of operations, and demands for constants.

use super::context::Checker;
use crate::ast;
use crate::codes::Code;
use crate::constexpr::{ConstExpr, ConstOp};
use crate::diagnostic::Diagnostic;
use crate::hir::*;
use crate::types::{Elem, Ty};

/// Larger constants are forgotten: the value is then one of run time.
const MAX_CONSTANT_SIZE: usize = 256;

/// Finishes a scalar i32 or bool with its constant, if its operands have one.
pub(super) fn with_constant(mut e: Expr) -> Expr {
    let known = e.ty == Ty::scalar(Elem::I32) || e.ty == Ty::scalar(Elem::Bool);
    if known && e.constant.is_none() {
        e.constant = constant(&e.kind).filter(|c| c.size() <= MAX_CONSTANT_SIZE).map(Box::new);
    }
    e
}

fn constant(kind: &ExprKind) -> Option<ConstExpr> {
    let of = |e: &Expr| e.constant.as_deref().cloned();
    Some(match kind {
        ExprKind::Unary(op, x) => {
            let value = of(x)?;
            match op {
                UnaryOp::Neg => value.neg(),
                UnaryOp::Not => value.not(),
                UnaryOp::BitNot => ConstExpr::int(-1).sub(&value),
                UnaryOp::Abs => ConstExpr::op(ConstOp::Max, vec![value.clone(), value.neg()]),
                _ => return None,
            }
        }
        ExprKind::Binary(op, a, b) => {
            let (a, b) = (of(a)?, of(b)?);
            let op = match op {
                BinaryOp::Add => return Some(a.add(&b)),
                BinaryOp::Sub => return Some(a.sub(&b)),
                BinaryOp::Mul => return Some(a.mul(&b)),
                BinaryOp::Div => ConstOp::Div,
                BinaryOp::Rem => ConstOp::Rem,
                BinaryOp::CeilDiv => ConstOp::CeilDiv,
                BinaryOp::Min => ConstOp::Min,
                BinaryOp::Max => ConstOp::Max,
                BinaryOp::And => ConstOp::And,
                BinaryOp::Or => ConstOp::Or,
                BinaryOp::Xor => ConstOp::Xor,
                BinaryOp::Shl => ConstOp::Shl,
                BinaryOp::Shr => ConstOp::Shr,
            };
            ConstExpr::op(op, vec![a, b])
        }
        ExprKind::Compare(op, a, b) => {
            let (a, b) = (of(a)?, of(b)?);
            match op {
                CompareOp::Eq => ConstExpr::op(ConstOp::Eq, vec![a, b]),
                CompareOp::Ne => ConstExpr::op(ConstOp::Eq, vec![a, b]).not(),
                CompareOp::Lt => ConstExpr::op(ConstOp::Lt, vec![a, b]),
                CompareOp::Le => ConstExpr::op(ConstOp::Le, vec![a, b]),
                CompareOp::Gt => ConstExpr::op(ConstOp::Lt, vec![b, a]),
                CompareOp::Ge => ConstExpr::op(ConstOp::Le, vec![b, a]),
            }
        }
        ExprKind::Select { cond, then, otherwise } => {
            ConstExpr::op(ConstOp::Select, vec![of(cond)?, of(then)?, of(otherwise)?])
        }
        _ => return None,
    })
}

impl Checker<'_> {
    /// An i32 that the specialization decides; `what` it is for.
    pub(super) fn const_int(&mut self, e: &ast::Expr, what: &str) -> Option<ConstExpr> {
        let value = self.expr(e, Some(Elem::I32.into()))?;
        if value.ty != Ty::scalar(Elem::I32) {
            let found = self.ty_text(&value.ty);
            return self.error(
                Diagnostic::new(Code::NotConst, e.span, format!("{what} must be an i32 constant"))
                    .label(format!("this is {found}"))
                    .help("use whole numbers and constants from the kernel's brackets"),
            );
        }
        match value.constant {
            Some(c) => Some(*c),
            None => self.not_const(&value, what),
        }
    }

    /// A bool that the specialization decides.
    pub(super) fn const_bool(&mut self, e: &ast::Expr, what: &str) -> Option<ConstExpr> {
        let value = self.condition(e, what)?;
        match value.constant {
            Some(c) => Some(*c),
            None => self.not_const(&value, what),
        }
    }

    fn not_const<T>(&mut self, value: &Expr, what: &str) -> Option<T> {
        let value = culprit(value);
        let mut notes = Vec::new();
        let why = match &value.kind {
            ExprKind::Var(id) => {
                let var = self.kernel.var(*id);
                notes.push((var.span, format!("`{}` gets its value here", var.name)));
                if var.mutable { "a `var` is no constant" } else { "known only when the kernel runs" }
            }
            ExprKind::Dim(id) => {
                let dim = self.kernel.dim(*id);
                notes.push((dim.span, format!("`{}` is a dimension, bound at launch", dim.name)));
                "known only at launch"
            }
            ExprKind::ScalarParam(id) => {
                let param = self.kernel.param(*id);
                notes.push((param.span, format!("`{}` is an argument of the launch", param.name)));
                "known only at launch"
            }
            _ => "known only when the kernel runs",
        };
        let mut d = Diagnostic::new(Code::NotConst, value.span, format!("{what} must be a constant"))
            .label(why)
            .help("use whole numbers and constants from the kernel's brackets: `kernel name[N: const = 64](...)`");
        d.notes = notes;
        self.error(d)
    }
}

/// The operand that makes a value no constant.
fn culprit(e: &Expr) -> &Expr {
    let operands: Vec<&Expr> = match &e.kind {
        ExprKind::Unary(_, x) | ExprKind::Cast(x) => vec![x],
        ExprKind::Binary(_, a, b) | ExprKind::Compare(_, a, b) => vec![a, b],
        ExprKind::Select { cond, then, otherwise } => vec![cond, then, otherwise],
        _ => Vec::new(),
    };
    operands.into_iter().find(|x| x.constant.is_none()).map_or(e, culprit)
}
