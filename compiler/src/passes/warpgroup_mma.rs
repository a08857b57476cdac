//! # warpgroup-mma
//!
//! Turns every `tile.dot` into Hopper's asynchronous warpgroup matrix multiply with operands where the
//! instruction can read them.
//!
//! Before
//! ```text
//! %k = tile.load %K[...]            : 128x64xbf16
//! %s = tile.dot %q, trans(%k), %0   : 128x128xf32
//! ```
//! After
//! ```text
//! %kb = sm90.alloc                  : !sm90.buffer<128x64xbf16, swizzle 128>
//! %k = tile.load %K[...] ; sm90.local_store %k -> %kb
//! %f = sm90.wgmma %q, %kb {trans_b} : !sm90.inflight<128x128xf32>
//! %s = sm90.wgmma_wait %f           : 128x128xf32
//! ```
//! Requires: tiles without layouts. Ensures: no `tile.dot`; `warps` is set; every operand is a buffer, or a register tile for A where that is possible.
//!
//! Operand forms: a tile that is loaded goes through shared memory. A computed A stays in registers (RS)
//! when it is not transposed and its warpgroup holds whole rows; anything else is stored to a buffer.
//!
//! Declines (a user error): K not a multiple of the instruction's 16.

use super::{Failure, Problem};
use flashc_front::codes::Code;
use flashc_ir::layout::{Layout, Shared, acc_cols, acc_layout, acc_rows};
use flashc_ir::ops::{Kind, Literal};
use flashc_ir::{BufferType, Builder, Func, Op, Step, Type, ValueId};
use std::collections::{BTreeMap, HashMap};
use std::fmt;

/// K of one instruction on 16-bit operands.
const K_STEP: i64 = 16;
/// Columns of one instruction at most.
const MAX_COLUMNS: i64 = 256;
/// Warpgroups of a CTA at most: four keep 128 registers a thread.
const MAX_WARPGROUPS: i64 = 4;

/// What the pass decided: one entry a dot, in program order.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Warpgroups of the CTA.
    pub warpgroups: i64,
    /// The dots.
    pub dots: Vec<DotPlan>,
    /// Padded shape of the buffer of each tile that goes through shared memory, by defining value.
    pub buffers: BTreeMap<ValueId, Vec<i64>>,
}

/// One dot.
#[derive(Debug, Clone, PartialEq)]
pub struct DotPlan {
    /// M, N, K.
    pub shape: [i64; 3],
    /// Warpgroups along M and N.
    pub split: (i64, i64),
    /// Where A is.
    pub a: Operand,
    /// Where B is.
    pub b: Operand,
    /// Does the accumulator start at zero?
    pub zero: bool,
}

/// Where an operand is.
#[derive(Debug, Clone, PartialEq)]
pub enum Operand {
    /// In registers: the tile itself.
    Registers(ValueId),
    /// In shared memory: the buffer of this tile; transposed with respect to what the dot wants.
    Shared {
        /// The tile that the buffer holds.
        tile: ValueId,
        /// The buffer holds the transpose.
        trans: bool,
    },
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "warpgroups {}", self.warpgroups)?;
        for (i, d) in self.dots.iter().enumerate() {
            let [m, n, k] = d.shape;
            let form = if matches!(d.a, Operand::Registers(_)) { "RS" } else { "SS" };
            let trans = |o: &Operand| if matches!(o, Operand::Shared { trans: true, .. }) { "T" } else { "" };
            let (wm, wn) = d.split;
            writeln!(
                f,
                "dot {i}: {m}x{n}x{k} {form} A{} B{} over {wm}x{wn} warpgroups",
                trans(&d.a),
                trans(&d.b)
            )?;
        }
        Ok(())
    }
}

/// Runs the pass.
pub fn run(func: &Func) -> Result<Func, Failure> {
    let plan = plan(func)?;
    Ok(apply(func, &plan))
}

/// Decides operand forms, splits and buffers.
pub fn plan(func: &Func) -> Result<Plan, Failure> {
    let defs = func.defs();
    let mut dots: Vec<&Op> = vec![];
    func.walk(&mut |op| {
        if op.kind == Kind::Dot {
            dots.push(op);
        }
    });
    let shape = |v: ValueId| func.ty(v).as_tile().map(|t| t.shape.clone()).unwrap_or_default();
    let dims = |d: &Op| {
        let (a, b) = (shape(d.operands[0]), shape(d.operands[1]));
        [a[0], b[1], a[1]]
    };
    let warpgroups = dots.iter().map(|d| ((dims(d)[0] + 63) / 64).min(MAX_WARPGROUPS)).max().unwrap_or(1);
    let mut plan = Plan { warpgroups, dots: vec![], buffers: BTreeMap::new() };
    for d in dots {
        let [m, n, k] = dims(d);
        if k % K_STEP != 0 {
            return Err(Failure::user(Problem {
                code: Code::DotLength,
                message: format!("this dot sums over {k} elements, which is not a multiple of {K_STEP}"),
                label: format!("{m}x{k} times {k}x{n}"),
                help: format!(
                    "make the shared length of both tiles a multiple of {K_STEP}; elements past the end of a tensor read as 0"
                ),
                loc: d.loc.clone(),
            }));
        }
        let (tile, trans_b) = peel(d.operands[1], &defs);
        let b = Operand::Shared { tile, trans: trans_b };
        let Layout::Acc { wgm, wgn } = acc_layout(m, n, warpgroups, trans_b) else { continue };
        let split = (wgm, wgn);
        if acc_cols(n, wgn) > MAX_COLUMNS {
            return Err(Failure::user(Problem {
                code: Code::Registers,
                message: format!(
                    "the result of this dot has {n} columns, and a warpgroup can hold {MAX_COLUMNS}"
                ),
                label: format!("{m}x{k} times {k}x{n}, over {warpgroups} warpgroups"),
                help: format!("make the second tile at most {} columns wide", MAX_COLUMNS * wgn),
                loc: d.loc.clone(),
            }));
        }
        let a = match peel(d.operands[0], &defs) {
            (tile, false) if split.1 == 1 && !is_load(tile, &defs) => Operand::Registers(tile),
            (tile, trans) => Operand::Shared { tile, trans },
        };
        let (rows, cols) = (acc_rows(m, split.0) * split.0, acc_cols(n, split.1) * split.1);
        for (operand, (mn, outer_first)) in [(&a, (rows, true)), (&b, (cols, false))] {
            if let Operand::Shared { tile, trans } = operand {
                // A is M x K, B is K x N; the buffer holds the tile as it was stored.
                let mn_is_rows = outer_first != *trans;
                let want = if mn_is_rows { [mn, k] } else { [k, (mn + 15) / 16 * 16] };
                let have = plan.buffers.entry(*tile).or_insert_with(|| want.to_vec());
                have[0] = have[0].max(want[0]);
                have[1] = have[1].max(want[1]);
            }
        }
        let zero = matches!(defs.get(&d.operands[2]).map(|o| &o.kind), Some(Kind::Splat)
            if is_zero(defs[&d.operands[2]].operands[0], &defs));
        plan.dots.push(DotPlan { shape: [m, n, k], split, a, b, zero });
    }
    Ok(plan)
}

/// Looks through transposes.
fn peel(v: ValueId, defs: &HashMap<ValueId, &Op>) -> (ValueId, bool) {
    match defs.get(&v) {
        Some(op) if op.kind == Kind::Trans => {
            let (inner, t) = peel(op.operands[0], defs);
            (inner, !t)
        }
        _ => (v, false),
    }
}

fn is_load(v: ValueId, defs: &HashMap<ValueId, &Op>) -> bool {
    matches!(defs.get(&v).map(|o| &o.kind), Some(Kind::Load { .. }))
}

fn is_zero(v: ValueId, defs: &HashMap<ValueId, &Op>) -> bool {
    matches!(defs.get(&v).map(|o| &o.kind), Some(Kind::Constant(Literal::Float(x))) if *x == 0.0 && x.is_sign_positive())
}

/// Rebuilds the function.
fn apply(func: &Func, plan: &Plan) -> Func {
    if plan.dots.is_empty() {
        return func.clone();
    }
    let (mut b, mut map) = Builder::like(func);
    b.func.warps = Some(plan.warpgroups * flashc_ir::layout::WARPGROUP);
    let mut buffers = HashMap::new();
    for (tile, shape) in &plan.buffers {
        let t = func.ty(*tile).as_tile().expect("planned from tiles");
        let layout = Shared::widest(shape[1], t.elem);
        let ty = BufferType { shape: shape.clone(), elem: t.elem, layout };
        b.loc = func.defs().get(tile).map_or(func.loc.clone(), |o| o.loc.clone());
        buffers.insert(*tile, b.op1(Kind::Alloc { offset: None }, &[], Type::Buffer(ty)));
    }
    // A tile may feed dots both as a load (its buffer is filled where it is loaded) and as a computed
    // value (filled before the dot).
    let uses = func.uses();
    let mut next = 0;
    let defs = func.defs();
    for op in &func.body.ops {
        if op.kind == Kind::Return {
            continue;
        }
        b.copy_with(func, op, &mut map, &mut |b, old, op, map| match &op.kind {
            Kind::Load { .. } if buffers.contains_key(&op.result()) => {
                let operands: Vec<_> = op.operands.iter().map(|v| map[v]).collect();
                let ty = old.ty(op.result()).clone();
                let t = b.op1(op.kind.clone(), &operands, ty.clone());
                b.op(Kind::LocalStore, &[t, buffers[&op.result()]], &[]);
                if needed_in_registers(op.result(), &uses) {
                    let again = b.op1(op.kind.clone(), &operands, ty);
                    map.insert(op.result(), again);
                }
                Step::Done
            }
            // A transpose that only dots look through.
            Kind::Trans if !map.contains_key(&op.operands[0]) => Step::Done,
            Kind::Dot => {
                let d = &plan.dots[next];
                next += 1;
                lower_dot(b, op, d, &buffers, &defs, map);
                Step::Done
            }
            _ => Step::Copy,
        });
    }
    b.finish()
}

/// Does anything but a dot that reads the buffer want this load?
fn needed_in_registers(v: ValueId, uses: &HashMap<ValueId, Vec<&Op>>) -> bool {
    uses.get(&v).into_iter().flatten().any(|u| match u.kind {
        Kind::Dot => u.operands[2] == v,
        Kind::Trans => needed_in_registers(u.result(), uses),
        _ => true,
    })
}

fn lower_dot(
    b: &mut Builder,
    op: &Op,
    d: &DotPlan,
    buffers: &HashMap<ValueId, ValueId>,
    defs: &HashMap<ValueId, &Op>,
    map: &mut HashMap<ValueId, ValueId>,
) {
    let operand = |b: &mut Builder, o: &Operand| match o {
        Operand::Registers(v) => (map[v], false),
        Operand::Shared { tile, trans } => {
            if !is_load(*tile, defs) {
                b.op(Kind::LocalStore, &[map[tile], buffers[tile]], &[]);
            }
            (buffers[tile], *trans)
        }
    };
    let (a, trans_a) = operand(b, &d.a);
    let (bb, trans_b) = operand(b, &d.b);
    let ty = flashc_ir::TileType::new(&d.shape[..2], flashc_ir::Elem::F32);
    let mut operands = vec![a, bb];
    if !d.zero {
        operands.push(map[&op.operands[2]]);
    }
    let inflight =
        b.op1(Kind::Wgmma { trans_a, trans_b, acc: !d.zero }, &operands, Type::InFlight(ty.clone()));
    let mut waited = vec![inflight];
    if matches!(d.a, Operand::Registers(_)) {
        waited.push(a);
    }
    let done = b.op1(Kind::WgmmaWait { pending: 0 }, &waited, Type::Tile(ty));
    map.insert(op.result(), done);
}
