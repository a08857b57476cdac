//! Statements, blocks, and the variables that loops and branches carry.

use super::context::{Checker, Entity, Region, Scope, with_notes};
use crate::ast;
use crate::codes::Code;
use crate::constexpr::{Atom, ConstExpr, ConstOp};
use crate::diagnostic::Diagnostic;
use crate::hir::*;
use crate::source::Span;
use crate::types::{Elem, ElemRef};

impl Checker<'_> {
    /// Statements in a scope of their own; a value at the end goes nowhere.
    pub(super) fn unit_block(&mut self, block: &ast::Block) {
        for stmt in &block.stmts {
            self.stmt(stmt);
        }
        if let Some(tail) = &block.tail {
            self.unused(tail);
        }
    }

    fn unused(&mut self, e: &ast::Expr) {
        let before = self.diagnostics.len();
        let known = self.values(e, &[]);
        if known.is_some() && self.diagnostics.len() == before {
            self.diagnostics.push(
                Diagnostic::new(Code::UnusedValue, e.span, "this value goes nowhere")
                    .label("computed and dropped")
                    .help("name it with `let`, assign it, store it, or remove it"),
            );
        }
    }

    /// Statements and the values at the end of a block that must give some.
    pub(super) fn block_values(
        &mut self,
        block: &ast::Block,
        hints: &[Option<ElemRef>],
    ) -> Option<Vec<Expr>> {
        let (last, before) = match (&block.tail, block.stmts.split_last()) {
            (None, Some((last, before))) if matches!(last.kind, ast::StmtKind::If(_)) => (Some(last), before),
            _ => (None, block.stmts.as_slice()),
        };
        for stmt in before {
            self.stmt(stmt);
        }
        match (&block.tail, last.map(|s| &s.kind)) {
            (Some(tail), _) => self.values(tail, hints),
            (None, Some(ast::StmtKind::If(i))) => self.if_values(i, hints),
            _ => {
                let broken = block.stmts.iter().any(|s| s.kind == ast::StmtKind::Error);
                if broken {
                    return None;
                }
                let end = Span { start: block.span.end.saturating_sub(1), end: block.span.end };
                self.error(
                    Diagnostic::new(Code::Branches, end, "this block gives no value")
                        .label("a value is needed before this")
                        .help("end it with an expression without `;`"),
                )
            }
        }
    }

    /// Checks a branch; its statements and what `body` found. For branches of an `if` with values.
    pub(super) fn branch<T>(
        &mut self,
        block: &ast::Block,
        cond: Option<ConstExpr>,
        when: bool,
        body: impl FnOnce(&mut Self) -> Option<T>,
    ) -> (Vec<Stmt>, Option<T>) {
        let (stmts, value, _) = self.region(cond.map(|c| (c, when)), Some(block.span), body);
        (stmts, value)
    }

    /// Checks a loop body or branch: its statements, what `body` found, and what it assigns outside.
    fn region<T>(
        &mut self,
        guard: Option<(ConstExpr, bool)>,
        value: Option<Span>,
        body: impl FnOnce(&mut Self) -> Option<T>,
    ) -> (Vec<Stmt>, Option<T>, Vec<VarId>) {
        let first = VarId(self.kernel.vars.len() as u32);
        let (guards, facts) = (self.guards.len(), self.facts.len());
        if let Some((cond, when)) = guard {
            if when {
                self.learn(&cond);
            }
            self.guards.push((cond, when));
        }
        self.scopes.push(Scope::default());
        self.blocks.push(Vec::new());
        self.regions.push(Region { first, assigned: Default::default(), value });
        let found = body(self);
        let region = self.regions.pop();
        let stmts = self.blocks.pop().unwrap_or_default();
        self.scopes.pop();
        self.guards.truncate(guards);
        self.facts.truncate(facts);
        let carried: Vec<VarId> =
            region.into_iter().flat_map(|r| r.assigned).filter(|v| *v < first).collect();
        if let Some(outer) = self.regions.last_mut() {
            outer.assigned.extend(carried.iter().copied());
        }
        (stmts, found, carried)
    }

    /// Remembers an equality that holds from here on.
    pub(super) fn learn(&mut self, cond: &ConstExpr) {
        match cond.as_atom() {
            Some(Atom::Op(ConstOp::Eq, args)) if args.len() == 2 => self.facts.push(args[0].sub(&args[1])),
            Some(Atom::Op(ConstOp::And, args)) => args.clone().iter().for_each(|a| self.learn(a)),
            _ => {}
        }
    }

    pub(super) fn stmt(&mut self, stmt: &ast::Stmt) {
        if self.call.is_some() {
            self.inlined += 1;
        }
        let _ = self.deeper(stmt.span, |c| {
            c.stmt_inner(stmt);
            Some(())
        });
    }

    fn stmt_inner(&mut self, stmt: &ast::Stmt) {
        let span = stmt.span;
        match &stmt.kind {
            ast::StmtKind::Let { mutable, names, tuple, value } => {
                self.let_stmt(*mutable, names, *tuple, value, span)
            }
            ast::StmtKind::Assign { target, op, value } => self.assign(target, *op, value, span),
            ast::StmtKind::For(f) => self.for_stmt(f, span),
            ast::StmtKind::If(i) => self.if_stmt(i),
            ast::StmtKind::StaticAssert { cond, message } => {
                if let Some(cond) = self.const_bool(cond, "the condition of `static_assert`") {
                    self.assert(cond, message.clone(), span);
                }
            }
            ast::StmtKind::Expr(e) => self.unused(e),
            ast::StmtKind::Error => {}
        }
    }

    /// An assertion: an error now if it never holds, else an obligation.
    pub(super) fn assert(&mut self, cond: ConstExpr, message: Option<String>, span: Span) {
        match cond.as_int() {
            Some(0) if self.guards.is_empty() => {
                let text = message.unwrap_or_else(|| "this condition is false".to_owned());
                self.diagnostics.push(
                    Diagnostic::new(Code::StaticAssert, span, text)
                        .label("false whatever the constants are")
                        .help("change the condition, or what it is about"),
                );
            }
            Some(v) if v != 0 => {}
            _ => {
                self.learn(&cond);
                self.oblige(ObligationKind::Assert { cond, message }, span, Vec::new());
            }
        }
    }

    fn let_stmt(&mut self, mutable: bool, names: &[ast::Name], tuple: bool, value: &ast::Expr, span: Span) {
        let values = if tuple { self.values(value, &[]) } else { self.expr(value, None).map(|v| vec![v]) };
        let Some(values) = values else {
            for name in names {
                self.declare(name, Entity::Bad);
            }
            return;
        };
        if names.len() != values.len() {
            let names_span = names.first().map_or(span, |n| n.span.to(names[names.len() - 1].span));
            self.diagnostics.push(
                Diagnostic::new(
                    Code::TupleCount,
                    names_span,
                    format!("{} for {}", count(names.len(), "name"), count(values.len(), "value")),
                )
                .label(count(names.len(), "name"))
                .note(value.span, format!("this gives {}", count(values.len(), "value")))
                .help("use one name for each value; `_` for one that is not needed"),
            );
        }
        for (i, name) in names.iter().enumerate() {
            match values.get(i) {
                Some(value) if name.text != "_" => {
                    let id = self.new_var(&name.text, value, mutable, name.span);
                    self.emit(StmtKind::Let(id, value.clone()), span);
                    self.declare(name, Entity::Var(id));
                }
                Some(_) => {}
                None => self.declare(name, Entity::Bad),
            }
        }
    }

    fn assign(&mut self, target: &ast::Expr, op: Option<ast::BinaryOp>, value: &ast::Expr, span: Span) {
        let name = match &target.kind {
            ast::ExprKind::Index(base, items) => {
                if op.is_some() {
                    self.diagnostics.push(
                        Diagnostic::new(Code::Direction, span, "a tensor is stored to, not updated")
                            .label("this would read the output")
                            .help("compute the new value and store it with `=`"),
                    );
                    return;
                }
                return self.store(base, items, value, target.span, span);
            }
            ast::ExprKind::Name(name) => name,
            _ => {
                self.diagnostics.push(
                    Diagnostic::new(Code::AssignToLet, target.span, "this cannot be assigned")
                        .label("not a variable")
                        .help("assign to a `var` or store to an output tensor: `o[...] = value;`"),
                );
                return;
            }
        };
        let Some(id) = self.assignable(name, target.span) else {
            let _ = self.values(value, &[]);
            return;
        };
        let elem = self.kernel.var(id).ty.elem();
        let value = match op {
            None => self.expr(value, Some(elem)),
            Some(op) => {
                let at = Span { start: target.span.end, end: value.span.start };
                self.binary_expr(op, at, [target, value], Some(elem), span)
            }
        };
        let Some(value) = value else { return };
        if self.keeps_type(id, &value, span).is_some() {
            for region in &mut self.regions {
                if id < region.first {
                    region.assigned.insert(id);
                }
            }
            self.emit(StmtKind::Assign(id, value), span);
        }
    }

    fn assignable(&mut self, name: &str, span: Span) -> Option<VarId> {
        let Some((entity, declared)) = self.lookup(name).cloned() else {
            return self.unknown_name(name, span);
        };
        let (what, help) = match entity {
            Entity::Bad => return None,
            Entity::Var(id) if self.kernel.var(id).mutable => {
                if let Some(outside) = self.regions.iter().find(|r| id < r.first).and_then(|r| r.value) {
                    return self.error(
                        Diagnostic::new(
                            Code::AssignToLet,
                            span,
                            format!("`{name}` cannot be assigned inside an `if` that gives a value"),
                        )
                        .label("assigned here")
                        .note(outside, "a branch that gives a value")
                        .help("let the branches give the new value: `x = if c { a } else { b };`"),
                    );
                }
                return Some(id);
            }
            Entity::Var(_) => {
                ("declared with `let`", format!("declare it with `var {name} = ...;` if it has to change"))
            }
            Entity::Param(id) if matches!(self.kernel.param(id).kind, ParamKind::Tensor { .. }) => {
                ("a tensor", format!("store to a part of it: `{name}[start :+ length] = ...;`"))
            }
            Entity::Param(_) => ("a parameter", "copy it into a `var` first".to_owned()),
            Entity::Dim(_) => ("a dimension", "copy it into a `var` first".to_owned()),
            Entity::Type(_) => ("a type", "assign to a `var`".to_owned()),
            Entity::Const(..) => ("a constant", "copy it into a `var` first".to_owned()),
        };
        self.error(
            Diagnostic::new(Code::AssignToLet, span, format!("`{name}` cannot be assigned: it is {what}"))
                .label("assigned here")
                .note(declared, "declared here")
                .help(help),
        )
    }

    /// Demands the type and shape that the variable has.
    fn keeps_type(&mut self, id: VarId, value: &Expr, span: Span) -> Option<()> {
        let var = self.kernel.var(id).clone();
        let (wanted, found) = (self.ty_text(&var.ty), self.ty_text(&value.ty));
        let mut notes = vec![(var.span, format!("`{}` is {wanted} from here on", var.name))];
        if value.span != span {
            notes.extend(self.origin(value));
        }
        let what = format!("`{}` keeps its shape", var.name);
        let mut help = String::new();
        if value.ty.rank() != var.ty.rank() {
            help = if value.ty.is_scalar() {
                let (elem, shape) = (self.elem_text(var.ty.elem()), self.shape_text(var.ty.shape()));
                format!("spread the scalar: `full(x, {elem}, {shape})`")
            } else {
                "declare another variable for it".to_owned()
            };
        } else if value.ty.elem() != var.ty.elem() {
            help = format!("convert the new value: `cast(x, {})`", self.elem_text(var.ty.elem()));
        } else if let Err((i, same)) = self.same_shape(value.ty.shape(), var.ty.shape(), &what, span, &notes)
        {
            help = self.lengths_help(
                &value.ty.shape()[i],
                &var.ty.shape()[i],
                same,
                "a variable keeps its shape; declare another one",
            );
        }
        if help.is_empty() {
            return Some(());
        }
        let d = Diagnostic::new(
            Code::VarType,
            span,
            format!("`{}` is {wanted}; it cannot become {found}", var.name),
        )
        .label(format!("assigns {found}"))
        .help(help);
        self.error(with_notes(d, notes))
    }

    fn if_stmt(&mut self, i: &ast::If) {
        let cond = self.condition(&i.cond, "the condition of an `if`");
        let constant = cond.as_ref().and_then(|c| c.constant.as_deref().cloned());
        let run = |c: &mut Self, block: Option<&ast::Block>, when: bool| {
            let guard = constant.clone().map(|cond| (cond, when));
            c.region(guard, None, |c| {
                if let Some(block) = block {
                    c.unit_block(block);
                }
                Some(())
            })
        };
        let (then, _, mut carried) = run(self, Some(&i.then), true);
        let (otherwise, _, more) = run(self, i.otherwise.as_ref(), false);
        carried.extend(more);
        carried.sort();
        carried.dedup();
        let Some(cond) = cond else { return };
        let block = |stmts| Block { stmts, values: Vec::new() };
        let node = If { cond, results: Vec::new(), then: block(then), otherwise: block(otherwise), carried };
        self.emit(StmtKind::If(Box::new(node)), i.span);
    }

    fn for_stmt(&mut self, f: &ast::For, span: Span) {
        let one = ast::Expr { kind: ast::ExprKind::Int(1), span: f.hi.span, depth: 1 };
        let step = f.step.as_ref().unwrap_or(&one);
        let range =
            self.operands(&[&f.lo, &f.hi, step], None, "the bounds and step", f.lo.span.to(f.hi.span));
        let range = range.and_then(|r| self.loop_range(r));
        let first = self.kernel.vars.len();
        let (body, id, carried) = self.region(None, None, |c| {
            let id = match &range {
                Some(r) => {
                    let mut counter = r[0].clone();
                    counter.constant = None;
                    let id = c.new_var(&f.var.text, &counter, false, f.var.span);
                    c.declare(&f.var, Entity::Var(id));
                    Some(id)
                }
                None => {
                    c.declare(&f.var, Entity::Bad);
                    None
                }
            };
            c.unit_block(&f.body);
            id
        });
        debug_assert!(carried.iter().all(|v| v.index() < first));
        let (Some(range), Some(var)) = (range, id) else { return };
        let mut range = range.into_iter();
        if let (Some(lo), Some(hi), Some(step)) = (range.next(), range.next(), range.next()) {
            let node = For { var, lo, hi, step, unordered: f.unordered, body, carried };
            self.emit(StmtKind::For(Box::new(node)), span);
        }
    }

    /// Integer scalars, the step a constant that is not 0.
    fn loop_range(&mut self, range: Vec<Expr>) -> Option<Vec<Expr>> {
        for e in &range {
            let int = self.counterexample(e.ty.elem(), Elem::is_int).is_none();
            if !int || !e.ty.is_scalar() {
                let found = self.ty_text(&e.ty);
                return self.error(
                    Diagnostic::new(Code::OperandType, e.span, "a loop counts single integers")
                        .label(format!("this is {found}"))
                        .help("bounds and step are integers of one type, such as i32"),
                );
            }
        }
        let step = &range[2];
        let zero = match (&step.constant, &step.kind) {
            (Some(c), _) => c.as_int().map(|v| v == 0),
            (None, ExprKind::Literal(Literal::Int(v))) => Some(*v == 0),
            (None, _) => {
                return self.error(
                    Diagnostic::new(Code::NotConst, step.span, "the step of a loop must be a constant")
                        .label("known only when the kernel runs")
                        .help("count in steps of 1 and multiply inside the loop"),
                );
            }
        };
        match (zero, step.constant.as_deref().cloned()) {
            (Some(true), _) => {
                return self.error(
                    Diagnostic::new(Code::TileLength, step.span, "the step of a loop cannot be 0")
                        .label("the loop would not end")
                        .help("a loop without `step` counts by 1"),
                );
            }
            (None, Some(c)) => self.oblige(ObligationKind::Step(c), step.span, Vec::new()),
            _ => {}
        }
        Some(range)
    }
}

/// `1 value`, `2 values`
pub(super) fn count(n: usize, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}
