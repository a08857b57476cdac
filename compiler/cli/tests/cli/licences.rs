//! Every dependency may be used under a licence that ours goes with.

use serde_json::Value;
use std::process::Command;

/// Permissive licences.
const ALLOWED: &[&str] = &[
    "MIT",
    "MIT-0",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Zlib",
    "BSL-1.0",
    "CC0-1.0",
    "Unlicense",
    "0BSD",
    "Unicode-3.0",
    "Unicode-DFS-2016",
    // Of single files, which we do not change.
    "MPL-2.0",
];

/// Packages that do not name their licence; what a look into them found.
const UNNAMED: &[(&str, &str)] = &[("mlir-sys", "MIT")];

#[test]
fn dependencies_have_permissive_licences() {
    let out = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--all-features"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo starts");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let metadata: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    assert!(packages.len() > 50, "only {} packages", packages.len());
    let licence = |p: &Value| {
        let found = UNNAMED.iter().find(|(name, _)| p["name"] == *name).map_or("", |u| u.1);
        p["license"].as_str().unwrap_or(found).to_owned()
    };
    let bad: Vec<String> = packages
        .iter()
        .filter(|p| !allowed(&licence(p)))
        .map(|p| format!("{} {}: `{}`", p["name"], p["version"], licence(p)))
        .collect();
    assert!(bad.is_empty(), "licences that are not allowed:\n{}", bad.join("\n"));
}

/// An SPDX expression; `/` is an old spelling of OR.
fn allowed(expression: &str) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    !words.is_empty() && either(&mut rest) && rest.is_empty()
}

fn either(rest: &mut &[&str]) -> bool {
    let mut ok = both(rest);
    while rest.first() == Some(&"OR") {
        *rest = &rest[1..];
        ok |= both(rest);
    }
    ok
}

fn both(rest: &mut &[&str]) -> bool {
    let mut ok = one(rest);
    while rest.first() == Some(&"AND") {
        *rest = &rest[1..];
        ok &= one(rest);
    }
    ok
}

fn one(rest: &mut &[&str]) -> bool {
    let Some((word, tail)) = rest.split_first() else { return false };
    *rest = tail;
    if *word == "(" {
        let ok = either(rest);
        let closed = rest.first() == Some(&")");
        *rest = rest.get(1..).unwrap_or_default();
        return ok && closed;
    }
    match *rest {
        ["WITH", exception, tail @ ..] => {
            *rest = tail;
            ALLOWED.contains(&format!("{word} WITH {exception}").as_str())
        }
        _ => ALLOWED.contains(word),
    }
}

#[test]
fn expressions() {
    assert!(allowed("MIT OR GPL-3.0"));
    assert!(allowed("MIT/Apache-2.0"));
    assert!(allowed("(MIT OR Apache-2.0) AND Unicode-3.0"));
    assert!(allowed("Apache-2.0 WITH LLVM-exception OR GPL-2.0"));
    assert!(!allowed("(MIT OR Apache-2.0) AND GPL-3.0"));
    assert!(!allowed("GPL-3.0"));
    assert!(!allowed("Apache-2.0 WITH Commons-Clause"));
    assert!(!allowed(""));
}
