//! The syntax tree, as written: nothing is resolved.

mod print;

use crate::source::Span;

/// A source file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct File {
    /// Kernels and functions in source order.
    pub items: Vec<Item>,
}

/// A top-level declaration.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// `kernel`
    Kernel(Box<Kernel>),
    /// `fn`
    Function(Box<Function>),
}

/// An identifier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// Its text.
    pub text: String,
    /// Where it stands.
    pub span: Span,
}

/// A kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Kernel {
    /// The `///` lines above.
    pub doc: String,
    /// Its name.
    pub name: Name,
    /// `[...]`
    pub generics: Vec<Generic>,
    /// `(...)`
    pub params: Vec<Param>,
    /// `dims ...`
    pub dims: Vec<Name>,
    /// `where ...`
    pub wheres: Vec<Expr>,
    /// `grid (...)`
    pub grid: Vec<Expr>,
    /// The parentheses after `grid`.
    pub grid_span: Span,
    /// The statements.
    pub body: Block,
}

/// A function, inlined where it is called.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    /// The `///` lines above.
    pub doc: String,
    /// Its name.
    pub name: Name,
    /// `[...]`
    pub generics: Vec<Generic>,
    /// `(...)`
    pub params: Vec<Param>,
    /// `-> ...`: one type, or several in parentheses.
    pub results: Vec<TypeExpr>,
    /// The statements and the result.
    pub body: Block,
}

/// A generic parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct Generic {
    /// Its name.
    pub name: Name,
    /// What it stands for.
    pub kind: GenericKind,
    /// After `=`.
    pub default: Option<Expr>,
    /// All of it.
    pub span: Span,
}

/// What a generic parameter stands for.
#[derive(Clone, Debug, PartialEq)]
pub enum GenericKind {
    /// `T: f16 | bf16`
    Type(Vec<Name>),
    /// `N: const` or `C: const bool`
    Const(Option<Name>),
}

/// A parameter of a kernel or function.
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    /// Its name.
    pub name: Name,
    /// The word `out`.
    pub out: Option<Span>,
    /// Its type.
    pub ty: TypeExpr,
    /// All of it.
    pub span: Span,
}

/// A type.
#[derive(Clone, Debug, PartialEq)]
pub struct TypeExpr {
    /// Scalar, tile or tensor.
    pub kind: TypeKind,
    /// The element type.
    pub elem: Name,
    /// Lengths of the axes; empty for a scalar.
    pub dims: Vec<Expr>,
    /// All of it.
    pub span: Span,
}

/// Kinds of types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TypeKind {
    /// `f32`
    Scalar,
    /// `tile(f32)[BM]`
    Tile,
    /// `tensor(f32)[N]`
    Tensor,
}

/// `{ ... }`
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Block {
    /// The statements.
    pub stmts: Vec<Stmt>,
    /// The value, if an expression without `;` ends it. A last `if` statement may be one as well.
    pub tail: Option<Box<Expr>>,
    /// With the braces.
    pub span: Span,
    /// Levels of nesting inside.
    pub depth: u32,
}

/// A statement.
#[derive(Clone, Debug, PartialEq)]
pub struct Stmt {
    /// What it is.
    pub kind: StmtKind,
    /// All of it.
    pub span: Span,
    /// Levels of nesting inside.
    pub depth: u32,
}

/// Kinds of statements.
#[derive(Clone, Debug, PartialEq)]
pub enum StmtKind {
    /// `let` or `var`
    Let {
        /// `var`
        mutable: bool,
        /// `a` or `(a, b)`
        names: Vec<Name>,
        /// With parentheses.
        tuple: bool,
        /// After `=`.
        value: Expr,
    },
    /// `x = e;`, `x += e;`, `t[...] = e;`
    Assign {
        /// A name or an indexed name.
        target: Expr,
        /// The operator before `=`.
        op: Option<BinaryOp>,
        /// After `=`.
        value: Expr,
    },
    /// `for`
    For(Box<For>),
    /// `if`
    If(Box<If>),
    /// `static_assert(cond, "message");`
    StaticAssert {
        /// What must hold.
        cond: Expr,
        /// What to say otherwise.
        message: Option<String>,
    },
    /// `e;`
    Expr(Expr),
    /// What could not be read.
    Error,
}

/// A loop.
#[derive(Clone, Debug, PartialEq)]
pub struct For {
    /// The word `unordered`.
    pub unordered: bool,
    /// The counter.
    pub var: Name,
    /// First value.
    pub lo: Expr,
    /// Bound.
    pub hi: Expr,
    /// After `step`.
    pub step: Option<Expr>,
    /// The statements.
    pub body: Block,
}

/// A conditional; `else if` is an `else` block with one statement.
#[derive(Clone, Debug, PartialEq)]
pub struct If {
    /// The condition.
    pub cond: Expr,
    /// When true.
    pub then: Block,
    /// When false.
    pub otherwise: Option<Block>,
    /// From `if` to the last brace.
    pub span: Span,
}

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// What it is.
    pub kind: ExprKind,
    /// All of it.
    pub span: Span,
    /// Levels of nesting inside.
    pub depth: u32,
}

/// Kinds of expressions.
#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    /// `128`
    Int(u64),
    /// `1.0`
    Float(f64),
    /// `true`
    Bool(bool),
    /// A name: of a variable, a type, a constant.
    Name(String),
    /// `-x`
    Unary(UnaryOp, Box<Expr>),
    /// `a + b`; the place of the operator.
    Binary(BinaryOp, Span, Box<Expr>, Box<Expr>),
    /// `x[i, :, a :+ n, None]`
    Index(Box<Expr>, Vec<IndexItem>),
    /// `f(a, axis = 1)`; the callee is a name or `name[generics]`.
    Call(Box<Expr>, Vec<Arg>),
    /// `(a, b)`
    Tuple(Vec<Expr>),
    /// `[a, b]`
    List(Vec<Expr>),
    /// `if c { a } else { b }`
    If(Box<If>),
    /// What was too deeply nested to keep.
    Error,
}

/// Part of an index.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexItem {
    /// What it is.
    pub kind: IndexKind,
    /// All of it.
    pub span: Span,
}

/// Kinds of parts of an index.
#[derive(Clone, Debug, PartialEq)]
pub enum IndexKind {
    /// `i`
    At(Expr),
    /// `start :+ len`
    Slice(Expr, Expr),
    /// `:`
    Full,
    /// `None`
    NewAxis,
}

/// An argument.
#[derive(Clone, Debug, PartialEq)]
pub struct Arg {
    /// Before `=`.
    pub keyword: Option<Name>,
    /// The value.
    pub value: Expr,
}

/// Operators on one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the usual ones")]
pub enum UnaryOp {
    Neg,
    Not,
    BitNot,
}

/// Operators on two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the usual ones")]
#[rustfmt::skip]
pub enum BinaryOp {
    Add, Sub, Mul, Div, Rem,
    Eq, Ne, Lt, Le, Gt, Ge,
    AndAnd, OrOr,
    And, Or, Xor, Shl, Shr,
}

impl UnaryOp {
    /// As written.
    pub fn sign(self) -> &'static str {
        match self {
            UnaryOp::Neg => "-",
            UnaryOp::Not => "!",
            UnaryOp::BitNot => "~",
        }
    }
}

impl BinaryOp {
    /// As written.
    #[rustfmt::skip]
    pub fn sign(self) -> &'static str {
        match self {
            BinaryOp::Add => "+", BinaryOp::Sub => "-", BinaryOp::Mul => "*", BinaryOp::Div => "/", BinaryOp::Rem => "%",
            BinaryOp::Eq => "==", BinaryOp::Ne => "!=", BinaryOp::Lt => "<", BinaryOp::Le => "<=", BinaryOp::Gt => ">",
            BinaryOp::Ge => ">=", BinaryOp::AndAnd => "&&", BinaryOp::OrOr => "||", BinaryOp::And => "&",
            BinaryOp::Or => "|", BinaryOp::Xor => "^", BinaryOp::Shl => "<<", BinaryOp::Shr => ">>",
        }
    }
}
