//! The codes of diagnostics.

macro_rules! codes {
    ($($name:ident $code:literal $title:literal)*) => {
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
            /// One line.
            pub fn title(self) -> &'static str {
                match self { $(Code::$name => $title),* }
            }
        }
    };
}

codes! {
    FileTooLarge "E0101" "the source file is too large"
    InvalidUtf8 "E0102" "the source file is not UTF-8"
    EmptyFile "E0103" "no kernel in the file"
    UnknownCharacter "E0104" "a character that means nothing"
    Unterminated "E0105" "a comment or string without an end"
    BadNumber "E0106" "a number that cannot be read"
    TooDeep "E0107" "nested too deeply"
    Syntax "E0201" "the text does not follow the grammar"
    Reserved "E0202" "a word reserved for later"
    UnusedValue "E0203" "a value that goes nowhere"
    UnknownName "E0301" "an unknown name"
    UnknownFunction "E0302" "an unknown function"
    Duplicate "E0303" "a name declared twice"
    UnknownType "E0304" "an unknown type"
    UnknownKeyword "E0305" "an unknown keyword argument"
    NotAValue "E0306" "a name that is no value"
    ArgCount "E0307" "wrong arguments"
    Recursion "E0308" "functions that call themselves"
    TypeMismatch "E0401" "different types"
    OperandType "E0402" "an operation on a type it does not have"
    DotTypes "E0403" "dot of unsupported types"
    CondNotBool "E0404" "a condition that is no bool"
    LiteralRange "E0405" "a literal that does not fit its type"
    VarType "E0406" "a variable that changes its type"
    AssignToLet "E0407" "assignment to something fixed"
    TupleCount "E0408" "several values where one is wanted, or the other way round"
    Branches "E0409" "branches of an if that do not match"
    ShapeMismatch "E0501" "shapes that do not match"
    RankMismatch "E0502" "tiles of different rank"
    DotShape "E0503" "shapes that dot cannot multiply"
    NotConst "E0504" "not a constant"
    AxisRange "E0505" "no such axis"
    IndexCount "E0506" "wrong number of indices"
    StoreMismatch "E0507" "a store of the wrong shape or type"
    BadIndex "E0508" "an index that is not allowed here"
    TileLength "E0509" "a tile length that is not positive, or a tile that is too large"
    UndeclaredDim "E0601" "a dimension that is not declared"
    UnboundDim "E0602" "a dimension that no tensor binds"
    BadGrid "E0603" "a grid that cannot be launched"
    Direction "E0604" "an input stored to, or an output read"
    MissingConstant "E0701" "a constant without a value"
    UnknownConstant "E0702" "a value for something the kernel does not have"
    BadConstant "E0703" "a value that the parameter does not take"
    Specialized "E0704" "shapes that differ in this specialization"
    StaticAssert "E0705" "a static assertion fails"
    UnknownKernel "E0801" "no such kernel, or several to choose from"
    UnknownTarget "E0802" "no such target"
    NotOnGpu "E0803" "not available on the GPU yet"
    DotLength "E0804" "a dot whose inner length the tensor cores cannot take"
    SharedMemory "E0805" "more shared memory than there is"
    Registers "E0806" "more registers than there are"
}
