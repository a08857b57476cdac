//! A producer and consumers: the same bits as the plain loop under every schedule, and each mistake in how
//! they hand over is noticed under one.

use crate::kernels::*;
use crate::tile::*;
use flashc_ir::func::{Builder, Func, ValueId};
use flashc_ir::interp::{Fault, HostTensor, Launch, Options, Report, Schedule, Trap, TrapKind, run};
use flashc_ir::layout::{Layout, Shared, WARPGROUP};
use flashc_ir::ops::{BinaryOp, Kind, Literal, Role};
use flashc_ir::types::{BufferType, Elem, TileType, Type};
use flashc_ir::verify::verify;

/// Columns of B, and K of one step.
const N: i64 = 16;
const K: i64 = 32;

/// What is wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum Mistake {
    #[default]
    Nothing,
    /// The consumer waits for parity 0 always.
    ConstantPhase,
    /// The producer waits for parity 1 always.
    ConstantProducerPhase,
    /// B's slots are never released.
    DroppedArrive,
    /// B's slots are released twice.
    DoubleArrive,
    /// Slots are released before the wait for the product.
    EarlyRelease,
    /// A is released under the wrong index.
    ReleasesOther,
    /// The producer begins with parity 0.
    ProducerParity,
    /// The wait for the last product leaves one more in flight.
    WaitCount,
    /// Rings of one slot, used as two.
    RingOfOne,
    /// The producer fills slots without waiting.
    NoEmptyWait,
    /// The consumer reads B without waiting.
    NoFullWait,
    /// The consumer reads the other slot of B.
    OtherSlot,
    /// The copy of B arrives at A's barrier.
    OtherBarrier,
    /// Empty barriers count one arrival more.
    CountMore,
    /// Empty barriers count one arrival less.
    CountLess,
    /// The turn is passed before it is taken.
    SwappedTurn,
    /// The turn is taken and not passed.
    KeptTurn,
    /// The turn is passed twice.
    PassedTwice,
    /// The turn is held while the others' arrivals are waited for.
    TurnAcrossMeeting,
    /// The producer copies once too often.
    OneTooMany,
}

/// A matrix product of a producer and consumers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handover {
    pub(crate) trips: i64,
    pub(crate) stages: i64,
    /// Warpgroups of the consumer.
    pub(crate) groups: i64,
    /// They take turns.
    pub(crate) turns: bool,
    /// Each step has two products, the second in flight while the first is waited for.
    pub(crate) two: bool,
    pub(crate) mistake: Mistake,
}

/// The slot of a step: index and parity.
#[derive(Clone, Copy)]
struct Turn(ValueId, ValueId);

/// Buffers, full and empty barriers of A and B.
struct Rings([ValueId; 2], [ValueId; 2], [ValueId; 2]);

impl Handover {
    pub(crate) fn new(trips: i64, stages: i64, groups: i64) -> Handover {
        Handover { trips, stages, groups, turns: groups > 1, two: false, mistake: Mistake::Nothing }
    }

    fn m(&self) -> i64 {
        64 * self.groups
    }

    fn signature(&self) -> Vec<(String, Type)> {
        let scalars = ["m", "n", "k"].map(|s| scalar(s, Elem::I32));
        let tensors = [("a", ["m", "k"], Elem::BF16), ("b", ["k", "n"], Elem::BF16)];
        let outs = ["c", "d"].map(|c| tensor(c, &["m", "n"], Elem::F32));
        scalars.into_iter().chain(tensors.map(|(n, d, e)| tensor(n, &d, e))).chain(outs).collect()
    }

    /// The plain loop.
    fn plain(&self) -> Func {
        let (mut b, a) = start("plain", &self.signature());
        let (zero, one, trips) = (b.i32(0), b.i32(1), b.i32(self.trips));
        let acc = b.float(0.0, &[self.m(), N]);
        let ty = b.ty(acc).clone();
        let body = b.begin(&[Type::I32, ty.clone()]);
        let k = b.times(body[0], K);
        let x = b.load(a[3], &[zero, k], &[0, 1], &[self.m(), K]);
        let y = b.load(a[4], &[k, zero], &[0, 1], &[K, N]);
        let sum = b.op1(Kind::Dot, &[x, y, body[1]], ty.clone());
        let region = b.end(&[sum]);
        let out = b.op_with(Kind::For { unordered: false }, &[zero, trips, one, acc], &[ty], vec![region]);
        b.store(a[5], &[zero, zero], &[0, 1], out[0]);
        b.store(a[6], &[zero, zero], &[0, 1], out[0]);
        b.finish()
    }

    /// The roles.
    pub(crate) fn func(&self) -> Func {
        use Mistake::*;
        let (mut b, a) = start("roles", &self.signature());
        b.func.warps = Some(WARPGROUP * (self.groups + 1));
        let slots = if self.mistake == RingOfOne { 1 } else { self.stages };
        let shapes = [[self.m(), K], [K, N]];
        let rings = shapes.map(|s| {
            let t = BufferType { shape: s.to_vec(), elem: Elem::BF16, layout: Shared { swizzle: 32 } };
            b.op1(Kind::Alloc { offset: None }, &[], Type::Ring(t, slots))
        });
        let mut barriers = |count| {
            let kind = Kind::BarrierAlloc { count, offset: None };
            [0, 1].map(|_| b.op1(kind.clone(), &[], Type::BarrierRing(slots)))
        };
        let wrong = (self.mistake == CountMore) as i64 - (self.mistake == CountLess) as i64;
        let (full, empty) = (barriers(1), barriers(self.groups + wrong));
        let rings = Rings(rings, full, empty);
        b.begin(&[]);
        self.consumer(&mut b, &a, &rings);
        let consumer = b.end(&[]);
        b.begin(&[]);
        self.producer(&mut b, &a, &rings);
        let producer = b.end(&[]);
        let role = |name: &str, warps, registers| Role { name: name.into(), warps, registers };
        let roles = vec![role("consumer", WARPGROUP * self.groups, 240), role("producer", WARPGROUP, 24)];
        b.op_with(Kind::Roles { roles }, &[], &[], vec![consumer, producer]);
        b.finish()
    }

    fn turn(&self, b: &mut Builder, c: ValueId) -> Turn {
        let (n, one) = (b.i32(self.stages), b.i32(1));
        let index = b.binary(BinaryOp::RemUI, c, n);
        let round = b.binary(BinaryOp::DivUI, c, n);
        Turn(index, b.binary(BinaryOp::AndI, round, one))
    }

    fn consumer(&self, b: &mut Builder, a: &[ValueId], rings: &Rings) {
        use Mistake::*;
        let (zero, one, trips) = (b.i32(0), b.i32(1), b.i32(self.trips));
        let layout = Layout::Acc { wgm: self.groups, wgn: 1 };
        let acc = TileType::new(&[self.m(), N], Elem::F32).with_layout(layout);
        let tile = Type::Tile(acc.clone());
        let nought = b.constant(Literal::Float(0.0), Elem::F32);
        let init = b.op1(Kind::Splat, &[nought], tile.clone());
        let body = b.begin(&[Type::I32, tile.clone(), tile.clone(), Type::I32]);
        let turn = self.turn(b, body[3]);
        let next = b.binary(BinaryOp::AddI, body[3], one);
        let other = self.turn(b, next);
        let parity = if self.mistake == ConstantPhase { zero } else { turn.1 };
        for (i, full) in rings.1.iter().enumerate() {
            let full = b.op1(Kind::Slot, &[*full, turn.0], Type::Barrier);
            if self.mistake != NoFullWait || i == 0 {
                b.op(Kind::BarrierWait, &[full, parity], &[]);
            }
        }
        let [x, y] = [0, 1].map(|i| {
            let Type::Ring(t, _) = b.ty(rings.0[i]).clone() else { panic!("a ring") };
            let index = if self.mistake == OtherSlot && i == 1 { other.0 } else { turn.0 };
            b.op1(Kind::Slot, &[rings.0[i], index], Type::Buffer(t))
        });
        let turns = self.groups;
        let (take, pass) = (Kind::TurnWait { turns }, Kind::TurnPass { turns });
        let (first, last) =
            if self.mistake == SwappedTurn { (pass.clone(), take.clone()) } else { (take, pass.clone()) };
        if self.turns {
            b.op(first, &[], &[]);
        }
        let kind = Kind::Wgmma { trans_a: false, trans_b: false, acc: true };
        let flying = Type::InFlight(acc);
        let p = b.op1(kind.clone(), &[x, y, body[1]], flying.clone());
        let q = self.two.then(|| b.op1(kind, &[x, y, body[2]], flying));
        if self.turns {
            if self.mistake == TurnAcrossMeeting {
                b.op(Kind::CtaBarrier, &[], &[]);
            }
            if self.mistake != KeptTurn {
                b.op(last, &[], &[]);
            }
            if self.mistake == PassedTwice {
                b.op(pass, &[], &[]);
            }
        }
        let release = |b: &mut Builder| {
            for (i, empty) in rings.2.iter().enumerate() {
                let index = if self.mistake == ReleasesOther && i == 0 { other.0 } else { turn.0 };
                let empty = b.op1(Kind::Slot, &[*empty, index], Type::Barrier);
                let times = match self.mistake {
                    DroppedArrive => 1 - i,
                    DoubleArrive => 1 + i,
                    _ => 1,
                };
                (0..times).for_each(|_| drop(b.op(Kind::BarrierArrive, &[empty], &[])));
            }
        };
        if self.mistake == EarlyRelease {
            release(b);
        }
        let wrong = (self.mistake == WaitCount) as i64;
        let pending = self.two as i64 + if self.two { 0 } else { wrong };
        let sum = b.op1(Kind::WgmmaWait { pending }, &[p], tile.clone());
        let second = q.map(|q| b.op1(Kind::WgmmaWait { pending: wrong }, &[q], tile.clone()));
        if self.mistake != EarlyRelease {
            release(b);
        }
        let region = b.end(&[sum, second.unwrap_or(body[2]), next]);
        let kind = Kind::For { unordered: false };
        let types = [tile.clone(), tile, Type::I32];
        let out = b.op_with(kind, &[zero, trips, one, init, init, zero], &types, vec![region]);
        b.store(a[5], &[zero, zero], &[0, 1], out[0]);
        b.store(a[6], &[zero, zero], &[0, 1], out[self.two as usize]);
    }

    fn producer(&self, b: &mut Builder, a: &[ValueId], rings: &Rings) {
        use Mistake::*;
        let trips = self.trips + (self.mistake == OneTooMany) as i64;
        let (zero, one, trips) = (b.i32(0), b.i32(1), b.i32(trips));
        let body = b.begin(&[Type::I32, Type::I32]);
        let turn = self.turn(b, body[1]);
        let k = b.times(body[0], K);
        for i in [0, 1] {
            let empty = b.op1(Kind::Slot, &[rings.2[i], turn.0], Type::Barrier);
            let flipped = b.binary(BinaryOp::XorI, turn.1, one);
            let parity = match self.mistake {
                ProducerParity => turn.1,
                ConstantProducerPhase => one,
                _ => flipped,
            };
            if self.mistake != NoEmptyWait {
                b.op(Kind::BarrierWait, &[empty, parity], &[]);
            }
            let Type::Ring(t, _) = b.ty(rings.0[i]).clone() else { panic!("a ring") };
            let slot = b.op1(Kind::Slot, &[rings.0[i], turn.0], Type::Buffer(t));
            let full = rings.1[if self.mistake == OtherBarrier { 0 } else { i }];
            let full = b.op1(Kind::Slot, &[full, turn.0], Type::Barrier);
            let at = if i == 0 { [zero, k] } else { [k, zero] };
            b.op(Kind::TmaLoad { axes: vec![0, 1] }, &[a[3 + i], at[0], at[1], slot, full], &[]);
        }
        let next = b.binary(BinaryOp::AddI, body[1], one);
        let region = b.end(&[next]);
        b.op_with(Kind::For { unordered: false }, &[zero, trips, one, zero], &[Type::I32], vec![region]);
    }

    fn launch(&self) -> Launch {
        let k = K * self.trips.max(1);
        let bf = |shape: &[i64], seed| {
            HostTensor::from_f64(Elem::BF16, shape, &numbers(shape.iter().product(), seed))
        };
        let out = || HostTensor::uninitialised(Elem::F32, &[self.m(), N]);
        let l = Launch::new([1, 1, 1]).tensor("a", bf(&[self.m(), k], 5)).tensor("b", bf(&[k, N], 6));
        l.tensor("c", out()).tensor("d", out())
    }

    /// Both results of the plain loop.
    fn want(&self) -> [Vec<u64>; 2] {
        let mut l = self.launch();
        check(&self.plain(), &mut l);
        ["c", "d"].map(|c| l.get(c).to_bits())
    }

    /// The roles' report, and whether the bits are these.
    fn run(&self, f: &Func, options: &Options, want: &[Vec<u64>; 2]) -> Result<(Report, bool), Trap> {
        let mut l = self.launch();
        let report = run(f, &mut l, options)?;
        Ok((report, ["c", "d"].map(|c| l.get(c).to_bits()) == *want))
    }
}

/// Every schedule, and some by chance.
fn schedules(random: u64) -> Vec<Schedule> {
    let fixed = [Schedule::RoundRobin, Schedule::ProducerFirst, Schedule::ConsumerFirst];
    fixed.into_iter().chain((0..random).map(Schedule::Random)).collect()
}

#[test]
fn the_bits_are_those_of_the_plain_loop() {
    let mut runs = 0;
    for trips in [0, 1, 2, 3, 5] {
        let one = Handover::new(trips, 2, 1);
        let two = Handover { two: true, ..Handover::new(trips, 2, 2) };
        for h in [one, two, Handover::new(trips, 1, 1), Handover::new(trips, 3, 3)] {
            let (f, want) = (h.func(), h.want());
            assert_eq!(verify(&f), Ok(()), "{h:?}");
            for schedule in schedules(20) {
                match h.run(&f, &Options { schedule, ..Options::default() }, &want) {
                    Ok((r, same)) => {
                        assert!(same, "{h:?} {schedule:?}: other bits");
                        assert_eq!(r.groups as i64, trips * (1 + h.two as i64));
                        assert_eq!((r.barrier_waits as i64, r.tma_copies as i64), (4 * trips, 3 * trips));
                    }
                    Err(t) => panic!("{h:?} {schedule:?}: {t}"),
                }
                runs += 1;
            }
        }
    }
    println!("{runs} runs agree");
}

/// Who notices a mistake, and how: the schedules under which a run traps, by kind, or gives other bits.
fn noticed(h: &Handover, fault: Option<Fault>) -> Vec<(Schedule, Option<TrapKind>)> {
    let (f, want) = (h.func(), h.want());
    let mut out = vec![];
    for schedule in schedules(5) {
        match h.run(&f, &Options { schedule, fault, ..Options::default() }, &want) {
            Ok((_, true)) => {}
            Ok((_, false)) => out.push((schedule, None)),
            Err(t) => {
                assert!(t.kind != TrapKind::Malformed, "{h:?}: {t}");
                out.push((schedule, Some(t.kind)));
            }
        }
    }
    out
}

#[test]
fn every_mistake_is_noticed() {
    use Mistake::*;
    let mut cases: Vec<(Handover, Option<Fault>)> = vec![];
    for groups in [1, 2] {
        let (h, two) = (Handover::new(5, 2, groups), groups == 2);
        let all = [
            ConstantPhase,
            ConstantProducerPhase,
            DroppedArrive,
            DoubleArrive,
            EarlyRelease,
            ReleasesOther,
            ProducerParity,
            WaitCount,
            RingOfOne,
            NoEmptyWait,
            NoFullWait,
            OtherSlot,
            OtherBarrier,
            CountMore,
            OneTooMany,
        ];
        cases.extend(all.map(|mistake| (Handover { mistake, two, ..h }, None)));
        // A little, and one slab of the two of A.
        cases.extend([2, 64 * K * groups].map(|short| (h, Some(Fault::ShortExpect(short)))));
    }
    for mistake in [CountLess, SwappedTurn, KeptTurn, PassedTwice, TurnAcrossMeeting] {
        cases.extend([2, 3].map(|groups| (Handover { mistake, ..Handover::new(5, 2, groups) }, None)));
    }
    let (mut killed, total) = (0, cases.len());
    for (h, fault) in cases {
        let by = noticed(&h, fault);
        let mut kinds: Vec<String> = by.iter().map(|b| format!("{:?}", b.1)).collect();
        kinds.sort();
        kinds.dedup();
        let what = fault.map_or(format!("{:?}", h.mistake), |f| format!("{f:?}"));
        println!(
            "{what:<22} groups {} two {:<5} {:>2} schedules: {}",
            h.groups,
            h.two,
            by.len(),
            kinds.join(", ")
        );
        killed += !by.is_empty() as usize;
    }
    println!("{killed} of {total} mistakes noticed");
    assert_eq!(killed, total);
}

/// Deadlocks name what each role waits for, and where.
#[test]
fn a_deadlock_names_every_role() {
    let h = Handover { mistake: Mistake::DroppedArrive, ..Handover::new(5, 2, 1) };
    let t = h.run(&h.func(), &Options::default(), &h.want()).expect_err("nobody releases");
    assert_eq!(t.kind, TrapKind::Deadlock);
    for part in
        ["consumer waits at test.tile:1:1 for parity 1", "producer waits at test.tile:1:1", "1 of 1 arrivals"]
    {
        assert!(t.message.contains(part), "`{part}` in {}", t.message);
    }
}

/// One warpgroup may arrive twice before the other has arrived once: in lockstep this does not show.
#[test]
fn a_warpgroup_that_runs_ahead_is_noticed() {
    for (groups, want) in [(1, Ok(())), (2, Err(TrapKind::Race))] {
        let (mut b, _) = start("ahead", &[]);
        b.func.warps = Some(WARPGROUP * (groups + 1));
        let bar = b.op1(Kind::BarrierAlloc { count: groups, offset: None }, &[], Type::Barrier);
        b.begin(&[]);
        (0..2).for_each(|_| drop(b.op(Kind::BarrierArrive, &[bar], &[])));
        let consumer = b.end(&[]);
        b.begin(&[]);
        let producer = b.end(&[]);
        let role = |name: &str, warps| Role { name: name.into(), warps, registers: 128 };
        let roles = vec![role("consumer", WARPGROUP * groups), role("producer", WARPGROUP)];
        b.op_with(Kind::Roles { roles }, &[], &[], vec![consumer, producer]);
        let f = b.finish();
        assert_eq!(verify(&f), Ok(()));
        let got = run(&f, &mut Launch::new([1, 1, 1]), &Options::default()).map(|_| ()).map_err(|t| t.kind);
        assert_eq!(got, want);
    }
}
