//! Arithmetic, one register at a time; the semantics are those of `flashc_ir::ops`.
//!
//! 16-bit floats compute in f32 and round: for `+ - * /` that is the correctly rounded result. Divisions
//! and shifts guard what LLVM leaves undefined.

use super::emit::{F32, I32, Ty, V};
use super::{Failure, Lower, Value};
use flashc_ir::ops::{BinaryOp, CastOp, Kind, Predicate, UnaryOp};
use flashc_ir::{Elem, Op, Type};
use std::f64::consts::{LN_2, LOG2_E};

impl Lower<'_> {
    pub(super) fn elementwise(&mut self, op: &Op) -> Result<Value, Failure> {
        let Type::Tile(t) = self.func.ty(op.result()).clone() else {
            let operands: Result<Vec<V>, _> = op.operands.iter().map(|v| self.scalar(*v)).collect();
            let ty = Ty::Num(self.func.ty(op.result()).elem().unwrap_or(Elem::I32));
            return Ok(Value::Scalar(self.element(op, &operands?, ty)?));
        };
        let n = self.distribution(&t)?.regs.len();
        let mut columns = vec![];
        for v in &op.operands {
            columns.push(match self.values.get(v) {
                Some(Value::Scalar(x)) => vec![*x; n],
                _ => self.tile(*v)?,
            });
        }
        let ty = Ty::Num(t.elem);
        if op.kind == Kind::Cast(CastOp::TruncF) && t.elem.bytes() == 2 && n % 2 == 0 {
            return Ok(Value::Tile(self.narrow_pairs(&columns[0], t.elem)));
        }
        // A splat is one register many times: compute it once.
        let mut done: Vec<(Vec<V>, V)> = vec![];
        let mut out = Vec::with_capacity(n);
        for i in 0..n {
            let operands: Vec<V> = columns.iter().map(|c| c[i]).collect();
            let known = done.iter().rev().take(4).find(|d| d.0 == operands).map(|d| d.1);
            let v = match known {
                Some(v) => v,
                None => self.element(op, &operands, ty)?,
            };
            done.push((operands, v));
            out.push(v);
        }
        Ok(Value::Tile(out))
    }

    /// Two conversions in one instruction.
    fn narrow_pairs(&mut self, regs: &[V], to: Elem) -> Vec<V> {
        let mut out = vec![];
        for pair in regs.chunks(2) {
            let wide = self.e.vector(pair);
            let narrow = self.e.op("arith.truncf", "", &[wide], Ty::Vec(2, to));
            out.push(self.e.extract(narrow, 0));
            out.push(self.e.extract(narrow, 1));
        }
        out
    }

    fn element(&mut self, op: &Op, x: &[V], ty: Ty) -> Result<V, Failure> {
        Ok(match &op.kind {
            Kind::Binary(b) => self.binary(*b, x[0], x[1]),
            Kind::Unary(u) => self.unary(op, *u, x[0])?,
            Kind::Fma => {
                let wide: Vec<V> = x.iter().map(|v| self.widen(*v)).collect();
                let r = self.e.op("math.fma", "", &wide, wide[0].ty);
                self.narrow(r, ty)
            }
            Kind::Compare(p) => self.compare(*p, x[0], x[1]),
            Kind::Select => self.e.select(x[0], x[1], x[2]),
            Kind::Cast(c) => self.cast(op, *c, x[0], ty)?,
            other => return Err(Failure::Bug(format!("{other:?} is not elementwise"))),
        })
    }

    /// 16-bit floats to f32.
    fn widen(&mut self, v: V) -> V {
        match v.ty {
            Ty::Num(Elem::F16 | Elem::BF16) => self.e.op("arith.extf", "", &[v], F32),
            _ => v,
        }
    }

    fn narrow(&mut self, v: V, ty: Ty) -> V {
        if v.ty == ty { v } else { self.e.op("arith.truncf", "", &[v], ty) }
    }

    fn binary(&mut self, op: BinaryOp, a: V, b: V) -> V {
        use BinaryOp::*;
        match op {
            AddF | SubF | MulF | DivF | MinNumF | MaxNumF => {
                let ty = a.ty;
                let (a, b) = (self.widen(a), self.widen(b));
                // Contraction rounds a product and a sum once instead of twice.
                let fast = if matches!(op, AddF | SubF | MulF) {
                    "fastmathFlags = #llvm.fastmath<contract>"
                } else {
                    ""
                };
                let r = self.e.op(&format!("arith.{op}"), fast, &[a, b], a.ty);
                self.narrow(r, ty)
            }
            DivSI | RemSI | DivUI | RemUI => self.divide(op, a, b),
            ShlI | ShrSI | ShrUI => {
                let bits = self.e.int(bits(a.ty), a.ty);
                let fits = self.e.icmp(6, b, bits);
                let zero = self.e.int(0, a.ty);
                let safe = self.e.select(fits, b, zero);
                let r = self.e.bin(op.name(), a, safe);
                let over = if op == ShrSI {
                    let last = self.e.int(self::bits(a.ty) - 1, a.ty);
                    self.e.bin("shrsi", a, last)
                } else {
                    zero
                };
                self.e.select(fits, r, over)
            }
            _ => self.e.bin(op.name(), a, b),
        }
    }

    /// Total division: by zero the quotient is 0 and the remainder the dividend; the least number by -1
    /// wraps.
    fn divide(&mut self, op: BinaryOp, a: V, b: V) -> V {
        use BinaryOp::*;
        let (zero, one) = (self.e.int(0, a.ty), self.e.int(1, a.ty));
        let by_zero = self.e.icmp(0, b, zero);
        let mut bad = by_zero;
        let signed = matches!(op, DivSI | RemSI);
        let minus = self.e.int(-1, a.ty);
        let by_minus = self.e.icmp(0, b, minus);
        if signed {
            bad = self.e.bin("ori", bad, by_minus);
        }
        let safe = self.e.select(bad, one, b);
        let r = self.e.bin(op.name(), a, safe);
        let r = if signed {
            let special = if op == DivSI { self.e.bin("subi", zero, a) } else { zero };
            self.e.select(by_minus, special, r)
        } else {
            r
        };
        let at_zero = if matches!(op, DivSI | DivUI) { zero } else { a };
        self.e.select(by_zero, at_zero, r)
    }

    fn compare(&mut self, p: Predicate, a: V, b: V) -> V {
        use Predicate::*;
        let integer = [Eq, Ne, Slt, Sle, Sgt, Sge, Ult, Ule, Ugt, Uge];
        if let Some(code) = integer.iter().position(|x| *x == p) {
            return self.e.icmp(code as u32, a, b);
        }
        // MLIR: 1 oeq, 2 ogt, 3 oge, 4 olt, 5 ole, 13 une.
        let code = match p {
            Feq => 1,
            Fgt => 2,
            Fge => 3,
            Flt => 4,
            Fle => 5,
            _ => 13,
        };
        self.e.op("arith.cmpf", &format!("predicate = {code} : i64"), &[a, b], super::emit::I1)
    }

    fn unary(&mut self, op: &Op, u: UnaryOp, a: V) -> Result<V, Failure> {
        use UnaryOp::*;
        let ty = a.ty;
        if matches!(u, AbsI) {
            let zero = self.e.int(0, ty);
            let minus = self.e.bin("subi", zero, a);
            return Ok(self.e.bin("maxsi", a, minus));
        }
        if ty == Ty::Num(Elem::F64) && !matches!(u, NegF | AbsF | Sqrt | Floor | Ceil) {
            return Err(self.unsupported(op, &format!("{u} of f64"), "compute in f32"));
        }
        let x = self.widen(a);
        let r = match u {
            NegF => self.e.op("arith.negf", "", &[x], x.ty),
            AbsF => self.e.op("math.absf", "", &[x], x.ty),
            Floor => self.e.op("math.floor", "", &[x], x.ty),
            Ceil => self.e.op("math.ceil", "", &[x], x.ty),
            Sqrt => self.e.op("llvm.intr.sqrt", "", &[x], x.ty),
            Exp2 => self.e.intrinsic("llvm.nvvm.ex2.approx.ftz.f", &[x], F32),
            Log2 => self.e.intrinsic("llvm.nvvm.lg2.approx.f", &[x], F32),
            Rsqrt => self.e.intrinsic("llvm.nvvm.rsqrt.approx.f", &[x], F32),
            Log => {
                let l = self.e.intrinsic("llvm.nvvm.lg2.approx.f", &[x], F32);
                let ln2 = self.e.float(LN_2, F32);
                self.e.bin("mulf", l, ln2)
            }
            Exp => self.exp(x),
            Tanh => self.tanh(x),
            Sin | Cos | Erf => return Err(self.unsupported(op, u.name(), "it runs on the CPU interpreter")),
            AbsI => unreachable!("handled above"),
        };
        Ok(self.narrow(r, ty))
    }

    /// e^x = 2^t · (1 + e·ln 2), where t = x·log2(e) rounded and e is what the rounding lost.
    fn exp(&mut self, x: V) -> V {
        let high = LOG2_E as f32;
        let (l, low) = (self.e.float(high as f64, F32), self.e.float(LOG2_E - high as f64, F32));
        let t = self.e.bin("mulf", x, l);
        let minus = self.e.op("arith.negf", "", &[t], F32);
        let lost = self.e.op("math.fma", "", &[x, l, minus], F32);
        let lost = self.e.op("math.fma", "", &[x, low, lost], F32);
        // At infinity nothing was lost, and `lost` is NaN.
        let (size, bound, zero) =
            (self.e.op("math.absf", "", &[t], F32), self.e.float(200.0, F32), self.e.float(0.0, F32));
        let usual = self.e.op("arith.cmpf", "predicate = 4 : i64", &[size, bound], super::emit::I1);
        let lost = self.e.select(usual, lost, zero);
        let p = self.e.intrinsic("llvm.nvvm.ex2.approx.ftz.f", &[t], F32);
        let ln2 = self.e.float(LN_2, F32);
        let r = self.e.bin("mulf", lost, ln2);
        self.e.op("math.fma", "", &[p, r, p], F32)
    }

    /// tanh x = x·(1 − x²/3 + 2x⁴/15 − 17x⁶/315) near 0, else 1 − 2/(e^2|x| + 1) with x's sign.
    fn tanh(&mut self, x: V) -> V {
        let size = self.e.op("math.absf", "", &[x], F32);
        let two = self.e.float(2.0, F32);
        let one = self.e.float(1.0, F32);
        let doubled = self.e.bin("mulf", size, two);
        let p = self.exp(doubled);
        let p = self.e.bin("addf", p, one);
        let q = self.e.bin("divf", two, p);
        let far = self.e.bin("subf", one, q);
        let far = self.e.op("math.copysign", "", &[far, x], F32);
        let square = self.e.bin("mulf", x, x);
        let mut poly = self.e.float(62.0 / 2835.0, F32);
        for c in [-17.0 / 315.0, 2.0 / 15.0, -1.0 / 3.0] {
            let c = self.e.float(c, F32);
            poly = self.e.op("math.fma", "", &[poly, square, c], F32);
        }
        let poly = self.e.bin("mulf", poly, square);
        let near = self.e.op("math.fma", "", &[poly, x, x], F32);
        let bound = self.e.float(0.25, F32);
        let is_near = self.e.op("arith.cmpf", "predicate = 4 : i64", &[size, bound], super::emit::I1);
        self.e.select(is_near, near, far)
    }

    fn cast(&mut self, op: &Op, c: CastOp, a: V, ty: Ty) -> Result<V, Failure> {
        let fp8 = |t: Ty| matches!(t, Ty::Num(Elem::E4M3 | Elem::E5M2));
        if fp8(a.ty) || fp8(ty) {
            return Err(self.unsupported(op, "an 8-bit float", "use f16 or bf16"));
        }
        Ok(match c {
            CastOp::ExtF | CastOp::TruncF | CastOp::ExtSI | CastOp::ExtUI | CastOp::TruncI => {
                self.e.op(&format!("arith.{c}"), "", &[a], ty)
            }
            CastOp::SIToFP | CastOp::UIToFP => {
                let half = matches!(ty, Ty::Num(Elem::F16 | Elem::BF16));
                if !half || bits(a.ty) > 16 {
                    // Two roundings differ from one only above 2^24, where 16-bit floats are coarser still.
                    let wide = if half { F32 } else { ty };
                    let r = self.e.op(&format!("arith.{c}"), "", &[a], wide);
                    self.narrow(r, ty)
                } else {
                    let r = self.e.op(&format!("arith.{c}"), "", &[a], F32);
                    self.narrow(r, ty)
                }
            }
            CastOp::FPToSI | CastOp::FPToUI => {
                let x = self.widen(a);
                // The conversion saturates at 32 bits; narrower types clamp after it.
                let wide = if bits(ty) < 32 { I32 } else { ty };
                let name = if c == CastOp::FPToSI { "llvm.fptosi.sat" } else { "llvm.fptoui.sat" };
                let suffix = |t: Ty| match t {
                    Ty::Num(Elem::F64) => "f64".to_string(),
                    Ty::Num(Elem::F32) => "f32".to_string(),
                    t => format!("i{}", bits(t)),
                };
                let r = self.e.intrinsic(&format!("{name}.{}.{}", suffix(wide), suffix(x.ty)), &[x], wide);
                if wide == ty {
                    r
                } else {
                    let n = bits(ty);
                    let (lo, hi) = if c == CastOp::FPToSI {
                        (-(1i64 << (n - 1)), (1 << (n - 1)) - 1)
                    } else {
                        (0, (1 << n) - 1)
                    };
                    let (lo, hi) = (self.e.int(lo, wide), self.e.int(hi, wide));
                    let (min, max) =
                        if c == CastOp::FPToSI { ("minsi", "maxsi") } else { ("minui", "maxui") };
                    let r = self.e.bin(max, r, lo);
                    let r = self.e.bin(min, r, hi);
                    self.e.op("arith.trunci", "", &[r], ty)
                }
            }
            CastOp::Bitcast => self.e.bitcast(a, ty),
        })
    }
}

/// Width of an integer type.
fn bits(ty: Ty) -> i64 {
    match ty {
        Ty::Num(Elem::I1) => 1,
        Ty::Num(e) => e.bytes() * 8,
        _ => 64,
    }
}
