//! Times each step on generated code: `cargo run --release -p flashc-mlir --example timings`.

use flashc_ir::ops::{BinaryOp, UnaryOp};
use flashc_ir::{Builder, Elem, Kind, Loc, Type};
use flashc_mlir::{CodegenOptions, Context, UpstreamPass, compile_to_ptx};
use std::fmt::Write;
use std::time::Instant;

fn timed<T>(what: &str, action: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let value = action();
    println!("{what:<28} {:>8.2} ms", start.elapsed().as_secs_f64() * 1e3);
    value
}

/// About `n` operations on tiles.
fn tiles(n: usize) -> flashc_ir::Func {
    let mut b = Builder::new("k", &[("n".into(), Type::I32)], Loc::new("a.tile", 1, 1));
    let ty = Type::tile(&[64, 64], Elem::F32);
    let x = b.constant(flashc_ir::ops::Literal::Float(1.5), Elem::F32);
    let mut at = b.op1(Kind::Splat, &[x], ty.clone());
    for i in 0..n / 2 {
        b.loc = Loc::new("a.tile", 2 + i as u32, 5);
        let e = b.op1(Kind::Unary(UnaryOp::Exp2), &[at], ty.clone());
        at = b.binary(BinaryOp::AddF, e, at);
    }
    b.finish()
}

/// About `n` operations on scalars in a loop over 64 carried values.
fn scalars(n: usize) -> String {
    const CARRIED: usize = 64;
    let list = |f: &dyn Fn(usize) -> String| (0..CARRIED).map(f).collect::<Vec<_>>().join(", ");
    let floats = list(&|_| "f32".into());
    let mut t = String::from(
        "\"builtin.module\"() ({ \"llvm.func\"() <{sym_name = \"k\", linkage = #llvm.linkage<external>, \
         function_type = !llvm.func<void (ptr<1>, i32, f32)>}> ({\n^bb0(%out: !llvm.ptr<1>, %n: i32, %f: f32):\n\
         %c0 = \"arith.constant\"() <{value = 0 : i32}> : () -> i32\n\
         %c1 = \"arith.constant\"() <{value = 1 : i32}> : () -> i32\n",
    );
    let _ = writeln!(t, "%r:{CARRIED} = \"scf.for\"(%c0, %n, %c1, {}) ({{", list(&|_| "%f".into()));
    let _ = writeln!(t, "^bb0(%i: i32, {}):", list(&|i| format!("%v{i}: f32")));
    for i in 0..n - 3 * CARRIED {
        let (a, b) = (i, i + 1);
        let v = i + CARRIED;
        let _ = writeln!(
            t,
            "%v{v} = \"math.fma\"(%v{a}, %f, %v{b}) : (f32, f32, f32) -> f32 loc(\"a.tile\":{i}:1)"
        );
    }
    let _ =
        writeln!(t, "\"scf.yield\"({}) : ({floats}) -> ()", list(&|i| format!("%v{}", n - 3 * CARRIED + i)));
    let _ = writeln!(t, "}}) : (i32, i32, i32, {floats}) -> ({floats})");
    for i in 0..CARRIED {
        let _ = writeln!(
            t,
            "%p{i} = \"llvm.getelementptr\"(%out) <{{elem_type = f32, rawConstantIndices = array<i32: {i}>}}> \
             : (!llvm.ptr<1>) -> !llvm.ptr<1>\n\"llvm.store\"(%r#{i}, %p{i}) : (f32, !llvm.ptr<1>) -> ()"
        );
    }
    t.push_str("\"llvm.return\"() : () -> () }) {nvvm.kernel, nvvm.reqntid = array<i32: 128>} : () -> () }) : () -> ()");
    t
}

fn main() {
    for _ in 0..2 {
        let cx = timed("context", Context::new);
        let func = tiles(200);
        timed("200 operations: print", || flashc_ir::text::print_module(&func));
        let mut module = timed("200 operations: write", || cx.write(&func)).unwrap();
        timed("200 operations: read", || module.to_func()).unwrap();
        let cleanup = [UpstreamPass::Canonicalize, UpstreamPass::Cse, UpstreamPass::LoopInvariantCodeMotion];
        timed("200 operations: clean up", || module.run(&cleanup)).unwrap();

        let text = scalars(10_000);
        for line_info in [false, true] {
            let options = CodegenOptions { line_info, ..CodegenOptions::default() };
            let ptx = timed("10k operations", || compile_to_ptx(&cx, &text, &options)).unwrap();
            for (step, time) in ptx.timings {
                println!("    {step:<24} {:>8.2} ms", time.as_secs_f64() * 1e3);
            }
        }
        println!();
    }
}
