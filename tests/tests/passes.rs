//! One folder a pass under `corpus/passes`; a case is a program whose header says what to set and which
//! variant to show. The snapshot is the IR after the pass, and it parses back to the same function.

use flashc_compiler::passes::Choices;
use flashc_compiler::pipeline::PASSES;
use flashc_mlir::Context;
use flashc_tests::{header, pairs, root, trace_with};

#[test]
fn every_pass_has_cases() {
    for p in PASSES.iter().filter(|p| !matches!(p.name, "canonicalize" | "clean")) {
        let dir = root().join("tests/corpus/passes").join(p.name);
        assert!(dir.is_dir(), "no folder tests/corpus/passes/{}", p.name);
        assert!(std::fs::read_dir(dir).unwrap().count() > 0, "no cases of {}", p.name);
    }
}

#[test]
fn ir_after_each_pass() {
    insta::glob!("../corpus/passes", "*/*.tile", |path| {
        let text = std::fs::read_to_string(path).unwrap();
        let pass = path.parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
        let name = path.file_name().unwrap().to_str().unwrap();
        let set = pairs(&header(&text, "set"));
        let variant = header(&text, "variant").first().cloned().unwrap_or("aligned".into());
        let mut choices = Choices::default();
        for (choice, value) in pairs(&header(&text, "choose")) {
            assert!(choices.set(&choice, &value), "{name}: no choice {choice}={value}");
        }
        let (_, t) =
            trace_with(name, &text, &set, Some(&pass), choices).unwrap_or_else(|e| panic!("{name}: {e}"));
        let dump = t.dumps.iter().find(|d| d.0 == variant).unwrap_or_else(|| panic!("{name}: no {variant}"));
        let again =
            Context::new().parse(&dump.1).expect("a snapshot parses").to_func().expect("and reads back");
        let printed = Context::new().write(&again).expect("it is well-formed").print(false);
        assert_eq!(printed, dump.1, "{name}: parsing and printing changes the IR");
        insta::assert_snapshot!(dump.1);
    });
}
