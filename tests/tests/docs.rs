//! Every program in the documentation compiles: blocks marked `tile` in Markdown files.

use flashc_tests::root;

#[test]
fn programs_in_the_language_reference_check() {
    let text = std::fs::read_to_string(root().join("docs/language.md")).unwrap();
    let mut blocks = 0;
    let mut rest = text.as_str();
    while let Some(start) = rest.find("```tile\n") {
        let body = &rest[start + 8..];
        let end = body.find("```").expect("a block ends");
        let program = &body[..end];
        rest = &body[end + 3..];
        blocks += 1;
        let source = flashc_front::source::Source::new("docs/language.md", program);
        let found = flashc_front::analyze(&source).diagnostics;
        assert!(found.is_empty(), "{}\n{program}", flashc_front::diagnostic::render(&found, &source, false));
    }
    assert!(blocks >= 5, "the reference has {blocks} programs");
}

/// docs/passes.md is made from the list of passes and the header of each pass's file.
/// `UPDATE_DOCS=1 cargo test -p flashc-tests` writes it.
#[test]
fn the_pass_catalogue_is_up_to_date() {
    let mut text = String::from(
        "# Passes\n\nIn the order in which they run. Made from the code (`tests/tests/docs.rs`); do not edit.\n",
    );
    for p in flashc_compiler::pipeline::PASSES {
        text.push_str(&format!("\n## {}\n\n", p.name));
        let file = root().join("compiler/src/passes").join(format!("{}.rs", p.name.replace('-', "_")));
        match std::fs::read_to_string(file) {
            Ok(code) => {
                let header = code.lines().map_while(|l| l.strip_prefix("//!")).skip(2);
                let lines: Vec<_> = header.map(|l| l.strip_prefix(' ').unwrap_or(l)).collect();
                text.push_str(&lines.join("\n"));
                text.push('\n');
            }
            Err(_) => text.push_str(&format!("{}.\n", p.summary)),
        }
        let bits = if p.reassociates { "may reorder sums" } else { "changes no bit" };
        let only = if p.aligned_only { ", runs for the aligned variant only" } else { "" };
        text.push_str(&format!("\nResults: {bits}{only}.\n"));
    }
    let path = root().join("docs/passes.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let have = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(have == text, "docs/passes.md is out of date: UPDATE_DOCS=1 cargo test -p flashc-tests docs");
}
