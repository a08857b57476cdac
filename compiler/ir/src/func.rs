//! Functions, blocks and values: a tree of operations over dense value ids, and a builder for it.

use crate::ops::{BinaryOp, Kind, Literal, Predicate};
use crate::types::{Elem, Type};
use std::collections::HashMap;
use std::sync::Arc;

/// A value's index in [`Func::values`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(pub u32);

/// Where in the source something comes from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Loc {
    /// File name as given by the user.
    pub file: Arc<str>,
    /// From 1.
    pub line: u32,
    /// From 1.
    pub column: u32,
}

impl Loc {
    /// A place in a file.
    pub fn new(file: &str, line: u32, column: u32) -> Loc {
        Loc { file: file.into(), line, column }
    }
}

/// One operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Op {
    /// What it does, with its attributes.
    pub kind: Kind,
    /// Values read.
    pub operands: Vec<ValueId>,
    /// Values defined.
    pub results: Vec<ValueId>,
    /// Bodies of `For` (one) and `If` (two).
    pub regions: Vec<Block>,
    /// Source.
    pub loc: Loc,
}

impl Op {
    /// The only result.
    ///
    /// # Panics
    /// If there is none.
    pub fn result(&self) -> ValueId {
        self.results[0]
    }

    /// Does it, or an operation in it, read the value?
    pub fn uses(&self, v: ValueId) -> bool {
        self.operands.contains(&v) || self.regions.iter().any(|r| r.ops.iter().any(|o| o.uses(v)))
    }
}

/// A straight line of operations.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Block {
    /// Block arguments.
    pub args: Vec<ValueId>,
    /// Operations; the last is `Yield` or `Return`.
    pub ops: Vec<Op>,
}

/// One kernel.
///
/// Arguments come in the order of the launch ABI: user scalars, dimensions, tensors. Strides and
/// tensor maps appear only in the lowered function.
#[derive(Clone, Debug, PartialEq)]
pub struct Func {
    /// Entry name.
    pub name: String,
    /// Names of the arguments; a dimension's name is what [`crate::types::Dim::Sym`] refers to.
    pub arg_names: Vec<String>,
    /// Body; its block arguments are the function's.
    pub body: Block,
    /// Type of each value.
    pub values: Vec<Type>,
    /// Warps of the CTA, once `assign-layouts` has run.
    pub warps: Option<i64>,
    /// Shared memory of the CTA in bytes, once `allocate-shared` has run.
    pub shared_bytes: Option<i64>,
    /// Source.
    pub loc: Loc,
}

impl Func {
    /// The type of a value.
    pub fn ty(&self, v: ValueId) -> &Type {
        &self.values[v.0 as usize]
    }

    /// The argument of this name.
    pub fn arg(&self, name: &str) -> Option<ValueId> {
        self.arg_names.iter().position(|n| n == name).map(|i| self.body.args[i])
    }

    /// Calls `f` on every operation, outer before inner, in program order.
    pub fn walk<'a>(&'a self, f: &mut dyn FnMut(&'a Op)) {
        walk_block(&self.body, f);
    }

    /// Does a CTA run several programs? Then their number does not follow from the grid. The inner option: only if
    /// there are at most so many along the first axis.
    pub fn persistent(&self) -> Option<Option<i64>> {
        let mut found = None;
        self.walk(&mut |op| {
            if let Kind::CtaCount { up_to } = op.kind {
                found = Some(up_to);
            }
        });
        found
    }

    /// Warps that hold tiles: those of the first role, or all of them.
    pub fn tile_warps(&self) -> Option<i64> {
        let mut first = None;
        self.walk(&mut |op| {
            if let Kind::Roles { roles } = &op.kind {
                first = roles.first().map(|r| r.warps);
            }
        });
        first.or(self.warps)
    }

    /// Every use of every value: the operations that read it, in program order.
    pub fn uses(&self) -> HashMap<ValueId, Vec<&Op>> {
        let mut uses: HashMap<ValueId, Vec<&Op>> = HashMap::new();
        self.walk(&mut |op| {
            for v in &op.operands {
                uses.entry(*v).or_default().push(op);
            }
        });
        uses
    }

    /// The operation that defines each value; block arguments have none.
    pub fn defs(&self) -> HashMap<ValueId, &Op> {
        let mut defs = HashMap::new();
        self.walk(&mut |op| {
            for v in &op.results {
                defs.insert(*v, op);
            }
        });
        defs
    }
}

/// Calls `f` on every operation of a block, outer before inner, in program order.
pub fn walk_block<'a>(b: &'a Block, f: &mut dyn FnMut(&'a Op)) {
    for op in &b.ops {
        f(op);
        for r in &op.regions {
            walk_block(r, f);
        }
    }
}

/// Builds a function front to back. Blocks nest: [`Builder::begin`] opens one, [`Builder::end`] closes it.
#[derive(Debug)]
pub struct Builder {
    /// The function so far; its body is filled by [`Builder::finish`].
    pub func: Func,
    /// Location of the next operations.
    pub loc: Loc,
    open: Vec<Block>,
}

impl Builder {
    /// An empty function with these arguments.
    pub fn new(name: &str, args: &[(String, Type)], loc: Loc) -> Builder {
        let mut func = Func {
            name: name.into(),
            arg_names: args.iter().map(|a| a.0.clone()).collect(),
            body: Block::default(),
            values: vec![],
            warps: None,
            shared_bytes: None,
            loc: loc.clone(),
        };
        let mut body = Block::default();
        for (_, ty) in args {
            body.args.push(new_value(&mut func, ty.clone()));
        }
        Builder { func, loc, open: vec![body] }
    }

    /// The same signature and attributes as another function, and no operations. The second part maps
    /// the old arguments to the new ones: the start of a rebuild.
    pub fn like(old: &Func) -> (Builder, HashMap<ValueId, ValueId>) {
        let args: Vec<_> =
            old.arg_names.iter().zip(&old.body.args).map(|(n, v)| (n.clone(), old.ty(*v).clone())).collect();
        let mut b = Builder::new(&old.name, &args, old.loc.clone());
        b.func.warps = old.warps;
        b.func.shared_bytes = old.shared_bytes;
        let map = old.body.args.iter().copied().zip(b.args()).collect();
        (b, map)
    }

    /// The function's arguments.
    pub fn args(&self) -> Vec<ValueId> {
        self.open[0].args.clone()
    }

    /// The type of a value.
    pub fn ty(&self, v: ValueId) -> &Type {
        self.func.ty(v)
    }

    /// Appends an operation to the innermost open block.
    pub fn op(&mut self, kind: Kind, operands: &[ValueId], results: &[Type]) -> Vec<ValueId> {
        self.op_with(kind, operands, results, vec![])
    }

    /// Appends an operation that has regions.
    pub fn op_with(
        &mut self,
        kind: Kind,
        operands: &[ValueId],
        results: &[Type],
        regions: Vec<Block>,
    ) -> Vec<ValueId> {
        let results: Vec<_> = results.iter().map(|t| new_value(&mut self.func, t.clone())).collect();
        let op = Op {
            kind,
            operands: operands.to_vec(),
            results: results.clone(),
            regions,
            loc: self.loc.clone(),
        };
        self.open.last_mut().expect("the function's body is open until finish").ops.push(op);
        results
    }

    /// Appends an operation with one result.
    pub fn op1(&mut self, kind: Kind, operands: &[ValueId], result: Type) -> ValueId {
        self.op(kind, operands, &[result])[0]
    }

    /// Opens a block with these arguments.
    pub fn begin(&mut self, args: &[Type]) -> Vec<ValueId> {
        let args: Vec<_> = args.iter().map(|t| new_value(&mut self.func, t.clone())).collect();
        self.open.push(Block { args: args.clone(), ops: vec![] });
        args
    }

    /// Closes the innermost block with a `Yield` of these values.
    pub fn end(&mut self, yields: &[ValueId]) -> Block {
        self.op(Kind::Yield, yields, &[]);
        self.open.pop().expect("begin opened it")
    }

    /// Ends the function with `Return`.
    pub fn finish(mut self) -> Func {
        self.op(Kind::Return, &[], &[]);
        assert_eq!(self.open.len(), 1, "a block was left open");
        self.func.body = self.open.pop().expect("the body");
        self.func
    }

    /// An `i32` constant.
    pub fn i32(&mut self, value: i64) -> ValueId {
        self.op1(Kind::Constant(Literal::Int(value)), &[], Type::I32)
    }

    /// A constant of any scalar type.
    pub fn constant(&mut self, value: Literal, elem: Elem) -> ValueId {
        self.op1(Kind::Constant(value), &[], Type::Scalar(elem))
    }

    /// A binary operation; the result has the first operand's type.
    pub fn binary(&mut self, op: BinaryOp, a: ValueId, b: ValueId) -> ValueId {
        let ty = self.ty(a).clone();
        self.op1(Kind::Binary(op), &[a, b], ty)
    }

    /// A comparison; the result is a bool scalar or tile like the first operand.
    pub fn compare(&mut self, p: Predicate, a: ValueId, b: ValueId) -> ValueId {
        let ty = match self.ty(a) {
            Type::Tile(t) => Type::Tile(t.with_elem(Elem::I1)),
            _ => Type::BOOL,
        };
        self.op1(Kind::Compare(p), &[a, b], ty)
    }

    /// Copies an operation with its operands mapped, and its regions too; its results get the same
    /// types, and the map learns them.
    pub fn copy(&mut self, old: &Func, op: &Op, map: &mut HashMap<ValueId, ValueId>) {
        self.copy_with(old, op, map, &mut |_, _, _, _| Step::Copy);
    }

    /// As [`Builder::copy`], but `custom` sees each operation first, inner ones included, and says what to
    /// do with it.
    pub fn copy_with(
        &mut self,
        old: &Func,
        op: &Op,
        map: &mut HashMap<ValueId, ValueId>,
        custom: &mut Rewrite<'_>,
    ) {
        self.loc = op.loc.clone();
        let operands = match custom(self, old, op, map) {
            Step::Done => return,
            Step::Copy => op.operands.iter().map(|v| map[v]).collect(),
            Step::With(operands) => operands,
        };
        let mut regions = vec![];
        for r in &op.regions {
            let types: Vec<_> = r.args.iter().map(|v| old.ty(*v).clone()).collect();
            let args = self.begin(&types);
            map.extend(r.args.iter().copied().zip(args));
            for inner in &r.ops {
                self.copy_with(old, inner, map, custom);
            }
            regions.push(self.open.pop().expect("begin opened it"));
        }
        self.loc = op.loc.clone();
        let types: Vec<_> = op.results.iter().map(|v| old.ty(*v).clone()).collect();
        let results = self.op_with(op.kind.clone(), &operands, &types, regions);
        map.extend(op.results.iter().copied().zip(results));
    }

    /// Rebuilds a whole function; `custom` as in [`Builder::copy_with`].
    pub fn rebuild(old: &Func, custom: &mut Rewrite<'_>) -> Func {
        let (mut b, mut map) = Builder::like(old);
        for op in &old.body.ops {
            if op.kind != Kind::Return {
                b.copy_with(old, op, &mut map, custom);
            }
        }
        b.finish()
    }
}

/// What a rewrite does with an operation.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// It has built what replaces it, and told the map.
    Done,
    /// Copy it, operands mapped.
    Copy,
    /// Copy it with these operands (of the new function).
    With(Vec<ValueId>),
}

/// See [`Builder::copy_with`].
pub type Rewrite<'a> = dyn FnMut(&mut Builder, &Func, &Op, &mut HashMap<ValueId, ValueId>) -> Step + 'a;

fn new_value(func: &mut Func, ty: Type) -> ValueId {
    func.values.push(ty);
    ValueId(func.values.len() as u32 - 1)
}
