//! # tma-loads
//!
//! A tile that is loaded only to be put into a swizzled buffer is copied there by the tensor memory
//! accelerator, without passing through registers. An mbarrier says when it has landed; the wait stands
//! before the first use, so that the copies of one iteration overlap with each other and with work
//! that does not need them.
//!
//! Before
//! ```text
//! scf.for ... {
//!   %k = tile.load %K[...] ; sm90.local_store %k -> %kb
//!   %f = sm90.wgmma %q, %kb
//! ```
//! After
//! ```text
//! %bar = sm90.barrier_alloc {count = 1}
//! scf.for ... iter_args(%phase = 0) {
//!   sm90.tma_load %K[...] -> %kb, %bar
//!   sm90.barrier_wait %bar, %phase
//!   %f = sm90.wgmma %q, %kb
//!   yield %phase xor 1
//! ```
//! Requires: nothing. Ensures: every TMA load has a barrier of its own, waited for with the right phase
//! before any use in the block that holds it.
//!
//! Declines when: the tile is not of rank 2, or the tensor has more than five axes; such a load stays
//! as it is. The variant without TMA, for tensors whose strides or alignment forbid it, skips this pass.

use flashc_ir::ops::{BinaryOp, Kind};
use flashc_ir::{Block, Builder, Func, Op, Type, ValueId};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

/// Axes of a tensor map at most.
const MAX_RANK: usize = 5;

/// The loads that become copies.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    /// One entry a site.
    pub sites: Vec<Site>,
}

/// One load and the store that puts it into shared memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Site {
    /// The loaded tile.
    pub tile: ValueId,
    /// The buffer.
    pub buffer: ValueId,
    /// Sites of one block share a phase: the index of the block's first site.
    pub phase: usize,
    /// The block: the same index, whatever happens to the phase.
    pub block: usize,
    /// Is the block the function's body? Then it runs once, and its parity is the constant 0.
    pub once: bool,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, s) in self.sites.iter().enumerate() {
            let phase = if s.once { "parity 0".into() } else { format!("phase {}", s.phase) };
            writeln!(f, "copy {i}: %{} -> %{}, {phase}", s.tile.0, s.buffer.0)?;
        }
        Ok(())
    }
}

/// Runs the pass.
pub fn run(func: &Func) -> Func {
    let plan = plan(func);
    if plan.sites.is_empty() { func.clone() } else { apply(func, &plan) }
}

/// Finds the sites.
pub fn plan(func: &Func) -> Plan {
    let (defs, uses) = (func.defs(), func.uses());
    let mut plan = Plan::default();
    let fits = |op: &Op| {
        let tile = op.operands[0];
        let load = defs.get(&tile)?;
        let only_use = uses.get(&tile).is_some_and(|u| u.len() == 1);
        let (tensor, t) = (func.ty(*load.operands.first()?).as_tensor()?, func.ty(tile).as_tile()?);
        let buffer = func.ty(op.operands[1]).as_buffer()?;
        let ok = matches!(load.kind, Kind::Load { .. })
            && only_use
            && t.shape.len() == 2
            && (2..=MAX_RANK).contains(&tensor.dims.len())
            && buffer.layout.swizzle != 0;
        ok.then_some((tile, op.operands[1]))
    };
    fn walk(
        block: &Block,
        top: bool,
        sites: &mut Vec<Site>,
        fits: &dyn Fn(&Op) -> Option<(ValueId, ValueId)>,
    ) {
        let mut phase = None;
        for op in &block.ops {
            if let (Kind::LocalStore, Some((tile, buffer))) =
                (&op.kind, if op.kind == Kind::LocalStore { fits(op) } else { None })
            {
                let phase = *phase.get_or_insert(sites.len());
                sites.push(Site { tile, buffer, phase, block: phase, once: top });
            }
            for r in &op.regions {
                walk(r, false, sites, fits);
            }
        }
    }
    walk(&func.body, true, &mut plan.sites, &fits);
    plan
}

struct Apply<'a> {
    old: &'a Func,
    by_tile: HashMap<ValueId, &'a Site>,
    barrier: HashMap<ValueId, ValueId>,
    /// The current parity of each phase.
    parity: BTreeMap<usize, ValueId>,
}

fn apply(func: &Func, plan: &Plan) -> Func {
    let (mut b, mut map) = Builder::like(func);
    let mut a = Apply {
        old: func,
        by_tile: plan.sites.iter().map(|s| (s.tile, s)).collect(),
        barrier: HashMap::new(),
        parity: BTreeMap::new(),
    };
    for s in &plan.sites {
        b.loc = func.defs()[&s.tile].loc.clone();
        a.barrier.insert(s.tile, b.op1(Kind::BarrierAlloc { count: 1, offset: None }, &[], Type::Barrier));
    }
    let zero = b.i32(0);
    for s in &plan.sites {
        a.parity.entry(s.phase).or_insert(zero);
    }
    a.block(&mut b, &func.body, &mut map, true);
    b.finish()
}

impl Apply<'_> {
    /// Phases of sites anywhere inside an operation's regions.
    fn phases_inside(&self, op: &Op) -> Vec<usize> {
        let mut found = HashSet::new();
        for r in &op.regions {
            for inner in &r.ops {
                if let (Kind::LocalStore, Some(s)) =
                    (&inner.kind, inner.operands.first().and_then(|t| self.by_tile.get(t)))
                {
                    found.insert(s.phase);
                }
                found.extend(self.phases_inside(inner));
            }
        }
        let mut found: Vec<_> = found.into_iter().collect();
        found.sort_unstable();
        found
    }

    /// Copies the operations of a block, but its terminator; returns the phase whose sites stand here.
    fn block(
        &mut self,
        b: &mut Builder,
        block: &Block,
        map: &mut HashMap<ValueId, ValueId>,
        top: bool,
    ) -> Option<usize> {
        let mut here = None;
        let mut landing: Vec<&Site> = vec![];
        for op in &block.ops {
            b.loc = op.loc.clone();
            if matches!(op.kind, Kind::Yield | Kind::Return) {
                continue;
            }
            let (due, later): (Vec<_>, Vec<_>) = landing.into_iter().partition(|s| mentions(op, s.buffer));
            landing = later;
            for s in due {
                b.op(Kind::BarrierWait, &[self.barrier[&s.tile], self.parity[&s.phase]], &[]);
            }
            match (
                &op.kind,
                op.results.first().or(op.operands.first()).and_then(|t| self.by_tile.get(t)).copied(),
            ) {
                (Kind::Load { .. }, Some(_)) => {}
                (Kind::LocalStore, Some(site)) => {
                    let load = self.old.defs()[&site.tile].clone();
                    let Kind::Load { axes } = load.kind else { unreachable!("planned from loads") };
                    let mut operands: Vec<_> = load.operands.iter().map(|v| map[v]).collect();
                    operands.extend([map[&site.buffer], self.barrier[&site.tile]]);
                    b.op(Kind::TmaLoad { axes }, &operands, &[]);
                    landing.push(site);
                    here = (!top).then_some(site.phase);
                }
                _ => self.op(b, op, map),
            }
        }
        here
    }

    fn op(&mut self, b: &mut Builder, op: &Op, map: &mut HashMap<ValueId, ValueId>) {
        let phases = self.phases_inside(op);
        if phases.is_empty() {
            return b.copy(self.old, op, map);
        }
        let before: Vec<_> = phases.iter().map(|p| self.parity[p]).collect();
        let mut operands: Vec<_> = op.operands.iter().map(|v| map[v]).collect();
        if matches!(op.kind, Kind::For { .. }) {
            operands.extend(&before);
        }
        let mut regions = vec![];
        for r in &op.regions {
            let mut types: Vec<_> = r.args.iter().map(|v| self.old.ty(*v).clone()).collect();
            if matches!(op.kind, Kind::For { .. }) {
                types.extend(phases.iter().map(|_| Type::I32));
            }
            let args = b.begin(&types);
            map.extend(r.args.iter().copied().zip(args.iter().copied()));
            let carried =
                if args.len() > r.args.len() { args[r.args.len()..].to_vec() } else { before.clone() };
            self.parity.extend(phases.iter().copied().zip(carried));
            if let Some(here) = self.block(b, r, map, false) {
                let one = b.i32(1);
                let flipped = b.binary(BinaryOp::XorI, self.parity[&here], one);
                self.parity.insert(here, flipped);
            }
            let last = r.ops.last().map(|y| y.operands.clone()).unwrap_or_default();
            let mut yields: Vec<_> = last.iter().map(|v| map[v]).collect();
            yields.extend(phases.iter().map(|p| self.parity[p]));
            regions.push(b.end(&yields));
            self.parity.extend(phases.iter().copied().zip(before.iter().copied()));
        }
        b.loc = op.loc.clone();
        let mut types: Vec<_> = op.results.iter().map(|v| self.old.ty(*v).clone()).collect();
        types.extend(phases.iter().map(|_| Type::I32));
        let results = b.op_with(op.kind.clone(), &operands, &types, regions);
        map.extend(op.results.iter().copied().zip(results.iter().copied()));
        self.parity.extend(phases.iter().copied().zip(results[op.results.len()..].iter().copied()));
    }
}

/// Does an operation, or one inside it, use this value?
pub(super) fn mentions(op: &Op, v: ValueId) -> bool {
    op.operands.contains(&v) || op.regions.iter().any(|r| r.ops.iter().any(|o| mentions(o, v)))
}
