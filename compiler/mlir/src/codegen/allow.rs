//! What NVPTX can select. Anything else would be a fatal error deep inside LLVM (`Cannot select`), so it is
//! refused here by name.

use crate::Failure;
use inkwell::module::Module;

/// Intrinsics that are not NVIDIA's and for which NVPTX has a pattern or an expansion. Not here on purpose:
/// exp, log, log2, log10, pow, sin, cos, tan and the like, which would become calls to a C library.
const GENERIC: &[&str] = &[
    "abs",
    "assume",
    "bitreverse",
    "bswap",
    "ceil",
    "copysign",
    "ctlz",
    "ctpop",
    "cttz",
    "dbg",
    "exp2",
    "expect",
    "experimental",
    "fabs",
    "floor",
    "fma",
    "fmuladd",
    "fptosi",
    "fptoui",
    "fshl",
    "fshr",
    "invariant",
    "lifetime",
    "maximum",
    "maximumnum",
    "maxnum",
    "memcpy",
    "memmove",
    "memset",
    "minimum",
    "minimumnum",
    "minnum",
    "nearbyint",
    "prefetch",
    "rint",
    "round",
    "roundeven",
    "sadd",
    "smax",
    "smin",
    "smul",
    "sqrt",
    "ssub",
    "trap",
    "trunc",
    "uadd",
    "umax",
    "umin",
    "umul",
    "usub",
    "vector",
];

/// NVIDIA's intrinsics that LLVM knows and Hopper lacks.
const NOT_HOPPER: &[&str] = &[
    "llvm.nvvm.tcgen05.",
    "llvm.nvvm.redux.sync.f",
    "llvm.nvvm.clusterlaunchcontrol.",
    "llvm.nvvm.ff.to.e2m",
    "llvm.nvvm.ff.to.e3m",
    "llvm.nvvm.e2m",
    "llvm.nvvm.e3m",
    "llvm.nvvm.ff.to.ue8m0",
    "llvm.nvvm.ue8m0",
    "llvm.nvvm.add.rn.ftz.f32x2",
    "llvm.nvvm.fma.rn.f32x2",
];

/// Refuses calls that NVPTX could not select.
pub(super) fn check(module: &Module<'_>) -> Result<(), Failure> {
    let refuse = |name: &str, why: &str| Err(Failure::new("select", format!("`{name}` {why}")));
    for f in module.get_functions().filter(|f| f.count_basic_blocks() == 0) {
        let name = f.get_name().to_string_lossy();
        let Some(intrinsic) = name.strip_prefix("llvm.") else {
            return refuse(&name, "is called but not defined: kernels cannot call out");
        };
        let family = intrinsic.split('.').next().unwrap_or_default();
        if NOT_HOPPER.iter().any(|p| name.starts_with(p)) {
            return refuse(&name, "does not exist on Hopper");
        }
        if family != "nvvm" && !GENERIC.contains(&family) {
            return refuse(&name, "has no instruction on this target: expand it in the lowering");
        }
    }
    Ok(())
}
