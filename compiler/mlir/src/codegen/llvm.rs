//! LLVM through inkwell: translation, optimisation, NVPTX.
//!
//! LLVM reports some errors by ending the process. So it runs on a thread of its own: the fatal-error
//! handler sends the message home and parks the thread for good, which leaks that compilation's memory and
//! keeps the process alive.
#![allow(unsafe_code)]

use super::{CodegenOptions, allow};
use crate::{Failure, Module};
use inkwell::OptimizationLevel;
use inkwell::context::Context;
use inkwell::passes::PassBuilderOptions;
use inkwell::targets::{
    CodeModel, FileType, InitializationConfig, RelocMode, Target, TargetMachine, TargetTriple,
};
use inkwell::values::AsValueRef;
use llvm_sys::core::*;
use llvm_sys::prelude::{LLVMDiagnosticInfoRef, LLVMModuleRef};
use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_void};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, Once};
use std::time::{Duration, Instant};

/// The target.
pub(super) const TRIPLE: &str = "nvptx64-nvidia-cuda";
const STACK: usize = 64 << 20;

/// A module of LLVM IR and the context that it lives in.
pub(super) struct Ir {
    context: Context,
    module: LLVMModuleRef,
    said: Arc<Mutex<Vec<String>>>,
}

// SAFETY: the context and everything in it is reachable from this value alone and moves as a whole.
unsafe impl Send for Ir {}

/// PTX, LLVM IR if wanted, and times.
pub(super) struct Emitted {
    pub(super) ptx: String,
    pub(super) llvm: Option<String>,
    pub(super) timings: Vec<(&'static str, Duration)>,
}

fn machine(options: &CodegenOptions) -> Result<TargetMachine, Failure> {
    static INITIALIZED: Once = Once::new();
    INITIALIZED.call_once(|| {
        Target::initialize_nvptx(&InitializationConfig::default());
        // SAFETY: the handler does not unwind and may be called from any thread.
        unsafe { llvm_sys::error_handling::LLVMInstallFatalErrorHandler(Some(on_fatal)) };
    });
    let triple = TargetTriple::create(TRIPLE);
    let target = Target::from_triple(&triple).map_err(|e| Failure::new("target", e.to_string()))?;
    let features = format!("+ptx{}", options.ptx_feature);
    target
        .create_target_machine(
            &triple,
            &options.cpu,
            &features,
            OptimizationLevel::Default,
            RelocMode::Default,
            CodeModel::Default,
        )
        .ok_or_else(|| Failure::new("target", format!("no machine for {} with {features}", options.cpu)))
}

/// The target's data layout. Without it on the module, 64-bit accesses would be split.
pub(super) fn data_layout(options: &CodegenOptions) -> Result<String, Failure> {
    let layout = machine(options)?.get_target_data().get_data_layout();
    Ok(layout.as_str().to_string_lossy().into_owned())
}

/// Translates a module that has only `llvm` and intrinsics of `nvvm` left.
pub(super) fn translate(module: &Module<'_>) -> Result<Ir, Failure> {
    let context = Context::create();
    let said = Arc::new(Mutex::new(vec![]));
    // SAFETY: `said` lives at least as long as the context: `Ir` drops its fields in order.
    unsafe {
        LLVMContextSetDiagnosticHandler(context.raw(), Some(on_diagnostic), Arc::as_ptr(&said) as *mut c_void)
    };
    let raw = module.context.capture("translate", "some operation has no translation to LLVM IR", || {
        let op = module.raw.as_operation().to_raw();
        // SAFETY: both contexts are alive; the result is null or a module that the LLVM context contains.
        let raw = unsafe { mlir_sys::mlirTranslateModuleToLLVMIR(op, context.raw() as *mut _) };
        (!raw.is_null()).then_some(raw as LLVMModuleRef)
    })?;
    Ok(Ir { context, module: raw, said })
}

impl Ir {
    /// Optimises, selects instructions, prints PTX.
    pub(super) fn emit(self, options: &CodegenOptions, passes: &'static str) -> Result<Emitted, Failure> {
        let options = options.clone();
        on_own_thread(move || {
            let said = Arc::clone(&self.said);
            let result = emit(self, &options, passes);
            let said = std::mem::take(&mut *said.lock().unwrap_or_else(|e| e.into_inner()));
            match result {
                Ok(_) if said.iter().any(|d| d.starts_with("error")) => {
                    Err(Failure::new("select", "LLVM reported an error").with(said))
                }
                result => result.map_err(|f| f.with(said)),
            }
        })
    }
}

fn emit(ir: Ir, options: &CodegenOptions, passes: &str) -> Result<Emitted, Failure> {
    let mut timings = vec![];
    // SAFETY: the module came from MLIR's translation and nobody else has it; inkwell frees it before `ir`.
    let module = unsafe { inkwell::module::Module::new(ir.module) };
    allow::check(&module)?;
    mark_convergent(&module, &ir.context);

    let start = Instant::now();
    let machine = machine(options)?;
    module
        .run_passes(passes, &machine, PassBuilderOptions::create())
        .map_err(|e| Failure::new("optimise", e.to_string()))?;
    let llvm = options.keep_llvm.then(|| module.print_to_string().to_string());
    timings.push(("optimise", start.elapsed()));

    let start = Instant::now();
    let buffer = machine
        .write_to_memory_buffer(&module, FileType::Assembly)
        .map_err(|e| Failure::new("select", e.to_string()))?;
    let text = String::from_utf8_lossy(buffer.as_slice());
    let ptx = text.trim_end_matches('\0').to_string();
    timings.push(("select", start.elapsed()));
    drop(module);
    drop(ir);
    Ok(Emitted { ptx, llvm, timings })
}

/// Marks every call of side-effecting inline assembly: barriers and warpgroup instructions, in operations of
/// `nvvm` too, must not be duplicated or made conditional.
fn mark_convergent(module: &inkwell::module::Module<'_>, context: &Context) {
    let kind = inkwell::attributes::Attribute::get_named_enum_kind_id("convergent");
    let convergent = context.create_enum_attribute(kind, 0);
    for function in module.get_functions() {
        for block in function.get_basic_blocks() {
            for instruction in block.get_instructions() {
                let raw = instruction.as_value_ref();
                // SAFETY: the instruction is alive; each function is asked only about what the one before
                // has established, and the attribute belongs to the instruction's context.
                unsafe {
                    if LLVMIsACallInst(raw).is_null() {
                        continue;
                    }
                    let callee = LLVMGetCalledValue(raw);
                    if !LLVMIsAInlineAsm(callee).is_null() && LLVMGetInlineAsmHasSideEffects(callee) != 0 {
                        let at = llvm_sys::LLVMAttributeFunctionIndex;
                        LLVMAddCallSiteAttribute(raw, at, convergent.as_mut_ptr());
                    }
                }
            }
        }
    }
}

extern "C" fn on_diagnostic(info: LLVMDiagnosticInfoRef, said: *mut c_void) {
    use llvm_sys::LLVMDiagnosticSeverity::*;
    // SAFETY: LLVM passes a live diagnostic; the description is ours to dispose of; `said` is the mutex
    // that `translate` registered and that `Ir` keeps alive.
    unsafe {
        let severity = match LLVMGetDiagInfoSeverity(info) {
            LLVMDSError => "error",
            LLVMDSWarning => "warning",
            LLVMDSRemark | LLVMDSNote => return,
        };
        let description = LLVMGetDiagInfoDescription(info);
        let text = format!("{severity}: {}", CStr::from_ptr(description).to_string_lossy());
        LLVMDisposeMessage(description);
        (*(said as *const Mutex<Vec<String>>)).lock().unwrap_or_else(|e| e.into_inner()).push(text);
    }
}

type Report = Box<dyn Fn(String)>;

thread_local! {
    /// Where a fatal error on this thread goes.
    static HOME: RefCell<Option<Report>> = const { RefCell::new(None) };
}

extern "C" fn on_fatal(reason: *const c_char) {
    // SAFETY: LLVM passes a string.
    let reason = unsafe { CStr::from_ptr(reason) }.to_string_lossy().into_owned();
    let caught = HOME.with(|home| match home.try_borrow().ok().as_deref() {
        Some(Some(send)) => {
            send(reason);
            true
        }
        _ => false,
    });
    if caught {
        // Returning would end the process, and LLVM's frames cannot be unwound.
        loop {
            std::thread::park();
        }
    }
}

fn on_own_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let (send, receive) = channel();
    let home: Sender<Result<T, Failure>> = send.clone();
    let body = move || {
        let fatal = move |reason: String| {
            let failure = Failure::new("select", "LLVM gave up").with(vec![format!("error: {reason}")]);
            let _ = home.send(Err(failure));
        };
        HOME.with(|h| *h.borrow_mut() = Some(Box::new(fatal)));
        let _ = send.send(work());
        HOME.with(|h| *h.borrow_mut() = None);
    };
    std::thread::Builder::new()
        .name("llvm".into())
        .stack_size(STACK)
        .spawn(body)
        .map_err(|e| Failure::new("select", format!("cannot start a thread: {e}")))?;
    receive.recv().unwrap_or_else(|_| Err(Failure::new("select", "the code generator panicked")))
}
