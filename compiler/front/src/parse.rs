//! Tokens to syntax tree: cuts the file into items, runs the LR parser on each, words its errors.

use lalrpop_util::{ErrorRecovery, ParseError, lalrpop_mod};

use crate::ast::{Block, Expr, ExprKind, File, IndexKind, Item, Stmt, StmtKind};
use crate::codes::Code;
use crate::diagnostic::Diagnostic;
use crate::source::{Source, Span};
use crate::token::{self, Token};

lalrpop_mod!(
    #[allow(clippy::all, clippy::pedantic, missing_docs, unreachable_pub, unused, reason = "generated")]
    grammar
);

/// The most levels of nesting, of brackets and of the tree.
pub(crate) const MAX_DEPTH: u32 = 100;

/// The most syntax errors that are reported for one item.
const MAX_ERRORS: usize = 100;

/// Builds nodes, and refuses those that are nested too deeply: every later step may recurse.
#[derive(Default)]
pub(crate) struct Build {
    too_deep: Option<Span>,
}

impl Build {
    pub(crate) fn expr(&mut self, kind: ExprKind, span: Span) -> Expr {
        let depth = 1 + match &kind {
            ExprKind::Unary(_, e) => e.depth,
            ExprKind::Binary(_, _, a, b) => a.depth.max(b.depth),
            ExprKind::Index(e, items) => items.iter().fold(e.depth, |d, i| {
                d.max(match &i.kind {
                    IndexKind::At(e) => e.depth,
                    IndexKind::Slice(a, n) => a.depth.max(n.depth),
                    IndexKind::Full | IndexKind::NewAxis => 0,
                })
            }),
            ExprKind::Call(e, args) => args.iter().fold(e.depth, |d, a| d.max(a.value.depth)),
            ExprKind::Tuple(all) | ExprKind::List(all) => max(all.iter().map(|e| e.depth)),
            ExprKind::If(i) => if_depth(i),
            _ => 0,
        };
        let kind = if self.fits(depth, span) { kind } else { ExprKind::Error };
        Expr { depth: if matches!(kind, ExprKind::Error) { 1 } else { depth }, kind, span }
    }

    pub(crate) fn stmt(&mut self, kind: StmtKind, span: Span) -> Stmt {
        let depth = 1 + match &kind {
            StmtKind::Let { value, .. } => value.depth,
            StmtKind::Assign { target, value, .. } => target.depth.max(value.depth),
            StmtKind::For(f) => {
                let step = f.step.as_ref().map_or(0, |e| e.depth);
                f.lo.depth.max(f.hi.depth).max(step).max(f.body.depth)
            }
            StmtKind::If(i) => if_depth(i),
            StmtKind::StaticAssert { cond, .. } => cond.depth,
            StmtKind::Expr(e) => e.depth,
            StmtKind::Error => 0,
        };
        let kind = if self.fits(depth, span) { kind } else { StmtKind::Error };
        Stmt { depth: if matches!(kind, StmtKind::Error) { 1 } else { depth }, kind, span }
    }

    pub(crate) fn block(&mut self, stmts: Vec<Stmt>, tail: Option<Expr>, span: Span) -> Block {
        let depth = max(stmts.iter().map(|s| s.depth)).max(tail.as_ref().map_or(0, |e| e.depth));
        Block { stmts, tail: tail.map(Box::new), span, depth }
    }

    fn fits(&mut self, depth: u32, span: Span) -> bool {
        let fits = depth <= MAX_DEPTH;
        if !fits && self.too_deep.is_none() {
            self.too_deep = Some(span);
        }
        fits
    }
}

fn if_depth(i: &crate::ast::If) -> u32 {
    let otherwise = i.otherwise.as_ref().map_or(0, |b| b.depth);
    i.cond.depth.max(i.then.depth).max(otherwise)
}

fn max(depths: impl Iterator<Item = u32>) -> u32 {
    depths.max().unwrap_or(0)
}

fn too_deep(span: Span) -> Diagnostic {
    Diagnostic::new(Code::TooDeep, span, format!("nested more than {MAX_DEPTH} levels deep"))
        .label("too deep")
        .help("give parts of it names with `let`")
}

/// A parsed file. Items with syntax errors are not in it.
#[derive(Debug, Default)]
pub(crate) struct Parsed {
    pub(crate) file: File,
    /// Names of items that could not be read: uses of them are no further errors.
    pub(crate) broken: Vec<String>,
    pub(crate) diagnostics: Vec<Diagnostic>,
}

type Tokens<'a, 's> = &'a [(Token<'s>, Span)];

/// Parses a file. Every item is read, whatever is wrong with the others.
pub(crate) fn parse(source: &Source) -> Parsed {
    let (tokens, errors) = token::lex(source);
    let mut parsed = Parsed { diagnostics: errors, ..Parsed::default() };
    let lex_errors: Vec<Span> = parsed.diagnostics.iter().map(|d| d.span).collect();
    let parser = grammar::ItemParser::new();
    let is_start = |t: &Token<'_>| matches!(t, Token::Kernel | Token::Fn);
    let mut starts: Vec<usize> = (0..tokens.len()).filter(|&i| is_start(&tokens[i].0)).collect();
    let first = starts.first().copied().unwrap_or(tokens.len());
    if let Some((token, span)) = tokens[..first].iter().find(|(t, _)| !matches!(t, Token::Doc(_))) {
        let mut d = Diagnostic::new(
            Code::Syntax,
            *span,
            format!("expected `kernel` or `fn`, found {}", describe(token, source.slice(*span))),
        )
        .label("a file is made of kernels and functions");
        if let Token::Reserved(word) = token {
            d = reserved(word, *span);
        }
        parsed.diagnostics.push(d);
    } else if first == tokens.len() && parsed.diagnostics.is_empty() {
        parsed.diagnostics.push(
            Diagnostic::new(Code::EmptyFile, Span::default(), "there is no kernel in this file")
                .label("nothing but comments and blanks")
                .help("a program has at least one `kernel name(...) grid (...) { ... }`"),
        );
    }
    starts.push(tokens.len());
    for range in starts.windows(2) {
        let (docs, end) = (docs_before(&tokens, range[0]), range[1]);
        let item: Vec<(Token<'_>, Span)> =
            tokens[range[0]..end].iter().filter(|(t, _)| !matches!(t, Token::Doc(_))).copied().collect();
        let end_offset = tokens.get(end).map_or(source.text().len(), |(_, s)| s.start as usize);
        let before = parsed.diagnostics.len();
        let tree = parse_item(&parser, source, &item, &mut parsed.diagnostics);
        let from = item.first().map_or(0, |(_, s)| s.start as usize);
        let lexed = lex_errors.iter().any(|s| (from..end_offset).contains(&(s.start as usize)));
        if lexed {
            // What the lexer dropped makes the parser complain about its neighbours.
            parsed.diagnostics.truncate(before);
        }
        match tree {
            Some(mut tree) if parsed.diagnostics.len() == before && !lexed => {
                match &mut tree {
                    Item::Kernel(k) => k.doc = docs,
                    Item::Function(f) => f.doc = docs,
                }
                parsed.file.items.push(tree);
            }
            _ => {
                if let Some((Token::Ident(name), _)) = item.get(1) {
                    parsed.broken.push((*name).to_owned());
                }
            }
        }
    }
    parsed
}

/// The doc comments right before a token.
fn docs_before(tokens: Tokens<'_, '_>, at: usize) -> String {
    let docs: Vec<&str> =
        tokens[..at]
            .iter()
            .rev()
            .map_while(|(t, _)| {
                if let Token::Doc(text) = t { Some(text.strip_prefix(' ').unwrap_or(text)) } else { None }
            })
            .collect();
    docs.into_iter().rev().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

fn parse_item(
    parser: &grammar::ItemParser,
    source: &Source,
    tokens: Tokens<'_, '_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Item> {
    if let Err(d) = brackets(tokens) {
        diagnostics.push(*d);
        return None;
    }
    let words: Vec<Diagnostic> = tokens
        .iter()
        .filter_map(|(t, s)| if let Token::Reserved(word) = t { Some(reserved(word, *s)) } else { None })
        .collect();
    if !words.is_empty() {
        diagnostics.extend(words);
        return None;
    }
    let mut build = Build::default();
    let mut recovered: Vec<ErrorRecovery<usize, Token<'_>, ()>> = Vec::new();
    let stream = tokens.iter().map(|&(t, s)| Ok((s.range().start, t, s.range().end)));
    let result = parser.parse(&mut build, &mut recovered, stream);
    for e in recovered.iter().take(MAX_ERRORS) {
        diagnostics.push(syntax_error(&e.error, source, tokens));
    }
    if let Some(span) = build.too_deep {
        diagnostics.push(too_deep(span));
    }
    match result {
        Ok(item) => Some(item),
        // After a recovered error this one is most likely its consequence.
        Err(_) if !recovered.is_empty() => None,
        Err(e) => {
            diagnostics.push(syntax_error(&e, source, tokens));
            None
        }
    }
}

/// Checks that brackets pair up and are not nested too deeply.
fn brackets(tokens: Tokens<'_, '_>) -> Result<(), Box<Diagnostic>> {
    let mut open: Vec<(&'static str, &'static str, Span)> = Vec::new();
    for (token, span) in tokens {
        let (own, partner) = match token {
            Token::LParen => ("(", ")"),
            Token::LBracket => ("[", "]"),
            Token::LBrace => ("{", "}"),
            Token::RParen | Token::RBracket | Token::RBrace => {
                let found = match token {
                    Token::RParen => ")",
                    Token::RBracket => "]",
                    _ => "}",
                };
                match open.pop() {
                    Some((_, partner, _)) if partner == found => {}
                    Some((own, partner, at)) => {
                        return Err(Box::new(
                            Diagnostic::new(
                                Code::Syntax,
                                *span,
                                format!("this `{own}` is closed by `{found}`"),
                            )
                            .label(format!("expected `{partner}`"))
                            .note(at, format!("`{own}` opened here"))
                            .help(format!("write `{partner}`, or close what is open between the two")),
                        ));
                    }
                    None => {
                        return Err(Box::new(
                            Diagnostic::new(Code::Syntax, *span, format!("this `{found}` closes nothing"))
                                .label("nothing is open here")
                                .help("remove it, or look for a bracket closed too early above"),
                        ));
                    }
                }
                continue;
            }
            _ => continue,
        };
        open.push((own, partner, *span));
        if open.len() > MAX_DEPTH as usize {
            return Err(Box::new(too_deep(*span)));
        }
    }
    match open.last() {
        None => Ok(()),
        Some((own, partner, span)) => Err(Box::new(
            Diagnostic::new(Code::Syntax, *span, format!("this `{own}` is never closed"))
                .label("opened here")
                .help(format!("add the missing `{partner}`")),
        )),
    }
}

fn reserved(word: &str, span: Span) -> Diagnostic {
    let help = match word {
        "while" | "break" | "continue" => {
            "loops are `for i in a .. b`; mask what must not happen with `select` or `if`"
        }
        "return" => "a function's result is the expression at its end, without `;`",
        "assert" => "conditions on constants: `static_assert`; on dimensions and scalars: `where`",
        _ => "it cannot be a name either; choose another one",
    };
    Diagnostic::new(Code::Reserved, span, format!("`{word}` is reserved for a later version"))
        .label("not available yet")
        .help(help)
}

fn syntax_error(
    error: &ParseError<usize, Token<'_>, ()>,
    source: &Source,
    tokens: Tokens<'_, '_>,
) -> Diagnostic {
    let (found, span, expected) = match error {
        ParseError::UnrecognizedToken { token: (l, t, r), expected } => {
            (Some(*t), Span::new(*l, *r), expected.as_slice())
        }
        ParseError::ExtraToken { token: (l, t, r) } => (Some(*t), Span::new(*l, *r), &[][..]),
        ParseError::UnrecognizedEof { location, expected } => {
            (None, Span::new(location.saturating_sub(1), *location), expected.as_slice())
        }
        ParseError::InvalidToken { location } => (None, Span::new(*location, *location), &[][..]),
        ParseError::User { .. } => (None, Span::default(), &[][..]),
    };
    let before = tokens.partition_point(|(_, s)| s.end <= span.start);
    let previous = before.checked_sub(1).and_then(|i| tokens.get(i));
    let shown = found.map_or("end".to_owned(), |t| describe(&t, source.slice(span)));
    let can = |sign: &str| expected.iter().any(|e| e.trim_matches('"') == sign);
    let starts_statement = found.is_some_and(|t| {
        matches!(
            t,
            Token::Let
                | Token::Var
                | Token::For
                | Token::If
                | Token::Ident(_)
                | Token::RBrace
                | Token::StaticAssert
        )
    });
    if let (true, true, Some((_, at))) = (can(";"), starts_statement, previous) {
        let end = at.range().end;
        return Diagnostic::new(Code::Syntax, Span::new(end.saturating_sub(1), end), "missing `;`")
            .label("the statement ends here")
            .note(span, format!("{shown} starts the next one"))
            .help("end the statement with `;`");
    }
    let mut d =
        Diagnostic::new(Code::Syntax, span, format!("unexpected {shown}")).label(expectation(expected));
    let help = match found {
        Some(Token::EqEq | Token::NotEq | Token::Lt | Token::Le | Token::Gt | Token::Ge) => {
            "comparisons do not chain: write `a < b && b < c`; generics are in brackets: `name[T]`"
        }
        Some(Token::Assign) => "comparison is `==`; an assignment is a statement of its own",
        Some(Token::If) => "an `if` inside an expression needs parentheses: `(if c { a } else { b }) + 1`",
        Some(Token::None) => "`None` is only for new axes: `x[:, None]`",
        Some(Token::Str(_)) => "strings are only for the message of `static_assert`",
        Some(Token::LBrace) if can("grid") => "a kernel has a `grid (...)` before its body",
        Some(Token::Colon) if can(":+") => "a slice is `start :+ length`",
        Some(t) if is_keyword(&t, source.slice(span)) && can("name") => {
            "this word belongs to the language; choose another name"
        }
        None => "the text ends too early",
        _ => return d,
    };
    d.help = Some(help.to_owned());
    d
}

/// "expected ..." from the parser's list of terminals, shortened to what helps.
fn expectation(expected: &[String]) -> String {
    const OPERAND: &[&str] =
        &["integer", "float", "name", "true", "false", "(", "[", "-", "!", "~", "if", "string"];
    const OPERATOR: &[&str] = &[
        "+", "*", "/", "%", "==", "!=", "<", "<=", ">", ">=", "&&", "||", "&", "|", "^", "<<", ">>", "-",
        "[", "(",
    ];
    let names: Vec<&str> = expected.iter().map(|e| e.trim_matches('"')).collect();
    let mut parts: Vec<String> = Vec::new();
    let expression = names.contains(&"integer");
    let operator = !expression && names.contains(&"*");
    if expression {
        parts.push("an expression".to_owned());
    } else if operator {
        parts.push("an operator".to_owned());
    }
    for name in names {
        if (expression && OPERAND.contains(&name)) || (operator && OPERATOR.contains(&name)) {
            continue;
        }
        parts.push(match name {
            "name" => "a name".to_owned(),
            "integer" | "float" => "a number".to_owned(),
            "string" => "a message in quotes".to_owned(),
            _ => format!("`{name}`"),
        });
    }
    match parts.len() {
        0 => "not expected here".to_owned(),
        n if n > 8 => "this does not fit here".to_owned(),
        1 => format!("expected {}", parts[0]),
        n => format!("expected {} or {}", parts[..n - 1].join(", "), parts[n - 1]),
    }
}

fn describe(token: &Token<'_>, text: &str) -> String {
    match token {
        Token::Ident(name) => format!("name `{name}`"),
        Token::Int(_) | Token::Float(_) => format!("number {text}"),
        Token::Str(_) => "string".to_owned(),
        _ => format!("`{text}`"),
    }
}

fn is_keyword(token: &Token<'_>, text: &str) -> bool {
    !matches!(token, Token::Ident(_)) && text.chars().all(|c| c.is_ascii_alphabetic() || c == '_')
}
