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
//! Where programs further along the first axis have more to do, a CTA takes them in pairs, a long one and a short
//! one: x and n - 1 - x, of the same index along the other axes, whose inputs they share in the cache.
//!
//! Requires: nothing. Ensures: every program runs exactly once. Programs are independent, so any order is right.
//!
//! Why: a persistent CTA loads the next program's tiles while it finishes one, and sets up once.
//!
//! Declines when: no loop holds a matrix product, since such kernels are bound by memory and small CTAs serve
//! them; or the work depends on the program in another way: the hardware then hands out programs one by one. With
//! `schedule=single` it always does, the longest first.

use super::{Choices, Schedule};
use flashc_ir::ops::{BinaryOp, Kind, Predicate};
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
    /// A CTA runs several programs, in order.
    Persistent,
    /// A CTA runs several programs, in pairs that have as much to do.
    Paired,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Plan::Keep => "programs in order, one a CTA",
            Plan::Reverse => "the longest programs first, one a CTA",
            Plan::Persistent => "several programs a CTA",
            Plan::Paired => "several programs a CTA, in pairs of a long and a short one",
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
        Plan::Persistent => persist(func, Order::Linear),
        Plan::Paired => persist(func, Order::Pairs),
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
        (_, Growth::Up, Schedule::Single) => Plan::Reverse,
        (_, Growth::Up, Schedule::Auto) => Plan::Paired,
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

/// The body in a loop over the CTA's programs.
fn persist(func: &Func, order: Order) -> Func {
    let (mut b, mut map) = Builder::like(func);
    b.loc = func.loc.clone();
    let lengths = [0, 1, 2].map(|a| b.op1(Kind::NumPrograms(a), &[], Type::I32));
    let others = b.binary(BinaryOp::MulI, lengths[1], lengths[2]);
    let cta = b.op1(Kind::CtaIndex, &[], Type::I32);
    let up_to = (order == Order::Pairs).then_some(LONGEST_PAIRED);
    let ctas = b.op1(Kind::CtaCount { up_to }, &[], Type::I32);
    let (x, rest, bounds) = match order {
        Order::Linear => {
            let all = b.binary(BinaryOp::MulI, lengths[0], others);
            let t = b.begin(&[Type::I32])[0];
            let (rest, x) = divide(&mut b, t, lengths[0]);
            (x, rest, [cta, all, ctas])
        }
        Order::Pairs => {
            let pairs = Pairs::new(&mut b, lengths[0], others, cta, ctas);
            let (zero, one) = (b.i32(0), b.i32(1));
            let k = b.begin(&[Type::I32])[0];
            let (x, rest) = pairs.program(&mut b, k);
            (x, rest, [zero, pairs.count, one])
        }
    };
    let (z, y) = divide(&mut b, rest, lengths[1]);
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
    b.op_with(Kind::For { unordered: false }, &bounds, &[], vec![body]);
    b.finish()
}

/// The order in which the CTAs take programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// One after the other.
    Linear,
    /// In pairs with the same amount of work: programs x and n - 1 - x of the first axis, n its length. If n is
    /// odd the two have different indices along the other axes, 2d and 2d + 1; where there is no such second one
    /// the programs of the last index come singly at the end, the longest first.
    Pairs,
}

/// With more programs than this along the first axis, single programs balance better than pairs: the last round of
/// pairs leaves multiprocessors idle for longer than a persistent CTA saves. Measured on an H200, see
/// docs/performance.md.
const LONGEST_PAIRED: i64 = 64;

/// Scalars that say which programs a CTA runs.
struct Pairs {
    /// Is there a CTA for each program? Then it runs that one, the longest first.
    spread: ValueId,
    cta: ValueId,
    ctas: ValueId,
    /// Length of the first axis, and the product of the others.
    length: ValueId,
    others: ValueId,
    /// Is the length even?
    even: ValueId,
    /// Pairs of one index, or of two if the length is odd.
    group: ValueId,
    /// Programs of this CTA that come in pairs.
    paired: ValueId,
    /// The first single program of this CTA.
    single: ValueId,
    /// All programs of this CTA.
    count: ValueId,
}

impl Pairs {
    fn new(b: &mut Builder, length: ValueId, others: ValueId, cta: ValueId, ctas: ValueId) -> Pairs {
        use BinaryOp::*;
        let (zero, one, two) = (b.i32(0), b.i32(1), b.i32(2));
        let all = b.binary(MulI, length, others);
        let spread = b.compare(Predicate::Sge, ctas, all);
        let odd = b.binary(AndI, length, one);
        let even = b.compare(Predicate::Eq, odd, zero);
        // Divisions take long, and a CTA with one program has no need of these.
        b.begin(&[]);
        let single_program = b.end(&[one, zero, zero, one]);
        b.begin(&[]);
        let half = b.binary(DivUI, length, two);
        let group = b.op1(Kind::Select, &[even, half, length], Type::I32);
        let doubles = b.binary(DivUI, others, two);
        let groups = b.op1(Kind::Select, &[even, others, doubles], Type::I32);
        let pairs = b.binary(MulI, group, groups);
        // The number of multiples of `ctas` from `first` on below `end`.
        let share = |b: &mut Builder, first: ValueId, end: ValueId| {
            let left = b.binary(SubI, end, first);
            let left = b.binary(AddI, left, ctas);
            let left = b.binary(SubI, left, one);
            let left = b.binary(MaxSI, left, zero);
            b.binary(DivUI, left, ctas)
        };
        let mine = share(b, cta, pairs);
        let paired = b.binary(MulI, mine, two);
        let lonely = b.binary(AndI, others, odd);
        let singles = b.binary(MulI, lonely, length);
        // The CTA after the one that took the last pair takes the first single program.
        let after = b.binary(RemUI, pairs, ctas);
        let ahead = b.binary(AddI, cta, ctas);
        let ahead = b.binary(SubI, ahead, after);
        let single = b.binary(RemUI, ahead, ctas);
        let alone = share(b, single, singles);
        let count = b.binary(AddI, paired, alone);
        let several = b.end(&[group, paired, single, count]);
        let types = [Type::I32, Type::I32, Type::I32, Type::I32];
        let made = b.op_with(Kind::If, &[spread], &types, vec![single_program, several]);
        let [group, paired, single, count] = made[..] else { unreachable!("four results") };
        Pairs { spread, cta, ctas, length, others, even, group, paired, single, count }
    }

    /// Index along the first axis and along the others of the CTA's program `k`.
    fn program(&self, b: &mut Builder, k: ValueId) -> (ValueId, ValueId) {
        use BinaryOp::*;
        let (one, two) = (b.i32(1), b.i32(2));
        let last = b.binary(SubI, self.length, one);
        b.begin(&[]);
        let (rest, x) = divide(b, self.cta, self.length);
        let x = b.binary(SubI, last, x);
        let own = b.end(&[x, rest]);
        b.begin(&[]);
        let round = b.binary(DivUI, k, two);
        let second = b.binary(AndI, k, one);
        let stride = b.binary(MulI, round, self.ctas);
        let pair = b.binary(AddI, self.cta, stride);
        let (d, q) = divide(b, pair, self.group);
        let far = b.binary(SubI, last, q);
        let is_second = b.compare(Predicate::Eq, second, one);
        let x = b.op1(Kind::Select, &[is_second, q, far], Type::I32);
        let doubled = b.binary(MulI, d, two);
        let doubled = b.binary(AddI, doubled, second);
        let rest = b.op1(Kind::Select, &[self.even, d, doubled], Type::I32);
        let over = b.binary(SubI, k, self.paired);
        let stride = b.binary(MulI, over, self.ctas);
        let single = b.binary(AddI, self.single, stride);
        let single_x = b.binary(SubI, last, single);
        let single_rest = b.binary(SubI, self.others, one);
        let in_pair = b.compare(Predicate::Slt, k, self.paired);
        let x = b.op1(Kind::Select, &[in_pair, x, single_x], Type::I32);
        let rest = b.op1(Kind::Select, &[in_pair, rest, single_rest], Type::I32);
        let shared = b.end(&[x, rest]);
        let made = b.op_with(Kind::If, &[self.spread], &[Type::I32, Type::I32], vec![own, shared]);
        (made[0], made[1])
    }
}

/// Quotient and remainder with one division.
fn divide(b: &mut Builder, x: ValueId, by: ValueId) -> (ValueId, ValueId) {
    let quotient = b.binary(BinaryOp::DivUI, x, by);
    let whole = b.binary(BinaryOp::MulI, quotient, by);
    (quotient, b.binary(BinaryOp::SubI, x, whole))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flashc_ir::interp::{self, HostTensor, Launch, Options};
    use flashc_ir::types::Dim;
    use flashc_ir::{Elem, Loc, TensorType};

    /// A kernel in which each program stores its own indices as one number.
    fn marks(growing: bool) -> Func {
        let loc = Loc { file: "marks.tile".into(), line: 1, column: 1 };
        let dims = ["X", "Y", "Z"].map(|n| Dim::Sym(n.into())).to_vec();
        let marks = Type::Tensor(TensorType { name: "marks".into(), dims, elem: Elem::I32 });
        let mut args: Vec<(String, Type)> = ["X", "Y", "Z"].map(|n| (n.to_string(), Type::I32)).to_vec();
        args.push(("marks".into(), marks));
        let mut b = Builder::new("marks", &args, loc);
        let tensor = b.args()[3];
        let ids = [0, 1, 2].map(|a| b.op1(Kind::ProgramId(a), &[], Type::I32));
        let (zero, one) = (b.i32(0), b.i32(1));
        let x = b.op1(Kind::Splat, &[zero], Type::tile(&[16, 16], Elem::I32));
        let half = b.op1(Kind::Cast(flashc_ir::ops::CastOp::SIToFP), &[x], Type::tile(&[16, 16], Elem::F16));
        let acc = b.op1(Kind::Cast(flashc_ir::ops::CastOp::SIToFP), &[x], Type::tile(&[16, 16], Elem::F32));
        b.begin(&[Type::I32]);
        b.op1(Kind::Dot, &[half, half, acc], Type::tile(&[16, 16], Elem::F32));
        let body = b.end(&[]);
        let end = if growing { b.binary(BinaryOp::AddI, ids[0], one) } else { one };
        b.op_with(Kind::For { unordered: false }, &[zero, end, one], &[], vec![body]);
        // x + 1000 y + 1000000 z
        let (k, m) = (b.i32(1000), b.i32(1_000_000));
        let (ky, mz) = (b.binary(BinaryOp::MulI, ids[1], k), b.binary(BinaryOp::MulI, ids[2], m));
        let name = b.binary(BinaryOp::AddI, ids[0], ky);
        let name = b.binary(BinaryOp::AddI, name, mz);
        b.op(Kind::StoreScalar, &[tensor, ids[0], ids[1], ids[2], name], &[]);
        b.finish()
    }

    /// Every program runs, for lengths even and odd, fewer and more than the CTAs.
    #[test]
    fn every_program_runs() {
        for growing in [false, true] {
            let plain = marks(growing);
            let want = if growing { Plan::Paired } else { Plan::Persistent };
            assert_eq!(plan(&plain, &Choices::default()), want);
            let func = run(&plain, &Choices::default());
            assert_eq!(flashc_ir::verify::verify(&func), Ok(()));
            for grid in
                [[1, 1, 1], [2, 1, 1], [3, 1, 1], [4, 3, 1], [5, 3, 1], [5, 2, 2], [7, 3, 3], [70, 2, 1]]
            {
                let marks = HostTensor::uninitialised(Elem::I32, &grid);
                let mut launch = Launch::new(grid).tensor("marks", marks);
                for (name, n) in ["X", "Y", "Z"].iter().zip(grid) {
                    launch = launch.int(name, n);
                }
                let report = interp::run(&func, &mut launch, &Options::default()).unwrap();
                let all: i64 = grid.iter().product();
                let spread = growing && grid[0] > LONGEST_PAIRED;
                assert_eq!(report.programs as i64, if spread { all } else { (all + 2) / 3 }, "{grid:?}");
                let marks = launch.get("marks");
                assert!(marks.all_written(), "{grid:?}");
                for x in 0..grid[0] {
                    for y in 0..grid[1] {
                        for z in 0..grid[2] {
                            let want = (x + 1000 * y + 1_000_000 * z) as f64;
                            assert_eq!(marks.get(&[x, y, z]), want, "{grid:?}");
                        }
                    }
                }
            }
        }
    }
}
