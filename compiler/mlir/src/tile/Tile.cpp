//! The `tile` dialect: what mlir-tblgen makes of TileOps.td, and the predicates of its constraints.

#include "Tile.h"
#include "mlir/CAPI/Registration.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/OpImplementation.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace flashc::tile {

ParseResult parseShaped(AsmParser &p, SmallVector<int64_t> &shape, Type &elem) {
  return failure(p.parseDimensionList(shape, /*allowDynamic=*/false) || p.parseType(elem));
}

void printShaped(AsmPrinter &p, ArrayRef<int64_t> shape, Type elem) {
  p.printDimensionList(shape);
  p << 'x' << elem;
}

LogicalResult verifyShaped(function_ref<InFlightDiagnostic()> error, ArrayRef<int64_t> shape, Type elem) {
  if (shape.empty() || shape.size() > 5 || llvm::any_of(shape, [](int64_t n) { return n <= 0; }))
    return error() << "expected one to five positive lengths";
  bool known = isa<Float16Type, BFloat16Type, Float32Type, Float64Type, Float8E4M3FNType, Float8E5M2Type>(elem);
  for (unsigned bits : {1, 8, 16, 32, 64})
    known |= elem.isSignlessInteger(bits);
  return known ? success() : LogicalResult(error() << "unknown element type " << elem);
}

LogicalResult TileType::verify(function_ref<InFlightDiagnostic()> error, ArrayRef<int64_t> shape, Type elem,
                               Attribute layout) {
  if (layout && !isa<AccAttr, AccHalfAttr, AccRunsAttr, SliceAttr, BlockedAttr>(layout))
    return error() << "expected a register layout, not " << layout;
  return verifyShaped(error, shape, elem);
}

/// A word of an operation's syntax that is a string attribute in its generic form.
static ParseResult parseWord(OpAsmParser &p, StringAttr &word) {
  StringRef text;
  if (p.parseKeyword(&text))
    return failure();
  word = p.getBuilder().getStringAttr(text);
  return success();
}

static void printWord(OpAsmPrinter &p, Operation *, StringAttr word) { p << word.getValue(); }

Type elemOf(Type t) {
  if (auto tile = dyn_cast<TileType>(t))
    return tile.getElem();
  if (auto tensor = dyn_cast<TensorType>(t))
    return tensor.getElem();
  return t;
}

static Type withElem(Type t, Type elem) {
  auto tile = dyn_cast<TileType>(t);
  return tile ? TileType::get(t.getContext(), tile.getShape(), elem, tile.getLayout()) : elem;
}

Type boolLike(Type t) { return withElem(t, IntegerType::get(t.getContext(), 1)); }

bool isBuffer(Type t) { return t.getAbstractType().getName() == "sm90.buffer"; }

bool isPredicate(StringRef s) {
  static const StringRef all[] = {"eq",  "ne",  "slt", "sle", "sgt", "sge", "ult", "ule",
                                  "ugt", "uge", "feq", "fne", "flt", "fle", "fgt", "fge"};
  return llvm::is_contained(all, s);
}

bool isReduction(StringRef s) { return s == "sum" || s == "max" || s == "min"; }

static TileType in(Operation &op, unsigned i = 0) { return dyn_cast<TileType>(op.getOperand(i).getType()); }
static TileType out(Operation &op) { return dyn_cast<TileType>(op.getResult(0).getType()); }

bool sameShape(Operation &op) { return boolLike(op.getOperand(0).getType()) == boolLike(op.getResult(0).getType()); }

bool selectable(Operation &op) {
  Type condition = op.getOperand(0).getType();
  return condition.isInteger(1) || condition == boolLike(op.getResult(0).getType());
}

bool isIota(Operation &op) { return out(op).getShape().size() == 1 && out(op).getElem().isInteger(32); }

bool broadcasts(Operation &op) {
  ArrayRef<int64_t> from = in(op).getShape(), to = out(op).getShape(), dims = cast<BroadcastOp>(op).getDims();
  if (dims.size() != from.size() || in(op).getElem() != out(op).getElem())
    return false;
  int64_t last = -1;
  for (auto [n, d] : llvm::zip(from, dims)) {
    if (d <= last || d >= int64_t(to.size()) || to[d] != n)
      return false;
    last = d;
  }
  return true;
}

static int64_t length(TileType t) {
  int64_t n = 1;
  for (int64_t d : t.getShape())
    n *= d;
  return n;
}

bool reshapes(Operation &op) { return length(in(op)) == length(out(op)) && in(op).getElem() == out(op).getElem(); }

bool transposes(Operation &op) {
  ArrayRef<int64_t> a = in(op).getShape(), b = out(op).getShape();
  return a.size() == 2 && b.size() == 2 && a[0] == b[1] && a[1] == b[0] && in(op).getElem() == out(op).getElem();
}

bool reduces(Operation &op) {
  SmallVector<int64_t> shape(in(op).getShape());
  int64_t axis = cast<ReduceOp>(op).getAxis();
  if (axis < 0 || axis >= int64_t(shape.size()) || elemOf(op.getResult(0).getType()) != in(op).getElem())
    return false;
  shape.erase(shape.begin() + axis);
  return shape.empty() ? !out(op) : out(op) && out(op).getShape() == ArrayRef(shape);
}

bool folds(Operation &op) {
  ArrayRef<int64_t> a = in(op).getShape(), b = out(op).getShape();
  return a.size() == 2 && b.size() == 2 && a[0] == b[0] && a[1] % 8 == 0 && b[1] == 8 &&
         in(op).getElem() == out(op).getElem();
}

static bool halfOf(TileType whole, TileType half) {
  ArrayRef<int64_t> a = whole.getShape(), b = half.getShape();
  return a[0] % 16 == 0 && a[0] == 2 * b[0] && a.drop_front() == b.drop_front() && whole.getElem() == half.getElem();
}

bool halves(Operation &op) { return halfOf(in(op), out(op)); }
bool joins(Operation &op) { return halfOf(out(op), in(op)); }

bool converts(Operation &op) { return in(op).getShape() == out(op).getShape() && in(op).getElem() == out(op).getElem(); }

bool multiplies(Operation &op) {
  ArrayRef<int64_t> a = in(op, 0).getShape(), b = in(op, 1).getShape(), c = out(op).getShape();
  return a.size() == 2 && b.size() == 2 && c.size() == 2 && a[0] == c[0] && a[1] == b[0] && b[1] == c[1];
}

bool indexesTensor(Operation &op, unsigned others, ArrayRef<int64_t> shape, Type elem) {
  auto tensor = dyn_cast<TensorType>(op.getOperand(0).getType());
  if (!tensor || op.getNumOperands() != 1 + tensor.getDims().size() + others || tensor.getElem() != elem)
    return false;
  auto axes = op.getAttrOfType<DenseI64ArrayAttr>("axes");
  if (!axes)
    return shape.empty();
  auto bad = [&](int64_t a) { return a < 0 || a >= int64_t(tensor.getDims().size()); };
  return axes.size() == int64_t(shape.size()) && llvm::none_of(axes.asArrayRef(), bad);
}

bool indexes(Operation &op) {
  bool load = op.getNumResults() == 1;
  Type value = load ? op.getResult(0).getType() : op.getOperand(op.getNumOperands() - 1).getType();
  auto tile = dyn_cast<TileType>(value);
  return indexesTensor(op, load ? 0 : 1, tile ? tile.getShape() : ArrayRef<int64_t>(), elemOf(value));
}

void TileDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "TileAttrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "TileTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "TileOps.cpp.inc"
      >();
}

} // namespace flashc::tile

#include "TileDialect.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "TileAttrs.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "TileTypes.cpp.inc"
#define GET_OP_CLASSES
#include "TileOps.cpp.inc"

extern "C" MlirDialectHandle mlirGetDialectHandle__tile__();
MLIR_DEFINE_CAPI_DIALECT_REGISTRATION(Tile, tile, flashc::tile::TileDialect)
