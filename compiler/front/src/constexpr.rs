//! Constant expressions in normal form: polynomials over the kernel's constants.
//!
//! Two expressions that the language can show equal have the same normal form (`BM + BM == 2 * BM`). What is no ring
//! operation (division, comparison, ...) is an opaque atom with normalized operands. Booleans are 0 and 1. The value
//! is that of the same i32 computation at run time: `+ - *` wrap, division by zero is 0.

use std::collections::BTreeMap;

use crate::hir::{DimId, GenericId};

/// Products with more terms than this become an opaque atom.
const MAX_TERMS: usize = 64;

/// An integer (or boolean, as 0 and 1) known once the kernel is specialized, and its dimensions bound if it has any.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConstExpr {
    /// Coefficients by monomial (a sorted list of atoms; the empty one is the constant term); no coefficient is 0.
    terms: BTreeMap<Vec<Atom>, i64>,
}

/// What a polynomial is over.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Atom {
    /// A constant parameter of the kernel.
    Const(GenericId),
    /// A runtime dimension. Only in tensor dimensions, never in tile shapes.
    Dim(DimId),
    /// An operation that is not expanded.
    Op(ConstOp, Vec<ConstExpr>),
}

/// Operations that stay opaque. Comparisons and logic give 0 or 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConstOp {
    /// A product too large to expand.
    Mul,
    /// Division truncating toward zero; `x / 0 == 0`.
    Div,
    /// Remainder with the sign of the dividend; `x % 0 == x`.
    Rem,
    /// Division rounding up; `cdiv(x, 0) == 0`.
    CeilDiv,
    /// The smaller.
    Min,
    /// The larger.
    Max,
    /// Bitwise (and logical) and.
    And,
    /// Bitwise (and logical) or.
    Or,
    /// Bitwise exclusive or.
    Xor,
    /// Left shift; 0 from 32 bits on.
    Shl,
    /// Arithmetic right shift.
    Shr,
    /// `==`
    Eq,
    /// `<`
    Lt,
    /// `<=`
    Le,
    /// Operand 1 if operand 0 is not 0, else operand 2.
    Select,
}

impl ConstExpr {
    /// An integer.
    pub fn int(value: i64) -> ConstExpr {
        let mut terms = BTreeMap::new();
        if value != 0 {
            terms.insert(Vec::new(), value);
        }
        ConstExpr { terms }
    }

    /// A boolean, as 0 or 1.
    pub fn bool(value: bool) -> ConstExpr {
        ConstExpr::int(i64::from(value))
    }

    /// A constant parameter.
    pub fn param(id: GenericId) -> ConstExpr {
        ConstExpr::atom(Atom::Const(id))
    }

    /// A runtime dimension.
    pub fn dim(id: DimId) -> ConstExpr {
        ConstExpr::atom(Atom::Dim(id))
    }

    fn atom(atom: Atom) -> ConstExpr {
        ConstExpr { terms: BTreeMap::from([(vec![atom], 1)]) }
    }

    /// The monomials and their coefficients.
    pub fn terms(&self) -> impl Iterator<Item = (&[Atom], i64)> {
        self.terms.iter().map(|(atoms, &c)| (atoms.as_slice(), c))
    }

    /// The value, if nothing has to be bound.
    pub fn as_int(&self) -> Option<i64> {
        match self.terms.len() {
            0 => Some(0),
            1 => self.terms.get(&Vec::new()).copied(),
            _ => None,
        }
    }

    /// The dimension, if this is exactly one.
    pub fn as_dim(&self) -> Option<DimId> {
        match self.as_atom()? {
            Atom::Dim(id) => Some(*id),
            _ => None,
        }
    }

    /// The single atom with coefficient 1, if this is one.
    pub fn as_atom(&self) -> Option<&Atom> {
        match (self.terms.len(), self.terms.iter().next()) {
            (1, Some((atoms, 1))) if atoms.len() == 1 => atoms.first(),
            _ => None,
        }
    }

    /// Whether a runtime dimension occurs.
    pub fn has_dim(&self) -> bool {
        self.any_atom(&mut |a| matches!(a, Atom::Dim(_)))
    }

    /// Whether some atom, at any depth, satisfies the predicate.
    pub fn any_atom(&self, pred: &mut dyn FnMut(&Atom) -> bool) -> bool {
        self.terms.keys().flatten().any(|a| {
            pred(a)
                || match a {
                    Atom::Op(_, args) => args.iter().any(|e| e.any_atom(pred)),
                    _ => false,
                }
        })
    }

    /// Nodes in all, to bound the work on adversarial programs.
    pub fn size(&self) -> usize {
        self.terms
            .keys()
            .flatten()
            .map(|a| match a {
                Atom::Op(_, args) => 1 + args.iter().map(ConstExpr::size).sum::<usize>(),
                _ => 1,
            })
            .sum::<usize>()
            + 1
    }

    /// Sum.
    pub fn add(&self, other: &ConstExpr) -> ConstExpr {
        let mut out = self.clone();
        for (atoms, &c) in &other.terms {
            out.add_term(atoms.clone(), c);
        }
        out
    }

    /// Negation.
    pub fn neg(&self) -> ConstExpr {
        let terms = self.terms.iter().map(|(a, &c)| (a.clone(), c.wrapping_neg())).collect();
        ConstExpr { terms }
    }

    /// Difference.
    pub fn sub(&self, other: &ConstExpr) -> ConstExpr {
        self.add(&other.neg())
    }

    /// Product.
    pub fn mul(&self, other: &ConstExpr) -> ConstExpr {
        let small = |e: &ConstExpr| e.terms.keys().all(|a| a.len() <= 8);
        if self.terms.len() * other.terms.len() > MAX_TERMS || !small(self) || !small(other) {
            let mut args = vec![self.clone(), other.clone()];
            args.sort();
            return ConstExpr::atom(Atom::Op(ConstOp::Mul, args));
        }
        let mut out = ConstExpr::int(0);
        for (a, &c) in &self.terms {
            for (b, &d) in &other.terms {
                let mut atoms = [a.as_slice(), b.as_slice()].concat();
                atoms.sort();
                out.add_term(atoms, c.wrapping_mul(d));
            }
        }
        out
    }

    fn add_term(&mut self, atoms: Vec<Atom>, c: i64) {
        let sum = self.terms.get(&atoms).copied().unwrap_or(0).wrapping_add(c);
        if sum == 0 {
            self.terms.remove(&atoms);
        } else {
            self.terms.insert(atoms, sum);
        }
    }

    /// An opaque operation, folded where its operands are known.
    pub fn op(op: ConstOp, args: Vec<ConstExpr>) -> ConstExpr {
        let known: Option<Vec<i64>> = args.iter().map(ConstExpr::as_int).collect();
        if let Some(values) = known {
            return ConstExpr::int(apply(op, &values));
        }
        match (op, args.as_slice()) {
            (ConstOp::Div | ConstOp::CeilDiv, [a, b]) if b.as_int() == Some(1) => a.clone(),
            (ConstOp::Select, [c, a, b]) => match c.as_int() {
                Some(0) => b.clone(),
                Some(_) => a.clone(),
                None if a == b => a.clone(),
                None => ConstExpr::atom(Atom::Op(op, args)),
            },
            (ConstOp::Eq | ConstOp::Le, [a, b]) if a == b => ConstExpr::int(1),
            (ConstOp::Lt, [a, b]) if a == b => ConstExpr::int(0),
            (ConstOp::Min | ConstOp::Max, [a, b]) if a == b => a.clone(),
            _ => {
                let mut args = args;
                if matches!(
                    op,
                    ConstOp::Mul
                        | ConstOp::Min
                        | ConstOp::Max
                        | ConstOp::And
                        | ConstOp::Or
                        | ConstOp::Xor
                        | ConstOp::Eq
                ) {
                    args.sort();
                }
                ConstExpr::atom(Atom::Op(op, args))
            }
        }
    }

    /// Logical negation of a boolean.
    pub fn not(&self) -> ConstExpr {
        ConstExpr::int(1).sub(self)
    }

    /// Whether the two are equal whatever the constants are, never equal, or it depends.
    pub fn compare(&self, other: &ConstExpr) -> Equality {
        match self.sub(other).as_int() {
            Some(0) => Equality::Always,
            Some(_) => Equality::Never,
            None => Equality::Depends,
        }
    }

    /// The value as the i32 computation gives it; `atom` says what constants and dimensions stand for.
    /// `None` where it does not know.
    pub fn eval(&self, atom: &dyn Fn(&Atom) -> Option<i64>) -> Option<i64> {
        let mut sum = 0i32;
        for (atoms, &c) in &self.terms {
            let mut product = c as i32;
            for a in atoms {
                product = product.wrapping_mul(eval_atom(a, atom)? as i32);
            }
            sum = sum.wrapping_add(product);
        }
        Some(i64::from(sum))
    }

    /// The value without wrapping; `None` where it overflows i64 or is unknown. For lengths.
    pub fn eval_exact(&self, atom: &dyn Fn(&Atom) -> Option<i64>) -> Option<i64> {
        let mut sum = 0i64;
        for (atoms, &c) in &self.terms {
            let mut product = c;
            for a in atoms {
                product = product.checked_mul(eval_atom(a, atom)?)?;
            }
            sum = sum.checked_add(product)?;
        }
        Some(sum)
    }

    /// As source text, with the names of constants and dimensions.
    pub fn display(&self, names: &dyn Fn(&Atom) -> String) -> String {
        // As people write them: `D + 2`, `256 - D`.
        let mut terms: Vec<_> = self.terms.iter().collect();
        terms.sort_by_key(|(atoms, c)| (**c < 0, atoms.is_empty()));
        let mut out = String::new();
        for (atoms, &c) in terms {
            let sign = if c < 0 { "-" } else { "+" };
            if out.is_empty() {
                out.push_str(if c < 0 { "-" } else { "" });
            } else {
                out.push_str(&format!(" {sign} "));
            }
            let mut factors: Vec<String> = Vec::new();
            if c.unsigned_abs() != 1 || atoms.is_empty() {
                factors.push(c.unsigned_abs().to_string());
            }
            let alone = atoms.len() == 1 && factors.is_empty() && self.terms.len() == 1;
            for a in atoms {
                factors.push(match a {
                    Atom::Op(op, args) => display_op(*op, args, alone && c > 0, names),
                    other => names(other),
                });
            }
            out.push_str(&factors.join(" * "));
        }
        if out.is_empty() { "0".to_owned() } else { out }
    }
}

fn eval_atom(a: &Atom, atom: &dyn Fn(&Atom) -> Option<i64>) -> Option<i64> {
    match a {
        Atom::Op(ConstOp::Select, args) => {
            let pick = if args.first()?.eval(atom)? != 0 { args.get(1)? } else { args.get(2)? };
            pick.eval(atom)
        }
        Atom::Op(op, args) => {
            let values: Option<Vec<i64>> = args.iter().map(|e| e.eval(atom)).collect();
            Some(apply(*op, &values?))
        }
        other => atom(other),
    }
}

/// The operation on known values, in i32 as at run time.
fn apply(op: ConstOp, values: &[i64]) -> i64 {
    let get = |i: usize| values.get(i).copied().unwrap_or(0) as i32;
    let (a, b) = (get(0), get(1));
    let value = match op {
        ConstOp::Mul => a.wrapping_mul(b),
        ConstOp::Div if b == 0 => 0,
        ConstOp::Div => a.wrapping_div(b),
        ConstOp::Rem if b == 0 => a,
        ConstOp::Rem => a.wrapping_rem(b),
        ConstOp::CeilDiv if b == 0 => 0,
        ConstOp::CeilDiv => {
            let up = i32::from(a.wrapping_rem(b) != 0 && (a < 0) == (b < 0));
            a.wrapping_div(b).wrapping_add(up)
        }
        ConstOp::Min => a.min(b),
        ConstOp::Max => a.max(b),
        ConstOp::And => a & b,
        ConstOp::Or => a | b,
        ConstOp::Xor => a ^ b,
        ConstOp::Shl => u32::try_from(b).ok().and_then(|b| a.checked_shl(b)).unwrap_or(0),
        ConstOp::Shr => a >> u32::try_from(b).unwrap_or(31).min(31),
        ConstOp::Eq => i32::from(a == b),
        ConstOp::Lt => i32::from(a < b),
        ConstOp::Le => i32::from(a <= b),
        ConstOp::Select => {
            if a != 0 {
                b
            } else {
                get(2)
            }
        }
    };
    i64::from(value)
}

fn display_op(op: ConstOp, args: &[ConstExpr], alone: bool, names: &dyn Fn(&Atom) -> String) -> String {
    let wrapped = |e: &ConstExpr| {
        let text = e.display(names);
        if text.contains(' ') && !text.ends_with(')') { format!("({text})") } else { text }
    };
    let infix = match op {
        ConstOp::Mul => "*",
        ConstOp::Div => "/",
        ConstOp::Rem => "%",
        ConstOp::And => "&",
        ConstOp::Or => "|",
        ConstOp::Xor => "^",
        ConstOp::Shl => "<<",
        ConstOp::Shr => ">>",
        ConstOp::Eq => "==",
        ConstOp::Lt => "<",
        ConstOp::Le => "<=",
        ConstOp::CeilDiv | ConstOp::Min | ConstOp::Max | ConstOp::Select => {
            let name = match op {
                ConstOp::CeilDiv => "cdiv",
                ConstOp::Min => "minimum",
                ConstOp::Max => "maximum",
                _ => "select",
            };
            let args: Vec<String> = args.iter().map(|e| e.display(names)).collect();
            return format!("{name}({})", args.join(", "));
        }
    };
    let text = args.iter().map(wrapped).collect::<Vec<_>>().join(&format!(" {infix} "));
    if alone { text } else { format!("({text})") }
}

/// What is known about the equality of two constant expressions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Equality {
    /// Equal whatever the constants are.
    Always,
    /// Different whatever the constants are.
    Never,
    /// Decided by the specialization.
    Depends,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bm() -> ConstExpr {
        ConstExpr::param(GenericId(0))
    }

    fn names(_: &Atom) -> String {
        "BM".to_owned()
    }

    #[test]
    fn sums_and_products_have_one_form() {
        let twice = bm().add(&bm());
        assert_eq!(twice, ConstExpr::int(2).mul(&bm()));
        assert_eq!(twice.sub(&bm()).compare(&bm()), Equality::Always);
        assert_eq!(twice.compare(&bm()), Equality::Depends);
        assert_eq!(bm().add(&ConstExpr::int(1)).compare(&bm()), Equality::Never);
        assert_eq!(twice.add(&ConstExpr::int(-3)).display(&names), "2 * BM - 3");
    }

    #[test]
    fn division_is_total_and_stays_opaque() {
        let half = ConstExpr::op(ConstOp::Div, vec![bm(), ConstExpr::int(2)]);
        assert_eq!(half.display(&names), "BM / 2");
        assert_eq!(half.eval(&|_| Some(7)), Some(3));
        assert_eq!(apply(ConstOp::Div, &[i64::from(i32::MIN), -1]), i64::from(i32::MIN));
        assert_eq!((apply(ConstOp::Div, &[5, 0]), apply(ConstOp::Rem, &[5, 0])), (0, 5));
        assert_eq!(apply(ConstOp::CeilDiv, &[-7, 2]), -3);
        assert_eq!(apply(ConstOp::CeilDiv, &[7, 2]), 4);
    }

    #[test]
    fn values_wrap_like_i32_and_lengths_do_not() {
        let e = ConstExpr::int(1 << 20).mul(&bm());
        assert_eq!(e.eval(&|_| Some(1 << 13)), Some(0));
        assert_eq!(e.eval_exact(&|_| Some(1 << 13)), Some(1 << 33));
    }
}
