//! Tests of the C interface without a GPU.

use super::*;
use std::collections::BTreeSet;
use std::mem::{offset_of, size_of};
use std::ptr::{null, null_mut};

const HEADER: &str = include_str!("../../include/flashc.h");
const PYTHON: &str = include_str!("../../python/flashc.py");
const SOURCES: [&str; 4] =
    [include_str!("lib.rs"), include_str!("error.rs"), include_str!("compile.rs"), include_str!("launch.rs")];

fn last_error() -> String {
    // SAFETY: a terminated string until the next call.
    unsafe { CStr::from_ptr(error::flashc_error_message()) }.to_str().unwrap().to_owned()
}

/// Names that begin with `flashc_` and directly follow `before` and precede `after`.
fn names(text: &str, before: &str, after: char) -> BTreeSet<String> {
    text.match_indices("flashc_")
        .filter(|(i, _)| text[..*i].ends_with(before))
        .filter_map(|(i, _)| {
            let end = text[i..].find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
            text[i + end..].starts_with(after).then(|| text[i..i + end].to_owned())
        })
        .collect()
}

#[test]
fn the_header_declares_what_is_exported() {
    let exported: BTreeSet<_> = SOURCES.iter().flat_map(|s| names(s, "extern \"C\" fn ", '(')).collect();
    let code = HEADER.lines().filter(|l| !l.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
    assert_eq!(names(&code, "", '('), exported);
    let called = names(PYTHON, "\"", '"');
    assert_eq!(called, exported, "the Python module lists every function");
}

#[test]
fn structs_have_the_size_that_the_header_states() {
    let stated = |name: &str| -> usize {
        let line = HEADER.lines().find(|l| l.starts_with(&format!("}} {name};"))).unwrap();
        line.split("// ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap()
    };
    assert_eq!(stated("flashc_tensor"), size_of::<launch::CTensor>());
    assert_eq!(stated("flashc_scalar"), size_of::<launch::CScalar>());
    assert_eq!(stated("flashc_report"), size_of::<launch::CReport>());
    assert_eq!(stated("flashc_resources"), size_of::<CResources>());
    assert_eq!(offset_of!(launch::CTensor, shape), 32);
    assert_eq!(offset_of!(launch::CScalar, real), 24);
}

#[test]
fn the_header_numbers_the_element_types() {
    for (i, d) in flashc_runtime::DType::ALL.iter().enumerate() {
        let line = format!("FLASHC_{} = {i}", d.name().to_uppercase());
        assert!(HEADER.contains(&line), "{line}");
    }
}

#[test]
fn null_and_nonsense_are_errors() {
    let mut out = null_mut();
    // SAFETY: null is allowed for testing it.
    unsafe {
        assert_eq!(flashc_artifact_read(null(), &mut out), -2);
        assert_eq!(last_error(), "error: `json` is null");
        assert_eq!(flashc_artifact_read(c"{}".as_ptr(), &mut out), 209);
        assert!(last_error().starts_with("error[L0209]: not an artifact that this build can read"));
        assert_eq!(flashc_load(null(), 0, null(), null_mut()), -2);
        assert_eq!(launch::flashc_launch(null(), null(), 0, null(), 0, 0, null_mut()), -2);
        flashc_artifact_free(null_mut());
        flashc_kernel_free(null_mut());
        flashc_string_free(null_mut());
    }
}

#[test]
fn a_panic_becomes_an_error() {
    let status = guard(|| panic!("oh no"));
    assert_eq!((status, last_error()), (-1, "a bug in flashc: oh no".to_owned()));
}

#[test]
fn an_artifact_goes_in_and_out_and_needs_a_driver_to_load() {
    let json = include_str!("../../testdata/scale.json");
    let text = CString::new(json).unwrap();
    let (mut artifact, mut again, mut kernel) = (null_mut(), null_mut(), null_mut());
    // SAFETY: live pointers; handles are freed once.
    unsafe {
        assert_eq!(flashc_artifact_read(text.as_ptr(), &mut artifact), 0, "{}", last_error());
        assert_eq!(flashc_artifact_json(artifact, &mut again), 0);
        let read = Artifact::from_json(CStr::from_ptr(again).to_str().unwrap()).unwrap();
        assert_eq!(read, Artifact::from_json(json).unwrap());
        flashc_string_free(again);
        assert_eq!(flashc_load(artifact, 0, c"{\"cash\": 1}".as_ptr(), &mut kernel), -2);
        assert!(last_error().contains("unknown field `cash`"));
        match flashc_load(artifact, 0, null(), &mut kernel) {
            0 => flashc_kernel_free(kernel),
            101 => assert!(last_error().starts_with("error[L0101]: no NVIDIA driver")),
            status => assert!(status > 0, "{}", last_error()),
        }
        flashc_artifact_free(artifact);
    }
}
