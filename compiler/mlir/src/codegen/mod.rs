//! LLVM-level MLIR to PTX, in one process.
//!
//! ```text
//! text -parse-> MLIR (-UpstreamPass::TO_LLVM-> llvm, nvvm) -translate-> LLVM IR -LLVM_PASSES-> -NVPTX-> PTX
//! ```

mod allow;
mod llvm;

use crate::{Context, Failure, Module, UpstreamPass};
use melior::ir::Attribute;
use melior::ir::attribute::StringAttribute;
use melior::ir::operation::OperationMutLike;
use std::time::{Duration, Instant};

/// What LLVM does before instruction selection: only what NVPTX and ptxas leave undone. Not here on purpose:
/// `sink`, which would move the exponentials of a softmax behind the next barrier wait, unrolling,
/// vectorisation.
const LLVM_PASSES: &str = "function(early-cse,instcombine<no-verify-fixpoint>,simplifycfg)";

/// The same for what comes from `scf`, whose loops are tested at the top.
const LLVM_PASSES_SCF: &str = "function(early-cse,instcombine<no-verify-fixpoint>,simplifycfg,loop-mssa(loop-rotate),early-cse,simplifycfg)";

/// How to generate code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodegenOptions {
    /// LLVM's name of the processor.
    pub cpu: String,
    /// PTX ISA version, 90 for 9.0.
    pub ptx_feature: u32,
    /// Emit `.loc` directives.
    pub line_info: bool,
    /// Return the LLVM IR too.
    pub keep_llvm: bool,
}

impl Default for CodegenOptions {
    fn default() -> Self {
        CodegenOptions { cpu: "sm_90a".into(), ptx_feature: 90, line_info: false, keep_llvm: false }
    }
}

/// What came out.
#[derive(Clone, Debug)]
pub struct Ptx {
    /// PTX.
    pub text: String,
    /// LLVM IR as it went into instruction selection, if asked for.
    pub llvm: Option<String>,
    /// Time of each step, in order.
    pub timings: Vec<(&'static str, Duration)>,
}

/// Compiles the text of a module whose kernels are `llvm.func`s with `nvvm.kernel`; their bodies may also
/// contain arith, cf, index, math, nvvm, scf, ub and vector.
pub fn compile_to_ptx(context: &Context, text: &str, options: &CodegenOptions) -> Result<Ptx, Failure> {
    let start = Instant::now();
    let module = context.parse(text)?;
    let parse = start.elapsed();
    let mut ptx = compile_module_to_ptx(module, options)?;
    ptx.timings.insert(0, ("parse", parse));
    Ok(ptx)
}

/// As [`compile_to_ptx`], from a module that is already parsed.
pub fn compile_module_to_ptx(mut module: Module<'_>, options: &CodegenOptions) -> Result<Ptx, Failure> {
    let mut timings = vec![];
    let mut timed = |name, since: Instant| timings.push((name, since.elapsed()));

    let start = Instant::now();
    let layout = llvm::data_layout(options)?;
    for (key, value) in [("llvm.data_layout", layout.as_str()), ("llvm.target_triple", llvm::TRIPLE)] {
        let value = Attribute::from(StringAttribute::new(&module.context.raw, value));
        module.raw.as_operation_mut().set_attribute(key, value);
    }
    let (other, assembly) = module.unconverted();
    let mut passes = vec![];
    if other {
        passes.extend_from_slice(UpstreamPass::TO_LLVM);
    }
    if assembly {
        passes.push(UpstreamPass::NvvmToLlvm);
    }
    if options.line_info {
        passes.push(UpstreamPass::LineInfo);
    }
    if !passes.is_empty() {
        module.run(&passes)?;
    }
    timed("lower", start);

    let start = Instant::now();
    let ir = llvm::translate(&module)?;
    timed("translate", start);

    let llvm_passes = if other { LLVM_PASSES_SCF } else { LLVM_PASSES };
    let emitted = ir.emit(options, llvm_passes)?;
    timings.extend(emitted.timings);
    Ok(Ptx { text: emitted.ptx, llvm: emitted.llvm, timings })
}
