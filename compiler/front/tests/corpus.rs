//! The corpus: every `ok` program checks and prints, every `bad` one gives the errors beside it.

use std::collections::BTreeSet;
use std::path::Path;

use flashc_front::analyze;
use flashc_front::codes::{Code, EXAMPLE_KERNEL};
use flashc_front::diagnostic::{Diagnostic, render};
use flashc_front::hir::{SpecValue, Specialization};
use flashc_front::source::{MAX_SOURCE_BYTES, Source};

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

/// Sources with errors that no file of the corpus can show.
fn unshowable() -> Vec<Diagnostic> {
    let mut found = vec![*Source::from_bytes("latin1", b"kernel k\n// caf\xe9".to_vec()).unwrap_err()];
    found.push(*Source::from_bytes("huge", vec![b' '; MAX_SOURCE_BYTES + 1]).unwrap_err());
    found.extend(analyze(&Source::new("huge", " ".repeat(10 << 20))).diagnostics);
    found
}

#[test]
fn sources_that_are_no_text() {
    let all = unshowable();
    insta::assert_snapshot!(render(&all, &Source::new("a.tile", ""), false));
}

#[test]
fn every_code_has_a_case() {
    let mut seen: BTreeSet<Code> = unshowable().iter().map(|d| d.code).collect();
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/bad")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "tile") {
            seen.extend(diagnostics(&read(&path)).iter().map(|d| d.code));
        }
    }
    // From E08 on the compiler reports them, and its tests have the cases.
    let missing: Vec<&str> = Code::ALL.iter().filter(|c| !seen.contains(c)).map(|c| c.name()).collect();
    let missing: Vec<&str> = missing.into_iter().filter(|n| *n < "E08").collect();
    assert!(missing.is_empty(), "no case for {missing:?}");
}

#[test]
fn examples_of_explanations_are_true() {
    for &code in Code::ALL {
        let info = code.info();
        let whole = |example: &str| {
            let item = ["kernel ", "fn ", "//"].iter().any(|w| example.starts_with(w));
            let [before, after] = EXAMPLE_KERNEL;
            Source::new(
                code.name(),
                if item { example.to_owned() } else { format!("{before}{example}{after}") },
            )
        };
        if !info.bad.is_empty() {
            let source = whole(info.bad);
            let found = diagnostics(&source);
            assert!(found.iter().any(|d| d.code == code), "{code:?}\n{}", render(&found, &source, false));
        }
        if !info.good.is_empty() {
            let source = whole(info.good);
            let found = diagnostics(&source);
            let function_only = !source.text().contains("kernel ");
            assert!(found.is_empty() || function_only, "{code:?}\n{}", render(&found, &source, false));
        }
        assert!(code.explain().starts_with(code.name()));
        assert_eq!(Code::from_name(code.name()), Some(code));
    }
}

#[test]
fn depth_is_an_error_and_no_overflow() {
    let wrap = |e: &str| format!("kernel k(o: out tensor(i32)[N]) dims N grid (1) {{ o[0] = {e}; }}");
    let deep = [
        "(".repeat(10_000),
        format!("{}1{}", "(".repeat(10_000), ")".repeat(10_000)),
        format!("{}1", "-".repeat(10_000)),
        vec!["1"; 10_000].join(" + "),
        format!("{}1", "if true { ".repeat(10_000)),
        format!("{}1", "abs(".repeat(10_000)),
        format!("x{}", "[:]".repeat(10_000)),
        format!("if true {{ 1 }}{}", " else if true { 1 }".repeat(10_000)),
    ];
    for text in deep {
        let found = analyze(&Source::new("deep", wrap(&text))).diagnostics;
        assert!(!found.is_empty(), "{}", &text[..20]);
    }
    let statements =
        "kernel k(o: out tensor(i32)[N]) dims N grid (1) { ".to_owned() + &"if true { ".repeat(10_000);
    assert!(!analyze(&Source::new("deep", statements)).diagnostics.is_empty());
    // As deep as it goes without an error.
    let sum = vec!["n"; 60].join(" + ");
    let chain: String =
        (1..15).map(|i| format!("fn f{i}(n: i32) -> i32 {{ f{}(n) + 1 }}\n", i - 1)).collect();
    let text = format!("fn f0(n: i32) -> i32 {{ {sum} }}\n{chain}{}", wrap("f14(1)"));
    assert!(analyze(&Source::new("deep", text)).program.is_some());
}

/// Near the limit of size nothing is quadratic: this takes seconds, or hours.
#[test]
fn large_files_are_read() {
    let kernel = |body: String| format!("kernel k(o: out tensor(i32)[N]) dims N grid (1) {{\n{body}}}");
    let lines = |line: &dyn Fn(usize) -> String| (0..6_000).map(line).collect::<String>();
    let texts = [
        kernel(lines(&|i| format!("let a{i} = {i} + 1;\n"))),
        kernel(lines(&|i| format!("let a{i} = b{i} + 1;\n"))),
        kernel(lines(&|i| format!("let a{i} = b{i} +;\n"))),
        lines(&|i| format!("kernel k{i}() grid (x) {{ }}\n")),
        "(".repeat(1 << 18),
        "@".repeat(1 << 18),
        "kernel ".repeat(1 << 14),
        format!("kernel k() grid (1) {{ {} }}", "let x = y; ".repeat(1 << 14)),
    ];
    for text in texts {
        let source = Source::new("large", text);
        let _ = render(&analyze(&source).diagnostics, &source, false);
    }
}

/// A small generator of numbers, so that failures repeat.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) as usize) % n.max(1)
    }
}

#[test]
fn nothing_panics() {
    let mut programs = Vec::new();
    for folder in ["ok", "bad"] {
        let folder = format!("{}/tests/corpus/{folder}", env!("CARGO_MANIFEST_DIR"));
        let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
        paths.sort();
        programs.extend(paths.iter().filter(|p| p.extension().is_some_and(|e| e == "tile")).map(|p| read(p)));
    }
    let mut words: Vec<String> = Vec::new();
    for p in &programs {
        words.extend(flashc_front::token::lex(p).0.iter().map(|(_, s)| p.slice(*s).to_owned()));
    }
    words.sort();
    words.dedup();
    let mut random = Random(7);
    let run = |text: String| {
        let source = Source::new("fuzz", text);
        let analysis = analyze(&source);
        let _ = render(&analysis.diagnostics, &source, true);
        if let Some(program) = analysis.program {
            for k in &program.kernels {
                let _ = k.dump();
                let spec =
                    k.generics.iter().fold(Specialization::new(), |s, g| s.with(&g.name, SpecValue::Int(48)));
                let _ = k.specialize(&spec);
                let _ = k.specialize(&Specialization::new());
            }
        }
    };
    for _ in 0..300 {
        let n = random.below(60);
        let soup: Vec<&str> = (0..n).map(|_| words[random.below(words.len())].as_str()).collect();
        run(format!("kernel k(o: out tensor(f32)[N]) dims N grid (1) {{ {} }}", soup.join(" ")));
        run(soup.join(" "));
    }
    for round in 0..600 {
        let program = &programs[random.below(programs.len())];
        let spans: Vec<_> = flashc_front::token::lex(program).0.iter().map(|(_, s)| s.range()).collect();
        let mut text = program.text().to_owned();
        for _ in 0..=round % 3 {
            let Some(range) = spans.get(random.below(spans.len())).cloned() else { continue };
            if !text.is_char_boundary(range.start) || text.get(range.clone()).is_none() {
                continue;
            }
            match random.below(3) {
                0 => text.replace_range(range, ""),
                1 => text.replace_range(range, &words[random.below(words.len())]),
                _ => text.insert_str(range.start, &format!(" {} ", words[random.below(words.len())])),
            }
        }
        run(text);
    }
}
