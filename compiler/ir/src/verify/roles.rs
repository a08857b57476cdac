//! Rules of roles, rings and turns.

use super::{Check, Checker, ensure};
use crate::func::{Block, Op, walk_block};
use crate::layout::WARPGROUP;
use crate::ops::{Kind, Role};
use crate::types::Type;

/// Slots of a ring at most.
const MAX_SLOTS: i64 = 256;
/// What `setmaxnreg` can ask for: a multiple of eight in this range.
const REGISTERS: std::ops::RangeInclusive<i64> = 24..=256;

/// Is this a possible number of slots?
pub(super) fn check_slots(n: i64) -> Check {
    ensure!((1..=MAX_SLOTS).contains(&n), "a ring of {n}");
    Ok(())
}

impl Checker<'_> {
    pub(super) fn roles(&self, op: &Op, parent: Option<&Op>, roles: &[Role]) -> Check {
        self.counts(op, 0, 0)?;
        ensure!(parent.is_none(), "inside of another operation");
        ensure!(!roles.is_empty(), "no roles");
        ensure!(op.regions.iter().all(|r| r.args.is_empty()), "a role with arguments");
        for r in roles {
            ensure!(r.warps > 0 && r.warps % WARPGROUP == 0, "`{}` has {} warps", r.name, r.warps);
            let possible = REGISTERS.contains(&r.registers) && r.registers % 8 == 0;
            ensure!(possible, "`{}` asks for {} registers", r.name, r.registers);
        }
        let (sum, have) = (roles.iter().map(|r| r.warps).sum(), self.func.warps);
        ensure!(have == Some(sum), "roles of {sum} warps, the function has {}", have.unwrap_or(0));
        let mut count = 0;
        self.func.walk(&mut |o| count += matches!(o.kind, Kind::Roles { .. }) as usize);
        ensure!(count == 1, "the threads part twice");
        Ok(())
    }

    /// Only the first role has more than one thread.
    pub(super) fn alone(&self, op: &Op) -> Check {
        if self.role.is_none_or(|r| r == 0) {
            return Ok(());
        }
        let meets = matches!(op.kind, Kind::CtaBarrier | Kind::GroupBarrier);
        ensure!(!meets, "one thread runs this role");
        let args = op.regions.iter().flat_map(|r| &r.args);
        for v in op.operands.iter().chain(&op.results).chain(args) {
            let tile = matches!(self.func.ty(*v), Type::Tile(_) | Type::InFlight(_));
            ensure!(!tile, "the tile %{} in a role that one thread runs", v.0);
        }
        Ok(())
    }

    pub(super) fn slot(&self, op: &Op) -> Check {
        self.counts(op, 2, 1)?;
        let ring = self.func.ty(op.operands[0]).clone();
        let slot = match &ring {
            Type::Ring(b, _) => Type::Buffer(b.clone()),
            Type::BarrierRing(_) => Type::Barrier,
            t => return Err(format!("%{} is {t}, not a ring", op.operands[0].0)),
        };
        self.signature_is(op, &[ring, Type::I32], &[slot])
    }

    pub(super) fn turn(&self, op: &Op, turns: i64) -> Check {
        self.signature_is(op, &[], &[])?;
        ensure!(self.role == Some(0), "outside of the first role");
        let groups = self.func.tile_warps().unwrap_or(0) / WARPGROUP;
        ensure!(turns == groups && turns > 1, "{turns} turns for {groups} warpgroups");
        Ok(())
    }

    /// Within a block a turn is taken, then passed. Ifs and loops begin and end without it.
    pub(super) fn turns_alternate(&mut self, block: &Block) {
        let mut mine = None;
        for op in &block.ops {
            match op.kind {
                Kind::TurnWait { .. } if mine.is_some() => {
                    self.report("a turn is taken while it is held", &op.loc);
                }
                Kind::TurnWait { .. } => mine = Some(&op.loc),
                Kind::TurnPass { .. } if mine.take().is_none() => {
                    self.report("a turn is passed that is not held", &op.loc);
                }
                _ => {}
            }
        }
        if let Some(loc) = mine {
            self.report("a turn is not passed", loc);
        }
    }

    /// A wait leaves as many groups in flight as have been issued since its own, where both stand in one
    /// block and nothing between them has groups in its regions.
    pub(super) fn pending(&mut self, block: &Block) {
        for (j, wait) in block.ops.iter().enumerate() {
            let Kind::WgmmaWait { pending } = wait.kind else { continue };
            let issued =
                |o: &Op| matches!(o.kind, Kind::Wgmma { .. }) && wait.operands.first() == o.results.first();
            let Some(i) = block.ops[..j].iter().position(issued) else { continue };
            let between = &block.ops[i + 1..j];
            let mut nested = false;
            for r in between.iter().flat_map(|o| &o.regions) {
                walk_block(r, &mut |o| {
                    nested |= matches!(o.kind, Kind::Wgmma { .. } | Kind::WgmmaWait { .. })
                });
            }
            if nested {
                continue;
            }
            let over = |group: &Op| {
                between.iter().any(|o| {
                    matches!(o.kind, Kind::WgmmaWait { .. }) && o.operands.first() == group.results.first()
                })
            };
            let later =
                between.iter().filter(|o| matches!(o.kind, Kind::Wgmma { .. }) && !over(o)).count() as i64;
            if pending != later {
                let why = format!(
                    "a wait that leaves {pending} groups in flight; {later} follow the one it is for"
                );
                self.report(why, &wait.loc);
            }
        }
    }
}
