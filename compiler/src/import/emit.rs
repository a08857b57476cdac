//! A builder that folds: integer and bool scalars that are known are literals, whatever computes them.

use flashc_ir::ops::{BinaryOp, CastOp, Literal, Predicate, UnaryOp};
use flashc_ir::{Block, Builder, Elem, Func, Kind, Loc, Op, Type, ValueId};
use std::collections::{HashMap, HashSet};

/// Builds the function.
pub(super) struct Emit {
    builder: Builder,
    /// Literals, to stand at the top of the function.
    literals: Vec<Op>,
    by_literal: HashMap<(Elem, u64), ValueId>,
    known: HashMap<ValueId, Literal>,
}

impl Emit {
    pub(super) fn new(name: &str, args: &[(String, Type)], loc: Loc) -> Emit {
        Emit {
            builder: Builder::new(name, args, loc),
            literals: vec![],
            by_literal: HashMap::new(),
            known: HashMap::new(),
        }
    }

    pub(super) fn args(&self) -> Vec<ValueId> {
        self.builder.args()
    }

    pub(super) fn set_loc(&mut self, loc: Loc) {
        self.builder.loc = loc;
    }

    pub(super) fn ty(&self, v: ValueId) -> &Type {
        self.builder.ty(v)
    }

    /// The element type of a scalar or tile.
    pub(super) fn elem(&self, v: ValueId) -> Elem {
        self.ty(v).elem().unwrap_or(Elem::I32)
    }

    /// The lengths of a tile; empty for a scalar.
    pub(super) fn shape(&self, v: ValueId) -> Vec<i64> {
        self.ty(v).as_tile().map_or(vec![], |t| t.shape.clone())
    }

    /// The value of a known integer or bool.
    pub(super) fn known(&self, v: ValueId) -> Option<i64> {
        match self.known.get(&v)? {
            Literal::Int(i) => Some(*i),
            Literal::Float(_) => None,
        }
    }

    /// An integer or bool; taken modulo its width.
    pub(super) fn int(&mut self, value: i64, elem: Elem) -> ValueId {
        let value = wrap(value, elem);
        self.literal(Literal::Int(value), value as u64, elem)
    }

    pub(super) fn float(&mut self, value: f64, elem: Elem) -> ValueId {
        self.literal(Literal::Float(value), value.to_bits(), elem)
    }

    fn literal(&mut self, literal: Literal, bits: u64, elem: Elem) -> ValueId {
        if let Some(&v) = self.by_literal.get(&(elem, bits)) {
            return v;
        }
        let v = ValueId(self.builder.func.values.len() as u32);
        self.builder.func.values.push(Type::Scalar(elem));
        self.literals.push(Op {
            kind: Kind::Constant(literal),
            operands: vec![],
            results: vec![v],
            regions: vec![],
            loc: self.builder.loc.clone(),
        });
        self.by_literal.insert((elem, bits), v);
        self.known.insert(v, literal);
        v
    }

    /// A number in every element of a shape (a scalar for no axes). It has to be exact in the type.
    pub(super) fn filled(&mut self, value: f64, elem: Elem, shape: &[i64]) -> ValueId {
        let v = if elem.is_float() { self.float(value, elem) } else { self.int(value as i64, elem) };
        self.splat(v, shape)
    }

    /// Like another value, a number in every element.
    pub(super) fn like(&mut self, value: f64, other: ValueId) -> ValueId {
        let (elem, shape) = (self.elem(other), self.shape(other));
        self.filled(value, elem, &shape)
    }

    pub(super) fn splat(&mut self, v: ValueId, shape: &[i64]) -> ValueId {
        if shape.is_empty() {
            return v;
        }
        let ty = Type::tile(shape, self.elem(v));
        self.op1(Kind::Splat, &[v], ty)
    }

    pub(super) fn reshape(&mut self, v: ValueId, shape: &[i64]) -> ValueId {
        if self.shape(v) == shape {
            return v;
        }
        let ty = Type::tile(shape, self.elem(v));
        self.op1(Kind::Reshape, &[v], ty)
    }

    pub(super) fn op1(&mut self, kind: Kind, operands: &[ValueId], result: Type) -> ValueId {
        self.builder.op1(kind, operands, result)
    }

    pub(super) fn effect(&mut self, kind: Kind, operands: &[ValueId]) {
        self.builder.op(kind, operands, &[]);
    }

    pub(super) fn with_regions(
        &mut self,
        kind: Kind,
        operands: &[ValueId],
        results: &[Type],
        regions: Vec<Block>,
    ) -> Vec<ValueId> {
        self.builder.op_with(kind, operands, results, regions)
    }

    pub(super) fn begin(&mut self, args: &[Type]) -> Vec<ValueId> {
        self.builder.begin(args)
    }

    pub(super) fn end(&mut self, yields: &[ValueId]) -> Block {
        self.builder.end(yields)
    }

    pub(super) fn unary(&mut self, op: UnaryOp, v: ValueId) -> ValueId {
        if let (UnaryOp::NegF, Some(Literal::Float(x))) = (op, self.known.get(&v)) {
            let x = -x;
            return self.float(x, self.elem(v));
        }
        let ty = self.ty(v).clone();
        self.op1(Kind::Unary(op), &[v], ty)
    }

    pub(super) fn binary(&mut self, op: BinaryOp, a: ValueId, b: ValueId) -> ValueId {
        let elem = self.elem(a);
        let (x, y) = (self.known(a), self.known(b));
        if let Some(value) = x.zip(y).and_then(|(x, y)| fold_binary(op, elem, x, y)) {
            return self.int(value, elem);
        }
        match (op, x, y) {
            (BinaryOp::AddI | BinaryOp::OrI | BinaryOp::XorI, Some(0), _) => b,
            (
                BinaryOp::AddI
                | BinaryOp::SubI
                | BinaryOp::OrI
                | BinaryOp::XorI
                | BinaryOp::ShlI
                | BinaryOp::ShrSI
                | BinaryOp::ShrUI,
                _,
                Some(0),
            ) => a,
            (BinaryOp::MulI, Some(0), _) | (BinaryOp::AndI, Some(0), _) => a,
            (BinaryOp::MulI, _, Some(0)) | (BinaryOp::AndI, _, Some(0)) => b,
            // A bool holds 0 and 1 (all its bits), so 1 is neutral for `and` and absorbing for `or`.
            (BinaryOp::AndI, Some(1), _) if elem == Elem::I1 => b,
            (BinaryOp::AndI, _, Some(1)) if elem == Elem::I1 => a,
            (BinaryOp::OrI, Some(1), _) if elem == Elem::I1 => a,
            (BinaryOp::OrI, _, Some(1)) if elem == Elem::I1 => b,
            (BinaryOp::MulI, Some(1), _) => b,
            (BinaryOp::MulI | BinaryOp::DivSI | BinaryOp::DivUI, _, Some(1)) => a,
            _ => self.builder.binary(op, a, b),
        }
    }

    pub(super) fn compare(&mut self, p: Predicate, a: ValueId, b: ValueId) -> ValueId {
        let (x, y) = (self.known(a), self.known(b));
        if let Some(value) = x.zip(y).and_then(|(x, y)| fold_compare(p, self.elem(a), x, y)) {
            return self.int(i64::from(value), Elem::I1);
        }
        self.builder.compare(p, a, b)
    }

    /// `cond` is a scalar or has the shape of the others.
    pub(super) fn select(&mut self, cond: ValueId, a: ValueId, b: ValueId) -> ValueId {
        match self.known(cond) {
            Some(0) => b,
            Some(_) => a,
            None if a == b => a,
            None => {
                let ty = self.ty(a).clone();
                self.op1(Kind::Select, &[cond, a, b], ty)
            }
        }
    }

    pub(super) fn cast(&mut self, op: CastOp, v: ValueId, to: Elem) -> ValueId {
        if let Some(x) = self.known(v) {
            let from = self.elem(v);
            match op {
                CastOp::ExtSI | CastOp::TruncI => return self.int(x, to),
                CastOp::ExtUI => return self.int(unsigned(x, from) as i64, to),
                // Exact in every float type that a number is cast to directly.
                CastOp::SIToFP if x.abs() <= 256 => return self.float(x as f64, to),
                _ => {}
            }
        }
        let ty = match self.ty(v) {
            Type::Tile(t) => Type::Tile(t.with_elem(to)),
            _ => Type::Scalar(to),
        };
        self.op1(Kind::Cast(op), &[v], ty)
    }

    /// The function, its used literals first.
    pub(super) fn finish(self) -> Func {
        let mut func = self.builder.finish();
        let mut used = HashSet::new();
        func.walk(&mut |op| used.extend(op.operands.iter().copied()));
        let rest = std::mem::take(&mut func.body.ops);
        func.body.ops = self.literals.into_iter().filter(|op| used.contains(&op.result())).collect();
        func.body.ops.extend(rest);
        func
    }
}

fn width(elem: Elem) -> u32 {
    if elem == Elem::I1 { 1 } else { elem.bytes() as u32 * 8 }
}

/// The low bits, sign-extended (a bool is 0 or 1).
fn wrap(value: i64, elem: Elem) -> i64 {
    let shift = 64 - width(elem);
    if elem == Elem::I1 { value & 1 } else { value << shift >> shift }
}

fn unsigned(value: i64, elem: Elem) -> u64 {
    let shift = 64 - width(elem);
    (value as u64) << shift >> shift
}

fn fold_binary(op: BinaryOp, elem: Elem, a: i64, b: i64) -> Option<i64> {
    let (ua, ub) = (unsigned(a, elem), unsigned(b, elem));
    let bits = u64::from(width(elem));
    Some(match op {
        BinaryOp::AddI => a.wrapping_add(b),
        BinaryOp::SubI => a.wrapping_sub(b),
        BinaryOp::MulI => a.wrapping_mul(b),
        BinaryOp::DivSI => a.checked_div(b).unwrap_or(if b == 0 { 0 } else { a }),
        BinaryOp::RemSI => a.checked_rem(b).unwrap_or(if b == 0 { a } else { 0 }),
        BinaryOp::DivUI => ua.checked_div(ub).unwrap_or(0) as i64,
        BinaryOp::RemUI => ua.checked_rem(ub).unwrap_or(ua) as i64,
        BinaryOp::AndI => a & b,
        BinaryOp::OrI => a | b,
        BinaryOp::XorI => a ^ b,
        BinaryOp::ShlI if ub >= bits => 0,
        BinaryOp::ShlI => a << ub,
        BinaryOp::ShrSI => a >> ub.min(bits - 1),
        BinaryOp::ShrUI if ub >= bits => 0,
        BinaryOp::ShrUI => (ua >> ub) as i64,
        BinaryOp::MinSI => a.min(b),
        BinaryOp::MaxSI => a.max(b),
        BinaryOp::MinUI => ua.min(ub) as i64,
        BinaryOp::MaxUI => ua.max(ub) as i64,
        _ => return None,
    })
}

fn fold_compare(p: Predicate, elem: Elem, a: i64, b: i64) -> Option<bool> {
    let (ua, ub) = (unsigned(a, elem), unsigned(b, elem));
    Some(match p {
        Predicate::Eq => a == b,
        Predicate::Ne => a != b,
        Predicate::Slt => a < b,
        Predicate::Sle => a <= b,
        Predicate::Sgt => a > b,
        Predicate::Sge => a >= b,
        Predicate::Ult => ua < ub,
        Predicate::Ule => ua <= ub,
        Predicate::Ugt => ua > ub,
        Predicate::Uge => ua >= ub,
        _ => return None,
    })
}
