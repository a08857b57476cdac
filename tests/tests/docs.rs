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
