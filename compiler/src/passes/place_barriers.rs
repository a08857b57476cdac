//! # place-barriers
//!
//! Inserts the CTA barriers and proxy fences that accesses to shared memory need.
//!
//! Before
//! ```text
//! sm90.local_store %p -> %pb
//! %f = sm90.wgmma %x, %pb
//! ```
//! After
//! ```text
//! sm90.local_store %p -> %pb
//! sm90.fence_async ; sm90.cta_barrier
//! %f = sm90.wgmma %x, %pb
//! ```
//! Requires: offsets. Ensures: between two accesses of the same bytes by different threads, one of them a
//! write, stands a barrier; between an access by ordinary instructions and one by the async proxy (TMA,
//! wgmma) stands a fence before that barrier.
//!
//! Where each warpgroup has touched only its part of a buffer, and the copy to a tensor that follows takes
//! the same parts, the barrier is one of each warpgroup's threads.
//!
//! How: a walk in program order carries the accesses since the last barrier; a loop's body is walked with
//! what its own end leaves behind, until nothing changes. A TMA load orders itself by its mbarrier, which
//! every thread waits for.

use flashc_ir::layout::{Layout, WARPGROUP, acc_cols, acc_rows};
use flashc_ir::ops::Kind;
use flashc_ir::{Block, Builder, Func, Op, Step, Type, ValueId};
use std::collections::{BTreeSet, HashMap};

/// A range of bytes.
type Range = (i64, i64);
/// A buffer of which each warpgroup touches only its part, and how it is cut along rows and columns.
type Parts = Option<(ValueId, i64, i64)>;
/// Warpgroups that have a named barrier each, at most.
const MAX_GROUPS: i64 = 7;

/// An access since the last barrier of all threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Access {
    range: Range,
    parts: Parts,
    /// Have the threads of each warpgroup met since?
    met: bool,
}

/// Accesses since the last barrier.
#[derive(Clone, Debug, Default, PartialEq)]
struct Pending {
    reads: BTreeSet<Access>,
    writes: BTreeSet<Access>,
    /// Accesses by ordinary instructions since the last fence; these outlive a barrier.
    unfenced: BTreeSet<Access>,
}

impl Pending {
    fn merge(&mut self, other: &Pending) {
        self.reads.extend(&other.reads);
        self.writes.extend(&other.writes);
        self.unfenced.extend(&other.unfenced);
    }

    /// Threads meet.
    fn meet(&mut self, who: Who) {
        for set in [&mut self.reads, &mut self.writes] {
            match who {
                Who::Nobody => {}
                Who::Group => *set = set.iter().map(|a| Access { met: true, ..*a }).collect(),
                Who::All => set.clear(),
            }
        }
    }
}

/// Whose threads have to meet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Who {
    #[default]
    Nobody,
    /// Each warpgroup's own.
    Group,
    All,
}

/// What must stand before an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Need {
    fence: bool,
    barrier: Who,
}

/// Runs the pass.
pub fn run(func: &Func) -> Func {
    let mut w = Walk {
        func,
        groups: func.tile_warps().unwrap_or(WARPGROUP) / WARPGROUP,
        ranges: HashMap::new(),
        stores: HashMap::new(),
        needs: HashMap::new(),
    };
    func.walk(&mut |op| w.note(op));
    w.block(&func.body, &mut Pending::default());
    let needs = w.needs;
    Builder::rebuild(func, &mut |b, _, op, _| {
        let need = needs.get(&std::ptr::from_ref(op)).copied().unwrap_or_default();
        if need.fence {
            b.op(Kind::FenceAsync, &[], &[]);
        }
        match need.barrier {
            Who::Nobody => {}
            Who::Group => drop(b.op(Kind::GroupBarrier, &[], &[])),
            Who::All => drop(b.op(Kind::CtaBarrier, &[], &[])),
        }
        Step::Copy
    })
}

struct Walk<'a> {
    func: &'a Func,
    groups: i64,
    ranges: HashMap<ValueId, Range>,
    /// By buffer, how copies to tensors cut it; `None` if in several ways.
    stores: HashMap<ValueId, Option<(i64, i64)>>,
    needs: HashMap<*const Op, Need>,
}

/// Whose threads have to meet between these accesses and a new one.
fn between(set: &BTreeSet<Access>, r: Range, parts: Parts) -> Who {
    let who = |a: &Access| match a.parts.is_some() && a.parts == parts {
        true if a.met => Who::Nobody,
        true => Who::Group,
        false => Who::All,
    };
    set.iter().filter(|a| a.range.0 < r.1 && r.0 < a.range.1).map(who).max().unwrap_or_default()
}

impl Walk<'_> {
    /// Where buffers, rings and their slots lie, and how copies cut them.
    fn note(&mut self, op: &Op) {
        match &op.kind {
            Kind::Alloc { offset: Some(at) } => {
                let bytes = match self.func.ty(op.result()) {
                    Type::Buffer(b) => b.bytes(),
                    Type::Ring(b, n) => b.ring_bytes(*n),
                    _ => return,
                };
                self.ranges.insert(op.result(), (*at, *at + bytes));
            }
            Kind::Slot => {
                if let Some(r) = self.ranges.get(&op.operands[0]).copied() {
                    self.ranges.insert(op.result(), r);
                }
            }
            Kind::TmaStore { wgm, wgn, .. } => {
                let known =
                    self.stores.entry(op.operands[op.operands.len() - 1]).or_insert(Some((*wgm, *wgn)));
                *known = known.filter(|k| *k == (*wgm, *wgn));
            }
            _ => {}
        }
    }

    fn block(&mut self, block: &Block, p: &mut Pending) {
        for op in &block.ops {
            match &op.kind {
                Kind::For { .. } => {
                    let entry = p.clone();
                    loop {
                        let start = p.clone();
                        self.block(&op.regions[0], p);
                        p.merge(&entry);
                        p.merge(&start);
                        if *p == start {
                            break;
                        }
                    }
                }
                Kind::If | Kind::Roles { .. } => {
                    let entry = p.clone();
                    let mut after = Pending::default();
                    for r in &op.regions {
                        let mut q = entry.clone();
                        self.block(r, &mut q);
                        after.merge(&q);
                    }
                    *p = after;
                }
                _ => self.op(op, p),
            }
        }
    }

    fn range(&self, op: &Op, operand: usize) -> Option<Range> {
        self.ranges.get(op.operands.get(operand)?).copied()
    }

    /// A cut into one part for each warpgroup.
    fn parts(&self, buffer: ValueId, (wgm, wgn): (i64, i64)) -> Parts {
        let each = self.groups > 1 && self.groups <= MAX_GROUPS && wgm * wgn == self.groups;
        each.then_some((buffer, wgm, wgn))
    }

    /// What each warpgroup writes of a buffer, if that is one of equal parts.
    fn stored_parts(&self, op: &Op) -> Parts {
        let (Type::Tile(t), Type::Buffer(b)) = (self.func.ty(op.operands[0]), self.func.ty(op.operands[1]))
        else {
            return None;
        };
        let Some(Layout::Acc { wgm, wgn } | Layout::AccRuns { wgm, wgn, .. }) = t.layout else { return None };
        let &[m, n] = &b.shape[..] else { return None };
        let whole = acc_rows(m, wgm) * wgm == m || wgm == 1;
        let exact = t.shape == b.shape && whole && acc_cols(n, wgn) * wgn == n;
        if exact { self.parts(op.operands[1], (wgm, wgn)) } else { None }
    }

    fn op(&mut self, op: &Op, p: &mut Pending) {
        let mut need = Need::default();
        let mut conflict = |p: &Pending, r: Range, parts: Parts, write: bool, async_proxy: bool| {
            need.barrier = need.barrier.max(between(&p.writes, r, parts));
            if write {
                need.barrier = need.barrier.max(between(&p.reads, r, parts));
            }
            // A fence orders nothing between threads unless a barrier follows it.
            let unfenced = between(&p.unfenced, r, parts);
            if async_proxy && unfenced != Who::Nobody {
                need.fence = true;
                need.barrier = need.barrier.max(unfenced);
            }
        };
        // (range, parts, writes, by the async proxy)
        let mut accesses: Vec<(Range, Parts, bool, bool)> = vec![];
        match &op.kind {
            Kind::LocalStore => {
                let parts = self.stored_parts(op);
                accesses.extend(self.range(op, 1).map(|r| (r, parts, true, false)));
            }
            Kind::LocalLoad => accesses.extend(self.range(op, 0).map(|r| (r, None, false, false))),
            Kind::TmaLoad { .. } => {
                accesses.extend(self.range(op, op.operands.len() - 2).map(|r| (r, None, true, true)));
            }
            Kind::TmaStore { wgm, wgn, .. } => {
                let last = op.operands.len() - 1;
                let parts = self.parts(op.operands[last], (*wgm, *wgn));
                accesses.extend(self.range(op, last).map(|r| (r, parts, false, true)));
            }
            // Here the reads of copies to tensors end, for the threads that have issued them.
            Kind::TmaStoreWait { .. } => {
                for (i, v) in op.operands.iter().enumerate() {
                    let cut = self.stores.get(v).copied().flatten();
                    let parts = cut.and_then(|c| self.parts(*v, c));
                    accesses.extend(self.range(op, i).map(|r| (r, parts, false, true)));
                }
            }
            Kind::Wgmma { .. } => {
                let read = [0, 1].iter().filter_map(|i| self.range(op, *i));
                accesses.extend(read.map(|r| (r, None, false, true)));
            }
            // These write, synchronise and read their scratch.
            Kind::Reduce { .. } | Kind::Convert | Kind::Reshape | Kind::Trans => {
                accesses.extend(self.range(op, 1).map(|r| (r, None, true, false)));
            }
            Kind::CtaBarrier => p.meet(Who::All),
            Kind::GroupBarrier => p.meet(Who::Group),
            Kind::FenceAsync => p.unfenced.clear(),
            _ => {}
        }
        // A wait looks at nothing itself.
        if !matches!(op.kind, Kind::TmaStoreWait { .. }) {
            for (r, parts, write, async_proxy) in &accesses {
                conflict(p, *r, *parts, *write, *async_proxy);
            }
        }
        if need.fence {
            p.unfenced.clear();
        }
        p.meet(need.barrier);
        let known = self.needs.entry(std::ptr::from_ref(op)).or_default();
        known.fence |= need.fence;
        known.barrier = known.barrier.max(need.barrier);
        for (range, parts, write, async_proxy) in accesses {
            let exchange =
                matches!(op.kind, Kind::Reduce { .. } | Kind::Convert | Kind::Reshape | Kind::Trans);
            let access = Access { range, parts, met: false };
            if exchange {
                // Its own barrier ended the writes; what it read last is pending.
                p.reads.insert(access);
            } else if write && !async_proxy {
                p.writes.insert(access);
            } else if !write {
                p.reads.insert(access);
            }
            if !async_proxy {
                p.unfenced.insert(access);
            }
        }
    }
}
