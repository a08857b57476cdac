//! Operators: the types they take, and the elementwise operations that builtins share with them.

use super::constant::with_constant;
use super::context::{Checker, with_notes};
use super::literal;
use crate::ast;
use crate::codes::Code;
use crate::diagnostic::Diagnostic;
use crate::hir::*;
use crate::source::Span;
use crate::types::{Elem, ElemRef, Ty};

/// Sets of element types that operations take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// f16, bf16, f32, f64
    Float,
    Int,
    /// `Float` and `Int`
    Number,
    Bool,
    /// `Int` and `Bool`
    Bits,
    /// All but fp8
    Comparable,
}

impl Class {
    pub(super) fn has(self, e: Elem) -> bool {
        match self {
            Class::Float => e.is_float(),
            Class::Int => e.is_int(),
            Class::Number => e.is_float() || e.is_int(),
            Class::Bool => e == Elem::Bool,
            Class::Bits => e.is_int() || e == Elem::Bool,
            Class::Comparable => !e.is_fp8(),
        }
    }

    fn text(self) -> &'static str {
        match self {
            Class::Float => "floats (f16, bf16, f32, f64)",
            Class::Int => "integers",
            Class::Number => "integers and floats (f16, bf16, f32, f64)",
            Class::Bool => "bool",
            Class::Bits => "integers and bool",
            Class::Comparable => "all types but e4m3 and e5m2",
        }
    }
}

impl Checker<'_> {
    /// Demands an element type of the class.
    pub(super) fn class(&mut self, e: &Expr, class: Class, what: &str) -> Option<()> {
        let elem = e.ty.elem();
        let Some(bad) = self.counterexample(elem, |x| class.has(x)) else { return Some(()) };
        let found = match elem {
            ElemRef::Concrete(_) => format!("this is {}", self.ty_text(&e.ty)),
            ElemRef::Param(_) => format!("this is {}, which may be {bad}", self.ty_text(&e.ty)),
        };
        let help = if bad.is_fp8() {
            format!("{bad} is only loaded, stored and cast; write `cast(x, f32)` first")
        } else if class == Class::Float {
            "convert it first: `cast(x, f32)`".to_owned()
        } else if class == Class::Bool {
            "compare it with something: `x != 0`".to_owned()
        } else if class == Class::Int && bad.is_float() {
            "convert it first: `cast(x, i32)` truncates".to_owned()
        } else {
            "convert it first with `cast`".to_owned()
        };
        let mut d = Diagnostic::new(Code::OperandType, e.span, format!("{what} takes {}", class.text()))
            .label(found)
            .help(help);
        d.notes = self.origin(e).into_iter().skip(1).collect();
        self.error(d)
    }

    /// Checks operands together: literals take the type of the others, and all must have one type.
    pub(super) fn operands(
        &mut self,
        args: &[&ast::Expr],
        hint: Option<ElemRef>,
        what: &str,
        span: Span,
    ) -> Option<Vec<Expr>> {
        let mut values: Vec<Option<Expr>> = args.iter().map(|_| None).collect();
        let mut failed = false;
        let mut elem = None;
        for (slot, arg) in values.iter_mut().zip(args).filter(|(_, a)| !literal::is_open(a)) {
            *slot = self.expr(arg, hint);
            failed |= slot.is_none();
            elem = elem.or(slot.as_ref().map(|e| e.ty.elem()));
        }
        if failed {
            return None;
        }
        let open = || {
            if args.iter().any(|a| literal::has_float(a)) { Elem::F32.into() } else { Elem::I32.into() }
        };
        let target = elem.or(hint).unwrap_or_else(open);
        for (slot, arg) in values.iter_mut().zip(args) {
            if slot.is_none() {
                *slot = self.expr(arg, Some(target));
            }
        }
        let values: Vec<Expr> = values.into_iter().collect::<Option<_>>()?;
        let first = &values[0];
        match values.iter().find(|v| v.ty.elem() != first.ty.elem()) {
            None => Some(values),
            Some(other) => {
                let (a, b) = (first.clone(), other.clone());
                self.type_mismatch(&a, &b, what, span)
            }
        }
    }

    pub(super) fn type_mismatch<T>(&mut self, a: &Expr, b: &Expr, what: &str, span: Span) -> Option<T> {
        let (at, bt) = (self.elem_text(a.ty.elem()), self.elem_text(b.ty.elem()));
        let d = Diagnostic::new(Code::TypeMismatch, span, format!("{what} of {at} and {bt}"))
            .label("both sides must have one type; nothing is converted by itself")
            .help(format!("convert one of them: `cast(x, {at})` or `cast(x, {bt})`"));
        let notes: Vec<_> = self.origin(a).into_iter().chain(self.origin(b)).collect();
        self.error(with_notes(d, notes))
    }

    pub(super) fn unary_expr(
        &mut self,
        op: ast::UnaryOp,
        inner: &ast::Expr,
        hint: Option<ElemRef>,
        span: Span,
    ) -> Option<Expr> {
        if op == ast::UnaryOp::Neg {
            let elem = hint.unwrap_or_else(|| literal::default_elem(inner));
            match &inner.kind {
                ast::ExprKind::Int(v) => return self.int_literal(-i128::from(*v), elem, span),
                ast::ExprKind::Float(v) => return self.float_literal(-v, elem, span),
                ast::ExprKind::Name(name) if name == "inf" => {
                    return self.float_literal(f64::NEG_INFINITY, elem, span);
                }
                _ => {}
            }
        }
        let value = self.expr(inner, hint)?;
        let (op, class, what) = match op {
            ast::UnaryOp::Neg => (UnaryOp::Neg, Class::Number, "`-`"),
            ast::UnaryOp::Not => (UnaryOp::Not, Class::Bool, "`!`"),
            ast::UnaryOp::BitNot => (UnaryOp::BitNot, Class::Int, "`~`"),
        };
        self.class(&value, class, what)?;
        Some(unary(op, value, span))
    }

    pub(super) fn binary_expr(
        &mut self,
        op: ast::BinaryOp,
        at: Span,
        args: [&ast::Expr; 2],
        hint: Option<ElemRef>,
        span: Span,
    ) -> Option<Expr> {
        use ast::BinaryOp as B;
        let what = format!("`{}`", op.sign());
        let compare = match op {
            B::Eq => Some(CompareOp::Eq),
            B::Ne => Some(CompareOp::Ne),
            B::Lt => Some(CompareOp::Lt),
            B::Le => Some(CompareOp::Le),
            B::Gt => Some(CompareOp::Gt),
            B::Ge => Some(CompareOp::Ge),
            _ => None,
        };
        let hint = if compare.is_some() { None } else { hint };
        let mut values = self.operands(&args, hint, &what, at)?.into_iter();
        let (a, b) = (values.next()?, values.next()?);
        if let Some(op) = compare {
            let equality = matches!(op, CompareOp::Eq | CompareOp::Ne);
            let class = if equality { Class::Comparable } else { Class::Number };
            self.class(&a, class, &what)?;
            let (a, b) = self.broadcast(a, b, &what, at)?;
            let ty = a.ty.with_elem(Elem::Bool);
            let kind = ExprKind::Compare(op, Box::new(a), Box::new(b));
            return Some(with_constant(Expr { kind, ty, span, constant: None }));
        }
        let (op, class) = match op {
            B::Add => (BinaryOp::Add, Class::Number),
            B::Sub => (BinaryOp::Sub, Class::Number),
            B::Mul => (BinaryOp::Mul, Class::Number),
            B::Div => (BinaryOp::Div, Class::Number),
            B::Rem => (BinaryOp::Rem, Class::Number),
            B::AndAnd => (BinaryOp::And, Class::Bool),
            B::OrOr => (BinaryOp::Or, Class::Bool),
            B::And => (BinaryOp::And, Class::Bits),
            B::Or => (BinaryOp::Or, Class::Bits),
            B::Xor => (BinaryOp::Xor, Class::Bits),
            B::Shl => (BinaryOp::Shl, Class::Int),
            // Comparisons are done above.
            _ => (BinaryOp::Shr, Class::Int),
        };
        self.class(&a, class, &what)?;
        self.binary(op, a, b, &what, at, span)
    }

    /// An elementwise operation on two operands of one type.
    pub(super) fn binary(
        &mut self,
        op: BinaryOp,
        a: Expr,
        b: Expr,
        what: &str,
        at: Span,
        span: Span,
    ) -> Option<Expr> {
        let (a, b) = self.broadcast(a, b, what, at)?;
        let ty = a.ty.clone();
        let kind = ExprKind::Binary(op, Box::new(a), Box::new(b));
        Some(with_constant(Expr { kind, ty, span, constant: None }))
    }

    /// A scalar bool.
    pub(super) fn condition(&mut self, e: &ast::Expr, what: &str) -> Option<Expr> {
        let value = self.expr(e, None)?;
        if value.ty == Ty::scalar(Elem::Bool) {
            return Some(value);
        }
        let found = self.ty_text(&value.ty);
        let help = if value.ty.elem() == Elem::Bool.into() {
            "for each element by itself there is `select(cond, a, b)`"
        } else {
            "compare it with something: `x != 0`, `n > 0`"
        };
        let mut d = Diagnostic::new(Code::CondNotBool, e.span, format!("{what} must be a single bool"))
            .label(format!("this is {found}"))
            .help(help);
        d.notes = self.origin(&value).into_iter().skip(1).collect();
        self.error(d)
    }
}

/// An elementwise operation on one operand.
pub(super) fn unary(op: UnaryOp, value: Expr, span: Span) -> Expr {
    let ty = value.ty.clone();
    with_constant(Expr { kind: ExprKind::Unary(op, Box::new(value)), ty, span, constant: None })
}
