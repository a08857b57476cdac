//! Reading and compiling a program for the commands that need it, with the phases watched.

use crate::args::Specialize;
use crate::exit::{Exit, Result, out, usage};
use crate::table::{Table, colors};
use flashc_compiler::passes::Choices;
use flashc_compiler::pipeline::{PASSES, Pass};
use flashc_compiler::{CompileOptions, Compiled, Failure, Observer};
use flashc_front::codes::Code;
use flashc_front::diagnostic::{Severity, render};
use flashc_front::source::Source;
use flashc_ir::Func;
use std::io::{Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// A program's text and the name for messages.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// As given on the command line.
    pub name: String,
    /// What is in it.
    pub bytes: Vec<u8>,
}

impl Program {
    /// Reads a file, or standard input for `-`.
    pub(crate) fn read(path: &Path) -> Result<Program> {
        let name = path.display().to_string();
        if name == "-" {
            let mut bytes = vec![];
            std::io::stdin()
                .read_to_end(&mut bytes)
                .map_err(|e| usage(format!("cannot read standard input: {e}")))?;
            return Ok(Program { name: "<stdin>".into(), bytes });
        }
        let bytes = std::fs::read(path).map_err(|e| usage(format!("cannot read {name}: {e}")))?;
        Ok(Program { name, bytes })
    }

    /// Stops, with diagnostics, if it is wrong whatever the specialization.
    pub(crate) fn check(&self) -> Result<()> {
        let color = colors(&std::io::stderr());
        let (source, found) = match Source::from_bytes(&self.name, self.bytes.clone()) {
            Ok(source) => {
                let found = flashc_front::analyze(&source).diagnostics;
                (source, found)
            }
            Err(d) => (Source::new(&self.name, ""), vec![*d]),
        };
        if found.iter().all(|d| d.severity != Severity::Error) {
            return Ok(());
        }
        eprint!("{}", render(&found, &source, color));
        Err(Exit::Program)
    }

    /// Compiles it; failures are printed.
    pub(crate) fn compile(&self, options: &CompileOptions, observer: &mut dyn Observer) -> Result<Compiled> {
        self.try_compile(options, observer).map_err(|failed| {
            eprint!("{}", failed.text);
            failed.exit
        })
    }

    /// Compiles it.
    pub(crate) fn try_compile(
        &self,
        options: &CompileOptions,
        observer: &mut dyn Observer,
    ) -> std::result::Result<Compiled, Failed> {
        let compiled = flashc_compiler::compile(&self.name, &self.bytes, options, observer);
        compiled.map_err(|f| describe(&f, &self.name, options)).inspect(|c| eprint!("{}", c.warnings))
    }
}

/// A failed compilation: what to say, and the status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failed {
    /// Whole lines.
    pub text: String,
    /// 1 or 70.
    pub exit: Exit,
}

/// The compiler's options from the command line.
pub(crate) fn options(s: &Specialize) -> CompileOptions {
    CompileOptions {
        choices: choices(&s.choose),
        kernel: s.kernel.clone(),
        set: s.set.clone(),
        target: s.target.clone(),
        color: colors(&std::io::stderr()),
        ..CompileOptions::default()
    }
}

/// Choices from the command line, which has checked them.
pub(crate) fn choices(given: &[(String, String)]) -> Choices {
    let mut choices = Choices::default();
    for (name, value) in given {
        choices.set(name, value);
    }
    choices
}

/// A failure in words.
pub(crate) fn describe(failure: &Failure, name: &str, options: &CompileOptions) -> Failed {
    match failure {
        Failure::User { rendered, diagnostics } => {
            let mut text = rendered.clone();
            if diagnostics.iter().any(|d| d.code == Code::MissingConstant) {
                text += "  on the command line: --set NAME=VALUE\n";
            }
            Failed { text, exit: Exit::Program }
        }
        Failure::Bug { pass, message, before } => {
            let mut text = format!("error: a bug in flashc, in {pass}: {message}\n");
            if let Some(path) = keep(before) {
                text += &format!("  the IR before it is in {path}\n");
            }
            let set: String = options.set.iter().map(|(k, v)| format!(" --set {k}={v}")).collect();
            let kernel = options.kernel.as_ref().map(|k| format!(" --kernel {k}")).unwrap_or_default();
            let target = &options.target;
            text += &format!(
                "  to see it again: flashc compile {name}{kernel}{set} --target {target} --dump-after all -o -\n"
            );
            text += "  please report it with the program\n";
            Failed { text, exit: Exit::Bug }
        }
    }
}

/// Keeps IR in a temporary file; the path, if that worked.
fn keep(text: &str) -> Option<String> {
    if text.is_empty() {
        return None;
    }
    let mut file = tempfile::Builder::new().prefix("flashc-").suffix(".mlir").tempfile().ok()?;
    file.write_all(text.as_bytes()).ok()?;
    Some(file.keep().ok()?.1.display().to_string())
}

/// Measures the phases of a compilation and prints the dumps that are wanted.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    dump_after: Vec<String>,
    keep_after: Option<String>,
    kept: Option<Func>,
    phases: Vec<(String, Instant)>,
    /// Parts of phases: which phase, the name, the time.
    parts: Vec<(usize, String, Duration)>,
    end: Option<Instant>,
}

impl Watch {
    /// Dumps after these passes, or `all`.
    pub(crate) fn new(dump_after: &[String]) -> Watch {
        Watch { dump_after: dump_after.to_vec(), ..Watch::default() }
    }

    /// Keeps the function after a pass, of the variant that comes first.
    pub(crate) fn keeping(pass: Option<&str>) -> Watch {
        Watch { keep_after: pass.map(str::to_owned), ..Watch::default() }
    }

    /// What was kept.
    pub(crate) fn kept(self) -> Option<Func> {
        self.kept
    }

    /// The last phase is over.
    pub(crate) fn stop(&mut self) {
        self.end = Some(Instant::now());
    }

    /// Time of each phase, as a table.
    pub(crate) fn times(&self) -> String {
        let ends = self.phases.iter().skip(1).map(|(_, t)| *t).chain(self.end);
        let spent: Vec<(&str, Duration)> =
            self.phases.iter().zip(ends).map(|((name, start), end)| (name.as_str(), end - *start)).collect();
        let table = Table::new(false).words("phase", 28).numbers("ms", 8);
        let ms = |d: Duration| format!("{:.2}", d.as_secs_f64() * 1e3);
        let mut out = table.head() + "\n";
        for (i, (name, time)) in spent.iter().enumerate() {
            out += &(table.row(&[name, &ms(*time)]) + "\n");
            for (_, part, time) in self.parts.iter().filter(|p| p.0 == i) {
                out += &(table.row(&[&format!("  {part}"), &ms(*time)]) + "\n");
            }
        }
        out + &table.row(&["all", &ms(spent.iter().map(|s| s.1).sum())]) + "\n"
    }
}

impl Observer for Watch {
    fn phase(&mut self, name: &str, variant: &str) {
        let name = if variant.is_empty() { name.to_owned() } else { format!("{name} ({variant})") };
        self.phases.push((name, Instant::now()));
    }

    fn part(&mut self, name: &str, took: Duration) {
        self.parts.push((self.phases.len().saturating_sub(1), name.to_owned(), took));
    }

    fn wants(&self, pass: &str) -> bool {
        self.dump_after.iter().any(|d| d == "all" || d == pass)
    }

    fn dump(&mut self, pass: &str, variant: &str, text: &str) {
        out!("// ---- after {pass}, variant {variant}\n{}\n", text.trim_end());
    }
    fn after(&mut self, pass: &Pass, _variant: &str, func: &Func) {
        if self.kept.is_none() && self.keep_after.as_deref() == Some(pass.name) {
            self.kept = Some(func.clone());
        }
    }
}

/// Checks the name of a pass.
pub(crate) fn known_pass(name: &str) -> Result<()> {
    if PASSES.iter().any(|p| p.name == name) {
        return Ok(());
    }
    Err(usage(format!("no pass `{name}`\n  help: `flashc passes` lists them")))
}
