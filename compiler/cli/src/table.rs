//! Lines of aligned columns, printed one by one, so that a long run shows what is done; and colours.

use std::io::IsTerminal;

/// Are colours wanted on this stream? A terminal and no `NO_COLOR`.
pub(crate) fn colors(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
}

/// How a cell stands out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paint {
    /// It went well.
    Good,
    /// It did not.
    Bad,
    /// It matters less.
    Dim,
}

/// Columns with a heading and a width that longer cells may exceed.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    columns: Vec<Column>,
    color: bool,
}

#[derive(Clone, Debug)]
struct Column {
    heading: &'static str,
    width: usize,
    right: bool,
}

impl Table {
    /// A table without columns yet.
    pub(crate) fn new(color: bool) -> Table {
        Table { columns: vec![], color }
    }

    /// Adds a column of words.
    pub(crate) fn words(mut self, heading: &'static str, width: usize) -> Table {
        self.columns.push(Column { heading, width: width.max(heading.len()), right: false });
        self
    }

    /// Adds a column of numbers, aligned to the right.
    pub(crate) fn numbers(mut self, heading: &'static str, width: usize) -> Table {
        self.columns.push(Column { heading, width: width.max(heading.len()), right: true });
        self
    }

    /// The line of headings.
    pub(crate) fn head(&self) -> String {
        let cells: Vec<_> = self.columns.iter().map(|c| (c.heading.to_owned(), Some(Paint::Dim))).collect();
        self.line(&cells)
    }

    /// A line; missing cells are empty.
    pub(crate) fn row(&self, cells: &[&str]) -> String {
        let cells: Vec<_> = cells.iter().map(|c| (c.to_string(), None)).collect();
        self.line(&cells)
    }

    /// A line whose last cell is painted.
    pub(crate) fn verdict(&self, cells: &[&str], paint: Paint) -> String {
        let last = cells.len().saturating_sub(1);
        let cells: Vec<_> =
            cells.iter().enumerate().map(|(i, c)| (c.to_string(), (i == last).then_some(paint))).collect();
        self.line(&cells)
    }

    fn line(&self, cells: &[(String, Option<Paint>)]) -> String {
        let mut line = String::new();
        for (i, (column, (text, paint))) in self.columns.iter().zip(cells).enumerate() {
            let pad = " ".repeat(column.width.saturating_sub(text.chars().count()));
            let text = painted(text, *paint, self.color);
            let last = i + 1 == self.columns.len().min(cells.len());
            line += &match (column.right, last) {
                (true, _) => format!("{pad}{text}"),
                (false, true) => text,
                (false, false) => format!("{text}{pad}"),
            };
            if !last {
                line += "  ";
            }
        }
        line.truncate(line.trim_end().len());
        line
    }
}

/// Text in a colour.
pub(crate) fn painted(text: &str, paint: Option<Paint>, color: bool) -> String {
    let code = match paint {
        Some(Paint::Good) => "32",
        Some(Paint::Bad) => "1;31",
        Some(Paint::Dim) => "2",
        None => return text.into(),
    };
    if color { format!("\x1b[{code}m{text}\x1b[0m") } else { text.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_no_line_ends_in_spaces() {
        let t = Table::new(false).words("output", 8).numbers("error", 9).words("", 6);
        assert_eq!(t.head(), "output        error");
        assert_eq!(t.row(&["o", "1.5e-3", "ok"]), "o            1.5e-3  ok");
        assert_eq!(t.row(&["a long name", "1", ""]), "a long name          1");
        let red = Table::new(true).words("", 0).words("", 6);
        assert_eq!(red.verdict(&["a", "FAILED"], Paint::Bad), "a  \x1b[1;31mFAILED\x1b[0m");
    }
}
