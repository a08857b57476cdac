//! Writing and reading are inverse; what is malformed is refused with words.

use crate::every_op::{blocked, sm90_level, tile_level};
use flashc_ir::layout::Layout;
use flashc_ir::{Block, Func, Kind, Loc};
use flashc_mlir::Context;

/// As `assert_eq`, but shows the first difference only.
fn same(a: &Func, b: &Func) {
    let flat = |f: &Func| {
        let mut ops = vec![];
        f.walk(&mut |op| {
            ops.push(format!("{:?}({:?}) -> {:?} {:?}", op.kind, op.operands, op.results, op.loc))
        });
        ops
    };
    for (x, y) in flat(a).iter().zip(flat(b)) {
        assert_eq!(x, &y);
    }
    assert_eq!(a.arg_names, b.arg_names);
    for (x, y) in a.values.iter().zip(&b.values) {
        assert_eq!(x, y);
    }
    assert!(a == b, "{a:?}\n{b:?}");
}

fn terminators_nowhere(mut func: Func) -> Func {
    fn go(block: &mut Block, loc: &Loc) {
        for op in &mut block.ops {
            if op.kind == Kind::Yield {
                op.loc = loc.clone();
            }
            op.regions.iter_mut().for_each(|r| go(r, loc));
        }
    }
    let loc = func.loc.clone();
    go(&mut func.body, &loc);
    func
}

fn round_trip(cx: &Context, func: &Func) {
    let module = cx.write(func).unwrap();
    same(&module.to_func().unwrap(), func);

    // The dialects' own syntax says the same, with locations and without (but hides empty terminators).
    let pretty = module.print(true);
    let again = cx.parse(&pretty).unwrap();
    assert_eq!(again.print(true), pretty);
    same(&terminators_nowhere(again.to_func().unwrap()), &terminators_nowhere(func.clone()));
    let short = module.print(false);
    assert_eq!(cx.parse(&short).unwrap().print(false), short);
    assert!(!short.contains("\"tile.") && !short.contains("\"sm90."), "generic syntax in:\n{short}");
}

#[test]
fn every_operation() {
    let cx = Context::new();
    let acc = Layout::Acc { wgm: 1, wgn: 1 };
    for func in [tile_level(None), tile_level(Some(acc)), tile_level(Some(blocked())), sm90_level()] {
        round_trip(&cx, &func);
    }
}

/// The syntax, for readers: a change here is a change of the documentation.
#[test]
fn own_syntax() {
    let cx = Context::new();
    let text =
        cx.write(&sm90_level()).unwrap().print(false) + &cx.write(&tile_level(None)).unwrap().print(false);
    let lines = [
        "= sm90.alloc at 1024 : !sm90.buffer<64x64xbf16, #tile.shared<swizzle = 128>>",
        "= sm90.barrier_alloc count 2 at 8",
        "sm90.tma_load %arg2[%c0_i32, %c0_i32] axes [0, 1] -> %0, %3 : !tile.tensor<\"q\", [\"B\", \"64\"], bf16> -> ",
        "sm90.barrier_wait %3, %c0_i32",
        "= sm90.wgmma %0, %1, %7 trans_a : !sm90.buffer<64x64xbf16, #tile.shared<swizzle = 128>>, ",
        "reads %5, %5 pending 1 : !sm90.inflight<!tile.tile<64x64xf32, #tile.acc<wgm = 1, wgn = 1>>> reads ",
        "= tile.cmp slt, ",
        "= tile.program_id 2",
        "= tile.reduce max %",
        "#tile.slice<dim = 1, parent = #tile.acc<wgm = 1, wgn = 1>>",
        "#tile.blocked<per_thread = [1, 8], lanes = [4, 8], warps = [4, 1]>",
        "{tile.unordered}",
        "tile.args = [\"n\", \"B\", \"q\", \"o\"], tile.shared_bytes = 65536 : i64, tile.warps = 4 : i64",
    ];
    for line in lines {
        assert!(text.contains(line), "`{line}` is not in:\n{text}");
    }
}

#[test]
fn malformed_is_refused() {
    let cx = Context::new();
    let cases = [
        ("%0 = \"tile.addf\"(%x, %i) : (f32, i32) -> f32", "must be a float or a tile of floats"),
        ("%0 = \"tile.addf\"(%i, %i) : (i32, i32) -> i32", "must be a float or a tile of floats"),
        ("%0 = \"tile.cmp\"(%x, %x) <{predicate = \"slower\"}> : (f32, f32) -> i1", "a comparison"),
        (
            "%0 = \"tile.cmp\"(%t, %t) <{predicate = \"feq\"}> : (!tile.tile<8xf32>, !tile.tile<8xf32>) -> i1",
            "bool",
        ),
        ("%0 = \"tile.program_id\"() <{axis = 3 : i64}> : () -> i32", "maximum value is 2"),
        ("%0 = \"tile.splat\"(%x) : (f32) -> !tile.tile<8xf16>", "element of the tile"),
        ("%0 = \"tile.splat\"(%x) : (f32) -> !tile.tile<0xf32>", "positive lengths"),
        ("%0 = \"tile.splat\"(%x) : (f32) -> !tile.tile<8xi7>", "unknown element type"),
        (
            "%0 = \"tile.splat\"(%x) : (f32) -> !tile.tile<8xf32, #tile.shared<swizzle = 32>>",
            "register layout",
        ),
        ("%0 = \"tile.extf\"(%t) : (!tile.tile<8xf32>) -> !tile.tile<9xf64>", "same shape"),
        (
            "%0 = \"tile.broadcast\"(%t) <{dims = array<i64: 0>}> : (!tile.tile<8xf32>) -> !tile.tile<9x8xf32>",
            "ascending",
        ),
        (
            "%0 = \"tile.reduce\"(%t) <{axis = 1 : i64, op = \"sum\"}> : (!tile.tile<8xf32>) -> f32",
            "reduced axis",
        ),
        (
            "%0 = \"tile.reduce\"(%t) <{axis = 0 : i64, op = \"mul\"}> : (!tile.tile<8xf32>) -> f32",
            "sum, max or min",
        ),
        ("%0 = \"tile.reshape\"(%t) : (!tile.tile<8xf32>) -> !tile.tile<3x3xf32>", "number of elements"),
        (
            "%0 = \"tile.convert\"(%t, %x) : (!tile.tile<8xf32>, f32) -> !tile.tile<8xf32>",
            "a buffer in shared memory",
        ),
        ("%0 = \"tile.load_scalar\"(%q) : (!tile.tensor<\"q\", [\"4\"], f32>) -> f32", "one index an axis"),
        (
            "%0 = \"tile.load\"(%q, %i) <{axes = array<i64: 1>}> : (!tile.tensor<\"q\", [\"4\"], f32>, i32) -> !tile.tile<4xf32>",
            "axes",
        ),
        ("%0 = \"sm90.barrier_alloc\"() <{count = 0 : i64}> : () -> !sm90.barrier", "positive"),
        (
            "%0 = \"sm90.alloc\"() : () -> !sm90.buffer<4xf32, #tile.acc<wgm = 1, wgn = 1>>",
            "expected #tile.shared",
        ),
        ("%0 = \"sm90.alloc\"() : () -> !sm90.inflight<f32>", "expected a tile"),
        ("%0 = \"sm90.nothing\"() : () -> i32", "sm90.nothing"),
        ("%0 = \"tile.addf\"(%x, %y) : (f32, f32) -> f32", "undeclared SSA value"),
        ("\0", "NUL"),
    ];
    for (op, want) in cases {
        let text = format!(
            "\"builtin.module\"() ({{ \"func.func\"() <{{function_type = (f32, i32, !tile.tile<8xf32>, \
             !tile.tensor<\"q\", [\"4\"], f32>) -> (), sym_name = \"k\"}}> ({{\n\
             ^bb0(%x: f32, %i: i32, %t: !tile.tile<8xf32>, %q: !tile.tensor<\"q\", [\"4\"], f32>):\n{op}\n\
             \"func.return\"() : () -> ()\n}}) : () -> () }}) : () -> ()"
        );
        let failure = cx.parse(&text).expect_err(op);
        assert!(failure.to_string().contains(want), "{op}\nwant: {want}\ngot: {failure}");
    }
    // The context is as good as new.
    round_trip(&cx, &sm90_level());
}

#[test]
fn only_one_straight_function_is_read() {
    let cx = Context::new();
    let read = |text: &str| cx.parse(text).unwrap().to_func().expect_err(text).to_string();
    assert!(read("module {}").contains("no func.func"));
    assert!(read("func.func @a() { return } func.func @b() { return }").contains("more than one"));
    assert!(read("func.func @a() { cf.br ^bb1\n^bb1: return }").contains("branches"));
    assert!(read("func.func @a(%x: vector<2xf32>) { return }").contains("vector<2xf32>"));
    assert!(read("func.func @a(%x: f32) { %0 = math.exp %x : f32 return }").contains("math.exp"));
    let func =
        cx.parse("func.func @a() { return } loc(fused[unknown, \"f\":2:3])").unwrap().to_func().unwrap();
    assert_eq!((&*func.loc.file, func.loc.line, func.loc.column), ("f", 2, 3));
    assert_eq!(func.body.ops[0].loc.line, 1);
}
