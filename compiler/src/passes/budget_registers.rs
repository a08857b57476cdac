//! # budget-registers
//!
//! Estimates how many registers a thread needs for tiles, and refuses a program that cannot fit.
//!
//! Before and after are the same IR.
//!
//! Requires: layouts. Ensures: at no point do the live tiles of a thread need more registers than a thread
//! can have. ptxas then allocates; where its own temporaries do not fit it spills, and says so.
//!
//! How: a value is live from its definition to its last use; one from outside a loop that the loop uses
//! lives to its end. A `splat` is one register, a `broadcast` none, and what is computed from indices is
//! computed again where it is used.
//!
//! Declines (a user error): the estimate passes the limit. The error lists the lines whose tiles are live
//! at the worst point.

use super::{Failure, Problem};
use flashc_front::codes::Code;
use flashc_ir::layout::LANES;
use flashc_ir::ops::Kind;
use flashc_ir::target::Target;
use flashc_ir::{Block, Func, Loc, TileType, Type, ValueId};
use std::collections::{BTreeMap, HashMap};
use std::fmt;

/// A tile's cost and lifetime.
#[derive(Debug, Clone, PartialEq)]
struct Life {
    registers: i64,
    from: usize,
    to: usize,
    loc: Loc,
}

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
    let mut lives: HashMap<ValueId, Life> = HashMap::new();
    let (mut clock, mut locs) = (0, vec![]);
    number(func, &func.body, &mut clock, &mut locs, &mut lives);
    let mut worst = Plan { peak: 0, at: func.loc.clone(), lines: BTreeMap::new(), limit };
    for (now, loc) in locs.iter().enumerate() {
        let live: Vec<&Life> = lives.values().filter(|l| l.from <= now && now < l.to).collect();
        let sum = live.iter().map(|l| l.registers).sum();
        if sum > worst.peak {
            worst.peak = sum;
            worst.at = loc.clone();
            worst.lines = BTreeMap::new();
            for l in live {
                *worst.lines.entry(l.loc.line).or_default() += l.registers;
            }
        }
    }
    worst
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

fn number(
    func: &Func,
    block: &Block,
    clock: &mut usize,
    locs: &mut Vec<Loc>,
    lives: &mut HashMap<ValueId, Life>,
) {
    let define =
        |v: ValueId, cost: Option<i64>, now: usize, loc: &Loc, lives: &mut HashMap<ValueId, Life>| {
            if let Type::Tile(t) | Type::InFlight(t) = func.ty(v) {
                let registers = cost.unwrap_or_else(|| registers(t));
                lives.insert(v, Life { registers, from: now, to: now, loc: loc.clone() });
            }
        };
    for op in &block.ops {
        let now = *clock;
        *clock += 1;
        locs.push(op.loc.clone());
        for v in &op.operands {
            if let Some(l) = lives.get_mut(v) {
                l.to = l.to.max(now);
            }
        }
        if !op.regions.is_empty() {
            let outside: Vec<ValueId> = lives.keys().copied().collect();
            for r in &op.regions {
                for a in &r.args {
                    define(*a, None, now, &op.loc, lives);
                }
                number(func, r, clock, locs, lives);
            }
            let end = *clock;
            if matches!(op.kind, Kind::For { .. }) {
                for v in outside {
                    if let Some(l) = lives.get_mut(&v).filter(|l| l.to > now) {
                        l.to = end;
                    }
                }
            }
        }
        for v in &op.results {
            let floats = func.ty(*v).elem().is_some_and(|e| e.is_float());
            let cost = match op.kind {
                Kind::Splat => Some(1),
                // Copies of registers that are counted already.
                Kind::Broadcast { .. } => Some(0),
                // Indices and conditions are computed where they are used.
                _ if op.kind.is_pure() && !floats => Some(0),
                _ => None,
            };
            define(*v, cost, *clock - 1, &op.loc, lives);
        }
    }
}
