//! The passes of MLIR itself that the compiler uses.
#![allow(unsafe_code)]

use melior::pass::{Pass, conversion, transform};

unsafe extern "C" {
    fn flashcCreateLineInfoPass() -> mlir_sys::MlirPass;
}

macro_rules! upstream_passes {
    ($($(#[$m:meta])* $variant:ident = $name:literal, $create:expr;)+) => {
        /// A pass of MLIR itself.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum UpstreamPass { $($(#[$m])* $variant),+ }

        impl UpstreamPass {
            /// The name that `mlir-opt` knows.
            pub fn name(self) -> &'static str {
                match self { $(UpstreamPass::$variant => $name),+ }
            }

            pub(crate) fn create(self) -> Pass {
                match self { $(UpstreamPass::$variant => $create),+ }
            }
        }
    };
}

upstream_passes! {
    /// Folds, simplifies, removes dead code, hoists constants.
    Canonicalize = "canonicalize", transform::create_canonicalizer();
    /// Merges equal operations without effects, and equal loads with no store between.
    Cse = "cse", transform::create_cse();
    /// Moves operations without effects out of loops.
    LoopInvariantCodeMotion = "loop-invariant-code-motion", transform::create_loop_invariant_code_motion();
    /// Structured control flow to branches.
    ScfToCf = "convert-scf-to-cf", conversion::create_scf_to_control_flow();
    /// `vector` to `llvm`.
    VectorToLlvm = "convert-vector-to-llvm", conversion::create_vector_to_llvm();
    /// `math` to `llvm` intrinsics.
    MathToLlvm = "convert-math-to-llvm", conversion::create_math_to_llvm();
    /// Operations of `nvvm` that are inline assembly.
    NvvmToLlvm = "convert-nvvm-to-llvm", conversion::create_nvvm_to_llvm();
    /// `arith` to `llvm`.
    ArithToLlvm = "convert-arith-to-llvm", conversion::create_arith_to_llvm();
    /// `index` to `llvm`.
    IndexToLlvm = "convert-index-to-llvm", conversion::create_index_to_llvm();
    /// Branches to `llvm`.
    CfToLlvm = "convert-cf-to-llvm", conversion::create_control_flow_to_llvm();
    /// `func` to `llvm`.
    FuncToLlvm = "convert-func-to-llvm", conversion::create_func_to_llvm();
    /// `ub` (poison) to `llvm`.
    UbToLlvm = "convert-ub-to-llvm", conversion::create_ub_to_llvm();
    /// Removes the casts between the conversions above.
    ReconcileCasts = "reconcile-unrealized-casts", conversion::create_reconcile_unrealized_casts();
    /// Gives functions a debug scope, so that locations reach PTX as `.loc`.
    LineInfo = "ensure-debug-info-scope-on-llvm-func", line_info();
}

impl UpstreamPass {
    /// From arith, cf, func, index, math, scf, ub and vector to `llvm`.
    pub const TO_LLVM: &'static [UpstreamPass] = &[
        UpstreamPass::ScfToCf,
        UpstreamPass::VectorToLlvm,
        UpstreamPass::MathToLlvm,
        UpstreamPass::ArithToLlvm,
        UpstreamPass::IndexToLlvm,
        UpstreamPass::CfToLlvm,
        UpstreamPass::FuncToLlvm,
        UpstreamPass::UbToLlvm,
        UpstreamPass::ReconcileCasts,
    ];
}

fn line_info() -> Pass {
    // SAFETY: the function returns a new pass; the pass manager that it is added to owns it.
    unsafe { Pass::from_raw_fn(flashcCreateLineInfoPass) }
}
