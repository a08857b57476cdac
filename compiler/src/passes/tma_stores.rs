//! # tma-stores
//!
//! A tile goes to its tensor by way of shared memory: it is put into a buffer, from which the tensor memory
//! accelerator copies it while the threads go on. Each warpgroup copies what it holds itself, so that
//! warpgroups need not meet.
//!
//! Before
//! ```text
//! tile.store %c, %C[%m, %n]                                 : 128x256xbf16, #acc<wgm = 2>
//! ```
//! After
//! ```text
//! sm90.local_store %c -> %buf
//! sm90.tma_store %buf -> %C[%m, %n] parts 2, 1              // a fence and barriers come with place-barriers
//! ...
//! sm90.tma_store_wait pending 0 read of %buf                // before the threads end
//! ```
//! Requires: layouts. Ensures: a buffer that copies read is not written before a wait for them, and the
//! threads wait before they end. In a loop that wait is for the tensor to be written, so that iterations
//! which store the same elements do it in order.
//!
//! Which stores: those for which it is free and pays, see `docs/design/epilogue.md`.
//! 1. The tile lies in a swizzled buffer already, for a product.
//! 2. It is an accumulator's, the buffer costs nothing, and either its rows are long (512 bytes or more) or
//!    `wide-stores` could not store them in whole runs. A buffer costs nothing if the shared memory of the
//!    kernel does not grow, or if it grows within the target's limit and the kernel has roles, which leave
//!    no room for a second CTA anyway.
//!
//! `stores = direct` switches it off, `stores = tma` takes every store that fits.
//!
//! A bulk store writes whole units of 16 bytes: one that starts within a unit is an illegal instruction, and one that
//! ends within it writes past the row (both found on an H200). So the first column must be a multiple of 16 bytes
//! for certain, and the length of a row is one by its type, or the variant requires it of the tensor.
//!
//! Declines when: that is not so; the tile has not rank 2 or rows of whole 32 bytes, the tensor has more than five axes, the
//! tile's last axis is not the tensor's, or the kernel loads the tensor or stores to it elsewhere as well.

use super::{allocate_shared, exchange, wide_stores};
use flashc_ir::divisor::Divisors;
use flashc_ir::layout::{Layout, WARPGROUP, acc_cols, acc_rows, box_rows};
use flashc_ir::ops::Kind;
use flashc_ir::target::Target;
use flashc_ir::types::Dim;
use flashc_ir::{Block, BufferType, Builder, Func, Op, Shared, Step, TileType, Type, ValueId};
use std::collections::{HashMap, HashSet};
use std::fmt;

/// Axes of a tensor map at most.
const MAX_RANK: usize = 5;
/// Bytes of a row from which on a copy pays.
const LONG_ROW: i64 = 512;
/// Bytes that a bulk store writes at once.
const UNIT: i64 = 16;
/// Rows of a slab end where 32 bytes do.
const SECTOR: i64 = 32;

/// How tiles reach tensors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stores {
    /// By the rules above.
    #[default]
    Auto,
    /// Always from registers.
    Direct,
    /// Through shared memory wherever that fits.
    Tma,
}

impl Stores {
    /// Every one by name.
    pub const ALL: [(&'static str, Stores); 3] =
        [("auto", Stores::Auto), ("direct", Stores::Direct), ("tma", Stores::Tma)];

    /// From its name.
    pub fn from_name(name: &str) -> Option<Stores> {
        Stores::ALL.into_iter().find(|s| s.0 == name).map(|s| s.1)
    }
}

/// The stores that become copies.
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
    /// Where it is copied from.
    pub from: Source,
    /// Parts of the buffer, one for each warpgroup, or one in all.
    pub parts: (i64, i64),
    /// Is it in a loop?
    pub looped: bool,
}

/// The buffer of a copy.
#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    /// One of its own.
    Staged(BufferType),
    /// One that holds the tile anyway; the second part says that it is filled after the store only, so that
    /// the copy stands there.
    Held(ValueId, bool),
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for s in &self.sites {
            let (m, n) = s.parts;
            write!(f, "store {}: %{} in {m} by {n} parts ", s.store, s.tile.0)?;
            match &s.from {
                Source::Staged(b) => write!(f, "through {} bytes", b.bytes())?,
                Source::Held(v, _) => write!(f, "from %{}, where it lies", v.0)?,
            }
            writeln!(f, "{}", if s.looped { ", in a loop" } else { "" })?;
        }
        Ok(())
    }
}

/// Runs the pass.
pub fn run(func: &Func, target: &Target, stores: Stores) -> Func {
    let plan = plan(func, target, stores);
    if plan.sites.is_empty() { func.clone() } else { apply(func, &plan) }
}

/// Decides.
pub fn plan(func: &Func, target: &Target, stores: Stores) -> Plan {
    let mut plan = Plan::default();
    if stores == Stores::Direct {
        return plan;
    }
    let mut divisors = Divisors::new(func);
    let mut roles = false;
    func.walk(&mut |op| roles |= matches!(op.kind, Kind::Roles { .. }));
    let shared = |p: &Plan| allocate_shared::plan(&exchange::run(&apply(func, p))).bytes;
    let mut have = shared(&plan);
    for (site, op) in candidates(func) {
        let mut with = plan.clone();
        with.sites.push(site.clone());
        let bytes = shared(&with);
        let free = bytes <= have || roles;
        if !whole_units(func, op, &mut divisors) {
            continue;
        }
        let worth = match (&site.from, stores) {
            (_, Stores::Tma) | (Source::Held(..), _) => true,
            (Source::Staged(b), _) => {
                let accumulator =
                    tile(func, op).is_some_and(|t| matches!(t.layout, Some(Layout::Acc { .. })));
                let long = b.shape[1] * b.elem.bytes() >= LONG_ROW;
                free && accumulator && (long || wide_stores::layout(func, op, &mut divisors).is_none())
            }
        };
        if worth && bytes <= target.shared_bytes {
            (plan, have) = (with, bytes);
        }
    }
    plan
}

/// Does a store begin at a multiple of 16 bytes, and can rows end at one?
fn whole_units(func: &Func, op: &Op, divisors: &mut Divisors<'_>) -> bool {
    let Some(tensor) = func.ty(op.operands[0]).as_tensor() else { return false };
    let last = tensor.dims.len() - 1;
    let whole = |elements: i64| elements * tensor.elem.bytes() % UNIT == 0;
    let ends = match tensor.dims[last] {
        Dim::Const(n) => whole(n),
        Dim::Sym(_) => true,
    };
    ends && whole(divisors.of(op.operands[1 + last]))
}

/// The tile that a store writes.
fn tile<'a>(func: &'a Func, op: &Op) -> Option<&'a TileType> {
    func.ty(*op.operands.last()?).as_tile()
}

/// Every store that could be a copy.
fn candidates(func: &Func) -> Vec<(Site, &Op)> {
    let mut uses: HashMap<ValueId, usize> = HashMap::new();
    func.walk(&mut |op| {
        for v in op.operands.iter().filter(|v| func.ty(**v).as_tensor().is_some()) {
            *uses.entry(*v).or_default() += 1;
        }
    });
    let (mut out, mut stores) = (vec![], 0);
    find(&func.body, false, &mut stores, &mut |store, block, i, looped| {
        let op = &block.ops[i];
        if let Some(site) = candidate(func, store, block, i, looped).filter(|_| uses[&op.operands[0]] == 1) {
            out.push((site, op));
        }
    });
    out
}

/// Calls `f` with the number, block and place of each store.
fn find<'a>(
    block: &'a Block,
    looped: bool,
    stores: &mut usize,
    f: &mut dyn FnMut(usize, &'a Block, usize, bool),
) {
    for (i, op) in block.ops.iter().enumerate() {
        if matches!(op.kind, Kind::Store { .. }) {
            f(*stores, block, i, looped);
            *stores += 1;
        }
        let looped = looped || matches!(op.kind, Kind::For { .. });
        for r in &op.regions {
            find(r, looped, stores, f);
        }
    }
}

fn candidate(func: &Func, store: usize, block: &Block, i: usize, looped: bool) -> Option<Site> {
    let op = &block.ops[i];
    let Kind::Store { axes } = &op.kind else { return None };
    let rank = func.ty(op.operands[0]).as_tensor()?.dims.len();
    let value = *op.operands.last()?;
    let t = func.ty(value).as_tile()?;
    let (&[m, n], &[_, last]) = (&t.shape[..], &axes[..]) else { return None };
    if last + 1 != rank || rank > MAX_RANK || n * t.elem.bytes() % SECTOR != 0 || box_rows(m).is_none() {
        return None;
    }
    let held = held(func, block, i, value);
    let b = BufferType { shape: t.shape.clone(), elem: t.elem, layout: Shared::widest(n, t.elem) };
    let slab = b.layout.slab_cols(n, t.elem);
    // A warpgroup copies its part if that is what it holds, in whole boxes.
    let groups = func.tile_warps().unwrap_or(WARPGROUP) / WARPGROUP;
    let parts = match t.layout {
        Some(Layout::Acc { wgm, wgn } | Layout::AccRuns { wgm, wgn, .. })
            if held.is_none()
                && wgm * wgn == groups
                && (wgm == 1 || acc_rows(m, wgm) * wgm == m)
                && acc_cols(n, wgn) * wgn == n
                && acc_cols(n, wgn) % slab == 0
                && box_rows(m / wgm).is_some() =>
        {
            (wgm, wgn)
        }
        _ => (1, 1),
    };
    let from = held.map_or(Source::Staged(b), |(v, late)| Source::Held(v, late));
    Some(Site { store, tile: value, from, parts, looped })
}

/// A buffer that the stored tile is put into in the same block, and nothing else ever; is that after the
/// store?
fn held(func: &Func, block: &Block, store: usize, value: ValueId) -> Option<(ValueId, bool)> {
    let shape = &func.ty(value).as_tile()?.shape;
    let put = block.ops.iter().position(|o| o.kind == Kind::LocalStore && o.operands[0] == value)?;
    let buffer = block.ops[put].operands[1];
    let b = func.ty(buffer).as_buffer()?;
    // Where the threads end it must be in scope.
    let own = func.body.ops.iter().any(|o| matches!(o.kind, Kind::Alloc { .. }) && o.result() == buffer);
    let (mut copied, mut written) = (false, 0);
    func.walk(&mut |op| match op.kind {
        Kind::TmaLoad { .. } => copied |= op.operands.contains(&buffer),
        Kind::LocalStore => written += (op.operands[1] == buffer) as usize,
        _ => {}
    });
    let fits = own && !copied && written == 1 && b.layout.swizzle != 0 && b.shape == *shape;
    fits.then_some((buffer, put > store))
}

fn apply(func: &Func, plan: &Plan) -> Func {
    let (mut b, mut map) = Builder::like(func);
    let mut stores: HashMap<usize, (&Site, ValueId)> = HashMap::new();
    for s in &plan.sites {
        if let Source::Staged(ty) = &s.from {
            b.loc = func.loc.clone();
            let buffer = b.op1(Kind::Alloc { offset: None }, &[], Type::Buffer(ty.clone()));
            stores.insert(s.store, (s, buffer));
        } else if let Source::Held(v, _) = s.from {
            stores.insert(s.store, (s, v));
        }
    }
    // Where the threads that store come to their end: the first role's, if there are roles.
    let role = func.body.ops.iter().find(|o| matches!(o.kind, Kind::Roles { .. }));
    let end = role.and_then(|o| o.regions.first()?.ops.last()).map(std::ptr::from_ref);
    let reused: HashSet<ValueId> = plan
        .sites
        .iter()
        .filter_map(|s| match s.from {
            Source::Held(v, _) if s.looped => Some(v),
            _ => None,
        })
        .collect();
    let buffers = |map: &HashMap<ValueId, ValueId>| -> Vec<ValueId> {
        let of = |s: &Site| match &stores[&s.store] {
            (Site { from: Source::Staged(_), .. }, new) => *new,
            (_, old) => map[old],
        };
        plan.sites.iter().map(of).collect()
    };
    let last = |b: &mut Builder, map: &HashMap<ValueId, ValueId>| {
        let all = buffers(map);
        if !all.is_empty() {
            b.op(Kind::TmaStoreWait { pending: 0, read: true }, &all, &[]);
        }
    };
    // By buffer, the stores whose copies stand where it is filled.
    let mut late: HashMap<ValueId, (Vec<ValueId>, Kind)> = HashMap::new();
    let mut count = 0;
    for op in func.body.ops.iter().filter(|o| o.kind != Kind::Return) {
        b.copy_with(func, op, &mut map, &mut |b, _, op, map| match &op.kind {
            Kind::Yield if end == Some(std::ptr::from_ref(op)) => {
                last(b, map);
                Step::Copy
            }
            Kind::LocalStore => {
                let buffer = map[&op.operands[1]];
                if reused.contains(&op.operands[1]) {
                    b.op(Kind::TmaStoreWait { pending: 0, read: false }, &[buffer], &[]);
                }
                let Some((operands, copy)) = late.get(&op.operands[1]) else { return Step::Copy };
                b.op(Kind::LocalStore, &[map[&op.operands[0]], buffer], &[]);
                b.op(copy.clone(), operands, &[]);
                Step::Done
            }
            Kind::Store { axes } => {
                count += 1;
                let Some((site, buffer)) = stores.get(&(count - 1)) else { return Step::Copy };
                let Some((tile, rest)) = op.operands.split_last() else { return Step::Copy };
                let mut operands: Vec<_> = rest.iter().map(|v| map[v]).collect();
                let copy = Kind::TmaStore { axes: axes.clone(), wgm: site.parts.0, wgn: site.parts.1 };
                match site.from {
                    Source::Held(v, true) => {
                        operands.push(map[&v]);
                        late.insert(v, (operands, copy));
                        return Step::Done;
                    }
                    Source::Held(v, false) => operands.push(map[&v]),
                    Source::Staged(_) => {
                        if site.looped {
                            b.op(Kind::TmaStoreWait { pending: 0, read: false }, &[*buffer], &[]);
                        }
                        b.op(Kind::LocalStore, &[map[tile], *buffer], &[]);
                        operands.push(*buffer);
                    }
                }
                b.op(copy, &operands, &[]);
                Step::Done
            }
            _ => Step::Copy,
        });
    }
    if role.is_none() {
        last(&mut b, &map);
    }
    b.finish()
}
