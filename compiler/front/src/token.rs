//! Tokens: the text cut into words, numbers and signs.

use logos::{Lexer, Logos, Skip};

use crate::codes::Code;
use crate::diagnostic::Diagnostic;
use crate::source::{Source, Span};

/// Errors after which the lexer gives up on a file; it is no program then.
const MAX_LEX_ERRORS: usize = 50;

/// What the lexer can find wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LexError {
    /// No token starts like this.
    #[default]
    Unknown,
    /// `/*` without `*/`.
    OpenComment,
    /// `"` without `"` on the same line.
    OpenString,
    /// Digits that make no number.
    Number,
    /// An integer beyond 64 bits, or a float beyond f64.
    Huge,
}

/// A token.
#[derive(Logos, Clone, Copy, Debug, PartialEq)]
#[logos(error = LexError, skip r"[ \t\r\n\f]+", skip(r"//[^\n]*", allow_greedy = true))]
#[allow(missing_docs, reason = "the attributes say what each one is")]
#[rustfmt::skip]
pub enum Token<'s> {
    #[regex(r"///[^\n]*", |lex| &lex.slice()[3..], allow_greedy = true, priority = 20)] Doc(&'s str),
    #[token("/*", block_comment)] Comment,
    #[regex(r"[0-9][0-9_]*", int, priority = 9)]
    #[regex(r"0x[0-9a-fA-F_]+", int, priority = 9)]
    #[regex(r"0b[01_]+", int, priority = 9)] Int(u64),
    #[regex(r"[0-9][0-9_]*\.[0-9][0-9_]*([eE][+-]?[0-9]+)?", float, priority = 9)]
    #[regex(r"[0-9][0-9_]*[eE][+-]?[0-9]+", float, priority = 9)] Float(f64),
    #[regex(r"[0-9][0-9a-zA-Z_]*", malformed, priority = 3)] Malformed,
    #[regex(r#""[^"\n]*""#, |lex| lex.slice().trim_matches('"'))] Str(&'s str),
    #[regex(r#""[^"\n]*"#, open_string, priority = 1)] OpenStr,
    #[regex(r"[A-Za-z_][A-Za-z0-9_]*", priority = 2)] Ident(&'s str),
    #[token("while")] #[token("break")] #[token("continue")] #[token("return")] #[token("assert")] #[token("print")]
    #[token("operation")] #[token("scratch")] #[token("launch")] #[token("config")] #[token("import")]
    Reserved(&'s str),
    #[token("kernel")] Kernel, #[token("fn")] Fn, #[token("dims")] Dims, #[token("where")] Where, #[token("grid")] Grid,
    #[token("const")] Const, #[token("tensor")] Tensor, #[token("tile")] Tile, #[token("out")] Out,
    #[token("let")] Let, #[token("var")] Var, #[token("for")] For, #[token("unordered")] Unordered, #[token("in")] In,
    #[token("step")] Step, #[token("if")] If, #[token("else")] Else, #[token("static_assert")] StaticAssert,
    #[token("true")] True, #[token("false")] False, #[token("None")] None,
    #[token("(")] LParen, #[token(")")] RParen, #[token("[")] LBracket, #[token("]")] RBracket,
    #[token("{")] LBrace, #[token("}")] RBrace,
    #[token(",")] Comma, #[token(";")] Semi, #[token(":")] Colon, #[token(":+")] ColonPlus, #[token("..")] DotDot,
    #[token("->")] Arrow, #[token("=")] Assign,
    #[token("+=")] PlusAssign, #[token("-=")] MinusAssign, #[token("*=")] StarAssign, #[token("/=")] SlashAssign,
    #[token("%=")] PercentAssign,
    #[token("+")] Plus, #[token("-")] Minus, #[token("*")] Star, #[token("/")] Slash, #[token("%")] Percent,
    #[token("==")] EqEq, #[token("!=")] NotEq, #[token("<")] Lt, #[token("<=")] Le, #[token(">")] Gt, #[token(">=")] Ge,
    #[token("&&")] AndAnd, #[token("||")] OrOr, #[token("!")] Bang,
    #[token("&")] And, #[token("|")] Or, #[token("^")] Caret, #[token("~")] Tilde, #[token("<<")] Shl, #[token(">>")] Shr,
}

/// Comments nest. An open one takes the rest of the file.
fn block_comment<'s>(lex: &mut Lexer<'s, Token<'s>>) -> Result<Skip, LexError> {
    let bytes = lex.remainder().as_bytes();
    let (mut depth, mut i) = (1usize, 0);
    while i < bytes.len() {
        match bytes.get(i..i + 2) {
            Some(b"/*") => (depth, i) = (depth + 1, i + 2),
            Some(b"*/") => (depth, i) = (depth - 1, i + 2),
            _ => i += 1,
        }
        if depth == 0 {
            lex.bump(i);
            return Ok(Skip);
        }
    }
    lex.bump(bytes.len());
    Err(LexError::OpenComment)
}

fn malformed<'s>(_: &mut Lexer<'s, Token<'s>>) -> Result<(), LexError> {
    Err(LexError::Number)
}

fn open_string<'s>(_: &mut Lexer<'s, Token<'s>>) -> Result<(), LexError> {
    Err(LexError::OpenString)
}

fn int<'s>(lex: &mut Lexer<'s, Token<'s>>) -> Result<u64, LexError> {
    let text = lex.slice().replace('_', "");
    let (digits, radix) = match text.get(..2) {
        Some("0x") => (&text[2..], 16),
        Some("0b") => (&text[2..], 2),
        _ => (text.as_str(), 10),
    };
    if digits.is_empty() {
        return Err(LexError::Number);
    }
    u64::from_str_radix(digits, radix).map_err(|_| LexError::Huge)
}

fn float<'s>(lex: &mut Lexer<'s, Token<'s>>) -> Result<f64, LexError> {
    match lex.slice().replace('_', "").parse::<f64>() {
        Ok(v) if v.is_finite() => Ok(v),
        Ok(_) => Err(LexError::Huge),
        Err(_) => Err(LexError::Number),
    }
}

/// All tokens of a source with their places, doc comments among them, and what could not be read.
pub fn lex(source: &Source) -> (Vec<(Token<'_>, Span)>, Vec<Diagnostic>) {
    let (mut tokens, mut errors) = (Vec::new(), Vec::new());
    for (token, range) in Token::lexer(source.text()).spanned() {
        let span = Span::new(range.start, range.end);
        match token {
            Ok(token) => tokens.push((token, span)),
            Err(error) => {
                errors.push(lex_error(error, span, source));
                if errors.len() >= MAX_LEX_ERRORS {
                    break;
                }
            }
        }
    }
    (tokens, errors)
}

fn lex_error(error: LexError, span: Span, source: &Source) -> Diagnostic {
    let text = source.slice(span);
    let first_line =
        Span::new(span.range().start, span.range().start + text.lines().next().unwrap_or("").len());
    match error {
        LexError::Unknown => {
            let shown = text.chars().next().map_or_else(String::new, |c| {
                if c.is_control() { format!("{c:?}") } else { format!("`{c}`") }
            });
            let before = source.text().get(..span.range().start).and_then(|t| t.chars().last());
            let help = match text {
                "." if before.is_some_and(|c| c.is_ascii_digit()) => {
                    "a float has a digit after the point: `1.0`"
                }
                "." => "there are no methods or fields; a float has a digit before the point: `0.5`",
                "'" => "strings have double quotes",
                "@" => "there is no matrix product sign: write `dot(a, b)`",
                "?" => "there is no `?:`: write `if c { a } else { b }` or `select(c, a, b)`",
                "#" => "a comment starts with `//`",
                _ => "remove it; names are made of the letters a to z, digits and `_`",
            };
            Diagnostic::new(Code::UnknownCharacter, span, format!("{shown} means nothing here"))
                .label("not part of the language")
                .help(help)
        }
        LexError::OpenComment => Diagnostic::new(Code::Unterminated, first_line, "this comment never ends")
            .label("starts here")
            .help("close it with `*/`; comments nest, so each `/*` inside needs one too"),
        LexError::OpenString => Diagnostic::new(Code::Unterminated, first_line, "this string never ends")
            .label("starts here")
            .help("close it with `\"` on the same line"),
        LexError::Number => Diagnostic::new(Code::BadNumber, span, format!("`{text}` is no number"))
            .label("cannot be read")
            .help(
                "numbers look like 128, 0x80, 1.0 or 1e-5, without a suffix; names do not start with a digit",
            ),
        LexError::Huge => Diagnostic::new(Code::BadNumber, span, "this number is too large")
            .label("does not fit in 64 bits")
            .help("integers go up to 18446744073709551615, floats up to about 1.8e308; infinity is `inf`"),
    }
}

/// One line a token: line, column, kind, text.
pub fn dump_tokens(source: &Source) -> String {
    let mut out = String::new();
    for (token, span) in lex(source).0 {
        let (line, col) = source.line_col(span.start);
        let kind = format!("{token:?}");
        let kind = kind.split('(').next().unwrap_or("");
        out.push_str(&format!("{line}:{col} {kind} {}\n", source.slice(span).escape_debug()));
    }
    out
}
