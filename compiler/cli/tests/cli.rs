//! The command as a user meets it: files in, text and an exit status out. No GPU is needed.

#[path = "cli/licences.rs"]
mod licences;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn example(name: &str) -> String {
    root().join("dsl-examples").join(name).display().to_string()
}

/// Runs flashc in a folder without a GPU to find, and without ptxas.
fn flashc(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_flashc"))
        .args(args)
        .current_dir(folder)
        .env("PATH", "")
        .env_remove("FLASHC_PTXAS")
        .env_remove("PYTHONPATH")
        .env_remove("VIRTUAL_ENV")
        .output()
        .expect("the binary starts")
}

/// Status, standard output and standard error as one text; the repository's place is left out.
fn seen(folder: &Path, args: &[&str]) -> String {
    let out = flashc(folder, args);
    let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
    let (stdout, stderr) = (text(&out.stdout), text(&out.stderr));
    let mut all = format!("exit {}\n{stdout}", out.status.code().unwrap_or(-1));
    if !stderr.is_empty() {
        all += &format!("---- stderr\n{stderr}");
    }
    all.replace(&root().display().to_string(), "ROOT")
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

#[test]
fn help_is_for_people() {
    let dir = folder();
    insta::assert_snapshot!("help", seen(dir.path(), &["--help"]));
    insta::assert_snapshot!("help_compile", seen(dir.path(), &["compile", "--help"]));
    insta::assert_snapshot!("help_run", seen(dir.path(), &["run", "--help"]));
}

#[test]
fn compile_writes_what_a_launch_needs() {
    let dir = folder();
    insta::assert_snapshot!(
        "compile",
        seen(dir.path(), &["compile", &example("vector_add.tile"), "-s", "T=f16", "-o", "add"])
    );
    let artifact = std::fs::read_to_string(dir.path().join("add.json")).expect("an artifact");
    let artifact = flashc_ir::artifact::Artifact::from_json(&artifact).expect("of this format");
    let ptx = std::fs::read_to_string(dir.path().join("add.ptx")).expect("PTX");
    assert_eq!(artifact.variants[0].ptx, ptx);
    assert!(ptx.contains(".target sm_90a"));
    let timed = seen(dir.path(), &["compile", &example("vector_add.tile"), "--time-passes", "-o", "-"]);
    assert!(timed.contains("front end") && timed.contains("llvm and ptx"), "{timed}");
    assert_eq!(std::fs::read_dir(dir.path()).expect("the folder").count(), 3, "-o - writes nothing");
}

#[test]
fn every_stage_can_be_seen() {
    let dir = folder();
    let file = example("vector_add.tile");
    for (stage, has) in [
        ("tokens", "vector_add"),
        ("ast", "kernel vector_add"),
        ("hir", "kernel vector_add"),
        ("tile", "tile.load"),
        ("sm90", "variant fallback"),
        ("llvm", "define ptx_kernel void @vector_add"),
        ("ptx", ".entry vector_add"),
    ] {
        let text = seen(dir.path(), &["compile", &file, "--emit", stage]);
        assert!(text.starts_with("exit 0") && text.contains(has), "{stage}: {text}");
    }
    let dumped = seen(dir.path(), &["compile", &file, "--dump-after", "assign-layouts", "-o", "-"]);
    assert!(dumped.contains("after assign-layouts, variant fallback"), "{dumped}");
}

#[test]
fn wrong_programs_are_explained() {
    let dir = folder();
    std::fs::write(
        dir.path().join("bad.tile"),
        "kernel k(x: tensor(f32)[N]) dims N grid (1) { let t = y[0 :+ 8]; }",
    )
    .expect("a file");
    insta::assert_snapshot!("check", seen(dir.path(), &["check", "bad.tile", &example("matmul.tile")]));
    insta::assert_snapshot!("explain", seen(dir.path(), &["explain", "e0301"]));
    insta::assert_snapshot!("explain_unknown", seen(dir.path(), &["explain", "X1"]));
    let missing = seen(dir.path(), &["compile", &example("flash_attention_fwd.tile")]);
    assert!(missing.starts_with("exit 1") && missing.contains("--set NAME=VALUE"), "{missing}");
}

#[test]
fn the_command_line_is_checked() {
    let dir = folder();
    let file = example("softmax.tile");
    let all = [
        seen(dir.path(), &["check", "nowhere.tile"]),
        seen(dir.path(), &["compile", &file, "--dump-after", "nothing"]),
        seen(dir.path(), &["compile", &file, "--set", "BM"]),
        seen(dir.path(), &["run", &file, "--device", "cpu", "--out", "y.npy"]),
        seen(dir.path(), &["run", &file, "--device", "cpu", "--case", "99"]),
        seen(dir.path(), &["run", &file, "--device", "cpu", "--dim", "K=3"]),
        seen(dir.path(), &["run", &file, "--device", "cpu", "--case", "1", "--reference", "layer_norm"]),
    ];
    insta::assert_snapshot!("usage", all.join("\n"));
    let unknown = seen(dir.path(), &["run", &file, "--device", "cpu", "--reference", "nothing"]);
    assert!(unknown.contains("error: no reference `nothing`") && unknown.contains("softmax"), "{unknown}");
}

#[test]
fn runs_compare_with_the_reference() {
    let dir = folder();
    let text = seen(dir.path(), &["run", &example("vector_add.tile"), "--device", "cpu", "--case", "2"]);
    assert!(
        text.starts_with("exit 0") && text.contains("N=1023") && text.trim_end().ends_with("ok"),
        "{text}"
    );
    let after =
        ["run", &example("softmax.tile"), "--after", "place-barriers", "--dim", "M=5", "--dim", "N=70"];
    let text = seen(dir.path(), &after);
    assert!(text.starts_with("exit 0") && text.contains("after place-barriers"), "{text}");
    let wrong =
        std::fs::read_to_string(example("vector_add.tile")).expect("the example").replace("] + y", "] - y");
    std::fs::write(dir.path().join("wrong.tile"), wrong).expect("a file");
    let text = seen(dir.path(), &["run", "wrong.tile", "--device", "cpu", "--case", "1"]);
    assert!(text.starts_with("exit 4") && text.contains("WRONG") && text.contains("z[0] is"), "{text}");
}

#[test]
fn results_travel_through_files() {
    let dir = folder();
    let file = example("softmax.tile");
    let first = ["run", &file, "--device", "cpu", "--dim", "M=3", "--dim", "N=40", "--out", "y.safetensors"];
    let text = seen(dir.path(), &first);
    assert!(text.starts_with("exit 0") && text.contains("outputs: y.safetensors"), "{text}");
    let text = seen(dir.path(), &["run", &file, "--device", "cpu", "--in", "y.safetensors"]);
    assert!(text.starts_with("exit 2") && text.contains("`y` is an output"), "{text}");
    let text =
        seen(dir.path(), &["run", &file, "--device", "cpu", "--in", "x=y.safetensors", "--out", "z.npy"]);
    assert!(text.starts_with("exit 0") && text.contains("M=3 N=40"), "{text}");
    assert!(std::fs::read(dir.path().join("z.npy")).is_ok_and(|b| b.starts_with(b"\x93NUMPY")));
}

#[test]
fn selftest_runs_on_the_interpreter() {
    let dir = folder();
    let text = seen(dir.path(), &["selftest", "--cpu", "vector_add N=10"]);
    assert!(text.starts_with("exit 0") && text.contains("2 passed, 0 failed"), "{text}");
    let list = seen(dir.path(), &["selftest", "--list"]);
    assert!(list.lines().count() > 40 && list.contains("\nthree_dots "), "{list}");
}
