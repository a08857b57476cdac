//! The typed program as readable text: `--emit hir`, snapshots.

use std::fmt::Write;

use super::*;
use crate::constexpr::Atom;

/// Spaces a level.
const INDENT: usize = 4;

impl Program {
    /// All kernels as text.
    pub fn dump(&self) -> String {
        self.kernels.iter().map(Kernel::dump).collect::<Vec<_>>().join("\n")
    }
}

impl Kernel {
    /// A constant expression with the kernel's names.
    pub fn const_text(&self, e: &ConstExpr) -> String {
        e.display(&|a| match a {
            Atom::Const(id) => self.generic(*id).name.clone(),
            Atom::Dim(id) => self.dim(*id).name.clone(),
            Atom::Op(..) => String::new(),
        })
    }

    /// The name of an element type.
    pub fn elem_text(&self, elem: ElemRef) -> String {
        match elem {
            ElemRef::Concrete(e) => e.name().to_owned(),
            ElemRef::Param(id) => self.generic(id).name.clone(),
        }
    }

    /// A type: `f32`, `f32[BM, D]`.
    pub fn ty_text(&self, ty: &Ty) -> String {
        let elem = self.elem_text(ty.elem());
        if ty.is_scalar() { elem } else { format!("{elem}{}", self.shape_text(ty.shape())) }
    }

    fn shape_text(&self, shape: &[ConstExpr]) -> String {
        format!("[{}]", join(shape, |e| self.const_text(e)))
    }

    /// The kernel as text.
    pub fn dump(&self) -> String {
        let mut out = String::new();
        for line in self.doc.lines() {
            let _ = writeln!(out, "/// {line}");
        }
        let _ = writeln!(out, "kernel {}", self.name);
        for g in &self.generics {
            let _ = writeln!(out, "  generic {}: {}", g.name, self.generic_text(&g.kind));
        }
        for p in &self.params {
            let _ = writeln!(out, "  param {}: {}", p.name, self.param_text(&p.kind));
        }
        if !self.dims.is_empty() {
            let _ = writeln!(out, "  dims {}", join(&self.dims, |d| d.name.clone()));
        }
        for e in &self.wheres {
            let _ = writeln!(out, "  where {}", self.expr_text(e));
        }
        let _ = writeln!(out, "  grid ({})", join(&self.grid, |e| self.expr_text(e)));
        for o in &self.obligations {
            let _ = writeln!(out, "  requires {}", self.obligation_text(o));
        }
        let _ = writeln!(out, "{{");
        self.stmts(&self.body, 1, &mut out);
        let _ = writeln!(out, "}}");
        out
    }

    fn generic_text(&self, kind: &GenericKind) -> String {
        let default = |text: Option<String>| text.map(|t| format!(" = {t}")).unwrap_or_default();
        match kind {
            GenericKind::Type { choices, default: d } => {
                let names: Vec<&str> = choices.iter().map(|c| c.name()).collect();
                format!("{}{}", names.join(" | "), default(d.map(|d| d.to_string())))
            }
            GenericKind::Int { default: d } => {
                format!("const{}", default(d.as_ref().map(|d| self.const_text(d))))
            }
            GenericKind::Bool { default: d } => {
                format!("const bool{}", default(d.as_ref().map(|d| self.const_text(d))))
            }
        }
    }

    fn param_text(&self, kind: &ParamKind) -> String {
        match kind {
            ParamKind::Scalar(elem) => self.elem_text(*elem),
            ParamKind::Tensor { elem, dims, out } => {
                format!(
                    "{}tensor({}){}",
                    if *out { "out " } else { "" },
                    self.elem_text(*elem),
                    self.shape_text(dims)
                )
            }
        }
    }

    fn obligation_text(&self, o: &Obligation) -> String {
        let text = match &o.kind {
            ObligationKind::Equal { lhs, rhs, what } => {
                format!("{} == {} ({what})", self.const_text(lhs), self.const_text(rhs))
            }
            ObligationKind::TileShape(shape) => format!("a legal tile {}", self.shape_text(shape)),
            ObligationKind::TensorLen(len) => format!("{} >= 0", self.const_text(len)),
            ObligationKind::Step(step) => format!("{} != 0", self.const_text(step)),
            ObligationKind::Assert { cond, message } => match message {
                Some(m) => format!("{} ({m})", self.const_text(cond)),
                None => self.const_text(cond),
            },
        };
        let guards = join(&o.guards, |(c, when)| {
            format!(" if {}{}", if *when { "" } else { "not " }, self.const_text(c))
        });
        text + &guards
    }

    fn stmts(&self, stmts: &[Stmt], level: usize, out: &mut String) {
        let pad = " ".repeat(level * INDENT);
        for s in stmts {
            let from = match s.call {
                Some(id) => format!("  // in {}", self.calls[id.index()].function),
                None => String::new(),
            };
            match &s.kind {
                StmtKind::Let(id, e) => {
                    let var = self.var(*id);
                    let word = if var.mutable { "var" } else { "let" };
                    let ty = self.ty_text(&var.ty);
                    let _ = writeln!(
                        out,
                        "{pad}{word} {}: {ty} = {}{from}",
                        self.var_text(*id),
                        self.expr_text(e)
                    );
                }
                StmtKind::Assign(id, e) => {
                    let _ = writeln!(out, "{pad}{} = {}{from}", self.var_text(*id), self.expr_text(e));
                }
                StmtKind::Store { tensor, index, value } => {
                    let place = self.index_text(*tensor, index);
                    let _ = writeln!(out, "{pad}{place} = {}{from}", self.expr_text(value));
                }
                StmtKind::For(f) => {
                    let _ = writeln!(
                        out,
                        "{pad}for{} {} in {} .. {} step {}{}{from} {{",
                        if f.unordered { " unordered" } else { "" },
                        self.var_text(f.var),
                        self.expr_text(&f.lo),
                        self.expr_text(&f.hi),
                        self.expr_text(&f.step),
                        self.carried(&f.carried),
                    );
                    self.stmts(&f.body, level + 1, out);
                    let _ = writeln!(out, "{pad}}}");
                }
                StmtKind::If(i) => {
                    let results = join(&i.results, |v| {
                        format!("{}: {}", self.var_text(*v), self.ty_text(&self.var(*v).ty))
                    });
                    let results = if results.is_empty() { results } else { format!("let {results} = ") };
                    let carried = self.carried(&i.carried);
                    let _ = writeln!(out, "{pad}{results}if {}{carried}{from} {{", self.expr_text(&i.cond));
                    self.block(&i.then, level, out);
                    if !i.otherwise.stmts.is_empty() || !i.otherwise.values.is_empty() {
                        let _ = writeln!(out, "{pad}}} else {{");
                        self.block(&i.otherwise, level, out);
                    }
                    let _ = writeln!(out, "{pad}}}");
                }
            }
        }
    }

    fn block(&self, block: &Block, level: usize, out: &mut String) {
        self.stmts(&block.stmts, level + 1, out);
        if !block.values.is_empty() {
            let pad = " ".repeat((level + 1) * INDENT);
            let _ = writeln!(out, "{pad}{}", join(&block.values, |e| self.expr_text(e)));
        }
    }

    fn carried(&self, vars: &[VarId]) -> String {
        if vars.is_empty() {
            String::new()
        } else {
            format!(" carries {}", join(vars, |v| self.var_text(*v)))
        }
    }

    /// Names may repeat after inlining and in different scopes; the number tells them apart.
    fn var_text(&self, id: VarId) -> String {
        format!("{}.{}", self.var(id).name, id.0)
    }

    fn index_text(&self, tensor: ParamId, index: &[IndexItem]) -> String {
        let items = join(index, |i| match i {
            IndexItem::At(e) => self.expr_text(e),
            IndexItem::Slice { start, len, .. } => {
                format!("{} :+ {}", self.expr_text(start), self.const_text(len))
            }
            IndexItem::Full { .. } => ":".to_owned(),
        });
        format!("{}[{items}]", self.param(tensor).name)
    }

    /// An expression; operations on two operands are in parentheses, types stand where they are chosen.
    pub fn expr_text(&self, e: &Expr) -> String {
        let sub = |e: &Expr| self.expr_text(e);
        match &e.kind {
            ExprKind::Literal(Literal::Int(v)) => format!("{v}:{}", self.ty_text(&e.ty)),
            ExprKind::Literal(Literal::Float(v)) => format!("{v:?}:{}", self.ty_text(&e.ty)),
            ExprKind::Literal(Literal::Bool(v)) => v.to_string(),
            ExprKind::Const(c) => self.const_text(c),
            ExprKind::Dim(id) => self.dim(*id).name.clone(),
            ExprKind::ScalarParam(id) => self.param(*id).name.clone(),
            ExprKind::Var(id) => self.var_text(*id),
            ExprKind::ProgramId(axis) => format!("program_id({axis})"),
            ExprKind::NumPrograms(axis) => format!("num_programs({axis})"),
            ExprKind::Unary(op, x) => format!("{}({})", format!("{op:?}").to_lowercase(), sub(x)),
            ExprKind::Binary(op, a, b) => match sign(*op) {
                Ok(sign) => format!("({} {sign} {})", sub(a), sub(b)),
                Err(name) => format!("{name}({}, {})", sub(a), sub(b)),
            },
            ExprKind::Compare(op, a, b) => {
                let sign = match op {
                    CompareOp::Eq => "==",
                    CompareOp::Ne => "!=",
                    CompareOp::Lt => "<",
                    CompareOp::Le => "<=",
                    CompareOp::Gt => ">",
                    CompareOp::Ge => ">=",
                };
                format!("({} {sign} {})", sub(a), sub(b))
            }
            ExprKind::Select { cond, then, otherwise } => {
                format!("select({}, {}, {})", sub(cond), sub(then), sub(otherwise))
            }
            ExprKind::Fma(a, b, c) => format!("fma({}, {}, {})", sub(a), sub(b), sub(c)),
            ExprKind::Cast(x) => format!("cast({}, {})", sub(x), self.elem_text(e.ty.elem())),
            ExprKind::Load { tensor, index } => self.index_text(*tensor, index),
            ExprKind::ExpandDims { value, axis } => format!("expand({}, axis = {axis})", sub(value)),
            ExprKind::Broadcast(x) => format!("broadcast({}, {})", sub(x), self.shape_text(e.ty.shape())),
            ExprKind::Splat(x) => format!("splat({}, {})", sub(x), self.shape_text(e.ty.shape())),
            ExprKind::Reduce { op, value, axis } => {
                format!("{}({}, axis = {axis})", format!("{op:?}").to_lowercase(), sub(value))
            }
            ExprKind::Dot { a, b, acc } => match acc {
                Some(acc) => format!("dot({}, {}, acc = {})", sub(a), sub(b), sub(acc)),
                None => format!("dot({}, {})", sub(a), sub(b)),
            },
            ExprKind::Permute { value, order } => format!("permute({}, {order:?})", sub(value)),
            ExprKind::Reshape(x) => format!("reshape({}, {})", sub(x), self.shape_text(e.ty.shape())),
            ExprKind::Iota => format!("iota({})", join(e.ty.shape(), |l| self.const_text(l))),
        }
    }
}

fn sign(op: BinaryOp) -> Result<&'static str, &'static str> {
    Ok(match op {
        BinaryOp::Add => "+",
        BinaryOp::Sub => "-",
        BinaryOp::Mul => "*",
        BinaryOp::Div => "/",
        BinaryOp::Rem => "%",
        BinaryOp::And => "&",
        BinaryOp::Or => "|",
        BinaryOp::Xor => "^",
        BinaryOp::Shl => "<<",
        BinaryOp::Shr => ">>",
        BinaryOp::CeilDiv => return Err("cdiv"),
        BinaryOp::Min => return Err("minimum"),
        BinaryOp::Max => return Err("maximum"),
    })
}

fn join<T>(items: &[T], text: impl Fn(&T) -> String) -> String {
    items.iter().map(text).collect::<Vec<_>>().join(", ")
}
