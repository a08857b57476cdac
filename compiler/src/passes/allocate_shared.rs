//! # allocate-shared
//!
//! Gives every buffer and barrier a place in the CTA's shared memory. Buffers whose lifetimes do not
//! meet may share bytes.
//!
//! Before
//! ```text
//! %kb = sm90.alloc : !sm90.buffer<128x64xbf16, swizzle 128>
//! ```
//! After
//! ```text
//! %kb = sm90.alloc {offset = 16384} : !sm90.buffer<128x64xbf16, swizzle 128>
//! ```
//! Requires: nothing. Ensures: every offset is set, aligned to the swizzle's period, and within
//! `shared_bytes`; two buffers that are live at the same time do not overlap.
//!
//! A lifetime is an interval of operations in program order; one that touches a loop from outside, or
//! that is used in a loop before it is written there, covers the whole loop. What a product or a copy reads
//! is live until its wait, a ring as long as its slots. First fit, largest first.
//!
//! Roles run at the same time. What another role than the first touches is live from their start on, and
//! until the first role's last use if it has one: whatever is copied to a buffer, the first role waits for
//! before that. So what the first role needs after its loops may lie where rings were.
//!
//! Declines (a user error): the kernel needs more than the target has. The error lists what takes how
//! much.

use super::{Failure, Problem};
use flashc_front::codes::Code;
use flashc_ir::layout::SWIZZLE_ALIGN;
use flashc_ir::ops::Kind;
use flashc_ir::target::Target;
use flashc_ir::{Block, Builder, Func, Loc, Op, Step, Type, ValueId};
use std::collections::{BTreeMap, HashMap};
use std::fmt;

/// Bytes of an mbarrier.
const BARRIER_BYTES: i64 = 8;

/// Where everything lies.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    /// Bytes in all.
    pub bytes: i64,
    /// One entry a buffer.
    pub buffers: Vec<Placed>,
    /// Offset of each barrier or ring of them, and how many it has.
    pub barriers: BTreeMap<ValueId, (i64, i64)>,
}

/// A buffer's place and lifetime.
#[derive(Debug, Clone, PartialEq)]
pub struct Placed {
    /// The buffer.
    pub buffer: ValueId,
    /// First and last operation at which it is live, in program order.
    pub live: (usize, usize),
    /// Byte offset.
    pub offset: i64,
    /// Length in bytes.
    pub bytes: i64,
    /// What it holds.
    pub loc: Loc,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for p in &self.buffers {
            writeln!(
                f,
                "{:>7} .. {:>7}  %{} live {}..{}",
                p.offset,
                p.offset + p.bytes,
                p.buffer.0,
                p.live.0,
                p.live.1
            )?;
        }
        writeln!(f, "{:>7} bytes, {} barriers", self.bytes, self.barriers.len())
    }
}

/// Runs the pass.
pub fn run(func: &Func, target: &Target) -> Result<Func, Failure> {
    let plan = plan(func);
    if plan.bytes > target.shared_bytes {
        return Err(too_large(func, &plan, target));
    }
    Ok(apply(func, &plan))
}

/// Lifetimes, then places.
pub fn plan(func: &Func) -> Plan {
    let mut lives: HashMap<ValueId, (usize, usize)> = HashMap::new();
    let (mut clock, mut plan) = (0, Plan::default());
    let reads = reads(func);
    number(func, &reads, &func.body, &mut clock, &mut lives, &mut plan);
    for p in &mut plan.buffers {
        p.live = lives.get(&p.buffer).copied().unwrap_or(p.live);
    }
    let mut order: Vec<usize> = (0..plan.buffers.len()).collect();
    order.sort_by_key(|i| (std::cmp::Reverse(plan.buffers[*i].bytes), *i));
    let mut placed: Vec<usize> = vec![];
    for i in order {
        let (live, bytes) = (plan.buffers[i].live, plan.buffers[i].bytes);
        let mut taken: Vec<(i64, i64)> = placed
            .iter()
            .map(|j| &plan.buffers[*j])
            .filter(|p| p.live.0 <= live.1 && live.0 <= p.live.1)
            .map(|p| (p.offset, p.offset + p.bytes))
            .collect();
        taken.sort_unstable();
        let mut offset = 0;
        for (start, end) in taken {
            if offset + bytes > start {
                offset = offset.max(align(end));
            }
        }
        plan.buffers[i].offset = offset;
        placed.push(i);
    }
    plan.bytes = plan.buffers.iter().map(|p| p.offset + p.bytes).max().unwrap_or(0);
    for at in plan.barriers.values_mut() {
        plan.bytes = (plan.bytes + BARRIER_BYTES - 1) / BARRIER_BYTES * BARRIER_BYTES;
        at.0 = plan.bytes;
        plan.bytes += BARRIER_BYTES * at.1;
    }
    plan
}

fn align(x: i64) -> i64 {
    (x + SWIZZLE_ALIGN - 1) / SWIZZLE_ALIGN * SWIZZLE_ALIGN
}

/// For each slot its ring, and for each product in flight the buffers and rings that it reads.
fn reads(func: &Func) -> HashMap<ValueId, Vec<ValueId>> {
    let mut all: HashMap<ValueId, Vec<ValueId>> = HashMap::new();
    func.walk(&mut |op| {
        if matches!(op.kind, Kind::Slot | Kind::Wgmma { .. }) {
            let shared = |v: &&ValueId| matches!(func.ty(**v), Type::Buffer(_) | Type::Ring(..));
            let of = |v: &ValueId| all.get(v).cloned().unwrap_or_else(|| vec![*v]);
            let found = op.operands.iter().filter(shared).flat_map(of).collect();
            all.insert(op.result(), found);
        }
    });
    all
}

/// The buffers and rings that an operation touches.
fn touched(func: &Func, reads: &HashMap<ValueId, Vec<ValueId>>, op: &Op) -> Vec<ValueId> {
    let of = |v: &ValueId| match reads.get(v) {
        Some(all) => all.clone(),
        None if matches!(func.ty(*v), Type::Buffer(_) | Type::Ring(..)) => vec![*v],
        None => vec![],
    };
    op.operands.iter().flat_map(of).collect()
}

/// Numbers operations and extends lifetimes; a buffer that a loop does not write before it reads, or that
/// is touched outside as well, lives for the whole loop.
fn number(
    func: &Func,
    reads: &HashMap<ValueId, Vec<ValueId>>,
    block: &Block,
    clock: &mut usize,
    lives: &mut HashMap<ValueId, (usize, usize)>,
    plan: &mut Plan,
) {
    for op in &block.ops {
        *clock += 1;
        match &op.kind {
            Kind::Alloc { .. } => {
                let bytes = match func.ty(op.result()) {
                    Type::Buffer(b) => b.bytes(),
                    Type::Ring(b, n) => b.ring_bytes(*n),
                    _ => 0,
                };
                plan.buffers.push(Placed {
                    buffer: op.result(),
                    live: (*clock, *clock),
                    offset: 0,
                    bytes,
                    loc: op.loc.clone(),
                });
                continue;
            }
            Kind::BarrierAlloc { .. } => {
                let n = if let Type::BarrierRing(n) = func.ty(op.result()) { *n } else { 1 };
                plan.barriers.insert(op.result(), (0, n));
                continue;
            }
            _ => {}
        }
        for v in touched(func, reads, op) {
            let l = lives.entry(v).or_insert((*clock, *clock));
            l.1 = *clock;
        }
        if op.regions.is_empty() {
            continue;
        }
        let start = *clock;
        let before: Vec<ValueId> = lives.keys().copied().collect();
        if matches!(op.kind, Kind::Roles { .. }) {
            roles(func, reads, op, clock, lives, plan);
            continue;
        }
        for r in &op.regions {
            number(func, reads, r, clock, lives, plan);
        }
        *clock += 1;
        if matches!(op.kind, Kind::For { .. }) {
            let end = *clock;
            for (v, l) in lives.iter_mut() {
                let outside = before.contains(v);
                if l.1 > start && (outside || reads_first(func, reads, &op.regions[0], *v) != Some(false)) {
                    l.0 = if outside { l.0 } else { start };
                    l.1 = end;
                }
            }
        }
    }
}

/// Roles run at the same time: what others than the first touch is live from their start, and until the
/// first role is done with it; what that never touches, until they all end.
fn roles(
    func: &Func,
    reads: &HashMap<ValueId, Vec<ValueId>>,
    op: &Op,
    clock: &mut usize,
    lives: &mut HashMap<ValueId, (usize, usize)>,
    plan: &mut Plan,
) {
    let start = *clock;
    let Some((first, others)) = op.regions.split_first() else { return };
    number(func, reads, first, clock, lives, plan);
    let mine = lives.clone();
    for r in others {
        number(func, reads, r, clock, lives, plan);
    }
    *clock += 1;
    for (v, l) in lives.iter_mut() {
        let before = mine.get(v);
        if before == Some(l) {
            continue;
        }
        *l = match before {
            Some(b) if b.1 > start => (b.0.min(start), b.1),
            Some(b) => (b.0, *clock),
            None => (start, *clock),
        };
    }
}

/// Is a buffer's first appearance in a block a read? `None` if it does not appear.
fn reads_first(
    func: &Func,
    reads: &HashMap<ValueId, Vec<ValueId>>,
    block: &Block,
    v: ValueId,
) -> Option<bool> {
    block.ops.iter().find_map(|op| {
        if touched(func, reads, op).contains(&v) {
            let writes = matches!(op.kind, Kind::LocalStore | Kind::TmaLoad { .. })
                || matches!(op.kind, Kind::Reduce { .. } | Kind::Convert | Kind::Reshape | Kind::Trans);
            return Some(!writes);
        }
        // Something conditional or repeated: be careful.
        op.regions.iter().find_map(|r| reads_first(func, reads, r, v)).map(|_| true)
    })
}

fn too_large(func: &Func, plan: &Plan, target: &Target) -> Failure {
    let mut by_line: BTreeMap<u32, i64> = BTreeMap::new();
    for p in &plan.buffers {
        *by_line.entry(p.loc.line).or_default() += p.bytes;
    }
    let rows: Vec<_> = by_line.iter().map(|(line, bytes)| format!("line {line}: {bytes}")).collect();
    let biggest = plan.buffers.iter().max_by_key(|p| p.bytes);
    Failure::user(Problem {
        code: Code::SharedMemory,
        message: format!(
            "this kernel needs {} bytes of shared memory and {} has {}",
            plan.bytes, target.name, target.shared_bytes
        ),
        label: biggest.map(|p| format!("this tile takes {} bytes", p.bytes)).unwrap_or_default(),
        help: format!("bytes by line: {}; make tiles smaller so that their sum fits", rows.join(", ")),
        loc: biggest.map_or(func.loc.clone(), |p| p.loc.clone()),
    })
}

fn apply(func: &Func, plan: &Plan) -> Func {
    let offsets: HashMap<ValueId, i64> = plan.buffers.iter().map(|p| (p.buffer, p.offset)).collect();
    let mut f = Builder::rebuild(func, &mut |b, old, op, map| {
        let kind = match &op.kind {
            Kind::Alloc { .. } => Kind::Alloc { offset: Some(offsets[&op.result()]) },
            Kind::BarrierAlloc { count, .. } => {
                Kind::BarrierAlloc { count: *count, offset: Some(plan.barriers[&op.result()].0) }
            }
            _ => return Step::Copy,
        };
        let new = b.op1(kind, &[], old.ty(op.result()).clone());
        map.insert(op.result(), new);
        Step::Done
    });
    f.shared_bytes = Some(plan.bytes);
    f
}
