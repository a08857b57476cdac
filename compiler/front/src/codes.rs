//! The codes of diagnostics: title, explanation, an example that is wrong and one that is right.
//!
//! `flashc explain` prints a row. A test checks that every bad example gives its code and every good one nothing. An example without
//! a `kernel` or `fn` stands in the body of `EXAMPLE_KERNEL`. Adding a diagnostic: a row here and a case in the corpus.

/// What a code means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    /// One line.
    pub title: &'static str,
    /// The rule behind it.
    pub text: &'static str,
    /// A program with this error; empty where none can show it.
    pub bad: &'static str,
    /// The same without.
    pub good: &'static str,
}

/// What stands around examples that are only statements.
pub const EXAMPLE_KERNEL: [&str; 2] = [
    "kernel k[D: const = 64, E: const = 32](x: tensor(f32)[N, D], o: out tensor(f32)[N, D], n: i32)
dims N
grid (cdiv(N, 64))
{
let i = program_id() * 64;
let t = x[i :+ 64, :];
",
    "\n}\n",
];

macro_rules! codes {
    ($($name:ident $code:literal $title:literal, $text:literal, $bad:expr, $good:expr;)*) => {
        /// What kind of diagnostic it is.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Code {
            $(#[doc = $title] $name,)*
        }

        impl Code {
            /// All of them.
            pub const ALL: &[Code] = &[$(Code::$name),*];

            /// As printed, for example `E0301`.
            pub fn name(self) -> &'static str {
                match self { $(Code::$name => $code),* }
            }

            /// What it means.
            pub fn info(self) -> Info {
                match self { $(Code::$name => Info { title: $title, text: $text, bad: $bad, good: $good }),* }
            }
        }
    };
}

impl Code {
    /// The code with that name, in any case.
    pub fn from_name(name: &str) -> Option<Code> {
        Code::ALL.iter().copied().find(|c| c.name().eq_ignore_ascii_case(name))
    }

    /// One line.
    pub fn title(self) -> &'static str {
        self.info().title
    }

    /// The page that `flashc explain` prints.
    pub fn explain(self) -> String {
        let info = self.info();
        let mut page = format!("{}: {}\n\n{}\n", self.name(), info.title, info.text);
        for (heading, example) in [("Wrong", info.bad), ("Right", info.good)] {
            if !example.is_empty() {
                let lines: Vec<String> = example.lines().map(|l| format!("    {l}\n")).collect();
                page.push_str(&format!("\n{heading}:\n\n{}", lines.concat()));
            }
        }
        page
    }
}

codes! {
    FileTooLarge "E0101" "the source file is too large",
        "A source file has at most 4 MiB. Programs are a few kilobytes; a larger file is most likely not a program.",
        "",
        "";
    InvalidUtf8 "E0102" "the source file is not UTF-8",
        "A program is UTF-8 text. The message says where the first byte is that does not belong to such text.",
        "",
        "";
    EmptyFile "E0103" "no kernel in the file",
        "There is nothing to compile: the file holds only comments and blanks.",
        "// kernel to do",
        "kernel k(o: out tensor(f32)[N]) dims N grid (1) { o[0 :+ 64] = 0.0; }";
    UnknownCharacter "E0104" "a character that means nothing",
        "The text has a character that no word, number or sign of the language starts with.",
        "let u = t @ t;",
        "let u = dot(cast(t, bf16), trans(cast(t, bf16)));";
    Unterminated "E0105" "a comment or string without an end",
        "A comment `/* ... */` or a string goes on to the end of the file or line. Comments nest: every `/*` needs its `*/`.",
        r#"static_assert(D > 0, "positive);"#,
        r#"static_assert(D > 0, "positive");"#;
    BadNumber "E0106" "a number that cannot be read",
        "Integers are 128, 1_000, 0x80 or 0b1010 and have at most 64 bits; floats have a digit before and after the point: 1.0, 1e-5. There are no suffixes: a literal takes the type of what it meets.",
        "let u = t * 2f;",
        "let u = t * 2.0;";
    TooDeep "E0107" "nested too deeply",
        "Brackets, operators and blocks nest at most 100 levels deep (160 with the functions that are called).",
        concat!("let u = ", "------------------------------------------------------------", "------------------------------------------------------------", "n;"),
        "let m = n + 1;\nlet u = m * 2;";
    Syntax "E0201" "the text does not follow the grammar",
        "The message names the word that does not fit and what may stand in its place.",
        "let u = t *;",
        "let u = t * 2.0;";
    Reserved "E0202" "a word reserved for later",
        "The word belongs to a later version of the language. It has no meaning yet and cannot be a name.",
        "while n > 0 { }",
        "for j in 0 .. n { }";
    UnusedValue "E0203" "a value that goes nowhere",
        "An expression stands alone as a statement. Expressions have no effect, so this does nothing.",
        "t + 1.0;",
        "let u = t + 1.0;";
    UnknownName "E0301" "an unknown name",
        "No variable, parameter, dimension or constant of that name is in scope here.",
        "let u = tt + 1.0;",
        "let u = t + 1.0;";
    UnknownFunction "E0302" "an unknown function",
        "There is neither a builtin nor an `fn` of that name.",
        "let u = expp(t);",
        "let u = exp(t);";
    Duplicate "E0303" "a name declared twice",
        "A name means one thing: it cannot be declared again where it is visible, nor be the name of a type or builtin.",
        "let u = 1;\nlet u = 2;",
        "var u = 1;\nu = 2;";
    UnknownType "E0304" "an unknown type",
        "The types are bool, i8, i16, i32, i64, u8, u16, u32, u64, f16, bf16, f32, f64, e4m3 and e5m2, and the type parameters of the kernel.",
        "let u = cast(t, float16x);",
        "let u = cast(t, f16);";
    UnknownKeyword "E0305" "an unknown keyword argument",
        "The function has no argument of that name.",
        "let u = sum(t, axes = 1);",
        "let u = sum(t, axis = 1);";
    NotAValue "E0306" "a name that is no value",
        "Tensors are in memory: load a part of them first. Types, functions and lists stand only in their places.",
        "let u = x + 1.0;",
        "let u = x[i :+ 64, :] + 1.0;";
    ArgCount "E0307" "wrong arguments",
        "A call has too many arguments, too few, or the wrong kind. Reductions take their axis by name; two values are compared by `maximum` and `minimum`.",
        "let u = max(t, t);",
        "let u = maximum(t, t);";
    Recursion "E0308" "functions that call themselves",
        "Functions are inlined where they are called, so they cannot call themselves, and a kernel cannot contain thousands of calls.",
        "fn f(a: i32) -> i32 { f(a) }",
        "fn f(a: i32) -> i32 { a + 1 }";
    TypeMismatch "E0401" "different types",
        "Nothing is converted by itself. Literals take the type of the other operand; everything else is converted with `cast`.",
        "let u = t * n;",
        "let u = t * cast(n, f32);";
    OperandType "E0402" "an operation on a type it does not have",
        "For example exp works on floats only, and fp8 values are only loaded, stored and cast.",
        "let u = exp(n);",
        "let u = exp(cast(n, f32));";
    DotTypes "E0403" "dot of unsupported types",
        "dot multiplies f16 by f16 or bf16 by bf16 and sums in f32.",
        "let u = dot(t, trans(t));",
        "let h = cast(t, bf16);\nlet u = dot(h, trans(h));";
    CondNotBool "E0404" "a condition that is no bool",
        "Conditions of `if`, `where` and `static_assert` are a single bool; `select` takes a bool for each element.",
        "if n { }",
        "if n != 0 { }";
    LiteralRange "E0405" "a literal that does not fit its type",
        "A literal takes the type of what it meets, and must be a value of that type.",
        "let u = n + 3000000000;",
        "let u = cast(n, i64) + 3000000000;";
    VarType "E0406" "a variable that changes its type",
        "A `var` keeps the type and shape of its first value, so that a loop can carry it.",
        "var u = zeros(f32, [64]);\nfor j in 0 .. n { u = zeros(f32, [64, D]); }",
        "var u = zeros(f32, [64, D]);\nfor j in 0 .. n { u = zeros(f32, [64, D]); }";
    AssignToLet "E0407" "assignment to something fixed",
        "Only a `var` is assigned. An `if` that gives a value does not assign variables from outside.",
        "let u = 1;\nu = 2;",
        "var u = 1;\nu = 2;";
    TupleCount "E0408" "several values where one is wanted, or the other way round",
        "Tuples, `program_id()` of a grid with several axes, and functions with several results give several values; `let (a, b) = ...` takes them apart.",
        "let (u, w) = n;",
        "let (u, w) = (n, n + 1);";
    Branches "E0409" "branches of an if that do not match",
        "An `if` that gives a value has two branches whose values have one type and shape.",
        "let u = if n > 0 { t } else { n };",
        "let u = if n > 0 { t } else { -t };";
    ShapeMismatch "E0501" "shapes that do not match",
        "Elementwise operations take tiles of equal shape. An axis of length 1, made by `None`, is repeated. Lengths are compared by the constants they are made of: two constants with different names are different, even if both are 128 today.",
        "let u = t + zeros(f32, [64, E]);",
        "let u = t + zeros(f32, [64, D]);";
    RankMismatch "E0502" "tiles of different rank",
        "Axes are never added by themselves, so that a row is not taken for a column by accident. `None` says where the new axis goes.",
        "let u = t - max(t, axis = 1);",
        "let u = t - max(t, axis = 1)[:, None];";
    DotShape "E0503" "shapes that dot cannot multiply",
        "dot multiplies [M, K] by [K, N] into [M, N]; acc has the shape of the result.",
        "let h = cast(t, bf16);\nlet u = dot(h, h);",
        "let h = cast(t, bf16);\nlet u = dot(h, trans(h));";
    NotConst "E0504" "not a constant",
        "Lengths of tiles, steps of loops, axes and `static_assert` must be known before the kernel runs: numbers and constants from the kernel's brackets.",
        "let u = zeros(f32, [n]);",
        "let u = zeros(f32, [D]);";
    AxisRange "E0505" "no such axis",
        "Axes count from 0.",
        "let u = sum(t, axis = 2);",
        "let u = sum(t, axis = 1);";
    IndexCount "E0506" "wrong number of indices",
        "A tensor takes one index for each of its axes; a tile one `:` for each of its axes.",
        "let u = x[i :+ 64];",
        "let u = x[i :+ 64, :];";
    StoreMismatch "E0507" "a store of the wrong shape or type",
        "The stored value has the type of the tensor and one axis for each slice. A scalar fills the slice.",
        "o[i :+ 64, :] = cast(t, bf16);",
        "o[i :+ 64, :] = t;";
    BadIndex "E0508" "an index that is not allowed here",
        "Tensors are indexed by integers, ranges `start :+ length` and `:`. Tiles are values: they take only `:` and `None`.",
        "let u = t[0, :];",
        "let u = x[i, :];";
    TileLength "E0509" "a length or step that is not positive, or a tile that is too large",
        "Every length of a tile is at least 1, and a tile has at most 1048576 elements. The step of a loop is not 0.",
        "let u = zeros(f32, [0]);",
        "let u = zeros(f32, [1]);";
    UndeclaredDim "E0601" "a dimension that is not declared",
        "Dimensions of tensors and names in the grid are declared: in `dims`, or as constants in the brackets.",
        "kernel k(o: out tensor(f32)[M]) grid (1) { o[0 :+ 64] = 0.0; }",
        "kernel k(o: out tensor(f32)[M]) dims M grid (1) { o[0 :+ 64] = 0.0; }";
    UnboundDim "E0602" "a dimension that no tensor binds",
        "A launch takes the value of a dimension from the tensors it is given, so each is by itself the length of some axis.",
        "kernel k(o: out tensor(f32)[N]) dims N, M grid (M) { o[0 :+ 64] = 0.0; }",
        "kernel k(o: out tensor(f32)[N], m: i32) dims N grid (m) { o[0 :+ 64] = 0.0; }";
    BadGrid "E0603" "a grid that cannot be launched",
        "A grid has one to three axes, each an i32. It and the conditions of `where` are computed before the launch: nothing is loaded or called there.",
        "kernel k(o: out tensor(f32)[N]) dims N grid (N, 1, 1, 1) { o[0 :+ 64] = 0.0; }",
        "kernel k(o: out tensor(f32)[N]) dims N grid (N, 1, 1) { o[0 :+ 64] = 0.0; }";
    Direction "E0604" "an input stored to, or an output read",
        "A tensor is an input, or an output declared `out`; never both.",
        "x[i :+ 64, :] = t;",
        "o[i :+ 64, :] = t;";
    MissingConstant "E0701" "a constant without a value",
        "Every constant and type parameter needs a value when a kernel is compiled: give one, or write a default.",
        "// spec:\nkernel k[N: const](o: out tensor(f32)[N]) grid (1) { o[:] = 0.0; }",
        "// spec: N=64\nkernel k[N: const](o: out tensor(f32)[N]) grid (1) { o[:] = 0.0; }";
    UnknownConstant "E0702" "a value for something the kernel does not have",
        "The kernel has no constant or type parameter of that name.",
        "// spec: M=64\nkernel k[N: const = 64](o: out tensor(f32)[N]) grid (1) { o[:] = 0.0; }",
        "// spec: N=64\nkernel k[N: const = 64](o: out tensor(f32)[N]) grid (1) { o[:] = 0.0; }";
    BadConstant "E0703" "a value that the parameter does not take",
        "A `const` takes an i32, a `const bool` true or false, a type parameter one of the types it lists.",
        "// spec: T=f64\nkernel k[T: f16 | f32](o: out tensor(T)[N]) dims N grid (1) { o[0 :+ 64] = 0.0; }",
        "// spec: T=f16\nkernel k[T: f16 | f32](o: out tensor(T)[N]) dims N grid (1) { o[0 :+ 64] = 0.0; }";
    Specialized "E0704" "lengths that differ in this specialization",
        "Whether two lengths are equal depended on the constants, and with the values given they are not.",
        "// spec: D=48\nkernel k[D: const](o: out tensor(f32)[D]) grid (1) { o[:] = zeros(f32, [2 * (D / 32) * 16]); }",
        "// spec: D=64\nkernel k[D: const](o: out tensor(f32)[D]) grid (1) { o[:] = zeros(f32, [2 * (D / 32) * 16]); }";
    StaticAssert "E0705" "a static assertion fails",
        "A `static_assert`, or a `where` about constants only, is false for the values given.",
        "// spec: D=48\nkernel k[D: const](o: out tensor(f32)[D]) grid (1) { static_assert(D % 32 == 0); o[:] = 0.0; }",
        "// spec: D=64\nkernel k[D: const](o: out tensor(f32)[D]) grid (1) { static_assert(D % 32 == 0); o[:] = 0.0; }";
    UnknownKernel "E0801" "no such kernel, or several to choose from",
        "A file with several kernels needs the name of the one to compile.",
        "",
        "";
    UnknownTarget "E0802" "no such target",
        "The compiler does not know the GPU that was asked for. The help line lists those it knows.",
        "",
        "";
    NotOnGpu "E0803" "not available on the GPU yet",
        "The program is right, and the interpreter runs it, but the compiler cannot lower this operation to the GPU yet.",
        "",
        "";
    DotLength "E0804" "a dot whose inner length the tensor cores cannot take",
        "The tensor cores sum over 16 elements at a time, so the inner length of a dot of 16-bit tiles is a multiple of 16. Reads past the end of a tensor are 0, so a larger tile gives the same sum.",
        "",
        "";
    SharedMemory "E0805" "more shared memory than there is",
        "The tiles that are staged in shared memory do not fit. The message says which line takes how much; smaller tiles or fewer stages help.",
        "",
        "";
    Registers "E0806" "more registers than there are",
        "The tiles that are alive at the same time do not fit in registers. Smaller tiles or more warps help.",
        "",
        "";
}
