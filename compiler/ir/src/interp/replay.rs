//! The warpgroups of the first role, each on its own: their synchronisation is replayed.
//!
//! [`super::control`] runs them in lockstep. Their control flow does not depend on who is ahead, so what
//! each of them waits for, arrives at and passes on is known after the run; here each warpgroup and each
//! other role goes through its list, in several orders, and copies land at once. A turn is a named barrier
//! of the one that passes and the one that waits: two passes without a wait between would let nobody in.
//!
//! In a sound protocol each arrival counts for, and each wait sees, one phase whatever the order: who is
//! ahead of the others by a whole phase would otherwise be taken for one of them. So the phases are compared.
//!
//! A turn that has been passed and that nobody takes any more is allowed at the end, as is a slot that has
//! been released and is not filled again.

use super::program::Machine;
use super::{Stop, Trap, TrapKind};
use crate::func::{Loc, Op};
use crate::layout::WARPGROUP;
use crate::ops::Role;
use std::collections::BTreeMap;

/// What synchronises.
#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    /// For this parity of the barrier at this address.
    Wait(i64, i64),
    /// Each warpgroup, at the barrier at this address.
    Arrive(i64),
    /// One thread of the role.
    ArriveOne(i64),
    /// All warpgroups of the role.
    Meet,
    /// Of so many.
    TurnWait(i64),
    /// Of so many.
    TurnPass(i64),
}

/// What a role did.
#[derive(Clone, Debug)]
pub(super) struct Event {
    pub(super) what: What,
    pub(super) loc: Loc,
}

struct Actor<'e> {
    name: String,
    /// Which warpgroup of its role, and how many there are.
    group: usize,
    groups: usize,
    events: &'e [Event],
    next: usize,
    /// Meetings begun and over.
    met: (usize, usize),
    /// For each event the phases of its barrier that were complete.
    phases: Vec<i64>,
}

/// By address: arrivals that complete a phase, those missing, completed phases.
pub(super) type Phases = BTreeMap<i64, (i64, i64, i64)>;

struct State {
    barriers: Phases,
    /// Whose turn it is, or would be if it were there.
    turns: Vec<bool>,
}

impl Machine<'_> {
    /// Replays the roles' events, from these states of the barriers.
    pub(super) fn replay(&mut self, op: &Op, roles: &[Role], phases: Phases) -> Result<(), Trap> {
        let events = std::mem::take(&mut self.events);
        let groups = (roles[0].warps / WARPGROUP).clamp(1, 16) as usize;
        let mut first: Vec<Vec<i64>> = vec![];
        for order in 0..4u64 {
            let mut actors: Vec<Actor> = vec![];
            for (i, (role, events)) in roles.iter().zip(&events).enumerate() {
                let groups = if i == 0 { groups } else { 1 };
                for group in 0..groups {
                    let name = match groups {
                        1 => role.name.clone(),
                        _ => format!("warpgroup {group} of {}", role.name),
                    };
                    actors.push(Actor { name, group, groups, events, next: 0, met: (0, 0), phases: vec![] });
                }
            }
            let turns = (0..groups).map(|g| g == 0).collect();
            let barriers = phases.clone();
            self.replay_once(op, &mut actors, State { barriers, turns }, order)?;
            for (a, want) in actors.iter().zip(&first) {
                let differs = a.phases.iter().zip(want).position(|(have, want)| have != want);
                if let Some(event) = differs.and_then(|i| a.events.get(i)) {
                    let message =
                        format!("{}: which phase of the barrier this is depends on who is ahead", a.name);
                    return Err(self.trap(Stop { kind: TrapKind::Race, message }, &event.loc));
                }
            }
            if first.is_empty() {
                first = actors.into_iter().map(|a| a.phases).collect();
            }
        }
        Ok(())
    }

    fn replay_once(&self, op: &Op, actors: &mut [Actor], mut s: State, order: u64) -> Result<(), Trap> {
        let mut random = 0x9e37_79b9_7f4a_7c15 ^ order ^ (self.random << 8);
        loop {
            let mut goes: Vec<usize> = (0..actors.len()).filter(|i| can(actors, *i, &s)).collect();
            match order {
                0 => {}
                1 => goes.reverse(),
                _ if goes.is_empty() => {}
                _ => {
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    let n = goes.len();
                    goes.swap(0, (random >> 24) as usize % n);
                }
            }
            let Some(&i) = goes.first() else { break };
            if let Err((kind, message)) = act(actors, i, &mut s) {
                let loc = actors[i].events.get(actors[i].next).map_or(&op.loc, |e| &e.loc);
                let message = format!("{}: {message}", actors[i].name);
                return Err(self.trap(Stop { kind, message }, loc));
            }
        }
        let stuck: Vec<(&Actor, &Event)> =
            actors.iter().filter_map(|a| Some((a, a.events.get(a.next)?))).collect();
        let Some((_, first)) = stuck.first() else { return Ok(()) };
        let all: Vec<String> = stuck
            .iter()
            .map(|(a, e)| {
                let what = match e.what {
                    What::Wait(at, parity) => format!("parity {parity} of the barrier at byte {at}"),
                    What::TurnWait(_) => "its turn".into(),
                    _ => "the others of its role".into(),
                };
                format!("{} waits at {}:{}:{} for {what}", a.name, e.loc.file, e.loc.line, e.loc.column)
            })
            .collect();
        Err(self.trap(Stop { kind: TrapKind::Deadlock, message: all.join("; ") }, &first.loc))
    }
}

/// Can this actor's next event happen?
fn can(actors: &[Actor], i: usize, s: &State) -> bool {
    let a = &actors[i];
    match a.events.get(a.next).map(|e| e.what) {
        None => false,
        Some(What::Wait(at, parity)) => s.barriers.get(&at).is_none_or(|b| b.2 & 1 != parity),
        Some(What::TurnWait(_)) => s.turns.get(a.group).is_none_or(|t| *t),
        // It may begin to meet; and go on when all have begun.
        Some(What::Meet) if a.met.0 > a.met.1 => {
            actors.iter().filter(|b| std::ptr::eq(b.events, a.events)).all(|b| b.met.0 >= a.met.0)
        }
        Some(_) => true,
    }
}

fn act(actors: &mut [Actor], i: usize, s: &mut State) -> Result<(), (TrapKind, String)> {
    let a = &mut actors[i];
    let Some(event) = a.events.get(a.next) else { return Ok(()) };
    let completed = |at: i64| s.barriers.get(&at).map_or(0, |b| b.2);
    let phase = match event.what {
        What::Wait(at, _) | What::Arrive(at) => completed(at),
        What::ArriveOne(at) if a.group == 0 => completed(at),
        _ => 0,
    };
    match event.what {
        What::Wait(..) => {}
        What::Arrive(at) => arrive(s, at)?,
        What::ArriveOne(at) if a.group == 0 => arrive(s, at)?,
        What::ArriveOne(_) => {}
        What::Meet if a.met.0 > a.met.1 => a.met.1 += 1,
        What::Meet => {
            a.met.0 += 1;
            return Ok(());
        }
        What::TurnWait(n) | What::TurnPass(n) if n != a.groups as i64 || n < 2 => {
            return Err((TrapKind::Malformed, format!("{n} turns for {} warpgroups", a.groups)));
        }
        What::TurnWait(_) => s.turns[a.group] = false,
        What::TurnPass(_) => {
            let next = &mut s.turns[(a.group + 1) % a.groups];
            if *next {
                let why = "passes a turn that it has passed before and that nobody has taken";
                return Err((TrapKind::Barrier, why.into()));
            }
            *next = true;
        }
    }
    a.next += 1;
    a.phases.push(phase);
    Ok(())
}

fn arrive(s: &mut State, at: i64) -> Result<(), (TrapKind, String)> {
    let Some((count, missing, completed)) = s.barriers.get_mut(&at) else { return Ok(()) };
    *missing -= 1;
    if *missing == 0 {
        *missing = *count;
        *completed += 1;
    }
    Ok(())
}
