//! The closed set of operations.
//!
//! A [`Kind`] carries an operation's attributes; operands, results and regions sit in
//! [`crate::func::Op`]. Each variant's comment lists `(operands) -> results`. One variant serves
//! scalars and tiles where the meaning is the same: the MLIR name then depends on the result type
//! (`arith.addf` on scalars, `tile.addf` on tiles), see [`Kind::mlir_name`].
//!
//! Totality: nothing here has undefined behaviour. Integer arithmetic wraps; `divsi`/`divui` by zero
//! give 0 and `remsi`/`remui` by zero give the dividend, so `x == (x / y) * y + x % y` always holds;
//! `i32::MIN / -1` wraps; a shift by the width or more gives 0 (or the sign); float to integer
//! saturates, NaN gives 0.

use crate::types::Elem;
use std::fmt;

macro_rules! named_enum {
    ($(#[$m:meta])* $name:ident { $($(#[$vm:meta])* $v:ident = $s:literal),+ $(,)? }) => {
        $(#[$m])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$vm])* #[doc = concat!("`", $s, "`")] $v),+ }
        impl $name {
            /// Every one, for tables and tests.
            pub const ALL: &'static [$name] = &[$($name::$v),+];
            /// The mnemonic in MLIR.
            pub fn name(self) -> &'static str { match self { $($name::$v => $s),+ } }
            /// From the mnemonic.
            pub fn from_name(s: &str) -> Option<$name> { match s { $($s => Some($name::$v),)+ _ => None } }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { f.write_str(self.name()) }
        }
    };
}

named_enum! {
    /// Two operands of one type, and a result of that type.
    BinaryOp {
        AddI = "addi", SubI = "subi", MulI = "muli",
        DivSI = "divsi", RemSI = "remsi", DivUI = "divui", RemUI = "remui",
        AndI = "andi", OrI = "ori", XorI = "xori",
        ShlI = "shli", ShrSI = "shrsi", ShrUI = "shrui",
        MinSI = "minsi", MaxSI = "maxsi", MinUI = "minui", MaxUI = "maxui",
        AddF = "addf", SubF = "subf", MulF = "mulf", DivF = "divf",
        /// IEEE 754 `minNum`: a NaN loses against a number.
        MinNumF = "minnumf",
        /// IEEE 754 `maxNum`: a NaN loses against a number.
        MaxNumF = "maxnumf",
    }
}

impl BinaryOp {
    /// Scalars of these print in `arith`; the others are total where `arith` is not, so they are ours.
    pub fn scalar_in_arith(self) -> bool {
        use BinaryOp::*;
        !matches!(self, DivSI | RemSI | DivUI | RemUI | ShlI | ShrSI | ShrUI)
    }
}

named_enum! {
    /// One operand, and a result of the same type. Always in our dialect, for scalars too.
    UnaryOp {
        NegF = "negf", AbsF = "absf", AbsI = "absi",
        Exp = "exp", Exp2 = "exp2", Log = "log", Log2 = "log2", Sqrt = "sqrt", Rsqrt = "rsqrt",
        Sin = "sin", Cos = "cos", Tanh = "tanh", Erf = "erf", Floor = "floor", Ceil = "ceil",
    }
}

named_enum! {
    /// A comparison. `s` and `u` compare integers with and without sign; `f` compares floats, and a
    /// NaN makes it false, except `fne`, which it makes true.
    Predicate {
        Eq = "eq", Ne = "ne",
        Slt = "slt", Sle = "sle", Sgt = "sgt", Sge = "sge",
        Ult = "ult", Ule = "ule", Ugt = "ugt", Uge = "uge",
        Feq = "feq", Fne = "fne", Flt = "flt", Fle = "fle", Fgt = "fgt", Fge = "fge",
    }
}

named_enum! {
    /// A conversion between element types; the result type says to what.
    CastOp {
        /// Wider float; exact.
        ExtF = "extf",
        /// Narrower float; round to nearest, ties to even.
        TruncF = "truncf",
        /// Wider integer, sign kept.
        ExtSI = "extsi",
        /// Wider integer, filled with zeros (and bool to integer).
        ExtUI = "extui",
        /// Narrower integer: the low bits.
        TruncI = "trunci",
        /// Signed integer to float, nearest even.
        SIToFP = "sitofp",
        /// Unsigned integer to float, nearest even.
        UIToFP = "uitofp",
        /// Float to signed integer, toward zero, saturating, NaN to 0.
        FPToSI = "fptosi",
        /// Float to unsigned integer, toward zero, saturating, NaN to 0.
        FPToUI = "fptoui",
        /// Same bits, other type of the same width.
        Bitcast = "bitcast",
    }
}

named_enum! {
    /// What a reduction combines with. Float sums may be taken in any order.
    ReduceOp {
        Sum = "sum", Max = "max", Min = "min",
    }
}

/// A constant scalar.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Literal {
    /// Any integer type or bool (0 or 1); sign-extended.
    Int(i64),
    /// Any float type; must be exact in it or is rounded to nearest even.
    Float(f64),
}

/// A group of warps with a task of its own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Role {
    /// Shown in dumps.
    pub name: String,
    /// How many; whole warpgroups.
    pub warps: i64,
    /// Registers of each of its threads.
    pub registers: i64,
}

/// What an operation is. Comments: `(operands) -> results`.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    // Values: scalars and tiles
    /// `() -> scalar`
    Constant(Literal),
    /// `(a, b) -> same type`
    Binary(BinaryOp),
    /// `(a) -> same type`
    Unary(UnaryOp),
    /// `(a, b, c) -> a * b + c`, rounded once; floats
    Fma,
    /// `(a, b) -> bool scalar or tile`
    Compare(Predicate),
    /// `(cond, a, b) -> type of a`; `cond` is a bool scalar or a tile of the same shape
    Select,
    /// `(a) -> other element type`
    Cast(CastOp),
    /// `() -> i32`: index of the running program along a grid axis
    ProgramId(usize),
    /// `() -> i32`: length of a grid axis
    NumPrograms(usize),

    /// `() -> i32`: in a persistent kernel, which of its CTAs runs
    CtaIndex,
    /// `() -> i32`: in a persistent kernel, how many CTAs there are; each runs several programs, and a function
    /// that has this operation has no `ProgramId`
    CtaCount {
        /// With more programs along the first axis there are as many CTAs as programs.
        up_to: Option<i64>,
    },

    // Control flow; bodies end with Yield, the function with Return
    /// `(lo, hi, step, inits...) -> carried...`; i32 bounds, step > 0; region args `(iv, carried...)`
    For {
        /// The floating-point accumulation that the loop carries may be reordered.
        unordered: bool,
    },
    /// `(cond) -> results...`; two regions without arguments
    If,
    /// `(values...)`
    Yield,
    /// `()`
    Return,

    // Tiles
    /// `(scalar) -> tile`
    Splat,
    /// `() -> tile<Nxi32>`: 0, 1, 2, …
    Iota,
    /// `(tile) -> tile`: axis i of the operand becomes axis `dims[i]` of the result; the others repeat
    Broadcast {
        /// One entry an axis of the operand, ascending.
        dims: Vec<usize>,
    },
    // Reshape, Trans, Reduce and Convert may need threads to exchange values: they then take a buffer as
    // a second operand (pass `exchange`), which the lowering uses as scratch. It has no meaning otherwise.
    /// `(tile, scratch or none) -> tile` with the same elements in row-major order
    Reshape,
    /// `(tile, scratch or none) -> tile`: rank 2, axes exchanged
    Trans,
    /// `(tile, scratch or none) -> tile without the axis, or scalar if none is left`
    Reduce {
        /// How two elements combine.
        op: ReduceOp,
        /// The axis that goes away.
        axis: usize,
    },
    /// `(MxN tile) -> Mx8 tile`: column j combines the columns j, j + 8, j + 16, …; N is a multiple of 8. In the
    /// layout of an accumulator each thread does it alone.
    Fold {
        /// How two elements combine.
        op: ReduceOp,
    },
    /// `(tile) -> tile with half the rows`: of each 16 rows the first (`part` 0) or last eight, packed. These are
    /// the rows that every thread holds two of in the layout of an accumulator: no thread needs another's values.
    Rows {
        /// 0 or 1.
        part: usize,
    },
    /// `(part 0, part 1) -> tile`: the opposite of `Rows`
    JoinRows,
    /// `(a: MxK, b: KxN, acc: MxN f32) -> MxN f32`: acc + a · b
    Dot,
    /// `(tensor, start of each axis: i32...) -> tile`; out of range reads give 0
    Load {
        /// Axes of the tensor that are axes of the tile, in order; along the others one index is taken.
        axes: Vec<usize>,
    },
    /// `(tensor, index of each axis: i32...) -> scalar`; out of range gives 0
    LoadScalar,
    /// `(tensor, start of each axis: i32..., tile)`; out of range writes are dropped
    Store {
        /// As in `Load`.
        axes: Vec<usize>,
    },
    /// `(tensor, index of each axis: i32..., scalar)`: one thread stores
    StoreScalar,
    /// `(tile, scratch or none) -> tile` in another register layout
    Convert,

    // sm90: memory, asynchrony and barriers made explicit
    /// `() -> buffer`
    Alloc {
        /// Byte offset in the CTA's shared memory, once `allocate-shared` has run.
        offset: Option<i64>,
    },
    /// `() -> barrier`: an mbarrier; initialised at kernel entry
    BarrierAlloc {
        /// Arrivals that complete a phase.
        count: i64,
        /// Byte offset in the CTA's shared memory, once `allocate-shared` has run.
        offset: Option<i64>,
    },
    /// `(tensor, start of each axis: i32..., buffer, barrier)`: one elected thread announces the bytes
    /// and issues one bulk-tensor copy a slab; the barrier's phase completes when all have landed
    TmaLoad {
        /// As in `Load`.
        axes: Vec<usize>,
    },
    /// `(tensor, start of each axis: i32..., buffer)`: bulk-tensor copies of the buffer to the tensor, issued
    /// and committed as one group; they read the buffer late and drop what is out of range. With `wgm · wgn`
    /// = 1 the first thread copies all; else the first thread of each warpgroup copies its part, as the
    /// accumulator's layout has them
    TmaStore {
        /// As in `Load`.
        axes: Vec<usize>,
        /// Parts of the buffer along its rows.
        wgm: i64,
        /// And along its columns.
        wgn: i64,
    },
    /// `(buffers...)`: each thread waits until at most `pending` groups of its copies to tensors are in flight;
    /// the buffers are those that the groups read
    TmaStoreWait {
        /// Groups that may still be in flight.
        pending: i64,
        /// Until their buffers have been read is enough; else until the tensors are written.
        read: bool,
    },
    /// `(barrier, parity: i32)`: wait for the phase of this parity to complete
    BarrierWait,
    /// `(tile, buffer)`: registers to shared memory, swizzled
    LocalStore,
    /// `(buffer) -> tile`: shared memory to registers
    LocalLoad,
    /// `(a: buffer or tile, b: buffer, acc: tile or none) -> inflight`: issue D = A · B (+ acc) and commit
    /// it as one group
    Wgmma {
        /// The buffer of A holds Aᵀ (K × M).
        trans_a: bool,
        /// The buffer of B holds Bᵀ (N × K).
        trans_b: bool,
        /// Is there an accumulator operand?
        acc: bool,
    },
    /// `(inflight, register-A tiles it reads...) -> tile`: wait until at most `pending` later groups are in flight
    WgmmaWait {
        /// Groups that may still be in flight.
        pending: i64,
    },
    /// `()`: the threads part: each group of warps runs one region, all at the same time. Regions end with
    /// `Yield` of nothing. Tiles belong to the warps of their role, which count from 0 there.
    Roles {
        /// One entry a region.
        roles: Vec<Role>,
    },
    /// `(ring, index: i32) -> buffer or barrier`: one of a ring
    Slot,
    /// `(barrier)`: one thread of each warpgroup of the role arrives
    BarrierArrive,
    /// `()`: wait for this warpgroup's turn
    TurnWait {
        /// Warpgroups that take turns.
        turns: i64,
    },
    /// `()`: the next warpgroup's turn. The last one passes once before anyone waits.
    TurnPass {
        /// Warpgroups that take turns.
        turns: i64,
    },
    /// `()`: generic-proxy accesses before it are visible to the async proxy after it
    FenceAsync,
    /// `()`: all threads of the CTA
    CtaBarrier,
    /// `()`: the threads of each warpgroup of the role
    GroupBarrier,
}

impl Kind {
    /// The operation's name in MLIR, given the type of its result (of its first operand for
    /// comparisons).
    pub fn mlir_name(&self, on_tile: bool) -> String {
        match self {
            Kind::Constant(_) => "arith.constant".into(),
            Kind::Binary(op) if on_tile || !op.scalar_in_arith() => format!("tile.{op}"),
            Kind::Binary(op) => format!("arith.{op}"),
            Kind::Unary(op) => format!("tile.{op}"),
            Kind::Fma => "tile.fma".into(),
            Kind::Compare(_) => "tile.cmp".into(),
            Kind::Select if on_tile => "tile.select".into(),
            Kind::Select => "arith.select".into(),
            Kind::Cast(op) => format!("tile.{op}"),
            Kind::ProgramId(_) => "tile.program_id".into(),
            Kind::NumPrograms(_) => "tile.num_programs".into(),
            Kind::CtaIndex => "tile.cta_index".into(),
            Kind::CtaCount { .. } => "tile.cta_count".into(),
            Kind::For { .. } => "scf.for".into(),
            Kind::If => "scf.if".into(),
            Kind::Yield => "scf.yield".into(),
            Kind::Return => "func.return".into(),
            Kind::Splat => "tile.splat".into(),
            Kind::Iota => "tile.iota".into(),
            Kind::Broadcast { .. } => "tile.broadcast".into(),
            Kind::Reshape => "tile.reshape".into(),
            Kind::Trans => "tile.trans".into(),
            Kind::Reduce { .. } => "tile.reduce".into(),
            Kind::Fold { .. } => "tile.fold".into(),
            Kind::Rows { .. } => "tile.rows".into(),
            Kind::JoinRows => "tile.join_rows".into(),
            Kind::Dot => "tile.dot".into(),
            Kind::Load { .. } => "tile.load".into(),
            Kind::LoadScalar => "tile.load_scalar".into(),
            Kind::Store { .. } => "tile.store".into(),
            Kind::StoreScalar => "tile.store_scalar".into(),
            Kind::Convert => "tile.convert".into(),
            Kind::Alloc { .. } => "sm90.alloc".into(),
            Kind::BarrierAlloc { .. } => "sm90.barrier_alloc".into(),
            Kind::TmaLoad { .. } => "sm90.tma_load".into(),
            Kind::TmaStore { .. } => "sm90.tma_store".into(),
            Kind::TmaStoreWait { .. } => "sm90.tma_store_wait".into(),
            Kind::BarrierWait => "sm90.barrier_wait".into(),
            Kind::LocalStore => "sm90.local_store".into(),
            Kind::LocalLoad => "sm90.local_load".into(),
            Kind::Wgmma { .. } => "sm90.wgmma".into(),
            Kind::WgmmaWait { .. } => "sm90.wgmma_wait".into(),
            Kind::Roles { .. } => "sm90.roles".into(),
            Kind::Slot => "sm90.slot".into(),
            Kind::BarrierArrive => "sm90.barrier_arrive".into(),
            Kind::TurnWait { .. } => "sm90.turn_wait".into(),
            Kind::TurnPass { .. } => "sm90.turn_pass".into(),
            Kind::FenceAsync => "sm90.fence_async".into(),
            Kind::CtaBarrier => "sm90.cta_barrier".into(),
            Kind::GroupBarrier => "sm90.group_barrier".into(),
        }
    }

    /// Free of effects: may be removed if unused, and moved.
    pub fn is_pure(&self) -> bool {
        use Kind::*;
        !matches!(
            self,
            For { .. }
                | If
                | Yield
                | Return
                | Load { .. }
                | LoadScalar
                | Store { .. }
                | StoreScalar
                | Alloc { .. }
                | BarrierAlloc { .. }
                | TmaLoad { .. }
                | TmaStore { .. }
                | TmaStoreWait { .. }
                | BarrierWait
                | LocalStore
                | LocalLoad
                | Wgmma { .. }
                | WgmmaWait { .. }
                | Roles { .. }
                | BarrierArrive
                | TurnWait { .. }
                | TurnPass { .. }
                | FenceAsync
                | CtaBarrier
                | GroupBarrier
        )
    }
}

/// The conversion from one element type to another, as one or two steps; `None` if it is the identity.
/// `signed` is the signedness of the integer on either side.
pub fn cast_steps(from: Elem, to: Elem, signed: bool) -> Vec<(CastOp, Elem)> {
    let width = |e: Elem| if e == Elem::I1 { 0 } else { e.bytes() };
    match (from.is_float(), to.is_float()) {
        _ if from == to => vec![],
        (true, true) if from.bytes() == to.bytes() => vec![(CastOp::ExtF, Elem::F32), (CastOp::TruncF, to)],
        (true, true) if from.bytes() < to.bytes() => vec![(CastOp::ExtF, to)],
        (true, true) => vec![(CastOp::TruncF, to)],
        (true, false) => vec![(if signed { CastOp::FPToSI } else { CastOp::FPToUI }, to)],
        (false, true) if from == Elem::I1 || !signed => vec![(CastOp::UIToFP, to)],
        (false, true) => vec![(CastOp::SIToFP, to)],
        (false, false) if width(from) > width(to) => vec![(CastOp::TruncI, to)],
        (false, false) if from == Elem::I1 || !signed => vec![(CastOp::ExtUI, to)],
        (false, false) => vec![(CastOp::ExtSI, to)],
    }
}
