//! # wide-stores
//!
//! A tile that a matrix product has made is stored in runs of 16 bytes a thread. Its accumulator's layout
//! gives a thread two adjacent columns; exchanging within quads of lanes gives it a run of them.
//!
//! Before
//! ```text
//! tile.store %o, %O[...]                      : 128x128xbf16, #acc        // 4 bytes a thread
//! ```
//! After
//! ```text
//! %w = tile.convert %o                        : #acc -> #acc_runs<run = 8>
//! tile.store %w, %O[...]                      // 16 bytes a thread, 64 adjacent bytes a row
//! ```
//! Requires: layouts. Ensures: the conversions it adds need two shuffles a register and no shared memory.
//!
//! A run is as long as 16 bytes, or as four of them fit in the columns of a warpgroup. Four lanes then write
//! a whole sector of 32 bytes or more of each row. The alternatives are in `docs/design/epilogue.md`.
//!
//! Declines when: the tile's last axis is not the tensor's, or nothing shows that the store starts at a
//! multiple of a run. The variant for any strides skips this pass.

use flashc_ir::divisor::Divisors;
use flashc_ir::layout::{ACC_RUN, Layout, QUAD};
use flashc_ir::ops::Kind;
use flashc_ir::{Builder, Func, Op, Step, Type, ValueId, shuffle};
use std::fmt;

/// Bytes of the widest access.
const RUN_BYTES: i64 = 16;

/// The stores that get wider.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    /// One entry a site.
    pub sites: Vec<Site>,
}

/// A store.
#[derive(Debug, Clone, PartialEq)]
pub struct Site {
    /// Which of the function's stores, in program order.
    pub store: usize,
    /// The tile.
    pub tile: ValueId,
    /// The layout that it is stored in.
    pub layout: Layout,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for s in &self.sites {
            writeln!(f, "store {}: %{} as {}", s.store, s.tile.0, s.layout)?;
        }
        Ok(())
    }
}

/// Runs the pass.
pub fn run(func: &Func) -> Func {
    let plan = plan(func);
    if plan.sites.is_empty() { func.clone() } else { apply(func, &plan) }
}

/// Finds the stores.
pub fn plan(func: &Func) -> Plan {
    let (mut divisors, mut plan, mut stores) = (Divisors::new(func), Plan::default(), 0);
    func.walk(&mut |op| {
        if let Kind::Store { .. } = &op.kind {
            if let Some(layout) = layout(func, op, &mut divisors) {
                let tile = op.operands[op.operands.len() - 1];
                plan.sites.push(Site { store: stores, tile, layout });
            }
            stores += 1;
        }
    });
    plan
}

/// The layout that a store should have, if it is another one.
pub(super) fn layout(func: &Func, op: &Op, divisors: &mut Divisors<'_>) -> Option<Layout> {
    let Kind::Store { axes } = &op.kind else { return None };
    let rank = func.ty(op.operands[0]).as_tensor()?.dims.len();
    let t = func.ty(op.operands[op.operands.len() - 1]).as_tile()?;
    let (Some(Layout::Acc { wgm, wgn }), &[_, last]) = (&t.layout, &axes[..]) else { return None };
    let columns = t.shape[1] / wgn;
    let mut run = RUN_BYTES / t.elem.bytes();
    while run > ACC_RUN && QUAD * run > columns {
        run /= 2;
    }
    let fits = run > ACC_RUN && last + 1 == rank && divisors.of(op.operands[1 + last]) % run == 0;
    let runs = Layout::AccRuns { wgm: *wgm, wgn: *wgn, run };
    let within_quads = || {
        let from = t.layout.as_ref()?.distribution(&t.shape);
        shuffle::plan(&from, &runs.distribution(&t.shape))
    };
    (fits && within_quads().is_some()).then_some(runs)
}

fn apply(func: &Func, plan: &Plan) -> Func {
    let mut stores = 0;
    Builder::rebuild(func, &mut |b, old, op, map| {
        if !matches!(op.kind, Kind::Store { .. }) {
            return Step::Copy;
        }
        let site = plan.sites.iter().find(|s| s.store == stores);
        stores += 1;
        let (Some(site), Some((tile, rest))) = (site, op.operands.split_last()) else { return Step::Copy };
        let Some(t) = old.ty(*tile).as_tile() else { return Step::Copy };
        let wide = Type::Tile(t.with_layout(site.layout.clone()));
        let mut operands: Vec<_> = rest.iter().map(|v| map[v]).collect();
        operands.push(b.op1(Kind::Convert, &[map[tile]], wide));
        Step::With(operands)
    })
}
