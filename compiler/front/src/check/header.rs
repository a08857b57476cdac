//! Headers: generics, parameters, dimensions, conditions, the grid. And whole kernels.

use super::context::{Checker, Entity, Place};
use crate::ast::{self, TypeKind};
use crate::codes::Code;
use crate::constexpr::ConstExpr;
use crate::diagnostic::Diagnostic;
use crate::hir::*;
use crate::types::{Elem, ElemRef};

/// The most axes of a tensor.
const MAX_RANK: usize = 8;

impl Checker<'_> {
    pub(super) fn check_kernel(mut self, k: &ast::Kernel) -> (Kernel, Vec<Diagnostic>) {
        self.kernel.name = k.name.text.clone();
        self.kernel.doc = k.doc.clone();
        self.kernel.span = k.name.span;
        for g in &k.generics {
            self.kernel_generic(g);
        }
        for (i, name) in k.dims.iter().enumerate() {
            self.kernel.dims.push(Dim { name: name.text.clone(), span: name.span });
            self.declare(name, Entity::Dim(DimId(i as u32)));
        }
        for p in &k.params {
            self.kernel_param(p);
        }
        self.dims_are_bound();
        self.place = Place::Where;
        for e in &k.wheres {
            let Some(cond) = self.condition(e, "a `where` condition") else { continue };
            if let Some(c) = &cond.constant {
                self.assert((**c).clone(), None, e.span);
            }
            self.kernel.wheres.push(cond);
        }
        self.place = Place::Grid;
        self.grid(k);
        self.place = Place::Body;
        self.unit_block(&k.body);
        self.kernel.body = self.blocks.pop().unwrap_or_default();
        (self.kernel, self.diagnostics)
    }

    fn grid(&mut self, k: &ast::Kernel) {
        if k.grid.is_empty() || k.grid.len() > 3 {
            self.diagnostics.push(
                Diagnostic::new(
                    Code::BadGrid,
                    k.grid_span,
                    format!("a grid has one to three axes, not {}", k.grid.len()),
                )
                .label("the grid")
                .help("fold axes together, and take them apart in the body with `/` and `%`"),
            );
        }
        for e in &k.grid {
            let value = self.expr(e, Some(Elem::I32.into()));
            let ok = value.as_ref().is_none_or(|v| v.ty.is_scalar() && v.ty.elem() == Elem::I32.into());
            if let (Some(v), false) = (&value, ok) {
                let found = self.ty_text(&v.ty);
                self.diagnostics.push(
                    Diagnostic::new(Code::BadGrid, e.span, "an axis of the grid is a single i32")
                        .label(format!("this is {found}"))
                        .help("use dimensions and constants, such as `cdiv(N, BN)`"),
                );
            }
            // After an error the place is kept, so that `program_id()` has its number of axes.
            let zero = self.int_literal(1, Elem::I32.into(), e.span);
            if let Some(v) = value.filter(|_| ok).or(zero) {
                self.kernel.grid.push(v);
            }
        }
    }

    fn kernel_generic(&mut self, g: &ast::Generic) {
        let id = GenericId(self.kernel.generics.len() as u32);
        let place = std::mem::replace(&mut self.place, Place::Default);
        let (kind, entity) = match &g.kind {
            ast::GenericKind::Type(names) => {
                let choices = self.type_choices(names);
                let default = g.default.as_ref().and_then(|e| self.type_default(e, &choices));
                let entity = if choices.is_empty() { Entity::Bad } else { Entity::Type(ElemRef::Param(id)) };
                (GenericKind::Type { choices, default }, entity)
            }
            ast::GenericKind::Const(ty) => match self.const_type(ty.as_ref()) {
                Elem::Bool => {
                    let default = g.default.as_ref().and_then(|e| self.const_bool(e, "a default"));
                    (GenericKind::Bool { default }, Entity::Const(ConstExpr::param(id), Elem::Bool))
                }
                _ => {
                    let default = g.default.as_ref().and_then(|e| self.const_int(e, "a default"));
                    (GenericKind::Int { default }, Entity::Const(ConstExpr::param(id), Elem::I32))
                }
            },
        };
        self.place = place;
        self.kernel.generics.push(Generic { name: g.name.text.clone(), kind, span: g.span });
        self.declare(&g.name, entity);
    }

    pub(super) fn type_choices(&mut self, names: &[ast::Name]) -> Vec<Elem> {
        let mut choices = Vec::new();
        for name in names {
            match self.elem(&name.text, name.span) {
                Some(ElemRef::Concrete(e)) if choices.contains(&e) => self.diagnostics.push(
                    Diagnostic::new(Code::Duplicate, name.span, format!("`{e}` is listed twice"))
                        .label("again here")
                        .help("remove one of them"),
                ),
                Some(ElemRef::Concrete(e)) => choices.push(e),
                Some(ElemRef::Param(_)) => self.diagnostics.push(
                    Diagnostic::new(
                        Code::UnknownType,
                        name.span,
                        format!("`{}` is a parameter itself", name.text),
                    )
                    .label("not a type of the language")
                    .help("list the types that are allowed: `T: f16 | bf16`"),
                ),
                None => {}
            }
        }
        choices
    }

    fn type_default(&mut self, e: &ast::Expr, choices: &[Elem]) -> Option<Elem> {
        let name = if let ast::ExprKind::Name(name) = &e.kind { name.as_str() } else { "" };
        match Elem::from_name(name) {
            Some(elem) if choices.contains(&elem) => Some(elem),
            _ => {
                let names: Vec<&str> = choices.iter().map(|c| c.name()).collect();
                if names.is_empty() {
                    return None;
                }
                self.error(
                    Diagnostic::new(Code::BadConstant, e.span, "the default is none of the allowed types")
                        .label(format!("one of {}", names.join(", ")))
                        .help("choose one of them, or add this one to the list"),
                )
            }
        }
    }

    /// The type of a constant: i32 or bool.
    pub(super) fn const_type(&mut self, ty: Option<&ast::Name>) -> Elem {
        match ty.map(|n| n.text.as_str()) {
            None | Some("i32") => Elem::I32,
            Some("bool") => Elem::Bool,
            Some(other) => {
                let span = ty.map_or(self.kernel.span, |n| n.span);
                self.diagnostics.push(
                    Diagnostic::new(Code::UnknownType, span, format!("a constant cannot be {other}"))
                        .label("`const` alone is an i32, `const bool` a bool")
                        .help("other values are scalar parameters: `scale: f32`"),
                );
                Elem::I32
            }
        }
    }

    fn kernel_param(&mut self, p: &ast::Param) {
        let id = ParamId(self.kernel.params.len() as u32);
        let elem = self.elem(&p.ty.elem.text, p.ty.elem.span);
        let kind = match (p.ty.kind, elem) {
            (TypeKind::Tensor, _) => {
                let place = std::mem::replace(&mut self.place, Place::TensorDim);
                let dims: Vec<Option<ConstExpr>> = p.ty.dims.iter().map(|e| self.tensor_dim(e)).collect();
                self.place = place;
                if p.ty.dims.is_empty() || p.ty.dims.len() > MAX_RANK {
                    self.diagnostics.push(
                        Diagnostic::new(
                            Code::IndexCount,
                            p.ty.span,
                            format!("a tensor has one to {MAX_RANK} axes, not {}", p.ty.dims.len()),
                        )
                        .label("here")
                        .help("a single value is a scalar parameter: `n: i32`"),
                    );
                    None
                } else {
                    let dims: Option<Vec<ConstExpr>> = dims.into_iter().collect();
                    dims.zip(elem).map(|(dims, elem)| ParamKind::Tensor { elem, dims, out: p.out.is_some() })
                }
            }
            (TypeKind::Tile, _) => self.error(
                Diagnostic::new(Code::UnknownType, p.ty.span, "a kernel has no tile parameters")
                    .label("tiles exist only inside a kernel")
                    .help("pass a tensor and load tiles of it: `x: tensor(f32)[N]`"),
            ),
            (TypeKind::Scalar, elem) => match (p.out, elem) {
                (Some(out), _) => self.error(
                    Diagnostic::new(Code::Direction, out, "a scalar cannot be an output")
                        .label("`out` is for tensors")
                        .help("use a tensor with one element: `o: out tensor(f32)[1]`"),
                ),
                (None, elem) => elem.map(ParamKind::Scalar),
            },
        };
        let entity = if kind.is_some() { Entity::Param(id) } else { Entity::Bad };
        self.declare(&p.name, entity);
        if let Some(kind) = kind {
            self.kernel.params.push(Param { name: p.name.text.clone(), kind, span: p.span });
        }
    }

    fn tensor_dim(&mut self, e: &ast::Expr) -> Option<ConstExpr> {
        let len = self.const_int(e, "the length of an axis")?;
        match len.as_int() {
            Some(v) if v < 0 => self.error(
                Diagnostic::new(Code::TileLength, e.span, format!("an axis cannot have the length {v}"))
                    .label("negative")
                    .help("lengths are 0 or more"),
            ),
            Some(_) => Some(len),
            None => {
                let told = |o: &Obligation| matches!(&o.kind, ObligationKind::TensorLen(l) if *l == len);
                if !len.has_dim() && !self.kernel.obligations.iter().any(told) {
                    self.oblige(ObligationKind::TensorLen(len.clone()), e.span, Vec::new());
                }
                Some(len)
            }
        }
    }

    /// Every dimension is by itself the length of some axis: the launch takes its value from there.
    fn dims_are_bound(&mut self) {
        // A parameter that is wrong might have bound it.
        if !self.diagnostics.is_empty() {
            return;
        }
        let lens: Vec<ConstExpr> = self
            .kernel
            .params
            .iter()
            .flat_map(|p| match &p.kind {
                ParamKind::Tensor { dims, .. } => dims.clone(),
                ParamKind::Scalar(_) => Vec::new(),
            })
            .collect();
        for (i, dim) in self.kernel.dims.clone().into_iter().enumerate() {
            let id = DimId(i as u32);
            if lens.iter().any(|l| l.as_dim() == Some(id)) {
                continue;
            }
            let inside = lens.iter().find(|l| l.any_atom(&mut |a| *a == crate::constexpr::Atom::Dim(id)));
            let (message, help) = match inside {
                Some(len) => {
                    let text = self.kernel.const_text(len);
                    (
                        format!("`{}` occurs only inside `{text}`, so its value cannot be told", dim.name),
                        format!(
                            "some axis must have the length `{}` itself; or declare a dimension for `{text}`",
                            dim.name
                        ),
                    )
                }
                None => (
                    format!("no tensor has an axis of length `{}`", dim.name),
                    "remove it, use it as the length of an axis, or make it a scalar parameter: `n: i32`"
                        .to_owned(),
                ),
            };
            self.diagnostics.push(
                Diagnostic::new(Code::UnboundDim, dim.span, message)
                    .label("a launch takes dimensions from the tensors it is given")
                    .help(help),
            );
        }
    }
}
