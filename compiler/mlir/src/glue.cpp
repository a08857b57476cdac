//! What the C API lacks or offers only for everything at once: the LLVM translations of the dialects that
//! we use, line information, and which operations of `nvvm` are inline assembly.

#include "mlir/CAPI/IR.h"
#include "mlir/CAPI/Pass.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/LLVMIR/Transforms/Passes.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"

using namespace mlir;

extern "C" void flashcRegisterTranslations(MlirDialectRegistry registry) {
  registerBuiltinDialectTranslation(*unwrap(registry));
  registerLLVMDialectTranslation(*unwrap(registry));
  registerNVVMDialectTranslation(*unwrap(registry));
}

/// Gives every function a debug scope. `DebugDirectivesOnly` yields `.loc` without `.target debug`, which
/// would switch optimisations of ptxas off.
extern "C" MlirPass flashcCreateLineInfoPass() {
  LLVM::DIScopeForLLVMFuncOpPassOptions options;
  options.emissionKind = LLVM::DIEmissionKind::DebugDirectivesOnly;
  return wrap(LLVM::createDIScopeForLLVMFuncOpPass(options).release());
}

/// Is this an operation of `nvvm` that convert-nvvm-to-llvm has to turn into inline assembly?
extern "C" bool flashcIsAssembly(MlirOperation op) {
  auto assembly = dyn_cast<NVVM::BasicPtxBuilderInterface>(unwrap(op));
  return assembly && !assembly.hasIntrinsic();
}
