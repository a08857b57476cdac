//! Roles: groups of warps with tasks of their own, and how they hand over.

use super::emit::{I32, V};
use super::{Failure, Lower};
use flashc_ir::Op;
use flashc_ir::layout::{LANES, WARPGROUP};
use flashc_ir::ops::{Kind, Role};

/// Named barrier of the threads of one role; 0 is the CTA's.
const ROLE_BARRIER: i64 = 1;
/// The first of the named barriers that turns are taken at.
pub(super) const TURN_BARRIER: i64 = 2;
/// Threads of a warpgroup.
pub(super) const GROUP: i64 = WARPGROUP * LANES as i64;

impl Lower<'_> {
    /// The first role's warps come first, so that its threads count from 0. Every other role is run by one
    /// thread.
    pub(super) fn roles(&mut self, op: &Op, roles: &[Role]) -> Result<(), Failure> {
        let mut start = 0;
        for (i, role) in roles.iter().enumerate() {
            let (from, to) = (self.e.i32(start), self.e.i32(start + role.warps));
            let warp = self.threads.warp;
            let above = self.e.icmp(5, warp, from);
            let below = self.e.icmp(2, warp, to);
            let mine = self.e.bin("andi", above, below);
            let tid = self.threads.tid;
            let first = self.e.i32(start * LANES as i64);
            let mut failed = Ok(());
            let mut e = std::mem::replace(&mut self.e, super::emit::Emit::new(false));
            e.when(Some(mine), |e| {
                std::mem::swap(&mut self.e, e);
                self.set_registers(role, roles);
                self.role = Some(role.warps);
                self.alone = i > 0;
                failed = if i == 0 { self.first_role(op) } else { self.lone_role(op, i, tid, first) };
                self.role = None;
                self.alone = false;
                std::mem::swap(&mut self.e, e);
            });
            self.e = e;
            failed?;
            start += role.warps;
        }
        Ok(())
    }

    fn first_role(&mut self, op: &Op) -> Result<(), Failure> {
        let mut turns = None;
        flashc_ir::func::walk_block(&op.regions[0], &mut |o| {
            if let Kind::TurnWait { turns: n } = o.kind {
                turns = Some(n);
            }
        });
        if let Some(n) = turns {
            let (warp, last) = (self.threads.warp, self.e.i32((n - 1) * WARPGROUP));
            let is_last = self.e.icmp(5, warp, last);
            let id = self.e.i32(TURN_BARRIER);
            self.e.when(Some(is_last), |e| e.barrier_arrive(id, 2 * GROUP));
        }
        self.block(&op.regions[0])
    }

    fn lone_role(&mut self, op: &Op, i: usize, tid: V, first: V) -> Result<(), Failure> {
        let elected = self.e.icmp(0, tid, first);
        let mut failed = Ok(());
        let mut e = std::mem::replace(&mut self.e, super::emit::Emit::new(false));
        e.when(Some(elected), |e| {
            std::mem::swap(&mut self.e, e);
            failed = self.block(&op.regions[i]);
            std::mem::swap(&mut self.e, e);
        });
        self.e = e;
        failed
    }

    /// Registers move from roles that need few to those that need many; entry is an equal share.
    fn registers_at_entry(roles: &[Role]) -> i64 {
        let threads: i64 = roles.iter().map(|r| r.warps * LANES as i64).sum();
        65_536 / threads / 8 * 8
    }

    fn set_registers(&mut self, role: &Role, roles: &[Role]) {
        let entry = Self::registers_at_entry(roles);
        if role.registers != entry {
            let action = if role.registers > entry { "increase" } else { "decrease" };
            let attrs = format!("regCount = {} : i32, action = #nvvm<action {action}>", role.registers);
            self.e.op0("nvvm.setmaxregister", &attrs, &[]);
        }
    }

    /// All threads of the role, or of the CTA outside of roles.
    pub(super) fn cta_barrier(&mut self) {
        match self.role {
            None => self.e.op0("nvvm.barrier0", "", &[]),
            Some(warps) => {
                let (id, threads) = (self.e.i32(ROLE_BARRIER), self.e.i32(warps * LANES as i64));
                self.e.op0("nvvm.barrier", "operandSegmentSizes = array<i32: 1, 1, 0>", &[id, threads]);
            }
        }
    }

    pub(super) fn barrier_arrive(&mut self, op: &Op) -> Result<(), Failure> {
        let at = self.buffer(op.operands[0])?;
        let address = self.smem_address(at);
        let (tid, mask, zero) = (self.threads.tid, self.e.i32(GROUP - 1), self.e.i32(0));
        let first = self.e.in_prologue(|e| {
            let x = e.bin("andi", tid, mask);
            let ok = e.icmp(0, x, zero);
            e.op("arith.extui", "", &[ok], I32)
        });
        let text =
            "{\\0A.reg .pred p;\\0Asetp.ne.b32 p, $1, 0;\\0A@p mbarrier.arrive.shared::cta.b64 _, [$0];\\0A}";
        self.e.asm(text, "r,r,~{memory}", &[address, first], &[], true);
        Ok(())
    }

    /// Waits at this warpgroup's barrier (`ahead` = 0), or releases the next one's (`ahead` = 1).
    pub(super) fn turn(&mut self, turns: i64, ahead: i64) -> Result<(), Failure> {
        let table: Vec<i64> =
            (0..turns * WARPGROUP).map(|w| TURN_BARRIER + (w / WARPGROUP + ahead) % turns).collect();
        let id = self.threads.choose(&mut self.e, &table);
        let threads = self.e.i32(2 * GROUP);
        match ahead {
            0 => self.e.op0("nvvm.barrier", "operandSegmentSizes = array<i32: 1, 1, 0>", &[id, threads]),
            _ => self.e.barrier_arrive(id, 2 * GROUP),
        }
        Ok(())
    }
}
