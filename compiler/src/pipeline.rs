//! THE list of passes, in order, as data; and the driver that runs it.
//!
//! A kernel is compiled once for each variant: one that may use bulk-tensor copies and 16-byte accesses,
//! and requires tensors that allow them, and one for any tensor. After every pass the function is
//! verified; on request it is written to MLIR as well, verified there, and dumped.

use crate::lower::{self, Lowered};
use crate::passes::{self, Failure, Settings};
use flashc_ir::Func;
use flashc_mlir::{Context, UpstreamPass};

/// Which level of the IR a pass leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Values, no memory, no threads.
    Tile,
    /// Memory, barriers and layouts explicit.
    Sm90,
}

/// A version of the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variant {
    /// `aligned` or `fallback`.
    pub name: &'static str,
    /// May use TMA and 16-byte accesses, and requires tensors that allow them.
    pub aligned: bool,
}

/// The variants, best first.
pub const VARIANTS: [Variant; 2] =
    [Variant { name: "aligned", aligned: true }, Variant { name: "fallback", aligned: false }];

/// A pass.
pub struct Pass {
    /// Its name: file, dump flag, corpus folder and heading in the docs.
    pub name: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// What it leaves behind.
    pub level: Level,
    /// Does it run only for the variant that may assume alignment?
    pub aligned_only: bool,
    /// May it change the order of floating-point operations?
    pub reassociates: bool,
    run: Run,
}

enum Run {
    Upstream(&'static [UpstreamPass]),
    Ours(fn(&Func, &Settings) -> Result<Func, Failure>),
}

/// The pipeline.
pub const PASSES: &[Pass] = &[
    Pass {
        name: "canonicalize",
        summary: "MLIR's own folding, canonical forms, common subexpressions and loop-invariant code motion",
        level: Level::Tile,
        aligned_only: false,
        reassociates: false,
        run: Run::Upstream(&[
            UpstreamPass::Canonicalize,
            UpstreamPass::Cse,
            UpstreamPass::LoopInvariantCodeMotion,
        ]),
    },
    Pass {
        name: "schedule-programs",
        summary: "a CTA runs several programs, or the longest programs come first",
        level: Level::Tile,
        aligned_only: true,
        reassociates: false,
        run: Run::Ours(|f, s| Ok(passes::schedule_programs::run(f, &s.choices))),
    },
    Pass {
        name: "hoist",
        summary: "MLIR's loop-invariant code motion: what programs share is computed once a CTA",
        level: Level::Tile,
        aligned_only: true,
        reassociates: false,
        run: Run::Upstream(&[UpstreamPass::LoopInvariantCodeMotion]),
    },
    Pass {
        name: "guard-masks",
        summary: "a mask that only the last iterations need is skipped in the others",
        level: Level::Tile,
        aligned_only: true,
        reassociates: false,
        run: Run::Ours(|f, _| Ok(passes::guard_masks::run(f))),
    },
    Pass {
        name: "warpgroup-mma",
        summary: "dot products become asynchronous warpgroup matrix multiplies on buffers and register fragments",
        level: Level::Sm90,
        aligned_only: false,
        reassociates: false,
        run: Run::Ours(|f, _| passes::warpgroup_mma::run(f)),
    },
    Pass {
        name: "specialize-roles",
        summary: "a producer copies tiles to rings of buffers while consumers compute",
        level: Level::Sm90,
        aligned_only: true,
        reassociates: false,
        run: Run::Ours(|f, s| Ok(passes::specialize_roles::run(f, &s.target).unwrap_or_else(|| f.clone()))),
    },
    Pass {
        name: "rotate",
        summary: "an iteration's last product runs under the next one's work, and warpgroups take turns",
        level: Level::Sm90,
        aligned_only: true,
        reassociates: false,
        run: Run::Ours(|f, _| Ok(passes::rotate::run(f))),
    },
    Pass {
        name: "tma-loads",
        summary: "tiles that only go to shared memory are copied there by the tensor memory accelerator",
        level: Level::Sm90,
        aligned_only: true,
        reassociates: false,
        run: Run::Ours(|f, _| Ok(passes::tma_loads::run(f))),
    },
    Pass {
        name: "clean",
        summary: "MLIR's canonicalization again: what the passes before left unused goes",
        level: Level::Sm90,
        aligned_only: false,
        reassociates: false,
        run: Run::Upstream(&[UpstreamPass::Canonicalize, UpstreamPass::Cse]),
    },
    Pass {
        name: "assign-layouts",
        summary: "decides which thread holds which element of every register tile",
        level: Level::Sm90,
        aligned_only: false,
        reassociates: true,
        run: Run::Ours(|f, _| passes::assign_layouts::run(f)),
    },
    Pass {
        name: "partial-sums",
        summary: "sums that a loop carries stay split over threads until it ends",
        level: Level::Sm90,
        aligned_only: false,
        reassociates: true,
        run: Run::Ours(|f, _| Ok(passes::partial_sums::run(f))),
    },
    Pass {
        name: "interleave",
        summary: "orders work under a product in flight by halves of the rows",
        level: Level::Sm90,
        aligned_only: false,
        reassociates: false,
        run: Run::Ours(|f, s| Ok(passes::interleave::run(f, &s.choices))),
    },
    Pass {
        name: "tma-stores",
        summary: "tiles go to tensors through shared memory where that is free and pays",
        level: Level::Sm90,
        aligned_only: true,
        reassociates: false,
        run: Run::Ours(|f, s| Ok(passes::tma_stores::run(f, &s.target, s.choices.stores))),
    },
    Pass {
        name: "wide-stores",
        summary: "tiles of accumulators are stored in runs of 16 bytes a thread",
        level: Level::Sm90,
        aligned_only: true,
        reassociates: false,
        run: Run::Ours(|f, _| Ok(passes::wide_stores::run(f))),
    },
    Pass {
        name: "budget-registers",
        summary: "refuses a program whose tiles cannot fit a thread's registers, and says which lines take them",
        level: Level::Sm90,
        aligned_only: false,
        reassociates: false,
        run: Run::Ours(|f, s| passes::budget_registers::run(f, &s.target)),
    },
    Pass {
        name: "exchange",
        summary: "operations whose threads exchange values get a scratch buffer",
        level: Level::Sm90,
        aligned_only: false,
        reassociates: false,
        run: Run::Ours(|f, _| Ok(passes::exchange::run(f))),
    },
    Pass {
        name: "allocate-shared",
        summary: "buffers and barriers get their places in shared memory, by lifetime",
        level: Level::Sm90,
        aligned_only: false,
        reassociates: false,
        run: Run::Ours(|f, s| passes::allocate_shared::run(f, &s.target)),
    },
    Pass {
        name: "place-barriers",
        summary: "inserts the CTA barriers and proxy fences that accesses to shared memory need",
        level: Level::Sm90,
        aligned_only: false,
        reassociates: false,
        run: Run::Ours(|f, _| Ok(passes::place_barriers::run(f))),
    },
];

/// Sees each pass before it runs and its result; the compiler itself has no clock and no output.
pub trait Observer {
    /// A phase begins: a pass, or another step of the compilation. `variant` is empty where there is only one.
    fn phase(&mut self, _name: &str, _variant: &str) {}
    /// A part of the phase that has begun last took so long.
    fn part(&mut self, _name: &str, _took: std::time::Duration) {}
    /// Wants the text after this pass?
    fn wants(&self, _pass: &str) -> bool {
        false
    }
    /// The text after a pass.
    fn dump(&mut self, _pass: &str, _variant: &str, _text: &str) {}
    /// The function after a pass.
    fn after(&mut self, _pass: &Pass, _variant: &str, _func: &Func) {}
}

/// Sees nothing.
#[derive(Debug, Default)]
pub struct Quiet;

impl Observer for Quiet {}

/// Why a compilation stopped, and where.
#[derive(Debug)]
pub struct Stopped {
    /// The pass.
    pub pass: String,
    /// Why.
    pub failure: Failure,
    /// The function before it, as MLIR.
    pub before: String,
}

/// Runs every pass for a variant.
pub fn run(
    cx: &Context,
    func: &Func,
    variant: Variant,
    settings: &Settings,
    observer: &mut dyn Observer,
) -> Result<Func, Stopped> {
    let mut func = func.clone();
    for pass in PASSES.iter().filter(|p| variant.aligned || !p.aligned_only) {
        observer.phase(pass.name, variant.name);
        let stop = |failure| Stopped {
            pass: pass.name.into(),
            failure,
            before: flashc_ir::text::print_module(&func),
        };
        let next = match &pass.run {
            Run::Upstream(passes) => upstream(cx, &func, passes),
            Run::Ours(run) => run(&func, settings),
        };
        let next = next.map_err(stop)?;
        if let Err(violations) = flashc_ir::verify::verify(&next) {
            let text: Vec<_> =
                violations.iter().map(|v| format!("line {}: {}", v.loc.line, v.message)).collect();
            return Err(stop(Failure::Bug(format!(
                "the function after it is malformed: {}",
                text.join("; ")
            ))));
        }
        if observer.wants(pass.name) {
            let text = cx.write(&next).map_err(|e| stop(Failure::Bug(e.to_string())))?.print(false);
            observer.dump(pass.name, variant.name, &text);
        }
        observer.after(pass, variant.name, &next);
        func = next;
    }
    Ok(func)
}

fn upstream(cx: &Context, func: &Func, passes: &[UpstreamPass]) -> Result<Func, Failure> {
    let bug = |e: flashc_mlir::Failure| Failure::Bug(e.to_string());
    let mut module = cx.write(func).map_err(bug)?;
    module.run(passes).map_err(bug)?;
    module.to_func().map_err(bug)
}

/// Lowers what [`run`] has made.
pub fn lower(
    func: &Func,
    variant: Variant,
    scalars: usize,
    dims: usize,
    line_info: bool,
) -> Result<Lowered, Failure> {
    lower::lower(func, lower::Options { aligned: variant.aligned, line_info, scalars, dims })
}
