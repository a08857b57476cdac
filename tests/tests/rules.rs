//! Rules that a tool can check.

use flashc_tests::root;
use std::collections::BTreeMap;

/// Which of our packages each may depend on: the order front, ir, mlir, compiler, runtime, cli.
#[test]
fn packages_depend_downwards() {
    let allowed: BTreeMap<&str, (&str, &[&str])> = BTreeMap::from([
        ("flashc-front", ("compiler/front", &[][..])),
        ("flashc-ir", ("compiler/ir", &[][..])),
        ("flashc-mlir", ("compiler/mlir", &["flashc-ir"][..])),
        ("flashc-compiler", ("compiler", &["flashc-front", "flashc-ir", "flashc-mlir"][..])),
        ("flashc-runtime", ("runtime", &["flashc-front", "flashc-ir", "flashc-compiler"][..])),
    ]);
    for (name, (folder, may)) in &allowed {
        let manifest = std::fs::read_to_string(root().join(folder).join("Cargo.toml")).unwrap();
        for other in
            ["flashc-front", "flashc-ir", "flashc-mlir", "flashc-compiler", "flashc-runtime", "flashc"]
        {
            let uses = manifest.lines().any(|l| {
                l.split(['.', ' ', '=']).next() == Some(other)
                    && (l.contains("workspace") || l.contains("path"))
            });
            assert!(!uses || may.contains(&other), "{name} must not depend on {other}");
        }
    }
}

/// melior, mlir-sys, inkwell and llvm-sys stay in one package, cudarc in another.
#[test]
fn foreign_code_stays_in_its_package() {
    let homes = [
        ("melior", "compiler/mlir"),
        ("mlir-sys", "compiler/mlir"),
        ("inkwell", "compiler/mlir"),
        ("cudarc", "runtime"),
    ];
    for folder in
        ["compiler/front", "compiler/ir", "compiler/mlir", "compiler", "compiler/cli", "runtime", "tests"]
    {
        let manifest = std::fs::read_to_string(root().join(folder).join("Cargo.toml")).unwrap();
        for (krate, home) in homes {
            let uses = manifest.lines().any(|l| l.split(['.', ' ', '=']).next() == Some(krate));
            assert!(!uses || folder == home, "{folder} must not depend on {krate}");
        }
    }
}
