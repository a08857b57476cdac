//! The PTX of every example, in counts; and the ptxas gate: no spill, no C75xx warning (a serialised wgmma).

use flashc_tests::{compile_text, program_cases, ptx_summary, specializations};

/// Does the machine have ptxas? Where it must (`FLASHC_REQUIRE_PTXAS` is set), its absence is a failure.
fn ptxas() -> Option<std::path::PathBuf> {
    let found = flashc_runtime::ptxas::find(None).ok();
    if found.is_none() {
        assert!(
            std::env::var_os("FLASHC_REQUIRE_PTXAS").is_none(),
            "ptxas is required here and was not found"
        );
        eprintln!("*** ptxas was not found: the gate on spills and serialised wgmma DID NOT RUN ***");
    }
    found
}

#[test]
fn counts_and_gate() {
    let ptxas = ptxas();
    for (name, text, header) in program_cases("dsl-examples") {
        let stem = name.trim_end_matches(".tile");
        let mut summary = String::new();
        for set in specializations(&header) {
            let compiled = compile_text(&name, &text, &set).unwrap_or_else(|e| panic!("{name} {set:?}: {e}"));
            let words: Vec<_> = set.iter().map(|(k, v)| format!("{k}={v}")).collect();
            summary.push_str(&format!("# {}\n", words.join(" ")));
            for v in &compiled.artifact.variants {
                summary.push_str(&format!("== {}\n{}", v.name, ptx_summary(&v.ptx)));
                summary.push_str(&format!("threads: {}\nshared bytes: {}\n", v.threads, v.shared_bytes));
                let dots = text.contains("dot(");
                assert!(
                    !dots || v.name == "fallback" || v.ptx.contains("cp.async.bulk.tensor"),
                    "{name}: the aligned variant has no bulk-tensor copies"
                );
                assert!(!v.ptx.contains(".local."), "{name} {}: local memory", v.name);
                if let Some(ptxas) = &ptxas {
                    let a = flashc_runtime::ptxas::assemble(&v.ptx, "sm_90a", ptxas)
                        .unwrap_or_else(|e| panic!("{name} {}: {e}", v.name));
                    let spills: Vec<_> = a.entries.iter().map(|e| (e.spill_stores, e.spill_loads)).collect();
                    assert_eq!(spills, [(0, 0)], "{name} {set:?} {}: spills", v.name);
                    assert!(a.codes.is_empty(), "{name} {}: {:?}", v.name, a.warnings);
                }
            }
        }
        insta::assert_snapshot!(stem, summary);
    }
}
