//! The importer: a checked kernel and one specialization of it become a tile function.
//!
//! ```text
//! let m0 = mb * BM;                     %m0 = arith.muli %mb, %c128
//! let qt = q[b, h, m0 :+ BM, :];   =>   %qt = tile.load %q[%b, %h, %m0, %c0]
//! s = s - m[:, None];                   %mb = tile.broadcast %m {dims = [0]}
//!                                       %s2 = tile.subf %s, %mb
//! ```
//!
//! What holds of the result:
//! - Constants of the specialization are literals, arithmetic on them is folded, and of an `if` over them only the
//!   taken branch is there. Literals stand at the top of the function, each once.
//! - **A tile has no axis of length 1, and a tile of one element is a scalar**: `x[:, None]` is `x` until something
//!   broadcasts it, and a slice of length 1 is an index. Only around a `dot` with such an axis it is put back.
//! - Signs are in operations: `u32` is `i32` with `divui`, `ult`, ...
//! - Every operation has the place in the source that it comes from.
//!
//! | file | role |
//! |---|---|
//! | `emit` | a builder that folds |
//! | `arith` | operators and builtins in terms of the IR's operations |
//! | `expr` | expressions: shapes, loads, reductions, dots |
//! | `stmt` | statements: variables, loops, branches, stores |
//! | `host` | grid and conditions, for the launcher |

mod arith;
mod emit;
mod expr;
mod host;
mod stmt;
#[cfg(test)]
mod tests;

use crate::import::emit::Emit;
use flashc_front::codes::Code;
use flashc_front::constexpr::ConstExpr;
use flashc_front::diagnostic::Diagnostic;
use flashc_front::hir::{Bound, DimId, Kernel, ParamId, ParamKind, VarId};
use flashc_front::source::{Source, Span};
use flashc_front::types as lang;
use flashc_ir::artifact::{self, ScalarParam, TensorParam, Where};
use flashc_ir::types::Dim;
use flashc_ir::{Elem, Func, Loc, TensorType, Type, ValueId};

/// An artifact without its code variants, and the function to compile for them.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The kernel; its arguments are `scalars`, `dims`, `tensors`, in this order.
    pub func: Func,
    /// The kernel's doc comment.
    pub doc: String,
    /// Generics and their values, in order of declaration.
    pub specialization: Vec<(String, String)>,
    /// User scalars, in order of declaration.
    pub scalars: Vec<ScalarParam>,
    /// Dimensions: the declared ones, then one `tensor.axis` for each axis whose length is computed from others.
    pub dims: Vec<String>,
    /// Tensors, in order of declaration.
    pub tensors: Vec<TensorParam>,
    /// What has to hold at launch.
    pub wheres: Vec<Where>,
    /// Programs along each axis.
    pub grid: Vec<artifact::Expr>,
}

/// Imports one specialization of a kernel.
pub fn import(source: &Source, kernel: &Kernel, bound: &Bound) -> Result<Imported, Vec<Diagnostic>> {
    let mut errors = vec![];
    let interface = interface(source, kernel, bound, &mut errors);
    let args = arguments(&interface);
    let at = locate(source, kernel.span);
    let mut cx = Import {
        source,
        kernel,
        bound,
        emit: Emit::new(&kernel.name, &args, at),
        env: vec![None; kernel.vars.len()],
        scalars: vec![None; kernel.params.len()],
        tensors: vec![None; kernel.params.len()],
        dims: vec![],
        errors,
    };
    let values = cx.emit.args();
    let (scalars, rest) = values.split_at(interface.scalars.len());
    let (dims, tensors) = rest.split_at(interface.dims.len());
    cx.dims = dims.to_vec();
    let (mut scalars, mut tensors) = (scalars.iter().copied(), tensors.iter().copied());
    for (i, p) in kernel.params.iter().enumerate() {
        match p.kind {
            ParamKind::Tensor { .. } => cx.tensors[i] = tensors.next(),
            ParamKind::Scalar(_) => cx.scalars[i] = scalars.next(),
        }
    }
    cx.stmts(&kernel.body);
    if !cx.errors.is_empty() {
        return Err(cx.errors);
    }
    Ok(Imported { func: cx.emit.finish(), ..interface })
}

/// Everything but the function's body.
fn interface(source: &Source, kernel: &Kernel, bound: &Bound, errors: &mut Vec<Diagnostic>) -> Imported {
    let host = host::Host::new(source, kernel, bound);
    let mut out = Imported {
        func: flashc_ir::Builder::new(&kernel.name, &[], locate(source, kernel.span)).finish(),
        doc: kernel.doc.clone(),
        specialization: vec![],
        scalars: vec![],
        dims: kernel.dims.iter().map(|d| d.name.clone()).collect(),
        tensors: vec![],
        wheres: vec![],
        grid: vec![],
    };
    for (i, g) in kernel.generics.iter().enumerate() {
        let value = bound.value(flashc_front::hir::GenericId(i as u32));
        out.specialization.push((g.name.clone(), value.to_string()));
    }
    for p in &kernel.params {
        match &p.kind {
            ParamKind::Scalar(elem) => {
                let elem = bound.elem(elem);
                let dtype = elem.name().to_owned();
                out.scalars.push(ScalarParam { name: p.name.clone(), dtype, elem: ir_elem(elem) });
            }
            ParamKind::Tensor { elem, dims, out: written } => {
                let elem = bound.elem(elem);
                let mut lens = vec![];
                for (axis, len) in dims.iter().enumerate() {
                    lens.push(tensor_dim(&host, len, (&p.name, axis, p.span), &mut out, errors));
                }
                out.tensors.push(TensorParam {
                    name: p.name.clone(),
                    dtype: elem.name().to_owned(),
                    elem: ir_elem(elem),
                    dims: lens,
                    out: *written,
                });
            }
        }
    }
    for e in &kernel.wheres {
        match host.condition(e) {
            Ok(Some(w)) => out.wheres.push(w),
            Ok(None) => {}
            Err(d) => errors.push(*d),
        }
    }
    for e in &kernel.grid {
        match host.expr(e) {
            Ok(e) => out.grid.push(e),
            Err(d) => errors.push(*d),
        }
    }
    out
}

/// The length of an axis. One computed from other dimensions becomes a dimension of its own that the tensor binds,
/// with a condition that it has the value.
fn tensor_dim(
    host: &host::Host<'_>,
    len: &ConstExpr,
    (tensor, axis, span): (&str, usize, Span),
    out: &mut Imported,
    errors: &mut Vec<Diagnostic>,
) -> Dim {
    if let Some(n) = host.bound.try_eval(len) {
        return Dim::Const(n);
    }
    if let Some(DimId(i)) = len.as_dim() {
        return Dim::Sym(host.kernel.dims[i as usize].name.clone());
    }
    let name = format!("{tensor}.{axis}");
    match host.const_expr(len, span) {
        Ok(value) => {
            let own = artifact::Expr::Dim(out.dims.len());
            let text = len.display(&|a| host.atom_name(a));
            out.wheres.push(Where {
                holds: artifact::Expr::Binary(artifact::HostBinary::Eq, Box::new(own), Box::new(value)),
                text: format!("axis {axis} of `{tensor}` has length {text}"),
                line: host.source.line_col(span.start).0,
            });
        }
        Err(d) => errors.push(*d),
    }
    out.dims.push(name.clone());
    Dim::Sym(name)
}

fn arguments(interface: &Imported) -> Vec<(String, Type)> {
    let scalars = interface.scalars.iter().map(|s| (s.name.clone(), Type::Scalar(s.elem)));
    let dims = interface.dims.iter().map(|d| (d.clone(), Type::I32));
    let tensors = interface.tensors.iter().map(|t| {
        let ty = TensorType { name: t.name.clone(), dims: t.dims.clone(), elem: t.elem };
        (t.name.clone(), Type::Tensor(ty))
    });
    scalars.chain(dims).chain(tensors).collect()
}

/// The state of an import.
struct Import<'a> {
    source: &'a Source,
    kernel: &'a Kernel,
    bound: &'a Bound,
    emit: Emit,
    /// The current value of each variable.
    env: Vec<Option<ValueId>>,
    /// Arguments by parameter.
    scalars: Vec<Option<ValueId>>,
    tensors: Vec<Option<ValueId>>,
    /// Arguments by dimension.
    dims: Vec<ValueId>,
    errors: Vec<Diagnostic>,
}

impl Import<'_> {
    /// Operations from here on come from this place.
    fn at(&mut self, span: Span) {
        let loc = locate(self.source, span);
        self.emit.set_loc(loc);
    }

    fn elem(&self, ty: &lang::Ty) -> lang::Elem {
        self.bound.elem(&ty.elem())
    }

    /// The lengths of the axes, those of length 1 among them.
    fn full_shape(&self, ty: &lang::Ty) -> Vec<i64> {
        self.bound.shape(ty.shape())
    }

    /// The lengths without those of length 1.
    fn shape(&self, ty: &lang::Ty) -> Vec<i64> {
        squeeze(&self.full_shape(ty))
    }

    fn ty(&self, ty: &lang::Ty) -> Type {
        tile_or_scalar(&self.shape(ty), ir_elem(self.elem(ty)))
    }

    fn var(&mut self, id: VarId) -> Option<ValueId> {
        self.env.get(id.index()).copied().flatten()
    }

    fn tensor(&self, id: ParamId) -> Option<ValueId> {
        self.tensors.get(id.index()).copied().flatten()
    }

    fn unsupported(&mut self, span: Span, message: impl Into<String>, help: &str) {
        let d = Diagnostic::new(Code::OperandType, span, message).label("not available yet").help(help);
        self.errors.push(d);
    }
}

fn locate(source: &Source, span: Span) -> Loc {
    let (line, column) = source.line_col(span.start);
    Loc { file: source.name().into(), line, column }
}

fn squeeze(shape: &[i64]) -> Vec<i64> {
    shape.iter().copied().filter(|&n| n != 1).collect()
}

fn tile_or_scalar(shape: &[i64], elem: Elem) -> Type {
    if shape.is_empty() { Type::Scalar(elem) } else { Type::tile(shape, elem) }
}

/// The element type without its sign.
fn ir_elem(elem: lang::Elem) -> Elem {
    match elem {
        lang::Elem::Bool => Elem::I1,
        lang::Elem::I8 | lang::Elem::U8 => Elem::I8,
        lang::Elem::I16 | lang::Elem::U16 => Elem::I16,
        lang::Elem::I32 | lang::Elem::U32 => Elem::I32,
        lang::Elem::I64 | lang::Elem::U64 => Elem::I64,
        lang::Elem::F16 => Elem::F16,
        lang::Elem::Bf16 => Elem::BF16,
        lang::Elem::F32 => Elem::F32,
        lang::Elem::F64 => Elem::F64,
        lang::Elem::E4m3 => Elem::E4M3,
        lang::Elem::E5m2 => Elem::E5M2,
    }
}
