//! # specialize-roles
//!
//! Splits a kernel whose loops feed matrix products from global memory into two roles that run at the same
//! time: a producer, one thread that only issues bulk-tensor copies, and consumers that compute. Copies go
//! to rings of buffers with a pair of mbarriers a slot: *full* (the bytes have landed) and *empty* (every
//! consumer warpgroup has read them).
//!
//! Before
//! ```text
//! scf.for %n {
//!   %k = tile.load %K[...] ; sm90.local_store %k -> %kb
//!   %f = sm90.wgmma %q, %kb ; %s = sm90.wgmma_wait %f
//! ```
//! After
//! ```text
//! sm90.roles {
//! ^consumer:  scf.for %n iter_args(%c = 0) {
//!     sm90.barrier_wait %full[%c % 2], %c / 2 % 2
//!     %f = sm90.wgmma %q, %ring[%c % 2] ; %s = sm90.wgmma_wait %f
//!     sm90.barrier_arrive %empty[%c % 2] ; yield %c + 1
//! ^producer:  scf.for %n iter_args(%c = 0) {
//!     sm90.barrier_wait %empty[%c % 2], (%c / 2 + 1) % 2
//!     sm90.tma_load %K[...] -> %ring[%c % 2], %full[%c % 2] ; yield %c + 1
//! ```
//! Requires: `warpgroup-mma`. Ensures: no TMA load outside the producer; every wait has the phase of the
//! slot's use; a slot is released after the last wait that proves its readers done, exactly once an
//! iteration. Scalar code is in both roles.
//!
//! Declines when: no loop loads a tile only for shared memory (then `tma-loads` does the job), or the
//! coordinates of a load depend on the values of a tile.

use super::tma_loads::{self, Site};
use flashc_ir::layout::WARPGROUP;
use flashc_ir::ops::{BinaryOp, Kind, Role};
use flashc_ir::target::Target;
use flashc_ir::{Block, BufferType, Builder, Func, Op, Type, ValueId};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

/// Bytes kept for barriers and scratch.
const RESERVED: i64 = 1024;
/// Slots of a ring at most.
const MAX_STAGES: i64 = 4;
/// Warps of the producer: `setmaxnreg` works on whole warpgroups.
const PRODUCER_WARPS: i64 = WARPGROUP;

/// Who does what.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The loads that become copies.
    pub sites: Vec<Site>,
    /// Slots of each ring, by phase.
    pub stages: BTreeMap<usize, i64>,
    /// Consumer and producer.
    pub roles: Vec<Role>,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for r in &self.roles {
            writeln!(f, "{}: {} warps, {} registers", r.name, r.warps, r.registers)?;
        }
        for (i, s) in self.sites.iter().enumerate().filter(|(i, _)| owner(&self.sites, *i) == *i) {
            match self.stages.get(&s.phase).filter(|_| !s.once) {
                Some(n) => writeln!(f, "copy {i}: a ring of {n} slots")?,
                None => writeln!(f, "copy {i}: a buffer filled once")?,
            }
        }
        Ok(())
    }
}

/// Runs the pass; `None` if it declines.
pub fn run(func: &Func, target: &Target) -> Option<Func> {
    let plan = plan(func, target)?;
    Some(Apply::new(func, &plan).run())
}

/// Decides.
pub fn plan(func: &Func, target: &Target) -> Option<Plan> {
    let mut sites = tma_loads::plan(func).sites;
    share_rings(func, &mut sites);
    if sites.iter().all(|s| s.once) || !producer_is_scalar(func, &sites) {
        return None;
    }
    let bytes = |v: ValueId| func.ty(v).as_buffer().map_or(0, BufferType::bytes);
    // Bytes of a slot of each phase's rings.
    let mut slot: BTreeMap<usize, i64> = BTreeMap::new();
    for (_, s) in sites.iter().enumerate().filter(|(i, s)| !s.once && owner(&sites, *i) == *i) {
        *slot.entry(s.phase).or_default() += bytes(s.buffer);
    }
    let ring_buffers: HashSet<ValueId> = sites.iter().filter(|s| !s.once).map(|s| s.buffer).collect();
    let mut rest = 0;
    func.walk(&mut |op| {
        if matches!(op.kind, Kind::Alloc { .. }) && !ring_buffers.contains(&op.result()) {
            rest += bytes(op.result());
        }
    });
    let outer = outer_phases(func, &sites);
    let stages = choose_stages(&slot, &outer, target.shared_bytes - rest - RESERVED)?;
    let consumers = func.warps? / WARPGROUP;
    let (consumer, producer) = match consumers {
        1 => (256, 256),
        2 => (240, 24),
        3 => (160, 32),
        _ => (112, 24),
    };
    let role = |name: &str, warps, registers| Role { name: name.into(), warps, registers };
    let roles =
        vec![role("consumer", consumers * WARPGROUP, consumer), role("producer", PRODUCER_WARPS, producer)];
    Some(Plan { sites, stages, roles })
}

/// Phases of blocks around others: their tiles are filled rarely.
fn outer_phases(func: &Func, sites: &[Site]) -> HashSet<usize> {
    let by_tile: HashMap<ValueId, usize> = sites.iter().map(|s| (s.tile, s.phase)).collect();
    let mut blocks = vec![];
    around(&func.body, &by_tile, &mut vec![], &mut blocks);
    blocks.into_iter().flat_map(|(_, outer)| outer).collect()
}

/// Slots by phase: two where tiles are filled often, then a second one for what is filled rarely, so that the
/// producer can go on to the next program, then more for the former.
fn choose_stages(
    slot: &BTreeMap<usize, i64>,
    outer: &HashSet<usize>,
    room: i64,
) -> Option<BTreeMap<usize, i64>> {
    let total = |often: i64, rarely: i64| -> i64 {
        slot.iter().map(|(p, b)| b * if outer.contains(p) { rarely } else { often }).sum()
    };
    let rarely = [2, 1].into_iter().find(|r| total(2, *r) <= room)?;
    let often = (2..=MAX_STAGES).rev().find(|s| total(*s, rarely) <= room)?;
    Some(slot.keys().map(|p| (*p, if outer.contains(p) { rarely } else { often })).collect())
}

/// Blocks that load the same tiles of the same tensors, one after the other, use the same rings: the phase of
/// the later ones becomes that of the first.
fn share_rings(func: &Func, sites: &mut [Site]) {
    let defs = func.defs();
    let mut blocks: Vec<(usize, Vec<usize>)> = vec![];
    let by_tile: HashMap<ValueId, usize> = sites.iter().map(|s| (s.tile, s.phase)).collect();
    around(&func.body, &by_tile, &mut vec![], &mut blocks);
    let key = |sites: &[Site], phase: usize| -> Vec<(Type, ValueId)> {
        let own = sites.iter().filter(|s| s.phase == phase && !s.once);
        own.map(|s| (func.ty(s.buffer).clone(), defs[&s.tile].operands[0])).collect()
    };
    let original: Vec<Site> = sites.to_vec();
    let mut done: Vec<(usize, Vec<usize>)> = vec![];
    for (phase, outer) in blocks {
        let mine = key(&original, phase);
        let nested = |other: &(usize, Vec<usize>)| outer.contains(&other.0) || other.1.contains(&phase);
        let same = done.iter().find(|d| !mine.is_empty() && !nested(d) && key(&original, d.0) == mine);
        match same {
            Some((first, _)) => {
                for s in sites.iter_mut().filter(|s| s.phase == phase) {
                    s.phase = *first;
                }
            }
            None => done.push((phase, outer)),
        }
    }
}

/// The phases of all blocks, each with those of the blocks around it.
fn around(
    block: &Block,
    by_tile: &HashMap<ValueId, usize>,
    outer: &mut Vec<usize>,
    out: &mut Vec<(usize, Vec<usize>)>,
) {
    let phase = block.ops.iter().find_map(|o| match o.kind {
        Kind::LocalStore => by_tile.get(&o.operands[0]).copied(),
        _ => None,
    });
    if let Some(p) = phase {
        out.push((p, outer.clone()));
        outer.push(p);
    }
    for r in block.ops.iter().flat_map(|o| &o.regions) {
        around(r, by_tile, outer, out);
    }
    if phase.is_some() {
        outer.pop();
    }
}

/// The site whose ring a site uses: the one at its place in the first block of its phase.
fn owner(sites: &[Site], i: usize) -> usize {
    let phase = sites[i].phase;
    if sites[i].once || phase > i {
        return i;
    }
    let in_phase: Vec<usize> =
        (0..sites.len()).filter(|j| sites[*j].phase == phase && !sites[*j].once).collect();
    let per_block = in_phase.iter().take_while(|j| sites[**j].block == sites[phase].block).count();
    let place = in_phase.iter().position(|j| *j == i).unwrap_or(0);
    in_phase[place % per_block.max(1)]
}

/// Values that decide which copies are issued and where: all scalar?
fn producer_is_scalar(func: &Func, sites: &[Site]) -> bool {
    needed(func, sites).is_some()
}

/// The operations (by first result) that the producer runs besides copies; `None` if tiles are among their
/// operands.
fn needed(func: &Func, sites: &[Site]) -> Option<HashSet<ValueId>> {
    let tiles: HashSet<ValueId> = sites.iter().map(|s| s.tile).collect();
    let mut want: Vec<ValueId> = vec![];
    collect(&func.body, &tiles, &mut want);
    let defs = func.defs();
    let carriers = carriers(func);
    let mut seen = HashSet::new();
    while let Some(v) = want.pop() {
        if !seen.insert(v) {
            continue;
        }
        match func.ty(v) {
            Type::Scalar(_) | Type::Tensor(_) => {}
            _ => return None,
        }
        if let Some(op) = defs.get(&v).filter(|op| op.regions.is_empty()) {
            want.extend(&op.operands);
        }
        want.extend(carriers.get(&v).into_iter().flatten());
    }
    Some(seen)
}

/// Operands of copies and of the control flow around them; true if the block holds a copy.
fn collect(block: &Block, tiles: &HashSet<ValueId>, want: &mut Vec<ValueId>) -> bool {
    let mut any = false;
    for op in &block.ops {
        if matches!(op.kind, Kind::Load { .. }) && tiles.contains(&op.result()) {
            want.extend(&op.operands);
            any = true;
        }
        let inside = op.regions.iter().map(|r| collect(r, tiles, want)).fold(false, |a, b| a | b);
        if inside {
            let n = if matches!(op.kind, Kind::For { .. }) { 3 } else { 1 };
            want.extend(&op.operands[..n]);
            any = true;
        }
    }
    any
}

/// For a loop's or a conditional's results and arguments, what they may be.
fn carriers(func: &Func) -> HashMap<ValueId, Vec<ValueId>> {
    let mut from: HashMap<ValueId, Vec<ValueId>> = HashMap::new();
    func.walk(&mut |op| {
        let yields = |r: &Block| r.ops.last().map(|y| y.operands.clone()).unwrap_or_default();
        match op.kind {
            Kind::For { .. } => {
                let body = &op.regions[0];
                for (i, y) in yields(body).into_iter().enumerate() {
                    for v in [op.results[i], body.args[1 + i]] {
                        from.entry(v).or_default().extend([op.operands[3 + i], y]);
                    }
                }
                from.entry(body.args[0]).or_default().extend(&op.operands[..3]);
            }
            Kind::If => {
                for r in &op.regions {
                    for (i, y) in yields(r).into_iter().enumerate() {
                        from.entry(op.results[i]).or_default().extend([op.operands[0], y]);
                    }
                }
            }
            _ => {}
        }
    });
    from
}

struct Apply<'a> {
    old: &'a Func,
    plan: &'a Plan,
    by_tile: HashMap<ValueId, &'a Site>,
    /// By tile: buffer or ring, full barrier(s), empty barriers.
    shared: HashMap<ValueId, [ValueId; 3]>,
    /// Uses of each counter so far, by phase.
    counter: BTreeMap<usize, ValueId>,
    /// What the producer runs; `None`: this is the consumer, which runs everything.
    only: Option<HashSet<ValueId>>,
}

/// The slot of an iteration.
#[derive(Clone, Copy)]
struct Turn {
    index: ValueId,
    parity: ValueId,
}

impl<'a> Apply<'a> {
    fn new(old: &'a Func, plan: &'a Plan) -> Self {
        let by_tile = plan.sites.iter().map(|s| (s.tile, s)).collect();
        Apply { old, plan, by_tile, shared: HashMap::new(), counter: BTreeMap::new(), only: None }
    }

    fn run(mut self) -> Func {
        let (mut b, mut map) = Builder::like(self.old);
        let consumers = self.plan.roles[0].warps / WARPGROUP;
        let rings: HashMap<ValueId, &Site> = self.plan.sites.iter().map(|s| (s.buffer, s)).collect();
        for op in self.old.body.ops.iter().filter(|o| matches!(o.kind, Kind::Alloc { .. })) {
            b.loc = op.loc.clone();
            let Type::Buffer(ty) = self.old.ty(op.result()).clone() else { continue };
            let site = rings.get(&op.result());
            let many = site.is_some_and(|s| !s.once);
            if let Some(s) = site {
                let i = self.plan.sites.iter().position(|x| x.tile == s.tile).unwrap_or(0);
                let of = owner(&self.plan.sites, i);
                if of != i {
                    // Another site's ring; it stands earlier.
                    if let Some(shared) = self.shared.get(&self.plan.sites[of].tile).copied() {
                        self.shared.insert(s.tile, shared);
                        continue;
                    }
                }
            }
            let stages = site.and_then(|s| self.plan.stages.get(&s.phase)).copied().unwrap_or(1);
            let ty = if many { Type::Ring(ty, stages) } else { Type::Buffer(ty) };
            let buffer = b.op1(Kind::Alloc { offset: None }, &[], ty);
            map.insert(op.result(), buffer);
            if let Some(site) = site {
                let ty = if many { Type::BarrierRing(stages) } else { Type::Barrier };
                let full = b.op1(Kind::BarrierAlloc { count: 1, offset: None }, &[], ty.clone());
                let empty = if many {
                    b.op1(Kind::BarrierAlloc { count: consumers, offset: None }, &[], ty)
                } else {
                    full
                };
                self.shared.insert(site.tile, [buffer, full, empty]);
            }
        }
        let mut regions = vec![];
        for i in 0..self.plan.roles.len() {
            self.only = if i == 0 { None } else { needed(self.old, &self.plan.sites) };
            b.begin(&[]);
            let zero = b.i32(0);
            self.counter = self.plan.sites.iter().map(|s| (s.phase, zero)).collect();
            let mut map = map.clone();
            self.block(&mut b, &self.old.body, &mut map);
            regions.push(b.end(&[]));
        }
        b.loc = self.old.loc.clone();
        b.func.warps = Some(self.plan.roles.iter().map(|r| r.warps).sum());
        b.op_with(Kind::Roles { roles: self.plan.roles.clone() }, &[], &[], regions);
        b.finish()
    }

    /// Sites that stand directly in a block.
    fn sites_of(&self, block: &Block) -> Vec<&'a Site> {
        let site = |op: &Op| match op.kind {
            Kind::LocalStore => self.by_tile.get(&op.operands[0]).copied(),
            _ => None,
        };
        block.ops.iter().filter_map(site).collect()
    }

    fn phases_inside(&self, op: &Op) -> Vec<usize> {
        let mut found: Vec<usize> = vec![];
        for r in &op.regions {
            found.extend(self.sites_of(r).iter().map(|s| s.phase));
            for inner in &r.ops {
                found.extend(self.phases_inside(inner));
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Index and parity of this iteration's slots.
    fn turn(&self, b: &mut Builder, phase: usize) -> Turn {
        let (c, n, one) = (self.counter[&phase], b.i32(self.plan.stages[&phase]), b.i32(1));
        let index = b.binary(BinaryOp::RemUI, c, n);
        let round = b.binary(BinaryOp::DivUI, c, n);
        let parity = b.binary(BinaryOp::AndI, round, one);
        Turn { index, parity }
    }

    /// The part of a ring, or the thing itself.
    fn slot(&self, b: &mut Builder, ring: ValueId, turn: Option<Turn>) -> ValueId {
        let ty = match b.ty(ring) {
            Type::Ring(t, _) => Type::Buffer(t.clone()),
            Type::BarrierRing(_) => Type::Barrier,
            _ => return ring,
        };
        match turn {
            Some(t) => b.op1(Kind::Slot, &[ring, t.index], ty),
            None => ring,
        }
    }

    fn block(&mut self, b: &mut Builder, block: &Block, map: &mut HashMap<ValueId, ValueId>) {
        let sites = self.sites_of(block);
        let repeated = sites.iter().find(|s| !s.once).map(|s| s.phase);
        let turn = repeated.map(|p| self.turn(b, p));
        for s in sites.iter().filter(|s| !s.once) {
            let slot = self.slot(b, self.shared[&s.tile][0], turn);
            map.insert(s.buffer, slot);
        }
        let consumer = self.only.is_none();
        let mut waiting: Vec<&Site> = vec![];
        for (i, op) in block.ops.iter().enumerate() {
            b.loc = op.loc.clone();
            if matches!(op.kind, Kind::Yield | Kind::Return | Kind::Alloc { .. }) {
                continue;
            }
            let (due, later): (Vec<_>, Vec<_>) =
                waiting.into_iter().partition(|s| tma_loads::mentions(op, s.buffer));
            waiting = later;
            for s in due {
                let full = self.slot(b, self.shared[&s.tile][1], turn.filter(|_| !s.once));
                let parity = match turn {
                    Some(t) if !s.once => t.parity,
                    _ => b.i32(0),
                };
                b.op(Kind::BarrierWait, &[full, parity], &[]);
            }
            let site = op.results.first().or(op.operands.first()).and_then(|t| self.by_tile.get(t)).copied();
            match (&op.kind, site) {
                (Kind::Load { .. }, Some(_)) => {}
                (Kind::LocalStore, Some(s)) if consumer => waiting.push(s),
                (Kind::LocalStore, Some(s)) => self.copy(b, s, turn, map),
                _ => self.op(b, op, map),
            }
            if consumer {
                for s in sites.iter().filter(|s| !s.once && last_use(block, s.buffer) == Some(i)) {
                    let empty = self.slot(b, self.shared[&s.tile][2], turn);
                    b.op(Kind::BarrierArrive, &[empty], &[]);
                }
            }
        }
        if let Some(p) = repeated {
            let one = b.i32(1);
            let next = b.binary(BinaryOp::AddI, self.counter[&p], one);
            self.counter.insert(p, next);
        }
    }

    /// The producer's part of a site.
    fn copy(&self, b: &mut Builder, s: &Site, turn: Option<Turn>, map: &HashMap<ValueId, ValueId>) {
        let turn = turn.filter(|_| !s.once);
        let [buffer, full, empty] = self.shared[&s.tile];
        if let Some(t) = turn {
            let (empty, one) = (self.slot(b, empty, turn), b.i32(1));
            let parity = b.binary(BinaryOp::XorI, t.parity, one);
            b.op(Kind::BarrierWait, &[empty, parity], &[]);
        }
        let load = self.old.defs()[&s.tile].clone();
        let Kind::Load { axes } = load.kind else { return };
        let mut operands: Vec<_> = load.operands.iter().map(|v| map[v]).collect();
        operands.push(self.slot(b, buffer, turn));
        operands.push(self.slot(b, full, turn));
        b.op(Kind::TmaLoad { axes }, &operands, &[]);
    }

    fn op(&mut self, b: &mut Builder, op: &Op, map: &mut HashMap<ValueId, ValueId>) {
        let phases = self.phases_inside(op);
        let wanted = |v: &ValueId| self.only.as_ref().is_none_or(|o| o.contains(v));
        if phases.is_empty() {
            // The producer keeps scalars that its copies depend on.
            if self.only.is_none() || op.results.iter().any(wanted) {
                b.copy(self.old, op, map);
            }
            return;
        }
        // Of a loop's values the producer carries those it needs.
        let is_for = matches!(op.kind, Kind::For { .. });
        let keep: Vec<usize> = (0..op.results.len())
            .filter(|i| wanted(&op.results[*i]) || is_for && wanted(&op.regions[0].args[1 + i]))
            .collect();
        let before: Vec<_> = phases.iter().map(|p| self.counter[p]).collect();
        let mut operands: Vec<_> = op.operands[..if is_for { 3 } else { 1 }].iter().map(|v| map[v]).collect();
        if is_for {
            operands.extend(keep.iter().map(|i| map[&op.operands[3 + i]]));
            operands.extend(&before);
        }
        let mut regions = vec![];
        for r in &op.regions {
            let mut types = vec![];
            if is_for {
                types.push(Type::I32);
                types.extend(keep.iter().map(|i| self.old.ty(r.args[1 + i]).clone()));
                types.extend(phases.iter().map(|_| Type::I32));
            }
            let args = b.begin(&types);
            let mut carried = before.clone();
            if is_for {
                map.insert(r.args[0], args[0]);
                for (j, i) in keep.iter().enumerate() {
                    map.insert(r.args[1 + i], args[1 + j]);
                }
                carried = args[1 + keep.len()..].to_vec();
            }
            self.counter.extend(phases.iter().copied().zip(carried));
            self.block(b, r, map);
            let last = r.ops.last().map(|y| y.operands.clone()).unwrap_or_default();
            let mut yields: Vec<_> = keep.iter().map(|i| map[&last[*i]]).collect();
            yields.extend(phases.iter().map(|p| self.counter[p]));
            regions.push(b.end(&yields));
            self.counter.extend(phases.iter().copied().zip(before.iter().copied()));
        }
        b.loc = op.loc.clone();
        let mut types: Vec<_> = keep.iter().map(|i| self.old.ty(op.results[*i]).clone()).collect();
        types.extend(phases.iter().map(|_| Type::I32));
        let results = b.op_with(op.kind.clone(), &operands, &types, regions);
        for (j, i) in keep.iter().enumerate() {
            map.insert(op.results[*i], results[j]);
        }
        self.counter.extend(phases.iter().copied().zip(results[keep.len()..].iter().copied()));
    }
}

/// The last operation of a block that touches a buffer, or that waits for one that does.
fn last_use(block: &Block, buffer: ValueId) -> Option<usize> {
    let mut flying: Vec<ValueId> = vec![];
    let mut last = None;
    for (i, op) in block.ops.iter().enumerate() {
        let waits =
            matches!(op.kind, Kind::WgmmaWait { .. }) && op.operands.iter().any(|v| flying.contains(v));
        if tma_loads::mentions(op, buffer) || waits {
            last = Some(i);
        }
        if matches!(op.kind, Kind::Wgmma { .. }) && op.operands.contains(&buffer) {
            flying.push(op.result());
        }
    }
    last
}
