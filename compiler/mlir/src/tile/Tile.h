//! Declarations of the `tile` dialect, and the predicates that its ODS constraints call.
#pragma once

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "TileDialect.h.inc"
#define GET_ATTRDEF_CLASSES
#include "TileAttrs.h.inc"
#define GET_TYPEDEF_CLASSES
#include "TileTypes.h.inc"

namespace flashc::tile {
/// `128x64xbf16`, the inside of tile and buffer types.
mlir::ParseResult parseShaped(mlir::AsmParser &p, llvm::SmallVector<int64_t> &shape, mlir::Type &elem);
void printShaped(mlir::AsmPrinter &p, llvm::ArrayRef<int64_t> shape, mlir::Type elem);
/// Is this a shape and element type that `flashc_ir` knows?
mlir::LogicalResult verifyShaped(llvm::function_ref<mlir::InFlightDiagnostic()> error,
                                 llvm::ArrayRef<int64_t> shape, mlir::Type elem);
/// The element type of a tile or tensor; a scalar is its own.
mlir::Type elemOf(mlir::Type t);
/// The same tile, or scalar, of bools.
mlir::Type boolLike(mlir::Type t);
/// `!sm90.buffer`, which this dialect does not depend on.
bool isBuffer(mlir::Type t);
bool isPredicate(llvm::StringRef s);
bool isReduction(llvm::StringRef s);
bool sameShape(mlir::Operation &op);
bool selectable(mlir::Operation &op);
bool isIota(mlir::Operation &op);
bool broadcasts(mlir::Operation &op);
bool reshapes(mlir::Operation &op);
bool transposes(mlir::Operation &op);
bool reduces(mlir::Operation &op);
bool folds(mlir::Operation &op);
bool halves(mlir::Operation &op);
bool joins(mlir::Operation &op);
bool converts(mlir::Operation &op);
bool multiplies(mlir::Operation &op);
/// For loads and stores: `others` counts the operands that are neither the tensor nor an index.
bool indexesTensor(mlir::Operation &op, unsigned others, llvm::ArrayRef<int64_t> shape, mlir::Type elem);
bool indexes(mlir::Operation &op);
} // namespace flashc::tile

#define GET_OP_CLASSES
#include "TileOps.h.inc"
