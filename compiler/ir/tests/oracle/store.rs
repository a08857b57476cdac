//! Copies from shared memory to tensors: what they write, and that each mistake in their use is noticed.

use crate::kernels::*;
use flashc_ir::func::{Func, Op, ValueId};
use flashc_ir::interp::{Fault, HostTensor, Launch, Options, Report, TrapKind, run};
use flashc_ir::layout::{Layout, Shared};
use flashc_ir::ops::Kind;
use flashc_ir::types::{BufferType, Elem, TileType, Type};
use flashc_ir::verify::verify;

/// What stands between two uses of a buffer.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Meet {
    Nobody,
    Group,
    All,
}

/// A tile that goes from `x` to `y` by way of a buffer, and a second one by the same buffer.
#[derive(Clone, Copy, Debug)]
struct Through {
    tile: [i64; 2],
    swizzle: i64,
    /// Warpgroups, and parts of each copy.
    split: (i64, i64),
    parts: (i64, i64),
    fence: bool,
    /// Between filling and copying.
    filled: Meet,
    /// Between the wait and the second filling.
    emptied: Meet,
    wait: bool,
    /// Does it wait for the tensor too?
    complete: bool,
    last_wait: bool,
    /// Rows from one tile to the next.
    down: i64,
}

impl Through {
    fn new(tile: [i64; 2], split: (i64, i64)) -> Through {
        Through {
            tile,
            swizzle: Shared::widest(tile[1] / split.1, Elem::BF16).swizzle,
            split,
            parts: split,
            fence: true,
            filled: Meet::Group,
            emptied: Meet::Group,
            wait: true,
            complete: false,
            last_wait: true,
            down: tile[0],
        }
    }

    fn func(&self) -> Func {
        let tensors = ["x", "y"].map(|t| tensor(t, &["m", "n"], Elem::BF16));
        let args = [vec![scalar("m", Elem::I32), scalar("n", Elem::I32)], tensors.to_vec()].concat();
        let (mut b, a) = start("through", &args);
        b.func.warps = Some(4 * self.split.0 * self.split.1);
        let layout = Layout::Acc { wgm: self.split.0, wgn: self.split.1 };
        let ty = TileType::new(&self.tile, Elem::BF16).with_layout(layout);
        let shared = BufferType {
            shape: self.tile.to_vec(),
            elem: Elem::BF16,
            layout: Shared { swizzle: self.swizzle },
        };
        let buffer = b.op1(Kind::Alloc { offset: None }, &[], Type::Buffer(shared));
        let (zero, down) = (b.i32(0), b.i32(self.down));
        let meet = |b: &mut flashc_ir::Builder, who: Meet| match who {
            Meet::Nobody => {}
            Meet::Group => drop(b.op(Kind::GroupBarrier, &[], &[])),
            Meet::All => drop(b.op(Kind::CtaBarrier, &[], &[])),
        };
        let copy = |b: &mut flashc_ir::Builder, row: ValueId| {
            let x = b.op1(Kind::Load { axes: vec![0, 1] }, &[a[2], row, zero], Type::Tile(ty.clone()));
            b.op(Kind::LocalStore, &[x, buffer], &[]);
            if self.fence {
                b.op(Kind::FenceAsync, &[], &[]);
            }
            meet(b, self.filled);
            let (wgm, wgn) = self.parts;
            b.op(Kind::TmaStore { axes: vec![0, 1], wgm, wgn }, &[a[3], row, zero, buffer], &[]);
        };
        copy(&mut b, zero);
        if self.wait {
            b.op(Kind::TmaStoreWait { pending: 0, read: !self.complete }, &[buffer], &[]);
        }
        meet(&mut b, self.emptied);
        copy(&mut b, down);
        if self.last_wait {
            b.op(Kind::TmaStoreWait { pending: 0, read: true }, &[buffer], &[]);
        }
        b.finish()
    }

    fn run_with(&self, shape: [i64; 2], fault: Option<Fault>) -> Result<(Report, bool), TrapKind> {
        let f = self.func();
        assert_eq!(verify(&f), Ok(()), "{self:?}");
        let pitch = (shape[1] + 7) / 8 * 8;
        let x = HostTensor::from_f64(Elem::BF16, &shape, &numbers(shape[0] * shape[1], 5));
        let y = HostTensor::uninitialised(Elem::BF16, &shape).with_strides(&[pitch, 1], 0);
        let mut l = Launch::new([1, 1, 1]).tensor("x", x).tensor("y", y);
        let o = Options { fault, ..Options::default() };
        let report = run(&f, &mut l, &o).map_err(|t| t.kind)?;
        let all = l.get("y").all_written();
        Ok((report, all && l.get("x").to_bits() == l.get("y").to_bits()))
    }

    /// How it ends on a tensor of two whole tiles.
    fn end(&self) -> Result<bool, TrapKind> {
        self.run_with([2 * self.tile[0], self.tile[1]], None).map(|r| r.1)
    }
}

#[test]
fn every_swizzle_split_and_ragged_end() {
    for (tile, split) in [
        ([64, 64], (1, 1)),
        ([128, 64], (2, 1)),
        ([64, 256], (1, 2)),
        ([128, 128], (2, 2)),
        ([192, 32], (3, 1)),
        ([40, 16], (1, 1)),
    ] {
        let t = Through::new(tile, split);
        for swizzle in [128, 64, 32].into_iter().filter(|s| tile[1] / split.1 * 2 % s == 0) {
            for (less_rows, less_cols) in [(0, 0), (1, 8), (37, 8), (2 * tile[0] - 1, 0)] {
                let t = Through { swizzle, ..t };
                let shape = [2 * tile[0] - less_rows, tile[1] - less_cols];
                let (report, same) =
                    t.run_with(shape, None).unwrap_or_else(|e| panic!("{t:?} {shape:?}: {e:?}"));
                assert!(same, "{t:?} {shape:?}");
                assert_eq!(report.tma_stores, 2 * (split.0 * split.1) as u64);
                let one = Through { parts: (1, 1), filled: Meet::All, emptied: Meet::All, ..t };
                assert_eq!(one.run_with(shape, None).map(|r| r.1), Ok(true), "{one:?} {shape:?}");
            }
        }
    }
}

/// Hardware writes units of 16 bytes: a row that ends within one would take what lies behind it along.
#[test]
fn rows_end_where_units_do() {
    let t = Through::new([64, 64], (1, 1));
    for less in [1, 3, 7, 63] {
        assert_eq!(t.run_with([128, 64 - less], None).map(|r| r.1), Err(TrapKind::Tma), "{less}");
    }
}

#[test]
fn mistakes_trap() {
    let t = Through::new([128, 64], (2, 1));
    assert_eq!(t.end(), Ok(true));
    let ends = |edit: &dyn Fn(&mut Through)| {
        let mut t = t;
        edit(&mut t);
        t.end()
    };
    assert_eq!(ends(&|t| t.fence = false), Err(TrapKind::MissingFence));
    assert_eq!(ends(&|t| t.filled = Meet::Nobody), Err(TrapKind::MissingFence));
    assert_eq!(ends(&|t| t.wait = false), Err(TrapKind::Overwritten));
    assert_eq!(ends(&|t| t.emptied = Meet::Nobody), Err(TrapKind::Race));
    assert_eq!(ends(&|t| t.last_wait = false), Err(TrapKind::CopyInFlight));
    // One thread copies what both warpgroups have written: they all have to meet, before and after.
    let one = |filled, emptied| Through { parts: (1, 1), filled, emptied, ..t }.end();
    assert_eq!(one(Meet::All, Meet::All), Ok(true));
    assert_eq!(one(Meet::Group, Meet::All), Err(TrapKind::MissingFence));
    assert_eq!(one(Meet::All, Meet::Group), Err(TrapKind::Race));
    // The tensor's elements are written late: the same ones again need a wait for that.
    assert_eq!(ends(&|t| t.down = 1), Err(TrapKind::Race));
    let again = Through { down: 1, complete: true, ..t };
    assert_eq!(again.run_with([129, 64], None).map(|r| r.1), Ok(true));
}

#[test]
fn wrong_boxes_are_noticed() {
    for (tile, split) in [([128, 64], (2, 1)), ([64, 64], (1, 1))] {
        let t = Through::new(tile, split);
        let noticed = |fault| t.run_with([2 * tile[0], tile[1]], Some(fault)).map(|r| r.1) != Ok(true);
        assert!(!noticed(Fault::StoreRow(0)));
        for row in [1, 8, 64] {
            assert!(noticed(Fault::StoreRow(row)), "{row} rows down");
        }
        for swizzle in [64, 32, 0] {
            assert!(noticed(Fault::TmaSwizzle(swizzle)), "swizzle {swizzle}");
        }
    }
}

#[test]
fn a_tensor_in_flight_is_not_read() {
    let t = Through::new([64, 64], (1, 1));
    for complete in [false, true] {
        let mut f = Through { complete, ..t }.func();
        // The second tile is loaded from the tensor that the first is copied to.
        let y = f.arg("y").expect("y");
        let load = |o: &Op| matches!(o.kind, Kind::Load { .. });
        let second = f.body.ops.iter().rposition(load).expect("a load");
        let first = f.body.ops.iter().find(|o| load(o)).expect("a load").operands.clone();
        f.body.ops[second].operands = [vec![y], first[1..].to_vec()].concat();
        let x = HostTensor::from_f64(Elem::BF16, &[128, 64], &numbers(128 * 64, 5));
        let out = HostTensor::uninitialised(Elem::BF16, &[128, 64]);
        let mut l = Launch::new([1, 1, 1]).tensor("x", x).tensor("y", out);
        let end = run(&f, &mut l, &Options::default()).map(|_| ()).map_err(|t| t.kind);
        assert_eq!(end, if complete { Ok(()) } else { Err(TrapKind::CopyInFlight) });
    }
}

#[test]
fn what_the_verifier_refuses() {
    let rejected = |t: Through, part: &str| {
        let all = verify(&t.func()).expect_err(part);
        assert!(all.iter().any(|v| v.message.contains(part)), "{part}: {all:?}");
    };
    let t = Through::new([128, 64], (2, 1));
    rejected(Through { parts: (1, 2), ..t }, "whole boxes");
    rejected(Through { parts: (3, 1), ..t }, "parts for 2 warpgroups");
    rejected(Through { swizzle: 0, ..t }, "whole slabs");
    rejected(Through { tile: [128, 24], swizzle: 32, ..t }, "whole slabs");
    rejected(Through { tile: [100, 64], ..t }, "whole boxes");
}
