//! The typed program (HIR): what `check` produces and the importer reads.
//!
//! Names are resolved to ids, types are complete, user functions are inlined, sugar is gone: implicit conversions of
//! shape are `Splat` and `Broadcast` nodes, `clamp` is two operations, an `if` with a value is a `Stmt` with results.
//! It is still generic: types hold `ConstExpr`s and type parameters. `Kernel::specialize` binds those.
//!
//! There is no tuple, no user function, no literal without a type, no method to change a program.

mod ops;
mod print;
mod specialize;

use crate::constexpr::ConstExpr;
use crate::source::Span;
use crate::types::{Elem, ElemRef, Ty};

pub use ops::{BinaryOp, CompareOp, ReduceOp, UnaryOp};
pub use specialize::{Bound, MAX_TILE_ELEMENTS, SpecValue, Specialization};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub u32);

        impl $name {
            /// As an index into the kernel's table.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

id!(
    /// Indexes `Kernel::generics`.
    GenericId
);
id!(
    /// Indexes `Kernel::params`.
    ParamId
);
id!(
    /// Indexes `Kernel::dims`.
    DimId
);
id!(
    /// Indexes `Kernel::vars`.
    VarId
);
id!(
    /// Indexes `Kernel::calls`.
    CallId
);

/// All kernels of a source file.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// In source order.
    pub kernels: Vec<Kernel>,
}

impl Program {
    /// The kernel of that name.
    pub fn kernel(&self, name: &str) -> Option<&Kernel> {
        self.kernels.iter().find(|k| k.name == name)
    }
}

/// One kernel, checked for every specialization up to its `obligations`.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// Its name.
    pub name: String,
    /// The `///` lines above it, without the slashes, joined by newlines.
    pub doc: String,
    /// Type parameters and constants.
    pub generics: Vec<Generic>,
    /// Tensors and scalars, in launch order.
    pub params: Vec<Param>,
    /// Runtime dimensions (i32, at least 0). Each is alone the length of some axis of a tensor, which binds it.
    pub dims: Vec<Dim>,
    /// Conditions on dimensions, scalars and constants (scalar bool), checked at launch. Those with a `constant` are
    /// among the obligations too.
    pub wheres: Vec<Expr>,
    /// Programs per grid axis (scalar i32): one to three.
    pub grid: Vec<Expr>,
    /// Every variable of the body.
    pub vars: Vec<Var>,
    /// The calls that were inlined.
    pub calls: Vec<Call>,
    /// The statements.
    pub body: Vec<Stmt>,
    /// What only the specialization decides.
    pub obligations: Vec<Obligation>,
    /// The name in the source.
    pub span: Span,
}

/// A generic parameter.
#[derive(Clone, Debug)]
pub struct Generic {
    /// Its name.
    pub name: String,
    /// What it stands for.
    pub kind: GenericKind,
    /// The declaration.
    pub span: Span,
}

/// What a generic parameter stands for.
#[derive(Clone, Debug)]
pub enum GenericKind {
    /// One of some element types.
    Type {
        /// The allowed ones.
        choices: Vec<Elem>,
        /// Taken when none is given.
        default: Option<Elem>,
    },
    /// An i32 constant.
    Int {
        /// Taken when none is given; over the constants before it.
        default: Option<ConstExpr>,
    },
    /// A boolean constant.
    Bool {
        /// Taken when none is given; over the constants before it.
        default: Option<ConstExpr>,
    },
}

/// A parameter of the launch.
#[derive(Clone, Debug)]
pub struct Param {
    /// Its name.
    pub name: String,
    /// Tensor or scalar.
    pub kind: ParamKind,
    /// The declaration.
    pub span: Span,
}

/// What a parameter is.
#[derive(Clone, Debug)]
pub enum ParamKind {
    /// A strided tensor in memory.
    Tensor {
        /// The type of its elements.
        elem: ElemRef,
        /// The length of each axis, over constants and dimensions.
        dims: Vec<ConstExpr>,
        /// Written (`out`) or read, never both.
        out: bool,
    },
    /// A value.
    Scalar(ElemRef),
}

/// A runtime dimension.
#[derive(Clone, Debug)]
pub struct Dim {
    /// Its name.
    pub name: String,
    /// The declaration.
    pub span: Span,
}

/// A variable.
#[derive(Clone, Debug)]
pub struct Var {
    /// The name in the source; for a value the compiler names, what it comes from (`if`, a function's name).
    pub name: String,
    /// Its type; assignments keep it.
    pub ty: Ty,
    /// Declared by `var`.
    pub mutable: bool,
    /// The value, where it is an i32 or bool known from the specialization alone.
    pub constant: Option<ConstExpr>,
    /// The declaration.
    pub span: Span,
}

/// An inlined call. Statements point here, so that locations show the way to the kernel.
#[derive(Clone, Debug)]
pub struct Call {
    /// The function's name.
    pub function: String,
    /// The call.
    pub span: Span,
    /// The call around it, if the caller was inlined as well.
    pub parent: Option<CallId>,
}

/// A statement.
#[derive(Clone, Debug)]
pub struct Stmt {
    /// What it does.
    pub kind: StmtKind,
    /// Where it stands.
    pub span: Span,
    /// The inlined call whose body it is part of; its expressions are from the same place.
    pub call: Option<CallId>,
}

/// What a statement does.
#[derive(Clone, Debug)]
pub enum StmtKind {
    /// First value of a variable.
    Let(VarId, Expr),
    /// New value of a mutable variable, of the same type.
    Assign(VarId, Expr),
    /// A counted loop over `lo`, `lo + step`, ... while below `hi` (above it when `step` is negative).
    For(Box<For>),
    /// A conditional, with values or without.
    If(Box<If>),
    /// Write a tile or scalar of the tensor's element type; past the end nothing is written.
    Store {
        /// A tensor parameter declared `out`.
        tensor: ParamId,
        /// One item an axis of the tensor.
        index: Vec<IndexItem>,
        /// Its shape is that of the index's items with a length.
        value: Expr,
    },
}

/// A counted loop.
#[derive(Clone, Debug)]
pub struct For {
    /// The counter; an integer scalar.
    pub var: VarId,
    /// First value; of the counter's type, as are `hi` and `step`.
    pub lo: Expr,
    /// Bound, not reached.
    pub hi: Expr,
    /// A literal or constant, never 0 (an obligation where it is symbolic).
    pub step: Expr,
    /// Floating-point accumulation over the iterations may be reordered.
    pub unordered: bool,
    /// The body.
    pub body: Vec<Stmt>,
    /// Variables declared outside that the body assigns, in order of declaration.
    pub carried: Vec<VarId>,
}

/// A conditional.
#[derive(Clone, Debug)]
pub struct If {
    /// Scalar bool. With a `constant` the importer takes one branch and drops the other.
    pub cond: Expr,
    /// Variables that get the branches' values; empty for a statement.
    pub results: Vec<VarId>,
    /// When true.
    pub then: Block,
    /// When false.
    pub otherwise: Block,
    /// Variables declared outside that a branch assigns, in order of declaration.
    pub carried: Vec<VarId>,
}

/// Statements and the values after them, one for each result of the `If`.
#[derive(Clone, Debug, Default)]
pub struct Block {
    /// In order.
    pub stmts: Vec<Stmt>,
    /// As many as `If::results`, of their types.
    pub values: Vec<Expr>,
}

/// An expression. It has no side effect.
#[derive(Clone, Debug)]
pub struct Expr {
    /// The operation.
    pub kind: ExprKind,
    /// Its type.
    pub ty: Ty,
    /// Where it stands.
    pub span: Span,
    /// The value, where it is an i32 or bool scalar known from the specialization alone.
    pub constant: Option<Box<ConstExpr>>,
}

/// The operations. Operands of one have the same type and shape unless it says otherwise.
#[derive(Clone, Debug)]
pub enum ExprKind {
    /// A scalar literal of the expression's type.
    Literal(Literal),
    /// A value known from the specialization alone, i32 or bool; the expression's `constant` is the same.
    Const(ConstExpr),
    /// A runtime dimension: i32.
    Dim(DimId),
    /// A scalar parameter.
    ScalarParam(ParamId),
    /// The current value of a variable.
    Var(VarId),
    /// This program's place on a grid axis: i32.
    ProgramId(u8),
    /// Programs on a grid axis: i32.
    NumPrograms(u8),
    /// Elementwise.
    Unary(UnaryOp, Box<Expr>),
    /// Elementwise.
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// Elementwise; gives bool.
    Compare(CompareOp, Box<Expr>, Box<Expr>),
    /// `cond ? then : otherwise`, elementwise; `cond` is bool of the same shape.
    Select {
        /// bool
        cond: Box<Expr>,
        /// Where true.
        then: Box<Expr>,
        /// Where false.
        otherwise: Box<Expr>,
    },
    /// `a * b + c` rounded once; floats.
    Fma(Box<Expr>, Box<Expr>, Box<Expr>),
    /// To the expression's element type. Float to float rounds to nearest even; to fp8 it saturates. Float to integer truncates and
    /// saturates, NaN gives 0. Integer to integer keeps the low bits. To bool is `!= 0`, from
    /// bool gives 0 or 1.
    Cast(Box<Expr>),
    /// Read a tile, or a scalar when every item is `At`. Elements outside the tensor are 0.
    Load {
        /// A tensor parameter that is not `out`.
        tensor: ParamId,
        /// One item an axis of the tensor.
        index: Vec<IndexItem>,
    },
    /// Insert an axis of length 1 before `axis` (0 ..= rank).
    ExpandDims {
        /// A tile.
        value: Box<Expr>,
        /// Its place in the result.
        axis: usize,
    },
    /// Repeat axes of length 1 to the expression's shape; same rank, the other axes are equal.
    Broadcast(Box<Expr>),
    /// A scalar in every element of the expression's shape.
    Splat(Box<Expr>),
    /// Combine along an axis, which goes away; a tile of rank 1 gives a scalar. Floats accumulate in f32 (f64 for f64) in an order the
    /// compiler picks.
    Reduce {
        /// How.
        op: ReduceOp,
        /// A tile.
        value: Box<Expr>,
        /// The axis that goes.
        axis: usize,
    },
    /// Matrix product `[M, K] x [K, N]`, f16 or bf16 (both the same), into f32 `[M, N]`.
    Dot {
        /// `[M, K]`
        a: Box<Expr>,
        /// `[K, N]`
        b: Box<Expr>,
        /// f32 `[M, N]` to add to; zero if absent.
        acc: Option<Box<Expr>>,
    },
    /// Reorder axes: axis `i` of the result is axis `order[i]` of the value. `trans` is `[1, 0]`.
    Permute {
        /// A tile.
        value: Box<Expr>,
        /// A permutation.
        order: Vec<usize>,
    },
    /// The same elements in row-major order under the expression's shape.
    Reshape(Box<Expr>),
    /// `0, 1, ...` as an i32 tile of rank 1.
    Iota,
}

/// A value written in the source. It fits the expression's type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Literal {
    /// Of an integer type, or of a type parameter not all of whose choices are floats.
    Int(i128),
    /// Of a float type, not yet rounded to it; may be infinite.
    Float(f64),
    /// Of type bool.
    Bool(bool),
}

/// Part of a load or store: what to do with one axis of the tensor.
#[derive(Clone, Debug)]
pub enum IndexItem {
    /// One position (an integer scalar); the axis is dropped.
    At(Expr),
    /// `start :+ len`; `start` is an integer scalar.
    Slice {
        /// First position; may be negative or past the end.
        start: Expr,
        /// Elements.
        len: ConstExpr,
        /// Where it stands.
        span: Span,
    },
    /// `:`, the whole axis, whose length is constant.
    Full {
        /// The length of the axis.
        len: ConstExpr,
        /// Where it stands.
        span: Span,
    },
}

/// A condition that needs the values of constants. `Kernel::specialize` checks it.
#[derive(Clone, Debug)]
pub struct Obligation {
    /// What has to hold.
    pub kind: ObligationKind,
    /// Constant conditions around it with the value they need: it is void when one is otherwise.
    pub guards: Vec<(ConstExpr, bool)>,
    /// The code that needs it.
    pub span: Span,
    /// Secondary labels: where the two sides come from.
    pub notes: Vec<(Span, String)>,
}

/// Kinds of obligations.
#[derive(Clone, Debug)]
pub enum ObligationKind {
    /// Two lengths are equal.
    Equal {
        /// One length.
        lhs: ConstExpr,
        /// The other.
        rhs: ConstExpr,
        /// What it is for, to follow "here": `dot needs equal inner lengths`.
        what: String,
    },
    /// A tile of this shape has positive lengths and not too many elements.
    TileShape(Vec<ConstExpr>),
    /// An axis of a tensor with this constant length is not negative.
    TensorLen(ConstExpr),
    /// A loop's step is not 0.
    Step(ConstExpr),
    /// `static_assert` or a constant `where`.
    Assert {
        /// The condition.
        cond: ConstExpr,
        /// The user's message, if one was given.
        message: Option<String>,
    },
}

impl Expr {
    /// Whether the value is known from the specialization alone.
    pub fn is_const(&self) -> bool {
        self.constant.is_some()
    }
}

impl Kernel {
    /// The generic parameter.
    pub fn generic(&self, id: GenericId) -> &Generic {
        &self.generics[id.index()]
    }

    /// The parameter.
    pub fn param(&self, id: ParamId) -> &Param {
        &self.params[id.index()]
    }

    /// The dimension.
    pub fn dim(&self, id: DimId) -> &Dim {
        &self.dims[id.index()]
    }

    /// The variable.
    pub fn var(&self, id: VarId) -> &Var {
        &self.vars[id.index()]
    }
}
