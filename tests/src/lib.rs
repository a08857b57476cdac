//! The harness: finds cases, compiles them, shows what they became.

use flashc_compiler::passes::Choices;
use flashc_compiler::pipeline::Pass;
use flashc_compiler::run_header::{self, RunHeader};
use flashc_compiler::{CompileOptions, Compiled, Failure, Observer, Quiet, compile};
use flashc_ir::Func;
use std::path::{Path, PathBuf};

/// The repository's root.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The `.tile` files of a folder of the repository, sorted; an empty folder is an error in the test.
///
/// # Panics
/// If there are none.
pub fn programs(folder: &str) -> Vec<PathBuf> {
    let dir = root().join(folder);
    let mut all: Vec<PathBuf> = std::fs::read_dir(&dir)
        .unwrap_or_else(|e| panic!("{}: {e}", dir.display()))
        .map(|f| f.expect("a readable folder").path())
        .filter(|p| p.extension().is_some_and(|e| e == "tile"))
        .collect();
    all.sort();
    assert!(!all.is_empty(), "no programs in {folder}");
    all
}

/// The programs of a folder with their run headers: file name, text, header.
///
/// # Panics
/// If a program has none, or one that cannot be read.
pub fn program_cases(folder: &str) -> Vec<(String, String, RunHeader)> {
    let read = |path: PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{name}: {e}"));
        let header = run_header::parse(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
        let header = header.unwrap_or_else(|| panic!("{name} has no run header"));
        (name, text, header)
    };
    programs(folder).into_iter().map(read).collect()
}

/// The different specializations that a program's cases ask for.
pub fn specializations(header: &RunHeader) -> Vec<Vec<(String, String)>> {
    let mut all: Vec<Vec<(String, String)>> = vec![];
    for case in &header.cases {
        let mut set: Vec<(String, String)> = vec![];
        for (k, v) in &case.set {
            set.retain(|x| x.0 != *k);
            set.push((k.clone(), v.clone()));
        }
        if !all.contains(&set) {
            all.push(set);
        }
    }
    all
}

/// Values of `// NAME: ...` lines at the top of a case, whitespace-separated words of all such lines.
pub fn header(text: &str, name: &str) -> Vec<String> {
    text.lines()
        .take_while(|l| l.starts_with("//"))
        .filter_map(|l| l.trim_start_matches('/').trim().strip_prefix(name)?.strip_prefix(':'))
        .flat_map(|l| l.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        .collect()
}

/// `K=V` words as pairs.
pub fn pairs(words: &[String]) -> Vec<(String, String)> {
    words.iter().filter_map(|w| w.split_once('=')).map(|(k, v)| (k.to_owned(), v.to_owned())).collect()
}

/// Compiles a program's text; the name appears in messages.
///
/// # Errors
/// What the compiler says.
pub fn compile_text(name: &str, text: &str, set: &[(String, String)]) -> Result<Compiled, Failure> {
    let options = CompileOptions { set: set.to_vec(), ..CompileOptions::default() };
    compile(name, text.as_bytes(), &options, &mut Quiet)
}

/// Keeps the function after each pass.
#[derive(Default)]
pub struct Trace {
    /// Pass, whether it reassociates, variant, function.
    pub after: Vec<(&'static str, bool, String, Func)>,
    /// Texts after the pass named here.
    pub dump: Option<String>,
    /// Variant and text.
    pub dumps: Vec<(String, String)>,
}

impl Observer for Trace {
    fn wants(&self, pass: &str) -> bool {
        self.dump.as_deref() == Some(pass)
    }
    fn dump(&mut self, _pass: &str, variant: &str, text: &str) {
        self.dumps.push((variant.into(), text.into()));
    }
    fn after(&mut self, pass: &Pass, variant: &str, func: &Func) {
        self.after.push((pass.name, pass.reassociates, variant.into(), func.clone()));
    }
}

/// Compiles and keeps every step.
///
/// # Errors
/// What the compiler says.
pub fn trace(
    name: &str,
    text: &str,
    set: &[(String, String)],
    dump: Option<&str>,
) -> Result<(Compiled, Trace), Failure> {
    trace_with(name, text, set, dump, Choices::default())
}

/// The same with choices.
///
/// # Errors
/// What the compiler says.
pub fn trace_with(
    name: &str,
    text: &str,
    set: &[(String, String)],
    dump: Option<&str>,
    choices: Choices,
) -> Result<(Compiled, Trace), Failure> {
    let options = CompileOptions { set: set.to_vec(), choices, ..CompileOptions::default() };
    let mut t = Trace { dump: dump.map(str::to_owned), ..Trace::default() };
    let compiled = compile(name, text.as_bytes(), &options, &mut t)?;
    Ok((compiled, t))
}

/// What a variant's PTX holds: counts a reviewer can judge.
pub fn ptx_summary(ptx: &str) -> String {
    let rows = [
        ("wgmma", "wgmma.mma_async"),
        ("wgmma waits", "wgmma.wait_group"),
        ("bulk-tensor loads", ".shared::cta.global.tile.mbarrier"),
        ("bulk-tensor stores", ".global.shared::cta.tile.bulk_group"),
        ("mbarrier waits", "mbarrier.try_wait"),
        ("cta barriers", "bar.sync"),
        ("proxy fences", "fence.proxy.async"),
        ("shuffles", "shfl.sync"),
        ("16-byte global loads", "ld.global.v4.b32"),
        ("global loads", "ld.global"),
        ("16-byte global stores", "st.global.v4.b32"),
        ("global stores", "st.global"),
        ("shared loads", "ld.shared"),
        ("shared stores", "st.shared"),
        ("matrix stores", "stmatrix"),
        ("local accesses", ".local."),
        ("exp2", "ex2.approx"),
    ];
    let mut out = String::new();
    for (name, needle) in rows {
        let n = ptx.matches(needle).count();
        if n > 0 {
            out.push_str(&format!("{name}: {n}\n"));
        }
    }
    out
}
