//! What must hold after every pass; see [`verify`].
//!
//! - `layouts`: shapes and layouts that a tile can have
//! - `values`: scalars and tiles
//! - `memory`: tensors, shared memory, asynchrony
//! - `roles`: groups of warps with tasks of their own, and what they share
//!
//! Absent on purpose: whether accesses to shared memory are ordered, waits are for the right phase, and
//! buffers that overlap are never live at once. That depends on the course of execution; the interpreter
//! checks it.

pub(crate) mod layouts;
mod memory;
mod roles;
pub(crate) mod values;

use crate::func::{Block, Func, Loc, Op, ValueId};
use crate::ops::Kind;
use crate::types::{Dim, Elem, TileType, Type};
use std::collections::{HashMap, HashSet};
use std::fmt;

/// A broken rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Violation {
    /// What is wrong.
    pub message: String,
    /// The operation.
    pub loc: Loc,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}", self.loc.file, self.loc.line, self.loc.column, self.message)
    }
}

/// Checks every rule.
///
/// - Arguments are scalars and tensors; a tensor's symbolic lengths name `i32` arguments.
/// - Every value is defined once, before its uses and in scope of them; every operation has the operands,
///   results and regions that its kind asks for, and a location.
/// - Layouts fit their tiles and the number of warps. Until `assign-layouts` has run, tiles may lack them,
///   and types are then compared without; afterwards (seen by conversions or by placed buffers) all have
///   one. What a thread reads of another tile, it holds: broadcasts and reductions cross no threads
///   except along the reduced axis.
/// - A wgmma in flight has one use, the wait that covers it, which also names its register operands; the
///   wait leaves as many groups in flight as have been issued since.
/// - Roles part the function's warps once, at its top; only the first holds tiles and takes turns. A turn
///   is taken and passed in one block.
/// - Buffers and barriers lie in shared memory, aligned; no buffer overlaps a barrier.
pub fn verify(func: &Func) -> Result<(), Vec<Violation>> {
    let lacking = func.values.iter().any(|t| t.as_tile().is_some_and(|t| t.layout.is_none()));
    let mut late = func.shared_bytes.is_some();
    func.walk(&mut |op| late |= op.kind == Kind::Convert);
    let n = func.values.len();
    let mut c = Checker {
        func,
        laid_out: !lacking,
        visible: vec![false; n],
        defined: vec![false; n],
        in_flight: HashMap::new(),
        broadcasts: HashSet::new(),
        role: None,
        violations: vec![],
    };
    if lacking && late {
        c.report("a tile without a layout after layouts were assigned", &func.loc);
    }
    c.signature();
    c.types();
    c.block(&func.body, None);
    c.placement();
    if c.violations.is_empty() { Ok(()) } else { Err(c.violations) }
}

type Check = Result<(), String>;

/// Fails with a message unless the condition holds.
macro_rules! ensure {
    ($cond:expr, $($message:tt)+) => {
        if !$cond {
            return Err(format!($($message)+));
        }
    };
}
use ensure;

struct Checker<'a> {
    func: &'a Func,
    /// Has every tile a layout?
    laid_out: bool,
    visible: Vec<bool>,
    defined: Vec<bool>,
    /// For each group in flight, its operation.
    in_flight: HashMap<ValueId, &'a Op>,
    /// Broadcasts known to be within threads.
    broadcasts: HashSet<(TileType, TileType, Vec<usize>)>,
    /// The role that is looked at.
    role: Option<usize>,
    violations: Vec<Violation>,
}

impl<'a> Checker<'a> {
    fn report(&mut self, message: impl fmt::Display, loc: &Loc) {
        self.violations.push(Violation { message: message.to_string(), loc: loc.clone() });
    }

    /// The operation's name in MLIR.
    fn name(&self, op: &Op) -> String {
        let ty = op.results.first().and_then(|v| self.func.values.get(v.0 as usize));
        op.kind.mlir_name(ty.is_some_and(|t| t.as_tile().is_some()))
    }

    fn signature(&mut self) {
        let func = self.func;
        if func.arg_names.len() != func.body.args.len() {
            self.report("arguments and their names differ in number", &func.loc);
        }
        let mut seen = HashSet::new();
        for (name, v) in func.arg_names.iter().zip(&func.body.args) {
            if !seen.insert(name) {
                self.report(format!("two arguments are called `{name}`"), &func.loc);
            }
            match func.values.get(v.0 as usize) {
                Some(Type::Scalar(_)) => {}
                Some(Type::Tensor(t)) => {
                    let bound = |s: &str| {
                        let i = func.arg_names.iter().position(|n| n == s)?;
                        func.values.get(func.body.args.get(i)?.0 as usize)
                    };
                    for d in &t.dims {
                        match d {
                            Dim::Sym(s) if bound(s) != Some(&Type::I32) => {
                                self.report(
                                    format!("`{name}` has length `{s}`, which no argument binds"),
                                    &func.loc,
                                );
                            }
                            Dim::Const(c) if *c < 0 => {
                                self.report(format!("`{name}` has length {c}"), &func.loc)
                            }
                            _ => {}
                        }
                    }
                }
                _ => self.report(format!("argument `{name}` is neither scalar nor tensor"), &func.loc),
            }
        }
    }

    fn types(&mut self) {
        let func = self.func;
        let warps = func.tile_warps();
        let mut known = HashSet::new();
        for (i, ty) in func.values.iter().enumerate() {
            let (Type::Tile(t) | Type::InFlight(t)) = ty else { continue };
            if !known.insert(t) {
                continue;
            }
            let layout = |l| layouts::check_layout(l, &t.shape);
            let fits = layouts::check_shape(&t.shape)
                .map(|_| ())
                .and_then(|()| t.layout.as_ref().map_or(Ok(()), layout));
            if let Err(e) = fits {
                self.report(format!("%{i}: {e}"), &func.loc);
            } else if let Some(l) = t.layout.as_ref().filter(|l| warps != Some(l.warps())) {
                let have = warps.map_or("no".into(), |w| w.to_string());
                self.report(format!("%{i}: {l} has {} warps, the function {have}", l.warps()), &func.loc);
            }
        }
    }

    /// Makes a value visible; it must be new.
    fn define(&mut self, v: ValueId, loc: &Loc) {
        match self.defined.get_mut(v.0 as usize) {
            None => self.report(format!("%{} has no type", v.0), loc),
            Some(true) => self.report(format!("%{} is defined twice", v.0), loc),
            Some(d) => {
                *d = true;
                self.visible[v.0 as usize] = true;
            }
        }
    }

    /// Checks a block; `parent` is absent for the function's body.
    fn block(&mut self, block: &'a Block, parent: Option<&'a Op>) {
        let outer = self.visible.clone();
        let start = parent.map_or(&self.func.loc, |p| &p.loc);
        for v in &block.args {
            self.define(*v, start);
        }
        for (i, op) in block.ops.iter().enumerate() {
            let end = if parent.is_some() { Kind::Yield } else { Kind::Return };
            let last = i + 1 == block.ops.len();
            if last != (op.kind == end) {
                self.report(format!("{} stands in the wrong place", self.name(op)), &op.loc);
            }
            if op.loc.file.is_empty() || op.loc.line == 0 {
                self.report(format!("{} has no location", self.name(op)), &op.loc);
            }
            let unknown: Vec<_> =
                op.operands.iter().filter(|v| !self.visible.get(v.0 as usize).is_some_and(|x| *x)).collect();
            for v in &unknown {
                self.report(format!("%{} is used where it is not defined", v.0), &op.loc);
            }
            for v in op.results.iter().chain(op.regions.iter().flat_map(|r| &r.args)) {
                if v.0 as usize >= self.func.values.len() {
                    self.report(format!("%{} has no type", v.0), &op.loc);
                    return;
                }
            }
            if unknown.is_empty() {
                self.uses_in_flight(op);
                if let Err(e) = self.alone(op).and_then(|()| self.kind(op, parent)) {
                    self.report(format!("{}: {e}", self.name(op)), &op.loc);
                }
            }
            for (i, r) in op.regions.iter().enumerate() {
                if matches!(op.kind, Kind::Roles { .. }) {
                    self.role = Some(i);
                }
                self.block(r, Some(op));
            }
            if matches!(op.kind, Kind::Roles { .. }) {
                self.role = None;
            }
            for v in &op.results {
                self.define(*v, &op.loc);
                if matches!(self.func.ty(*v), Type::InFlight(_)) {
                    self.in_flight.insert(*v, op);
                }
            }
        }
        if block.ops.is_empty() {
            self.report("a block without an end", start);
        }
        self.turns_alternate(block);
        self.pending(block);
        if parent.is_none() {
            let left: Vec<_> = self.in_flight.values().map(|op| op.loc.clone()).collect();
            left.iter().for_each(|loc| self.report("nothing waits for this wgmma", loc));
        }
        self.visible = outer;
    }

    /// A group in flight is used once, by a wait that names its register operand.
    fn uses_in_flight(&mut self, op: &Op) {
        for (i, v) in op.operands.iter().enumerate() {
            if !matches!(self.func.ty(*v), Type::InFlight(_)) {
                continue;
            }
            if !matches!(op.kind, Kind::WgmmaWait { .. }) || i != 0 {
                self.report(
                    format!("%{} is in flight and used by something else than its wait", v.0),
                    &op.loc,
                );
                continue;
            }
            match self.in_flight.remove(v) {
                None => self.report(format!("%{} is waited for twice", v.0), &op.loc),
                Some(group) => {
                    let register = |v: &&ValueId| matches!(self.func.ty(**v), Type::Tile(_));
                    if let Some(a) =
                        group.operands.first().filter(register).filter(|a| !op.operands[1..].contains(a))
                    {
                        self.report(
                            format!("the wait does not name %{}, which the wgmma reads", a.0),
                            &op.loc,
                        );
                    }
                }
            }
        }
    }

    /// The rules of one kind of operation. Its operands are defined, its results have types.
    fn kind(&mut self, op: &Op, parent: Option<&Op>) -> Check {
        let regions = match op.kind {
            Kind::For { .. } => 1,
            Kind::If => 2,
            Kind::Roles { ref roles } => roles.len(),
            _ => 0,
        };
        ensure!(op.regions.len() == regions, "{} regions, {regions} are expected", op.regions.len());
        match &op.kind {
            Kind::Constant(lit) => self.constant(op, lit),
            Kind::Binary(b) => self.binary(op, *b),
            Kind::Unary(u) => self.unary(op, *u),
            Kind::Fma => self.fma(op),
            Kind::Compare(p) => self.compare(op, *p),
            Kind::Select => self.select(op),
            Kind::Cast(c) => self.cast(op, *c),
            Kind::ProgramId(axis) | Kind::NumPrograms(axis) => {
                ensure!(*axis < 3, "the grid has no axis {axis}");
                self.signature_is(op, &[], &[Type::I32])
            }
            Kind::CtaIndex | Kind::CtaCount { .. } => self.signature_is(op, &[], &[Type::I32]),
            Kind::For { .. } => self.loop_(op),
            Kind::If => self.branch(op),
            Kind::Yield => self.yields(op, parent),
            Kind::Return => self.signature_is(op, &[], &[]),
            Kind::Splat => self.splat(op),
            Kind::Iota => self.iota(op),
            Kind::Broadcast { dims } => self.broadcast(op, dims),
            Kind::Reshape => self.reshape(op),
            Kind::Trans => self.trans(op),
            Kind::Reduce { axis, .. } => self.reduce(op, *axis),
            Kind::Fold { .. } => self.fold(op),
            Kind::Rows { part } => self.rows(op, *part),
            Kind::JoinRows => self.join_rows(op),
            Kind::Dot => self.dot(op),
            Kind::Convert => self.convert(op),
            Kind::Load { axes } => self.load(op, axes),
            Kind::LoadScalar => self.load_scalar(op),
            Kind::Store { axes } => self.store(op, axes),
            Kind::StoreScalar => self.store_scalar(op),
            Kind::Alloc { offset } => self.alloc(op, *offset),
            Kind::BarrierAlloc { count, offset } => self.barrier_alloc(op, *count, *offset),
            Kind::TmaLoad { axes } => self.tma_load(op, axes),
            Kind::TmaStore { axes, wgm, wgn } => self.tma_store(op, axes, *wgm, *wgn),
            Kind::TmaStoreWait { pending, .. } => self.tma_store_wait(op, *pending),
            Kind::BarrierWait => self.signature_is(op, &[Type::Barrier, Type::I32], &[]),
            Kind::LocalStore => self.local(op, 2, 0),
            Kind::LocalLoad => self.local(op, 1, 1),
            Kind::Wgmma { trans_a, trans_b, acc } => self.wgmma(op, *trans_a, *trans_b, *acc),
            Kind::WgmmaWait { pending } => self.wgmma_wait(op, *pending),
            Kind::Roles { roles } => self.roles(op, parent, roles),
            Kind::Slot => self.slot(op),
            Kind::BarrierArrive => self.signature_is(op, &[Type::Barrier], &[]),
            Kind::TurnWait { turns } | Kind::TurnPass { turns } => self.turn(op, *turns),
            Kind::GroupBarrier => self.group_barrier(op),
            Kind::FenceAsync | Kind::CtaBarrier => self.signature_is(op, &[], &[]),
        }
    }

    /// The type of a value as far as types are compared: without layouts until all tiles have one.
    fn ty(&self, v: ValueId) -> Type {
        match self.func.ty(v) {
            Type::Tile(t) if !self.laid_out => Type::Tile(TileType { layout: None, ..t.clone() }),
            Type::InFlight(t) if !self.laid_out => Type::InFlight(TileType { layout: None, ..t.clone() }),
            t => t.clone(),
        }
    }

    fn counts(&self, op: &Op, operands: usize, results: usize) -> Check {
        let (have, got) = (op.operands.len(), op.results.len());
        ensure!(
            have == operands && got == results,
            "{have} operands and {got} results, not {operands} and {results}"
        );
        Ok(())
    }

    fn signature_is(&self, op: &Op, operands: &[Type], results: &[Type]) -> Check {
        self.counts(op, operands.len(), results.len())?;
        for (v, want) in op.operands.iter().chain(&op.results).zip(operands.iter().chain(results)) {
            ensure!(self.ty(*v) == *want, "%{} is {}, not {want}", v.0, self.func.ty(*v));
        }
        Ok(())
    }

    fn tile(&self, v: ValueId) -> Result<TileType, String> {
        match self.ty(v) {
            Type::Tile(t) => Ok(t),
            t => Err(format!("%{} is {t}, not a tile", v.0)),
        }
    }

    /// The element type of a scalar or tile.
    fn number(&self, v: ValueId) -> Result<Elem, String> {
        match self.func.ty(v) {
            Type::Scalar(e) => Ok(*e),
            Type::Tile(t) => Ok(t.elem),
            t => Err(format!("%{} is {t}, not a scalar or tile", v.0)),
        }
    }
}
