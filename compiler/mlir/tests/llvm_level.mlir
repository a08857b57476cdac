// Every spelling that the lowering prints, in generic form: copy from here.
// Parsed, verified and compiled to PTX by tests/mlir/codegen.rs. Operation order and values make no sense as a program.
"builtin.module"() ({
  // Dynamic shared memory: the launch decides the length.
  "llvm.mlir.global"() <{sym_name = "smem", global_type = !llvm.array<0 x i8>, addr_space = 3 : i32, alignment = 1024 : i64, linkage = #llvm.linkage<external>}> ({
  }) : () -> ()

  // A kernel. The tensor map is a 128-byte parameter by value; the attributes nvvm.* are discardable.
  "llvm.func"() <{sym_name = "kernel", function_type = !llvm.func<void (ptr, ptr<1>, i32, f32)>, linkage = #llvm.linkage<external>, arg_attrs = [{llvm.byval = !llvm.array<128 x i8>, nvvm.grid_constant, llvm.align = 64 : i64}, {}, {}, {}]}> ({
  ^bb0(%map: !llvm.ptr, %out: !llvm.ptr<1>, %n: i32, %scale: f32):
    %smem = "llvm.mlir.addressof"() <{global_name = @smem}> : () -> !llvm.ptr<3>
    %c0 = "llvm.mlir.constant"() <{value = 0 : i32}> : () -> i32
    %c1 = "llvm.mlir.constant"() <{value = 1 : i32}> : () -> i32
    %all = "llvm.mlir.constant"() <{value = -1 : i32}> : () -> i32
    %c31 = "llvm.mlir.constant"() <{value = 31 : i32}> : () -> i32
    %inf = "llvm.mlir.constant"() <{value = 0xFF800000 : f32}> : () -> f32
    %c64 = "arith.constant"() <{value = 64 : i64}> : () -> i64

    // Address arithmetic: constant bytes, a variable (-2147483648 stands for an operand), and an element type.
    %bar = "llvm.getelementptr"(%smem) <{elem_type = i8, rawConstantIndices = array<i32: 16384>}> : (!llvm.ptr<3>) -> !llvm.ptr<3>
    %tid = "nvvm.read.ptx.sreg.tid.x"() : () -> i32
    %tidr = "nvvm.read.ptx.sreg.tid.x"() <{range = #llvm.constant_range<i32, 0, 128>}> : () -> i32
    %lane = "nvvm.read.ptx.sreg.laneid"() <{range = #llvm.constant_range<i32, 0, 32>}> : () -> i32
    %cta = "nvvm.read.ptx.sreg.ctaid.x"() : () -> i32
    %ctay = "nvvm.read.ptx.sreg.ctaid.y"() : () -> i32
    %ctaz = "nvvm.read.ptx.sreg.ctaid.z"() : () -> i32
    %ncta = "nvvm.read.ptx.sreg.nctaid.x"() : () -> i32
    %ssi = "llvm.ptrtoint"(%smem) : (!llvm.ptr<3>) -> i32
    %back = "llvm.inttoptr"(%ssi) : (i32) -> !llvm.ptr<3>
    %first = "arith.cmpi"(%tid, %c0) <{predicate = 0 : i64}> : (i32, i32) -> i1
    %first2 = "llvm.icmp"(%tidr, %c0) <{predicate = 0 : i64}> : (i32, i32) -> i1

    // mbarriers.
    "scf.if"(%first) ({
      "nvvm.mbarrier.init"(%bar, %c1) : (!llvm.ptr<3>, i32) -> ()
      "llvm.inline_asm"() <{asm_string = "fence.mbarrier_init.release.cluster;", constraints = "~{memory}", has_side_effects, asm_dialect = 0 : i64}> : () -> ()
      "scf.yield"() : () -> ()
    }, {
    }) : (i1) -> ()
    "nvvm.barrier0"() : () -> ()
    "scf.if"(%first) ({
      %bytes = "llvm.mlir.constant"() <{value = 16384 : i32}> : () -> i32
      "nvvm.mbarrier.arrive.expect_tx"(%bar, %bytes) : (!llvm.ptr<3>, i32) -> ()
      %dst = "llvm.addrspacecast"(%smem) : (!llvm.ptr<3>) -> !llvm.ptr<7>
      // operandSegmentSizes: destination, map, box, mbarrier, im2col, multicast, cache hint, predicate.
      "nvvm.cp.async.bulk.tensor.shared.cluster.global"(%dst, %map, %c0, %cta, %bar) <{mode = #nvvm.tma_load_mode<tile>, operandSegmentSizes = array<i32: 1, 1, 2, 1, 0, 0, 0, 0>}> : (!llvm.ptr<7>, !llvm.ptr, i32, i32, !llvm.ptr<3>) -> ()
      // The same as inline asm: addresses in shared memory are i32, the map is a generic pointer.
      "llvm.inline_asm"(%ssi, %map, %c0, %cta, %ssi) <{asm_string = "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [$0], [$1, {$2, $3}], [$4];", constraints = "r,l,r,r,r,~{memory}", has_side_effects, asm_dialect = 0 : i64}> : (i32, !llvm.ptr, i32, i32, i32) -> ()
      "scf.yield"() : () -> ()
    }, {
    }) : (i1) -> ()
    %arrived = "nvvm.mbarrier.arrive"(%bar) : (!llvm.ptr<3>) -> i64
    // A wait is one asm, its loop inside; ${:uid} makes the labels unique, $$ is a dollar sign.
    "llvm.inline_asm"(%bar, %c0) <{asm_string = "{\0A.reg .pred p;\0AWAIT_${:uid}:\0Ambarrier.try_wait.parity.shared::cta.b64 p, [$0], $1;\0A@!p bra.uni WAIT_${:uid};\0A}", constraints = "r,r,~{memory}", has_side_effects, asm_dialect = 0 : i64}> : (!llvm.ptr<3>, i32) -> ()

    // Fences, barriers, warps.
    "nvvm.fence.proxy"() <{kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}> : () -> ()
    "nvvm.bar.warp.sync"(%all) : (i32) -> ()
    %c128 = "llvm.mlir.constant"() <{value = 128 : i32}> : () -> i32
    "nvvm.barrier"(%c1, %c128) <{operandSegmentSizes = array<i32: 1, 1, 0>}> : (i32, i32) -> ()
    "nvvm.barrier.arrive"(%c1, %c128) : (i32, i32) -> ()
    %x = "nvvm.shfl.sync"(%all, %scale, %c1, %c31) <{kind = #nvvm<shfl_kind bfly>}> : (i32, f32, i32, i32) -> f32
    %xi = "nvvm.shfl.sync"(%all, %tid, %c0, %c31) <{kind = #nvvm<shfl_kind idx>}> : (i32, i32, i32, i32) -> i32
    %elected = "nvvm.elect.sync"() : () -> i1
    "nvvm.setmaxregister"() <{regCount = 240 : i32, action = #nvvm<action increase>}> : () -> ()

    // Matrices through shared memory.
    "nvvm.stmatrix"(%smem, %tid, %tid, %tid, %tid) <{layout = #nvvm.mma_layout<row>, shape = #nvvm.ld_st_matrix_shape<m = 8, n = 8>, eltType = #nvvm.ld_st_matrix_elt_type<b16>}> : (!llvm.ptr<3>, i32, i32, i32, i32) -> ()
    %ldm = "nvvm.ldmatrix"(%smem) <{num = 4 : i32, layout = #nvvm.mma_layout<row>, shape = #nvvm.ld_st_matrix_shape<m = 8, n = 8>, eltType = #nvvm.ld_st_matrix_elt_type<b16>}> : (!llvm.ptr<3>) -> !llvm.struct<(i32, i32, i32, i32)>
    %ldm3 = "llvm.extractvalue"(%ldm) <{position = array<i64: 3>}> : (!llvm.struct<(i32, i32, i32, i32)>) -> i32

    // Global and shared accesses, vectors, conversions, arithmetic.
    %tid64 = "arith.extsi"(%tid) : (i32) -> i64
    %p = "llvm.getelementptr"(%out, %tid64) <{elem_type = vector<4xf32>, rawConstantIndices = array<i32: -2147483648>}> : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>
    %v = "llvm.load"(%p) <{alignment = 16 : i64}> : (!llvm.ptr<1>) -> vector<4xf32>
    %v0 = "llvm.extractelement"(%v, %c0) : (vector<4xf32>, i32) -> f32
    %v1 = "vector.extract"(%v) <{static_position = array<i64: 1>}> : (vector<4xf32>) -> f32
    %e = "llvm.call_intrinsic"(%x) <{intrin = "llvm.nvvm.ex2.approx.ftz.f", op_bundle_sizes = array<i32>, operandSegmentSizes = array<i32: 1, 0>}> : (f32) -> f32
    %y = "arith.addf"(%v0, %e) <{fastmath = #arith.fastmath<contract>}> : (f32, f32) -> f32
    %z = "llvm.intr.maxnum"(%y, %v1) : (f32, f32) -> f32
    %f = "math.fma"(%z, %y, %x) : (f32, f32, f32) -> f32
    %q = "llvm.fmul"(%f, %f) <{fastmathFlags = #llvm.fastmath<contract>}> : (f32, f32) -> f32
    %lt = "arith.cmpf"(%q, %f) <{predicate = 4 : i64}> : (f32, f32) -> i1
    %sel = "arith.select"(%lt, %q, %inf) : (i1, f32, f32) -> f32
    %w = "llvm.insertelement"(%v, %sel, %c0) : (vector<4xf32>, f32, i32) -> vector<4xf32>
    "llvm.store"(%w, %p) <{alignment = 16 : i64}> : (vector<4xf32>, !llvm.ptr<1>) -> ()
    %two = "vector.from_elements"(%y, %z) : (f32, f32) -> vector<2xf32>
    %narrow = "arith.truncf"(%two) : (vector<2xf32>) -> vector<2xbf16>
    %packed = "llvm.bitcast"(%narrow) : (vector<2xbf16>) -> i32
    "llvm.store"(%packed, %bar) : (i32, !llvm.ptr<3>) -> ()
    %undef = "llvm.mlir.poison"() : () -> vector<2xf32>
    "llvm.inline_asm"(%out, %y) <{asm_string = "red.global.add.f32 [$0], $1; // $$", constraints = "l,f", has_side_effects, asm_dialect = 0 : i64}> : (!llvm.ptr<1>, f32) -> ()

    // A loop that carries values; bounds of any integer type. The attribute keeps ptxas from unrolling it.
    %sum:2 = "scf.for"(%c0, %n, %c1, %y, %tid) ({
    ^bb0(%i: i32, %a: f32, %k: i32):
      %b = "math.fma"(%a, %a, %x) : (f32, f32, f32) -> f32
      %k2 = "arith.addi"(%k, %i) : (i32, i32) -> i32
      "scf.yield"(%b, %k2) : (f32, i32) -> ()
    }) {loop_annotation = #llvm.loop_annotation<unroll = <disable = true>>} : (i32, i32, i32, f32, i32) -> (f32, i32)

    // wgmma: one asm for a stage, the accumulators tied; then a wait that threads them through.
    %desc = "llvm.zext"(%ssi) : (i32) -> i64
    %mma = "llvm.inline_asm"(%x, %y, %x, %y, %tid, %tid, %tid, %tid, %desc) <{asm_string = "wgmma.fence.sync.aligned;\0Awgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {$0, $1, $2, $3}, {$8, $9, $10, $11}, $12, 1, 1, 1, 0;\0Awgmma.commit_group.sync.aligned;", constraints = "=f,=f,=f,=f,0,1,2,3,r,r,r,r,l,~{memory}", has_side_effects, asm_dialect = 0 : i64}> : (f32, f32, f32, f32, i32, i32, i32, i32, i64) -> !llvm.struct<(f32, f32, f32, f32)>
    %d0 = "llvm.extractvalue"(%mma) <{position = array<i64: 0>}> : (!llvm.struct<(f32, f32, f32, f32)>) -> f32
    %d1 = "llvm.extractvalue"(%mma) <{position = array<i64: 1>}> : (!llvm.struct<(f32, f32, f32, f32)>) -> f32
    %d2 = "llvm.extractvalue"(%mma) <{position = array<i64: 2>}> : (!llvm.struct<(f32, f32, f32, f32)>) -> f32
    %d3 = "llvm.extractvalue"(%mma) <{position = array<i64: 3>}> : (!llvm.struct<(f32, f32, f32, f32)>) -> f32
    %wait = "llvm.inline_asm"(%d0, %d1, %d2, %d3) <{asm_string = "wgmma.wait_group.sync.aligned 0;", constraints = "=f,=f,=f,=f,0,1,2,3,~{memory}", has_side_effects, asm_dialect = 0 : i64}> : (f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
    %r0 = "llvm.extractvalue"(%wait) <{position = array<i64: 0>}> : (!llvm.struct<(f32, f32, f32, f32)>) -> f32
    "llvm.store"(%r0, %out) <{alignment = 4 : i64}> : (f32, !llvm.ptr<1>) -> ()
    "llvm.store"(%sum#0, %p) : (f32, !llvm.ptr<1>) -> ()
    "llvm.return"() : () -> ()
  }) {nvvm.kernel, nvvm.reqntid = array<i32: 128>, nvvm.minctasm = 1 : i32} : () -> ()
}) : () -> ()
