//! NVIDIA's assembler: finding it, running it, and reading what it says.

use crate::error::{Error, Result};
use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What ptxas made of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assembled {
    /// Machine code.
    pub cubin: Vec<u8>,
    /// What it said of each entry, in its order.
    pub entries: Vec<Usage>,
    /// Warnings and performance notes, one a line, without the leading words.
    pub warnings: Vec<String>,
    /// Codes of wgmma and scheduling notes among them: `C7510`.
    pub codes: Vec<String>,
}

/// Resources of one entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Its name.
    pub entry: String,
    /// Registers a thread.
    pub registers: u32,
    /// Bytes of spilled registers stored.
    pub spill_stores: u32,
    /// Bytes of spilled registers loaded.
    pub spill_loads: u32,
    /// Stack bytes a thread.
    pub stack: u32,
    /// Static shared memory in bytes.
    pub shared: u32,
    /// Named barriers.
    pub barriers: u32,
}

impl Assembled {
    /// The resources of an entry.
    pub fn usage(&self, entry: &str) -> Option<&Usage> {
        self.entries.iter().find(|u| u.entry == entry)
    }
}

/// Finds ptxas: the flag, then `FLASHC_PTXAS`, then `PATH`, then where pip's `nvidia-cuda-nvcc` puts it.
pub fn find(flag: Option<&Path>) -> Result<PathBuf> {
    let mut looked = Vec::new();
    for (place, path) in [
        ("the flag", flag.map(Path::to_path_buf)),
        ("FLASHC_PTXAS", env::var_os("FLASHC_PTXAS").filter(|v| !v.is_empty()).map(PathBuf::from)),
    ] {
        // One that is named must be there: another in its place would be a surprise.
        if let Some(path) = path {
            if path.is_file() {
                return Ok(path);
            }
            return Err(Error::PtxasMissing { looked: format!("{} ({place})", path.display()) });
        }
    }
    looked.push("FLASHC_PTXAS".to_owned());
    looked.push("PATH".to_owned());
    looked.push("pip's nvidia-cuda-nvcc".to_owned());
    let path = env::var_os("PATH");
    on_path(path.as_deref())
        .or_else(|| site_packages(path.as_deref()).iter().find_map(|site| in_site(site)))
        .ok_or(Error::PtxasMissing { looked: looked.join(", ") })
}

fn on_path(path: Option<&OsStr>) -> Option<PathBuf> {
    env::split_paths(path?).map(|d| d.join("ptxas")).find(|p| p.is_file())
}

/// ptxas in a folder of Python packages; the newest toolkit first.
fn in_site(site: &Path) -> Option<PathBuf> {
    ["nvidia/cu13/bin/ptxas", "nvidia/cuda_nvcc/bin/ptxas", "nvidia/cu12/bin/ptxas"]
        .iter()
        .map(|p| site.join(p))
        .find(|p| p.is_file())
}

/// Folders of Python packages: PYTHONPATH, the virtual environment, and beside each python on PATH.
fn site_packages(path: Option<&OsStr>) -> Vec<PathBuf> {
    let mut sites: Vec<PathBuf> =
        env::var_os("PYTHONPATH").map(|v| env::split_paths(&v).collect()).unwrap_or_default();
    let prefixes = env::var_os("VIRTUAL_ENV").map(PathBuf::from).into_iter().chain(
        path.into_iter()
            .flat_map(env::split_paths)
            .filter(|d| d.join("python3").exists())
            .filter_map(|d| d.parent().map(Path::to_path_buf)),
    );
    for prefix in prefixes {
        let Ok(entries) = prefix.join("lib").read_dir() else { continue };
        let pythons = entries
            .flatten()
            .map(|e| e.path())
            .filter(|p| p.file_name().and_then(OsStr::to_str).is_some_and(|n| n.starts_with("python3")));
        for python in pythons {
            sites.extend([python.join("site-packages"), python.join("dist-packages")]);
        }
    }
    sites
}

/// Assembles PTX for a target such as `sm_90a`.
pub fn assemble(ptx: &str, target: &str, ptxas: &Path) -> Result<Assembled> {
    let io = |action, path: &Path| {
        let path = path.to_path_buf();
        move |e: std::io::Error| Error::Io { action, path, text: e.to_string() }
    };
    let folder = tempfile::tempdir().map_err(io("making a folder in", &env::temp_dir()))?;
    let (input, output) = (folder.path().join("kernel.ptx"), folder.path().join("kernel.cubin"));
    std::fs::write(&input, ptx).map_err(io("writing", &input))?;
    let run = Command::new(ptxas)
        .args(["-v", &format!("-arch={target}"), "-o"])
        .args([&output, &input])
        .stdin(Stdio::null())
        .output()
        .map_err(io("running", ptxas))?;
    let mut log = String::from_utf8_lossy(&run.stderr).into_owned();
    log += &String::from_utf8_lossy(&run.stdout);
    let log = log.replace(&*input.to_string_lossy(), "kernel.ptx");
    if !run.status.success() {
        return Err(Error::Ptxas { reason: run.status.to_string(), log });
    }
    let cubin = std::fs::read(&output).map_err(io("reading", &output))?;
    let Report { entries, warnings, codes } = read_report(&log);
    Ok(Assembled { cubin, entries, warnings, codes })
}

/// What the output of `ptxas -v` says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// See [`Assembled::entries`].
    pub entries: Vec<Usage>,
    /// See [`Assembled::warnings`].
    pub warnings: Vec<String>,
    /// See [`Assembled::codes`].
    pub codes: Vec<String>,
}

/// Reads the output of `ptxas -v`.
pub fn read_report(log: &str) -> Report {
    let mut report = Report::default();
    for line in log.lines().map(str::trim) {
        if let Some(entry) =
            line.split("Compiling entry function '").nth(1).and_then(|r| r.split('\'').next())
        {
            report.entries.push(Usage { entry: entry.to_owned(), ..Usage::default() });
            continue;
        }
        let spilling = line.contains("bytes stack frame");
        let usage = line.contains("Used ") && line.contains("registers");
        if (spilling || usage)
            && let Some(u) = report.entries.last_mut()
        {
            u.stack = before(line, " bytes stack frame").unwrap_or(u.stack);
            u.spill_stores = before(line, " bytes spill stores").unwrap_or(u.spill_stores);
            u.spill_loads = before(line, " bytes spill loads").unwrap_or(u.spill_loads);
            u.registers = before(line, " registers").unwrap_or(u.registers);
            u.barriers = before(line, " barriers").unwrap_or(u.barriers);
            u.shared = before(line, " bytes smem").unwrap_or(u.shared);
            continue;
        }
        for word in line.split(|c: char| !c.is_ascii_alphanumeric()) {
            if is_note_code(word) && !report.codes.iter().any(|c| c == word) {
                report.codes.push(word.to_owned());
            }
        }
        let text = line.split_once("warning").or_else(|| line.contains("(C").then_some(("", line)));
        if let Some((_, text)) = text {
            let text = text.trim_start_matches("ptxas info").trim_start_matches([' ', ':']);
            report.warnings.push(text.to_owned());
        }
    }
    report
}

/// The number that stands before a phrase.
fn before(line: &str, phrase: &str) -> Option<u32> {
    let head = &line[..line.find(phrase)?];
    let start = head.rfind(|c: char| !c.is_ascii_digit()).map_or(0, |i| i + 1);
    head[start..].parse().ok()
}

fn is_note_code(word: &str) -> bool {
    word.len() == 5 && word.starts_with("C75") && word[1..].bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to insufficient register resources for the wgmma pipeline in the function 'attention_fwd'
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'attention_fwd' for 'sm_90a'
ptxas info    : Function properties for attention_fwd
    16 bytes stack frame, 12 bytes spill stores, 24 bytes spill loads
ptxas info    : Used 168 registers, used 7 barriers, 16 bytes cumulative stack size, 1024 bytes smem
ptxas info    : Compile time = 210.123 ms
ptxas /tmp/x.ptx, line 12; warning : Advisory: Modifier '.sp::ordered_metadata' should be used
ptxas info    : Compiling entry function 'pre' for 'sm_90a'
ptxas info    : Function properties for pre
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 32 registers, used 0 barriers
";

    #[test]
    fn reads_resources_warnings_and_codes() {
        insta::assert_debug_snapshot!(read_report(LOG), @r#"
        Report {
            entries: [
                Usage {
                    entry: "attention_fwd",
                    registers: 168,
                    spill_stores: 12,
                    spill_loads: 24,
                    stack: 16,
                    shared: 1024,
                    barriers: 7,
                },
                Usage {
                    entry: "pre",
                    registers: 32,
                    spill_stores: 0,
                    spill_loads: 0,
                    stack: 0,
                    shared: 0,
                    barriers: 0,
                },
            ],
            warnings: [
                "(C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to insufficient register resources for the wgmma pipeline in the function 'attention_fwd'",
                "Advisory: Modifier '.sp::ordered_metadata' should be used",
            ],
            codes: [
                "C7510",
            ],
        }
        "#);
    }

    #[test]
    fn a_named_ptxas_that_is_absent_is_an_error() {
        let e = find(Some(Path::new("/no/such/ptxas"))).unwrap_err();
        insta::assert_snapshot!(e.render(), @r"
        error[L0206]: ptxas not found; looked at /no/such/ptxas (the flag)
          help: name it with --ptxas or FLASHC_PTXAS, or `pip install nvidia-cuda-nvcc`
        ");
    }

    #[test]
    fn pip_layouts() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(in_site(dir.path()), None);
        let bin = dir.path().join("nvidia/cu13/bin");
        std::fs::create_dir_all(&bin).unwrap();
        std::fs::write(bin.join("ptxas"), b"").unwrap();
        assert_eq!(in_site(dir.path()), Some(bin.join("ptxas")));
        assert_eq!(on_path(Some(bin.as_os_str())), Some(bin.join("ptxas")));
    }

    /// Runs the real ptxas where there is one.
    #[test]
    fn assembles() {
        let Ok(ptxas) = find(None) else {
            eprintln!("no ptxas here");
            return;
        };
        let made = assemble(crate::samples::SCALE_PTX, "sm_90a", &ptxas).unwrap();
        assert!(made.cubin.starts_with(b"\x7fELF"));
        assert!(made.usage("scale").is_some_and(|u| u.registers > 0 && u.spill_stores == 0));
        assert_eq!(made.warnings, Vec::<String>::new());
        let e = assemble(".version 9.0\n.target sm_90a\nnonsense", "sm_90a", &ptxas).unwrap_err();
        assert!(e.to_string().contains("kernel.ptx, line 3"), "{e}");
    }
}
