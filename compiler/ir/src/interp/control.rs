//! Control flow, and roles that take turns at running.
//!
//! A role is a stack of open blocks that runs one operation at a time. At operations that synchronise
//! ([`switches`]) the [`Schedule`] chooses who goes on. A role whose wait does not pass is out until the
//! phase completes; if all are, a copy that one of them waits for lands, and if there is none, no role ever
//! goes on.
//!
//! The first role's warpgroups run in lockstep: the control flow is the same in all. What this hides, their
//! being at different places, [`super::replay`] looks at afterwards.

use super::cells::Cells;
use super::program::{Machine, Value};
use super::replay::{Event, What};
use super::{Res, Schedule, Stop, Trap, TrapKind, malformed, stop};
use crate::func::{Block, Loc, Op};
use crate::ops::{Kind, Role};
use crate::types::Elem;
use std::rc::Rc;

/// A group of threads at work, or all of them.
struct Task<'a> {
    name: &'a str,
    open: Vec<Level<'a>>,
    /// The wait that does not pass yet: operation, barrier, parity.
    waits: Option<(&'a Op, i64, i64)>,
}

/// An open block.
struct Level<'a> {
    block: &'a Block,
    next: usize,
    /// Whose region it is; none for a role's or the function's body.
    of: Option<&'a Op>,
    /// For a loop: index, end, step.
    range: (i64, i64, i64),
}

impl<'a> Task<'a> {
    fn new(name: &'a str, block: &'a Block) -> Task<'a> {
        Task { name, open: vec![Level { block, next: 0, of: None, range: (0, 0, 0) }], waits: None }
    }
}

/// May another role run after this operation?
fn switches(kind: &Kind) -> bool {
    matches!(
        kind,
        Kind::TmaLoad { .. }
            | Kind::TmaStore { .. }
            | Kind::TmaStoreWait { .. }
            | Kind::BarrierWait
            | Kind::BarrierArrive
            | Kind::Wgmma { .. }
            | Kind::WgmmaWait { .. }
            | Kind::TurnWait { .. }
            | Kind::TurnPass { .. }
            | Kind::CtaBarrier
    )
}

impl<'a> Machine<'a> {
    /// Runs the function's body.
    pub(super) fn body(&mut self) -> Result<(), Trap> {
        let func = self.func;
        self.tasks(vec![Task::new("", &func.body)])
    }

    /// `Roles`: all run, at the same time.
    fn roles(&mut self, op: &'a Op, roles: &'a [Role]) -> Result<(), Trap> {
        let fits = !self.parted && roles.len() == op.regions.len() && !roles.is_empty() && roles.len() <= 16;
        if !fits {
            return Err(self.trap(Stop::new("roles inside roles, or not one region each"), &op.loc));
        }
        self.parted = true;
        self.events = vec![vec![]; roles.len()];
        self.shared.fork(roles.len());
        let phases = self.shared.phases();
        self.tasks(roles.iter().zip(&op.regions).map(|(r, b)| Task::new(&r.name, b)).collect())?;
        self.shared.join();
        self.parted = false;
        self.replay(op, roles, phases)
    }

    fn tasks(&mut self, mut tasks: Vec<Task<'a>>) -> Result<(), Trap> {
        let mut last = tasks.len() - 1;
        loop {
            self.land_now().map_err(|s| self.trap(s, &self.func.loc))?;
            let goes_on = |t: &Task| {
                !t.open.is_empty() && t.waits.is_none_or(|(_, at, parity)| self.shared.passes(at, parity))
            };
            let ready: Vec<usize> = (0..tasks.len()).filter(|i| goes_on(&tasks[*i])).collect();
            if let Some(t) = self.choose(&ready, last) {
                last = t;
                self.shared.role = t;
                self.slice(&mut tasks[t]).map_err(|mut trap| {
                    if !tasks[t].name.is_empty() {
                        trap.message = format!("{}: {}", tasks[t].name, trap.message);
                    }
                    trap
                })?;
            } else if tasks.iter().all(|t| t.open.is_empty()) {
                return Ok(());
            } else if !self.land_awaited(&tasks).map_err(|s| self.trap(s, &self.func.loc))? {
                return Err(self.deadlock(&tasks));
            }
        }
    }

    fn deadlock(&self, tasks: &[Task<'a>]) -> Trap {
        let mut loc = &self.func.loc;
        let mut all = vec![];
        for (i, t) in tasks.iter().enumerate().rev() {
            let Some((op, at, parity)) = t.waits else { continue };
            loc = &op.loc;
            let who = if t.name.is_empty() { format!("role {i}") } else { t.name.to_string() };
            let (line, lacks) = (format!("{}:{}:{}", loc.file, loc.line, loc.column), self.shared.lacks(at));
            all.insert(0, format!("{who} waits at {line} for parity {parity} of the barrier at byte {at}, which lacks {lacks}"));
        }
        self.trap(Stop { kind: TrapKind::Deadlock, message: all.join("; ") }, loc)
    }

    fn random(&mut self, below: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 24) as usize % below.max(1)
    }

    /// Who goes on.
    fn choose(&mut self, ready: &[usize], last: usize) -> Option<usize> {
        match self.options.schedule {
            Schedule::RoundRobin => ready.iter().find(|i| **i > last).or(ready.first()).copied(),
            Schedule::ProducerFirst => ready.last().copied(),
            Schedule::ConsumerFirst => ready.first().copied(),
            Schedule::Random(_) if ready.is_empty() => None,
            Schedule::Random(_) => Some(ready[self.random(ready.len())]),
        }
    }

    /// Copies that land although nobody has to have them yet.
    fn land_now(&mut self) -> Res<()> {
        while !self.shared.copies.is_empty() {
            let n = self.shared.copies.len();
            let schedule = self.options.schedule;
            let i = match schedule {
                Schedule::ProducerFirst => Some(0),
                Schedule::Random(_) => (self.random(4) == 0).then(|| self.random(n)),
                _ => None,
            };
            let Some(i) = i else { break };
            self.shared.land(i)?;
        }
        Ok(())
    }

    /// One copy that somebody waits for lands; false if there is none.
    fn land_awaited(&mut self, tasks: &[Task<'a>]) -> Res<bool> {
        let awaited = |barrier: i64| tasks.iter().any(|t| t.waits.is_some_and(|w| w.1 == barrier));
        let copies: Vec<usize> =
            (0..self.shared.copies.len()).filter(|i| awaited(self.shared.copies[*i].barrier)).collect();
        if copies.is_empty() {
            return Ok(false);
        }
        let random = matches!(self.options.schedule, Schedule::Random(_));
        let i = if random { self.random(copies.len()) } else { 0 };
        self.shared.land(copies[i])?;
        Ok(true)
    }

    /// Runs until others may run.
    fn slice(&mut self, task: &mut Task<'a>) -> Result<(), Trap> {
        while !self.step(task)? {}
        Ok(())
    }

    /// One operation; true if others may run now.
    fn step(&mut self, task: &mut Task<'a>) -> Result<bool, Trap> {
        let Some(level) = task.open.last_mut() else { return Ok(true) };
        let Some(op) = level.block.ops.get(level.next) else {
            return Err(self.trap(Stop::new("a block without an end"), &self.func.loc));
        };
        let loc: &'a Loc = &op.loc;
        if op.kind == Kind::BarrierWait {
            let (at, parity) = self.wait_operands(op).map_err(|s| self.trap(s, loc))?;
            if !self.shared.wait(at, parity).map_err(|s| self.trap(s, loc))? {
                task.waits = Some((op, at, parity));
                return Ok(true);
            }
            task.waits = None;
            self.report.barrier_waits += 1;
            self.record(op, What::Wait(at, parity));
        }
        self.report.ops += 1;
        match &op.kind {
            Kind::BarrierWait => level.next += 1,
            Kind::Yield | Kind::Return => {
                let all = (0..op.operands.len()).map(|i| self.value(op, i).cloned()).collect::<Res<Vec<_>>>();
                let all = all.map_err(|s| self.trap(s, loc))?;
                return self.leave(task, all).map(|()| task.open.is_empty());
            }
            Kind::For { .. } => {
                let (level, inits) = self.enter_loop(op).map_err(|s| self.trap(s, loc))?;
                task.open.push(level);
                self.iterate(task, inits)?;
            }
            Kind::If => {
                let cond = self.int(op, 0).map_err(|s| self.trap(s, loc))?;
                let Some(body) = op.regions.get((cond == 0) as usize) else {
                    return Err(self.trap(Stop::new("if without two regions"), loc));
                };
                task.open.push(Level { block: body, next: 0, of: Some(op), range: (0, 0, 0) });
            }
            Kind::Roles { roles } => {
                level.next += 1;
                self.roles(op, roles)?;
            }
            _ => {
                level.next += 1;
                self.leaf(op).map_err(|s| self.trap(s, loc))?;
            }
        }
        Ok(switches(&op.kind))
    }

    /// The body of a loop before its first iteration, and the initial values.
    fn enter_loop(&self, op: &'a Op) -> Res<(Level<'a>, Vec<Value>)> {
        let (lo, hi, step) = (self.int(op, 0)?, self.int(op, 1)?, self.int(op, 2)?);
        if step <= 0 {
            return stop(TrapKind::Step, format!("the loop's step is {step}"));
        }
        let inits = (3..op.operands.len()).map(|i| self.value(op, i).cloned()).collect::<Res<Vec<_>>>()?;
        let [body] = &op.regions[..] else { return malformed("a loop has one region") };
        if body.args.len() != inits.len() + 1 {
            return malformed("the loop's region has another number of arguments");
        }
        Ok((Level { block: body, next: 0, of: Some(op), range: (lo, hi, step) }, inits))
    }

    /// The innermost open block is a loop's: starts its next iteration, or ends it.
    fn iterate(&mut self, task: &mut Task<'a>, carried: Vec<Value>) -> Result<(), Trap> {
        let Some(mut level) = task.open.pop() else { return Ok(()) };
        let Some(op) = level.of else { return Ok(()) };
        let (iv, hi, _) = level.range;
        if iv < hi {
            let index = Value::Cells(Rc::new(Cells::ints(Elem::I32, vec![iv])));
            let args = &level.block.args;
            let defined =
                self.define(&args[..1], vec![index]).and_then(|()| self.define(&args[1..], carried));
            defined.map_err(|s| self.trap(s, &op.loc))?;
            level.next = 0;
            task.open.push(level);
            return Ok(());
        }
        self.resume(task, op, carried)
    }

    /// The operation that the innermost open block stands at is over.
    fn resume(&mut self, task: &mut Task<'a>, op: &'a Op, results: Vec<Value>) -> Result<(), Trap> {
        self.define(&op.results, results).map_err(|s| self.trap(s, &op.loc))?;
        task.open.iter_mut().next_back().into_iter().for_each(|l| l.next += 1);
        Ok(())
    }

    /// The innermost open block ends.
    fn leave(&mut self, task: &mut Task<'a>, values: Vec<Value>) -> Result<(), Trap> {
        let Some(level) = task.open.last_mut() else { return Ok(()) };
        match level.of {
            Some(op) if matches!(op.kind, Kind::For { .. }) => {
                level.range.0 += level.range.2;
                self.iterate(task, values)
            }
            of => {
                task.open.pop();
                of.map_or(Ok(()), |op| self.resume(task, op, values))
            }
        }
    }

    /// Notes what the running role did, for [`super::replay`].
    pub(super) fn record(&mut self, op: &Op, what: What) {
        if self.parted {
            self.events[self.shared.role].push(Event { what, loc: op.loc.clone() });
        }
    }
}
