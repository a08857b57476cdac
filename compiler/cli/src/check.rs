//! `flashc check`: what is wrong with programs, and nothing else.

use crate::args::Check;
use crate::exit::{Exit, Result, out};
use crate::program::Program;
use crate::table::colors;
use flashc_front::diagnostic::{Diagnostic, Severity, render};
use flashc_front::source::Source;

/// Runs it.
pub(crate) fn check(args: &Check) -> Result<Exit> {
    let color = colors(&std::io::stderr());
    let (mut errors, mut warnings, mut unreadable) = (0, 0, false);
    for file in &args.files {
        let Ok(program) = Program::read(file) else {
            unreadable = true;
            continue;
        };
        let found = match Source::from_bytes(&program.name, program.bytes) {
            Ok(source) => {
                let found = flashc_front::analyze(&source).diagnostics;
                eprint!("{}", render(&found, &source, color));
                found
            }
            Err(d) => {
                eprint!("{}", render(std::slice::from_ref(&d), &Source::new(&program.name, ""), color));
                vec![*d]
            }
        };
        let count = |s: Severity| found.iter().filter(|d: &&Diagnostic| d.severity == s).count();
        errors += count(Severity::Error);
        warnings += count(Severity::Warning);
    }
    let plural = |n: usize, word: &str| format!("{n} {word}{}", if n == 1 { "" } else { "s" });
    let files = plural(args.files.len(), "file");
    match (errors, warnings) {
        (0, 0) if !unreadable => out!("{files}: no problems"),
        _ => out!("{files}: {}, {}", plural(errors, "error"), plural(warnings, "warning")),
    }
    Ok(match (unreadable, errors) {
        (true, _) => Exit::Usage,
        (false, 0) => Exit::Ok,
        (false, _) => Exit::Program,
    })
}
