//! Statements: variables become values, loops carry them, branches return them.

use super::{Import, ir_elem};
use flashc_front::hir::{Block as HirBlock, Expr, For, If, IndexItem, ParamId, Stmt, StmtKind, VarId};
use flashc_front::types::Elem as Lang;
use flashc_ir::ops::{BinaryOp as B, Predicate};
use flashc_ir::{Block, Elem, Kind, Type, ValueId};

impl Import<'_> {
    pub(super) fn stmts(&mut self, stmts: &[Stmt]) {
        for s in stmts {
            match &s.kind {
                StmtKind::Let(var, e) | StmtKind::Assign(var, e) => {
                    let v = self.expr(e);
                    self.set(*var, v);
                }
                StmtKind::For(f) => self.for_loop(s, f),
                StmtKind::If(i) => self.branch(s, i),
                StmtKind::Store { tensor, index, value } => self.store(s, *tensor, index, value),
            }
        }
    }

    fn set(&mut self, var: VarId, v: ValueId) {
        if let Some(slot) = self.env.get_mut(var.index()) {
            *slot = Some(v);
        }
    }

    fn get(&mut self, var: VarId) -> ValueId {
        self.var(var).unwrap_or_else(|| {
            let declared = &self.kernel.vars[var.index()];
            let ty = self.ty(&declared.ty);
            self.unsupported(
                declared.span,
                format!("`{}` has no value here", declared.name),
                "this is a fault of the compiler: please report it",
            );
            self.placeholder(&ty)
        })
    }

    fn store(&mut self, s: &Stmt, tensor: ParamId, index: &[IndexItem], value: &Expr) {
        let v = self.expr(value);
        let Some(mut place) = self.place(tensor, index) else { return };
        self.at(s.span);
        place.operands.push(v);
        let kind = if place.axes.is_empty() { Kind::StoreScalar } else { Kind::Store { axes: place.axes } };
        self.emit.effect(kind, &place.operands);
    }

    /// The IR's loop counts upwards in i32, and always by 1 here: adding another step could pass the largest i32.
    fn for_loop(&mut self, s: &Stmt, f: &For) {
        let counter = self.bound.elem(&self.kernel.vars[f.var.index()].ty.elem());
        if matches!(counter, Lang::U32 | Lang::I64 | Lang::U64) {
            let help = "count in i32 and cast inside the loop";
            return self.unsupported(s.span, format!("a loop that counts in {counter}"), help);
        }
        let (lo, hi) = (self.expr(&f.lo), self.expr(&f.hi));
        let step = self.expr(&f.step);
        self.at(s.span);
        let [lo, hi, step] = [lo, hi, step].map(|v| self.emit.convert(counter, Lang::I32, v));
        let (zero, one) = (self.emit.int(0, Elem::I32), self.emit.int(1, Elem::I32));
        let ones = self.emit.int(-1, Elem::I32);
        let by = self.emit.known(step).unwrap_or(1);
        let (first, last) = match by {
            1 => (lo, hi),
            // The complement turns the order of numbers round.
            -1 => (self.emit.binary(B::XorI, lo, ones), self.emit.binary(B::XorI, hi, ones)),
            _ => (zero, self.rounds(lo, hi, by)),
        };
        let inits: Vec<_> = f.carried.iter().map(|&v| self.get(v)).collect();
        let types: Vec<_> = inits.iter().map(|&v| self.emit.ty(v).clone()).collect();
        let args = self.emit.begin(&[&[Type::I32], types.as_slice()].concat());
        let counted = match by {
            1 => args[0],
            -1 => self.emit.binary(B::XorI, args[0], ones),
            _ => {
                let moved = self.emit.binary(B::MulI, args[0], step);
                self.emit.binary(B::AddI, lo, moved)
            }
        };
        let counted = self.emit.convert(Lang::I32, counter, counted);
        self.set(f.var, counted);
        for (&var, &v) in f.carried.iter().zip(&args[1..]) {
            self.set(var, v);
        }
        self.stmts(&f.body);
        self.at(s.span);
        let yields: Vec<_> = f.carried.iter().map(|&v| self.get(v)).collect();
        let body = self.emit.end(&yields);
        let operands = [&[first, last, one], inits.as_slice()].concat();
        let kind = Kind::For { unordered: f.unordered };
        let results = self.emit.with_regions(kind, &operands, &types, vec![body]);
        for (&var, v) in f.carried.iter().zip(results) {
            self.set(var, v);
        }
    }

    /// How often a loop runs that steps by more than 1, up or down.
    fn rounds(&mut self, lo: ValueId, hi: ValueId, step: i64) -> ValueId {
        let (zero, one) = (self.emit.int(0, Elem::I32), self.emit.int(1, Elem::I32));
        let (low, high) = if step > 0 { (lo, hi) } else { (hi, lo) };
        // The distance is below 2^32, so it is right as an unsigned number.
        let distance = self.emit.binary(B::SubI, high, low);
        let last = self.emit.binary(B::SubI, distance, one);
        let by = self.emit.int(step.wrapping_abs(), Elem::I32);
        let whole = self.emit.binary(B::DivUI, last, by);
        let rounds = self.emit.binary(B::AddI, whole, one);
        let any = self.emit.compare(Predicate::Slt, low, high);
        self.emit.select(any, rounds, zero)
    }

    fn branch(&mut self, s: &Stmt, i: &If) {
        let cond = self.expr(&i.cond);
        if let Some(taken) = self.emit.known(cond) {
            let block = if taken != 0 { &i.then } else { &i.otherwise };
            self.stmts(&block.stmts);
            for (&var, e) in i.results.iter().zip(&block.values) {
                let v = self.expr(e);
                self.set(var, v);
            }
            return;
        }
        let before: Vec<_> = i.carried.iter().map(|&v| self.get(v)).collect();
        let targets: Vec<VarId> = i.results.iter().chain(&i.carried).copied().collect();
        let types: Vec<Type> = targets.iter().map(|v| self.var_type(*v)).collect();
        let mut regions = vec![];
        for block in [&i.then, &i.otherwise] {
            for (&var, &v) in i.carried.iter().zip(&before) {
                self.set(var, v);
            }
            regions.push(self.region(s, block, &i.carried));
        }
        self.at(s.span);
        let results = self.emit.with_regions(Kind::If, &[cond], &types, regions);
        for (var, v) in targets.into_iter().zip(results) {
            self.set(var, v);
        }
    }

    fn region(&mut self, s: &Stmt, block: &HirBlock, carried: &[VarId]) -> Block {
        self.emit.begin(&[]);
        self.stmts(&block.stmts);
        let mut yields: Vec<_> = block.values.iter().map(|e| self.expr(e)).collect();
        yields.extend(carried.iter().map(|&v| self.get(v)));
        self.at(s.span);
        self.emit.end(&yields)
    }

    fn var_type(&self, var: VarId) -> Type {
        let ty = &self.kernel.vars[var.index()].ty;
        super::tile_or_scalar(&self.shape(ty), ir_elem(self.elem(ty)))
    }
}
