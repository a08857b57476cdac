//! Through shared memory, TMA and wgmma: the same bits as the plain dot product.

use crate::kernels::*;
use crate::tile::*;
use flashc_ir::func::{Builder, Func, ValueId};
use flashc_ir::interp::{HostTensor, Launch, Options, Report, Trap, decode, run};
use flashc_ir::layout::{Layout, OperandView, Shared, acc_cols, acc_rows};
use flashc_ir::ops::{BinaryOp, Kind};
use flashc_ir::types::{BufferType, Elem, TileType, Type};

/// A matrix product by hand, and the mistakes to make in it.
#[derive(Clone, Debug)]
pub(crate) struct Product {
    pub(crate) m: i64,
    pub(crate) n: i64,
    /// K of one step; there are three.
    pub(crate) k: i64,
    /// A in registers.
    pub(crate) registers: bool,
    /// Tensors hold the transposes.
    pub(crate) trans: (bool, bool),
    pub(crate) swizzle: (i64, i64),
    /// Warpgroups along M and N.
    pub(crate) split: (i64, i64),
    /// Through registers instead of TMA.
    pub(crate) generic: bool,
    pub(crate) mistake: Mistake,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Mistake {
    None,
    /// Parity 0 in every step.
    Parity,
    /// No wait on the barriers.
    NoWait,
    /// The second buffer's wait is missing.
    OneWait,
    /// No barrier after the wait for the product.
    NoBarrier,
    /// No fence between stores and the product.
    NoFence,
    /// No barrier between stores and the product.
    NoStoreBarrier,
    /// The next operands are written before the wait for the product.
    Early,
    /// The product is waited for with one group pending.
    Pending,
    /// The barrier counts two arrivals.
    Count,
    /// A second copy into A's buffer while the first is in flight.
    SecondCopy,
}

pub(crate) const STEPS: i64 = 3;

impl Product {
    pub(crate) fn new(m: i64, n: i64, k: i64) -> Product {
        Product {
            m,
            n,
            k,
            registers: false,
            trans: (false, false),
            swizzle: (128, 128),
            split: (1, 1),
            generic: false,
            mistake: Mistake::None,
        }
    }

    pub(crate) fn with(mistake: Mistake, generic: bool) -> Product {
        Product { mistake, generic, ..Product::new(48, 72, 64) }
    }

    fn acc(&self) -> Layout {
        Layout::Acc { wgm: self.split.0, wgn: self.split.1 }
    }

    fn buffers(&self) -> [BufferType; 2] {
        let rows = acc_rows(self.m, self.split.0) * self.split.0;
        let cols = acc_cols(self.n, self.split.1) * self.split.1;
        // An MN-major row is padded to whole 32 bytes.
        let a = if self.trans.0 { vec![self.k, rows] } else { vec![rows, self.k] };
        let b = if self.trans.1 { vec![cols, self.k] } else { vec![self.k, (cols + 15) / 16 * 16] };
        let buffer = |shape, swizzle| BufferType { shape, elem: Elem::BF16, layout: Shared { swizzle } };
        [buffer(a, self.swizzle.0), buffer(b, self.swizzle.1)]
    }

    /// The function; arguments `a`, `b`, `c`.
    pub(crate) fn func(&self) -> Func {
        let bf = Elem::BF16;
        let args = [
            scalar("m", Elem::I32),
            scalar("n", Elem::I32),
            scalar("k", Elem::I32),
            tensor("a", if self.trans.0 { &["k", "m"] } else { &["m", "k"] }, bf),
            tensor("b", if self.trans.1 { &["n", "k"] } else { &["k", "n"] }, bf),
            tensor("c", &["m", "n"], Elem::F32),
        ];
        let (mut b, a) = start("product", &args);
        b.func.warps = Some(4 * self.split.0 * self.split.1);
        let [ab, bb] = self.buffers();
        let (bt, at) = (Type::Buffer(bb.clone()), Type::Buffer(ab.clone()));
        let abuf = b.op1(Kind::Alloc { offset: None }, &[], at);
        let bbuf = b.op1(Kind::Alloc { offset: None }, &[], bt);
        let count = if self.mistake == Mistake::Count { 2 } else { 1 };
        let bars = [0, 1].map(|_| b.op1(Kind::BarrierAlloc { count, offset: None }, &[], Type::Barrier));
        let (zero, one, steps) = (b.i32(0), b.i32(1), b.i32(STEPS));
        let acc_ty = TileType::new(&[self.m, self.n], Elem::F32).with_layout(self.acc());
        let nought = b.constant(flashc_ir::ops::Literal::Float(0.0), Elem::F32);
        let acc = b.op1(Kind::Splat, &[nought], Type::Tile(acc_ty.clone()));
        let body = b.begin(&[Type::I32, Type::Tile(acc_ty.clone()), Type::I32]);
        let k0 = b.times(body[0], self.k);
        let a_at = if self.trans.0 { [k0, zero] } else { [zero, k0] };
        let b_at = if self.trans.1 { [zero, k0] } else { [k0, zero] };
        let a_value = if self.registers {
            let ty = TileType::new(&[self.m, self.k], bf).with_layout(self.acc());
            b.op1(Kind::Load { axes: vec![0, 1] }, &[a[3], a_at[0], a_at[1]], Type::Tile(ty))
        } else {
            self.fetch(&mut b, a[3], &a_at, abuf, bars[0]);
            if self.mistake == Mistake::SecondCopy {
                self.fetch(&mut b, a[3], &a_at, abuf, bars[1]);
            }
            abuf
        };
        self.fetch(&mut b, a[4], &b_at, bbuf, bars[1]);
        if self.generic {
            if self.mistake != Mistake::NoFence {
                b.op(Kind::FenceAsync, &[], &[]);
            }
            if self.mistake != Mistake::NoStoreBarrier {
                b.op(Kind::CtaBarrier, &[], &[]);
            }
        } else if self.mistake != Mistake::NoWait {
            let parity = if self.mistake == Mistake::Parity { zero } else { body[2] };
            if !self.registers {
                b.op(Kind::BarrierWait, &[bars[0], parity], &[]);
            }
            if self.mistake != Mistake::OneWait {
                b.op(Kind::BarrierWait, &[bars[1], parity], &[]);
            }
        }
        let kind = Kind::Wgmma { trans_a: self.trans.0 && !self.registers, trans_b: self.trans.1, acc: true };
        let flying = b.op1(kind, &[a_value, bbuf, body[1]], Type::InFlight(acc_ty.clone()));
        if self.mistake == Mistake::Early {
            self.fetch(&mut b, a[4], &b_at, bbuf, bars[1]);
        }
        let pending = (self.mistake == Mistake::Pending) as i64;
        let named = if self.registers { vec![flying, a_value] } else { vec![flying] };
        let next = b.op1(Kind::WgmmaWait { pending }, &named, Type::Tile(acc_ty.clone()));
        if self.mistake != Mistake::NoBarrier {
            b.op(Kind::CtaBarrier, &[], &[]);
        }
        let parity = b.binary(BinaryOp::XorI, body[2], one);
        let region = b.end(&[next, parity]);
        let types = [Type::Tile(acc_ty), Type::I32];
        let out =
            b.op_with(Kind::For { unordered: false }, &[zero, steps, one, acc, zero], &types, vec![region]);
        b.store(a[5], &[zero, zero], &[0, 1], out[0]);
        b.finish()
    }

    fn fetch(&self, b: &mut Builder, t: ValueId, at: &[ValueId; 2], buffer: ValueId, barrier: ValueId) {
        if !self.generic {
            b.op(Kind::TmaLoad { axes: vec![0, 1] }, &[t, at[0], at[1], buffer, barrier], &[]);
            return;
        }
        let shape = b.ty(buffer).as_buffer().expect("a buffer").shape.clone();
        let lanes = if shape[1] % 64 == 0 { [4, 8] } else { [16, 2] };
        let warps = vec![4 * self.split.0 * self.split.1, 1];
        let layout = Layout::Blocked { per_thread: vec![1, 8], lanes: lanes.to_vec(), warps };
        let ty = TileType::new(&shape, Elem::BF16).with_layout(layout);
        let x = b.op1(Kind::Load { axes: vec![0, 1] }, &[t, at[0], at[1]], Type::Tile(ty));
        b.op(Kind::LocalStore, &[x, buffer], &[]);
    }

    /// Arguments, and the result of the plain dot product.
    pub(crate) fn launch(&self) -> (Launch, Vec<u64>) {
        let (m, n, k) = (self.m, self.n, STEPS * self.k);
        let a = HostTensor::from_f64(Elem::BF16, &[m, k], &numbers(m * k, 11));
        let b = HostTensor::from_f64(Elem::BF16, &[k, n], &numbers(k * n, 12));
        let c = HostTensor::uninitialised(Elem::F32, &[m, n]);
        let mut plain = Launch::new([1, 1, 1]).tensor("a", a).tensor("b", b).tensor("c", c);
        let mut l = plain.clone();
        check(&matmul(Elem::BF16, m, n, self.k), &mut plain);
        let pitch = |cols: i64| (cols + 7) / 8 * 8;
        for (name, t) in [("a", self.trans.0), ("b", self.trans.1)] {
            let mut x = l.get(name).clone();
            if t {
                x.shape.reverse();
                x.strides.reverse();
            }
            let strides = [pitch(x.shape[1]), 1];
            l.tensors.insert(name.into(), x.with_strides(&strides, 0));
        }
        (l, plain.get("c").to_bits())
    }

    pub(crate) fn run_with(&self, options: &Options) -> Result<(Report, bool), Trap> {
        let (mut l, want) = self.launch();
        let report = run(&self.func(), &mut l, options)?;
        Ok((report, l.get("c").to_bits() == want))
    }

    /// Runs, and asserts that the bits are those of the plain dot product.
    fn agrees(&self) -> Report {
        if let Err(v) = flashc_ir::verify::verify(&self.func()) {
            panic!("{self:?}: {v:?}");
        }
        match self.run_with(&Options::default()) {
            Ok((report, same)) => {
                assert!(same, "{self:?}: other bits than the plain dot product");
                report
            }
            Err(t) => panic!("{self:?}: {t}"),
        }
    }
}

#[test]
fn every_operand_form_and_swizzle() {
    for swizzle_a in [128, 64, 32] {
        for swizzle_b in [128, 64, 32] {
            for trans in [(false, false), (true, false), (false, true), (true, true)] {
                let p = Product { swizzle: (swizzle_a, swizzle_b), trans, ..Product::new(48, 72, 64) };
                p.agrees();
                Product { generic: true, ..p.clone() }.agrees();
                if !trans.0 {
                    Product { registers: true, ..p }.agrees();
                }
            }
        }
    }
}

#[test]
fn shapes_and_splits_over_warpgroups() {
    for (m, n, k, split) in [
        (64, 8, 16, (1, 1)),
        (128, 176, 32, (2, 1)),
        (128, 40, 16, (1, 1)),
        (100, 24, 48, (2, 1)),
        (200, 16, 16, (2, 1)),
        (1, 1, 16, (1, 1)),
        (64, 128, 32, (1, 2)),
        (130, 256, 16, (2, 2)),
        (64, 256, 16, (1, 1)),
        (192, 72, 32, (3, 1)),
    ] {
        for trans in [(false, true), (false, false)] {
            let swizzle = |cols: i64| Shared::widest(cols, Elem::BF16).swizzle;
            let p = Product { split, trans, ..Product::new(m, n, k) };
            let [a, b] = p.buffers();
            let p = Product { swizzle: (swizzle(a.shape[1]), swizzle(b.shape[1])), ..p };
            p.agrees();
            if split.1 == 1 {
                Product { registers: true, ..p }.agrees();
            }
        }
    }
}

#[test]
fn the_report_counts() {
    let r = Product { trans: (false, true), ..Product::new(128, 64, 64) }.agrees();
    // Two blocks of 64 rows, four instructions of 16 along K, three steps.
    assert_eq!((r.wgmma, r.groups, r.max_groups_in_flight), (2 * 4 * 3, 3, 1));
    assert_eq!((r.tma_copies, r.tma_bytes), (2 * 3, (128 + 64) * 64 * 2 * 3));
    assert_eq!((r.barrier_waits, r.cta_barriers, r.fences), (6, 3, 0));
}

/// Each element of each view lies where `Shared::offset` put it.
#[test]
fn decoded_descriptors_find_what_shared_offsets_stored() {
    for swizzle in [128, 64, 32] {
        let (shape, layout) = ([128, 64], Shared { swizzle });
        for k_major in [true, false] {
            let view = OperandView::new(&shape, Elem::BF16, layout, k_major);
            let (mn_len, k_len) = if k_major { (128, 64) } else { (64, 128) };
            for mn in [0, 64].into_iter().filter(|mn| *mn < mn_len) {
                for k in (0..k_len).step_by(16) {
                    let base = 0x8000;
                    let d = decode(view.descriptor(base + view.offset(mn, k)).encode());
                    for i in 0..(mn_len - mn).min(64) {
                        for j in 0..16 {
                            let (row, col) = if k_major { (mn + i, k + j) } else { (k + j, mn + i) };
                            let want = base + layout.offset(&shape, Elem::BF16, row, col);
                            assert_eq!(
                                d.element(k_major, i, j, 2),
                                want,
                                "{swizzle} {k_major} {mn} {k} {i} {j}"
                            );
                        }
                    }
                }
            }
        }
    }
}

/// Registers to shared memory and back in another layout, and exchange through scratch.
#[test]
fn local_memory_between_layouts() {
    let (mut b, a) =
        start("local", &[tensor("x", &["20", "40"], Elem::F32), tensor("y", &["20", "40"], Elem::F32)]);
    b.func.warps = Some(4);
    let blocked = Layout::Blocked { per_thread: vec![1, 4], lanes: vec![4, 8], warps: vec![4, 1] };
    let held = |l: &Layout| Type::Tile(TileType::new(&[20, 40], Elem::F32).with_layout(l.clone()));
    let acc = Layout::Acc { wgm: 1, wgn: 1 };
    let buffer = |shape: &[i64], swizzle| {
        Type::Buffer(BufferType { shape: shape.to_vec(), elem: Elem::F32, layout: Shared { swizzle } })
    };
    let buf = b.op1(Kind::Alloc { offset: None }, &[], buffer(&[24, 48], 64));
    let scratch = b.op1(Kind::Alloc { offset: None }, &[], buffer(&[1, 800], 0));
    let zero = b.i32(0);
    let x = b.op1(Kind::Load { axes: vec![0, 1] }, &[a[0], zero, zero], held(&blocked));
    b.op(Kind::LocalStore, &[x, buf], &[]);
    b.op(Kind::CtaBarrier, &[], &[]);
    let x = b.op1(Kind::LocalLoad, &[buf], held(&acc));
    let x = b.op1(Kind::Convert, &[x, scratch], held(&blocked));
    b.op(Kind::CtaBarrier, &[], &[]);
    let x = b.op1(Kind::Convert, &[x, scratch], held(&acc));
    b.store(a[1], &[zero, zero], &[0, 1], x);
    let f = b.finish();
    let mut l = Launch::new([1, 1, 1])
        .tensor("x", HostTensor::from_f64(Elem::F32, &[20, 40], &numbers(800, 3)))
        .tensor("y", HostTensor::uninitialised(Elem::F32, &[20, 40]));
    check(&f, &mut l);
    assert_eq!(l.get("x").to_bits(), l.get("y").to_bits());
}

/// Before layouts and barriers: one thread, and everything counts as ordered.
#[test]
fn half_way_through_the_pipeline() {
    let p = Product { generic: true, mistake: Mistake::NoFence, ..Product::new(48, 72, 64) };
    let mut f = p.func();
    for ty in &mut f.values {
        if let Type::Tile(t) | Type::InFlight(t) = ty {
            t.layout = None;
        }
    }
    if let Err(v) = flashc_ir::verify::verify(&f) {
        panic!("{v:?}");
    }
    let (mut l, want) = p.launch();
    let o = Options { before_barriers: true, ..Options::default() };
    run(&f, &mut l, &o).unwrap_or_else(|t| panic!("{t}"));
    assert_eq!(l.get("c").to_bits(), want);
}
