//! LLVM-level text to PTX.

use flashc_mlir::{CodegenOptions, Context, Ptx, compile_to_ptx};
use std::fmt::Write;
use std::path::PathBuf;
use std::process::Command;

fn compile(text: &str) -> Ptx {
    compile_to_ptx(&Context::new(), text, &CodegenOptions::default()).unwrap_or_else(|e| panic!("{e}"))
}

fn refused(text: &str) -> String {
    compile_to_ptx(&Context::new(), text, &CodegenOptions::default()).expect_err(text).to_string()
}

/// `$PTXAS`, else one on the path, else one of CUDA's usual place.
fn ptxas() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|d| d.join("ptxas"));
    let given = std::env::var_os("PTXAS").map(PathBuf::from);
    given.into_iter().chain(on_path).chain(["/usr/local/cuda/bin/ptxas".into()]).find(|p| p.is_file())
}

/// Assembles, if there is an assembler; returns what it says.
fn assemble(ptx: &str) -> Option<String> {
    let ptxas = ptxas()?;
    let dir = tempfile::tempdir().unwrap();
    let (input, output) = (dir.path().join("k.ptx"), dir.path().join("k.cubin"));
    std::fs::write(&input, ptx).unwrap();
    let run =
        Command::new(ptxas).args(["-arch=sm_90a", "-v"]).arg(&input).arg("-o").arg(output).output().unwrap();
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    assert!(run.status.success(), "ptxas: {said}\n{ptx}");
    Some(said)
}

/// A kernel `k(%out: !llvm.ptr<1>, %n: i32, %f: f32)` with this body.
fn kernel(body: &str) -> String {
    format!(
        "\"builtin.module\"() ({{ \"llvm.func\"() <{{sym_name = \"k\", linkage = #llvm.linkage<external>, \
         function_type = !llvm.func<void (ptr<1>, i32, f32)>}}> ({{\n\
         ^bb0(%out: !llvm.ptr<1>, %n: i32, %f: f32):\n{body}\n\"llvm.return\"() : () -> ()\n\
         }}) {{nvvm.kernel, nvvm.reqntid = array<i32: 128>}} : () -> () }}) : () -> ()"
    )
}

#[test]
fn every_spelling() {
    let ptx = compile(include_str!("../llvm_level.mlir"));
    let lines = [
        ".version 9.0",
        ".target sm_90a",
        ".extern .shared .align 1024 .b8 smem[];",
        ".param .align 64 .b8 kernel_param_0[128]",
        ".reqntid 128",
        ".minnctapersm 1",
        "ld.global.v4.b32",
        "ex2.approx.ftz.f32",
        "cvt.rn.bf16x2.f32",
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes",
        "wgmma.mma_async.sync.aligned.m64n8k16",
        "stmatrix.sync.aligned.m8n8.x4.shared.b16",
        "shfl.sync.bfly.b32",
        ".pragma \"nounroll\";",
    ];
    for line in lines {
        assert!(ptx.text.contains(line), "`{line}` is not in:\n{}", ptx.text);
    }
    assert!(!ptx.text.contains(".loc"));
    assemble(&ptx.text);
}

#[test]
fn line_info_without_debug_target() {
    let options = CodegenOptions { line_info: true, keep_llvm: true, ..CodegenOptions::default() };
    let text = kernel("\"llvm.store\"(%f, %out) : (f32, !llvm.ptr<1>) -> () loc(\"a.tile\":41:5)")
        .replace("array<i32: 128>} : () -> ()", "array<i32: 128>} : () -> () loc(\"a.tile\":40:1)");
    let ptx = compile_to_ptx(&Context::new(), &text, &options).unwrap();
    assert!(ptx.text.contains(".loc") && ptx.text.contains("a.tile"), "{}", ptx.text);
    assert!(ptx.text.contains(".target sm_90a\n"), "{}", ptx.text);
    assert!(ptx.llvm.unwrap().contains("!DILocation"));
    assemble(&ptx.text);
}

/// 128 accumulators tied through, in a loop: no moves around the wait, one copy of the assembly.
#[test]
fn tied_operands_in_a_loop() {
    const N: usize = 128;
    let list = |f: &dyn Fn(usize) -> String| (0..N).map(f).collect::<Vec<_>>().join(", ");
    let floats = list(&|_| "f32".into());
    let outputs = list(&|_| "=f".into()).replace(' ', "");
    let ties = list(&|i| i.to_string()).replace(' ', "");
    let mut body = String::from(
        "%c0 = \"arith.constant\"() <{value = 0 : i32}> : () -> i32\n\
         %c1 = \"arith.constant\"() <{value = 1 : i32}> : () -> i32\n",
    );
    let _ = writeln!(body, "%r:{N} = \"scf.for\"(%c0, %n, %c1, {}) ({{", list(&|_| "%f".into()));
    let _ = writeln!(body, "^bb0(%i: i32, {}):", list(&|i| format!("%a{i}: f32")));
    let _ = writeln!(
        body,
        "%w = \"llvm.inline_asm\"({}, %out) <{{asm_string = \"// wait ${N}\", \
         constraints = \"{outputs},{ties},l,~{{memory}}\", has_side_effects, asm_dialect = 0 : i64}}> \
         : ({floats}, !llvm.ptr<1>) -> !llvm.struct<({floats})>",
        list(&|i| format!("%a{i}"))
    );
    for i in 0..N {
        let _ = writeln!(
            body,
            "%e{i} = \"llvm.extractvalue\"(%w) <{{position = array<i64: {i}>}}> : (!llvm.struct<({floats})>) -> f32"
        );
    }
    let _ = writeln!(body, "\"scf.yield\"({}) : ({floats}) -> ()", list(&|i| format!("%e{i}")));
    let _ = writeln!(body, "}}) : (i32, i32, i32, {floats}) -> ({floats})");
    for i in 0..N {
        let _ = writeln!(body, "\"llvm.store\"(%r#{i}, %out) <{{volatile_}}> : (f32, !llvm.ptr<1>) -> ()");
    }
    let ptx = compile(&kernel(&body));
    assert_eq!(ptx.text.matches("// wait").count(), 1, "{}", ptx.text);
    let body = &ptx.text[ptx.text.find("$L__BB0_2").unwrap_or(0)..ptx.text.find("// wait").unwrap()];
    assert!(body.matches("mov.b32").count() < 8, "moves before the wait:\n{}", ptx.text);
    assemble(&ptx.text);
}

/// Both branches end in the same barrier, and a loop could be unswitched around one: LLVM must leave both.
#[test]
fn barriers_keep_their_place() {
    let barrier = "\"llvm.inline_asm\"() <{asm_string = \"bar.sync 7, 128;\", constraints = \"~{memory}\", \
                   has_side_effects, asm_dialect = 0 : i64}> : () -> ()";
    let ptx = compile(&kernel(&format!(
        "%c0 = \"arith.constant\"() <{{value = 0 : i32}}> : () -> i32
         %c1 = \"arith.constant\"() <{{value = 1 : i32}}> : () -> i32
         %c = \"arith.cmpi\"(%n, %c1) <{{predicate = 2 : i64}}> : (i32, i32) -> i1
         \"scf.for\"(%c0, %n, %c1) ({{
         ^bb0(%i: i32):
           \"scf.if\"(%c) ({{ \"llvm.store\"(%f, %out) : (f32, !llvm.ptr<1>) -> ()
             \"scf.yield\"() : () -> () }}, {{}}) : (i1) -> ()
           {barrier}
           \"scf.yield\"() : () -> ()
         }}) : (i32, i32, i32) -> ()"
    )));
    assert_eq!(ptx.text.matches("bar.sync 7").count(), 1, "{}", ptx.text);
    let options = CodegenOptions { keep_llvm: true, ..CodegenOptions::default() };
    let llvm = compile_to_ptx(&Context::new(), &kernel(barrier), &options).unwrap().llvm.unwrap();
    assert!(llvm.contains("convergent"), "{llvm}");
}

#[test]
fn what_cannot_be_selected_is_a_failure() {
    let store = "\"llvm.store\"(%x, %out) : (f32, !llvm.ptr<1>) -> ()";
    let math = |op: &str| kernel(&format!("%x = \"math.{op}\"(%f) : (f32) -> f32\n{store}"));
    for op in ["exp", "log", "sin", "cos"] {
        assert!(refused(&math(op)).contains("no instruction"), "{op}");
    }
    assert!(refused(&math("erf")).contains("erf"));
    let intrinsic = |name: &str| {
        kernel(&format!(
            "%x = \"llvm.call_intrinsic\"(%f, %n) <{{intrin = \"{name}\", op_bundle_sizes = array<i32>, \
             operandSegmentSizes = array<i32: 2, 0>}}> : (f32, i32) -> f32\n{store}"
        ))
    };
    assert!(refused(&intrinsic("llvm.nvvm.redux.sync.fmax")).contains("Hopper"));
    assert!(refused(&intrinsic("llvm.nvvm.no.such")).contains("no.such"));
    // An assembly constraint that NVPTX does not know: LLVM reports an error.
    let asm = "\"llvm.inline_asm\"(%f) <{asm_string = \"x $0;\", constraints = \"Q\", has_side_effects, \
               asm_dialect = 0 : i64}> : (f32) -> ()";
    assert!(refused(&kernel(asm)).contains("unknown asm constraint"));
    // No libcall for a double: LLVM wants to end the process.
    let fatal = kernel(
        "%d = \"arith.extf\"(%f) : (f32) -> f64
         %x = \"math.exp2\"(%d) : (f64) -> f64
         \"llvm.store\"(%x, %out) : (f64, !llvm.ptr<1>) -> ()",
    );
    assert!(refused(&fatal).contains("Cannot select"));
    // And the process goes on.
    compile(&kernel(""));
}

#[test]
fn other_levels_are_a_failure() {
    assert!(refused("func.func @a(%x: !tile.tile<8xf32>) { return }").contains("tile"));
    assert!(refused("garbage").contains("garbage"));
}
