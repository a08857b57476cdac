//! # schedule-programs
//!
//! Decides in which order programs run, and whether a CTA runs several.
//!
//! Before
//! ```text
//! %x = tile.program_id 0
//! body
//! ```
//! After, where every program has as much to do
//! ```text
//! scf.for %t = tile.cta_index to (programs) step tile.cta_count { %x = %t % num_programs 0 ; body }
//! ```
//! After, where programs further along the first axis have more to do
//! ```text
//! %x = tile.num_programs 0 - 1 - tile.program_id 0
//! body
//! ```
//! Requires: nothing. Ensures: every program runs exactly once. Programs are independent, so any order is right.
//!
//! Why: a persistent CTA loads the next program's tiles while it finishes one; the hardware, which hands out
//! single programs in order, balances unequal ones best if the longest come first.
//!
//! Declines when: no loop holds a matrix product, since such kernels are bound by memory and small CTAs serve
//! them; several programs a CTA also where the work depends on the program.

use super::{Choices, Schedule};
use flashc_ir::ops::{BinaryOp, Kind};
use flashc_ir::{Builder, Func, Op, Step, Type, ValueId};
use std::collections::HashMap;
use std::fmt;

/// What the pass does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plan {
    /// Nothing.
    Keep,
    /// The last program along the first axis runs first.
    Reverse,
    /// A CTA runs several programs.
    Persistent,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Plan::Keep => "programs in order, one a CTA",
            Plan::Reverse => "the longest programs first, one a CTA",
            Plan::Persistent => "several programs a CTA",
        })
    }
}

/// How a value grows along the first axis of the grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Growth {
    Same,
    Up,
    Down,
    Unknown,
}

impl Growth {
    fn and(self, other: Growth) -> Growth {
        match (self, other) {
            (Growth::Same, g) | (g, Growth::Same) => g,
            (a, b) if a == b => a,
            _ => Growth::Unknown,
        }
    }

    fn reversed(self) -> Growth {
        match self {
            Growth::Up => Growth::Down,
            Growth::Down => Growth::Up,
            g => g,
        }
    }
}

/// Runs the pass.
pub fn run(func: &Func, choices: &Choices) -> Func {
    match plan(func, choices) {
        Plan::Keep => func.clone(),
        Plan::Reverse => reverse(func),
        Plan::Persistent => persist(func),
    }
}

/// Decides.
pub fn plan(func: &Func, choices: &Choices) -> Plan {
    let mut loops = false;
    let mut length = Growth::Same;
    let growth = Growths { defs: func.defs() };
    func.walk(&mut |op| {
        let Kind::For { .. } = op.kind else { return };
        let mut dots = false;
        op.regions[0].ops.iter().for_each(|o| dots |= o.kind == Kind::Dot);
        loops |= dots;
        if dots {
            let (low, high) = (growth.of(op.operands[0]), growth.of(op.operands[1]));
            length = length.and(high.and(low.reversed()));
        }
    });
    match (loops, length, choices.schedule) {
        (false, ..) => Plan::Keep,
        (_, Growth::Up, _) => Plan::Reverse,
        (_, Growth::Same, Schedule::Auto) => Plan::Persistent,
        _ => Plan::Keep,
    }
}

struct Growths<'a> {
    defs: HashMap<ValueId, &'a Op>,
}

impl Growths<'_> {
    /// Only the order of programs hangs on this, so it may overlook small steps, such as those of a remainder.
    fn of(&self, v: ValueId) -> Growth {
        let Some(op) = self.defs.get(&v) else { return Growth::Same };
        let operand = |i: usize| self.of(op.operands[i]);
        match &op.kind {
            Kind::ProgramId(0) => Growth::Up,
            Kind::Constant(_) | Kind::ProgramId(_) | Kind::NumPrograms(_) => Growth::Same,
            Kind::Binary(BinaryOp::SubI) => operand(0).and(operand(1).reversed()),
            Kind::Binary(BinaryOp::RemSI | BinaryOp::RemUI) => Growth::Same,
            Kind::Binary(BinaryOp::DivSI | BinaryOp::DivUI) if operand(1) != Growth::Same => Growth::Unknown,
            Kind::Binary(BinaryOp::DivSI | BinaryOp::DivUI) => operand(0),
            Kind::Binary(
                BinaryOp::AddI
                | BinaryOp::MulI
                | BinaryOp::MinSI
                | BinaryOp::MaxSI
                | BinaryOp::MinUI
                | BinaryOp::MaxUI,
            ) => operand(0).and(operand(1)),
            Kind::Cast(_) => operand(0),
            Kind::Select | Kind::Compare(_) => {
                let all = op.operands.iter().map(|o| self.of(*o)).fold(Growth::Same, Growth::and);
                if all == Growth::Same { Growth::Same } else { Growth::Unknown }
            }
            _ => Growth::Unknown,
        }
    }
}

fn reverse(func: &Func) -> Func {
    Builder::rebuild(func, &mut |b, _, op, map| {
        if op.kind != Kind::ProgramId(0) {
            return Step::Copy;
        }
        let (id, n, one) = (
            b.op1(Kind::ProgramId(0), &[], Type::I32),
            b.op1(Kind::NumPrograms(0), &[], Type::I32),
            b.i32(1),
        );
        let last = b.binary(BinaryOp::SubI, n, one);
        let reversed = b.binary(BinaryOp::SubI, last, id);
        map.insert(op.result(), reversed);
        Step::Done
    })
}

fn persist(func: &Func) -> Func {
    let (mut b, mut map) = Builder::like(func);
    let lengths: Vec<ValueId> = (0..3).map(|a| b.op1(Kind::NumPrograms(a), &[], Type::I32)).collect();
    let plane = b.binary(BinaryOp::MulI, lengths[0], lengths[1]);
    let all = b.binary(BinaryOp::MulI, plane, lengths[2]);
    let first = b.op1(Kind::CtaIndex, &[], Type::I32);
    let step = b.op1(Kind::CtaCount, &[], Type::I32);
    let t = b.begin(&[Type::I32])[0];
    let x = b.binary(BinaryOp::RemUI, t, lengths[0]);
    let rest = b.binary(BinaryOp::DivUI, t, lengths[0]);
    let y = b.binary(BinaryOp::RemUI, rest, lengths[1]);
    let z = b.binary(BinaryOp::DivUI, rest, lengths[1]);
    let ids = [x, y, z];
    for op in func.body.ops.iter().filter(|o| o.kind != Kind::Return) {
        b.copy_with(func, op, &mut map, &mut |_, _, op, map| match op.kind {
            Kind::ProgramId(axis) => {
                map.insert(op.result(), ids[axis]);
                Step::Done
            }
            Kind::NumPrograms(axis) => {
                map.insert(op.result(), lengths[axis]);
                Step::Done
            }
            _ => Step::Copy,
        });
    }
    let body = b.end(&[]);
    b.loc = func.loc.clone();
    b.op_with(Kind::For { unordered: false }, &[first, all, step], &[], vec![body]);
    b.finish()
}
