//! Expressions. Tiles have no axes of length 1 here (see the module's head), so inserting one is free and a broadcast
//! is one operation.

use super::{Import, ir_elem, squeeze, tile_or_scalar};
use flashc_front::hir::{Expr, ExprKind, IndexItem, Literal, ParamId};
use flashc_front::types::Elem as Lang;
use flashc_ir::{Elem, Kind, Type, ValueId};

/// The most axes of a tile in the IR.
const MAX_RANK: usize = 5;

/// Where a load or store goes.
pub(super) struct Place {
    /// The tensor, then the start along each of its axes.
    pub(super) operands: Vec<ValueId>,
    /// Axes of the tensor that are axes of the tile.
    pub(super) axes: Vec<usize>,
}

impl Import<'_> {
    pub(super) fn expr(&mut self, e: &Expr) -> ValueId {
        if let Some(c) = &e.constant {
            self.at(e.span);
            let value = self.bound.eval(c);
            return self.emit.int(value, ir_elem(self.elem(&e.ty)));
        }
        let shape = self.shape(&e.ty);
        if shape.len() > MAX_RANK {
            self.unsupported(e.span, format!("a tile {shape:?}"), "at most five lengths may be more than 1");
            return self.emit.filled(0.0, ir_elem(self.elem(&e.ty)), &shape);
        }
        match &e.kind {
            ExprKind::Literal(l) => {
                self.at(e.span);
                self.literal(*l, self.elem(&e.ty))
            }
            ExprKind::Const(c) => {
                self.at(e.span);
                let value = self.bound.eval(c);
                self.emit.int(value, ir_elem(self.elem(&e.ty)))
            }
            ExprKind::Dim(id) => match self.dims.get(id.index()) {
                Some(&v) => v,
                None => self.internal(e),
            },
            ExprKind::ScalarParam(id) => match self.scalars.get(id.index()).copied().flatten() {
                Some(v) => v,
                None => self.internal(e),
            },
            ExprKind::Var(id) => match self.var(*id) {
                Some(v) => v,
                None => self.internal(e),
            },
            ExprKind::ProgramId(axis) => self.nullary(e, Kind::ProgramId(usize::from(*axis))),
            ExprKind::NumPrograms(axis) => self.nullary(e, Kind::NumPrograms(usize::from(*axis))),
            ExprKind::Unary(op, a) => {
                let v = self.expr(a);
                self.at(e.span);
                self.emit.unary_op(*op, self.bound.elem(&a.ty.elem()), v)
            }
            ExprKind::Binary(op, a, b) => {
                let (x, y) = (self.expr(a), self.expr(b));
                self.at(e.span);
                let elem = self.elem(&a.ty);
                self.emit.binary_op(*op, elem, x, y).unwrap_or_else(|| {
                    let help = "compute it from `a - floor(a / b) * b`, with the rounding that you want";
                    self.unsupported(e.span, format!("the remainder of {elem} numbers"), help);
                    x
                })
            }
            ExprKind::Compare(op, a, b) => {
                let (x, y) = (self.expr(a), self.expr(b));
                self.at(e.span);
                self.emit.compare_op(*op, self.bound.elem(&a.ty.elem()), x, y)
            }
            ExprKind::Select { cond, then, otherwise } => {
                // A condition that is the same everywhere stays a scalar.
                let scalar = if let ExprKind::Splat(c) = &cond.kind { c } else { cond };
                let c = self.expr(scalar);
                let (x, y) = (self.expr(then), self.expr(otherwise));
                self.at(e.span);
                self.emit.select(c, x, y)
            }
            ExprKind::Fma(a, b, c) => {
                let operands = [self.expr(a), self.expr(b), self.expr(c)];
                self.at(e.span);
                let ty = self.ty(&e.ty);
                self.emit.op1(Kind::Fma, &operands, ty)
            }
            ExprKind::Cast(a) => {
                let v = self.expr(a);
                self.at(e.span);
                let (from, to) = (self.elem(&a.ty), self.elem(&e.ty));
                self.emit.convert(from, to, v)
            }
            ExprKind::Load { tensor, index } => self.load(e, *tensor, index),
            ExprKind::ExpandDims { value, .. } => self.expr(value),
            ExprKind::Broadcast(a) => self.broadcast(e, a),
            ExprKind::Splat(a) => {
                let v = self.expr(a);
                self.at(e.span);
                let shape = self.shape(&e.ty);
                self.emit.splat(v, &shape)
            }
            ExprKind::Reduce { op, value, axis } => {
                let v = self.expr(value);
                self.at(e.span);
                let shape = self.full_shape(&value.ty);
                if shape.get(*axis) == Some(&1) {
                    return v;
                }
                let axis = squeeze(&shape[..*axis]).len();
                self.emit.reduce(*op, self.bound.elem(&value.ty.elem()), v, axis)
            }
            ExprKind::Dot { a, b, acc } => self.dot(e, a, b, acc.as_deref()),
            ExprKind::Permute { value, order } => self.permute(e, value, order),
            ExprKind::Reshape(a) => {
                let v = self.expr(a);
                self.at(e.span);
                let shape = self.shape(&e.ty);
                self.emit.reshape(v, &shape)
            }
            ExprKind::Iota => {
                let ty = self.ty(&e.ty);
                self.at(e.span);
                match ty {
                    Type::Scalar(elem) => self.emit.int(0, elem),
                    ty => self.emit.op1(Kind::Iota, &[], ty),
                }
            }
        }
    }

    fn literal(&mut self, l: Literal, elem: Lang) -> ValueId {
        match l {
            Literal::Int(v) if elem.is_float() || elem.is_fp8() => self.emit.float(v as f64, ir_elem(elem)),
            Literal::Int(v) => self.emit.int(v as i64, ir_elem(elem)),
            Literal::Bool(v) => self.emit.int(i64::from(v), Elem::I1),
            Literal::Float(v) => self.emit.float(v, ir_elem(elem)),
        }
    }

    fn nullary(&mut self, e: &Expr, kind: Kind) -> ValueId {
        self.at(e.span);
        self.emit.op1(kind, &[], Type::I32)
    }

    /// The checker lets none of these through.
    fn internal(&mut self, e: &Expr) -> ValueId {
        self.unsupported(
            e.span,
            "a value that is not defined here",
            "this is a fault of the compiler: please report it",
        );
        let (elem, shape) = (ir_elem(self.elem(&e.ty)), self.shape(&e.ty));
        self.emit.filled(0.0, elem, &shape)
    }

    fn broadcast(&mut self, e: &Expr, value: &Expr) -> ValueId {
        let v = self.expr(value);
        self.at(e.span);
        let (from, to) = (self.full_shape(&value.ty), self.full_shape(&e.ty));
        let shape = squeeze(&to);
        if squeeze(&from) == shape {
            return v;
        }
        if self.emit.shape(v).is_empty() {
            return self.emit.splat(v, &shape);
        }
        let mut dims = vec![];
        let mut axis = 0;
        for (&old, &new) in from.iter().zip(&to) {
            if old != 1 {
                dims.push(axis);
            }
            axis += usize::from(new != 1);
        }
        let ty = Type::tile(&shape, self.emit.elem(v));
        self.emit.op1(Kind::Broadcast { dims }, &[v], ty)
    }

    /// `wgmma` and its kin want two axes, so those of length 1 come back for it.
    fn dot(&mut self, e: &Expr, a: &Expr, b: &Expr, acc: Option<&Expr>) -> ValueId {
        let (x, y) = (self.expr(a), self.expr(b));
        let c = acc.map(|acc| self.expr(acc));
        self.at(e.span);
        let shape = self.full_shape(&e.ty);
        let x = self.restore(x, &self.full_shape(&a.ty));
        let y = self.restore(y, &self.full_shape(&b.ty));
        let elem = ir_elem(self.elem(&e.ty));
        let c = match c {
            Some(c) => self.restore(c, &shape),
            None => self.emit.filled(0.0, elem, &shape),
        };
        let product = self.emit.op1(Kind::Dot, &[x, y, c], Type::tile(&shape, elem));
        self.drop_units(product)
    }

    /// The value with its axes of length 1.
    fn restore(&mut self, v: ValueId, shape: &[i64]) -> ValueId {
        if self.emit.shape(v).is_empty() { self.emit.splat(v, shape) } else { self.emit.reshape(v, shape) }
    }

    /// The value without them.
    fn drop_units(&mut self, v: ValueId) -> ValueId {
        let shape = squeeze(&self.emit.shape(v));
        if !shape.is_empty() {
            return self.emit.reshape(v, &shape);
        }
        // One element: the sum of it.
        let v = self.emit.reshape(v, &[1]);
        let ty = Type::Scalar(self.emit.elem(v));
        self.emit.op1(Kind::Reduce { op: flashc_ir::ops::ReduceOp::Sum, axis: 0 }, &[v], ty)
    }

    fn permute(&mut self, e: &Expr, value: &Expr, order: &[usize]) -> ValueId {
        let v = self.expr(value);
        self.at(e.span);
        let lens = self.full_shape(&value.ty);
        // Axes of length 1 are not there: the order of the others counts.
        let kept: Vec<usize> = order.iter().copied().filter(|&i| lens.get(i) != Some(&1)).collect();
        let to = self.shape(&e.ty);
        match rotation(&kept) {
            Some(0) => v,
            // The axes from some place on, then those before it: a matrix transposed.
            Some(split) => {
                let from: Vec<i64> = squeeze(&lens);
                let (rows, cols) = (from[..split].iter().product(), from[split..].iter().product());
                let elem = self.emit.elem(v);
                let matrix = self.emit.reshape(v, &[rows, cols]);
                let trans = self.emit.op1(Kind::Trans, &[matrix], Type::tile(&[cols, rows], elem));
                self.emit.reshape(trans, &to)
            }
            None => {
                let help =
                    "axes can be rotated: [1, 0], [1, 2, 0], [2, 0, 1]; or read the tensor in that order";
                self.unsupported(e.span, format!("axes in the order {order:?}"), help);
                v
            }
        }
    }

    fn load(&mut self, e: &Expr, tensor: ParamId, index: &[IndexItem]) -> ValueId {
        let Some(place) = self.place(tensor, index) else { return self.internal(e) };
        self.at(e.span);
        let ty = self.ty(&e.ty);
        let kind = if place.axes.is_empty() { Kind::LoadScalar } else { Kind::Load { axes: place.axes } };
        self.emit.op1(kind, &place.operands, ty)
    }

    /// A slice of length 1 is an index.
    pub(super) fn place(&mut self, tensor: ParamId, index: &[IndexItem]) -> Option<Place> {
        let mut place = Place { operands: vec![self.tensor(tensor)?], axes: vec![] };
        for (axis, item) in index.iter().enumerate() {
            let (start, len) = match item {
                IndexItem::At(e) => (Some(e), 1),
                IndexItem::Slice { start, len, .. } => (Some(start), self.bound.eval(len)),
                IndexItem::Full { len, .. } => (None, self.bound.eval(len)),
            };
            let start = match start {
                Some(e) => {
                    let v = self.expr(e);
                    self.at(e.span);
                    self.emit.index(self.bound.elem(&e.ty.elem()), v)
                }
                None => self.emit.int(0, Elem::I32),
            };
            place.operands.push(start);
            if len != 1 {
                place.axes.push(axis);
            }
        }
        Some(place)
    }

    /// A value of a variable's type that stands in after an error.
    pub(super) fn placeholder(&mut self, ty: &Type) -> ValueId {
        let (elem, shape) = match ty {
            Type::Tile(t) => (t.elem, t.shape.clone()),
            other => (other.elem().unwrap_or(Elem::I32), vec![]),
        };
        debug_assert_eq!(&tile_or_scalar(&shape, elem), ty);
        self.emit.filled(0.0, elem, &shape)
    }
}

/// For `[k, k + 1, ..., 0, 1, ..., k - 1]` (up to gaps between the numbers) the place of the smallest, turned: how many
/// axes of the operand go to the end. 0 if the order is kept.
fn rotation(order: &[usize]) -> Option<usize> {
    let mut sorted = order.to_vec();
    sorted.sort_unstable();
    (0..order.len().max(1)).find(|&k| {
        sorted.rotate_left(usize::from(k > 0));
        sorted == order
    })
}
