//! Indices: loads and stores of tensors, new axes of tiles.

use super::context::{Checker, Entity, Place, with_notes};
use super::shape::splat;
use crate::ast::{self, IndexKind};
use crate::codes::Code;
use crate::diagnostic::Diagnostic;
use crate::hir::*;
use crate::source::Span;
use crate::types::{Elem, ElemRef, Shape, Ty};

impl Checker<'_> {
    /// `x[...]`: a load if `x` is a tensor, else new axes.
    pub(super) fn index_expr(
        &mut self,
        base: &ast::Expr,
        items: &[ast::IndexItem],
        span: Span,
    ) -> Option<Expr> {
        if let ast::ExprKind::Name(name) = &base.kind {
            match self.lookup(name).cloned() {
                Some((Entity::Param(id), _)) if self.is_tensor(id) => {
                    return self.load(id, base.span, items, span);
                }
                None if self.items.functions.contains_key(name.as_str()) => {
                    return self.error(
                        Diagnostic::new(Code::NotAValue, span, format!("`{name}` is a function"))
                            .label("not called")
                            .help(format!("call it: `{name}[...](...)`")),
                    );
                }
                _ => {}
            }
        }
        let value = self.expr(base, None)?;
        self.new_axes(value, items, span)
    }

    fn is_tensor(&self, id: ParamId) -> bool {
        matches!(self.kernel.param(id).kind, ParamKind::Tensor { .. })
    }

    fn load(&mut self, id: ParamId, at: Span, items: &[ast::IndexItem], span: Span) -> Option<Expr> {
        let param = self.kernel.param(id).clone();
        let ParamKind::Tensor { elem, out, .. } = param.kind else { return None };
        if self.place != Place::Body {
            return self.error(
                Diagnostic::new(Code::BadGrid, span, "tensors cannot be read here")
                    .label("evaluated before the launch")
                    .help("use dimensions, constants and scalar parameters"),
            );
        }
        if out {
            return self.error(
                Diagnostic::new(
                    Code::Direction,
                    at,
                    format!("`{}` is an output; it cannot be read", param.name),
                )
                .label("read here")
                .note(param.span, "declared `out` here")
                .help("keep the value in a variable, or pass the old contents as another parameter"),
            );
        }
        let (index, shape) = self.tensor_index(id, items, span)?;
        Some(Expr {
            kind: ExprKind::Load { tensor: id, index },
            ty: Ty::new(elem, shape),
            span,
            constant: None,
        })
    }

    /// The items of an index of a tensor, and the shape they select.
    fn tensor_index(
        &mut self,
        id: ParamId,
        items: &[ast::IndexItem],
        span: Span,
    ) -> Option<(Vec<IndexItem>, Shape)> {
        let param = self.kernel.param(id).clone();
        let ParamKind::Tensor { dims, .. } = param.kind else { return None };
        if items.len() != dims.len() {
            let has = if dims.len() == 1 { "1 axis".to_owned() } else { format!("{} axes", dims.len()) };
            let d = Diagnostic::new(
                Code::IndexCount,
                span,
                format!(
                    "`{}` has {has} {}, but {} given",
                    param.name,
                    self.shape_text(&dims),
                    indices(items.len())
                ),
            )
            .label(format!("{} for {has}", indices(items.len())))
            .note(param.span, "declared here")
            .help("one for each axis: `i` takes one position, `start :+ length` a range, `:` a whole axis");
            return self.error(d);
        }
        let mut index = Vec::new();
        let mut shape = Shape::new();
        let mut failed = false;
        for (axis, (item, len)) in items.iter().zip(&dims).enumerate() {
            match &item.kind {
                IndexKind::At(e) => match self.position(e, "an index") {
                    Some(e) => index.push(IndexItem::At(e)),
                    None => failed = true,
                },
                IndexKind::Slice(start, n) => {
                    let start = self.position(start, "the start of a slice");
                    let len = self.const_int(n, "the length of a slice");
                    match (start, len) {
                        (Some(start), Some(len)) => {
                            shape.push(len.clone());
                            index.push(IndexItem::Slice { start, len, span: item.span });
                        }
                        _ => failed = true,
                    }
                }
                IndexKind::Full if len.has_dim() => {
                    let text = self.kernel.const_text(len);
                    self.diagnostics.push(
                        Diagnostic::new(
                            Code::NotConst,
                            item.span,
                            format!("`:` takes a whole axis, but the length {text} of axis {axis} is known only at launch"),
                        )
                        .label("the length of a tile must be a constant")
                        .note(param.span, format!("axis {axis} has length {text}"))
                        .help("take a range of constant length: `start :+ length`; what lies past the end reads as 0"),
                    );
                    failed = true;
                }
                IndexKind::Full => {
                    shape.push(len.clone());
                    index.push(IndexItem::Full { len: len.clone(), span: item.span });
                }
                IndexKind::NewAxis => {
                    self.diagnostics.push(
                        Diagnostic::new(
                            Code::BadIndex,
                            item.span,
                            "`None` adds an axis to a tile, not to a tensor in memory",
                        )
                        .label("not here")
                        .help("load first, then add the axis: `let t = x[i :+ N]; t[:, None]`"),
                    );
                    failed = true;
                }
            }
        }
        if failed {
            return None;
        }
        if !shape.is_empty() {
            self.legal_tile(&shape, span)?;
        }
        Some((index, shape))
    }

    /// An integer scalar.
    pub(super) fn position(&mut self, e: &ast::Expr, what: &str) -> Option<Expr> {
        let value = self.expr(e, Some(Elem::I32.into()))?;
        let elem_ok = self.counterexample(value.ty.elem(), Elem::is_int).is_none();
        if elem_ok && value.ty.is_scalar() {
            return Some(value);
        }
        let found = self.ty_text(&value.ty);
        let help = if elem_ok {
            "reading at a tile of positions (a gather) is not available yet; a range is `start :+ length`"
        } else {
            "convert it: `cast(x, i32)`"
        };
        let mut d = Diagnostic::new(Code::BadIndex, e.span, format!("{what} must be a single integer"))
            .label(format!("this is {found}"))
            .help(help);
        d.notes = self.origin(&value).into_iter().skip(1).collect();
        self.error(d)
    }

    /// `x[:, None]`
    fn new_axes(&mut self, value: Expr, items: &[ast::IndexItem], span: Span) -> Option<Expr> {
        let found = self.ty_text(&value.ty);
        if value.ty.is_scalar() {
            let d = Diagnostic::new(Code::BadIndex, span, format!("a scalar has no axes; this is {found}"))
                .label("indexed here")
                .help("only tensors and tiles are indexed; a scalar fits any tile by itself");
            let notes = self.origin(&value);
            return self.error(with_notes(d, notes));
        }
        if let Some(bad) = items.iter().find(|i| matches!(i.kind, IndexKind::At(_) | IndexKind::Slice(..))) {
            let d = Diagnostic::new(Code::BadIndex, bad.span, "the elements of a tile cannot be picked out")
                .label("only `:` and `None` here")
                .help("load what you need from the tensor, or reduce: `sum(select(iota(N) == i, x, 0.0), axis = 0)`");
            let notes = self.origin(&value);
            return self.error(with_notes(d, notes));
        }
        let kept = items.iter().filter(|i| i.kind == IndexKind::Full).count();
        if kept != value.ty.rank() {
            let d = Diagnostic::new(
                Code::IndexCount,
                span,
                format!("this tile has {}, but {kept} `:` given", axes(value.ty.rank())),
            )
            .label(format!("one `:` for each axis of {found}"))
            .help("`:` keeps an axis, `None` adds one: `x[:, None]`, `x[None, :]`");
            let notes = self.origin(&value);
            return self.error(with_notes(d, notes));
        }
        let mut value = value;
        for (axis, item) in items.iter().enumerate() {
            if item.kind == IndexKind::NewAxis {
                let mut shape = value.ty.shape().to_vec();
                shape.insert(axis, crate::constexpr::ConstExpr::int(1));
                let ty = Ty::new(value.ty.elem(), shape);
                value = Expr {
                    kind: ExprKind::ExpandDims { value: Box::new(value), axis },
                    ty,
                    span,
                    constant: None,
                };
            }
        }
        Some(value)
    }

    /// `o[...] = value;`
    pub(super) fn store(
        &mut self,
        base: &ast::Expr,
        items: &[ast::IndexItem],
        value: &ast::Expr,
        target: Span,
        span: Span,
    ) {
        let tensor = match &base.kind {
            ast::ExprKind::Name(name) => match self.lookup(name).cloned() {
                Some((Entity::Param(id), _)) if self.is_tensor(id) => Some(id),
                Some((Entity::Bad, _)) => return,
                None => {
                    let _: Option<()> = self.unknown_name(name, base.span);
                    return;
                }
                _ => None,
            },
            _ => None,
        };
        let Some(id) = tensor else {
            self.diagnostics.push(
                Diagnostic::new(Code::BadIndex, target, "only tensors are stored to")
                    .label("not an output tensor")
                    .help("tiles are values: build a new one, for example with `select`"),
            );
            return;
        };
        let param = self.kernel.param(id).clone();
        let ParamKind::Tensor { elem, out, .. } = param.kind else { return };
        if !out {
            self.diagnostics.push(
                Diagnostic::new(
                    Code::Direction,
                    base.span,
                    format!("`{}` is an input; it cannot be stored to", param.name),
                )
                .label("stored to here")
                .note(param.span, "declared without `out` here")
                .help(format!("declare it as an output: `{}: out tensor(..)[..]`", param.name)),
            );
        }
        let place = self.tensor_index(id, items, target);
        let value = self.expr(value, Some(elem));
        let (Some((index, shape)), Some(value), true) = (place, value, out) else { return };
        let Some(value) = self.stored(value, elem, &shape, target, param.span) else { return };
        self.emit(StmtKind::Store { tensor: id, index, value }, span);
    }

    /// The value as it is stored.
    fn stored(
        &mut self,
        value: Expr,
        elem: ElemRef,
        shape: &Shape,
        target: Span,
        declared: Span,
    ) -> Option<Expr> {
        let wanted = self.ty_text(&Ty::new(elem, shape.clone()));
        let found = self.ty_text(&value.ty);
        let mut notes = self.origin(&value);
        notes.push((declared, "the tensor is declared here".to_owned()));
        if value.ty.elem() != elem {
            let elem = self.elem_text(elem);
            let d =
                Diagnostic::new(Code::StoreMismatch, target, format!("a value {found} stored as {wanted}"))
                    .label(format!("takes {wanted}"))
                    .help(format!("convert it: `cast(value, {elem})`"));
            return self.error(with_notes(d, notes));
        }
        let value = splat(value, shape);
        let what = "the store needs equal shapes";
        let same = if value.ty.rank() == shape.len() {
            let found = value.ty.shape().to_vec();
            self.same_shape(&found, shape, what, target, &notes)
        } else {
            Err((0, super::shape::Same::No))
        };
        let Err((axis, same)) = same else { return Some(value) };
        let mut help = if value.ty.rank() == shape.len() {
            "the shapes must be equal; axes are not repeated in a store".to_owned()
        } else {
            "an index drops its axis, a slice keeps it: the value needs one axis for each `:+` and `:`"
                .to_owned()
        };
        if let (Some(a), Some(b)) = (value.ty.shape().get(axis), shape.get(axis))
            && value.ty.rank() == shape.len()
        {
            help = self.lengths_help(a, b, same, &help);
        }
        let d = Diagnostic::new(Code::StoreMismatch, target, format!("a value {found} stored as {wanted}"))
            .label(format!("takes {wanted}"))
            .help(help);
        self.error(with_notes(d, notes))
    }
}

fn axes(n: usize) -> String {
    if n == 1 { "1 axis".to_owned() } else { format!("{n} axes") }
}

fn indices(n: usize) -> String {
    match n {
        0 => "no index is".to_owned(),
        1 => "1 index is".to_owned(),
        _ => format!("{n} indices are"),
    }
}
