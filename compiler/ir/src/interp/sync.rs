//! Mbarriers, tensor copies that land, and what each role knows of the others.
//!
//! An mbarrier counts the arrivals and the bytes that its phase still needs, as the hardware does: a phase
//! completes when both are zero, and the next one starts. A wait names a parity and passes while the phase
//! before the running one has it: who lags by two phases, or waits with a wrong parity, passes wrongly here
//! as well, and the checks on bytes then find what it does.
//!
//! Who knows what is a vector clock. An arrival hands over what the arriving role knows; a wait that passes
//! takes what the arrivals of all completed phases handed over, and learns that their copies have landed.
//! Only the first role holds tiles, so there is one kind of clock entry for each way in which it touches
//! memory, and one for each barrier, which counts the phases whose copies are known to have landed.

use super::replay::Phases;
use super::shared::SharedState;
use super::{Res, TrapKind, malformed, stop};

/// What a role knows to be over.
#[derive(Clone, Debug, Default)]
pub(super) struct Clock {
    /// Generic accesses before this time are over.
    pub(super) met: u32,
    /// Generic accesses before this time are over and visible to the async proxy.
    pub(super) visible: u32,
    /// Reads by groups of wgmma that ended before this time are over.
    pub(super) read: u32,
    /// The same of accesses by the threads of one's own warpgroup. Nobody else learns it.
    pub(super) within: Within,
    /// Completed phases of each barrier.
    phases: Vec<u32>,
}

/// What each warpgroup knows of its own threads.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Within {
    pub(super) met: u32,
    pub(super) visible: u32,
    pub(super) read: u32,
}

impl Clock {
    fn new(barriers: usize) -> Clock {
        Clock { phases: vec![0; barriers], ..Clock::default() }
    }

    fn learn(&mut self, from: &Clock) {
        self.met = self.met.max(from.met);
        self.visible = self.visible.max(from.visible);
        self.read = self.read.max(from.read);
        self.phases.iter_mut().zip(&from.phases).for_each(|(a, b)| *a = (*a).max(*b));
    }

    /// Has the copy that landed in this phase of this barrier been waited for?
    pub(super) fn knows(&self, landed: Landed) -> bool {
        let Some(barrier) = (landed.by as usize).checked_sub(1) else { return true };
        self.phases.get(barrier).is_some_and(|p| *p >= landed.phase)
    }
}

/// The barrier (from 1; 0 for none) and the phase of it that a byte's copy landed in.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Landed {
    by: u32,
    phase: u32,
}

/// A barrier in shared memory.
#[derive(Clone, Debug)]
pub(super) struct Mbarrier {
    index: usize,
    count: i64,
    /// Arrivals that the phase still needs.
    missing: i64,
    /// Bytes that the phase still needs.
    bytes: i64,
    /// Parity of the phase that is not complete yet.
    parity: i64,
    completed: u32,
    /// What arrivals of the running phase hand over, and those of the completed ones have.
    arriving: Clock,
    released: Clock,
    /// Do copies land in the running phase, and have some landed that nobody has waited for?
    expects: bool,
    unobserved: bool,
}

impl Mbarrier {
    pub(super) fn new(index: usize, count: i64, barriers: usize) -> Mbarrier {
        Mbarrier {
            index,
            count,
            missing: count,
            bytes: 0,
            parity: 0,
            completed: 0,
            arriving: Clock::new(barriers),
            released: Clock::new(barriers),
            expects: false,
            unobserved: false,
        }
    }

    /// Ends the phase if nothing is missing.
    fn advance(&mut self) {
        if self.missing > 0 || self.bytes != 0 {
            return;
        }
        self.missing = self.count;
        self.parity ^= 1;
        self.completed += 1;
        self.released.learn(&self.arriving);
        self.released.phases[self.index] = self.completed;
        self.unobserved |= std::mem::take(&mut self.expects);
    }
}

/// A copy of one slab, in flight.
#[derive(Clone, Debug)]
pub(super) struct Copy {
    pub(super) barrier: i64,
    pub(super) bytes: Vec<(i64, u8)>,
}

impl SharedState {
    /// One clock for the whole CTA.
    pub(super) fn reset_clocks(&mut self) {
        self.clocks = vec![Clock::new(self.barriers.len())];
        self.role = 0;
    }

    /// The threads part into roles, which know what all of them know.
    pub(super) fn fork(&mut self, roles: usize) {
        self.clocks.resize(roles.max(1), self.clocks[0].clone());
    }

    /// Only the first role goes on.
    pub(super) fn join(&mut self) {
        self.clocks.truncate(1);
        self.role = 0;
    }

    /// What the running role knows.
    pub(super) fn known(&self) -> &Clock {
        &self.clocks[self.role]
    }

    fn mbarrier(&mut self, at: i64) -> Res<&mut Mbarrier> {
        match self.barriers.get_mut(&at) {
            Some(m) => Ok(m),
            None => malformed("no barrier there"),
        }
    }

    /// Arrivals of the running role, which may announce bytes.
    pub(super) fn arrive(&mut self, at: i64, arrivals: i64, bytes: i64) -> Res<()> {
        self.tick();
        let mut clock = self.known().clone();
        if self.role == 0 {
            // Whoever arrives has seen its groups end, but speaks for no other thread's accesses.
            clock.read = self.now();
        }
        let m = self.mbarrier(at)?;
        for _ in 0..arrivals {
            if m.missing == 0 {
                return stop(TrapKind::Barrier, "an arrival at a phase that has all its arrivals");
            }
            m.missing -= 1;
            m.bytes += bytes;
            m.arriving.learn(&clock);
            m.advance();
        }
        Ok(())
    }

    /// Is the phase of this parity complete?
    pub(super) fn passes(&self, at: i64, parity: i64) -> bool {
        self.barriers.get(&at).is_none_or(|m| m.parity != parity)
    }

    /// Waits if the phase of this parity is complete, and says whether it is.
    pub(super) fn wait(&mut self, at: i64, parity: i64) -> Res<bool> {
        if parity & !1 != 0 {
            return malformed(format!("a parity of {parity}"));
        }
        self.tick();
        let m = self.mbarrier(at)?;
        if m.parity == parity {
            return Ok(false);
        }
        m.unobserved = false;
        let released = m.released.clone();
        self.clocks[self.role].learn(&released);
        Ok(true)
    }

    /// In words, what a wait for a phase lacks.
    pub(super) fn lacks(&self, at: i64) -> String {
        match self.barriers.get(&at) {
            Some(m) if m.missing == 0 => format!("{} bytes that do not come", m.bytes),
            Some(m) => format!("{} of {} arrivals that do not come", m.missing, m.count),
            None => "no barrier there".into(),
        }
    }

    /// The copy with this number in the queue lands.
    pub(super) fn land(&mut self, i: usize) -> Res<()> {
        let Copy { barrier, bytes } = self.copies.remove(i);
        let m = self.mbarrier(barrier)?;
        let landed = Landed { by: m.index as u32 + 1, phase: m.completed + 1 };
        m.expects = true;
        m.bytes -= bytes.len() as i64;
        m.advance();
        bytes.iter().for_each(|(at, value)| self.land_byte(*at, *value, landed));
        Ok(())
    }

    /// By address: arrivals that complete a phase, those missing, completed phases; as if all copies had
    /// landed.
    pub(super) fn phases(&self) -> Phases {
        let phase = |m: &Mbarrier| match m.missing {
            0 => (m.count, m.count, m.completed as i64 + 1),
            n => (m.count, n, m.completed as i64),
        };
        self.barriers.iter().map(|(at, m)| (*at, phase(m))).collect()
    }

    /// A copy that landed and that nobody waited for.
    pub(super) fn unobserved(&self) -> bool {
        self.barriers.values().any(|m| m.unobserved)
    }
}
