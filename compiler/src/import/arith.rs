//! Operators and builtins in terms of the IR's operations; alike on scalars and tiles.

use super::emit::Emit;
use super::ir_elem;
use flashc_front::hir::{BinaryOp, CompareOp, ReduceOp, UnaryOp};
use flashc_front::types::Elem as Lang;
use flashc_ir::ops::{self, BinaryOp as B, CastOp, Predicate as P, UnaryOp as U};
use flashc_ir::{Elem, Kind, Type, ValueId};

impl Emit {
    pub(super) fn unary_op(&mut self, op: UnaryOp, elem: Lang, v: ValueId) -> ValueId {
        match op {
            UnaryOp::Neg if elem.is_float() => self.unary(U::NegF, v),
            UnaryOp::Neg => {
                let zero = self.like(0.0, v);
                self.binary(B::SubI, zero, v)
            }
            UnaryOp::Not => {
                let one = self.like(1.0, v);
                self.binary(B::XorI, v, one)
            }
            UnaryOp::BitNot => {
                let ones = self.like(-1.0, v);
                self.binary(B::XorI, v, ones)
            }
            UnaryOp::Abs if elem.is_float() => self.unary(U::AbsF, v),
            UnaryOp::Abs if elem.is_signed_int() => self.unary(U::AbsI, v),
            UnaryOp::Abs => v,
            UnaryOp::Sigmoid => self.in_f32(v, |emit, x| {
                let minus = emit.unary(U::NegF, x);
                let e = emit.unary(U::Exp, minus);
                let one = emit.like(1.0, x);
                let sum = emit.binary(B::AddF, one, e);
                emit.binary(B::DivF, one, sum)
            }),
            UnaryOp::Floor => self.in_f32(v, |emit, x| emit.unary(U::Floor, x)),
            UnaryOp::Ceil => self.in_f32(v, |emit, x| emit.unary(U::Ceil, x)),
            UnaryOp::Exp => self.in_f32(v, |emit, x| emit.unary(U::Exp, x)),
            UnaryOp::Exp2 => self.in_f32(v, |emit, x| emit.unary(U::Exp2, x)),
            UnaryOp::Log => self.in_f32(v, |emit, x| emit.unary(U::Log, x)),
            UnaryOp::Log2 => self.in_f32(v, |emit, x| emit.unary(U::Log2, x)),
            UnaryOp::Sqrt => self.in_f32(v, |emit, x| emit.unary(U::Sqrt, x)),
            UnaryOp::Rsqrt => self.in_f32(v, |emit, x| emit.unary(U::Rsqrt, x)),
            UnaryOp::Sin => self.in_f32(v, |emit, x| emit.unary(U::Sin, x)),
            UnaryOp::Cos => self.in_f32(v, |emit, x| emit.unary(U::Cos, x)),
            UnaryOp::Tanh => self.in_f32(v, |emit, x| emit.unary(U::Tanh, x)),
            UnaryOp::Erf => self.in_f32(v, |emit, x| emit.unary(U::Erf, x)),
        }
    }

    /// A computation on f32 (or f64, if that is what it is): narrower floats are widened for it and rounded after.
    fn in_f32(&mut self, v: ValueId, f: impl FnOnce(&mut Emit, ValueId) -> ValueId) -> ValueId {
        let elem = self.elem(v);
        if matches!(elem, Elem::F32 | Elem::F64) {
            return f(self, v);
        }
        let wide = self.cast(CastOp::ExtF, v, Elem::F32);
        let result = f(self, wide);
        self.cast(CastOp::TruncF, result, elem)
    }

    /// `None` for the remainder of floats, which the IR does not have.
    pub(super) fn binary_op(&mut self, op: BinaryOp, elem: Lang, a: ValueId, b: ValueId) -> Option<ValueId> {
        let (float, signed) = (elem.is_float(), elem.is_signed_int());
        let pick = |f: B, s: B, u: B| {
            if float {
                f
            } else if signed {
                s
            } else {
                u
            }
        };
        let op = match op {
            BinaryOp::Add => pick(B::AddF, B::AddI, B::AddI),
            BinaryOp::Sub => pick(B::SubF, B::SubI, B::SubI),
            BinaryOp::Mul => pick(B::MulF, B::MulI, B::MulI),
            BinaryOp::Div => pick(B::DivF, B::DivSI, B::DivUI),
            BinaryOp::Rem if float => return None,
            BinaryOp::Rem => pick(B::RemSI, B::RemSI, B::RemUI),
            BinaryOp::CeilDiv => return Some(self.ceil_div(signed, a, b)),
            BinaryOp::Min => pick(B::MinNumF, B::MinSI, B::MinUI),
            BinaryOp::Max => pick(B::MaxNumF, B::MaxSI, B::MaxUI),
            BinaryOp::And => B::AndI,
            BinaryOp::Or => B::OrI,
            BinaryOp::Xor => B::XorI,
            BinaryOp::Shl => B::ShlI,
            BinaryOp::Shr => pick(B::ShrSI, B::ShrSI, B::ShrUI),
        };
        Some(self.binary(op, a, b))
    }

    /// The quotient rounded toward zero, and one more where something is left over and the exact quotient is
    /// positive. Never overflows before the result does; a divisor of 0 gives 0.
    fn ceil_div(&mut self, signed: bool, a: ValueId, b: ValueId) -> ValueId {
        let zero = self.like(0.0, a);
        let divisor = self.known(b);
        let (div, rem, above) =
            if signed { (B::DivSI, B::RemSI, P::Sgt) } else { (B::DivUI, B::RemUI, P::Ugt) };
        let quotient = self.binary(div, a, b);
        if divisor == Some(1) {
            return quotient;
        }
        let rest = self.binary(rem, a, b);
        // The rest has the sign of `a`; for a divisor of 0 it is `a`.
        let up = match divisor {
            Some(d) if d > 0 || (!signed && d != 0) => self.compare(above, rest, zero),
            Some(d) if d < 0 => self.compare(P::Slt, rest, zero),
            _ => {
                let (r, d) = (self.compare(above, rest, zero), self.compare(above, b, zero));
                let both = self.binary(B::AndI, r, d);
                if signed {
                    let (r, d) = (self.compare(P::Slt, rest, zero), self.compare(P::Slt, b, zero));
                    let neither = self.binary(B::AndI, r, d);
                    self.binary(B::OrI, both, neither)
                } else {
                    both
                }
            }
        };
        let one = self.cast(CastOp::ExtUI, up, self.elem(a));
        self.binary(B::AddI, quotient, one)
    }

    pub(super) fn compare_op(&mut self, op: CompareOp, elem: Lang, a: ValueId, b: ValueId) -> ValueId {
        let (float, signed) = (elem.is_float(), elem.is_signed_int());
        let pick = |f: P, s: P, u: P| {
            if float {
                f
            } else if signed {
                s
            } else {
                u
            }
        };
        let p = match op {
            CompareOp::Eq => pick(P::Feq, P::Eq, P::Eq),
            CompareOp::Ne => pick(P::Fne, P::Ne, P::Ne),
            CompareOp::Lt => pick(P::Flt, P::Slt, P::Ult),
            CompareOp::Le => pick(P::Fle, P::Sle, P::Ule),
            CompareOp::Gt => pick(P::Fgt, P::Sgt, P::Ugt),
            CompareOp::Ge => pick(P::Fge, P::Sge, P::Uge),
        };
        self.compare(p, a, b)
    }

    pub(super) fn convert(&mut self, from: Lang, to: Lang, v: ValueId) -> ValueId {
        if from == to {
            return v;
        }
        let floating = |e: Lang| e.is_float() || e.is_fp8();
        if to == Lang::Bool {
            // An 8-bit float has no comparisons.
            let v = if from.is_fp8() { self.cast(CastOp::ExtF, v, Elem::F32) } else { v };
            let zero = self.like(0.0, v);
            return self.compare(if floating(from) { P::Fne } else { P::Ne }, v, zero);
        }
        // Every f16, bf16 and 8-bit float is an f32, and an integer that is none is beyond what f16 and they hold.
        let narrow = |e: Lang| matches!(e, Lang::F16 | Lang::Bf16 | Lang::E4m3 | Lang::E5m2);
        let detour = match (floating(from), floating(to)) {
            (true, false) => narrow(from),
            (false, true) => narrow(to) && to != Lang::Bf16,
            _ => false,
        };
        if detour {
            let wide = self.convert(from, Lang::F32, v);
            return self.convert(Lang::F32, to, wide);
        }
        let signed = if floating(from) { to.is_signed_int() } else { from.is_signed_int() };
        ops::cast_steps(ir_elem(from), ir_elem(to), signed)
            .into_iter()
            .fold(v, |v, (op, to)| self.cast(op, v, to))
    }

    /// Reduces an axis of a tile. Floats narrower than f32 accumulate in f32.
    pub(super) fn reduce(&mut self, op: ReduceOp, elem: Lang, v: ValueId, axis: usize) -> ValueId {
        if matches!(elem, Lang::F16 | Lang::Bf16) {
            return self.in_f32(v, |emit, x| emit.reduce(op, Lang::F32, x, axis));
        }
        let order = match op {
            ReduceOp::Sum => return self.reduce_axis(ops::ReduceOp::Sum, v, axis),
            ReduceOp::Max => ops::ReduceOp::Max,
            ReduceOp::Min => ops::ReduceOp::Min,
        };
        if !elem.is_int() || elem.is_signed_int() {
            return self.reduce_axis(order, v, axis);
        }
        // The IR compares signed: with the top bit flipped, unsigned numbers have that order.
        let top = i64::MIN >> (64 - elem.bits());
        let flip = |emit: &mut Emit, v: ValueId| {
            let (elem, shape) = (emit.elem(v), emit.shape(v));
            let bit = emit.int(top, elem);
            let bit = emit.splat(bit, &shape);
            emit.binary(B::XorI, v, bit)
        };
        let flipped = flip(self, v);
        let result = self.reduce_axis(order, flipped, axis);
        flip(self, result)
    }

    fn reduce_axis(&mut self, op: ops::ReduceOp, v: ValueId, axis: usize) -> ValueId {
        let mut shape = self.shape(v);
        if axis >= shape.len() {
            return v;
        }
        shape.remove(axis);
        let elem = self.elem(v);
        let ty = if shape.is_empty() { Type::Scalar(elem) } else { Type::tile(&shape, elem) };
        self.op1(Kind::Reduce { op, axis }, &[v], ty)
    }

    /// An index of any integer type as the i32 of loads and stores. One that does not fit is out of range of every
    /// tensor, and the nearest i32 is as well.
    pub(super) fn index(&mut self, elem: Lang, v: ValueId) -> ValueId {
        let (min, max) = (i64::from(i32::MIN), i64::from(i32::MAX));
        let ty = ir_elem(elem);
        match elem {
            Lang::I64 => {
                let (lo, hi) = (self.int(min, ty), self.int(max, ty));
                let v = self.binary(B::MaxSI, v, lo);
                let v = self.binary(B::MinSI, v, hi);
                self.cast(CastOp::TruncI, v, Elem::I32)
            }
            Lang::U32 | Lang::U64 => {
                let hi = self.int(max, ty);
                let v = self.binary(B::MinUI, v, hi);
                self.convert(elem, Lang::I32, v)
            }
            _ => self.convert(elem, Lang::I32, v),
        }
    }
}
