//! # budget-registers
//!
//! Estimates how many registers a thread needs for tiles, and refuses a program that cannot fit.
//!
//! Before and after are the same IR.
//!
//! Requires: layouts. Ensures: at no point do the live tiles of a thread need more registers than a thread
//! can have. ptxas then allocates; where its own temporaries do not fit it spills, and says so.
//!
//! How: liveness backwards through the program; of two branches one runs; what a loop reads from outside
//! lives as long as it. A `splat` is one register, a `broadcast` none, and what is computed from indices is
//! computed again where it is used.
//!
//! Declines (a user error): the estimate passes the limit. The error lists the lines whose tiles are live
//! at the worst point.

use super::{Failure, Problem};
use flashc_front::codes::Code;
use flashc_ir::func::walk_block;
use flashc_ir::layout::LANES;
use flashc_ir::ops::Kind;
use flashc_ir::target::Target;
use flashc_ir::{Block, Func, Loc, Op, TileType, Type, ValueId};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

/// The estimate.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Registers of live tiles at the worst point.
    pub peak: i64,
    /// Where that is.
    pub at: Loc,
    /// Registers by source line at that point.
    pub lines: BTreeMap<u32, i64>,
    /// What a thread can have.
    pub limit: i64,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<_> = self.lines.iter().map(|(l, r)| format!("line {l}: {r}")).collect();
        write!(f, "{} of {} registers at line {} ({})", self.peak, self.limit, self.at.line, lines.join(", "))
    }
}

/// Runs the pass.
pub fn run(func: &Func, target: &Target) -> Result<Func, Failure> {
    let plan = plan(func, target);
    if plan.peak <= plan.limit {
        return Ok(func.clone());
    }
    let largest = plan.lines.iter().max_by_key(|l| l.1).map_or(plan.at.line, |l| *l.0);
    let lines: Vec<_> = plan.lines.iter().map(|(l, r)| format!("line {l}: {r}")).collect();
    Err(Failure::user(Problem {
        code: Code::Registers,
        message: format!(
            "the tiles of this kernel need {} registers a thread and {} has {} for {} threads",
            plan.peak,
            target.name,
            plan.limit,
            func.warps.unwrap_or(1) * LANES as i64
        ),
        label: format!("here they are all live; most belong to line {largest}"),
        help: format!("registers by line: {}; smaller tiles there would fit", lines.join(", ")),
        loc: plan.at,
    }))
}

/// Lifetimes and the worst point.
pub fn plan(func: &Func, target: &Target) -> Plan {
    let threads = func.warps.unwrap_or(1) * LANES as i64;
    let mut limit = target.max_registers.min(target.registers_per_sm / threads);
    func.walk(&mut |op| {
        if let Kind::Roles { roles } = &op.kind {
            limit = roles[0].registers.min(target.max_registers);
        }
    });
    let worst = Plan { peak: 0, at: func.loc.clone(), lines: BTreeMap::new(), limit };
    let mut file = Registers { func, groups: vec![], of: HashMap::new(), worst };
    file.define_block(&func.body);
    file.live_before(&func.body, HashSet::new());
    file.worst
}

/// 32-bit registers of a tile.
fn registers(t: &TileType) -> i64 {
    let Some(layout) = &t.layout else { return 0 };
    let n = layout.distribution(&t.shape).regs.len() as i64;
    match t.elem.bytes() {
        8 => 2 * n,
        2 => (n + 1) / 2,
        1 => (n + 3) / 4,
        _ => n,
    }
}

/// Groups of registers that live and die together: a tile is one, or two where it can be taken by halves of its
/// rows.
struct Registers<'a> {
    func: &'a Func,
    /// Registers and source of each group.
    groups: Vec<(i64, Loc)>,
    of: HashMap<ValueId, Vec<usize>>,
    worst: Plan,
}

impl Registers<'_> {
    fn define(&mut self, v: ValueId, cost: Option<i64>, loc: &Loc) {
        let (Type::Tile(t) | Type::InFlight(t)) = self.func.ty(v) else { return };
        let all = cost.unwrap_or_else(|| registers(t));
        let parts = if t.layout.as_ref().is_some_and(|l| l.half_rows().is_some()) { 2 } else { 1 };
        let first = self.groups.len();
        self.groups.extend((0..parts).map(|i| ((all + i) / parts, loc.clone())));
        self.of.insert(v, (first..self.groups.len()).collect());
    }

    fn define_block(&mut self, block: &Block) {
        for op in &block.ops {
            for r in &op.regions {
                for a in &r.args {
                    self.define(*a, None, &op.loc);
                }
                self.define_block(r);
            }
            let of = |v: &ValueId| self.of.get(v).cloned().unwrap_or_default();
            match op.kind {
                // The same registers under another name.
                Kind::Rows { part } => {
                    let half = of(&op.operands[0]).get(part).copied().into_iter().collect();
                    self.of.insert(op.result(), half);
                }
                Kind::JoinRows => {
                    let both = op.operands.iter().flat_map(of).collect();
                    self.of.insert(op.result(), both);
                }
                _ => {
                    for v in &op.results {
                        self.define(*v, self.cost(op, *v), &op.loc);
                    }
                }
            }
        }
    }

    fn cost(&self, op: &Op, result: ValueId) -> Option<i64> {
        let floats = self.func.ty(result).elem().is_some_and(|e| e.is_float());
        match op.kind {
            Kind::Splat => Some(1),
            // Copies of registers that are counted already.
            Kind::Broadcast { .. } => Some(0),
            // Indices and conditions are computed where they are used.
            _ if op.kind.is_pure() && !floats => Some(0),
            _ => None,
        }
    }

    fn of<'b>(&self, values: impl IntoIterator<Item = &'b ValueId>) -> HashSet<usize> {
        values.into_iter().filter_map(|v| self.of.get(v)).flatten().copied().collect()
    }

    /// What is live before a block, given what is live after it; notes the worst point on the way.
    fn live_before(&mut self, block: &Block, mut live: HashSet<usize>) -> HashSet<usize> {
        for op in block.ops.iter().rev() {
            live.extend(self.of(&op.results));
            self.measure(&live, &op.loc);
            for g in self.of(&op.results) {
                // A new name for registers does not make them.
                if !matches!(op.kind, Kind::Rows { .. } | Kind::JoinRows) {
                    live.remove(&g);
                }
            }
            let mut before: Vec<HashSet<usize>> = vec![];
            for r in &op.regions {
                let mut inside = live.clone();
                if matches!(op.kind, Kind::For { .. }) {
                    // What an iteration reads from outside, the next one reads again.
                    inside.extend(self.read_from_outside(r));
                }
                let mut first = self.live_before(r, inside);
                for g in self.of(&r.args) {
                    first.remove(&g);
                }
                before.push(first);
            }
            live.extend(before.into_iter().flatten());
            // Half the rows are half the registers, and the result is these.
            let reads = if matches!(op.kind, Kind::Rows { .. }) { &op.results } else { &op.operands };
            live.extend(self.of(reads));
        }
        live
    }

    fn read_from_outside(&self, block: &Block) -> HashSet<usize> {
        let (mut read, mut made) = (HashSet::new(), self.of(&block.args));
        walk_block(block, &mut |op| {
            read.extend(self.of(&op.operands));
            if !matches!(op.kind, Kind::Rows { .. } | Kind::JoinRows) {
                made.extend(self.of(&op.results));
            }
            made.extend(op.regions.iter().flat_map(|r| self.of(&r.args)));
        });
        read.difference(&made).copied().collect()
    }

    fn measure(&mut self, live: &HashSet<usize>, at: &Loc) {
        let sum = live.iter().map(|g| self.groups[*g].0).sum();
        if sum > self.worst.peak {
            self.worst.peak = sum;
            self.worst.at = at.clone();
            self.worst.lines = BTreeMap::new();
            for g in live {
                let (registers, loc) = &self.groups[*g];
                *self.worst.lines.entry(loc.line).or_default() += registers;
            }
        }
    }
}
