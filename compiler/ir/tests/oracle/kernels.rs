//! Functions to run, and data for them.

use flashc_ir::func::{Builder, Func, Loc, ValueId};
use flashc_ir::layout::Layout;
use flashc_ir::ops::{BinaryOp, Kind, Literal, Predicate, ReduceOp, UnaryOp};
use flashc_ir::types::{Dim, Elem, TensorType, TileType, Type};

/// A tensor argument; lengths are names or numbers.
pub(crate) fn tensor(name: &str, dims: &[&str], elem: Elem) -> (String, Type) {
    let dim = |d: &&str| d.parse().map_or(Dim::Sym(d.to_string()), Dim::Const);
    (name.into(), Type::Tensor(TensorType { name: name.into(), dims: dims.iter().map(dim).collect(), elem }))
}

pub(crate) fn scalar(name: &str, elem: Elem) -> (String, Type) {
    (name.into(), Type::Scalar(elem))
}

pub(crate) fn start(name: &str, args: &[(String, Type)]) -> (Builder, Vec<ValueId>) {
    let b = Builder::new(name, args, Loc::new("test.tile", 1, 1));
    let a = b.args();
    (b, a)
}

/// Numbers in [−1, 1), the same for the same seed.
pub(crate) fn numbers(n: i64, seed: u64) -> Vec<f64> {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        (x >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    };
    (0..n).map(|_| next()).collect()
}

/// Short ways to build what the kernels below need.
pub(crate) trait Short {
    fn splat(&mut self, v: ValueId, shape: &[i64]) -> ValueId;
    fn float(&mut self, x: f64, shape: &[i64]) -> ValueId;
    fn along(&mut self, v: ValueId, dim: usize, shape: &[i64]) -> ValueId;
    fn unary(&mut self, op: UnaryOp, v: ValueId) -> ValueId;
    fn reduce(&mut self, op: ReduceOp, axis: usize, v: ValueId) -> ValueId;
    fn load(&mut self, t: ValueId, start: &[ValueId], axes: &[usize], shape: &[i64]) -> ValueId;
    fn store(&mut self, t: ValueId, start: &[ValueId], axes: &[usize], v: ValueId);
    fn index(&mut self, base: ValueId, n: i64) -> ValueId;
    fn below(&mut self, base: ValueId, n: i64, limit: ValueId) -> ValueId;
    fn times(&mut self, v: ValueId, n: i64) -> ValueId;
    fn cast(&mut self, v: ValueId, to: Elem) -> ValueId;
    fn select(&mut self, c: ValueId, a: ValueId, b: ValueId) -> ValueId;
}

impl Short for Builder {
    fn splat(&mut self, v: ValueId, shape: &[i64]) -> ValueId {
        let elem = self.ty(v).elem().unwrap();
        self.op1(Kind::Splat, &[v], Type::tile(shape, elem))
    }
    fn float(&mut self, x: f64, shape: &[i64]) -> ValueId {
        let c = self.constant(Literal::Float(x), Elem::F32);
        self.splat(c, shape)
    }
    fn along(&mut self, v: ValueId, dim: usize, shape: &[i64]) -> ValueId {
        let elem = self.ty(v).elem().unwrap();
        self.op1(Kind::Broadcast { dims: vec![dim] }, &[v], Type::tile(shape, elem))
    }
    fn unary(&mut self, op: UnaryOp, v: ValueId) -> ValueId {
        let ty = self.ty(v).clone();
        self.op1(Kind::Unary(op), &[v], ty)
    }
    fn reduce(&mut self, op: ReduceOp, axis: usize, v: ValueId) -> ValueId {
        let t = self.ty(v).as_tile().unwrap().clone();
        let mut shape = t.shape;
        shape.remove(axis);
        let ty = if shape.is_empty() { Type::Scalar(t.elem) } else { Type::tile(&shape, t.elem) };
        self.op1(Kind::Reduce { op, axis }, &[v], ty)
    }
    fn load(&mut self, t: ValueId, start: &[ValueId], axes: &[usize], shape: &[i64]) -> ValueId {
        let elem = self.ty(t).elem().unwrap();
        let operands = [&[t], start].concat();
        self.op1(Kind::Load { axes: axes.to_vec() }, &operands, Type::tile(shape, elem))
    }
    fn store(&mut self, t: ValueId, start: &[ValueId], axes: &[usize], v: ValueId) {
        let operands = [&[t], start, &[v]].concat();
        self.op(Kind::Store { axes: axes.to_vec() }, &operands, &[]);
    }
    fn index(&mut self, base: ValueId, n: i64) -> ValueId {
        let i = self.op1(Kind::Iota, &[], Type::tile(&[n], Elem::I32));
        let base = self.splat(base, &[n]);
        self.binary(BinaryOp::AddI, i, base)
    }
    fn below(&mut self, base: ValueId, n: i64, limit: ValueId) -> ValueId {
        let (i, limit) = (self.index(base, n), self.splat(limit, &[n]));
        self.compare(Predicate::Slt, i, limit)
    }
    fn times(&mut self, v: ValueId, n: i64) -> ValueId {
        let n = self.i32(n);
        self.binary(BinaryOp::MulI, v, n)
    }
    fn cast(&mut self, v: ValueId, to: Elem) -> ValueId {
        let from = self.ty(v).clone();
        let ty = match &from {
            Type::Tile(t) => Type::Tile(t.with_elem(to)),
            _ => Type::Scalar(to),
        };
        let steps = flashc_ir::ops::cast_steps(from.elem().unwrap(), to, true);
        assert!(steps.len() <= 1);
        steps.iter().fold(v, |v, (op, _)| self.op1(Kind::Cast(*op), &[v], ty.clone()))
    }
    fn select(&mut self, c: ValueId, a: ValueId, b: ValueId) -> ValueId {
        let ty = self.ty(a).clone();
        self.op1(Kind::Select, &[c, a, b], ty)
    }
}

/// `z = x + y`, `tile` elements a program.
pub(crate) fn vector_add(elem: Elem, tile: i64) -> Func {
    let t = |n| tensor(n, &["n"], elem);
    let (mut b, a) = start("vector_add", &[scalar("n", Elem::I32), t("x"), t("y"), t("z")]);
    let pid = b.op1(Kind::ProgramId(0), &[], Type::I32);
    let at = b.times(pid, tile);
    let (x, y) = (b.load(a[1], &[at], &[0], &[tile]), b.load(a[2], &[at], &[0], &[tile]));
    let z = b.binary(BinaryOp::AddF, x, y);
    b.store(a[3], &[at], &[0], z);
    b.finish()
}

/// Row softmax in f32: `rows` rows a program, rows of at most `cols` elements.
pub(crate) fn softmax(rows: i64, cols: i64) -> Func {
    let t = |n| tensor(n, &["m", "n"], Elem::F32);
    let (mut b, a) = start("softmax", &[scalar("m", Elem::I32), scalar("n", Elem::I32), t("x"), t("y")]);
    let shape = [rows, cols];
    let pid = b.op1(Kind::ProgramId(0), &[], Type::I32);
    let (at, zero) = (b.times(pid, rows), b.i32(0));
    let x = b.load(a[2], &[at, zero], &[0, 1], &shape);
    let real = b.below(zero, cols, a[1]);
    let real = b.along(real, 1, &shape);
    let none = b.float(f64::NEG_INFINITY, &shape);
    let x = b.select(real, x, none);
    let top = b.reduce(ReduceOp::Max, 1, x);
    let top = b.along(top, 0, &shape);
    let x = b.binary(BinaryOp::SubF, x, top);
    let e = b.unary(UnaryOp::Exp, x);
    let sum = b.reduce(ReduceOp::Sum, 1, e);
    let sum = b.along(sum, 0, &shape);
    let y = b.binary(BinaryOp::DivF, e, sum);
    b.store(a[3], &[at, zero], &[0, 1], y);
    b.finish()
}

/// `C = A · B` with f32 results, tiles of `bm` × `bn`, `bk` at a time.
pub(crate) fn matmul(elem: Elem, bm: i64, bn: i64, bk: i64) -> Func {
    let args = [
        scalar("m", Elem::I32),
        scalar("n", Elem::I32),
        scalar("k", Elem::I32),
        tensor("a", &["m", "k"], elem),
        tensor("b", &["k", "n"], elem),
        tensor("c", &["m", "n"], Elem::F32),
    ];
    let (mut b, a) = start("matmul", &args);
    let (px, py) = (b.op1(Kind::ProgramId(0), &[], Type::I32), b.op1(Kind::ProgramId(1), &[], Type::I32));
    let (m0, n0) = (b.times(px, bm), b.times(py, bn));
    let (zero, step) = (b.i32(0), b.i32(bk));
    let acc = b.float(0.0, &[bm, bn]);
    let ty = b.ty(acc).clone();
    let body = b.begin(&[Type::I32, ty.clone()]);
    let x = b.load(a[3], &[m0, body[0]], &[0, 1], &[bm, bk]);
    let y = b.load(a[4], &[body[0], n0], &[0, 1], &[bk, bn]);
    let next = b.op1(Kind::Dot, &[x, y, body[1]], ty.clone());
    let region = b.end(&[next]);
    let c = b.op_with(Kind::For { unordered: false }, &[zero, a[2], step, acc], &[ty], vec![region])[0];
    b.store(a[5], &[m0, n0], &[0, 1], c);
    b.finish()
}

/// Attention forward over one head, `bm` queries a program, `bn` keys at a time; online softmax.
pub(crate) fn attention(elem: Elem, d: i64, bm: i64, bn: i64) -> Func {
    let dd = d.to_string();
    let t = |n, len| tensor(n, &[len, &dd], elem);
    let args = [
        scalar("sq", Elem::I32),
        scalar("sk", Elem::I32),
        scalar("scale", Elem::F32),
        t("q", "sq"),
        t("k", "sk"),
        t("v", "sk"),
        tensor("o", &["sq", &dd], Elem::F32),
    ];
    let (mut b, a) = start("attention", &args);
    let pid = b.op1(Kind::ProgramId(0), &[], Type::I32);
    let (m0, zero, step) = (b.times(pid, bm), b.i32(0), b.i32(bn));
    let q = b.load(a[3], &[m0, zero], &[0, 1], &[bm, d]);
    let inits = [b.float(f64::NEG_INFINITY, &[bm]), b.float(0.0, &[bm]), b.float(0.0, &[bm, d])];
    let types: Vec<Type> = inits.iter().map(|v| b.ty(*v).clone()).collect();
    let body = b.begin(&[&[Type::I32][..], &types].concat());
    let (at, top, sum, acc) = (body[0], body[1], body[2], body[3]);
    let s = [bm, bn];
    let k = b.load(a[4], &[at, zero], &[0, 1], &[bn, d]);
    let kt = b.op1(Kind::Trans, &[k], Type::tile(&[d, bn], elem));
    let nothing = b.float(0.0, &s);
    let x = b.op1(Kind::Dot, &[q, kt, nothing], Type::tile(&s, Elem::F32));
    let scale = b.splat(a[2], &s);
    let x = b.binary(BinaryOp::MulF, x, scale);
    let real = b.below(at, bn, a[1]);
    let real = b.along(real, 1, &s);
    let none = b.float(f64::NEG_INFINITY, &s);
    let x = b.select(real, x, none);
    let here = b.reduce(ReduceOp::Max, 1, x);
    let new_top = b.binary(BinaryOp::MaxNumF, top, here);
    let wide = b.along(new_top, 0, &s);
    let x = b.binary(BinaryOp::SubF, x, wide);
    let p = b.unary(UnaryOp::Exp, x);
    let fall = b.binary(BinaryOp::SubF, top, new_top);
    let fall = b.unary(UnaryOp::Exp, fall);
    let part = b.reduce(ReduceOp::Sum, 1, p);
    let new_sum = b.op1(Kind::Fma, &[sum, fall, part], types[1].clone());
    let v = b.load(a[5], &[at, zero], &[0, 1], &[bn, d]);
    let p = b.cast(p, elem);
    let fall = b.along(fall, 0, &[bm, d]);
    let acc = b.binary(BinaryOp::MulF, acc, fall);
    let acc = b.op1(Kind::Dot, &[p, v, acc], types[2].clone());
    let region = b.end(&[new_top, new_sum, acc]);
    let operands = [&[zero, a[1], step][..], &inits].concat();
    let out = b.op_with(Kind::For { unordered: false }, &operands, &types, vec![region]);
    let sum = b.along(out[1], 0, &[bm, d]);
    let o = b.binary(BinaryOp::DivF, out[2], sum);
    b.store(a[6], &[m0, zero], &[0, 1], o);
    b.finish()
}

/// The same function with the threads of `warps` warps holding every tile.
pub(crate) fn with_layouts(mut func: Func, warps: i64, layout: impl Fn(&[i64]) -> Layout) -> Func {
    for ty in &mut func.values {
        if let Type::Tile(t) | Type::InFlight(t) = ty {
            *t = TileType { layout: Some(layout(&t.shape)), ..t.clone() };
        }
    }
    func.warps = Some(warps);
    func
}
