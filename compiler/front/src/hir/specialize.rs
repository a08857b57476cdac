//! Binding a kernel's generic parameters and checking what depends on them.

use indexmap::IndexMap;

use super::{GenericId, GenericKind, Kernel, Obligation, ObligationKind};
use crate::codes::Code;
use crate::constexpr::{Atom, ConstExpr};
use crate::diagnostic::Diagnostic;
use crate::suggest::nearest;
use crate::types::{Elem, ElemRef};

/// The most elements a tile may have.
pub const MAX_TILE_ELEMENTS: i64 = 1 << 20;

/// A value for a generic parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SpecValue {
    /// For `const`.
    Int(i64),
    /// For `const bool`.
    Bool(bool),
    /// For a type parameter.
    Type(Elem),
}

impl SpecValue {
    /// From text as on a command line: `128`, `true`, `bf16`.
    pub fn parse(text: &str) -> Option<SpecValue> {
        match text {
            "true" => Some(SpecValue::Bool(true)),
            "false" => Some(SpecValue::Bool(false)),
            _ => Elem::from_name(text).map(SpecValue::Type).or_else(|| text.parse().ok().map(SpecValue::Int)),
        }
    }
}

impl std::fmt::Display for SpecValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SpecValue::Int(v) => write!(f, "{v}"),
            SpecValue::Bool(v) => write!(f, "{v}"),
            SpecValue::Type(v) => write!(f, "{v}"),
        }
    }
}

/// Values by name of the generic parameter, in the order given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Specialization {
    values: IndexMap<String, SpecValue>,
}

impl Specialization {
    /// None given: defaults only.
    pub fn new() -> Specialization {
        Specialization::default()
    }

    /// With one more value (the last one given for a name counts).
    pub fn with(mut self, name: impl Into<String>, value: SpecValue) -> Specialization {
        self.set(name, value);
        self
    }

    /// Give a value.
    pub fn set(&mut self, name: impl Into<String>, value: SpecValue) {
        self.values.insert(name.into(), value);
    }

    /// The values given.
    pub fn iter(&self) -> impl Iterator<Item = (&str, SpecValue)> {
        self.values.iter().map(|(n, &v)| (n.as_str(), v))
    }
}

/// A checked specialization: every generic parameter has a value and every obligation holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Bound {
    values: Vec<SpecValue>,
}

impl Bound {
    /// The value of a generic parameter.
    pub fn value(&self, id: GenericId) -> SpecValue {
        self.values[id.index()]
    }

    /// The value of a constant expression, as the i32 computation gives it (a bool is 0 or 1). A runtime dimension
    /// counts as 0: ask `try_eval` about the dimensions of tensors.
    pub fn eval(&self, e: &ConstExpr) -> i64 {
        e.eval(&|a| Some(self.atom(a).unwrap_or(0))).unwrap_or(0)
    }

    /// The value of a constant expression; `None` if it has a runtime dimension.
    pub fn try_eval(&self, e: &ConstExpr) -> Option<i64> {
        e.eval(&|a| self.atom(a))
    }

    /// The lengths of a shape.
    pub fn shape(&self, shape: &[ConstExpr]) -> Vec<i64> {
        shape.iter().map(|e| self.eval(e)).collect()
    }

    /// The element type that is meant.
    pub fn elem(&self, e: &ElemRef) -> Elem {
        match *e {
            ElemRef::Concrete(elem) => elem,
            ElemRef::Param(id) => match self.values[id.index()] {
                SpecValue::Type(elem) => elem,
                // `specialize` lets no other kind through.
                SpecValue::Int(_) | SpecValue::Bool(_) => Elem::I32,
            },
        }
    }

    fn atom(&self, atom: &Atom) -> Option<i64> {
        match atom {
            Atom::Const(id) => match self.values.get(id.index())? {
                SpecValue::Int(v) => Some(*v),
                SpecValue::Bool(v) => Some(i64::from(*v)),
                SpecValue::Type(_) => None,
            },
            Atom::Dim(_) | Atom::Op(..) => None,
        }
    }
}

impl Kernel {
    /// Binds the generic parameters, fills in defaults and checks every obligation. All errors at once.
    pub fn specialize(&self, spec: &Specialization) -> Result<Bound, Vec<Diagnostic>> {
        let mut errors = Vec::new();
        self.check_names(spec, &mut errors);
        let mut bound = Bound { values: Vec::new() };
        let mut missing = Vec::new();
        for generic in &self.generics {
            let given = spec.values.get(&generic.name).copied();
            let value = match given {
                Some(value) => check_value(generic, value).map_err(|e| errors.push(*e)).ok(),
                None => default_value(&generic.kind, &bound),
            };
            if value.is_none() && given.is_none() {
                missing.push(generic);
            }
            // After an error the value only keeps the indices right.
            bound.values.push(value.unwrap_or(match &generic.kind {
                GenericKind::Type { choices, .. } => {
                    SpecValue::Type(choices.first().copied().unwrap_or(Elem::F32))
                }
                GenericKind::Int { .. } => SpecValue::Int(1),
                GenericKind::Bool { .. } => SpecValue::Bool(false),
            }));
        }
        for generic in missing {
            let what = match &generic.kind {
                GenericKind::Type { .. } => "a type",
                GenericKind::Int { .. } => "an integer",
                GenericKind::Bool { .. } => "true or false",
            };
            errors.push(
                Diagnostic::new(
                    Code::MissingConstant,
                    generic.span,
                    format!("kernel `{}` needs a value for `{}`", self.name, generic.name),
                )
                .label(format!("{what}, without a default"))
                .help(format!(
                    "give one, as in `{}={}`, or write a default here",
                    generic.name,
                    example(&generic.kind)
                )),
            );
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        let failed: Vec<Diagnostic> = self.obligations.iter().filter_map(|o| self.check(o, &bound)).collect();
        if failed.is_empty() { Ok(bound) } else { Err(failed) }
    }

    fn check_names(&self, spec: &Specialization, errors: &mut Vec<Diagnostic>) {
        for (name, value) in spec.iter() {
            if self.generics.iter().any(|g| g.name == name) {
                continue;
            }
            let known: Vec<&str> = self.generics.iter().map(|g| g.name.as_str()).collect();
            let help = match nearest(name, known.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None if known.is_empty() => "it has no type parameters or constants".to_owned(),
                None => format!("it has {}", known.join(", ")),
            };
            errors.push(
                Diagnostic::new(
                    Code::UnknownConstant,
                    self.span,
                    format!("`{name}={value}` was given, but kernel `{}` has no `{name}`", self.name),
                )
                .label("this kernel")
                .help(help),
            );
        }
    }

    /// The error, if the obligation does not hold.
    fn check(&self, o: &Obligation, bound: &Bound) -> Option<Diagnostic> {
        if o.guards.iter().any(|(cond, wanted)| (bound.eval(cond) != 0) != *wanted) {
            return None;
        }
        let exact = |e: &ConstExpr| e.eval_exact(&|a| bound.atom(a));
        let show = |e: &ConstExpr| match exact(e) {
            Some(v) => v.to_string(),
            None => "more than 64 bits hold".to_owned(),
        };
        let with = |exprs: &[&ConstExpr]| self.values_text(exprs, bound);
        let error = match &o.kind {
            ObligationKind::Equal { lhs, rhs, what } => {
                let (l, r) = (exact(lhs), exact(rhs));
                if l == r && l.is_some() {
                    return None;
                }
                let (ln, rn) = (self.const_text(lhs), self.const_text(rhs));
                let values = match (lhs.as_int(), rhs.as_int()) {
                    (_, Some(_)) => format!("{ln} is {}, not {rn}", show(lhs)),
                    (Some(_), _) => format!("{rn} is {}, not {ln}", show(rhs)),
                    _ => format!("{ln} is {}, but {rn} is {}", show(lhs), show(rhs)),
                };
                Diagnostic::new(Code::Specialized, o.span, format!("{what}: {values}"))
                    .label(format!("needs {ln} == {rn}"))
                    .help(format!("choose constants that make them equal; now {}", with(&[lhs, rhs])))
            }
            ObligationKind::TileShape(shape) => {
                let lens: Vec<Option<i64>> = shape.iter().map(exact).collect();
                let text: Vec<String> = shape.iter().map(show).collect();
                let names: Vec<String> = shape.iter().map(|e| self.const_text(e)).collect();
                let refs: Vec<&ConstExpr> = shape.iter().collect();
                let count = lens.iter().try_fold(1i64, |n, l| n.checked_mul((*l)?));
                let fault = if lens.iter().flatten().any(|&l| l < 1) {
                    "every length of a tile must be at least 1".to_owned()
                } else if count.is_none_or(|n| n > MAX_TILE_ELEMENTS) {
                    format!("a tile has at most {MAX_TILE_ELEMENTS} elements")
                } else {
                    return None;
                };
                Diagnostic::new(
                    Code::TileLength,
                    o.span,
                    format!("this tile would be [{}]: {fault}", text.join(", ")),
                )
                .label(format!("a tile [{}]", names.join(", ")))
                .help(format!("choose other constants; now {}", with(&refs)))
            }
            ObligationKind::TensorLen(len) => {
                if exact(len).is_some_and(|v| (0..=i64::from(i32::MAX)).contains(&v)) {
                    return None;
                }
                Diagnostic::new(
                    Code::TileLength,
                    o.span,
                    format!("this axis would have length {}", show(len)),
                )
                .label("from 0 to 2147483647")
                .help(format!("choose other constants; now {}", with(&[len])))
            }
            ObligationKind::Step(step) => {
                if bound.eval(step) != 0 {
                    return None;
                }
                Diagnostic::new(Code::TileLength, o.span, "the step of this loop is 0")
                    .label("the loop would not end")
                    .help(format!("choose other constants; now {}", with(&[step])))
            }
            ObligationKind::Assert { cond, message } => {
                if bound.eval(cond) != 0 {
                    return None;
                }
                let text = message.clone().unwrap_or_else(|| "this condition is false".to_owned());
                Diagnostic::new(Code::StaticAssert, o.span, text)
                    .label("false for these constants")
                    .help(format!("choose other constants; now {}", with(&[cond])))
            }
        };
        Some(Diagnostic { notes: o.notes.clone(), ..error })
    }

    /// The values of the constants that occur: `BM = 128, BN = 64`.
    fn values_text(&self, exprs: &[&ConstExpr], bound: &Bound) -> String {
        let mut ids = std::collections::BTreeSet::new();
        for e in exprs {
            e.any_atom(&mut |a| {
                if let Atom::Const(id) = a {
                    ids.insert(*id);
                }
                false
            });
        }
        let texts: Vec<String> =
            ids.into_iter().map(|id| format!("{} = {}", self.generic(id).name, bound.value(id))).collect();
        texts.join(", ")
    }
}

fn default_value(kind: &GenericKind, bound: &Bound) -> Option<SpecValue> {
    match kind {
        GenericKind::Type { default, .. } => default.map(SpecValue::Type),
        GenericKind::Int { default } => default.as_ref().map(|e| SpecValue::Int(bound.eval(e))),
        GenericKind::Bool { default } => default.as_ref().map(|e| SpecValue::Bool(bound.eval(e) != 0)),
    }
}

fn example(kind: &GenericKind) -> String {
    match kind {
        GenericKind::Type { choices, .. } => choices.first().map_or("f32", |c| c.name()).to_owned(),
        GenericKind::Int { .. } => "128".to_owned(),
        GenericKind::Bool { .. } => "true".to_owned(),
    }
}

fn check_value(generic: &super::Generic, value: SpecValue) -> Result<SpecValue, Box<Diagnostic>> {
    let (wanted, ok) = match (&generic.kind, value) {
        (GenericKind::Type { choices, .. }, SpecValue::Type(elem)) => {
            let names: Vec<&str> = choices.iter().map(|c| c.name()).collect();
            (names.join(" or "), choices.contains(&elem))
        }
        (GenericKind::Type { choices, .. }, _) => {
            let names: Vec<&str> = choices.iter().map(|c| c.name()).collect();
            (names.join(" or "), false)
        }
        (GenericKind::Int { .. }, SpecValue::Int(v)) => {
            ("an integer from -2147483648 to 2147483647".to_owned(), i32::try_from(v).is_ok())
        }
        (GenericKind::Int { .. }, _) => ("an integer".to_owned(), false),
        (GenericKind::Bool { .. }, SpecValue::Bool(_)) => (String::new(), true),
        (GenericKind::Bool { .. }, _) => ("true or false".to_owned(), false),
    };
    if ok {
        return Ok(value);
    }
    Err(Box::new(
        Diagnostic::new(Code::BadConstant, generic.span, format!("`{}` cannot be {value}", generic.name))
            .label(format!("takes {wanted}"))
            .help(format!("give it a value as in `{}={}`", generic.name, example(&generic.kind))),
    ))
}
