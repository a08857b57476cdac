//! Functions: checked once by themselves, inlined at each call.

use super::context::{Checker, Entity, Scope, with_notes};
use super::literal;
use super::stmt::count;
use crate::ast::{self, IndexKind, TypeKind};
use crate::codes::Code;
use crate::constexpr::ConstExpr;
use crate::diagnostic::Diagnostic;
use crate::hir::*;
use crate::source::Span;
use crate::types::{Elem, ElemRef, Ty};

/// Calls inside calls, and statements that inlining may produce in one kernel.
const MAX_CALL_DEPTH: usize = 32;
const MAX_CALLS: usize = 2000;
const MAX_INLINED: u32 = 100_000;

impl<'a> Checker<'a> {
    /// Checks a function by itself, its generics left open.
    pub(super) fn check_function(mut self, f: &'a ast::Function) -> Vec<Diagnostic> {
        self.kernel.name = f.name.text.clone();
        self.functions.push(&f.name.text);
        for g in &f.generics {
            let id = GenericId(self.kernel.generics.len() as u32);
            let (kind, entity) = match &g.kind {
                ast::GenericKind::Type(names) => {
                    let choices = self.type_choices(names);
                    let entity =
                        if choices.is_empty() { Entity::Bad } else { Entity::Type(ElemRef::Param(id)) };
                    (GenericKind::Type { choices, default: None }, entity)
                }
                ast::GenericKind::Const(ty) => match self.const_type(ty.as_ref()) {
                    Elem::Bool => {
                        (GenericKind::Bool { default: None }, Entity::Const(ConstExpr::param(id), Elem::Bool))
                    }
                    _ => (GenericKind::Int { default: None }, Entity::Const(ConstExpr::param(id), Elem::I32)),
                },
            };
            if let Some(default) = &g.default {
                self.diagnostics.push(
                    Diagnostic::new(
                        Code::BadConstant,
                        default.span,
                        "generics of a function have no defaults",
                    )
                    .label("not here")
                    .help("they are taken from the arguments, or given at the call: `name[64](x)`"),
                );
            }
            self.kernel.generics.push(Generic { name: g.name.text.clone(), kind, span: g.span });
            self.declare(&g.name, entity);
        }
        for p in &f.params {
            let entity = match self.fn_type(&p.ty, p.out) {
                Some(ty) => {
                    let id = VarId(self.kernel.vars.len() as u32);
                    let name = p.name.text.clone();
                    self.kernel.vars.push(Var {
                        name,
                        ty,
                        mutable: false,
                        constant: None,
                        span: p.name.span,
                    });
                    Entity::Var(id)
                }
                None => Entity::Bad,
            };
            self.declare(&p.name, entity);
        }
        self.scopes.push(Scope::default());
        let _ = self.fn_body(f);
        self.diagnostics
    }

    /// The type of a parameter or result.
    fn fn_type(&mut self, t: &ast::TypeExpr, out: Option<Span>) -> Option<Ty> {
        if t.kind == TypeKind::Tensor || out.is_some() {
            return self.error(
                Diagnostic::new(
                    Code::UnknownType,
                    t.span,
                    "functions work on values, not on tensors in memory",
                )
                .label("not for a function")
                .help("load in the kernel and pass the tile: `x: tile(f32)[N]`"),
            );
        }
        let elem = self.elem(&t.elem.text, t.elem.span);
        let lens: Vec<Option<ConstExpr>> =
            t.dims.iter().map(|e| self.const_int(e, "a tile length")).collect();
        let shape: Vec<ConstExpr> = lens.into_iter().collect::<Option<_>>()?;
        if t.kind == TypeKind::Tile && shape.is_empty() {
            return self.error(
                Diagnostic::new(Code::TileLength, t.span, "a tile has at least one axis")
                    .label("no lengths")
                    .help("a scalar is written without `tile`: `f32`"),
            );
        }
        if !shape.is_empty() {
            self.legal_tile(&shape, t.span)?;
        }
        Some(Ty::new(elem?, shape))
    }

    /// The body's statements, emitted, and its results.
    fn fn_body(&mut self, f: &ast::Function) -> Option<Vec<Expr>> {
        let wanted: Vec<Option<Ty>> = f.results.iter().map(|t| self.fn_type(t, None)).collect();
        let hints: Vec<Option<ElemRef>> = wanted.iter().map(|t| t.as_ref().map(Ty::elem)).collect();
        let values = self.block_values(&f.body, &hints)?;
        let wanted: Vec<Ty> = wanted.into_iter().collect::<Option<_>>()?;
        let end = f.body.tail.as_ref().map_or(f.body.span, |e| e.span);
        let results = f.results.first().map_or(f.name.span, |t| t.span);
        if values.len() != wanted.len() {
            return self.error(
                Diagnostic::new(
                    Code::TupleCount,
                    end,
                    format!(
                        "`{}` gives {}, but declares {}",
                        f.name.text,
                        count(values.len(), "value"),
                        wanted.len()
                    ),
                )
                .label(format!("{} here", values.len()))
                .note(results, "declared here")
                .help("several results are written `-> (f32, f32)` and `(a, b)`"),
            );
        }
        for ((value, ty), at) in values.iter().zip(&wanted).zip(&f.results) {
            self.fits(value, ty, at.span, &format!("`{}` declares a result", f.name.text))?;
        }
        Some(values)
    }

    /// Demands a value of a declared type.
    fn fits(&mut self, value: &Expr, ty: &Ty, declared: Span, what: &str) -> Option<()> {
        let (wanted, found) = (self.ty_text(ty), self.ty_text(&value.ty));
        let mut notes = vec![(declared, format!("declared as {wanted}"))];
        notes.extend(self.origin(value).into_iter().skip(1));
        let mut help = "use a value of that type".to_owned();
        if value.ty.elem() != ty.elem() {
            help = format!("convert it: `cast(x, {})`", self.elem_text(ty.elem()));
        } else if value.ty.rank() == ty.rank() {
            match self.same_shape(
                value.ty.shape(),
                ty.shape(),
                &format!("{what}: equal lengths"),
                value.span,
                &notes,
            ) {
                Ok(()) => return Some(()),
                Err((i, same)) => help = self.lengths_help(&value.ty.shape()[i], &ty.shape()[i], same, &help),
            }
        }
        let d = Diagnostic::new(Code::TypeMismatch, value.span, format!("{what} {wanted}, this is {found}"))
            .label(format!("this is {found}"))
            .help(help);
        self.error(with_notes(d, notes))
    }

    /// A call: the body becomes part of the caller.
    pub(super) fn inline(
        &mut self,
        f: &'a ast::Function,
        generics: &[ast::IndexItem],
        args: &[ast::Arg],
        span: Span,
    ) -> Option<Vec<Expr>> {
        let name = f.name.text.as_str();
        if let Some(first) = self.functions.iter().position(|n| *n == name) {
            let path: Vec<&str> = self.functions[first..].iter().copied().chain([name]).collect();
            return self.error(
                Diagnostic::new(Code::Recursion, span, format!("`{name}` calls itself"))
                    .label(path.join(" calls "))
                    .note(f.name.span, "declared here")
                    .help("functions are inlined, so they cannot be recursive: use a loop"),
            );
        }
        if self.place != super::context::Place::Body {
            return self.error(
                Diagnostic::new(Code::BadGrid, span, "functions cannot be called outside of a body")
                    .label("not here")
                    .help("write the expression itself"),
            );
        }
        let crowded = self.kernel.calls.len() >= MAX_CALLS || self.inlined >= MAX_INLINED;
        if self.functions.len() >= MAX_CALL_DEPTH || crowded {
            if std::mem::replace(&mut self.crowded, true) {
                return None;
            }
            return self.error(
                Diagnostic::new(Code::Recursion, span, "too many calls: every call is inlined")
                    .label(format!("more than {MAX_CALLS} calls, {MAX_CALL_DEPTH} inside each other or {MAX_INLINED} statements"))
                    .help("call fewer functions, or put the call into a loop"),
            );
        }
        if args.len() != f.params.len() || args.iter().any(|a| a.keyword.is_some()) {
            let params: Vec<&str> = f.params.iter().map(|p| p.name.text.as_str()).collect();
            let message = match args.iter().find(|a| a.keyword.is_some()) {
                Some(_) => format!("arguments of `{name}` are given in order, without names"),
                None => format!("`{name}` takes {}, not {}", count(f.params.len(), "argument"), args.len()),
            };
            return self.error(
                Diagnostic::new(Code::ArgCount, span, message)
                    .label("this call")
                    .note(f.name.span, "declared here")
                    .help(format!("write `{name}({})`", params.join(", "))),
            );
        }
        if self.items.broken.contains(name) {
            return None;
        }
        let mut bound = self.given_generics(f, generics, span)?;
        let values = self.arguments(f, args, &mut bound, span)?;
        self.enter(f, bound, values, span)
    }

    /// Generics given in brackets; `None` for the others.
    fn given_generics(
        &mut self,
        f: &ast::Function,
        given: &[ast::IndexItem],
        span: Span,
    ) -> Option<Vec<Option<Entity>>> {
        let mut bound: Vec<Option<Entity>> = vec![None; f.generics.len()];
        if given.len() > f.generics.len() {
            return self.error(
                Diagnostic::new(
                    Code::ArgCount,
                    span,
                    format!(
                        "`{}` has {}, not {}",
                        f.name.text,
                        count(f.generics.len(), "generic"),
                        given.len()
                    ),
                )
                .label("too many in the brackets")
                .note(f.name.span, "declared here")
                .help("remove some; what the arguments tell need not be given"),
            );
        }
        for ((slot, g), item) in bound.iter_mut().zip(&f.generics).zip(given) {
            let IndexKind::At(e) = &item.kind else {
                return self.error(
                    Diagnostic::new(Code::BadIndex, item.span, "generics are types and constants")
                        .label("neither")
                        .help("write `name[T, 64](x)`"),
                );
            };
            *slot = Some(match (&g.kind, &e.kind) {
                (ast::GenericKind::Type(_), ast::ExprKind::Name(n)) => Entity::Type(self.elem(n, e.span)?),
                (ast::GenericKind::Type(_), _) => {
                    return self.error(
                        Diagnostic::new(Code::UnknownType, e.span, format!("`{}` is a type", g.name.text))
                            .label("not a type")
                            .help("name one, such as `f32`"),
                    );
                }
                (ast::GenericKind::Const(Some(n)), _) if n.text == "bool" => {
                    Entity::Const(self.const_bool(e, "a constant in brackets")?, Elem::Bool)
                }
                (ast::GenericKind::Const(_), _) => {
                    Entity::Const(self.const_int(e, "a constant in brackets")?, Elem::I32)
                }
            });
        }
        Some(bound)
    }

    /// The arguments; they tell the generics that are not given.
    fn arguments(
        &mut self,
        f: &ast::Function,
        args: &[ast::Arg],
        bound: &mut [Option<Entity>],
        span: Span,
    ) -> Option<Vec<Expr>> {
        let mut values: Vec<Option<Expr>> = args.iter().map(|_| None).collect();
        // Literals last: they take the type that the other arguments tell.
        for open in [false, true] {
            for (i, (arg, p)) in args.iter().zip(&f.params).enumerate() {
                if literal::is_open(&arg.value) != open {
                    continue;
                }
                let hint = match f.generics.iter().position(|g| g.name.text == p.ty.elem.text) {
                    Some(g) => match &bound[g] {
                        Some(Entity::Type(elem)) => Some(*elem),
                        _ => None,
                    },
                    None => Elem::from_name(&p.ty.elem.text).map(ElemRef::from),
                };
                let Some(value) = self.expr(&arg.value, hint) else { continue };
                self.infer(f, &p.ty, &value, bound);
                values[i] = Some(value);
            }
        }
        let values = values.into_iter().collect::<Option<Vec<_>>>()?;
        for (g, slot) in f.generics.iter().zip(bound.iter()) {
            if slot.is_none() {
                return self.error(
                    Diagnostic::new(
                        Code::ArgCount,
                        span,
                        format!("the arguments do not tell `{}`", g.name.text),
                    )
                    .label(format!("`{}` is not known here", g.name.text))
                    .note(g.span, "declared here")
                    .help(format!("give it in brackets: `{}[...](...)`", f.name.text)),
                );
            }
            if let (ast::GenericKind::Type(names), Some(Entity::Type(elem))) = (&g.kind, slot) {
                let allowed: Vec<&str> = names.iter().map(|n| n.text.as_str()).collect();
                if let Some(bad) = self.counterexample(*elem, |e| allowed.contains(&e.name())) {
                    return self.error(
                        Diagnostic::new(
                            Code::TypeMismatch,
                            span,
                            format!("`{}` of `{}` cannot be {bad}", g.name.text, f.name.text),
                        )
                        .label("in this call")
                        .note(g.span, format!("takes {}", allowed.join(", ")))
                        .help("convert the argument with `cast`, or allow the type there"),
                    );
                }
            }
        }
        Some(values)
    }

    fn infer(&self, f: &ast::Function, ty: &ast::TypeExpr, value: &Expr, bound: &mut [Option<Entity>]) {
        let generic = |name: &str| f.generics.iter().position(|g| g.name.text == name);
        if let Some(g) = generic(&ty.elem.text)
            && bound[g].is_none()
        {
            bound[g] = Some(Entity::Type(value.ty.elem()));
        }
        for (dim, len) in ty.dims.iter().zip(value.ty.shape()) {
            if let ast::ExprKind::Name(name) = &dim.kind
                && let Some(g) = generic(name)
                && bound[g].is_none()
            {
                bound[g] = Some(Entity::Const(len.clone(), Elem::I32));
            }
        }
    }

    fn enter(
        &mut self,
        f: &'a ast::Function,
        bound: Vec<Option<Entity>>,
        values: Vec<Expr>,
        span: Span,
    ) -> Option<Vec<Expr>> {
        let caller_scopes = std::mem::replace(&mut self.scopes, vec![Scope::default()]);
        for (g, entity) in f.generics.iter().zip(bound) {
            self.declare(&g.name, entity.unwrap_or(Entity::Bad));
        }
        let mut fits = Some(());
        for (p, value) in f.params.iter().zip(values) {
            let at = p.span;
            let ok = self.fn_type(&p.ty, p.out).and_then(|ty| {
                let what = format!("`{}` of `{}` is", p.name.text, f.name.text);
                self.fits(&value, &ty, at, &what)
            });
            if ok.is_none() {
                fits = None;
            }
            let id = self.new_var(&p.name.text, &value, false, p.name.span);
            self.emit(StmtKind::Let(id, value), span);
            self.declare(&p.name, Entity::Var(id));
        }
        let results = fits.and_then(|()| {
            let arguments_ok = self.diagnostics.len();
            let call = CallId(self.kernel.calls.len() as u32);
            self.kernel.calls.push(Call { function: f.name.text.clone(), span, parent: self.call });
            let parent = self.call.replace(call);
            self.functions.push(&f.name.text);
            self.scopes.push(Scope::default());
            let facts = self.facts.len();
            let values = self.deeper(span, |c| c.fn_body(f));
            let bound: Option<Vec<Expr>> =
                values.map(|all| all.into_iter().map(|v| self.bind(&f.name.text, v, span)).collect());
            self.facts.truncate(facts);
            self.functions.pop();
            self.call = parent;
            // Only this call's types are at fault: the function by itself is right.
            for d in &mut self.diagnostics[arguments_ok..] {
                d.notes.push((span, format!("in this call of `{}`", f.name.text)));
            }
            bound
        });
        self.scopes = caller_scopes;
        results.map(|all| all.into_iter().map(|e| Expr { span, ..e }).collect())
    }
}
