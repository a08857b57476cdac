//! Grid and conditions as expressions that the launcher evaluates. What the specialization decides is folded.

use flashc_front::codes::Code;
use flashc_front::constexpr::{Atom, ConstExpr, ConstOp};
use flashc_front::diagnostic::Diagnostic;
use flashc_front::hir::{
    BinaryOp, Bound, CompareOp, Expr, ExprKind, Kernel, Literal, ParamId, ParamKind, UnaryOp,
};
use flashc_front::source::{Source, Span};
use flashc_front::types::Elem;
use flashc_ir::artifact::{Expr as HostExpr, HostBinary, HostUnary, HostValue, Where};

type Result<T> = std::result::Result<T, Box<Diagnostic>>;

/// What a host expression is over.
pub(super) struct Host<'a> {
    pub(super) source: &'a Source,
    pub(super) kernel: &'a Kernel,
    pub(super) bound: &'a Bound,
}

impl<'a> Host<'a> {
    pub(super) fn new(source: &'a Source, kernel: &'a Kernel, bound: &'a Bound) -> Host<'a> {
        Host { source, kernel, bound }
    }

    /// A condition of the `where` clause; none if the specialization fulfils it, an error if it cannot hold.
    pub(super) fn condition(&self, e: &Expr) -> Result<Option<Where>> {
        let text = self.source.slice(e.span).split_whitespace().collect::<Vec<_>>().join(" ");
        match self.expr(e)? {
            HostExpr::Bool(true) => Ok(None),
            HostExpr::Bool(false) => Err(Box::new(
                Diagnostic::new(Code::StaticAssert, e.span, format!("`{text}` never holds"))
                    .label("false for these constants")
                    .help("choose other constants: no launch would pass this condition"),
            )),
            holds => Ok(Some(Where { holds, text, line: self.source.line_col(e.span.start).0 })),
        }
    }

    pub(super) fn expr(&self, e: &Expr) -> Result<HostExpr> {
        let elem = self.bound.elem(&e.ty.elem());
        if let Some(c) = &e.constant {
            let v = self.bound.eval(c);
            return Ok(if elem == Elem::Bool { HostExpr::Bool(v != 0) } else { HostExpr::Int(v) });
        }
        Ok(match &e.kind {
            ExprKind::Literal(Literal::Int(v)) if elem.is_float() => HostExpr::Float(*v as f64),
            ExprKind::Literal(Literal::Int(v)) => HostExpr::Int(*v as i64),
            ExprKind::Literal(Literal::Bool(v)) => HostExpr::Bool(*v),
            // As the program would compute with it.
            ExprKind::Literal(Literal::Float(v)) if elem == Elem::F32 => {
                HostExpr::Float(f64::from(*v as f32))
            }
            ExprKind::Literal(Literal::Float(v)) => HostExpr::Float(*v),
            ExprKind::Dim(id) => HostExpr::Dim(id.index()),
            ExprKind::ScalarParam(id) => HostExpr::Scalar(self.scalar_index(*id)),
            ExprKind::Unary(op, a) => match op {
                UnaryOp::Neg => unary(HostUnary::Neg, self.expr(a)?),
                UnaryOp::Not => unary(HostUnary::Not, self.expr(a)?),
                UnaryOp::Abs => {
                    let a = self.expr(a)?;
                    binary(HostBinary::Max, unary(HostUnary::Neg, a.clone()), a)
                }
                _ => return self.refuse(e.span),
            },
            ExprKind::Binary(op, a, b) => {
                let op = match op {
                    BinaryOp::Add => HostBinary::Add,
                    BinaryOp::Sub => HostBinary::Sub,
                    BinaryOp::Mul => HostBinary::Mul,
                    BinaryOp::Div => HostBinary::Div,
                    BinaryOp::Rem => HostBinary::Rem,
                    BinaryOp::CeilDiv => HostBinary::CeilDiv,
                    BinaryOp::Min => HostBinary::Min,
                    BinaryOp::Max => HostBinary::Max,
                    BinaryOp::And if elem == Elem::Bool => HostBinary::And,
                    BinaryOp::Or if elem == Elem::Bool => HostBinary::Or,
                    BinaryOp::Xor if elem == Elem::Bool => HostBinary::Ne,
                    _ => return self.refuse(e.span),
                };
                binary(op, self.expr(a)?, self.expr(b)?)
            }
            ExprKind::Compare(op, a, b) => {
                let op = match op {
                    CompareOp::Eq => HostBinary::Eq,
                    CompareOp::Ne => HostBinary::Ne,
                    CompareOp::Lt => HostBinary::Lt,
                    CompareOp::Le => HostBinary::Le,
                    CompareOp::Gt => HostBinary::Gt,
                    CompareOp::Ge => HostBinary::Ge,
                };
                binary(op, self.expr(a)?, self.expr(b)?)
            }
            ExprKind::Select { cond, then, otherwise } => {
                select(self.expr(cond)?, self.expr(then)?, self.expr(otherwise)?)
            }
            // The launcher's integers have 64 bits: a cast that only widens changes nothing.
            ExprKind::Cast(a) => {
                let from = self.bound.elem(&a.ty.elem());
                let widens = from.is_int() && elem.is_int() && from.bits() < elem.bits();
                let signs = from.is_signed_int() == elem.is_signed_int() || elem.is_signed_int();
                if from == elem || (widens && signs) || (from == Elem::F32 && elem == Elem::F64) {
                    return self.expr(a);
                }
                return self.refuse(e.span);
            }
            _ => return self.refuse(e.span),
        })
    }

    fn refuse<T>(&self, span: Span) -> Result<T> {
        Err(Box::new(
            Diagnostic::new(Code::BadGrid, span, "the launcher cannot compute this")
                .label("not available in `grid` and `where`")
                .help("use + - * / %, cdiv, minimum, maximum, comparisons, logic and select of dimensions, scalars and constants"),
        ))
    }

    fn scalar_index(&self, id: ParamId) -> usize {
        let before = self.kernel.params.iter().take(id.index());
        before.filter(|p| matches!(p.kind, ParamKind::Scalar(_))).count()
    }

    pub(super) fn atom_name(&self, atom: &Atom) -> String {
        match atom {
            Atom::Const(id) => self.kernel.generic(*id).name.clone(),
            Atom::Dim(id) => self.kernel.dim(*id).name.clone(),
            Atom::Op(..) => String::new(),
        }
    }

    /// A length over dimensions.
    pub(super) fn const_expr(&self, e: &ConstExpr, span: Span) -> Result<HostExpr> {
        if let Some(v) = self.bound.try_eval(e) {
            return Ok(HostExpr::Int(v));
        }
        let mut sum = HostExpr::Int(0);
        for (atoms, coefficient) in e.terms() {
            let mut product = HostExpr::Int(coefficient);
            for atom in atoms {
                product = binary(HostBinary::Mul, product, self.atom(atom, span)?);
            }
            sum = binary(HostBinary::Add, sum, product);
        }
        Ok(sum)
    }

    fn atom(&self, atom: &Atom, span: Span) -> Result<HostExpr> {
        let (op, args) = match atom {
            Atom::Dim(id) => return Ok(HostExpr::Dim(id.index())),
            Atom::Const(_) => return self.const_expr(&single(atom), span),
            Atom::Op(op, args) => (op, args),
        };
        let op = match op {
            ConstOp::Mul => HostBinary::Mul,
            ConstOp::Div => HostBinary::Div,
            ConstOp::Rem => HostBinary::Rem,
            ConstOp::CeilDiv => HostBinary::CeilDiv,
            ConstOp::Min => HostBinary::Min,
            ConstOp::Max => HostBinary::Max,
            _ => return self.refuse(span),
        };
        match args.as_slice() {
            [a, b] => Ok(binary(op, self.const_expr(a, span)?, self.const_expr(b, span)?)),
            _ => self.refuse(span),
        }
    }
}

fn single(atom: &Atom) -> ConstExpr {
    match atom {
        Atom::Const(id) => ConstExpr::param(*id),
        Atom::Dim(id) => ConstExpr::dim(*id),
        Atom::Op(op, args) => ConstExpr::op(*op, args.clone()),
    }
}

fn unary(op: HostUnary, a: HostExpr) -> HostExpr {
    fold(HostExpr::Unary(op, Box::new(a)))
}

fn binary(op: HostBinary, a: HostExpr, b: HostExpr) -> HostExpr {
    match (op, &a, &b) {
        (HostBinary::Add, HostExpr::Int(0), _) | (HostBinary::Mul, HostExpr::Int(1), _) => b,
        (HostBinary::Add | HostBinary::Sub, _, HostExpr::Int(0)) => a,
        (HostBinary::Mul | HostBinary::Div | HostBinary::CeilDiv, _, HostExpr::Int(1)) => a,
        (HostBinary::And, HostExpr::Bool(true), _) | (HostBinary::Or, HostExpr::Bool(false), _) => b,
        (HostBinary::And, _, HostExpr::Bool(true)) | (HostBinary::Or, _, HostExpr::Bool(false)) => a,
        (HostBinary::And, HostExpr::Bool(false), _) | (HostBinary::And, _, HostExpr::Bool(false)) => {
            HostExpr::Bool(false)
        }
        (HostBinary::Or, HostExpr::Bool(true), _) | (HostBinary::Or, _, HostExpr::Bool(true)) => {
            HostExpr::Bool(true)
        }
        _ => fold(HostExpr::Binary(op, Box::new(a), Box::new(b))),
    }
}

fn select(cond: HostExpr, a: HostExpr, b: HostExpr) -> HostExpr {
    match cond {
        HostExpr::Bool(true) => a,
        HostExpr::Bool(false) => b,
        cond => HostExpr::Select(Box::new(cond), Box::new(a), Box::new(b)),
    }
}

/// The value, if it is known without arguments.
fn fold(e: HostExpr) -> HostExpr {
    match e.eval(&[], &[]) {
        Some(HostValue::Int(v)) => HostExpr::Int(v),
        Some(HostValue::Float(v)) => HostExpr::Float(v),
        Some(HostValue::Bool(v)) => HostExpr::Bool(v),
        None => e,
    }
}
