//! The lowering: one rebuild from `sm90`, `tile`, `scf` and `arith` to what MLIR translates to LLVM IR.
//!
//! A tile becomes the list of a thread's registers, a buffer a byte offset in shared memory, a loop over
//! tiles a loop over scalars. Layouts decide everything through their `Distribution`s. The result is a
//! module in generic syntax and what a launch has to pass.
//!
//! - `emit`: writes operations
//! - `thread`: which thread this is and where its elements lie
//! - `elementwise`: arithmetic
//! - `global`: tensors
//! - `shared`: buffers, barriers, TMA, exchanges between threads
//! - `shuffle`: exchanges within a warp
//! - `store`: copies from shared memory to tensors
//! - `matrix`: 8 × 8 matrices to shared memory
//! - `reduce`: reductions
//! - `mma`: wgmma
//! - `roles`: groups of warps with tasks of their own

mod elementwise;
mod emit;
mod global;
mod matrix;
mod mma;
mod reduce;
mod roles;
mod shared;
mod shuffle;
mod store;
mod thread;

use crate::passes::{Failure, Problem};
use emit::{Emit, I32, I64, Ty, V};
use flashc_front::codes::Code;
use flashc_ir::artifact::{Param, Persistent, Requirement, TensorMapSpec};
use flashc_ir::divisor::Divisors;
use flashc_ir::ops::{Kind, Literal};
use flashc_ir::types::Dim;
use flashc_ir::{Block, Distribution, Elem, Func, Op, TileType, Type, ValueId};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use thread::Threads;

/// A lowered kernel.
#[derive(Debug, Clone)]
pub struct Lowered {
    /// MLIR, generic syntax: one `llvm.func`.
    pub text: String,
    /// Kernel parameters in order.
    pub params: Vec<Param>,
    /// Tensor maps, in the order of their parameters.
    pub tensor_maps: Vec<TensorMapSpec>,
    /// What the tensors must satisfy.
    pub requires: Vec<Requirement>,
    /// Threads of a CTA.
    pub threads: u32,
    /// Does a CTA run several programs?
    pub persistent: Persistent,
}

/// How to lower.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// May assume, and then requires, that tensors accessed in runs of several elements are aligned to 16
    /// bytes and contiguous along the last axis.
    pub aligned: bool,
    /// Give every instruction its source line.
    pub line_info: bool,
    /// Of the function's arguments the first so many are scalars,
    pub scalars: usize,
    /// the next so many dimensions; the rest are tensors.
    pub dims: usize,
}

/// What a value of the function is after lowering.
#[derive(Clone, Debug)]
enum Value {
    Scalar(V),
    /// One value a register.
    Tile(Vec<V>),
    Tensor(usize),
    /// A buffer, an mbarrier, or the first of a ring of them.
    Shared(Place),
}

/// A place in shared memory: a byte offset, and in a ring which one and how far apart they are.
#[derive(Clone, Copy, Debug)]
struct Place {
    offset: i64,
    turn: Option<(V, i64)>,
}

impl Place {
    fn at(offset: i64) -> Place {
        Place { offset, turn: None }
    }

    fn plus(self, bytes: i64) -> Place {
        Place { offset: self.offset + bytes, ..self }
    }
}

/// A tensor argument.
struct Tensor {
    pointer: V,
    strides: Vec<V>,
    dims: Vec<Dim>,
    elem: Elem,
}

/// Bytes of an mbarrier.
const BARRIER_BYTES: i64 = 8;

struct Lower<'a> {
    func: &'a Func,
    options: Options,
    e: Emit,
    values: HashMap<ValueId, Value>,
    tensors: Vec<Tensor>,
    threads: Threads,
    smem: V,
    /// Tensors accessed in runs.
    aligned: BTreeSet<usize>,
    /// Tensors, and the axis along which bulk stores write whole units.
    whole: BTreeSet<(usize, usize)>,
    /// Tensors accessed by ordinary instructions: their pointer and strides are parameters.
    addressed: BTreeSet<usize>,
    maps: Vec<(TensorMapSpec, V)>,
    /// In a persistent kernel the lengths of the grid, as parameters.
    grid: BTreeMap<usize, V>,
    persistent: bool,
    /// Inside a role: its warps.
    role: Option<i64>,
    /// Tiles that are loaded where they are stored.
    copied: HashMap<ValueId, &'a Op>,
    /// Does only one thread run what is being emitted?
    alone: bool,
    distributions: HashMap<TileType, std::rc::Rc<Distribution>>,
    divisors: Divisors<'a>,
}

/// Lowers one kernel.
pub fn lower(func: &Func, options: Options) -> Result<Lowered, Failure> {
    let warps = func.warps.ok_or_else(|| Failure::Bug("a function without warps".into()))?;
    let mut e = Emit::new(options.line_info);
    let smem = e.in_prologue(|e| e.op("llvm.mlir.addressof", "global_name = @smem", &[], Ty::Smem));
    let threads = Threads::new(&mut e, warps);
    let mut l = Lower {
        func,
        options,
        e,
        values: HashMap::new(),
        tensors: vec![],
        threads,
        smem,
        aligned: BTreeSet::new(),
        whole: BTreeSet::new(),
        addressed: BTreeSet::new(),
        maps: vec![],
        grid: BTreeMap::new(),
        persistent: func.persistent().is_some(),
        role: None,
        copied: shared::copied_tiles(func),
        alone: false,
        distributions: HashMap::new(),
        divisors: Divisors::new(func),
    };
    l.arguments();
    l.barriers()?;
    l.block(&func.body)?;
    Ok(l.finish(warps))
}

impl Lower<'_> {
    fn arguments(&mut self) {
        for v in &self.func.body.args {
            let value = match self.func.ty(*v) {
                Type::Scalar(Elem::I1) => {
                    let byte = self.e.fresh(Ty::Num(Elem::I8));
                    let zero = self.e.int(0, Ty::Num(Elem::I8));
                    self.values.insert(*v, Value::Scalar(byte));
                    Value::Scalar(self.e.in_prologue(|e| e.icmp(1, byte, zero)))
                }
                Type::Tensor(t) => {
                    let tensor = Tensor {
                        pointer: self.e.fresh(Ty::Global),
                        strides: t.dims.iter().map(|_| self.e.fresh(I64)).collect(),
                        dims: t.dims.clone(),
                        elem: t.elem,
                    };
                    self.tensors.push(tensor);
                    Value::Tensor(self.tensors.len() - 1)
                }
                ty => Value::Scalar(self.e.fresh(Ty::Num(ty.elem().unwrap_or(Elem::I32)))),
            };
            self.values.insert(*v, value);
        }
    }

    /// The module's text around the body.
    fn finish(mut self, warps: i64) -> Lowered {
        let (mut params, mut args) = (vec![], vec![]);
        for (i, v) in self.func.body.args.iter().enumerate() {
            if let Value::Scalar(x) = self.values[v] {
                let is_dim = i >= self.options.scalars;
                params.push(if is_dim { Param::Dim(i - self.options.scalars) } else { Param::Scalar(i) });
                // A bool arrives as a byte; its comparison in the prologue names the argument.
                args.push((x, String::new()));
            }
        }
        for (i, t) in self.tensors.iter().enumerate().filter(|(i, _)| self.addressed.contains(i)) {
            params.push(Param::Pointer(i));
            args.push((t.pointer, String::new()));
            for (axis, s) in t.strides.iter().enumerate() {
                params.push(Param::Stride { tensor: i, axis });
                args.push((*s, String::new()));
            }
        }
        for (axis, v) in &self.grid {
            params.push(Param::Grid(*axis));
            args.push((*v, String::new()));
        }
        let byval = "llvm.byval = !llvm.array<128 x i8>, nvvm.grid_constant, llvm.align = 64 : i64";
        let mut tensor_maps = vec![];
        for (i, (spec, v)) in self.maps.drain(..).enumerate() {
            params.push(Param::TensorMap(i));
            args.push((v, byval.to_string()));
            tensor_maps.push(spec);
        }
        let requires = self
            .aligned
            .iter()
            .map(|t| Requirement::Aligned16 { tensor: *t, contiguous: self.tensors[*t].dims.len() - 1 })
            .chain(
                self.whole.iter().map(|(tensor, axis)| Requirement::Whole16 { tensor: *tensor, axis: *axis }),
            )
            .collect();
        let name = &self.func.name;
        let types: Vec<_> =
            args.iter().map(|a| a.0.ty.to_string().trim_start_matches("!llvm.").to_string()).collect();
        let attrs: Vec<_> = args.iter().map(|a| format!("{{{}}}", a.1)).collect();
        let entry: Vec<_> = args.iter().map(|a| format!("{}: {}", a.0, a.0.ty)).collect();
        let (aliases, prologue, body) = self.e.finish();
        let text = format!(
            "{aliases}\"builtin.module\"() ({{\n\
             \"llvm.mlir.global\"() <{{sym_name = \"smem\", global_type = !llvm.array<0 x i8>, addr_space = 3 : i32, \
             alignment = 1024 : i64, linkage = #llvm.linkage<external>}}> ({{\n}}) : () -> ()\n\
             \"llvm.func\"() <{{sym_name = \"{name}\", function_type = !llvm.func<void ({})>, \
             linkage = #llvm.linkage<external>, arg_attrs = [{}]}}> ({{\n^bb0({}):\n{prologue}{body}\
             \"llvm.return\"() : () -> ()\n}}) {{nvvm.kernel, nvvm.reqntid = array<i32: {}>, nvvm.minctasm = 1 : i32}} \
             : () -> ()\n}}) : () -> ()\n",
            types.join(", "),
            attrs.join(", "),
            entry.join(", "),
            warps * 32,
        );
        let persistent = match self.func.persistent() {
            None => Persistent::No,
            Some(None) => Persistent::Always,
            Some(Some(n)) => Persistent::UpTo(n as u32),
        };
        Lowered { text, params, tensor_maps, requires, threads: (warps * 32) as u32, persistent }
    }

    fn block(&mut self, block: &Block) -> Result<(), Failure> {
        for op in &block.ops {
            self.e.at(&op.loc);
            self.op(op)?;
        }
        Ok(())
    }

    fn scalar(&self, v: ValueId) -> Result<V, Failure> {
        match self.values.get(&v) {
            Some(Value::Scalar(x)) => Ok(*x),
            other => Err(Failure::Bug(format!("%{} is {other:?}, not a scalar", v.0))),
        }
    }

    fn tile(&self, v: ValueId) -> Result<Vec<V>, Failure> {
        match self.values.get(&v) {
            Some(Value::Tile(x)) => Ok(x.clone()),
            other => Err(Failure::Bug(format!("%{} is {other:?}, not a tile", v.0))),
        }
    }

    fn buffer(&self, v: ValueId) -> Result<Place, Failure> {
        match self.values.get(&v) {
            Some(Value::Shared(x)) => Ok(*x),
            other => Err(Failure::Bug(format!("%{} is {other:?}, not a buffer", v.0))),
        }
    }

    fn tensor(&self, v: ValueId) -> Result<usize, Failure> {
        match self.values.get(&v) {
            Some(Value::Tensor(x)) => Ok(*x),
            other => Err(Failure::Bug(format!("%{} is {other:?}, not a tensor", v.0))),
        }
    }

    fn tile_type(&self, v: ValueId) -> Result<TileType, Failure> {
        match self.func.ty(v) {
            Type::Tile(t) | Type::InFlight(t) => Ok(t.clone()),
            other => Err(Failure::Bug(format!("%{} has type {other}, not a tile", v.0))),
        }
    }

    /// Who holds what of a tile of this type.
    fn distribution(&mut self, t: &TileType) -> Result<std::rc::Rc<Distribution>, Failure> {
        if let Some(d) = self.distributions.get(t) {
            return Ok(d.clone());
        }
        let layout = t.layout.as_ref().ok_or_else(|| Failure::Bug(format!("{t} has no layout")))?;
        let d = std::rc::Rc::new(layout.distribution(&t.shape));
        self.distributions.insert(t.clone(), d.clone());
        Ok(d)
    }

    /// The length of a tensor's axis.
    fn dim(&mut self, tensor: usize, axis: usize) -> Result<V, Failure> {
        match self.tensors[tensor].dims[axis].clone() {
            Dim::Const(c) => Ok(self.e.i32(c)),
            Dim::Sym(name) => {
                let v = self.func.arg(&name).ok_or_else(|| Failure::Bug(format!("no dimension {name}")))?;
                self.scalar(v)
            }
        }
    }

    fn unsupported(&self, op: &Op, what: &str, help: &str) -> Failure {
        Failure::user(Problem {
            code: Code::NotOnGpu,
            message: format!("{what} cannot be compiled for the GPU yet"),
            label: "here".into(),
            help: help.into(),
            loc: op.loc.clone(),
        })
    }

    fn op(&mut self, op: &Op) -> Result<(), Failure> {
        let value = match &op.kind {
            Kind::Constant(l) => {
                let ty = Ty::Num(self.func.ty(op.result()).elem().unwrap_or(Elem::I32));
                Value::Scalar(match l {
                    Literal::Int(i) => self.e.int(*i, ty),
                    Literal::Float(x) => self.e.float(*x, ty),
                })
            }
            Kind::Binary(_)
            | Kind::Unary(_)
            | Kind::Fma
            | Kind::Compare(_)
            | Kind::Select
            | Kind::Cast(_) => self.elementwise(op)?,
            Kind::NumPrograms(axis) if self.persistent => {
                let v = self.grid.get(axis).copied().unwrap_or_else(|| self.e.fresh(I32));
                self.grid.insert(*axis, v);
                Value::Scalar(v)
            }
            Kind::CtaIndex => {
                Value::Scalar(self.e.in_prologue(|e| e.op("nvvm.read.ptx.sreg.ctaid.x", "", &[], I32)))
            }
            Kind::CtaCount { .. } => {
                Value::Scalar(self.e.in_prologue(|e| e.op("nvvm.read.ptx.sreg.nctaid.x", "", &[], I32)))
            }
            Kind::ProgramId(axis) | Kind::NumPrograms(axis) => {
                let reg = if matches!(op.kind, Kind::ProgramId(_)) { "ctaid" } else { "nctaid" };
                let name = format!("nvvm.read.ptx.sreg.{reg}.{}", ["x", "y", "z"][*axis]);
                Value::Scalar(self.e.in_prologue(|e| e.op(&name, "", &[], I32)))
            }
            Kind::For { .. } => return self.for_loop(op),
            Kind::If => return self.if_else(op),
            Kind::Yield | Kind::Return => return Ok(()),
            Kind::Splat => {
                let n = self.registers(op.result())?;
                Value::Tile(vec![self.scalar(op.operands[0])?; n])
            }
            Kind::Iota => {
                let t = self.tile_type(op.result())?;
                let d = self.distribution(&t)?;
                let base = self.threads.base(&mut self.e, &d, 0);
                Value::Tile(d.regs.iter().map(|r| self.e.add(base, r[0])).collect())
            }
            Kind::Broadcast { dims } => Value::Tile(self.broadcast(op, dims)?),
            Kind::Reshape | Kind::Trans | Kind::Convert => Value::Tile(self.exchange(op)?),
            Kind::Reduce { op: how, axis } => self.reduce(op, *how, *axis)?,
            Kind::Load { .. } if self.copied.contains_key(&op.result()) => return Ok(()),
            Kind::Load { axes } => Value::Tile(self.load(op, axes)?),
            Kind::LoadScalar => Value::Scalar(self.load_scalar(op)?),
            Kind::Store { axes } => return self.store(op, axes),
            Kind::StoreScalar => return self.store_scalar(op),
            Kind::Fold { op: how } => Value::Tile(self.fold(op, *how)?),
            Kind::Rows { part } => Value::Tile(self.rows(op, *part)?),
            Kind::JoinRows => Value::Tile(self.join_rows(op)?),
            Kind::Dot => return Err(Failure::Bug("a dot after warpgroup-mma".into())),
            Kind::Alloc { offset } => {
                let offset = offset.ok_or_else(|| Failure::Bug("a buffer without offset".into()))?;
                Value::Shared(Place::at(offset))
            }
            Kind::BarrierAlloc { offset, .. } => {
                let offset = offset.ok_or_else(|| Failure::Bug("a barrier without offset".into()))?;
                Value::Shared(Place::at(offset))
            }
            Kind::Slot => {
                let (first, index) = (self.buffer(op.operands[0])?, self.scalar(op.operands[1])?);
                let bytes = match self.func.ty(op.operands[0]) {
                    Type::Ring(b, _) => b.bytes(),
                    _ => BARRIER_BYTES,
                };
                Value::Shared(Place { turn: Some((index, bytes)), ..first })
            }
            Kind::Roles { roles } => return self.roles(op, roles),
            Kind::BarrierArrive => return self.barrier_arrive(op),
            Kind::TurnWait { turns } => return self.turn(*turns, 0),
            Kind::TurnPass { turns } => return self.turn(*turns, 1),
            Kind::TmaLoad { axes } => return self.tma_load(op, axes),
            Kind::TmaStore { axes, wgm, wgn } => return self.tma_store(op, axes, *wgm, *wgn),
            Kind::TmaStoreWait { pending, read } => {
                self.tma_store_wait(*pending, *read);
                return Ok(());
            }
            Kind::BarrierWait => return self.barrier_wait(op),
            Kind::LocalStore => return self.local_store(op),
            Kind::LocalLoad => Value::Tile(self.local_load(op)?),
            Kind::Wgmma { trans_a, trans_b, acc } => Value::Tile(self.wgmma(op, *trans_a, *trans_b, *acc)?),
            Kind::WgmmaWait { pending } => Value::Tile(self.wgmma_wait(op, *pending)?),
            Kind::FenceAsync => {
                let attrs = "kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>";
                self.e.op0("nvvm.fence.proxy", attrs, &[]);
                return Ok(());
            }
            Kind::CtaBarrier => {
                self.cta_barrier();
                return Ok(());
            }
            Kind::GroupBarrier => {
                self.group_barrier();
                return Ok(());
            }
        };
        self.values.insert(op.result(), value);
        Ok(())
    }

    /// Registers that a thread holds of a tile.
    fn registers(&mut self, v: ValueId) -> Result<usize, Failure> {
        let t = self.tile_type(v)?;
        Ok(self.distribution(&t)?.regs.len())
    }

    fn broadcast(&mut self, op: &Op, dims: &[usize]) -> Result<Vec<V>, Failure> {
        let (from, to) = (self.tile_type(op.operands[0])?, self.tile_type(op.result())?);
        let (a, b) = (self.distribution(&from)?, self.distribution(&to)?);
        let regs = self.tile(op.operands[0])?;
        b.regs
            .iter()
            .map(|r| {
                let want: Vec<i64> = dims.iter().map(|d| r[*d]).collect();
                let i = a.regs.iter().position(|x| *x == want);
                i.map(|i| regs[i]).ok_or_else(|| Failure::Bug(format!("broadcast from {from} to {to}")))
            })
            .collect()
    }

    /// Half the rows: a choice of registers.
    fn rows(&mut self, op: &Op, part: usize) -> Result<Vec<V>, Failure> {
        let regs = self.tile(op.operands[0])?;
        let at = self.half_positions(op.operands[0], op.result())?;
        Ok(at.into_iter().map(|i| regs[i[part]]).collect())
    }

    /// The other way round.
    fn join_rows(&mut self, op: &Op) -> Result<Vec<V>, Failure> {
        let parts = [self.tile(op.operands[0])?, self.tile(op.operands[1])?];
        let at = self.half_positions(op.result(), op.operands[0])?;
        let mut regs = vec![parts[0][0]; self.registers(op.result())?];
        for (i, whole) in at.into_iter().enumerate() {
            (regs[whole[0]], regs[whole[1]]) = (parts[0][i], parts[1][i]);
        }
        Ok(regs)
    }

    /// For each register of half the rows, the registers of the whole that its two parts are.
    fn half_positions(&mut self, whole: ValueId, half: ValueId) -> Result<Vec<[usize; 2]>, Failure> {
        let (whole, half) = (self.tile_type(whole)?, self.tile_type(half)?);
        let (w, h) = (self.distribution(&whole)?, self.distribution(&half)?);
        let find = |r: &Vec<i64>, part: i64| {
            let mut at = r.clone();
            at[0] = at[0] / 8 * 16 + part * 8 + at[0] % 8;
            w.regs.iter().position(|x| *x == at).ok_or_else(|| Failure::Bug(format!("{half} of {whole}")))
        };
        h.regs.iter().map(|r| Ok([find(r, 0)?, find(r, 1)?])).collect()
    }

    /// The scalars of values, tiles spelled out.
    fn flatten(&self, vs: &[ValueId]) -> Result<Vec<V>, Failure> {
        let mut flat = vec![];
        for v in vs {
            match self.values.get(v) {
                Some(Value::Scalar(x)) => flat.push(*x),
                Some(Value::Tile(x)) => flat.extend(x),
                other => return Err(Failure::Bug(format!("%{} is {other:?}: it cannot be carried", v.0))),
            }
        }
        Ok(flat)
    }

    /// The other way round: values from scalars.
    fn unflatten(&mut self, vs: &[ValueId], mut flat: &[V]) -> Result<(), Failure> {
        for v in vs {
            let value = match self.func.ty(*v) {
                Type::Tile(_) => {
                    let (head, rest) = flat.split_at(self.registers(*v)?);
                    flat = rest;
                    Value::Tile(head.to_vec())
                }
                _ => {
                    let (head, rest) = flat.split_at(1);
                    flat = rest;
                    Value::Scalar(head[0])
                }
            };
            self.values.insert(*v, value);
        }
        Ok(())
    }

    fn for_loop(&mut self, op: &Op) -> Result<(), Failure> {
        let bounds =
            [self.scalar(op.operands[0])?, self.scalar(op.operands[1])?, self.scalar(op.operands[2])?];
        let inits = self.flatten(&op.operands[3..])?;
        let body = &op.regions[0];
        // The emitter is lent to the loop while the rest of `self` is used inside.
        let mut e = std::mem::replace(&mut self.e, Emit::new(false));
        let results = e.for_loop(bounds, &inits, |e, iv, carried| {
            std::mem::swap(&mut self.e, e);
            let next = self.for_body(body, iv, carried);
            std::mem::swap(&mut self.e, e);
            next
        });
        self.e = e;
        let results = results?;
        self.unflatten(&op.results, &results)
    }

    fn for_body(&mut self, body: &Block, iv: V, carried: &[V]) -> Result<Vec<V>, Failure> {
        self.values.insert(body.args[0], Value::Scalar(iv));
        self.unflatten(&body.args[1..], carried)?;
        self.block(body)?;
        self.flatten(&body.ops[body.ops.len() - 1].operands)
    }

    fn if_else(&mut self, op: &Op) -> Result<(), Failure> {
        let cond = self.scalar(op.operands[0])?;
        let mut failed = None;
        let mut e = std::mem::replace(&mut self.e, Emit::new(false));
        let mut branch = |this: &mut Self, e: &mut Emit, i: usize| {
            std::mem::swap(&mut this.e, e);
            let block = &op.regions[i];
            let yields =
                this.block(block).and_then(|()| this.flatten(&block.ops[block.ops.len() - 1].operands));
            std::mem::swap(&mut this.e, e);
            yields.unwrap_or_else(|f| {
                failed = Some(f);
                vec![]
            })
        };
        let cell = std::cell::RefCell::new((&mut *self, &mut branch));
        let run = |e: &mut Emit, i: usize| {
            let mut c = cell.borrow_mut();
            let (this, branch) = &mut *c;
            branch(this, e, i)
        };
        let results = e.if_else(cond, |e| run(e, 0), |e| run(e, 1));
        self.e = e;
        match failed {
            Some(f) => Err(f),
            None => self.unflatten(&op.results, &results),
        }
    }
}
