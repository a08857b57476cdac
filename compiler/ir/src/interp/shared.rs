//! Shared memory of a CTA: bytes that know who touched them and when.
//!
//! Time is counted in operations. A barrier orders the accesses of different threads before and after
//! it; a fence and then a barrier order accesses by ordinary instructions ("generic proxy") before with
//! tensor copies and wgmma ("async proxy") after. Every access checks that what it meets is ordered.

use super::cells::{Cells, HOLE};
use super::frame::{Frame, row_major};
use super::program::{Machine, Value};
use super::store::Stores;
use super::sync::{Clock, Copy, Landed, Mbarrier};
use super::{Mode, Res, TrapKind, malformed, stop};
use crate::func::{Func, Op, ValueId};
use crate::layout::{LANES, SWIZZLE_ALIGN, WARPGROUP};
use crate::ops::Kind;
use crate::types::{BufferType, Type};
use std::collections::{BTreeMap, HashMap};

/// More threads than one.
const MANY: u32 = u32::MAX;
/// Threads of a warpgroup.
const GROUP: u32 = (WARPGROUP as usize * LANES) as u32;

/// A warpgroup of the role that holds tiles; none for several of them.
pub(super) type Group = Option<u8>;

/// The warpgroup of a thread.
fn group_of(thread: u32) -> Group {
    (thread != MANY).then_some((thread / GROUP) as u8)
}
/// Bytes of an mbarrier.
const BARRIER_BYTES: i64 = 8;
/// Shared memory beyond this is refused.
const MAX_BYTES: i64 = 1 << 24;

/// What is known of a byte. Times are 0 for never.
#[derive(Clone, Copy, Debug, Default)]
struct Byte {
    value: u8,
    written: bool,
    /// A copy into it is in flight.
    landing: bool,
    /// Groups in flight that read it.
    reading: u16,
    /// Last generic write.
    writer: u32,
    write_time: u32,
    /// Last generic reads.
    reader: u32,
    read_time: u32,
    /// When a group of wgmma that read it, or a copy from it to a tensor, was waited for, and by which
    /// warpgroup's threads.
    async_read_time: u32,
    async_reader: Group,
    /// Who copied it here.
    landed: Landed,
}

/// Shared memory and its barriers.
#[derive(Debug)]
pub(super) struct SharedState {
    bytes: Vec<Byte>,
    addresses: HashMap<ValueId, i64>,
    counts: BTreeMap<i64, i64>,
    pub(super) barriers: BTreeMap<i64, Mbarrier>,
    pub(super) copies: Vec<Copy>,
    /// Copies to tensors.
    pub(super) stores: Stores,
    now: u32,
    fenced: u32,
    /// What each role knows, and which one runs. Outside of roles there is one.
    pub(super) clocks: Vec<Clock>,
    pub(super) role: usize,
    /// Are accesses taken to be ordered?
    lenient: bool,
}

impl SharedState {
    /// Gives every buffer and barrier its address: the one it has, or the next free one.
    pub(super) fn new(func: &Func, lenient: bool) -> Res<SharedState> {
        let mut allocs = vec![];
        func.walk(&mut |op| match op.kind {
            Kind::Alloc { offset } => allocs.push((op, offset, 0)),
            Kind::BarrierAlloc { offset, count } => allocs.push((op, offset, count)),
            _ => {}
        });
        let mut placed: Vec<(ValueId, i64, i64, i64)> = vec![];
        let mut open = vec![];
        for (op, offset, count) in allocs {
            let Some(v) = op.results.first() else { return malformed("an allocation without a result") };
            let (bytes, align) = match func.values.get(v.0 as usize) {
                Some(Type::Buffer(b)) => {
                    (buffer_bytes(b)?, if b.layout.swizzle == 0 { 16 } else { SWIZZLE_ALIGN })
                }
                Some(Type::Ring(b, n)) => (slot_bytes(b)? * slots(*n)?, SWIZZLE_ALIGN),
                Some(Type::Barrier) => (BARRIER_BYTES, BARRIER_BYTES),
                Some(Type::BarrierRing(n)) => (BARRIER_BYTES * slots(*n)?, BARRIER_BYTES),
                _ => return malformed("an allocation of something else"),
            };
            match offset {
                Some(at) if at < 0 || at % align != 0 => {
                    return malformed(format!("%{} lies at {at}, which is not a multiple of {align}", v.0));
                }
                Some(at) => placed.push((*v, at, bytes, count)),
                None => open.push((*v, bytes, count)),
            }
        }
        let end =
            |p: &[(ValueId, i64, i64, i64)]| p.iter().map(|p| p.1.saturating_add(p.2)).max().unwrap_or(0);
        if func.shared_bytes.is_some_and(|s| end(&placed) > s) {
            return stop(TrapKind::OutOfShared, "a buffer ends after the CTA's shared memory");
        }
        for (v, bytes, count) in open {
            let at = (end(&placed) + SWIZZLE_ALIGN - 1) / SWIZZLE_ALIGN * SWIZZLE_ALIGN;
            placed.push((v, at, bytes, count));
        }
        let total = end(&placed).max(func.shared_bytes.unwrap_or(0));
        if !(0..=MAX_BYTES).contains(&total) {
            return malformed(format!("{total} bytes of shared memory"));
        }
        let is_barrier =
            |v: ValueId| matches!(func.values[v.0 as usize], Type::Barrier | Type::BarrierRing(_));
        let barriers: Vec<_> = placed.iter().filter(|p| is_barrier(p.0)).collect();
        for b in &barriers {
            if placed.iter().any(|p| p.0 != b.0 && p.1 < b.1 + b.2 && b.1 < p.1 + p.2) {
                return malformed(format!("%{} overlaps a barrier", b.0.0));
            }
            if b.3 < 1 {
                return malformed(format!("a barrier that counts {} arrivals", b.3));
            }
        }
        Ok(SharedState {
            counts: barriers
                .iter()
                .flat_map(|b| (0..b.2 / BARRIER_BYTES).map(|i| (b.1 + BARRIER_BYTES * i, b.3)))
                .collect(),
            addresses: placed.iter().map(|p| (p.0, p.1)).collect(),
            bytes: vec![Byte::default(); total as usize],
            barriers: BTreeMap::new(),
            copies: vec![],
            stores: Stores::default(),
            now: 0,
            fenced: 0,
            clocks: vec![Clock::default()],
            role: 0,
            lenient,
        })
    }

    /// As at the start of a program: nothing written, barriers initialised.
    pub(super) fn reset(&mut self) {
        self.bytes.fill(Byte::default());
        self.copies.clear();
        self.stores = Stores::default();
        let n = self.counts.len();
        let barrier = |(i, (at, count)): (usize, (&i64, &i64))| (*at, Mbarrier::new(i, *count, n));
        self.barriers = self.counts.iter().enumerate().map(barrier).collect();
        (self.now, self.fenced) = (0, 0);
        self.reset_clocks();
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn address_of(&self, op: &Op) -> Res<i64> {
        match op.results.first().and_then(|v| self.addresses.get(v)) {
            Some(at) => Ok(*at),
            None => malformed("an allocation without an address"),
        }
    }

    pub(super) fn copies_in_flight(&self) -> bool {
        !self.copies.is_empty()
    }

    /// Starts the next operation.
    pub(super) fn tick(&mut self) {
        self.now += 1;
    }

    pub(super) fn now(&self) -> u32 {
        self.now
    }

    pub(super) fn fence(&mut self) {
        self.tick();
        if self.role == 0 {
            self.fenced = self.now;
        }
    }

    pub(super) fn barrier(&mut self) {
        self.tick();
        let (now, fenced) = (self.now, self.fenced);
        let known = &mut self.clocks[self.role];
        known.met = now;
        known.read = now;
        known.visible = known.visible.max(fenced);
    }

    /// The threads of each warpgroup meet.
    pub(super) fn group_barrier(&mut self) {
        self.tick();
        let (now, fenced) = (self.now, self.fenced);
        let known = &mut self.clocks[self.role];
        known.within.met = now;
        known.within.read = now;
        known.within.visible = known.within.visible.max(fenced);
    }

    /// Is a generic access by one of these at this time not over for the running role, or for the warpgroup
    /// that asks?
    fn racing(&self, time: u32, by: Group, asks: Group) -> bool {
        let known = self.known();
        let met = if by.is_some() && by == asks { known.met.max(known.within.met) } else { known.met };
        !self.lenient && time != 0 && time >= met
    }

    /// Is one that is over not visible to the async proxy?
    fn unfenced(&self, time: u32, by: Group, asks: Group) -> bool {
        let known = self.known();
        let within = if by.is_some() && by == asks { known.within.visible } else { 0 };
        !self.lenient && time != 0 && time >= known.visible.max(within)
    }

    /// Is a read by the async proxy that ended at this time for one of these not over for the running role,
    /// or for the warpgroup that asks? Barriers that are still to be placed order only what one role does.
    fn read_racing(&self, time: u32, by: Group, asks: Group) -> bool {
        let known = self.known();
        let read = if by.is_some() && by == asks { known.read.max(known.within.read) } else { known.read };
        !(self.lenient && self.role == 0) && time != 0 && time >= read
    }

    fn byte(&self, at: i64) -> Res<Byte> {
        match usize::try_from(at).ok().and_then(|i| self.bytes.get(i)) {
            Some(b) if b.landing => {
                stop(TrapKind::CopyInFlight, format!("byte {at}: a copy into it is in flight"))
            }
            Some(b) if !self.known().knows(b.landed) => {
                let why =
                    format!("byte {at}: a copy into it has not been waited for, by its last phase, here");
                stop(TrapKind::CopyInFlight, why)
            }
            Some(b) => Ok(*b),
            None => stop(TrapKind::OutOfShared, format!("byte {at} of {}", self.bytes.len())),
        }
    }

    fn defined(&self, at: i64) -> Res<Byte> {
        let b = self.byte(at)?;
        if b.written {
            Ok(b)
        } else {
            stop(TrapKind::Unwritten, format!("byte {at} is read before it is written"))
        }
    }

    /// A thread reads a number of this many bytes.
    fn read(&mut self, at: i64, n: i64, thread: u32) -> Res<u64> {
        let mut bits = 0;
        for i in 0..n {
            let b = self.defined(at + i)?;
            if b.writer != thread && self.racing(b.write_time, group_of(b.writer), group_of(thread)) {
                let why =
                    format!("byte {}: thread {thread} reads what another wrote, no barrier between", at + i);
                return stop(TrapKind::Race, why);
            }
            bits |= (b.value as u64) << (8 * i);
            let others = b.reader != thread && self.racing(b.read_time, None, None);
            let reader = if others { MANY } else { thread };
            let slot = &mut self.bytes[(at + i) as usize];
            slot.reader = reader;
            slot.read_time = self.now;
        }
        Ok(bits)
    }

    fn check_write(&self, at: i64, thread: u32) -> Res<()> {
        let b = self.byte(at)?;
        if b.reading > 0 {
            return stop(
                TrapKind::Overwritten,
                format!("byte {at} is written while a wgmma or a copy in flight reads it"),
            );
        }
        let other = |who: u32| who != thread || who == MANY;
        let racing = |time, who| other(who) && self.racing(time, group_of(who), group_of(thread));
        if self.read_racing(b.async_read_time, b.async_reader, group_of(thread))
            || racing(b.read_time, b.reader)
            || racing(b.write_time, b.writer)
        {
            return stop(
                TrapKind::Race,
                format!("byte {at} is written with no barrier after another's access"),
            );
        }
        Ok(())
    }

    /// A thread writes a number of this many bytes.
    fn write(&mut self, at: i64, n: i64, bits: u64, thread: u32) -> Res<()> {
        for i in 0..n {
            self.check_write(at + i, thread)?;
            let now = self.now;
            let slot = &mut self.bytes[(at + i) as usize];
            *slot = Byte {
                value: (bits >> (8 * i)) as u8,
                written: true,
                writer: thread,
                write_time: now,
                ..*slot
            };
        }
        Ok(())
    }

    /// Threads exchange values through scratch: all write, meet, all read. The bytes mean nothing after.
    pub(super) fn exchange(&mut self, at: i64, n: i64) -> Res<()> {
        self.tick();
        for i in at..at + n {
            self.check_write(i, MANY)?;
            let now = self.now;
            let slot = &mut self.bytes[i as usize];
            *slot =
                Byte { written: false, writer: MANY, write_time: now, reader: MANY, read_time: now, ..*slot };
        }
        Ok(())
    }

    /// The async proxy reads a number for a thread of this warpgroup, or of every one;
    /// [`Self::begin_group`] marks the bytes.
    pub(super) fn async_read(&self, at: i64, n: i64, asks: Group) -> Res<u64> {
        let mut bits = 0;
        for i in 0..n {
            let b = self.defined(at + i)?;
            if self.unfenced(b.write_time, group_of(b.writer), asks) {
                let why = format!(
                    "byte {}: no fence and barrier between a store and a wgmma or copy that reads it",
                    at + i
                );
                return stop(TrapKind::MissingFence, why);
            }
            bits |= (b.value as u64) << (8 * i);
        }
        Ok(bits)
    }

    /// A group in flight reads these bytes.
    pub(super) fn begin_group(&mut self, reads: &[u32]) {
        reads.iter().for_each(|at| self.bytes[*at as usize].reading += 1);
    }

    /// A group that read these bytes has been waited for, by all threads or those of one warpgroup.
    pub(super) fn end_group(&mut self, reads: &[u32], by: Group) {
        for at in reads {
            let b = self.bytes[*at as usize];
            let others = b.async_reader != by && self.read_racing(b.async_read_time, None, None);
            let slot = &mut self.bytes[*at as usize];
            slot.reading -= 1;
            slot.async_read_time = self.now;
            slot.async_reader = if others { None } else { by };
        }
    }

    /// A copy to this byte is issued.
    pub(super) fn begin_copy(&mut self, at: i64) -> Res<()> {
        let b = self.byte(at)?;
        if b.reading > 0 {
            let why = format!("byte {at} is the target of a copy while a wgmma or copy in flight reads it");
            return stop(TrapKind::Overwritten, why);
        }
        if self.read_racing(b.async_read_time, None, None) {
            return stop(
                TrapKind::Race,
                format!("byte {at}: a copy with no barrier after a wgmma or copy that read it"),
            );
        }
        if self.unfenced(b.write_time, None, None) || self.unfenced(b.read_time, None, None) {
            let why =
                format!("byte {at}: no fence and barrier between an ordinary access and a copy over it");
            return stop(TrapKind::MissingFence, why);
        }
        self.bytes[at as usize].landing = true;
        Ok(())
    }

    /// A copied byte lands.
    pub(super) fn land_byte(&mut self, at: i64, value: u8, landed: Landed) {
        self.bytes[at as usize] = Byte { value, written: true, landed, ..Byte::default() };
    }
}

/// Bytes from one slot of a ring to the next.
fn slot_bytes(b: &BufferType) -> Res<i64> {
    Ok((buffer_bytes(b)? + SWIZZLE_ALIGN - 1) / SWIZZLE_ALIGN * SWIZZLE_ALIGN)
}

fn slots(n: i64) -> Res<i64> {
    if (1..=256).contains(&n) { Ok(n) } else { malformed(format!("a ring of {n}")) }
}

fn buffer_bytes(b: &BufferType) -> Res<i64> {
    let rank = b.shape.len();
    let sane = (1..=5).contains(&rank) && b.shape.iter().all(|n| (1..=1 << 20).contains(n));
    if !sane || ![0, 32, 64, 128].contains(&b.layout.swizzle) || b.shape.iter().product::<i64>() > MAX_BYTES {
        return malformed(format!("{} is not a buffer", Type::Buffer(b.clone())));
    }
    Ok(b.bytes())
}

impl Machine<'_> {
    /// An operand that is a buffer: address and type.
    pub(super) fn buffer(&self, op: &Op, i: usize) -> Res<(i64, BufferType)> {
        let ty = op.operands.get(i).and_then(|v| self.func.values.get(v.0 as usize));
        match (self.value(op, i)?, ty) {
            (Value::Buffer(at), Some(Type::Buffer(b))) => Ok((*at, b.clone())),
            _ => malformed(format!("operand {i} is not a buffer")),
        }
    }

    /// `Slot`.
    pub(super) fn slot(&self, op: &Op) -> Res<Value> {
        let ty = op.operands.first().and_then(|v| self.func.values.get(v.0 as usize));
        let i = self.int(op, 1)?;
        let (n, slot) = match (self.value(op, 0)?, ty) {
            (Value::Buffer(at), Some(Type::Ring(b, n))) => (*n, Value::Buffer(at + slot_bytes(b)? * i)),
            (Value::Barrier(at), Some(Type::BarrierRing(n))) => (*n, Value::Barrier(at + BARRIER_BYTES * i)),
            _ => return malformed("the first operand is not a ring"),
        };
        if !(0..n).contains(&i) {
            return stop(TrapKind::OutOfShared, format!("slot {i} of a ring of {n}"));
        }
        Ok(slot)
    }

    /// Uses the scratch buffer that an operation may have as its second operand.
    pub(super) fn use_scratch(&mut self, op: &Op) -> Res<()> {
        if op.operands.len() < 2 {
            return Ok(());
        }
        let (at, b) = self.buffer(op, 1)?;
        self.shared.exchange(at, buffer_bytes(&b)?)
    }

    /// Byte address of each element of a tile in a buffer that is at least as large.
    fn places(&self, at: i64, b: &BufferType, frame: &Frame) -> Res<Vec<i64>> {
        if self.options.mode == Mode::F64 {
            return stop(TrapKind::Unsupported, "shared memory holds no unrounded numbers");
        }
        let rank = b.shape.len();
        if frame.shape.len() != rank || frame.shape.iter().zip(&b.shape).any(|(t, b)| t > b) {
            return malformed(format!("a tile of {:?} in a buffer of {:?}", frame.shape, b.shape));
        }
        let (steps, rows) = (row_major(&frame.shape), row_major(&b.shape[..rank - 1]));
        let place = |e: i64| {
            let x = |d: usize| e / steps[d] % frame.shape[d];
            let row: i64 = (0..rank - 1).map(|d| x(d) * rows[d]).sum();
            at + b.layout.offset(&b.shape, b.elem, row, x(rank - 1))
        };
        Ok((0..frame.len() as i64).map(place).collect())
    }

    /// `LocalStore`: owners write, and copies must agree.
    pub(super) fn local_store(&mut self, op: &Op) -> Res<()> {
        let (cells, frame) = self.tile(op, 0)?;
        let (at, b) = self.buffer(op, 1)?;
        if cells.elem != b.elem {
            return malformed(format!("{} stored to a buffer of {}", cells.elem, b.elem));
        }
        let places = self.places(at, &b, &frame)?;
        frame.gather(&cells)?;
        self.shared.tick();
        for (cell, e) in frame.at.iter().enumerate() {
            let thread = cell / frame.regs;
            if *e == HOLE || !frame.owner[thread] {
                continue;
            }
            if cells.is_poison(cell) {
                return stop(
                    TrapKind::Poison,
                    format!("element {e} stored to a buffer has no defined value"),
                );
            }
            self.shared.write(places[*e as usize], b.elem.bytes(), cells.bits(cell), thread as u32)?;
        }
        Ok(())
    }

    /// `LocalLoad`.
    pub(super) fn local_load(&mut self, op: &Op) -> Res<Cells> {
        let (at, b) = self.buffer(op, 0)?;
        let frame = self.result_frame(op)?;
        let places = self.places(at, &b, &frame)?;
        self.shared.tick();
        let mut bits = vec![0; frame.at.len()];
        for (cell, e) in frame.at.iter().enumerate().filter(|(_, e)| **e != HOLE) {
            let thread = (cell / frame.regs) as u32;
            bits[cell] = self.shared.read(places[*e as usize], b.elem.bytes(), thread)?;
        }
        Ok(frame.with_holes(Cells::from_bits(b.elem, &bits, self.options.mode)))
    }
}
