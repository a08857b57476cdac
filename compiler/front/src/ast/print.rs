//! The syntax tree as text: `--emit ast`. Looks like source, with every operation in parentheses.

use std::fmt::Write;

use super::*;

impl File {
    /// All items as text.
    pub fn dump(&self) -> String {
        let mut out = String::new();
        for item in &self.items {
            match item {
                Item::Kernel(k) => {
                    docs(&k.doc, &mut out);
                    let _ = writeln!(
                        out,
                        "kernel {}{}({})",
                        k.name.text,
                        generics(&k.generics),
                        params(&k.params)
                    );
                    if !k.dims.is_empty() {
                        let _ = writeln!(out, "dims {}", join(&k.dims, |d| d.text.clone()));
                    }
                    if !k.wheres.is_empty() {
                        let _ = writeln!(out, "where {}", join(&k.wheres, expr));
                    }
                    let _ = writeln!(out, "grid ({})", join(&k.grid, expr));
                    let _ = writeln!(out, "{}", block(&k.body, 0));
                }
                Item::Function(f) => {
                    docs(&f.doc, &mut out);
                    let head = format!("fn {}{}({})", f.name.text, generics(&f.generics), params(&f.params));
                    let _ = writeln!(out, "{head} -> ({}) {}", join(&f.results, ty), block(&f.body, 0));
                }
            }
        }
        out
    }
}

fn docs(doc: &str, out: &mut String) {
    for line in doc.lines() {
        let _ = writeln!(out, "/// {line}");
    }
}

fn generics(all: &[Generic]) -> String {
    if all.is_empty() {
        return String::new();
    }
    let text = join(all, |g| {
        let kind = match &g.kind {
            GenericKind::Type(names) => names.iter().map(|n| n.text.as_str()).collect::<Vec<_>>().join(" | "),
            GenericKind::Const(None) => "const".to_owned(),
            GenericKind::Const(Some(ty)) => format!("const {}", ty.text),
        };
        let default = g.default.as_ref().map(|e| format!(" = {}", expr(e))).unwrap_or_default();
        format!("{}: {kind}{default}", g.name.text)
    });
    format!("[{text}]")
}

fn params(all: &[Param]) -> String {
    join(all, |p| format!("{}: {}{}", p.name.text, if p.out.is_some() { "out " } else { "" }, ty(&p.ty)))
}

fn ty(t: &TypeExpr) -> String {
    let word = match t.kind {
        TypeKind::Scalar => return t.elem.text.clone(),
        TypeKind::Tile => "tile",
        TypeKind::Tensor => "tensor",
    };
    format!("{word}({})[{}]", t.elem.text, join(&t.dims, expr))
}

fn block(b: &Block, level: usize) -> String {
    let pad = "    ".repeat(level + 1);
    let mut out = "{\n".to_owned();
    for s in &b.stmts {
        let _ = writeln!(out, "{pad}{}", stmt(s, level + 1));
    }
    if let Some(tail) = &b.tail {
        let _ = writeln!(out, "{pad}{}", expr(tail));
    }
    out + &"    ".repeat(level) + "}"
}

fn stmt(s: &Stmt, level: usize) -> String {
    match &s.kind {
        StmtKind::Let { mutable, names, tuple, value } => {
            let word = if *mutable { "var" } else { "let" };
            let names = join(names, |n| n.text.clone());
            let names = if *tuple { format!("({names})") } else { names };
            format!("{word} {names} = {};", expr(value))
        }
        StmtKind::Assign { target, op, value } => {
            format!("{} {}= {};", expr(target), op.map_or("", BinaryOp::sign), expr(value))
        }
        StmtKind::For(f) => {
            let unordered = if f.unordered { "unordered " } else { "" };
            let step = f.step.as_ref().map(|e| format!(" step {}", expr(e))).unwrap_or_default();
            let range = format!("{} .. {}{step}", expr(&f.lo), expr(&f.hi));
            format!("for {unordered}{} in {range} {}", f.var.text, block(&f.body, level))
        }
        StmtKind::If(i) => if_text(i, level),
        StmtKind::StaticAssert { cond, message } => {
            let message = message.as_ref().map(|m| format!(", {m:?}")).unwrap_or_default();
            format!("static_assert({}{message});", expr(cond))
        }
        StmtKind::Expr(e) => format!("{};", expr(e)),
        StmtKind::Error => "<error>".to_owned(),
    }
}

fn if_text(i: &If, level: usize) -> String {
    let otherwise = i.otherwise.as_ref().map(|b| format!(" else {}", block(b, level))).unwrap_or_default();
    format!("if {} {}{otherwise}", expr(&i.cond), block(&i.then, level))
}

fn expr(e: &Expr) -> String {
    match &e.kind {
        ExprKind::Int(v) => v.to_string(),
        ExprKind::Float(v) => format!("{v:?}"),
        ExprKind::Bool(v) => v.to_string(),
        ExprKind::Name(name) => name.clone(),
        ExprKind::Unary(op, x) => format!("{}{}", op.sign(), expr(x)),
        ExprKind::Binary(op, _, a, b) => format!("({} {} {})", expr(a), op.sign(), expr(b)),
        ExprKind::Index(base, items) => {
            let items = join(items, |i| match &i.kind {
                IndexKind::At(e) => expr(e),
                IndexKind::Slice(a, n) => format!("{} :+ {}", expr(a), expr(n)),
                IndexKind::Full => ":".to_owned(),
                IndexKind::NewAxis => "None".to_owned(),
            });
            format!("{}[{items}]", expr(base))
        }
        ExprKind::Call(callee, args) => {
            let args = join(args, |a| match &a.keyword {
                Some(name) => format!("{} = {}", name.text, expr(&a.value)),
                None => expr(&a.value),
            });
            format!("{}({args})", expr(callee))
        }
        ExprKind::Tuple(items) => format!("({})", join(items, expr)),
        ExprKind::List(items) => format!("[{}]", join(items, expr)),
        ExprKind::If(i) => if_text(i, 0),
        ExprKind::Error => "<error>".to_owned(),
    }
}

fn join<T>(items: &[T], text: impl Fn(&T) -> String) -> String {
    items.iter().map(text).collect::<Vec<_>>().join(", ")
}
