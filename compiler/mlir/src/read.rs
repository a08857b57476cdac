//! From MLIR back to [`Func`].
//!
//! Values are numbered as [`flashc_ir::Builder`] numbers them: arguments of a block, then its operations in
//! order, the values of an operation's regions before its results. So writing and reading is the identity.
//! Locations that passes have lost become that of the function; fused ones give their first file.
#![allow(unsafe_code)]

use crate::{Context, Failure, Module};
use flashc_ir::ops::Literal;
use flashc_ir::{Block, Func, Kind, Loc, Op, Type, ValueId};
use melior::ir::attribute::{
    ArrayAttribute, AttributeLike, FloatAttribute, IntegerAttribute, StringAttribute,
};
use melior::ir::operation::{OperationLike, OperationRef};
use melior::ir::r#type::IntegerType;
use melior::ir::{Attribute, BlockLike, BlockRef, Location, RegionLike, TypeLike, Value, ValueLike};
use std::collections::HashMap;
use std::sync::Arc;

impl Module<'_> {
    /// The module's only function.
    pub fn to_func(&self) -> Result<Func, Failure> {
        let mut functions = operations(self.raw.body()).filter(|op| name(op) == "func.func");
        let function = functions.next().ok_or_else(|| fail("the module has no func.func"))?;
        if functions.next().is_some() {
            return Err(fail("the module has more than one func.func"));
        }
        let mut reader = Reader::new(self.context, &function);
        let region = function.region(0).map_err(fail)?;
        let block = region.first_block().ok_or_else(|| fail("the function has no body"))?;
        if block.next_in_region().is_some() {
            return Err(fail("the function has branches"));
        }
        reader.func.body = reader.block(block)?;
        Ok(reader.func)
    }
}

fn fail(message: impl ToString) -> Failure {
    Failure::new("read", message.to_string())
}

fn name<'a>(op: &OperationRef<'_, 'a>) -> &'a str {
    let name = op.name();
    // SAFETY: MLIR's identifiers live as long as the context, which outlives the operation.
    unsafe { melior::StringRef::from_raw(mlir_sys::mlirIdentifierStr(name.to_raw())) }
        .as_str()
        .unwrap_or_default()
}

fn operations<'c, 'a>(block: BlockRef<'c, 'a>) -> impl Iterator<Item = OperationRef<'c, 'a>> {
    std::iter::successors(block.first_operation(), |op| op.next_in_block())
}

/// An attribute, inherent or discardable.
fn attribute<'c>(op: &OperationRef<'c, '_>, name: &str) -> Option<Attribute<'c>> {
    // SAFETY: the operation is alive; MLIR returns null or an attribute that the context owns.
    unsafe {
        let key = melior::StringRef::new(name).to_raw();
        Attribute::from_option_raw(mlir_sys::mlirOperationGetAttributeByName(op.to_raw(), key))
    }
}

fn integer(a: Attribute<'_>) -> Option<i64> {
    IntegerAttribute::try_from(a).ok().map(|a| a.value())
}

fn string(a: Attribute<'_>) -> Option<String> {
    StringAttribute::try_from(a).ok().map(|a| a.value().to_string())
}

struct Reader<'c> {
    context: &'c Context,
    func: Func,
    /// By MLIR's pointer.
    values: HashMap<usize, ValueId>,
    /// By MLIR's pointer to the interned name.
    files: HashMap<usize, Arc<str>>,
}

impl<'c> Reader<'c> {
    fn new(context: &'c Context, function: &OperationRef<'_, '_>) -> Reader<'c> {
        let args = attribute(function, "tile.args").and_then(|a| ArrayAttribute::try_from(a).ok());
        let arg_names = match args {
            Some(a) => (0..a.len()).filter_map(|i| string(a.element(i).ok()?)).collect(),
            None => vec![],
        };
        let func = Func {
            name: attribute(function, "sym_name").and_then(string).unwrap_or_default(),
            arg_names,
            body: Block::default(),
            values: vec![],
            warps: attribute(function, "tile.warps").and_then(integer),
            shared_bytes: attribute(function, "tile.shared_bytes").and_then(integer),
            loc: Loc::new("unknown", 1, 1),
        };
        let mut reader = Reader { context, func, values: HashMap::new(), files: HashMap::new() };
        if let Some(loc) = reader.find_loc(function.location()) {
            reader.func.loc = loc;
        }
        reader
    }

    fn define(&mut self, value: Value<'_, '_>) -> Result<ValueId, Failure> {
        let ty = self.ty(value)?;
        let id = ValueId(self.func.values.len() as u32);
        self.func.values.push(ty);
        self.values.insert(value.to_raw().ptr as usize, id);
        Ok(id)
    }

    fn ty(&self, value: Value<'_, '_>) -> Result<Type, Failure> {
        let ty = value.r#type();
        let key = ty.to_raw().ptr as usize;
        if let Some(known) = self.context.types.borrow().get(&key) {
            return Ok(known.clone());
        }
        let read: Type = ty.to_string().parse().map_err(fail)?;
        self.context.types.borrow_mut().insert(key, read.clone());
        Ok(read)
    }

    fn block(&mut self, block: BlockRef<'_, '_>) -> Result<Block, Failure> {
        let args = (0..block.argument_count()).map(|i| {
            let arg = block.argument(i).map_err(fail)?;
            self.define(arg.into())
        });
        let args = args.collect::<Result<_, Failure>>()?;
        let ops = operations(block).map(|op| self.op(&op)).collect::<Result<_, Failure>>()?;
        Ok(Block { args, ops })
    }

    fn op(&mut self, op: &OperationRef<'_, '_>) -> Result<Op, Failure> {
        let name = name(op);
        let loc = self.find_loc(op.location()).unwrap_or_else(|| self.func.loc.clone());
        let at =
            |message: &dyn std::fmt::Display| fail(format!("{name} at {}:{}: {message}", loc.file, loc.line));
        let kind = match (name, attribute(op, "value")) {
            ("arith.constant", Some(value)) => {
                Kind::Constant(literal(value).ok_or_else(|| at(&"no scalar"))?)
            }
            _ => {
                let text = |key: &str| attribute(op, key).map(|a| a.to_string());
                flashc_ir::text::kind_from_mlir(name, op.operand_count(), &text).map_err(|e| at(&e))?
            }
        };
        let operands = op.operands().map(|v| self.values.get(&(v.to_raw().ptr as usize)).copied());
        let operands =
            operands.collect::<Option<_>>().ok_or_else(|| at(&"reads a value that is not defined before"))?;
        let mut regions = vec![];
        for region in op.regions() {
            match region.first_block() {
                Some(block) if block.next_in_region().is_none() => regions.push(self.block(block)?),
                Some(_) => return Err(at(&"has branches in its body")),
                // An `else` that a pass has dropped.
                None => {
                    let end = Op {
                        kind: Kind::Yield,
                        operands: vec![],
                        results: vec![],
                        regions: vec![],
                        loc: loc.clone(),
                    };
                    regions.push(Block { args: vec![], ops: vec![end] });
                }
            }
        }
        let results = (0..op.result_count()).map(|i| {
            let result = op.result(i).map_err(fail)?;
            self.define(result.into())
        });
        let results = results.collect::<Result<_, Failure>>()?;
        Ok(Op { kind, operands, results, regions, loc })
    }

    /// The first place in a file that a location names.
    fn find_loc(&mut self, loc: Location<'_>) -> Option<Loc> {
        if loc.is_file_line_col_range() {
            let file = loc.file_line_col_range_filename();
            let key = file.to_raw().ptr as usize;
            let name = || file.as_string_ref().as_str().unwrap_or_default().into();
            let file = Arc::clone(self.files.entry(key).or_insert_with(name));
            let (line, column) =
                (loc.file_line_col_range_start_line(), loc.file_line_col_range_start_column());
            Some(Loc { file, line: line as u32, column: column as u32 })
        } else if loc.is_fused() {
            (0..loc.fused_num_locations()).find_map(|i| self.find_loc(loc.fused_location(i)))
        } else if loc.is_name() {
            self.find_loc(loc.name_child_location())
        } else if loc.is_call_site() {
            self.find_loc(loc.call_site_callee())
        } else {
            None
        }
    }
}

/// Exact, unlike the printed form, which shortens floats.
fn literal(value: Attribute<'_>) -> Option<Literal> {
    if value.is_float() {
        return FloatAttribute::try_from(value).ok().map(|a| Literal::Float(a.value()));
    }
    let i = integer(value)?;
    // MLIR extends a true i1 to -1.
    let is_bool = IntegerType::try_from(value.r#type()).is_ok_and(|t| t.width() == 1);
    Some(Literal::Int(if is_bool { i & 1 } else { i }))
}
