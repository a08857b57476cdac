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
//! How: a walk in program order carries the accesses since the last barrier; a loop's body is walked with
//! what its own end leaves behind, until nothing changes. A TMA load orders itself by its mbarrier, which
//! every thread waits for.

use flashc_ir::ops::Kind;
use flashc_ir::{Block, Builder, Func, Op, Step, Type, ValueId};
use std::collections::{BTreeSet, HashMap};

/// A range of bytes.
type Range = (i64, i64);

/// Accesses since the last barrier.
#[derive(Clone, Debug, Default, PartialEq)]
struct Pending {
    reads: BTreeSet<Range>,
    writes: BTreeSet<Range>,
    /// Accesses by ordinary instructions since the last fence; these outlive a barrier.
    unfenced: BTreeSet<Range>,
}

impl Pending {
    fn merge(&mut self, other: &Pending) {
        self.reads.extend(&other.reads);
        self.writes.extend(&other.writes);
        self.unfenced.extend(&other.unfenced);
    }
}

/// What must stand before an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Need {
    fence: bool,
    barrier: bool,
}

/// Runs the pass.
pub fn run(func: &Func) -> Func {
    let mut ranges = HashMap::new();
    func.walk(&mut |op| {
        if let (Kind::Alloc { offset: Some(at) }, Type::Buffer(b)) =
            (&op.kind, op.results.first().map_or(&Type::Barrier, |r| func.ty(*r)))
        {
            ranges.insert(op.result(), (*at, *at + b.bytes()));
        }
    });
    let mut w = Walk { ranges, needs: HashMap::new() };
    let mut pending = Pending::default();
    w.block(&func.body, &mut pending);
    let needs = w.needs;
    Builder::rebuild(func, &mut |b, _, op, _| {
        let need = needs.get(&std::ptr::from_ref(op)).copied().unwrap_or_default();
        if need.fence {
            b.op(Kind::FenceAsync, &[], &[]);
        }
        if need.barrier {
            b.op(Kind::CtaBarrier, &[], &[]);
        }
        Step::Copy
    })
}

struct Walk {
    ranges: HashMap<ValueId, Range>,
    needs: HashMap<*const Op, Need>,
}

fn hits(set: &BTreeSet<Range>, r: Range) -> bool {
    set.iter().any(|s| s.0 < r.1 && r.0 < s.1)
}

impl Walk {
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

    fn op(&mut self, op: &Op, p: &mut Pending) {
        let mut need = Need::default();
        let mut conflict = |p: &Pending, r: Range, write: bool, async_proxy: bool| {
            need.barrier |= hits(&p.writes, r) || write && hits(&p.reads, r);
            need.fence |= async_proxy && hits(&p.unfenced, r);
        };
        // (range, writes, by the async proxy)
        let mut accesses: Vec<(Range, bool, bool)> = vec![];
        match &op.kind {
            Kind::LocalStore => accesses.extend(self.range(op, 1).map(|r| (r, true, false))),
            Kind::LocalLoad => accesses.extend(self.range(op, 0).map(|r| (r, false, false))),
            Kind::TmaLoad { .. } => {
                accesses.extend(self.range(op, op.operands.len() - 2).map(|r| (r, true, true)));
            }
            Kind::Wgmma { .. } => {
                accesses.extend([0, 1].iter().filter_map(|i| self.range(op, *i)).map(|r| (r, false, true)));
            }
            // These write, synchronise and read their scratch.
            Kind::Reduce { .. } | Kind::Convert | Kind::Reshape | Kind::Trans => {
                accesses.extend(self.range(op, 1).map(|r| (r, true, false)));
            }
            Kind::CtaBarrier => {
                p.reads.clear();
                p.writes.clear();
            }
            Kind::FenceAsync => p.unfenced.clear(),
            _ => {}
        }
        for (r, write, async_proxy) in &accesses {
            conflict(p, *r, *write, *async_proxy);
        }
        // A fence orders nothing between threads unless a barrier follows it.
        need.barrier |= need.fence;
        if need.fence {
            p.unfenced.clear();
        }
        if need.barrier {
            p.reads.clear();
            p.writes.clear();
        }
        let known = self.needs.entry(std::ptr::from_ref(op)).or_default();
        known.fence |= need.fence;
        known.barrier |= need.barrier;
        for (r, write, async_proxy) in accesses {
            let exchange =
                matches!(op.kind, Kind::Reduce { .. } | Kind::Convert | Kind::Reshape | Kind::Trans);
            if exchange {
                // Its own barrier ended the writes; what it read last is pending.
                p.reads.insert(r);
            } else if write && !async_proxy {
                p.writes.insert(r);
            } else if !write {
                p.reads.insert(r);
            }
            if !async_proxy {
                p.unfenced.insert(r);
            }
        }
    }
}
