//! `dot`: types, shapes, accumulator.

use super::context::{Checker, with_notes};
use super::shape::Same;
use crate::ast;
use crate::codes::Code;
use crate::diagnostic::Diagnostic;
use crate::hir::*;
use crate::source::Span;
use crate::types::{Elem, Ty};

impl Checker<'_> {
    pub(super) fn dot(
        &mut self,
        a: &ast::Expr,
        b: &ast::Expr,
        acc: Option<&ast::Expr>,
        span: Span,
    ) -> Option<Expr> {
        let a = self.tile(a, "`dot`");
        let b = self.tile(b, "`dot`");
        let acc = match acc {
            Some(e) => Some(self.expr(e, Some(Elem::F32.into()))?),
            None => None,
        };
        let (a, b) = (a?, b?);
        let notes: Vec<_> = self.origin(&a).into_iter().chain(self.origin(&b)).collect();
        let (at, bt) = (self.ty_text(&a.ty), self.ty_text(&b.ty));
        let half = |e: Elem| matches!(e, Elem::F16 | Elem::Bf16);
        let bad = self.counterexample(a.ty.elem(), half).or(self.counterexample(b.ty.elem(), half));
        if bad.is_some() || a.ty.elem() != b.ty.elem() {
            let (ae, be) = (self.elem_text(a.ty.elem()), self.elem_text(b.ty.elem()));
            let label = match bad {
                Some(bad) if !matches!(bad.name(), n if n == ae || n == be) => {
                    format!("a type here may be {bad}")
                }
                None => "both tiles must have one type; nothing is converted by itself".to_owned(),
                _ => "unsupported dtype combination".to_owned(),
            };
            let d =
                Diagnostic::new(Code::DotTypes, span, format!("`dot` of {ae} and {be}")).label(label).help(
                    "supported: f16 with f16 and bf16 with bf16, summed in f32; convert with `cast(x, bf16)`",
                );
            return self.error(with_notes(d, notes));
        }
        if a.ty.rank() != 2 || b.ty.rank() != 2 {
            let d = Diagnostic::new(Code::DotShape, span, format!("`dot` of {at} and {bt}"))
                .label("needs two tiles with two axes")
                .help("`dot` multiplies [M, K] by [K, N]; a vector becomes a tile with `x[:, None]` or `x[None, :]`");
            return self.error(with_notes(d, notes));
        }
        let (m, k, k2, n) = (&a.ty.shape()[0], &a.ty.shape()[1], &b.ty.shape()[0], &b.ty.shape()[1]);
        let (m, k, k2, n) = (m.clone(), k.clone(), k2.clone(), n.clone());
        let what = "`dot` needs equal inner lengths";
        // A second tile the wrong way round would fit by chance when K == N.
        let swapped = self.same(&k, &n) == Same::Yes;
        let inner = if swapped && self.same(&k, &k2) != Same::Yes {
            Err((0, Same::ByChance))
        } else {
            self.same_shape(std::slice::from_ref(&k), std::slice::from_ref(&k2), what, span, &notes)
        };
        if let Err((_, same)) = inner {
            let advice = if swapped {
                "`dot` multiplies [M, K] by [K, N]; here the second tile is the other way round: `dot(a, trans(b))`"
            } else {
                "`dot` multiplies [M, K] by [K, N]; `trans(x)` swaps the axes of a tile"
            };
            let help = self.lengths_help(&k, &k2, same, advice);
            let (kt, k2t) = (self.kernel.const_text(&k), self.kernel.const_text(&k2));
            let d = Diagnostic::new(
                Code::DotShape,
                span,
                format!("`dot` of {at} and {bt}: inner lengths {kt} and {k2t}"),
            )
            .label("the columns of the first must be the rows of the second")
            .help(help);
            return self.error(with_notes(d, notes));
        }
        let shape = vec![m, n];
        self.legal_tile(&shape, span)?;
        let ty = Ty::new(Elem::F32, shape.clone());
        let acc = match acc {
            Some(acc) => Some(Box::new(self.dot_acc(acc, &ty, notes)?)),
            None => None,
        };
        let kind = ExprKind::Dot { a: Box::new(a), b: Box::new(b), acc };
        Some(Expr { kind, ty, span, constant: None })
    }

    fn dot_acc(&mut self, acc: Expr, ty: &Ty, notes: Vec<(Span, String)>) -> Option<Expr> {
        let (found, wanted) = (self.ty_text(&acc.ty), self.ty_text(ty));
        let origin = self.origin(&acc).into_iter().skip(1);
        let notes: Vec<_> = notes.into_iter().chain(origin).collect();
        if acc.ty.elem() != Elem::F32.into() {
            let d = Diagnostic::new(Code::DotTypes, acc.span, format!("`dot` adds to f32, not to {found}"))
                .label(format!("must be {wanted}"))
                .help("keep the accumulator in f32 and `cast` the final result");
            return self.error(with_notes(d, notes));
        }
        let mut help =
            "the accumulator has the shape of the result: rows of the first tile, columns of the second"
                .to_owned();
        if acc.ty.rank() == 2 {
            let shape = acc.ty.shape().to_vec();
            match self.same_shape(
                &shape,
                ty.shape(),
                "`dot` needs an accumulator of its shape",
                acc.span,
                &notes,
            ) {
                Ok(()) => return Some(acc),
                Err((i, same)) => help = self.lengths_help(&shape[i], &ty.shape()[i], same, &help),
            }
        }
        let d =
            Diagnostic::new(Code::DotShape, acc.span, format!("`dot` gives {wanted}, but `acc` is {found}"))
                .label(format!("must be {wanted}"))
                .help(help);
        self.error(with_notes(d, notes))
    }
}
