//! The checker's state: names in scope, the kernel being built, diagnostics.

use std::collections::{BTreeSet, HashSet};

use indexmap::IndexMap;

use super::Items;
use crate::ast;
use crate::codes::Code;
use crate::constexpr::ConstExpr;
use crate::diagnostic::Diagnostic;
use crate::hir::*;
use crate::source::Span;
use crate::suggest::nearest;
use crate::types::{Elem, ElemRef, Ty};

/// What a name stands for.
#[derive(Clone, Debug)]
pub(super) enum Entity {
    Var(VarId),
    Param(ParamId),
    Dim(DimId),
    Type(ElemRef),
    Const(ConstExpr, Elem),
    /// Its declaration was wrong; uses are no further errors.
    Bad,
}

/// The shape of a tile, and the guards under which it has to be legal.
pub(super) type Demand = (Vec<ConstExpr>, Vec<(ConstExpr, bool)>);

/// Where an expression stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Default of a generic parameter.
    Default,
    /// Length of an axis of a tensor: dimensions count as constants.
    TensorDim,
    Where,
    Grid,
    Body,
}

#[derive(Debug, Default)]
pub(super) struct Scope {
    pub(super) names: IndexMap<String, (Entity, Span)>,
}

/// A loop body or a branch: what it assigns.
#[derive(Debug)]
pub(super) struct Region {
    /// Variables from this one on are declared inside.
    pub(super) first: VarId,
    pub(super) assigned: BTreeSet<VarId>,
    /// The branch of an `if` that gives a value: it may not assign variables from outside.
    pub(super) value: Option<Span>,
}

/// Builds one kernel.
pub(super) struct Checker<'a> {
    pub(super) items: &'a Items<'a>,
    pub(super) kernel: Kernel,
    pub(super) diagnostics: Vec<Diagnostic>,
    pub(super) scopes: Vec<Scope>,
    /// Statement lists under construction, the innermost last.
    pub(super) blocks: Vec<Vec<Stmt>>,
    pub(super) regions: Vec<Region>,
    /// Constant conditions around the current statement.
    pub(super) guards: Vec<(ConstExpr, bool)>,
    /// Differences that a `static_assert` or `where` says are 0.
    pub(super) facts: Vec<ConstExpr>,
    pub(super) call: Option<CallId>,
    /// Functions being inlined, outermost first.
    pub(super) functions: Vec<&'a str>,
    pub(super) place: Place,
    pub(super) depth: u32,
    /// Inlined statements, against explosion.
    pub(super) inlined: u32,
    /// Obligations on shapes that are there already, with their guards.
    pub(super) shapes_seen: HashSet<Demand>,
    pub(super) too_deep: bool,
    /// The limit on inlining has been reported.
    pub(super) crowded: bool,
}

/// Levels of recursion of the checker, inlined functions included.
const MAX_CHECK_DEPTH: u32 = 160;

/// After so many errors of a kernel no nearest names are looked for.
const MAX_SUGGESTIONS: usize = 100;

impl<'a> Checker<'a> {
    pub(super) fn new(items: &'a Items<'a>) -> Checker<'a> {
        Checker {
            items,
            kernel: Kernel {
                name: String::new(),
                doc: String::new(),
                generics: Vec::new(),
                params: Vec::new(),
                dims: Vec::new(),
                wheres: Vec::new(),
                grid: Vec::new(),
                vars: Vec::new(),
                calls: Vec::new(),
                body: Vec::new(),
                obligations: Vec::new(),
                span: Span::default(),
            },
            diagnostics: Vec::new(),
            scopes: vec![Scope::default()],
            blocks: vec![Vec::new()],
            regions: Vec::new(),
            guards: Vec::new(),
            facts: Vec::new(),
            call: None,
            functions: Vec::new(),
            place: Place::Body,
            depth: 0,
            inlined: 0,
            shapes_seen: HashSet::new(),
            too_deep: false,
            crowded: false,
        }
    }

    /// Reports an error; always `None`, to be returned.
    pub(super) fn error<T>(&mut self, d: Diagnostic) -> Option<T> {
        self.diagnostics.push(d);
        None
    }

    /// Runs a step one level deeper, or reports that it is too deep.
    pub(super) fn deeper<T>(&mut self, span: Span, step: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        if self.depth >= MAX_CHECK_DEPTH {
            if !self.too_deep {
                self.too_deep = true;
                self.diagnostics.push(
                    Diagnostic::new(
                        Code::TooDeep,
                        span,
                        "nested too deeply, counting the functions it calls",
                    )
                    .label(format!("more than {MAX_CHECK_DEPTH} levels"))
                    .help("give parts of it names with `let`"),
                );
            }
            return None;
        }
        self.depth += 1;
        let result = step(self);
        self.depth -= 1;
        result
    }

    // ---- names ----

    pub(super) fn lookup(&self, name: &str) -> Option<&(Entity, Span)> {
        self.scopes.iter().rev().find_map(|s| s.names.get(name))
    }

    /// Brings a name into scope. A name means one thing: hiding another one is an error.
    pub(super) fn declare(&mut self, name: &ast::Name, entity: Entity) {
        if name.text == "_" {
            return;
        }
        if let Some((_, first)) = self.lookup(&name.text) {
            let first = *first;
            self.diagnostics.push(
                Diagnostic::new(Code::Duplicate, name.span, format!("`{}` is already declared", name.text))
                    .label("again here")
                    .note(first, "first here")
                    .help("a name means one thing: choose another one, or use `var` and assign to it"),
            );
        } else if Elem::from_name(&name.text).is_some() || super::literal::is_predefined(&name.text) {
            let what = if super::literal::is_predefined(&name.text) { "constant" } else { "type" };
            self.diagnostics.push(
                Diagnostic::new(
                    Code::Duplicate,
                    name.span,
                    format!("`{}` is a {what} of the language", name.text),
                )
                .label("cannot be declared again")
                .help("choose another name"),
            );
        }
        if let Some(scope) = self.scopes.last_mut() {
            scope.names.insert(name.text.clone(), (entity, name.span));
        }
    }

    /// All names in scope.
    pub(super) fn visible(&self) -> impl Iterator<Item = &str> {
        self.scopes.iter().rev().flat_map(|s| s.names.keys().map(String::as_str))
    }

    pub(super) fn unknown_name<T>(&mut self, name: &str, span: Span) -> Option<T> {
        if self.items.broken.contains(name) {
            return None;
        }
        // Each search looks at all names: enough is enough.
        let many = self.diagnostics.len() > MAX_SUGGESTIONS;
        let predefined = super::literal::PREDEFINED.iter().map(|p| p.0);
        let near = if many { None } else { nearest(name, self.visible().chain(predefined)) };
        let near = near.map(|n| format!("did you mean `{n}`?"));
        let dims: Vec<&str> = self.kernel.dims.iter().map(|d| d.name.as_str()).collect();
        let (code, message, label) = match self.place {
            Place::TensorDim => (
                Code::UndeclaredDim,
                format!("the dimension `{name}` is not declared"),
                "not a dimension or constant",
            ),
            Place::Grid => (
                Code::UndeclaredDim,
                format!("the grid uses `{name}`, which is not declared"),
                "not declared",
            ),
            Place::Where | Place::Default => {
                (Code::UnknownName, format!("`{name}` is not declared here"), "not known here")
            }
            Place::Body => (Code::UnknownName, format!("`{name}` is not declared"), "not known here"),
        };
        let help = near.unwrap_or_else(|| match self.place {
            Place::TensorDim => {
                format!("add it to `dims`, or to the constants in the brackets: `{name}: const`")
            }
            Place::Grid if dims.is_empty() => {
                "a grid is made of dimensions, constants and scalars".to_owned()
            }
            Place::Grid => {
                format!("a grid is made of dimensions ({}), constants and scalars", dims.join(", "))
            }
            Place::Default => "a default may use the constants declared before it".to_owned(),
            Place::Where => "conditions are about dimensions, constants and scalars".to_owned(),
            Place::Body if Elem::from_name(name).is_some() => {
                "this is a type; to convert write `cast(x, type)`".to_owned()
            }
            Place::Body => format!("declare it with `let {name} = ...;`"),
        });
        self.error(Diagnostic::new(code, span, message).label(label).help(help))
    }

    /// The element type that a name means.
    pub(super) fn elem(&mut self, name: &str, span: Span) -> Option<ElemRef> {
        match self.lookup(name) {
            Some((Entity::Type(elem), _)) => return Some(*elem),
            Some((Entity::Bad, _)) => return None,
            _ => {}
        }
        if let Some(elem) = Elem::from_name(name) {
            return Some(elem.into());
        }
        let types: Vec<&str> = self
            .scopes
            .iter()
            .flat_map(|s| s.names.iter())
            .filter(|(_, (e, _))| matches!(e, Entity::Type(_)))
            .map(|(n, _)| n.as_str())
            .collect();
        let foreign = match name {
            "int" => Some("i32"),
            "float" | "float32" => Some("f32"),
            "double" | "float64" => Some("f64"),
            "half" | "float16" => Some("f16"),
            "bfloat16" => Some("bf16"),
            "int32" => Some("i32"),
            "int64" => Some("i64"),
            "int8" => Some("i8"),
            _ => None,
        };
        let near = foreign.or_else(|| nearest(name, Elem::ALL.iter().map(|e| e.name()).chain(types)));
        let all: Vec<&str> = Elem::ALL.iter().map(|e| e.name()).collect();
        let help = match near {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("the types are {}", all.join(", ")),
        };
        self.error(
            Diagnostic::new(Code::UnknownType, span, format!("there is no type `{name}`"))
                .label("not a type")
                .help(help),
        )
    }

    // ---- building ----

    pub(super) fn emit(&mut self, kind: StmtKind, span: Span) {
        let stmt = Stmt { kind, span, call: self.call };
        if let Some(block) = self.blocks.last_mut() {
            block.push(stmt);
        }
    }

    pub(super) fn new_var(&mut self, name: &str, value: &Expr, mutable: bool, span: Span) -> VarId {
        let id = VarId(self.kernel.vars.len() as u32);
        let constant = if mutable { None } else { value.constant.as_deref().cloned() };
        self.kernel.vars.push(Var { name: name.to_owned(), ty: value.ty.clone(), mutable, constant, span });
        id
    }

    /// Gives a value a name of its own; the expression that reads it.
    pub(super) fn bind(&mut self, name: &str, value: Expr, span: Span) -> Expr {
        let id = self.new_var(name, &value, false, span);
        let read = self.read(id, value.span);
        self.emit(StmtKind::Let(id, value), span);
        read
    }

    pub(super) fn read(&self, id: VarId, span: Span) -> Expr {
        let var = self.kernel.var(id);
        Expr {
            kind: ExprKind::Var(id),
            ty: var.ty.clone(),
            span,
            constant: var.constant.clone().map(Box::new),
        }
    }

    pub(super) fn oblige(&mut self, kind: ObligationKind, span: Span, notes: Vec<(Span, String)>) {
        self.kernel.obligations.push(Obligation { kind, guards: self.guards.clone(), span, notes });
    }

    // ---- words for messages ----

    pub(super) fn elem_text(&self, elem: ElemRef) -> String {
        match elem {
            ElemRef::Concrete(e) => e.name().to_owned(),
            ElemRef::Param(id) => self.kernel.generic(id).name.clone(),
        }
    }

    /// `f32[BM, D]`, or `f32` for a scalar.
    pub(super) fn ty_text(&self, ty: &Ty) -> String {
        let elem = self.elem_text(ty.elem());
        if ty.is_scalar() { elem } else { format!("{elem}{}", self.shape_text(ty.shape())) }
    }

    pub(super) fn shape_text(&self, shape: &[ConstExpr]) -> String {
        let lens: Vec<String> = shape.iter().map(|e| self.kernel.const_text(e)).collect();
        format!("[{}]", lens.join(", "))
    }

    /// The concrete types that an element type may be.
    pub(super) fn choices(&self, elem: ElemRef) -> Vec<Elem> {
        match elem {
            ElemRef::Concrete(e) => vec![e],
            ElemRef::Param(id) => match &self.kernel.generic(id).kind {
                GenericKind::Type { choices, .. } => choices.clone(),
                GenericKind::Int { .. } | GenericKind::Bool { .. } => Vec::new(),
            },
        }
    }

    /// The first choice that does not satisfy the predicate.
    pub(super) fn counterexample(&self, elem: ElemRef, ok: impl Fn(Elem) -> bool) -> Option<Elem> {
        self.choices(elem).into_iter().find(|&e| !ok(e))
    }

    /// Notes that say what an operand is and where it comes from.
    pub(super) fn origin(&self, e: &Expr) -> Vec<(Span, String)> {
        let mut notes = vec![(e.span, format!("this is {}", self.ty_text(&e.ty)))];
        if let ExprKind::Var(id) = e.kind {
            let var = self.kernel.var(id);
            if var.span != e.span {
                notes.push((var.span, format!("`{}` is declared here", var.name)));
            }
        }
        notes
    }
}

/// Adds notes to a diagnostic.
pub(super) fn with_notes(mut d: Diagnostic, notes: impl IntoIterator<Item = (Span, String)>) -> Diagnostic {
    d.notes.extend(notes);
    d
}
