//! The builtins, one by one.

use super::constant::with_constant;
use super::context::{Checker, Place, with_notes};
use super::operator::{Class, unary};
use super::shape::{Same, splat, stretch};
use crate::ast;
use crate::builtins::{Builtin, Op};
use crate::codes::Code;
use crate::constexpr::{ConstExpr, Equality};
use crate::diagnostic::Diagnostic;
use crate::hir::*;
use crate::source::Span;
use crate::types::{Elem, ElemRef, Ty};

impl Checker<'_> {
    /// A builtin with its arguments by parameter.
    pub(super) fn builtin(
        &mut self,
        b: &Builtin,
        slots: &[Option<&ast::Expr>],
        hint: Option<ElemRef>,
        span: Span,
    ) -> Option<Vec<Expr>> {
        let arg = |i: usize| slots.get(i).copied().flatten();
        let one = |e: Expr| Some(vec![e]);
        let what = format!("`{}`", b.name);
        let make = |kind, ty, span| Expr { kind, ty, span, constant: None };
        match b.op {
            Op::ProgramId | Op::NumPrograms => self.grid_values(b.op, span),
            Op::Float(op) => {
                let x = self.expr(arg(0)?, hint.or(Some(Elem::F32.into())))?;
                self.class(&x, Class::Float, &what)?;
                one(unary(op, x, span))
            }
            Op::Abs => {
                let x = self.expr(arg(0)?, hint)?;
                self.class(&x, Class::Number, &what)?;
                one(unary(UnaryOp::Abs, x, span))
            }
            Op::Binary(op) => {
                let mut values = self.operands(&[arg(0)?, arg(1)?], hint, &what, span)?.into_iter();
                let (x, y) = (values.next()?, values.next()?);
                let class = if op == BinaryOp::CeilDiv { Class::Int } else { Class::Number };
                self.class(&x, class, &what)?;
                one(self.binary(op, x, y, &what, span, span)?)
            }
            Op::Clamp => {
                let mut values = self.operands(&[arg(0)?, arg(1)?, arg(2)?], hint, &what, span)?.into_iter();
                let (x, lo, hi) = (values.next()?, values.next()?, values.next()?);
                self.class(&x, Class::Number, &what)?;
                let low = self.binary(BinaryOp::Max, x, lo, &what, span, span)?;
                one(self.binary(BinaryOp::Min, low, hi, &what, span, span)?)
            }
            Op::Fma => {
                let mut values = self.operands(&[arg(0)?, arg(1)?, arg(2)?], hint, &what, span)?.into_iter();
                let (x, y, z) = (values.next()?, values.next()?, values.next()?);
                self.class(&x, Class::Float, &what)?;
                let (x, y) = self.broadcast(x, y, &what, span)?;
                let (x, z) = self.broadcast(x, z, &what, span)?;
                let y = stretch(splat(y, z.ty.shape()), z.ty.shape());
                let ty = x.ty.clone();
                one(make(ExprKind::Fma(Box::new(x), Box::new(y), Box::new(z)), ty, span))
            }
            Op::Select => one(self.select(arg(0)?, arg(1)?, arg(2)?, hint, span)?),
            Op::Cast => {
                let elem = self.type_arg(arg(1)?)?;
                let x = self.expr(arg(0)?, None)?;
                if x.ty.elem() == elem {
                    return one(Expr { span, ..x });
                }
                let ty = x.ty.with_elem(elem);
                one(make(ExprKind::Cast(Box::new(x)), ty, span))
            }
            Op::Fill(value) => {
                let elem = self.type_arg(arg(0)?);
                let shape = self.shape_arg(arg(1)?);
                let (elem, shape) = (elem?, shape?);
                let value = if elem == Elem::Bool.into() {
                    self.bool_literal(value != 0, span)
                } else {
                    self.int_literal(i128::from(value), elem, span)?
                };
                one(splat(value, &shape))
            }
            Op::Full => {
                let elem = self.type_arg(arg(1)?);
                let shape = self.shape_arg(arg(2)?);
                let (elem, shape) = (elem?, shape?);
                let value = self.expr(arg(0)?, Some(elem))?;
                if value.ty != Ty::Scalar(elem) {
                    let (found, wanted) = (self.ty_text(&value.ty), self.elem_text(elem));
                    let d = Diagnostic::new(
                        Code::TypeMismatch,
                        value.span,
                        format!("`full` of {wanted} with a value {found}"),
                    )
                    .label(format!("must be a scalar {wanted}"))
                    .help(format!("convert it: `cast(value, {wanted})`"));
                    let notes = self.origin(&value).into_iter().skip(1).collect::<Vec<_>>();
                    return self.error(with_notes(d, notes));
                }
                one(Expr { span, ..splat(value, &shape) })
            }
            Op::Iota => {
                let len = self.const_int(arg(0)?, "the length of a tile")?;
                let shape = vec![len];
                self.legal_tile(&shape, span)?;
                one(make(ExprKind::Iota, Ty::new(Elem::I32, shape), span))
            }
            Op::Reduce(op) => {
                let x = self.tile(arg(0)?, &what)?;
                self.class(&x, Class::Number, &what)?;
                let axis = self.axis(arg(1)?, &x, "axis")?;
                let mut shape = x.ty.shape().to_vec();
                shape.remove(axis);
                let ty = Ty::new(x.ty.elem(), shape);
                one(make(ExprKind::Reduce { op, value: Box::new(x), axis }, ty, span))
            }
            Op::Trans => {
                let x = self.tile(arg(0)?, &what)?;
                if x.ty.rank() != 2 {
                    let n = x.ty.rank();
                    let d = Diagnostic::new(
                        Code::RankMismatch,
                        x.span,
                        format!("`trans` swaps the two axes of a tile; this one has {n}"),
                    )
                    .label(format!("this is {}", self.ty_text(&x.ty)))
                    .help("to reorder other numbers of axes: `permute(x, [0, 2, 1])`");
                    return self.error(d);
                }
                one(permute(x, vec![1, 0], span))
            }
            Op::Permute => {
                let x = self.tile(arg(0)?, &what)?;
                let order = self.order(arg(1)?, &x)?;
                one(permute(x, order, span))
            }
            Op::Reshape => {
                let x = self.tile(arg(0)?, &what);
                let shape = self.shape_arg(arg(1)?);
                let (x, shape) = (x?, shape?);
                self.same_count(&x, &shape, span)?;
                let ty = Ty::new(x.ty.elem(), shape);
                one(make(ExprKind::Reshape(Box::new(x)), ty, span))
            }
            Op::BroadcastTo => {
                let x = self.expr(arg(0)?, hint);
                let shape = self.shape_arg(arg(1)?);
                let (x, shape) = (x?, shape?);
                if x.ty.is_scalar() {
                    return one(Expr { span, ..splat(x, &shape) });
                }
                let target = make(ExprKind::Iota, Ty::new(x.ty.elem(), shape.clone()), arg(1)?.span);
                let (x, _) = self.broadcast(x, target, &what, span)?;
                if let Some(axis) =
                    x.ty.shape().iter().zip(&shape).position(|(a, b)| self.same(a, b) == Same::No)
                {
                    let (a, b) = (self.shape_text(x.ty.shape()), self.shape_text(&shape));
                    return self.error(
                        Diagnostic::new(Code::ShapeMismatch, span, format!("{a} does not broadcast to {b}"))
                            .label(format!("axis {axis} would shrink"))
                            .help("only axes of length 1 are repeated"),
                    );
                }
                one(Expr { span, ..x })
            }
            Op::Dot => one(self.dot(arg(0)?, arg(1)?, arg(2), span)?),
        }
    }

    fn grid_values(&mut self, op: Op, span: Span) -> Option<Vec<Expr>> {
        let n = self.kernel.grid.len();
        if self.place != Place::Body || !self.functions.is_empty() {
            return self.error(
                Diagnostic::new(
                    Code::NotAValue,
                    span,
                    "the place in the grid is known only in the body of a kernel",
                )
                .label("not here")
                .help("take it apart in the kernel and pass what is needed: `let (i, j) = program_id();`"),
            );
        }
        let make = |axis: usize| {
            let axis = axis as u8;
            let kind =
                if op == Op::ProgramId { ExprKind::ProgramId(axis) } else { ExprKind::NumPrograms(axis) };
            Expr { kind, ty: Ty::scalar(Elem::I32), span, constant: None }
        };
        Some((0..n).map(make).collect())
    }

    /// A name of an element type.
    fn type_arg(&mut self, e: &ast::Expr) -> Option<ElemRef> {
        if let ast::ExprKind::Name(name) = &e.kind {
            return self.elem(name, e.span);
        }
        self.error(
            Diagnostic::new(Code::UnknownType, e.span, "a type is needed here")
                .label("not a type")
                .help("name one, such as `f32`, or a type parameter of the kernel"),
        )
    }

    pub(super) fn tile(&mut self, e: &ast::Expr, what: &str) -> Option<Expr> {
        let x = self.expr(e, None)?;
        if !x.ty.is_scalar() {
            return Some(x);
        }
        let found = self.ty_text(&x.ty);
        let d = Diagnostic::new(Code::OperandType, x.span, format!("{what} takes a tile"))
            .label(format!("this is a scalar {found}"))
            .help("tiles come from slices `x[i :+ N]`, `iota(N)`, `zeros(f32, [N])` and `full(value, f32, [N])`");
        let notes = self.origin(&x).into_iter().skip(1).collect::<Vec<_>>();
        self.error(with_notes(d, notes))
    }

    /// The number of an axis of a tile.
    fn axis(&mut self, e: &ast::Expr, x: &Expr, what: &str) -> Option<usize> {
        let value = self.const_int(e, &format!("the {what}"))?;
        let rank = x.ty.rank();
        let Some(v) = value.as_int() else {
            return self.error(
                Diagnostic::new(Code::NotConst, e.span, format!("the {what} must be a number"))
                    .label("depends on constants")
                    .help("the type of the result depends on it: write 0, 1, ..."),
            );
        };
        match usize::try_from(v) {
            Ok(axis) if axis < rank => Some(axis),
            _ => {
                let has = if rank == 1 {
                    "1 axis: 0".to_owned()
                } else {
                    format!("{rank} axes: 0 to {}", rank - 1)
                };
                let d = Diagnostic::new(Code::AxisRange, e.span, format!("there is no axis {v}"))
                    .label(format!("{} has {has}", self.ty_text(&x.ty)))
                    .help("axes count from 0: in a tile [rows, columns] `axis = 1` runs along each row");
                let notes = self.origin(x);
                self.error(with_notes(d, notes))
            }
        }
    }

    fn order(&mut self, e: &ast::Expr, x: &Expr) -> Option<Vec<usize>> {
        let ast::ExprKind::List(items) = &e.kind else {
            return self.error(
                Diagnostic::new(Code::ArgCount, e.span, "the order is a list of axes")
                    .label("not a list")
                    .help("write `permute(x, [1, 0, 2])`"),
            );
        };
        let axes: Option<Vec<usize>> = items.iter().map(|i| self.axis(i, x, "axis")).collect();
        let axes = axes?;
        let complete = axes.len() == x.ty.rank() && (0..axes.len()).all(|a| axes.contains(&a));
        if complete {
            return Some(axes);
        }
        let found = self.ty_text(&x.ty);
        self.error(
            Diagnostic::new(Code::AxisRange, e.span, "the order must name every axis once")
                .label(format!("of {found}"))
                .help(format!("list the numbers 0 to {} in the new order", x.ty.rank().saturating_sub(1))),
        )
    }

    fn same_count(&mut self, x: &Expr, shape: &[ConstExpr], span: Span) -> Option<()> {
        let count = |s: &[ConstExpr]| s.iter().fold(ConstExpr::int(1), |n, l| n.mul(l));
        let (a, b) = (count(x.ty.shape()), count(shape));
        let notes = self.origin(x);
        match a.compare(&b) {
            Equality::Always => Some(()),
            Equality::Depends => {
                let what = "`reshape` keeps the number of elements".to_owned();
                self.oblige(ObligationKind::Equal { lhs: a, rhs: b, what }, span, notes);
                Some(())
            }
            Equality::Never => {
                let (from, to) = (self.shape_text(x.ty.shape()), self.shape_text(shape));
                let (a, b) = (self.kernel.const_text(&a), self.kernel.const_text(&b));
                let d = Diagnostic::new(Code::ShapeMismatch, span, format!("`reshape` of {from} to {to}"))
                    .label(format!("{a} elements cannot become {b}"))
                    .help("the number of elements must stay the same");
                self.error(with_notes(d, notes))
            }
        }
    }

    fn select(
        &mut self,
        cond: &ast::Expr,
        a: &ast::Expr,
        b: &ast::Expr,
        hint: Option<ElemRef>,
        span: Span,
    ) -> Option<Expr> {
        let what = "`select`";
        let cond_value = self.expr(cond, None);
        let values = self.operands(&[a, b], hint, what, span);
        let cond = cond_value?;
        if cond.ty.elem() != Elem::Bool.into() {
            let found = self.ty_text(&cond.ty);
            return self.error(
                Diagnostic::new(Code::CondNotBool, cond.span, "the condition of `select` must be bool")
                    .label(format!("this is {found}"))
                    .help("compare it with something: `x != 0`"),
            );
        }
        let mut values = values?.into_iter();
        let (a, b) = (values.next()?, values.next()?);
        let (a, b) = self.broadcast(a, b, what, span)?;
        let (cond, a) = self.broadcast(cond, a, what, span)?;
        let b = stretch(splat(b, a.ty.shape()), a.ty.shape());
        let ty = a.ty.clone();
        let kind = ExprKind::Select { cond: Box::new(cond), then: Box::new(a), otherwise: Box::new(b) };
        Some(with_constant(Expr { kind, ty, span, constant: None }))
    }
}

fn permute(x: Expr, order: Vec<usize>, span: Span) -> Expr {
    let shape = order.iter().map(|&a| x.ty.shape()[a].clone()).collect();
    let ty = Ty::new(x.ty.elem(), shape);
    Expr { kind: ExprKind::Permute { value: Box::new(x), order }, ty, span, constant: None }
}
