//! # exchange
//!
//! Gives the operations whose threads must exchange values a buffer to do it in: a reduction over an
//! axis that several warps hold, a conversion between layouts, a reshape or a transpose of registers.
//!
//! Before
//! ```text
//! %m = tile.reduce max %x, axis 1      // the row is spread over warps
//! ```
//! After
//! ```text
//! %sc = sm90.alloc                     : !sm90.buffer<2x128xf32, swizzle 0>
//! %m = tile.reduce max %x, axis 1, %sc
//! ```
//! Requires: layouts. Ensures: an operation has a scratch buffer exactly if its threads must exchange and
//! are not all of one warp; a conversion within warps is done by shuffles.

use flashc_ir::layout::{Distribution, Shared};
use flashc_ir::ops::Kind;
use flashc_ir::shuffle;
use flashc_ir::{BufferType, Builder, Elem, Func, Op, Step, TileType, Type};

/// Runs the pass.
pub fn run(func: &Func) -> Func {
    Builder::rebuild(func, &mut |b, old, op, map| {
        let Some(shape) = scratch(old, op) else { return Step::Copy };
        let elem = old.ty(op.operands[0]).elem().unwrap_or(Elem::F32);
        let ty = BufferType { shape, elem, layout: Shared { swizzle: 0 } };
        let buffer = b.op1(Kind::Alloc { offset: None }, &[], Type::Buffer(ty));
        let result = old.ty(op.results[0]).clone();
        let new = b.op1(op.kind.clone(), &[map[&op.operands[0]], buffer], result);
        map.insert(op.result(), new);
        Step::Done
    })
}

/// The shape of the scratch buffer that an operation needs, if it needs one.
pub fn scratch(func: &Func, op: &Op) -> Option<Vec<i64>> {
    let from = func.ty(*op.operands.first()?).as_tile()?;
    let (before, rows) = (distribution(from)?, 1);
    match &op.kind {
        Kind::Reduce { axis, .. } => {
            let slots = axis_slots(&before, *axis).1;
            let n: i64 = from.len() / from.shape[*axis];
            (slots > 1).then(|| vec![slots, n])
        }
        Kind::Convert => {
            let after = distribution(func.ty(op.results[0]).as_tile()?)?;
            let alone = before == after || shuffle::plan(&before, &after).is_some();
            (!alone).then(|| vec![rows, from.len()])
        }
        Kind::Reshape => {
            (!reshape_is_free(from, func.ty(op.results[0]).as_tile()?)).then(|| vec![rows, from.len()])
        }
        Kind::Trans => Some(vec![rows, from.len()]),
        _ => None,
    }
}

/// For each warp its place along an axis, and the number of places.
pub fn axis_slots(d: &Distribution, axis: usize) -> (Vec<usize>, i64) {
    let mut offsets: Vec<i64> = d.warps.iter().map(|w| w[axis]).collect();
    let per_warp = offsets.clone();
    offsets.sort_unstable();
    offsets.dedup();
    let slot = |o: &i64| offsets.iter().position(|x| x == o).unwrap_or(0);
    (per_warp.iter().map(slot).collect(), offsets.len() as i64)
}

/// Does each thread already hold, register for register, what the reshaped tile wants of it?
pub fn reshape_is_free(from: &TileType, to: &TileType) -> bool {
    let (Some(a), Some(b)) = (distribution(from), distribution(to)) else { return false };
    let linear = |shape: &[i64], at: &[i64]| at.iter().zip(shape).fold(0, |i, (x, n)| i * n + x);
    a.regs.len() == b.regs.len()
        && a.warps.len() == b.warps.len()
        && (0..a.warps.len()).all(|w| {
            (0..32).all(|l| {
                (0..a.regs.len()).all(|r| match (a.coords(w, l, r), b.coords(w, l, r)) {
                    (Some(x), Some(y)) => linear(&from.shape, &x) == linear(&to.shape, &y),
                    (None, None) => true,
                    _ => false,
                })
            })
        })
}

fn distribution(t: &TileType) -> Option<Distribution> {
    Some(t.layout.as_ref()?.distribution(&t.shape))
}
