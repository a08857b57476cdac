//! A function with every operation, in every form.

use flashc_ir::layout::{Layout, Shared};
use flashc_ir::ops::*;
use flashc_ir::types::*;
use flashc_ir::{Builder, Func, Loc};

/// `B x 64` of bf16.
pub(crate) fn tensor(name: &str) -> Type {
    let dims = vec![Dim::Sym("B".into()), Dim::Const(64)];
    Type::Tensor(TensorType { name: name.into(), dims, elem: Elem::BF16 })
}

/// A builder with arguments `n: i32, B: i32, q, o`.
pub(crate) fn kernel() -> Builder {
    let args = [("n", Type::I32), ("B", Type::I32), ("q", tensor("q")), ("o", tensor("o"))];
    let args: Vec<_> = args.into_iter().map(|(n, t)| (n.to_string(), t)).collect();
    Builder::new("k", &args, Loc::new("dir/a \"b\".tile", 3, 7))
}

/// Scalars, tiles, control flow: what exists before shared memory does.
pub(crate) fn tile_level(layout: Option<Layout>) -> Func {
    let mut b = kernel();
    let args = b.args();
    let tile = |elem| Type::Tile(TileType { shape: vec![64, 64], elem, layout: layout.clone() });
    let row =
        |elem| Type::Tile(TileType { shape: vec![64], elem, layout: layout.as_ref().map(|l| l.slice(1)) });

    let mut scalars = vec![];
    for elem in Elem::ALL {
        if matches!(elem, Elem::E4M3 | Elem::E5M2) {
            continue;
        }
        let l = if elem.is_float() { Literal::Float(-0.5) } else { Literal::Int(1) };
        b.loc = Loc::new("a.tile", 4 + scalars.len() as u32, 1);
        scalars.push((elem, b.constant(l, elem)));
    }
    for x in [
        f64::INFINITY,
        f64::NEG_INFINITY,
        -0.0,
        0.1f32 as f64,
        std::f32::consts::LOG2_E as f64,
        1e-45f32 as f64,
    ] {
        b.constant(Literal::Float(x), Elem::F32);
    }
    for x in [i64::MIN, -1, i64::MAX] {
        b.constant(Literal::Int(x), Elem::I64);
    }
    let zero = b.i32(0);
    let fals = b.constant(Literal::Int(0), Elem::I1);
    for axis in 0..3 {
        b.op1(Kind::ProgramId(axis), &[], Type::I32);
        b.op1(
            if axis == 0 { Kind::CtaIndex } else { Kind::CtaCount { up_to: Some(64).filter(|_| axis == 1) } },
            &[],
            Type::I32,
        );
        b.op1(Kind::NumPrograms(axis), &[], Type::I32);
    }

    // Elementwise, on scalars and on tiles.
    let mut tiles = vec![];
    for (elem, x) in scalars.clone() {
        let t = b.op1(Kind::Splat, &[x], tile(elem));
        tiles.push((elem, t));
    }
    for (elem, x) in scalars.into_iter().chain(tiles.clone()) {
        let ty = b.ty(x).clone();
        for op in BinaryOp::ALL {
            let float = op.name().ends_with('f');
            if float == elem.is_float() {
                b.binary(*op, x, x);
            }
        }
        for op in UnaryOp::ALL {
            if (*op == UnaryOp::AbsI) != elem.is_float() {
                b.op1(Kind::Unary(*op), &[x], ty.clone());
            }
        }
        for p in Predicate::ALL {
            if p.name().starts_with('f') == elem.is_float() {
                b.compare(*p, x, x);
            }
        }
        if elem.is_float() {
            b.op1(Kind::Fma, &[x, x, x], ty.clone());
        }
        b.op1(Kind::Select, &[fals, x, x], ty.clone());
        if let Type::Tile(_) = ty {
            let c = b.compare(if elem.is_float() { Predicate::Feq } else { Predicate::Eq }, x, x);
            b.op1(Kind::Select, &[c, x, x], ty.clone());
        }
        for to in Elem::ALL {
            for signed in [true, false] {
                let mut at = x;
                for (op, elem) in cast_steps(elem, to, signed) {
                    let to = match b.ty(at).clone() {
                        Type::Tile(t) => Type::Tile(t.with_elem(elem)),
                        _ => Type::Scalar(elem),
                    };
                    at = b.op1(Kind::Cast(op), &[at], to);
                }
            }
        }
    }
    let find = |elem| tiles.iter().find(|t| t.0 == elem).map(|t| t.1).unwrap();
    let (f32s, bf16s) = (find(Elem::F32), find(Elem::BF16));
    b.op1(Kind::Cast(CastOp::Bitcast), &[f32s], tile(Elem::I32));

    // Shapes.
    let iota = b.op1(Kind::Iota, &[], row(Elem::I32));
    b.op1(Kind::Broadcast { dims: vec![0] }, &[iota], tile(Elem::I32));
    b.op1(Kind::Broadcast { dims: vec![1, 2] }, &[f32s], Type::tile(&[2, 64, 64], Elem::F32));
    b.op1(Kind::Reshape, &[f32s], Type::tile(&[32, 128], Elem::F32));
    let halves = [0, 1].map(|part| b.op1(Kind::Rows { part }, &[f32s], Type::tile(&[32, 64], Elem::F32)));
    b.op1(Kind::JoinRows, &halves, Type::tile(&[64, 64], Elem::F32));
    b.op1(Kind::Fold { op: ReduceOp::Sum }, &[f32s], Type::tile(&[64, 8], Elem::F32));
    b.op1(Kind::Trans, &[f32s], tile(Elem::F32));
    b.op1(Kind::Convert, &[f32s], Type::Tile(TileType::new(&[64, 64], Elem::F32).with_layout(blocked())));
    for op in ReduceOp::ALL {
        let r = b.op1(Kind::Reduce { op: *op, axis: 1 }, &[f32s], row(Elem::F32));
        b.op1(Kind::Reduce { op: *op, axis: 0 }, &[r], Type::Scalar(Elem::F32));
    }
    let acc = b.op1(Kind::Dot, &[bf16s, bf16s, f32s], tile(Elem::F32));

    // Memory.
    let (q, o) = (args[2], args[3]);
    let t = b.op1(Kind::Load { axes: vec![0, 1] }, &[q, zero, zero], tile(Elem::BF16));
    let v = b.op1(Kind::Load { axes: vec![1] }, &[q, zero, zero], row(Elem::BF16));
    let s = b.op1(Kind::LoadScalar, &[q, zero, zero], Type::Scalar(Elem::BF16));
    b.op(Kind::Store { axes: vec![0, 1] }, &[o, zero, zero, t], &[]);
    b.op(Kind::Store { axes: vec![0] }, &[o, zero, zero, v], &[]);
    b.op(Kind::StoreScalar, &[o, zero, zero, s], &[]);

    // Control flow.
    let step = b.i32(2);
    for unordered in [false, true] {
        let inner = b.begin(&[Type::I32, tile(Elem::F32), Type::I32]);
        let sum = b.binary(BinaryOp::AddF, inner[1], acc);
        let next = b.binary(BinaryOp::AddI, inner[2], inner[0]);
        let body = b.end(&[sum, next]);
        let kind = Kind::For { unordered };
        b.op_with(kind, &[zero, args[0], step, acc, zero], &[tile(Elem::F32), Type::I32], vec![body]);
    }
    let more = b.compare(Predicate::Slt, zero, args[0]);
    b.begin(&[]);
    let one = b.i32(1);
    let yes = b.end(&[one]);
    b.begin(&[]);
    let no = b.end(&[step]);
    b.op_with(Kind::If, &[more], &[Type::I32], vec![yes, no]);
    b.begin(&[]);
    b.op(Kind::StoreScalar, &[o, zero, zero, s], &[]);
    let yes = b.end(&[]);
    b.begin(&[]);
    let no = b.end(&[]);
    b.op_with(Kind::If, &[more], &[], vec![yes, no]);
    b.finish()
}

/// Buffers, barriers, copies, wgmma.
pub(crate) fn sm90_level() -> Func {
    let mut b = kernel();
    let args = b.args();
    let acc = Layout::Acc { wgm: 1, wgn: 1 };
    let d = TileType::new(&[64, 64], Elem::F32).with_layout(acc.clone());
    let buffer =
        Type::Buffer(BufferType { shape: vec![64, 64], elem: Elem::BF16, layout: Shared { swizzle: 128 } });
    let scratch =
        Type::Buffer(BufferType { shape: vec![4096], elem: Elem::F32, layout: Shared { swizzle: 0 } });
    let zero = b.i32(0);

    let a = b.op1(Kind::Alloc { offset: None }, &[], buffer.clone());
    let bb = b.op1(Kind::Alloc { offset: Some(1024) }, &[], buffer.clone());
    let mem = b.op1(Kind::Alloc { offset: Some(0) }, &[], scratch);
    let bar = b.op1(Kind::BarrierAlloc { count: 1, offset: None }, &[], Type::Barrier);
    b.op1(Kind::BarrierAlloc { count: 2, offset: Some(8) }, &[], Type::Barrier);
    b.op(Kind::TmaLoad { axes: vec![0, 1] }, &[args[2], zero, zero, a, bar], &[]);
    b.op(Kind::BarrierWait, &[bar, zero], &[]);
    let t = b.op1(Kind::LocalLoad, &[a], Type::Tile(d.with_elem(Elem::BF16)));
    b.op(Kind::LocalStore, &[t, bb], &[]);
    b.op(Kind::FenceAsync, &[], &[]);
    b.op(Kind::CtaBarrier, &[], &[]);
    b.op(Kind::GroupBarrier, &[], &[]);
    b.op(Kind::TmaStore { axes: vec![0, 1], wgm: 1, wgn: 1 }, &[args[2], zero, zero, bb], &[]);
    b.op(Kind::TmaStoreWait { pending: 1, read: true }, &[bb, a], &[]);
    b.op(Kind::TmaStoreWait { pending: 0, read: false }, &[], &[]);

    let kind = |trans_a, trans_b, acc| Kind::Wgmma { trans_a, trans_b, acc };
    let flying = Type::InFlight(d.clone());
    let s = b.op1(kind(false, false, false), &[a, bb], flying.clone());
    let s = b.op1(Kind::WgmmaWait { pending: 0 }, &[s], Type::Tile(d.clone()));
    b.op1(kind(true, false, true), &[a, bb, s], flying.clone());
    b.op1(kind(true, true, false), &[a, bb], flying.clone());
    let r = b.op1(kind(false, true, true), &[t, bb, s], flying);
    let s = b.op1(Kind::WgmmaWait { pending: 1 }, &[r, t, t], Type::Tile(d.clone()));

    let row = Type::Tile(TileType::new(&[64], Elem::F32).with_layout(acc.slice(1)));
    b.op1(Kind::Reshape, &[s, mem], Type::Tile(TileType::new(&[64, 64], Elem::F32).with_layout(blocked())));
    b.op1(Kind::Trans, &[s, mem], Type::Tile(d.clone()));
    b.op1(Kind::Reduce { op: ReduceOp::Sum, axis: 1 }, &[s, mem], row);
    b.op1(Kind::Convert, &[s, mem], Type::Tile(d.with_layout(blocked())));
    b.op1(Kind::Convert, &[s], Type::Tile(d.with_layout(Layout::AccRuns { wgm: 1, wgn: 1, run: 4 })));
    let mut func = b.finish();
    func.warps = Some(4);
    func.shared_bytes = Some(65536);
    func
}

/// Some layout that is not a fragment.
pub(crate) fn blocked() -> Layout {
    Layout::Blocked { per_thread: vec![1, 8], lanes: vec![4, 8], warps: vec![4, 1] }
}
