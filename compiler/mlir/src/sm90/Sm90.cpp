//! The `sm90` dialect: what mlir-tblgen makes of Sm90Ops.td, and the predicates of its constraints.

#include "mlir/CAPI/Registration.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/TypeSwitch.h"
#include "tile/Tile.h"

#include "Sm90Dialect.h.inc"
#define GET_TYPEDEF_CLASSES
#include "Sm90Types.h.inc"

using namespace mlir;

namespace flashc::sm90 {

using tile::parseShaped;
using tile::printShaped;
using tile::TileType;

LogicalResult BufferType::verify(function_ref<InFlightDiagnostic()> error, ArrayRef<int64_t> shape, Type elem,
                                 Attribute layout) {
  if (!isa<tile::SharedAttr>(layout))
    return error() << "expected #tile.shared, not " << layout;
  return tile::verifyShaped(error, shape, elem);
}

LogicalResult InFlightType::verify(function_ref<InFlightDiagnostic()> error, Type tile) {
  return isa<TileType>(tile) ? success() : LogicalResult(error() << "expected a tile, not " << tile);
}

/// For tma_load: tensor, indices, buffer, barrier.
static bool indexes(Operation &op) {
  if (op.getNumOperands() < 3)
    return false;
  auto buffer = dyn_cast<BufferType>(op.getOperand(op.getNumOperands() - 2).getType());
  return buffer && tile::indexesTensor(op, 2, buffer.getShape(), buffer.getElem());
}

/// For tma_store: tensor, indices, buffer.
static bool storeIndexes(Operation &op) {
  if (op.getNumOperands() < 2)
    return false;
  auto buffer = dyn_cast<BufferType>(op.getOperand(op.getNumOperands() - 1).getType());
  return buffer && tile::indexesTensor(op, 1, buffer.getShape(), buffer.getElem());
}

/// For local_load and local_store, whose tile is the result or the first operand. The buffer may be padded.
static bool copies(Operation &op) {
  Value value = op.getNumResults() == 1 ? Value(op.getResult(0)) : op.getOperand(0);
  auto tile = dyn_cast<TileType>(value.getType());
  auto buffer = dyn_cast<BufferType>(op.getOperand(op.getNumOperands() - 1).getType());
  if (!tile || !buffer || tile.getElem() != buffer.getElem() || tile.getShape().size() != buffer.getShape().size())
    return false;
  return llvm::all_of(llvm::zip(tile.getShape(), buffer.getShape()),
                      [](auto both) { return std::get<0>(both) <= std::get<1>(both); });
}

} // namespace flashc::sm90

#define GET_OP_CLASSES
#include "Sm90Ops.h.inc"

namespace flashc::sm90 {
void Sm90Dialect::initialize() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "Sm90Types.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "Sm90Ops.cpp.inc"
      >();
}
} // namespace flashc::sm90

#include "Sm90Dialect.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "Sm90Types.cpp.inc"
#define GET_OP_CLASSES
#include "Sm90Ops.cpp.inc"

extern "C" MlirDialectHandle mlirGetDialectHandle__sm90__();
MLIR_DEFINE_CAPI_DIALECT_REGISTRATION(Sm90, sm90, flashc::sm90::Sm90Dialect)
