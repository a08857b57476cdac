//! Diagnostics: what is wrong, where, and what to do; and their rendering as text.

use ariadne::{CharSet, Color, Config, IndexType, Label, Report, ReportKind};

use crate::codes::Code;
use crate::source::{Source, Span};

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Severity {
    /// There is no program.
    Error,
    /// There is one, perhaps not the one that was meant.
    Warning,
}

/// One finding about a source file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Which kind; `flashc explain` knows more about it.
    pub code: Code,
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong, in one line.
    pub message: String,
    /// Where.
    pub span: Span,
    /// What to say right there; may be empty.
    pub label: String,
    /// Other places that matter, such as where a shape comes from.
    pub notes: Vec<(Span, String)>,
    /// What to do.
    pub help: Option<String>,
}

impl Diagnostic {
    /// An error without labels or help.
    pub fn new(code: Code, span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            code,
            severity: Severity::Error,
            message: message.into(),
            span,
            label: String::new(),
            notes: Vec::new(),
            help: None,
        }
    }

    /// Sets the text at the primary span.
    pub fn label(mut self, text: impl Into<String>) -> Diagnostic {
        self.label = text.into();
        self
    }

    /// Adds a secondary label.
    pub fn note(mut self, span: Span, text: impl Into<String>) -> Diagnostic {
        self.notes.push((span, text.into()));
        self
    }

    /// Sets the help line.
    pub fn help(mut self, text: impl Into<String>) -> Diagnostic {
        self.help = Some(text.into());
        self
    }
}

/// More than this many are counted, not shown.
const MAX_SHOWN: usize = 100;

/// All diagnostics as text for a terminal or a file.
pub fn render(diagnostics: &[Diagnostic], source: &Source, color: bool) -> String {
    let mut out = Vec::new();
    let mut cache = (source.name(), ariadne::Source::from(source.text()));
    for d in diagnostics.iter().take(MAX_SHOWN) {
        if lines_are_short(d, source) {
            render_one(d, source, &mut cache, color, &mut out);
        } else {
            out.extend_from_slice(plain(d, source).as_bytes());
        }
    }
    if diagnostics.len() > MAX_SHOWN {
        out.extend_from_slice(format!("and {} more\n", diagnostics.len() - MAX_SHOWN).as_bytes());
    }
    let text = String::from_utf8_lossy(&out).into_owned();
    if color {
        return text;
    }
    // Without colours nothing needs the padding at the ends of lines.
    let mut lines: String = text.lines().map(|l| format!("{}\n", l.trim_end())).collect();
    if lines.trim().is_empty() {
        lines.clear();
    }
    lines
}

/// The longest line that is shown, in bytes.
const MAX_LINE: usize = 4000;

fn lines_are_short(d: &Diagnostic, source: &Source) -> bool {
    let text = source.text().as_bytes();
    std::iter::once(d.span).chain(d.notes.iter().map(|n| n.0)).all(|span| {
        let (start, end) = (span.range().start.min(text.len()), span.range().end.min(text.len()));
        let before = text[..start].iter().rev().take(MAX_LINE).take_while(|&&b| b != b'\n').count();
        let after = text[end..].iter().take(MAX_LINE).take_while(|&&b| b != b'\n').count();
        let lines_inside = source.slice(span).lines().map(str::len).max().unwrap_or(0);
        before + lines_inside + after < MAX_LINE
    })
}

/// Without the source, whose lines are too long.
fn plain(d: &Diagnostic, source: &Source) -> String {
    let (line, col) = source.line_col(d.span.start);
    let help = d.help.as_ref().map(|h| format!("Help: {h}\n")).unwrap_or_default();
    format!("[{}] {}:{line}:{col}: {} ({})\n{help}", d.code.name(), source.name(), d.message, d.label)
}

type Cache<'a> = (&'a str, ariadne::Source<&'a str>);

fn render_one<'a>(d: &Diagnostic, source: &'a Source, cache: &mut Cache<'a>, color: bool, out: &mut Vec<u8>) {
    let name = source.name();
    let (kind, tint) = match d.severity {
        Severity::Error => (ReportKind::Error, Color::Red),
        Severity::Warning => (ReportKind::Warning, Color::Yellow),
    };
    let clip = |s: Span| {
        let len = source.text().len();
        (name, s.range().start.min(len)..s.range().end.min(len))
    };
    let config = Config::default()
        .with_color(color)
        .with_index_type(IndexType::Byte)
        .with_char_set(if color { CharSet::Unicode } else { CharSet::Ascii });
    let mut report = Report::build(kind, clip(d.span))
        .with_config(config)
        .with_code(d.code.name())
        .with_message(&d.message);
    let primary = if d.label.is_empty() { "here" } else { &d.label };
    // In order of place, or ariadne shows the same lines twice. Notes at one place are one label.
    let mut labels = vec![(d.span, primary.to_owned(), tint)];
    for (span, text) in &d.notes {
        match labels.iter_mut().find(|l| l.0 == *span) {
            Some(label) if label.1.contains(text.as_str()) => {}
            Some(label) => label.1.push_str(&format!("; {text}")),
            None => labels.push((*span, text.clone(), Color::Blue)),
        }
    }
    labels.sort_by_key(|l| l.0);
    for (span, text, color) in labels {
        report.add_label(Label::new(clip(span)).with_message(text).with_color(color));
    }
    if let Some(help) = &d.help {
        report.set_help(help);
    }
    // Writing to memory cannot fail.
    let _ = report.finish().write(cache, out);
}
