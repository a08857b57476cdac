//! Source text and positions in it.

use crate::codes::Code;
use crate::diagnostic::Diagnostic;

/// The largest source file that is read, in bytes.
pub const MAX_SOURCE_BYTES: usize = 4 << 20;

/// A range of bytes of the source text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// The range `start..end`.
    pub fn new(start: usize, end: usize) -> Span {
        let clip = |x: usize| u32::try_from(x).unwrap_or(u32::MAX);
        Span { start: clip(start), end: clip(end.max(start)) }
    }

    /// The smallest range that holds both.
    pub fn to(self, other: Span) -> Span {
        Span { start: self.start.min(other.start), end: self.end.max(other.end) }
    }

    /// As a range of byte offsets.
    pub fn range(self) -> std::ops::Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// One source file: its name (for messages only; nothing is opened) and its text.
#[derive(Clone, Debug)]
pub struct Source {
    name: String,
    text: String,
    line_starts: Vec<u32>,
}

impl Source {
    /// A source from text. `analyze` reports a text over `MAX_SOURCE_BYTES`.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Source {
        let text = text.into();
        let starts =
            text.bytes().enumerate().filter(|&(_, b)| b == b'\n').map(|(i, _)| Span::new(i + 1, i + 1).start);
        let line_starts = std::iter::once(0).chain(starts).collect();
        Source { name: name.into(), text, line_starts }
    }

    /// A source from the bytes of a file: an error if they are too many or no UTF-8. The diagnostic's span is empty
    /// and at 0, so it can be rendered against `Source::new(name, "")`.
    pub fn from_bytes(name: impl Into<String>, bytes: Vec<u8>) -> Result<Source, Box<Diagnostic>> {
        let name = name.into();
        if bytes.len() > MAX_SOURCE_BYTES {
            return Err(Box::new(too_large(bytes.len(), Span::default())));
        }
        match String::from_utf8(bytes) {
            Ok(text) => Ok(Source::new(name, text)),
            Err(e) => {
                let at = e.utf8_error().valid_up_to();
                let bytes = e.as_bytes();
                let line = bytes[..at].iter().filter(|&&b| b == b'\n').count() + 1;
                let byte = bytes.get(at).copied().unwrap_or(0);
                Err(Box::new(
                    Diagnostic::new(
                        Code::InvalidUtf8,
                        Span::default(),
                        format!(
                            "this file is not UTF-8 text: byte 0x{byte:02x} in line {line} (offset {at})"
                        ),
                    )
                    .label("a program is UTF-8 text")
                    .help("save the file as UTF-8; if it is not a program, check the path"),
                ))
            }
        }
    }

    /// The name given to it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The whole text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The text of a span; empty if it is outside or cuts a character.
    pub fn slice(&self, span: Span) -> &str {
        self.text.get(span.range()).unwrap_or("")
    }

    /// Line and column (in characters) of a byte offset, both from 1.
    pub fn line_col(&self, offset: u32) -> (u32, u32) {
        let line = self.line_starts.partition_point(|&s| s <= offset).max(1);
        let start = self.line_starts[line - 1] as usize;
        let col = self.text.get(start..offset as usize).map_or(0, |s| s.chars().count());
        (line as u32, col as u32 + 1)
    }
}

/// The diagnostic for a source over the limit.
pub(crate) fn too_large(bytes: usize, span: Span) -> Diagnostic {
    Diagnostic::new(
        Code::FileTooLarge,
        span,
        format!("this file has {bytes} bytes; the limit is {MAX_SOURCE_BYTES} (4 MiB)"),
    )
    .label("too large to be a program")
    .help("split the program into several files, or check that this is the right file")
}
