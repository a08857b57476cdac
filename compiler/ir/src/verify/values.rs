//! Rules of scalars, control flow and tiles.

use super::{Check, Checker, ensure, layouts};
use crate::func::Op;
use crate::layout::Layout;
use crate::ops::{BinaryOp, CastOp, Literal, Predicate, UnaryOp};
use crate::types::{Elem, TileType, Type};

fn bits(elem: Elem) -> i64 {
    if elem == Elem::I1 { 1 } else { 8 * elem.bytes() }
}

/// Does a cast lead from this type to that?
pub(crate) fn cast_fits(op: CastOp, from: Elem, to: Elem) -> bool {
    use CastOp::*;
    match op {
        ExtF => from.is_float() && to.is_float() && bits(from) < bits(to),
        TruncF => from.is_float() && to.is_float() && bits(from) > bits(to),
        ExtSI | ExtUI => !from.is_float() && !to.is_float() && bits(from) < bits(to),
        TruncI => !from.is_float() && !to.is_float() && bits(from) > bits(to),
        SIToFP | UIToFP => !from.is_float() && to.is_float(),
        FPToSI | FPToUI => from.is_float() && !to.is_float(),
        Bitcast => bits(from) == bits(to),
    }
}

/// A type with another element type.
fn with_elem(ty: &Type, elem: Elem) -> Type {
    match ty {
        Type::Tile(t) => Type::Tile(t.with_elem(elem)),
        _ => Type::Scalar(elem),
    }
}

impl Checker<'_> {
    pub(super) fn constant(&self, op: &Op, lit: &Literal) -> Check {
        self.counts(op, 0, 1)?;
        let ty = self.func.ty(op.results[0]);
        let Type::Scalar(e) = ty else { return Err(format!("the result is {ty}, not a scalar")) };
        ensure!(matches!(lit, Literal::Float(_)) == e.is_float(), "{lit:?} of type {e}");
        Ok(())
    }

    /// All operands and the result have one type, floats or not.
    fn uniform(&self, op: &Op, operands: usize, float: bool) -> Check {
        self.counts(op, operands, 1)?;
        let elem = self.number(op.operands[0])?;
        ensure!(elem.is_float() == float, "on {elem}");
        let ty = self.ty(op.operands[0]);
        for v in op.operands.iter().chain(&op.results) {
            ensure!(self.ty(*v) == ty, "%{} is {}, the first operand {ty}", v.0, self.func.ty(*v));
        }
        Ok(())
    }

    pub(super) fn binary(&self, op: &Op, b: BinaryOp) -> Check {
        use BinaryOp::*;
        self.uniform(op, 2, matches!(b, AddF | SubF | MulF | DivF | MinNumF | MaxNumF))
    }

    pub(super) fn unary(&self, op: &Op, u: UnaryOp) -> Check {
        self.uniform(op, 1, u != UnaryOp::AbsI)
    }

    pub(super) fn fma(&self, op: &Op) -> Check {
        self.uniform(op, 3, true)
    }

    pub(super) fn compare(&self, op: &Op, p: Predicate) -> Check {
        use Predicate::*;
        self.counts(op, 2, 1)?;
        let elem = self.number(op.operands[0])?;
        ensure!(elem.is_float() == matches!(p, Feq | Fne | Flt | Fle | Fgt | Fge), "{p} on {elem}");
        let ty = self.ty(op.operands[0]);
        self.signature_is(op, &[ty.clone(), ty.clone()], &[with_elem(&ty, Elem::I1)])
    }

    pub(super) fn select(&self, op: &Op) -> Check {
        self.counts(op, 3, 1)?;
        self.number(op.operands[1])?;
        let (cond, ty) = (self.ty(op.operands[0]), self.ty(op.operands[1]));
        let fits = cond == Type::BOOL || cond == with_elem(&ty, Elem::I1);
        ensure!(fits, "the condition is {cond} for {ty}");
        self.signature_is(op, &[cond, ty.clone(), ty.clone()], &[ty])
    }

    pub(super) fn cast(&self, op: &Op, c: CastOp) -> Check {
        self.counts(op, 1, 1)?;
        let (from, to) = (self.number(op.operands[0])?, self.number(op.results[0])?);
        ensure!(cast_fits(c, from, to), "{c} from {from} to {to}");
        let ty = self.ty(op.operands[0]);
        self.signature_is(op, std::slice::from_ref(&ty), &[with_elem(&ty, to)])
    }

    pub(super) fn loop_(&self, op: &Op) -> Check {
        ensure!(op.operands.len() >= 3, "no bounds");
        for v in &op.operands[..3] {
            ensure!(*self.func.ty(*v) == Type::I32, "the bound %{} is {}", v.0, self.func.ty(*v));
        }
        let carried: Vec<Type> = op.operands[3..].iter().map(|v| self.ty(*v)).collect();
        let results: Vec<Type> = op.results.iter().map(|v| self.ty(*v)).collect();
        let args: Vec<Type> = op.regions[0].args.iter().map(|v| self.ty(*v)).collect();
        ensure!(results == carried, "the results' types are not those of the initial values");
        ensure!(
            args.first() == Some(&Type::I32) && args[1..] == carried[..],
            "the region's arguments are not the index and the carried values"
        );
        Ok(())
    }

    pub(super) fn branch(&self, op: &Op) -> Check {
        ensure!(op.operands.len() == 1, "one condition is expected");
        let cond = self.func.ty(op.operands[0]);
        ensure!(*cond == Type::BOOL, "the condition is {cond}");
        ensure!(op.regions.iter().all(|r| r.args.is_empty()), "a branch with arguments");
        Ok(())
    }

    pub(super) fn yields(&self, op: &Op, parent: Option<&Op>) -> Check {
        let Some(parent) = parent else { return Ok(()) };
        ensure!(op.results.is_empty(), "results");
        let (have, want) = (op.operands.len(), parent.results.len());
        ensure!(have == want, "{have} values for {want} results");
        for (v, r) in op.operands.iter().zip(&parent.results) {
            ensure!(self.ty(*v) == self.ty(*r), "%{} is {} for {}", v.0, self.func.ty(*v), self.func.ty(*r));
        }
        Ok(())
    }

    pub(super) fn splat(&self, op: &Op) -> Check {
        self.counts(op, 1, 1)?;
        let elem = self.tile(op.results[0])?.elem;
        let from = self.func.ty(op.operands[0]);
        ensure!(*from == Type::Scalar(elem), "of {from} to a tile of {elem}");
        Ok(())
    }

    pub(super) fn iota(&self, op: &Op) -> Check {
        self.counts(op, 0, 1)?;
        let t = self.tile(op.results[0])?;
        ensure!(t.shape.len() == 1 && t.elem == Elem::I32, "the result is {t}");
        Ok(())
    }

    pub(super) fn broadcast(&mut self, op: &Op, dims: &[usize]) -> Check {
        self.counts(op, 1, 1)?;
        let (from, to) = (self.tile(op.operands[0])?, self.tile(op.results[0])?);
        ensure!(from.elem == to.elem, "from {from} to {to}");
        ensure!(dims.len() == from.shape.len(), "{} axes for {from}", dims.len());
        ensure!(dims.windows(2).all(|w| w[0] < w[1]), "axes {dims:?} do not ascend");
        let same = dims.iter().zip(&from.shape).all(|(d, n)| to.shape.get(*d) == Some(n));
        ensure!(same, "from {from} along {dims:?} to {to}");
        let key = (from, to, dims.to_vec());
        if !self.broadcasts.contains(&key) {
            layouts::check_broadcast(&key.0, &key.1, dims)?;
            self.broadcasts.insert(key);
        }
        Ok(())
    }

    /// One tile, perhaps scratch, and one result.
    fn moving(&self, op: &Op) -> Result<(TileType, TileType), String> {
        self.scratch(op)?;
        let (from, to) = (self.tile(op.operands[0])?, self.tile(op.results[0])?);
        ensure_ok(from.elem == to.elem, || format!("from {from} to {to}"))?;
        Ok((from, to))
    }

    fn scratch(&self, op: &Op) -> Check {
        self.counts(op, op.operands.len().clamp(1, 2), 1)?;
        if let Some(v) = op.operands.get(1) {
            let ty = self.func.ty(*v);
            ensure!(ty.as_buffer().is_some(), "the second operand is {ty}, not scratch");
        }
        Ok(())
    }

    pub(super) fn reshape(&self, op: &Op) -> Check {
        let (from, to) = self.moving(op)?;
        ensure!(from.len() == to.len(), "from {from} to {to}");
        Ok(())
    }

    pub(super) fn convert(&self, op: &Op) -> Check {
        let (from, to) = self.moving(op)?;
        ensure!(from.shape == to.shape, "from {from} to {to}");
        // Once shared memory is allocated, what has no scratch must do without.
        if let (1, Some(_), Some(a), Some(b)) =
            (op.operands.len(), self.func.shared_bytes, &from.layout, &to.layout)
        {
            let (a, b) = (a.distribution(&from.shape), b.distribution(&to.shape));
            ensure!(a == b || crate::shuffle::plan(&a, &b).is_some(), "from {from} to {to} without scratch");
        }
        Ok(())
    }

    pub(super) fn trans(&self, op: &Op) -> Check {
        let (from, to) = self.moving(op)?;
        let fits = matches!((&from.shape[..], &to.shape[..]), ([m, n], [p, q]) if m == q && n == p);
        ensure!(fits, "from {from} to {to}");
        Ok(())
    }

    pub(super) fn reduce(&self, op: &Op, axis: usize) -> Check {
        self.scratch(op)?;
        let from = self.tile(op.operands[0])?;
        ensure!(axis < from.shape.len(), "axis {axis} of {from}");
        let mut shape = from.shape.clone();
        shape.remove(axis);
        let want = match shape.is_empty() {
            true => Type::Scalar(from.elem),
            false => {
                Type::Tile(TileType { shape, elem: from.elem, layout: from.layout.map(|l| l.slice(axis)) })
            }
        };
        let have = self.ty(op.results[0]);
        ensure!(have == want, "the result is {have}, not {want}");
        Ok(())
    }

    pub(super) fn fold(&self, op: &Op) -> Check {
        self.counts(op, 1, 1)?;
        let (from, to) = (self.tile(op.operands[0])?, self.tile(op.results[0])?);
        let fits = matches!((&from.shape[..], &to.shape[..]), ([m, n], [p, 8]) if m == p && n % 8 == 0);
        ensure!(fits && from.elem == to.elem, "from {from} to {to}");
        let alone =
            matches!(from.layout, None | Some(Layout::Acc { wgn: 1, .. } | Layout::AccHalf { wgn: 1, .. }));
        ensure!(
            from.layout == to.layout && alone,
            "from {from} to {to}: a thread does not hold what it combines"
        );
        Ok(())
    }

    /// The type of half the rows of a tile.
    fn half_rows(whole: &TileType) -> Result<TileType, String> {
        let mut shape = whole.shape.clone();
        ensure_ok(shape[0] % 16 == 0, || format!("{} rows are not groups of 16", shape[0]))?;
        shape[0] /= 2;
        let layout = match &whole.layout {
            None => None,
            Some(l) => match l.half_rows() {
                Some(half) if shape[0] % 32 == 0 => Some(half),
                _ => return Err(format!("{whole} has no halves that threads hold")),
            },
        };
        Ok(TileType { shape, layout, elem: whole.elem })
    }

    pub(super) fn rows(&self, op: &Op, part: usize) -> Check {
        self.counts(op, 1, 1)?;
        ensure!(part < 2, "part {part}");
        let (have, want) = (self.tile(op.results[0])?, Self::half_rows(&self.tile(op.operands[0])?)?);
        ensure!(have == want, "the result is {have}, not {want}");
        Ok(())
    }

    pub(super) fn join_rows(&self, op: &Op) -> Check {
        self.counts(op, 2, 1)?;
        let want = Self::half_rows(&self.tile(op.results[0])?)?;
        for v in &op.operands {
            let have = self.tile(*v)?;
            ensure!(have == want, "%{} is {have}, not {want}", v.0);
        }
        Ok(())
    }

    pub(super) fn dot(&self, op: &Op) -> Check {
        self.counts(op, 3, 1)?;
        let (a, b, c) = (self.tile(op.operands[0])?, self.tile(op.operands[1])?, self.tile(op.operands[2])?);
        let fits = match (&a.shape[..], &b.shape[..]) {
            ([m, k], [k2, n]) => k == k2 && c.shape == [*m, *n],
            _ => false,
        };
        ensure!(fits, "of {a}, {b} and {c}");
        let sum = match a.elem {
            Elem::I8 => Elem::I32,
            Elem::F64 => Elem::F64,
            e if e.is_float() => Elem::F32,
            e => return Err(format!("of {e}")),
        };
        ensure!(a.elem == b.elem && c.elem == sum, "of {}, {} and {}", a.elem, b.elem, c.elem);
        let (have, want) = (self.ty(op.results[0]), self.ty(op.operands[2]));
        ensure!(have == want, "the result is {have}, not {want}");
        Ok(())
    }
}

fn ensure_ok(cond: bool, message: impl FnOnce() -> String) -> Check {
    if cond { Ok(()) } else { Err(message()) }
}
