// The `tile` dialect: blocks of values, with no word about memory or asynchrony.
//
// Names, operand order and attributes are those of `flashc_ir::ops::Kind`, whose comments are the
// specification; what holds beyond the constraints here is checked by `flashc_ir::verify`.

#ifndef FLASHC_TILE_OPS
#define FLASHC_TILE_OPS

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/OpBase.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Tile_Dialect : Dialect {
  let name = "tile";
  let cppNamespace = "::flashc::tile";
  let summary = "Tile programs";
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
}

// ---- Layouts ----

class Tile_Attr<string cppName, string word, dag params> : AttrDef<Tile_Dialect, cppName> {
  let mnemonic = word;
  let parameters = params;
}

def Tile_Acc : Tile_Attr<"Acc", "acc", (ins "int64_t":$wgm, "int64_t":$wgn)> {
  let summary = "The accumulator of wgmma, over wgm x wgn warpgroups";
  let assemblyFormat = "`<` struct(params) `>`";
}

def Tile_AccHalf : Tile_Attr<"AccHalf", "acc_half", (ins "int64_t":$wgm, "int64_t":$wgn)> {
  let summary = "Half the rows of an accumulator: of each 16 that a warp holds, eight";
  let assemblyFormat = "`<` struct(params) `>`";
}

def Tile_AccRuns : Tile_Attr<"AccRuns", "acc_runs", (ins "int64_t":$wgm, "int64_t":$wgn, "int64_t":$run)> {
  let summary = "The rows of an accumulator, each lane of a quad with `run` adjacent columns";
  let assemblyFormat = "`<` struct(params) `>`";
}

def Tile_Slice : Tile_Attr<"Slice", "slice", (ins "int64_t":$dim, "::mlir::Attribute":$parent)> {
  let summary = "A layout with one axis taken away";
  let assemblyFormat = "`<` struct(params) `>`";
}

def Tile_Blocked : Tile_Attr<"Blocked", "blocked", (ins
    ArrayRefParameter<"int64_t">:$per_thread, ArrayRefParameter<"int64_t">:$lanes,
    ArrayRefParameter<"int64_t">:$warps)> {
  let summary = "Contiguous runs per thread, then lanes, then warps";
  let assemblyFormat = [{
    `<` `per_thread` `=` `[` $per_thread `]` `,` `lanes` `=` `[` $lanes `]` `,` `warps` `=` `[` $warps `]` `>`
  }];
}

def Tile_Shared : Tile_Attr<"Shared", "shared", (ins "int64_t":$swizzle)> {
  let summary = "Shared memory in slabs of `swizzle` bytes a row";
  let assemblyFormat = "`<` struct(params) `>`";
}

// ---- Types ----

class Tile_Type<string cppName, string word> : TypeDef<Tile_Dialect, cppName> {
  let mnemonic = word;
}

def Tile_Tile : Tile_Type<"Tile", "tile"> {
  let summary = "A block of values with constant lengths, held by the threads of one CTA";
  let parameters = (ins ArrayRefParameter<"int64_t">:$shape, "::mlir::Type":$elem,
                        OptionalParameter<"::mlir::Attribute">:$layout);
  let assemblyFormat = "`<` custom<Shaped>($shape, $elem) (`,` $layout^)? `>`";
  let genVerifyDecl = 1;
}

def Tile_Tensor : Tile_Type<"Tensor", "tensor"> {
  let summary = "A tensor parameter in global memory; lengths are names or constants";
  let parameters = (ins StringRefParameter<"the parameter's name">:$name, "::mlir::ArrayAttr":$dims,
                        "::mlir::Type":$elem);
  let assemblyFormat = "`<` $name `,` $dims `,` $elem `>`";
}

// ---- Constraints ----

// Of no C++ class, so that operations print types in full.
def Tile_Block : Type<Tile_Tile.predicate, "a tile">;
def Tile_Param : Type<Tile_Tensor.predicate, "a tensor">;

def Tile_IntElem : AnyTypeOf<[I1, I8, I16, I32, I64]>;
def Tile_FloatElem : AnyTypeOf<[F16, BF16, F32, F64, F8E4M3FN, F8E5M2]>;
def Tile_Elem : AnyTypeOf<[Tile_IntElem, Tile_FloatElem], "a scalar">;

class Tile_Like<Type elem, string what> :
  Type<SubstLeaves<"$_self", "::flashc::tile::elemOf($_self)", elem.predicate>, what>;
def Tile_IntLike : Tile_Like<Tile_IntElem, "an integer or a tile of integers">;
def Tile_FloatLike : Tile_Like<Tile_FloatElem, "a float or a tile of floats">;
def Tile_BoolLike : Tile_Like<I1, "a bool or a tile of bools">;
def Tile_Any : Tile_Like<Tile_Elem, "a scalar or a tile">;

// A check over a whole operation: a C++ function of Tile.h.
class Tile_Check<string what, string function> :
  PredOpTrait<what, CPred<"::flashc::tile::" # function # "($_op)">>;

def Tile_SameShape : Tile_Check<"operand and result have the same shape and layout", "sameShape">;

// ---- Elementwise ----

class Tile_Op<string name, list<Trait> traits = []> : Op<Tile_Dialect, name, traits>;
class Tile_PureOp<string name, list<Trait> traits = []> : Tile_Op<name, !listconcat([Pure], traits)>;

class Tile_Binary<string name, Type type, list<Trait> traits = []> :
    Tile_PureOp<name, !listconcat([SameOperandsAndResultType], traits)> {
  let arguments = (ins type:$lhs, type:$rhs);
  let results = (outs type:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($result)";
}
foreach name = ["addi", "muli", "andi", "ori", "xori", "minsi", "maxsi", "minui", "maxui"] in
  def Tile_#name#Op : Tile_Binary<name, Tile_IntLike, [Commutative]>;
foreach name = ["subi", "divsi", "remsi", "divui", "remui", "shli", "shrsi", "shrui"] in
  def Tile_#name#Op : Tile_Binary<name, Tile_IntLike>;
foreach name = ["addf", "mulf"] in
  def Tile_#name#Op : Tile_Binary<name, Tile_FloatLike, [Commutative]>;
foreach name = ["subf", "divf", "minnumf", "maxnumf"] in
  def Tile_#name#Op : Tile_Binary<name, Tile_FloatLike>;

class Tile_Unary<string name, Type type> : Tile_PureOp<name, [SameOperandsAndResultType]> {
  let arguments = (ins type:$x);
  let results = (outs type:$result);
  let assemblyFormat = "$x attr-dict `:` type($result)";
}
foreach name = ["negf", "absf", "exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sin", "cos", "tanh", "erf",
                "floor", "ceil"] in
  def Tile_#name#Op : Tile_Unary<name, Tile_FloatLike>;
def Tile_AbsIOp : Tile_Unary<"absi", Tile_IntLike>;

class Tile_Cast<string name, Type from, Type to> : Tile_PureOp<name, [Tile_SameShape]> {
  let arguments = (ins from:$x);
  let results = (outs to:$result);
  let assemblyFormat = "$x attr-dict `:` type($x) `to` type($result)";
}
foreach name = ["extf", "truncf"] in def Tile_#name#Op : Tile_Cast<name, Tile_FloatLike, Tile_FloatLike>;
foreach name = ["extsi", "extui", "trunci"] in def Tile_#name#Op : Tile_Cast<name, Tile_IntLike, Tile_IntLike>;
foreach name = ["sitofp", "uitofp"] in def Tile_#name#Op : Tile_Cast<name, Tile_IntLike, Tile_FloatLike>;
foreach name = ["fptosi", "fptoui"] in def Tile_#name#Op : Tile_Cast<name, Tile_FloatLike, Tile_IntLike>;
def Tile_BitcastOp : Tile_Cast<"bitcast", Tile_Any, Tile_Any>;

def Tile_FmaOp : Tile_PureOp<"fma", [SameOperandsAndResultType]> {
  let arguments = (ins Tile_FloatLike:$a, Tile_FloatLike:$b, Tile_FloatLike:$c);
  let results = (outs Tile_FloatLike:$result);
  let assemblyFormat = "$a `,` $b `,` $c attr-dict `:` type($result)";
}

def Tile_Predicate : ConfinedAttr<StrAttr, [AttrConstraint<CPred<
    "::flashc::tile::isPredicate(::llvm::cast<::mlir::StringAttr>($_self).getValue())">, "a comparison">]>;

def Tile_CmpOp : Tile_PureOp<"cmp", [SameTypeOperands,
    TypesMatchWith<"the result is a bool for each element", "lhs", "result", "::flashc::tile::boolLike($_self)">]> {
  let arguments = (ins Tile_Predicate:$predicate, Tile_Any:$lhs, Tile_Any:$rhs);
  let results = (outs Tile_BoolLike:$result);
  let assemblyFormat = "custom<Word>($predicate) `,` $lhs `,` $rhs attr-dict `:` type($lhs)";
}

def Tile_SelectOp : Tile_PureOp<"select", [AllTypesMatch<["a", "b", "result"]>,
    Tile_Check<"the condition is a bool or has the tile's shape", "selectable">]> {
  let arguments = (ins Tile_BoolLike:$condition, Tile_Any:$a, Tile_Any:$b);
  let results = (outs Tile_Any:$result);
  let assemblyFormat = "$condition `,` $a `,` $b attr-dict `:` type($condition) `,` type($result)";
}

// ---- The grid ----

def Tile_GridAxis : ConfinedAttr<I64Attr, [IntMinValue<0>, IntMaxValue<2>]>;
foreach name = ["program_id", "num_programs"] in
  def Tile_#name#Op : Tile_PureOp<name> {
    let arguments = (ins Tile_GridAxis:$axis);
    let results = (outs I32:$result);
    let assemblyFormat = "$axis attr-dict";
  }

def Tile_CtaIndexOp : Tile_PureOp<"cta_index"> {
  let results = (outs I32:$result);
  let assemblyFormat = "attr-dict";
}

def Tile_CtaCountOp : Tile_PureOp<"cta_count"> {
  let arguments = (ins OptionalAttr<I64Attr>:$up_to);
  let results = (outs I32:$result);
  let assemblyFormat = "(`up_to` $up_to^)? attr-dict";
}

// ---- Shapes ----

// Memory through which threads exchange values, once a pass has found that they must. It changes no meaning.
def Tile_Scratch : Optional<Type<CPred<"::flashc::tile::isBuffer($_self)">, "a buffer in shared memory">>;

def Tile_SplatOp : Tile_PureOp<"splat", [
    TypesMatchWith<"the scalar is an element of the tile", "result", "x", "::flashc::tile::elemOf($_self)">]> {
  let arguments = (ins Tile_Elem:$x);
  let results = (outs Tile_Block:$result);
  let assemblyFormat = "$x attr-dict `:` type($result)";
}

def Tile_IotaOp : Tile_PureOp<"iota", [Tile_Check<"the result is tile<Nxi32>", "isIota">]> {
  let results = (outs Tile_Block:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

def Tile_BroadcastOp : Tile_PureOp<"broadcast", [Tile_Check<"`dims` name, ascending, result axes of equal length",
    "broadcasts">]> {
  let arguments = (ins Tile_Block:$x, DenseI64ArrayAttr:$dims);
  let results = (outs Tile_Block:$result);
  let assemblyFormat = "$x `dims` $dims attr-dict `:` type($x) `->` type($result)";
}

def Tile_ReshapeOp : Tile_PureOp<"reshape", [Tile_Check<"the number of elements stays", "reshapes">]> {
  let arguments = (ins Tile_Block:$x, Tile_Scratch:$scratch);
  let results = (outs Tile_Block:$result);
  let assemblyFormat = [{
    $x (`scratch` $scratch^)? attr-dict `:` type($x) (`scratch` type($scratch)^)? `->` type($result)
  }];
}

def Tile_TransOp : Tile_PureOp<"trans", [Tile_Check<"the two axes change places", "transposes">]> {
  let arguments = (ins Tile_Block:$x, Tile_Scratch:$scratch);
  let results = (outs Tile_Block:$result);
  let assemblyFormat = [{
    $x (`scratch` $scratch^)? attr-dict `:` type($x) (`scratch` type($scratch)^)? `->` type($result)
  }];
}

def Tile_Reduction : ConfinedAttr<StrAttr, [AttrConstraint<CPred<
    "::flashc::tile::isReduction(::llvm::cast<::mlir::StringAttr>($_self).getValue())">, "sum, max or min">]>;

def Tile_ReduceOp : Tile_PureOp<"reduce", [Tile_Check<"the result lacks the reduced axis", "reduces">]> {
  let arguments = (ins Tile_Block:$x, Tile_Scratch:$scratch, Tile_Reduction:$op, I64Attr:$axis);
  let results = (outs Tile_Any:$result);
  let assemblyFormat = [{
    custom<Word>($op) $x `axis` $axis (`scratch` $scratch^)? attr-dict
    `:` type($x) (`scratch` type($scratch)^)? `->` type($result)
  }];
}

def Tile_FoldOp : Tile_PureOp<"fold", [Tile_Check<"columns, a multiple of 8, become 8", "folds">]> {
  let arguments = (ins Tile_Block:$x, Tile_Reduction:$op);
  let results = (outs Tile_Block:$result);
  let assemblyFormat = "custom<Word>($op) $x attr-dict `:` type($x) `->` type($result)";
}

def Tile_Part : ConfinedAttr<I64Attr, [IntMinValue<0>, IntMaxValue<1>]>;
def Tile_RowsOp : Tile_PureOp<"rows", [Tile_Check<"the result has half the rows", "halves">]> {
  let arguments = (ins Tile_Block:$x, Tile_Part:$part);
  let results = (outs Tile_Block:$result);
  let assemblyFormat = "$x `part` $part attr-dict `:` type($x) `->` type($result)";
}

def Tile_JoinRowsOp : Tile_PureOp<"join_rows", [AllTypesMatch<["first", "second"]>,
    Tile_Check<"the operands have half the rows each", "joins">]> {
  let arguments = (ins Tile_Block:$first, Tile_Block:$second);
  let results = (outs Tile_Block:$result);
  let assemblyFormat = "$first `,` $second attr-dict `:` type($first) `->` type($result)";
}

def Tile_ConvertOp : Tile_PureOp<"convert", [Tile_Check<"only the layout changes", "converts">]> {
  let arguments = (ins Tile_Block:$x, Tile_Scratch:$scratch);
  let results = (outs Tile_Block:$result);
  let assemblyFormat = [{
    $x (`scratch` $scratch^)? attr-dict `:` type($x) (`scratch` type($scratch)^)? `->` type($result)
  }];
}

def Tile_DotOp : Tile_PureOp<"dot", [AllTypesMatch<["acc", "result"]>,
    Tile_Check<"shapes are MxK, KxN, MxN", "multiplies">]> {
  let arguments = (ins Tile_Block:$a, Tile_Block:$b, Tile_Block:$acc);
  let results = (outs Tile_Block:$result);
  let assemblyFormat = "$a `,` $b `,` $acc attr-dict `:` type($a) `,` type($b) `->` type($result)";
}

// ---- Global memory ----

class Tile_Element<string value> : TypesMatchWith<"the scalar is an element of the tensor", "tensor", value,
    "::flashc::tile::elemOf($_self)">;
def Tile_Indexed : Tile_Check<"there is one index an axis of the tensor, and `axes` name the tile's axes", "indexes">;

def Tile_LoadOp : Tile_Op<"load", [MemoryEffects<[MemRead]>, Tile_Indexed]> {
  let arguments = (ins Tile_Param:$tensor, Variadic<I32>:$index, DenseI64ArrayAttr:$axes);
  let results = (outs Tile_Block:$result);
  let assemblyFormat = "$tensor `[` $index `]` `axes` $axes attr-dict `:` type($tensor) `->` type($result)";
}

def Tile_LoadScalarOp : Tile_Op<"load_scalar", [MemoryEffects<[MemRead]>, Tile_Element<"result">, Tile_Indexed]> {
  let arguments = (ins Tile_Param:$tensor, Variadic<I32>:$index);
  let results = (outs Tile_Elem:$result);
  let assemblyFormat = "$tensor `[` $index `]` attr-dict `:` type($tensor)";
}

def Tile_StoreOp : Tile_Op<"store", [MemoryEffects<[MemWrite]>, Tile_Indexed]> {
  let arguments = (ins Tile_Param:$tensor, Variadic<I32>:$index, Tile_Block:$value, DenseI64ArrayAttr:$axes);
  let assemblyFormat = [{
    $tensor `[` $index `]` `,` $value `axes` $axes attr-dict `:` type($tensor) `,` type($value)
  }];
}

def Tile_StoreScalarOp : Tile_Op<"store_scalar", [MemoryEffects<[MemWrite]>, Tile_Element<"value">, Tile_Indexed]> {
  let arguments = (ins Tile_Param:$tensor, Variadic<I32>:$index, Tile_Elem:$value);
  let assemblyFormat = "$tensor `[` $index `]` `,` $value attr-dict `:` type($tensor)";
}

#endif
