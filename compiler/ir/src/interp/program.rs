//! One program of the grid: values, and the table from operation to meaning. Control flow is in
//! [`super::control`].

use super::cells::Cells;
use super::frame::Frame;
use super::replay::{Event, What};
use super::shared::SharedState;
use super::tensor::{HostTensor, Launch};
use super::tiles::ReducePlan;
use super::wgmma::Group;
use super::{Options, Report, Res, Schedule, Stop, Trap, TrapKind, elementwise, malformed, number, stop};
use crate::func::{Func, Loc, Op, ValueId};
use crate::ops::{Kind, Literal};
use crate::types::{Dim, Elem, TileType, Type};
use std::collections::HashMap;
use std::rc::Rc;

/// What a value id stands for while running.
#[derive(Clone, Debug)]
pub(super) enum Value {
    /// A scalar or tile.
    Cells(Rc<Cells>),
    /// A tensor, by number.
    Tensor(usize),
    /// A buffer or a ring of them, by address.
    Buffer(i64),
    /// A barrier or a ring of them, by address.
    Barrier(i64),
    /// A group of wgmma, by number.
    InFlight(usize),
}

/// Everything while running.
pub(super) struct Machine<'a> {
    pub(super) func: &'a Func,
    pub(super) options: &'a Options,
    launch: &'a mut Launch,
    frames: Vec<Option<Rc<Frame>>>,
    pub(super) broadcasts: HashMap<(ValueId, ValueId), Rc<Vec<u32>>>,
    pub(super) reductions: HashMap<(ValueId, ValueId), Rc<ReducePlan>>,
    env: Vec<Option<Value>>,
    program: [i64; 3],
    /// CTAs of a persistent kernel.
    ctas: i64,
    pub(super) shared: SharedState,
    pub(super) groups: Vec<Group>,
    pub(super) report: Report,
    /// Are the threads in roles?
    pub(super) parted: bool,
    /// What synchronised, by role.
    pub(super) events: Vec<Vec<Event>>,
    /// The state of [`Schedule::Random`].
    pub(super) random: u64,
}

/// Runs the grid; see [`super::run`].
pub(super) fn run(func: &Func, launch: &mut Launch, options: &Options) -> Result<Report, Trap> {
    let at_entry = |s: Stop| trap(s, &func.loc, [0; 3]);
    let args = bind(func, launch, options).map_err(at_entry)?;
    let frames = frames(func, options).map_err(at_entry)?;
    let grid = launch.grid;
    let shared = SharedState::new(func, options.before_barriers).map_err(at_entry)?;
    let mut machine = Machine {
        func,
        options,
        launch,
        frames,
        broadcasts: HashMap::new(),
        reductions: HashMap::new(),
        env: vec![],
        program: [0; 3],
        ctas: 1,
        shared,
        groups: vec![],
        report: Report::default(),
        parted: false,
        events: vec![],
        random: 0,
    };
    machine.report.shared_bytes = machine.shared.len() as u64;
    if let Some(up_to) = func.persistent() {
        // Few CTAs, so that each runs several programs.
        let all = grid.iter().product::<i64>();
        machine.ctas = if up_to.is_some_and(|n| grid[0] > n) { all } else { (all + 2) / 3 };
        for cta in 0..machine.ctas {
            machine.program([cta, 0, 0], &args)?;
        }
        return Ok(machine.report);
    }
    for z in 0..grid[2] {
        for y in 0..grid[1] {
            for x in 0..grid[0] {
                if options.only_program.is_none_or(|p| p == [x, y, z]) {
                    machine.program([x, y, z], &args)?;
                }
            }
        }
    }
    Ok(machine.report)
}

fn trap(s: Stop, loc: &Loc, program: [i64; 3]) -> Trap {
    Trap { kind: s.kind, message: s.message, loc: loc.clone(), program }
}

/// The values of the arguments.
fn bind(func: &Func, launch: &mut Launch, options: &Options) -> Res<Vec<Value>> {
    if func.arg_names.len() != func.body.args.len() {
        return malformed("arguments and their names differ in number");
    }
    if launch.grid.iter().any(|g| *g < 0) {
        return stop(TrapKind::Launch, format!("grid {:?}", launch.grid));
    }
    let mut dims: HashMap<String, i64> = HashMap::new();
    for (name, v) in func.arg_names.iter().zip(&func.body.args) {
        let Some(Type::Tensor(ty)) = func.values.get(v.0 as usize) else { continue };
        let Some(t) = launch.tensors.get(name) else {
            return stop(TrapKind::Launch, format!("tensor `{name}` is missing"));
        };
        if t.elem != ty.elem || t.shape.len() != ty.dims.len() || !t.is_sound() {
            return stop(
                TrapKind::Launch,
                format!("tensor `{name}` does not fit {}", Type::Tensor(ty.clone())),
            );
        }
        for (d, n) in ty.dims.iter().zip(&t.shape) {
            let given = match d {
                Dim::Const(c) => *c,
                Dim::Sym(s) => match launch.scalars.get(s) {
                    Some(super::tensor::Number::Int(i)) => *i,
                    Some(super::tensor::Number::Float(_)) => -1,
                    None => *dims.entry(s.clone()).or_insert(*n),
                },
            };
            if given != *n || *n > i32::MAX as i64 {
                return stop(TrapKind::Launch, format!("an axis of `{name}` has length {n}, {d} is {given}"));
            }
        }
    }
    let mut values = vec![];
    for (name, v) in func.arg_names.iter().zip(&func.body.args) {
        values.push(match func.values.get(v.0 as usize) {
            Some(Type::Tensor(_)) => Value::Tensor(launch.tensors.get_index_of(name).unwrap_or(0)),
            Some(Type::Scalar(e)) => {
                let given = launch.scalars.get(name).copied();
                let n = given.or_else(|| dims.get(name).map(|d| super::tensor::Number::Int(*d)));
                match n.and_then(|n| n.cells(*e, options.mode)) {
                    Some(c) => Value::Cells(Rc::new(c)),
                    None => return stop(TrapKind::Launch, format!("no {e} for the argument `{name}`")),
                }
            }
            _ => return malformed(format!("argument `{name}` is neither scalar nor tensor")),
        });
    }
    Ok(values)
}

fn frames(func: &Func, options: &Options) -> Res<Vec<Option<Rc<Frame>>>> {
    // Before `assign-layouts` some tiles may have a layout already; threads exist only when all have one.
    let laid_out = func.values.iter().all(|t| t.as_tile().is_none_or(|t| t.layout.is_some()));
    let mut known: HashMap<TileType, Rc<Frame>> = HashMap::new();
    let mut frame = |ty: &Type| -> Res<Option<Rc<Frame>>> {
        let (Type::Tile(t) | Type::InFlight(t)) = ty else { return Ok(None) };
        let key = TileType { layout: t.layout.clone().filter(|_| laid_out), ..t.with_elem(Elem::I1) };
        if let Some(f) = known.get(&key) {
            return Ok(Some(f.clone()));
        }
        let f = Rc::new(Frame::new(&key, options.fault)?);
        known.insert(key, f.clone());
        Ok(Some(f))
    };
    func.values.iter().map(&mut frame).collect()
}

impl<'a> Machine<'a> {
    fn program(&mut self, program: [i64; 3], args: &[Value]) -> Result<(), Trap> {
        self.program = program;
        self.env = vec![None; self.func.values.len()];
        self.shared.reset();
        self.groups.clear();
        self.parted = false;
        if let Schedule::Random(seed) = self.options.schedule {
            self.random = (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        }
        self.report.programs += 1;
        for (v, value) in self.func.body.args.iter().zip(args) {
            self.env[v.0 as usize] = Some(value.clone());
        }
        self.body()?;
        let left = self.check_exit().and_then(|()| self.land_stores());
        let loc = self.func.body.ops.last().map_or(&self.func.loc, |op| &op.loc);
        left.map_err(|s| self.trap(s, loc))
    }

    pub(super) fn trap(&self, s: Stop, loc: &Loc) -> Trap {
        trap(s, loc, self.program)
    }

    /// Gives values to ids, checking that each has the form of its type.
    pub(super) fn define(&mut self, ids: &[ValueId], values: Vec<Value>) -> Res<()> {
        if ids.len() != values.len() {
            return malformed(format!("{} values for {}", values.len(), ids.len()));
        }
        for (id, value) in ids.iter().zip(values) {
            let i = id.0 as usize;
            let fits = match (self.func.values.get(i), &value) {
                (Some(Type::Scalar(e)), Value::Cells(c)) => c.elem == *e && c.len() == 1,
                (Some(Type::Tile(t)), Value::Cells(c)) => {
                    c.elem == t.elem && self.frames[i].as_ref().is_some_and(|f| f.at.len() == c.len())
                }
                (Some(Type::Tensor(_)), Value::Tensor(_))
                | (Some(Type::Buffer(_) | Type::Ring(..)), Value::Buffer(_))
                | (Some(Type::Barrier | Type::BarrierRing(_)), Value::Barrier(_))
                | (Some(Type::InFlight(_)), Value::InFlight(_)) => true,
                _ => false,
            };
            if self.shared.role > 0 && self.frames.get(i).is_some_and(Option::is_some) {
                return malformed(format!("the tile %{i} in a role that one thread runs"));
            }
            if !fits {
                return malformed(format!("value %{i} does not have the form of its type"));
            }
            self.env[i] = Some(value);
        }
        Ok(())
    }

    /// An operand.
    pub(super) fn value(&self, op: &Op, i: usize) -> Res<&Value> {
        let id = match op.operands.get(i) {
            Some(v) => v.0 as usize,
            None => return malformed(format!("operand {i} is missing")),
        };
        match self.env.get(id) {
            Some(Some(v)) => Ok(v),
            _ => malformed(format!("%{id} is used before it is defined")),
        }
    }

    /// An operand that is a scalar or tile.
    pub(super) fn cells(&self, op: &Op, i: usize) -> Res<Rc<Cells>> {
        match self.value(op, i)? {
            Value::Cells(c) => Ok(c.clone()),
            Value::InFlight(_) => {
                stop(TrapKind::GroupInFlight, format!("operand {i} is still being computed"))
            }
            _ => malformed(format!("operand {i} is not a value")),
        }
    }

    /// An operand that is a tile.
    pub(super) fn tile(&self, op: &Op, i: usize) -> Res<(Rc<Cells>, Rc<Frame>)> {
        let cells = self.cells(op, i)?;
        match self.frame_of(op.operands.get(i))? {
            Some(f) => Ok((cells, f)),
            None => malformed(format!("operand {i} is not a tile")),
        }
    }

    /// An operand that is a defined integer or bool.
    pub(super) fn int(&self, op: &Op, i: usize) -> Res<i64> {
        let c = self.cells(op, i)?;
        if c.is_poison(0) {
            return stop(TrapKind::Poison, format!("operand {i} has no defined value"));
        }
        match c.as_ints()? {
            [x] => Ok(*x),
            _ => malformed(format!("operand {i} is not a scalar")),
        }
    }

    pub(super) fn frame_of(&self, v: Option<&ValueId>) -> Res<Option<Rc<Frame>>> {
        match v.and_then(|v| self.frames.get(v.0 as usize)) {
            Some(f) => Ok(f.clone()),
            None => malformed("a value without a type"),
        }
    }

    /// The frame of the only result, a tile.
    pub(super) fn result_frame(&self, op: &Op) -> Res<Rc<Frame>> {
        match self.frame_of(op.results.first())? {
            Some(f) => Ok(f),
            None => malformed("the result is not a tile"),
        }
    }

    /// The element type of the only result.
    fn result_elem(&self, op: &Op) -> Res<Elem> {
        let ty = op.results.first().and_then(|v| self.func.values.get(v.0 as usize));
        match ty.and_then(Type::elem) {
            Some(e) => Ok(e),
            None => malformed("the result has no element type"),
        }
    }

    pub(super) fn tensor(&self, t: usize) -> &HostTensor {
        &self.launch.tensors[t]
    }

    pub(super) fn tensor_mut(&mut self, t: usize) -> &mut HostTensor {
        &mut self.launch.tensors[t]
    }

    pub(super) fn tensor_name(&self, t: usize) -> &str {
        self.launch.tensors.get_index(t).map_or("", |(n, _)| n)
    }

    /// An operation without regions.
    pub(super) fn leaf(&mut self, op: &Op) -> Res<()> {
        let mode = self.options.mode;
        let int = |x: i64| Cells::ints(Elem::I32, vec![x]);
        let out = match &op.kind {
            Kind::Constant(lit) => {
                let elem = self.result_elem(op)?;
                match *lit {
                    Literal::Float(x) if elem.is_float() => Cells::float(elem, x, mode),
                    Literal::Int(i) if !elem.is_float() => Cells::ints(elem, vec![number::wrap(i, elem)]),
                    _ => return malformed(format!("constant {lit:?} of type {elem}")),
                }
            }
            Kind::Binary(b) => elementwise::binary(*b, &*self.cells(op, 0)?, &*self.cells(op, 1)?)?,
            Kind::Unary(u) => elementwise::unary(*u, &*self.cells(op, 0)?)?,
            Kind::Fma => elementwise::fma(&*self.cells(op, 0)?, &*self.cells(op, 1)?, &*self.cells(op, 2)?)?,
            Kind::Compare(p) => elementwise::compare(*p, &*self.cells(op, 0)?, &*self.cells(op, 1)?)?,
            Kind::Select => {
                elementwise::select(&*self.cells(op, 0)?, &*self.cells(op, 1)?, &*self.cells(op, 2)?)?
            }
            Kind::Cast(c) => elementwise::cast(*c, &*self.cells(op, 0)?, self.result_elem(op)?, mode)?,
            Kind::ProgramId(axis) | Kind::NumPrograms(axis) => {
                let of = if matches!(op.kind, Kind::ProgramId(_)) { self.program } else { self.launch.grid };
                match of.get(*axis) {
                    Some(x) => int(*x),
                    None => return malformed(format!("the grid has no axis {axis}")),
                }
            }
            Kind::CtaIndex => int(self.program[0]),
            Kind::CtaCount { .. } => int(self.ctas),
            Kind::For { .. }
            | Kind::If
            | Kind::Yield
            | Kind::Return
            | Kind::Roles { .. }
            | Kind::BarrierWait => {
                return malformed("control flow as a leaf");
            }
            Kind::Splat => self.splat(op)?,
            Kind::Iota => self.iota(op)?,
            Kind::Broadcast { dims } => self.broadcast(op, dims)?,
            Kind::Reshape => self.redistribute(op, true)?,
            Kind::Convert => self.redistribute(op, false)?,
            Kind::Trans => self.trans(op)?,
            Kind::Reduce { op: how, axis } => self.reduce(op, *how, *axis)?,
            Kind::Fold { op: how } => self.fold(op, *how)?,
            Kind::Rows { part } => self.rows(op, *part)?,
            Kind::JoinRows => self.join_rows(op)?,
            Kind::Dot => self.dot(op)?,
            Kind::Load { axes } => self.load(op, axes)?,
            Kind::LoadScalar => self.load_scalar(op)?,
            Kind::Store { axes } => return self.store(op, axes),
            Kind::StoreScalar => return self.store_scalar(op),
            Kind::Alloc { .. } => {
                let at = self.shared.address_of(op)?;
                return self.define(&op.results, vec![Value::Buffer(at)]);
            }
            Kind::BarrierAlloc { .. } => {
                let at = self.shared.address_of(op)?;
                return self.define(&op.results, vec![Value::Barrier(at)]);
            }
            Kind::TmaLoad { axes } => return self.tma_load(op, axes),
            Kind::TmaStore { axes, wgm, wgn } => return self.tma_store(op, axes, *wgm, *wgn),
            Kind::TmaStoreWait { pending, read } => return self.tma_store_wait(*pending, *read),
            Kind::BarrierArrive => return self.barrier_arrive(op),
            Kind::Slot => {
                let slot = self.slot(op)?;
                return self.define(&op.results, vec![slot]);
            }
            Kind::TurnWait { turns } => {
                self.record(op, What::TurnWait(*turns));
                return self.turn();
            }
            Kind::TurnPass { turns } => {
                self.record(op, What::TurnPass(*turns));
                return self.turn();
            }
            Kind::LocalStore => return self.local_store(op),
            Kind::LocalLoad => self.local_load(op)?,
            Kind::Wgmma { trans_a, trans_b, acc } => {
                let group = self.issue(op, *trans_a, *trans_b, *acc)?;
                return self.define(&op.results, vec![Value::InFlight(group)]);
            }
            Kind::WgmmaWait { pending } => self.wait(op, *pending)?,
            Kind::FenceAsync => {
                self.report.fences += 1;
                self.shared.fence();
                return Ok(());
            }
            Kind::CtaBarrier => {
                if self.shared.role > 0 {
                    return malformed("a barrier of all threads in a role that one thread runs");
                }
                self.record(op, What::Meet);
                self.report.cta_barriers += 1;
                self.shared.barrier();
                return Ok(());
            }
            Kind::GroupBarrier => {
                if self.shared.role > 0 {
                    return malformed("a barrier of a warpgroup in a role that one thread runs");
                }
                self.report.group_barriers += 1;
                self.shared.group_barrier();
                return Ok(());
            }
        };
        self.define(&op.results, vec![Value::Cells(Rc::new(out))])
    }

    /// A turn is for the warpgroups of the first role.
    fn turn(&self) -> Res<()> {
        if !self.parted || self.shared.role > 0 {
            return malformed("turns outside of the first role");
        }
        Ok(())
    }

    /// Nothing may be in flight at the end, nor have landed without anyone waiting for it.
    fn check_exit(&self) -> Res<()> {
        if self.shared.copies_in_flight() {
            return stop(TrapKind::CopyInFlight, "the program ends while a copy is in flight");
        }
        if self.shared.stores.reading() {
            return stop(TrapKind::CopyInFlight, "the program ends while a copy reads its shared memory");
        }
        if self.shared.unobserved() {
            return stop(TrapKind::CopyInFlight, "the program ends and nobody has waited for a copy");
        }
        if self.groups.iter().any(|g| !g.is_done()) {
            return stop(TrapKind::GroupInFlight, "the program ends while a wgmma is in flight");
        }
        Ok(())
    }
}

impl Stop {
    pub(super) fn new(message: &str) -> Stop {
        Stop { kind: TrapKind::Malformed, message: message.into() }
    }
}
