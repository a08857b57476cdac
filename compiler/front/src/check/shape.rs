//! Shapes: equality, broadcasting, legal tiles.

use super::context::{Checker, with_notes};
use crate::ast;
use crate::codes::Code;
use crate::constexpr::{Atom, ConstExpr, Equality};
use crate::diagnostic::Diagnostic;
use crate::hir::*;
use crate::source::Span;
use crate::types::{Shape, Ty};

/// What `Checker::same` found about two lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Same {
    Yes,
    No,
    /// Two different constants: equal only by chance.
    ByChance,
    /// An obligation for the specialization.
    Later,
}

impl Checker<'_> {
    /// Compares two lengths. Two constants with different names count as different, so that tiles do not fit only because
    /// of the values somebody gave; `static_assert(A == B)` says that they are meant to be equal.
    pub(super) fn same(&self, a: &ConstExpr, b: &ConstExpr) -> Same {
        match a.compare(b) {
            Equality::Always => return Same::Yes,
            Equality::Never => return Same::No,
            Equality::Depends => {}
        }
        // Lengths are positive, so `n` is never `2 * n`.
        let terms = |e: &ConstExpr| e.terms().map(|(atoms, _)| atoms.to_vec()).collect::<Vec<_>>();
        if let ([x], [y]) = (terms(a).as_slice(), terms(b).as_slice())
            && x == y
        {
            return Same::No;
        }
        let (d, n) = (a.sub(b), b.sub(a));
        if self.facts.iter().any(|f| *f == d || *f == n) {
            return Same::Yes;
        }
        match (a.as_atom(), b.as_atom()) {
            (Some(Atom::Const(_)), Some(Atom::Const(_))) => Same::ByChance,
            _ => Same::Later,
        }
    }

    /// Demands equal shapes of the same rank. On failure the index of the axis and what is known about it.
    pub(super) fn same_shape(
        &mut self,
        a: &[ConstExpr],
        b: &[ConstExpr],
        what: &str,
        span: Span,
        notes: &[(Span, String)],
    ) -> Result<(), (usize, Same)> {
        for (i, (x, y)) in a.iter().zip(b).enumerate() {
            match self.same(x, y) {
                Same::Yes => {}
                Same::Later => {
                    let kind =
                        ObligationKind::Equal { lhs: x.clone(), rhs: y.clone(), what: what.to_owned() };
                    self.oblige(kind, span, notes.to_vec());
                }
                bad => return Err((i, bad)),
            }
        }
        Ok(())
    }

    /// The help line for two lengths that are not the same.
    pub(super) fn lengths_help(&self, a: &ConstExpr, b: &ConstExpr, same: Same, otherwise: &str) -> String {
        let (a, b) = (self.kernel.const_text(a), self.kernel.const_text(b));
        match same {
            Same::ByChance => {
                format!(
                    "{otherwise}; if {a} and {b} are meant to be equal, say so above: `static_assert({a} == {b});`"
                )
            }
            _ => otherwise.to_owned(),
        }
    }

    /// Makes two operands the same shape: scalars are spread, axes of length 1 repeated.
    pub(super) fn broadcast(&mut self, a: Expr, b: Expr, what: &str, span: Span) -> Option<(Expr, Expr)> {
        if a.ty.is_scalar() || b.ty.is_scalar() {
            let shape = if a.ty.is_scalar() { b.ty.shape().to_vec() } else { a.ty.shape().to_vec() };
            return Some((splat(a, &shape), splat(b, &shape)));
        }
        if a.ty.rank() != b.ty.rank() {
            return self.rank_mismatch(&a, &b, what, span);
        }
        let one = ConstExpr::int(1);
        let mut shape: Shape = Vec::new();
        for (i, (x, y)) in a.ty.shape().to_vec().iter().zip(b.ty.shape().to_vec().iter()).enumerate() {
            if x == y || *y == one {
                shape.push(x.clone());
                continue;
            }
            if *x == one {
                shape.push(y.clone());
                continue;
            }
            let same = self.same(x, y);
            match same {
                Same::Yes => {}
                Same::Later => {
                    let mut notes = self.origin(&a);
                    notes.extend(self.origin(&b));
                    let what = format!("{what} needs equal lengths along axis {i}");
                    self.oblige(ObligationKind::Equal { lhs: x.clone(), rhs: y.clone(), what }, span, notes);
                }
                Same::No | Same::ByChance => {
                    let help = self.lengths_help(
                        x,
                        y,
                        same,
                        "shapes must be equal, or 1 along an axis made by `None`",
                    );
                    let (xt, yt) = (self.kernel.const_text(x), self.kernel.const_text(y));
                    let (at, bt) = (self.shape_text(a.ty.shape()), self.shape_text(b.ty.shape()));
                    let d =
                        Diagnostic::new(Code::ShapeMismatch, span, format!("{what} of shapes {at} and {bt}"))
                            .label(format!("along axis {i}: {xt} against {yt}"))
                            .help(help);
                    let notes: Vec<_> = self.origin(&a).into_iter().chain(self.origin(&b)).collect();
                    return self.error(with_notes(d, notes));
                }
            }
            shape.push(x.clone());
        }
        if shape != a.ty.shape() && shape != b.ty.shape() {
            self.legal_tile(&shape, span)?;
        }
        Some((stretch(a, &shape), stretch(b, &shape)))
    }

    fn rank_mismatch<T>(&mut self, a: &Expr, b: &Expr, what: &str, span: Span) -> Option<T> {
        let (small, large) = if a.ty.rank() < b.ty.rank() { (a, b) } else { (b, a) };
        let name = match small.kind {
            ExprKind::Var(id) => self.kernel.var(id).name.clone(),
            _ => "x".to_owned(),
        };
        let help = if small.ty.rank() == 1 && large.ty.rank() == 2 {
            let len = &small.ty.shape()[0];
            let fits: Vec<bool> = large.ty.shape().iter().map(|l| self.same(len, l) == Same::Yes).collect();
            match fits.as_slice() {
                [true, false] => format!("one value for each row: `{name}[:, None]`"),
                [false, true] => format!("one value for each column: `{name}[None, :]`"),
                _ => format!(
                    "say along which axis it goes: `{name}[:, None]` (one a row) or `{name}[None, :]` (one a column)"
                ),
            }
        } else {
            "give the smaller one axes of length 1 with `None`, as in `x[:, None]`".to_owned()
        };
        let (at, bt) = (self.shape_text(a.ty.shape()), self.shape_text(b.ty.shape()));
        let d = Diagnostic::new(
            Code::RankMismatch,
            span,
            format!("{what} of shapes {at} and {bt}: the number of axes differs"),
        )
        .label("axes are never added by themselves")
        .help(help);
        let notes: Vec<_> = self.origin(a).into_iter().chain(self.origin(b)).collect();
        self.error(with_notes(d, notes))
    }

    /// `[a, b]` as the shape of a tile.
    pub(super) fn shape_arg(&mut self, e: &ast::Expr) -> Option<Shape> {
        let ast::ExprKind::List(items) = &e.kind else {
            return self.error(
                Diagnostic::new(Code::ArgCount, e.span, "a shape is a list of lengths")
                    .label("not a list")
                    .help("write it in brackets: `[BM, D]`, also with one length: `[BM]`"),
            );
        };
        if items.is_empty() {
            return self.error(
                Diagnostic::new(Code::TileLength, e.span, "a tile has at least one axis")
                    .label("no lengths")
                    .help("a single value is a scalar: write it without a shape"),
            );
        }
        let lens: Vec<Option<ConstExpr>> = items.iter().map(|i| self.const_int(i, "a tile length")).collect();
        let shape: Shape = lens.into_iter().collect::<Option<_>>()?;
        self.legal_tile(&shape, e.span)?;
        Some(shape)
    }

    /// Demands positive lengths and not too many elements.
    pub(super) fn legal_tile(&mut self, shape: &[ConstExpr], span: Span) -> Option<()> {
        let known: Vec<i64> = shape.iter().filter_map(ConstExpr::as_int).collect();
        let too_many =
            known.iter().try_fold(1i64, |n, &l| n.checked_mul(l)).is_none_or(|n| n > MAX_TILE_ELEMENTS);
        if let Some(bad) = known.iter().find(|&&l| l < 1) {
            return self.error(
                Diagnostic::new(Code::TileLength, span, format!("a tile cannot have the length {bad}"))
                    .label(format!("a tile {}", self.shape_text(shape)))
                    .help("every length is at least 1"),
            );
        }
        if too_many {
            return self.error(
                Diagnostic::new(Code::TileLength, span, "this tile is too large")
                    .label(format!("a tile {}", self.shape_text(shape)))
                    .help(format!("a tile has at most {MAX_TILE_ELEMENTS} elements; loop over smaller ones")),
            );
        }
        let demand = (shape.to_vec(), self.guards.clone());
        let everywhere = (shape.to_vec(), Vec::new());
        let new = known.len() < shape.len() && !self.shapes_seen.contains(&everywhere);
        if new && self.shapes_seen.insert(demand) {
            self.oblige(ObligationKind::TileShape(shape.to_vec()), span, Vec::new());
        }
        Some(())
    }
}

/// A scalar spread over a shape; anything else as it is.
pub(super) fn splat(e: Expr, shape: &[ConstExpr]) -> Expr {
    if !e.ty.is_scalar() || shape.is_empty() {
        return e;
    }
    let ty = Ty::new(e.ty.elem(), shape.to_vec());
    Expr { span: e.span, ty, kind: ExprKind::Splat(Box::new(e)), constant: None }
}

/// Axes of length 1 repeated to the shape.
pub(super) fn stretch(e: Expr, shape: &[ConstExpr]) -> Expr {
    let one = ConstExpr::int(1);
    let grows = e.ty.shape().iter().zip(shape).any(|(x, y)| *x == one && *y != one);
    if !grows {
        return e;
    }
    let ty = Ty::new(e.ty.elem(), shape.to_vec());
    Expr { span: e.span, ty, kind: ExprKind::Broadcast(Box::new(e)), constant: None }
}
