// The `sm90` dialect: shared memory, asynchronous copies, barriers and wgmma made explicit.
//
// Names, operand order and attributes are those of `flashc_ir::ops::Kind`. No operation here declares its
// effects, so upstream passes must take each as able to do anything: none is merged, moved or dropped.

#ifndef FLASHC_SM90_OPS
#define FLASHC_SM90_OPS

include "tile/TileOps.td"

def Sm90_Dialect : Dialect {
  let name = "sm90";
  let cppNamespace = "::flashc::sm90";
  let summary = "Hopper's memory and asynchrony";
  let dependentDialects = ["::flashc::tile::TileDialect"];
  let useDefaultTypePrinterParser = 1;
}

class Sm90_Type<string cppName, string word> : TypeDef<Sm90_Dialect, cppName> {
  let mnemonic = word;
}

def Sm90_Buffer : Sm90_Type<"Buffer", "buffer"> {
  let summary = "A tile's place in shared memory";
  let parameters = (ins ArrayRefParameter<"int64_t">:$shape, "::mlir::Type":$elem, "::mlir::Attribute":$layout);
  let assemblyFormat = "`<` custom<Shaped>($shape, $elem) `,` $layout `>`";
  let genVerifyDecl = 1;
}

def Sm90_Barrier : Sm90_Type<"Barrier", "barrier">,
    BuildableType<"::flashc::sm90::BarrierType::get($_builder.getContext())"> {
  let summary = "An mbarrier in shared memory";
}

def Sm90_Ring : Sm90_Type<"Ring", "ring"> {
  let summary = "Several buffers of one type, used in turn";
  let parameters = (ins "int64_t":$slots, "::mlir::Type":$buffer);
  let assemblyFormat = "`<` $slots `,` $buffer `>`";
}

def Sm90_BarrierRing : Sm90_Type<"BarrierRing", "barrier_ring"> {
  let summary = "Several mbarriers, used in turn";
  let parameters = (ins "int64_t":$slots);
  let assemblyFormat = "`<` $slots `>`";
}

def Sm90_InFlight : Sm90_Type<"InFlight", "inflight"> {
  let summary = "A wgmma result that is still being computed";
  let parameters = (ins "::mlir::Type":$tile);
  let assemblyFormat = "`<` $tile `>`";
  let genVerifyDecl = 1;
}

// Of no C++ class, so that operations print types in full.
def Sm90_Shared : Type<Sm90_Buffer.predicate, "a buffer in shared memory">;
def Sm90_Buffers : Type<Or<[Sm90_Buffer.predicate, Sm90_Ring.predicate]>, "a buffer or a ring of them">;
def Sm90_Barriers : Type<Or<[Sm90_Barrier.predicate, Sm90_BarrierRing.predicate]>, "an mbarrier or a ring of them">;
def Sm90_Flying : Type<Sm90_InFlight.predicate, "a tile in flight">;

class Sm90_Op<string name, list<Trait> traits = []> : Op<Sm90_Dialect, name, traits>;
class Sm90_Check<string what, string function> :
  PredOpTrait<what, CPred<"::flashc::sm90::" # function # "($_op)">>;

def Sm90_Offset : OptionalAttr<ConfinedAttr<I64Attr, [IntNonNegative]>>;

def Sm90_AllocOp : Sm90_Op<"alloc"> {
  let arguments = (ins Sm90_Offset:$offset);
  let results = (outs Sm90_Buffers:$result);
  let assemblyFormat = "(`at` $offset^)? attr-dict `:` type($result)";
}

def Sm90_BarrierAllocOp : Sm90_Op<"barrier_alloc"> {
  let arguments = (ins ConfinedAttr<I64Attr, [IntPositive]>:$count, Sm90_Offset:$offset);
  let results = (outs Sm90_Barriers:$result);
  let assemblyFormat = "`count` $count (`at` $offset^)? attr-dict `:` type($result)";
}

def Sm90_TmaLoadOp : Sm90_Op<"tma_load", [Sm90_Check<"there is one index an axis of the tensor, and `axes` name the "
    "buffer's axes", "indexes">]> {
  let arguments = (ins Tile_Param:$tensor, Variadic<I32>:$index, Sm90_Shared:$buffer, Sm90_Barrier:$barrier,
                       DenseI64ArrayAttr:$axes);
  let assemblyFormat = [{
    $tensor `[` $index `]` `axes` $axes `->` $buffer `,` $barrier attr-dict `:` type($tensor) `->` type($buffer)
  }];
}

def Sm90_TmaStoreOp : Sm90_Op<"tma_store", [Sm90_Check<"there is one index an axis of the tensor, and `axes` name "
    "the buffer's axes", "storeIndexes">]> {
  let arguments = (ins Tile_Param:$tensor, Variadic<I32>:$index, Sm90_Shared:$buffer, DenseI64ArrayAttr:$axes,
                       ConfinedAttr<I64Attr, [IntPositive]>:$wgm, ConfinedAttr<I64Attr, [IntPositive]>:$wgn);
  let assemblyFormat = [{
    $buffer `->` $tensor `[` $index `]` `axes` $axes `parts` $wgm `,` $wgn attr-dict
    `:` type($buffer) `->` type($tensor)
  }];
}

def Sm90_TmaStoreWaitOp : Sm90_Op<"tma_store_wait"> {
  let arguments = (ins Variadic<Sm90_Shared>:$buffers, ConfinedAttr<I64Attr, [IntNonNegative]>:$pending,
                       UnitAttr:$read);
  let assemblyFormat = "`pending` $pending (`read` $read^)? (`of` $buffers^ `:` type($buffers))? attr-dict";
}

def Sm90_BarrierWaitOp : Sm90_Op<"barrier_wait"> {
  let arguments = (ins Sm90_Barrier:$barrier, I32:$parity);
  let assemblyFormat = "$barrier `,` $parity attr-dict";
}

def Sm90_LocalStoreOp : Sm90_Op<"local_store", [Sm90_Check<"the buffer has the tile's element type and room for it", "copies">]> {
  let arguments = (ins Tile_Block:$value, Sm90_Shared:$buffer);
  let assemblyFormat = "$value `->` $buffer attr-dict `:` type($value) `->` type($buffer)";
}

def Sm90_LocalLoadOp : Sm90_Op<"local_load", [Sm90_Check<"the buffer has the tile's element type and room for it", "copies">]> {
  let arguments = (ins Sm90_Shared:$buffer);
  let results = (outs Tile_Block:$result);
  let assemblyFormat = "$buffer attr-dict `:` type($buffer) `->` type($result)";
}

def Sm90_WgmmaOp : Sm90_Op<"wgmma"> {
  let arguments = (ins AnyTypeOf<[Sm90_Shared, Tile_Block]>:$a, Sm90_Shared:$b, Optional<Tile_Block>:$acc,
                       UnitAttr:$trans_a, UnitAttr:$trans_b);
  let results = (outs Sm90_Flying:$result);
  let assemblyFormat = [{
    $a `,` $b (`,` $acc^)? (`trans_a` $trans_a^)? (`trans_b` $trans_b^)? attr-dict
    `:` type($a) `,` type($b) (`,` type($acc)^)? `->` type($result)
  }];
}

def Sm90_WgmmaWaitOp : Sm90_Op<"wgmma_wait", [
    TypesMatchWith<"the result is the tile in flight", "value", "result",
                   "::llvm::cast<::flashc::sm90::InFlightType>($_self).getTile()">]> {
  let arguments = (ins Sm90_Flying:$value, Variadic<Tile_Block>:$reads,
                       ConfinedAttr<I64Attr, [IntNonNegative]>:$pending);
  let results = (outs Tile_Block:$result);
  let assemblyFormat = [{
    $value (`reads` $reads^)? `pending` $pending attr-dict `:` type($value) (`reads` type($reads)^)?
  }];
}

def Sm90_SlotOp : Sm90_Op<"slot", [Pure]> {
  let arguments = (ins AnyTypeOf<[Sm90_Ring, Sm90_BarrierRing]>:$ring, I32:$index);
  let results = (outs AnyTypeOf<[Sm90_Shared, Sm90_Barrier]>:$result);
  let assemblyFormat = "$ring `[` $index `]` attr-dict `:` type($ring) `->` type($result)";
}

def Sm90_BarrierArriveOp : Sm90_Op<"barrier_arrive"> {
  let arguments = (ins Sm90_Barrier:$barrier);
  let assemblyFormat = "$barrier attr-dict";
}

class Sm90_TurnOp<string name> : Sm90_Op<name> {
  let arguments = (ins ConfinedAttr<I64Attr, [IntPositive]>:$turns);
  let assemblyFormat = "`of` $turns attr-dict";
}
def Sm90_TurnWaitOp : Sm90_TurnOp<"turn_wait">;
def Sm90_TurnPassOp : Sm90_TurnOp<"turn_pass">;

def Sm90_EndOp : Sm90_Op<"end", [Terminator, HasParent<"RolesOp">]> { let assemblyFormat = "attr-dict"; }

def Sm90_RolesOp : Sm90_Op<"roles"> {
  let summary = "The threads part: each group of warps runs one region";
  let arguments = (ins StrArrayAttr:$names, DenseI64ArrayAttr:$warps, DenseI64ArrayAttr:$registers);
  let regions = (region VariadicRegion<SizedRegion<1>>:$bodies);
  let assemblyFormat = "$names `warps` $warps `registers` $registers $bodies attr-dict";
}

def Sm90_FenceAsyncOp : Sm90_Op<"fence_async"> { let assemblyFormat = "attr-dict"; }
def Sm90_CtaBarrierOp : Sm90_Op<"cta_barrier"> { let assemblyFormat = "attr-dict"; }
def Sm90_GroupBarrierOp : Sm90_Op<"group_barrier"> { let assemblyFormat = "attr-dict"; }

#endif
