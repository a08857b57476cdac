//! The PTX of every example, in counts; and the ptxas gate: no spill, no C75xx warning (a serialised wgmma).

use flashc_tests::{compile_text, pairs, programs, ptx_summary};
use flashc_compiler::run_header;

/// Does the machine have ptxas? Where it must (CI sets `FLASHC_REQUIRE_PTXAS`), its absence is a failure.
fn ptxas() -> Option<std::path::PathBuf> {
    let found = flashc_runtime::ptxas::find(None).ok();
    if found.is_none() {
        assert!(std::env::var_os("FLASHC_REQUIRE_PTXAS").is_none(), "ptxas is required here and was not found");
        eprintln!("*** ptxas was not found: the gate on spills and serialised wgmma DID NOT RUN ***");
    }
    found
}

#[test]
fn counts_and_gate() {
    let ptxas = ptxas();
    let _ = pairs(&[]);
    for path in programs("dsl-examples") {
        let text = std::fs::read_to_string(&path).unwrap();
        let stem = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let header = run_header::parse(&text).unwrap_or_else(|e| panic!("{stem}: {e}"));
        for (i, set) in header.sets.iter().enumerate() {
            let compiled = compile_text(&stem, &text, set).unwrap_or_else(|e| panic!("{stem}: {e}"));
            let mut summary = format!("{set:?}\n");
            for v in &compiled.artifact.variants {
                summary.push_str(&format!("== {}\n{}", v.name, ptx_summary(&v.ptx)));
                summary.push_str(&format!("threads: {}\nshared bytes: {}\n", v.threads, v.shared_bytes));
                if v.name == "tma" {
                    assert!(v.ptx.contains("cp.async.bulk.tensor"), "{stem}: no bulk-tensor copies");
                }
                if let Some(ptxas) = &ptxas {
                    let a = flashc_runtime::ptxas::assemble(&v.ptx, "sm_90a", ptxas)
                        .unwrap_or_else(|e| panic!("{stem} {}: {e}", v.name));
                    assert_eq!((a.spill_stores, a.spill_loads), (0, 0), "{stem} {}: spills", v.name);
                    let bad: Vec<_> = a.warnings.iter().filter(|w| w.contains("C75")).collect();
                    assert!(bad.is_empty(), "{stem} {}: {bad:?}", v.name);
                }
            }
            insta::assert_snapshot!(format!("{stem}-{i}"), summary);
        }
    }
}
