//! What the C API lacks or offers only for everything at once: the LLVM translations of the dialects that
//! we use, and line information.

#include "mlir/CAPI/IR.h"
#include "mlir/CAPI/Pass.h"
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
