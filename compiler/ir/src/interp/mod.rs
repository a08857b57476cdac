//! The CPU oracle: runs a [`Func`] at any point of the pipeline.
//!
//! One set of rules serves every level. A tile is a vector of `cells`: before `assign-layouts` one a
//! tile element, row-major; after it one a register of a thread, holes included. A `frame` says which
//! element a cell holds, so elementwise operations never see the difference, and the others check that
//! a thread has what it reads. At `sm90` level shared memory is a byte array that knows who touched each
//! byte and when (`shared`); tensor copies (`tma`, `store`) land late, and who may rely on what goes by
//! mbarriers (`sync`); roles run at the same time (`control`, `replay`); products are fetched through decoded
//! matrix descriptors (`descriptor`) and stay in flight until a wait (`wgmma`).
//!
//! # Numbers
//! - Integers wrap, as `ops` says. Reductions of integers compare with sign, of bools without.
//! - `f16`, `bf16` and the 8-bit floats: the exact result rounded once. `f32` and `f64` in themselves,
//!   transcendental functions in `f64` and then rounded. 8-bit floats saturate, as the hardware's do.
//! - Dot and wgmma: `f32` fused multiply-add in ascending k, starting with the accumulator.
//! - Sums start with the first element and go up; `f16` and `bf16` sums are `f32` inside, rounded once.
//!   With a layout each thread sums its registers, then lanes exchange (low bit first), then warps in
//!   ascending order, unless [`Options::ordered_sums`] asks for the order of the tile level.
//! - [`Mode::F64`] rounds nothing at all; it has no bytes, hence no shared memory.
//!
//! # What is not modelled
//! Programs run one after the other, the warps of a role in lockstep, one operation at a time: what the
//! hardware may interleave is found by the checks on each byte of shared memory, not by trying
//! interleavings. Roles are interleaved where they synchronise, as [`Options::schedule`] says.
//!
//! The registers of a group in flight are no concern here: values do not change, so an accumulator or a
//! register operand can only be overwritten by an allocation of registers, and a wait that names the
//! operand keeps it.

mod cells;
mod control;
mod descriptor;
mod elementwise;
mod frame;
mod global;
mod number;
mod program;
mod replay;
mod shared;
mod store;
mod sync;
mod tensor;
mod tiles;
mod tma;
mod wgmma;

pub use descriptor::{DecodedDescriptor, decode};
pub use tensor::{HostData, HostTensor, Launch};

use crate::func::{Func, Loc};
use std::fmt;

/// Are floats rounded to their types?
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Every operation rounds as its type demands.
    #[default]
    Exact,
    /// Every float is an `f64` and no operation, cast or store rounds to a narrower one.
    F64,
}

/// How to run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Rounding.
    pub mode: Mode,
    /// Run this program of the grid only.
    pub only_program: Option<[i64; 3]>,
    /// Take sums in ascending order of the elements although the threads hold them: then a function
    /// agrees bit for bit before and after it got layouts.
    pub ordered_sums: bool,
    /// The function has not been through `place-barriers` yet: accesses to shared memory count as ordered.
    pub before_barriers: bool,
    /// Which role runs when, and when copies land.
    pub schedule: Schedule,
    /// A deliberate mistake: tests show with it that the oracle would notice.
    pub fault: Option<Fault>,
}

/// Which role runs when several can. The choice is made anew after each operation that synchronises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Schedule {
    /// Each in turn; a copy lands only when no role can go on without it.
    #[default]
    RoundRobin,
    /// The first role waits as long as another can run; copies land at once.
    ProducerFirst,
    /// The first role runs as long as it can; a copy lands only when no role can go on without it.
    ConsumerFirst,
    /// By chance, and so do copies land.
    Random(u64),
}

/// A deliberate mistake of the simulated lowering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Two lane bits of every distribution change places.
    SwapLaneBits(usize, usize),
    /// Tensor maps are encoded with this swizzle.
    TmaSwizzle(i64),
    /// These bits of every matrix descriptor are inverted.
    Descriptor(u64),
    /// Copies to tensors take their rows so much further down in shared memory.
    StoreRow(i64),
    /// Tensor copies of more bytes than this announce so many less.
    ShortExpect(i64),
}

/// Why a run stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TrapKind {
    /// The function breaks a rule that the verifier checks.
    Malformed,
    /// The launch does not fit the function: an argument is missing or has another type or shape.
    Launch,
    /// Not modelled, for example shared memory in [`Mode::F64`].
    Unsupported,
    /// A loop whose step is not positive.
    Step,
    /// A read of a tensor element that nobody has written.
    Uninitialised,
    /// An undefined value was stored or decided a branch.
    Poison,
    /// A thread does not hold the element that it has to read.
    LayoutMismatch,
    /// Copies of one element differ.
    Replicas,
    /// An access outside the CTA's shared memory.
    OutOfShared,
    /// A read of shared memory that nobody has written.
    Unwritten,
    /// The tensor cannot be copied by the tensor memory accelerator.
    Tma,
    /// An access to a buffer or a tensor into which a copy is in flight, or an exit while one is.
    CopyInFlight,
    /// More arrivals than the barrier counts.
    Barrier,
    /// A wait for a phase that nothing can complete.
    Deadlock,
    /// The result of a wgmma used, or the function left, before a wait has covered it.
    GroupInFlight,
    /// A write to what a wgmma or a copy in flight still reads.
    Overwritten,
    /// Generic accesses and the async proxy meet without a fence and a barrier.
    MissingFence,
    /// Two threads meet at a byte, one of them writing, without a barrier.
    Race,
}

/// Where and why a run stopped.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{}:{}:{}: {kind:?} in program {program:?}: {message}", loc.file, loc.line, loc.column)]
pub struct Trap {
    /// The class.
    pub kind: TrapKind,
    /// In words.
    pub message: String,
    /// The operation.
    pub loc: Loc,
    /// The program of the grid.
    pub program: [i64; 3],
}

/// What a run did, summed over its programs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Programs of the grid.
    pub programs: u64,
    /// Operations.
    pub ops: u64,
    /// `m64nNkK` instructions.
    pub wgmma: u64,
    /// Groups of them.
    pub groups: u64,
    /// Most groups in flight at once.
    pub max_groups_in_flight: u64,
    /// Bulk-tensor copies, one a slab.
    pub tma_copies: u64,
    /// Bytes that they announced.
    pub tma_bytes: u64,
    /// Bulk-tensor copies to tensors, one a part.
    pub tma_stores: u64,
    /// Waits on mbarriers.
    pub barrier_waits: u64,
    /// Barriers of the whole CTA.
    pub cta_barriers: u64,
    /// Barriers of the threads of each warpgroup.
    pub group_barriers: u64,
    /// Proxy fences.
    pub fences: u64,
    /// Bytes of shared memory.
    pub shared_bytes: u64,
}

/// Runs every program of the grid, one after the other, and leaves the results in the launch's tensors.
pub fn run(func: &Func, launch: &mut Launch, options: &Options) -> Result<Report, Trap> {
    program::run(func, launch, options)
}

/// Does each thread hold what a broadcast between these types makes it read? In words if not.
pub(crate) fn broadcast_holds(
    from: &crate::types::TileType,
    to: &crate::types::TileType,
    dims: &[usize],
) -> Result<(), String> {
    let plan = || tiles::broadcast_plan(&frame::Frame::new(from, None)?, &frame::Frame::new(to, None)?, dims);
    plan().map(|_| ()).map_err(|s| s.message)
}

/// A trap that does not know its operation yet.
#[derive(Debug)]
struct Stop {
    kind: TrapKind,
    message: String,
}

type Res<T> = Result<T, Stop>;

fn stop<T>(kind: TrapKind, message: impl fmt::Display) -> Res<T> {
    Err(Stop { kind, message: message.to_string() })
}

fn malformed<T>(message: impl fmt::Display) -> Res<T> {
    stop(TrapKind::Malformed, message)
}
