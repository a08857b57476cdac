//! # assign-layouts
//!
//! Decides which thread holds which element of every register tile.
//!
//! Before
//! ```text
//! %m = tile.reduce max %s, axis 1 : !tile.tile<128x64xf32, #acc> -> !tile.tile<128xf32>
//! %p = tile.exp2 %x               : !tile.tile<128x64xf32>
//! ```
//! After
//! ```text
//! %m = tile.reduce max %s, axis 1 : !tile.tile<128x64xf32, #acc> -> !tile.tile<128xf32, #slice<1, #acc>>
//! %p = tile.exp2 %x               : !tile.tile<128x64xf32, #acc>
//! ```
//! Requires: `warpgroup-mma` has given accumulators their layouts. Ensures: every tile has a layout, all
//! for the same number of warps; operations that work register by register have operands and results in
//! one layout; a reduction's result is a slice of its operand's layout. Where wishes disagree a
//! `tile.convert` says so.
//!
//! How: values that one elementwise operation or one loop ties together form a class and share a layout.
//! A class with an accumulator gets its layout; broadcasts and reductions pass slices of it on to
//! vectors, and vectors the whole to tiles; what is left gets a blocked layout whose runs are 16 bytes
//! along the last axis. `iota` and `splat` cost nothing and are repeated for each use, so that one
//! constant vector does not tie rows to columns.

use super::Failure;
use flashc_ir::layout::{LANES, Layout, WARPGROUP, acc_layout};
use flashc_ir::ops::Kind;
use flashc_ir::{Builder, Func, Op, Step, TileType, Type, ValueId};
use std::collections::{BTreeMap, HashMap};
use std::fmt;

/// Warps of a program without a matrix product.
const DEFAULT_WARPS: i64 = 4;
/// Its warps where a tile is large.
const MANY_WARPS: i64 = 8;
/// From so many elements on.
const LARGE_TILE: i64 = 8192;

/// The layout of every tile.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Warps of the CTA.
    pub warps: i64,
    /// Layout by value.
    pub layouts: BTreeMap<ValueId, Layout>,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "warps {}", self.warps)?;
        let mut by_layout: BTreeMap<String, Vec<u32>> = BTreeMap::new();
        for (v, l) in &self.layouts {
            by_layout.entry(l.to_string()).or_default().push(v.0);
        }
        for (layout, values) in by_layout {
            let values: Vec<_> = values.iter().map(|v| format!("%{v}")).collect();
            writeln!(f, "{layout}: {}", values.join(" "))?;
        }
        Ok(())
    }
}

/// Runs the pass.
pub fn run(func: &Func) -> Result<Func, Failure> {
    let func = repeat_constants(func);
    let plan = plan(&func);
    Ok(apply(&func, &plan))
}

/// One `iota` or `splat` a use.
fn repeat_constants(func: &Func) -> Func {
    let defs = func.defs();
    let cheap = |v: ValueId| defs.get(&v).copied().filter(|d| matches!(d.kind, Kind::Iota | Kind::Splat));
    Builder::rebuild(func, &mut |b, old, op, map| {
        let mut operands = vec![];
        for v in &op.operands {
            operands.push(match cheap(*v) {
                Some(d) => {
                    let inner: Vec<_> = d.operands.iter().map(|o| map[o]).collect();
                    b.op1(d.kind.clone(), &inner, old.ty(*v).clone())
                }
                None => map[v],
            });
        }
        Step::With(operands)
    })
}

#[derive(Clone, Copy)]
enum Link {
    /// The vector is the tile without this axis.
    Slice { tile: ValueId, vector: ValueId, axis: usize },
}

struct Classes {
    parent: Vec<u32>,
}

impl Classes {
    fn find(&mut self, v: ValueId) -> u32 {
        let mut i = v.0;
        while self.parent[i as usize] != i {
            let up = self.parent[self.parent[i as usize] as usize];
            self.parent[i as usize] = up;
            i = up;
        }
        i
    }

    fn join(&mut self, a: ValueId, b: ValueId) {
        let (a, b) = (self.find(a), self.find(b));
        // The older value names the class, so that plans do not depend on the order of joins.
        self.parent[a.max(b) as usize] = a.min(b);
    }
}

/// Finds classes and gives each a layout.
pub fn plan(func: &Func) -> Plan {
    let mut classes = Classes { parent: (0..func.values.len() as u32).collect() };
    let (mut anchors, mut links, mut wishes) = (vec![], vec![], vec![]);
    let tile = |v: ValueId| func.ty(v).as_tile();
    func.walk(&mut |op| {
        collect(func, op, &mut classes, &mut links);
        if let Kind::Wgmma { trans_b, .. } = &op.kind {
            let Type::InFlight(t) = func.ty(op.results[0]) else { return };
            let l = acc_layout(
                t.shape[0],
                t.shape[1],
                func.tile_warps().unwrap_or(WARPGROUP) / WARPGROUP,
                *trans_b,
            );
            wishes.extend(op.operands.iter().filter(|v| tile(**v).is_some()).map(|v| (*v, l.clone())));
            anchors.push((op.results[0], l));
        }
    });
    let biggest = func.values.iter().filter_map(Type::as_tile).map(TileType::len).max().unwrap_or(1);
    let warps = func.tile_warps().unwrap_or(if biggest >= LARGE_TILE { MANY_WARPS } else { DEFAULT_WARPS });

    let mut chosen: HashMap<u32, Layout> = HashMap::new();
    for (v, l) in anchors.into_iter().chain(wishes) {
        chosen.entry(classes.find(v)).or_insert(l);
    }
    // Tiles that nothing decides, the largest first: they carry the most work.
    let mut open: Vec<ValueId> =
        (0..func.values.len() as u32).map(ValueId).filter(|v| tile(*v).is_some()).collect();
    open.sort_by_key(|v| tile(*v).map(|t| (std::cmp::Reverse(t.shape.len()), std::cmp::Reverse(t.len()))));
    spread(&mut classes, &links, &mut chosen, func);
    for v in &open {
        let class = classes.find(*v);
        if let (None, Some(t)) = (chosen.get(&class), tile(*v)) {
            let widest = members_widest(func, &mut classes, class).unwrap_or(t.elem.bytes());
            chosen.insert(class, blocked(&t.shape, widest, warps));
            spread(&mut classes, &links, &mut chosen, func);
        }
    }
    let flying =
        (0..func.values.len() as u32).map(ValueId).filter(|v| matches!(func.ty(*v), Type::InFlight(_)));
    let layouts = open.iter().copied().chain(flying).map(|v| (v, chosen[&classes.find(v)].clone())).collect();
    Plan { warps, layouts }
}

/// Bytes of the narrowest element type in a class that memory is accessed with: its 16-byte runs decide.
fn members_widest(func: &Func, classes: &mut Classes, class: u32) -> Option<i64> {
    let mut bytes: Option<i64> = None;
    let mut accessed = vec![];
    func.walk(&mut |op| match op.kind {
        Kind::Load { .. } | Kind::LocalLoad => accessed.push(op.results[0]),
        Kind::Store { .. } => accessed.extend(op.operands.last()),
        Kind::LocalStore => accessed.push(op.operands[0]),
        _ => {}
    });
    for v in accessed {
        if classes.find(v) == class {
            let b = func.ty(v).elem().map_or(4, |e| e.bytes());
            bytes = Some(bytes.map_or(b, |x| x.min(b)));
        }
    }
    bytes
}

/// Ties values that must share a layout, and notes vectors that are slices of tiles.
fn collect(func: &Func, op: &Op, classes: &mut Classes, links: &mut Vec<Link>) {
    let is_tile = |v: ValueId| func.ty(v).as_tile().is_some();
    let rank = |v: ValueId| func.ty(v).as_tile().map_or(0, |t| t.shape.len());
    let all = |classes: &mut Classes, vs: &[ValueId]| {
        let tiles: Vec<_> = vs.iter().copied().filter(|v| is_tile(*v)).collect();
        for pair in tiles.windows(2) {
            classes.join(pair[0], pair[1]);
        }
    };
    match &op.kind {
        Kind::Binary(_) | Kind::Unary(_) | Kind::Fma | Kind::Compare(_) | Kind::Select | Kind::Cast(_) => {
            all(classes, &[op.operands.clone(), op.results.clone()].concat());
        }
        Kind::For { .. } => {
            let body = &op.regions[0];
            let yields = &body.ops[body.ops.len() - 1].operands;
            for (i, r) in op.results.iter().enumerate() {
                all(classes, &[op.operands[3 + i], *r, body.args[1 + i], yields[i]]);
            }
        }
        Kind::If => {
            for region in &op.regions {
                let yields = &region.ops[region.ops.len() - 1].operands;
                for (r, y) in op.results.iter().zip(yields) {
                    all(classes, &[*r, *y]);
                }
            }
        }
        // The result of a wait has the layout of what was in flight; a register A has the same as D, which
        // is a wish only: another product may have made it.
        Kind::WgmmaWait { .. } => classes.join(op.operands[0], op.results[0]),
        Kind::Broadcast { dims } if rank(op.results[0]) == dims.len() + 1 => {
            let axis = (0..=dims.len()).find(|a| !dims.contains(a)).unwrap_or(0);
            links.push(Link::Slice { tile: op.results[0], vector: op.operands[0], axis });
        }
        Kind::Reduce { axis, .. } if is_tile(op.results[0]) => {
            links.push(Link::Slice { tile: op.operands[0], vector: op.results[0], axis: *axis });
        }
        _ => {}
    }
}

/// Passes layouts along links until nothing changes.
fn spread(classes: &mut Classes, links: &[Link], chosen: &mut HashMap<u32, Layout>, func: &Func) {
    let mut changed = true;
    while changed {
        changed = false;
        for Link::Slice { tile, vector, axis } in links {
            let (t, v) = (classes.find(*tile), classes.find(*vector));
            match (chosen.get(&t).cloned(), chosen.get(&v).cloned()) {
                (Some(l), None) => {
                    chosen.insert(v, l.slice(*axis));
                    changed = true;
                }
                (None, Some(Layout::Slice { dim, parent }))
                    if dim == *axis
                        && func.ty(*tile).as_tile().is_some_and(|t| t.shape.len() == parent.rank()) =>
                {
                    chosen.insert(t, *parent);
                    changed = true;
                }
                _ => {}
            }
        }
    }
}

/// Runs of 16 bytes along the last axis, lanes along it first, warps along the first axis first.
pub fn blocked(shape: &[i64], elem_bytes: i64, warps: i64) -> Layout {
    let rank = shape.len();
    let (mut per_thread, mut lanes, mut split) = (vec![1; rank], vec![1; rank], vec![1; rank]);
    let last = rank - 1;
    let floor_pow2 = |n: i64| 1i64 << n.max(1).ilog2();
    let ceil_pow2 = |n: i64| n.max(1).next_power_of_two_i64();
    let spread_over = if rank == 1 { LANES as i64 * warps } else { 1 };
    per_thread[last] = floor_pow2(shape[last] / spread_over).min((16 / elem_bytes).max(1));
    let mut left = LANES as i64;
    for d in (0..rank).rev() {
        let want = ceil_pow2((shape[d] + per_thread[d] - 1) / per_thread[d]);
        lanes[d] = if d == 0 { left } else { want.min(left) };
        left /= lanes[d];
    }
    let mut left = warps;
    for d in 0..rank {
        let room = (shape[d] + per_thread[d] * lanes[d] - 1) / (per_thread[d] * lanes[d]);
        split[d] = if d == last {
            left
        } else {
            (1..=left).filter(|w| left % w == 0 && *w <= room).max().unwrap_or(1)
        };
        left /= split[d];
    }
    Layout::Blocked { per_thread, lanes, warps: split }
}

trait NextPow2 {
    fn next_power_of_two_i64(self) -> i64;
}

impl NextPow2 for i64 {
    fn next_power_of_two_i64(self) -> i64 {
        (self as u64).next_power_of_two() as i64
    }
}

/// Gives every tile its layout and inserts conversions where an operation wants another.
fn apply(func: &Func, plan: &Plan) -> Func {
    let mut f = func.clone();
    f.warps = func.warps.or(Some(plan.warps));
    for (v, l) in &plan.layouts {
        if let Type::Tile(t) | Type::InFlight(t) = &mut f.values[v.0 as usize] {
            t.layout = Some(l.clone());
        }
    }
    debug_assert!(plan.layouts.values().all(|l| l.warps() == plan.warps), "{plan}");
    debug_assert_eq!(plan.warps % WARPGROUP, 0);
    Builder::rebuild(&f, &mut |b, old, op, map| {
        let wants = wanted(old, op);
        let mut operands = vec![];
        for v in &op.operands {
            let layout = wants.iter().find(|w| w.0 == *v).map(|w| w.1.clone());
            let have = b.ty(map[v]).as_tile().cloned();
            operands.push(match (have, layout) {
                (Some(t), Some(l)) if t.layout.as_ref() != Some(&l) => {
                    b.op1(Kind::Convert, &[map[v]], Type::Tile(t.with_layout(l)))
                }
                _ => map[v],
            });
        }
        Step::With(operands)
    })
}

/// Operands whose layout the operation decides, with that layout.
fn wanted(func: &Func, op: &Op) -> Vec<(ValueId, Layout)> {
    let layout = |v: ValueId| match func.ty(v) {
        Type::Tile(t) | Type::InFlight(t) => t.layout.clone(),
        _ => None,
    };
    match &op.kind {
        Kind::Wgmma { .. } => {
            let Some(l) = layout(op.results[0]) else { return vec![] };
            op.operands.iter().filter(|v| func.ty(**v).as_tile().is_some()).map(|v| (*v, l.clone())).collect()
        }
        Kind::Broadcast { dims } => {
            let Some(mut l) = layout(op.results[0]) else { return vec![] };
            let rank = func.ty(op.results[0]).as_tile().map_or(0, |t| t.shape.len());
            for axis in (0..rank).rev().filter(|a| !dims.contains(a)) {
                l = l.slice(axis);
            }
            vec![(op.operands[0], l)]
        }
        _ => vec![],
    }
}
