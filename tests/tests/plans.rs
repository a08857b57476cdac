//! The compiler derives its plans from what a program computes: names and the order of independent lines
//! change nothing.

use flashc_tests::{compile_text, program_cases, specializations};

/// Renames every variable and function-local name that a program declares.
fn rename(text: &str) -> String {
    let mut names: Vec<String> = vec![];
    let words: Vec<&str> =
        text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|w| !w.is_empty()).collect();
    for pair in words.windows(2) {
        if matches!(pair[0], "let" | "var" | "for" | "unordered") && pair[1] != "unordered" {
            names.push(pair[1].to_owned());
        }
    }
    let mut out = String::new();
    let mut word = String::new();
    let mut chars = text.chars().chain(['\n']).peekable();
    while let Some(c) = chars.next() {
        if c.is_alphanumeric() || c == '_' {
            word.push(c);
            continue;
        }
        // `acc = x` among arguments is a keyword.
        let rest: String = std::iter::once(c).chain(chars.clone().take(3)).collect();
        let rest = rest.trim_start();
        let assigned = rest.starts_with('=') && !rest.starts_with("==");
        let keyword = assigned && out.trim_end().ends_with([',', '(']);
        match names.iter().position(|n| *n == word) {
            Some(i) if !keyword => out.push_str(&format!("renamed{i}")),
            _ => out.push_str(&word),
        }
        word.clear();
        out.push(c);
    }
    out
}

#[test]
fn names_do_not_matter() {
    for (name, text, header) in program_cases("dsl-examples") {
        let other = rename(&text);
        assert_ne!(text, other, "{name}: nothing was renamed");
        let set = &specializations(&header)[0];
        let a = compile_text("a.tile", &text, set).unwrap_or_else(|e| panic!("{name}: {e}"));
        let b = compile_text("a.tile", &other, set).unwrap_or_else(|e| panic!("{name}: {e}"));
        for (x, y) in a.artifact.variants.iter().zip(&b.artifact.variants) {
            assert_eq!(x.ptx, y.ptx, "{name}");
        }
    }
}

#[test]
fn the_order_of_independent_lines_does_not_matter() {
    let all = program_cases("dsl-examples");
    let (_, text, header) = all.iter().find(|p| p.0 == "flash_attention_fwd.tile").expect("the example");
    let lines: Vec<&str> = text.lines().collect();
    let at = |needle: &str| {
        lines
            .iter()
            .position(|l| l.trim_start().starts_with(needle))
            .unwrap_or_else(|| panic!("no line `{needle}`"))
    };
    let (k, v) = (at("let kt"), at("let vt"));
    let mut swapped = lines.clone();
    swapped.swap(k, v);
    let set = specializations(header)[0].clone();
    let plan = |t: &str| {
        let (compiled, trace) =
            flashc_tests::trace("a.tile", t, &set, None).unwrap_or_else(|e| panic!("{e}"));
        let before = |pass: &str| {
            let i = trace.after.iter().position(|a| a.0 == pass).unwrap();
            trace.after[i - 1].3.clone()
        };
        let mma = flashc_compiler::passes::warpgroup_mma::plan(&before("warpgroup-mma")).unwrap().to_string();
        let v = &compiled.artifact.variants[0];
        (mma, v.threads, v.shared_bytes, flashc_tests::ptx_summary(&v.ptx))
    };
    assert_eq!(plan(text), plan(&swapped.join("\n")));
}
