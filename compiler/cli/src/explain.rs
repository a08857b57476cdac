//! `flashc explain`: what an error code means and what to do.

use crate::args::Explain;
use crate::exit::{Exit, out};
use crate::table::Table;
use flashc_front::codes::Code;

/// One code.
struct Entry {
    code: &'static str,
    title: &'static str,
    /// Everything there is to say, title included.
    page: String,
}

/// Of the compiler and of the runtime.
fn entries() -> Vec<Entry> {
    let front = Code::ALL.iter().map(|c| Entry { code: c.name(), title: c.title(), page: c.explain() });
    let runtime = flashc_runtime::codes().iter().map(|c| Entry {
        code: c.code,
        title: c.title,
        page: format!("{}: {}\n\n{}", c.code, c.title, c.explanation),
    });
    front.chain(runtime).collect()
}

/// Runs it.
pub(crate) fn explain(args: &Explain) -> Exit {
    let all = entries();
    let Some(code) = &args.code else {
        let table = Table::new(false).words("code", 5).words("meaning", 0);
        out!("{}", table.head());
        all.iter().for_each(|e| out!("{}", table.row(&[e.code, e.title])));
        return Exit::Ok;
    };
    match all.iter().find(|e| e.code.eq_ignore_ascii_case(code.trim_matches(['[', ']']))) {
        Some(e) => {
            out!("{}", wrapped(&e.page, 100).trim_end());
            Exit::Ok
        }
        None => {
            eprintln!("error: no code `{code}`; codes look like E0501 (programs) and L0307 (launches)");
            eprintln!("  help: `flashc explain` lists all of them");
            Exit::Usage
        }
    }
}

/// Paragraphs with lines of at most `width` characters; indented lines stay as they are.
fn wrapped(text: &str, width: usize) -> String {
    let mut out = vec![];
    for line in text.lines() {
        if line.starts_with(' ') || line.chars().count() <= width {
            out.push(line.to_owned());
            continue;
        }
        let mut current = String::new();
        for word in line.split_whitespace() {
            if !current.is_empty() && current.chars().count() + 1 + word.chars().count() > width {
                out.push(std::mem::take(&mut current));
            }
            if !current.is_empty() {
                current.push(' ');
            }
            current += word;
        }
        out.push(current);
    }
    out.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_there_once() {
        let all = entries();
        for (i, e) in all.iter().enumerate() {
            assert!(all[..i].iter().all(|o| o.code != e.code), "{} twice", e.code);
            assert!(!e.title.is_empty(), "{}", e.code);
        }
    }

    #[test]
    fn long_lines_wrap_and_examples_do_not() {
        assert_eq!(
            wrapped("one two three\n    code stays as it is", 8),
            "one two\nthree\n    code stays as it is"
        );
    }
}
