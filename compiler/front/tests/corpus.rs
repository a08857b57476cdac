//! The corpus: every `ok` program checks and prints, every `bad` one gives the errors beside it.

use std::path::Path;

use flashc_front::analyze;
use flashc_front::codes::Code;
use flashc_front::diagnostic::{Diagnostic, render};
use flashc_front::hir::{SpecValue, Specialization};
use flashc_front::source::Source;

/// The program and the specialization in its `// spec: A=1, B=true` lines, one specialization a line.
fn specs(text: &str) -> Vec<Specialization> {
    text.lines()
        .filter_map(|l| l.strip_prefix("// spec:"))
        .map(|l| {
            let pairs = l.split(',').filter_map(|p| p.trim().split_once('='));
            pairs.fold(Specialization::new(), |s, (n, v)| {
                s.with(n, SpecValue::parse(v).unwrap_or_else(|| panic!("`{v}` is no value")))
            })
        })
        .collect()
}

/// Everything there is to say about a program, its specializations included.
fn diagnostics(source: &Source) -> Vec<Diagnostic> {
    let analysis = analyze(source);
    let mut all = analysis.diagnostics;
    if let Some(program) = analysis.program {
        for spec in specs(source.text()) {
            for kernel in &program.kernels {
                all.extend(kernel.specialize(&spec).err().unwrap_or_default());
            }
        }
    }
    all
}

fn read(path: &Path) -> Source {
    let bytes = std::fs::read(path).unwrap();
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    Source::from_bytes(name, bytes).unwrap()
}

#[test]
fn ok() {
    insta::glob!("corpus/ok/*.tile", |path| {
        let source = read(path);
        let found = diagnostics(&source);
        assert!(found.is_empty(), "{}", render(&found, &source, false));
        let analysis = analyze(&source);
        insta::assert_snapshot!(analysis.program.unwrap().dump());
    });
}

#[test]
fn bad() {
    insta::glob!("corpus/bad/*.tile", |path| {
        let source = read(path);
        let found = diagnostics(&source);
        assert!(!found.is_empty(), "{} has no error", source.name());
        for d in &found {
            assert!(d.help.is_some() || d.code == Code::Syntax, "{}: no help with {:?}", source.name(), d);
        }
        insta::assert_snapshot!(render(&found, &source, false));
    });
}
