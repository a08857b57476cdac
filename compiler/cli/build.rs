//! Embeds the example programs and the run corpus into the binary, for `flashc selftest`.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut list = String::from("&[\n");
    for folder in ["dsl-examples", "tests/corpus/run"] {
        let path = root.join(folder);
        println!("cargo:rerun-if-changed={}", path.display());
        let mut files: Vec<PathBuf> = fs::read_dir(&path)?.flatten().map(|e| e.path()).collect();
        files.retain(|p| p.extension().is_some_and(|e| e == "tile"));
        files.sort();
        for file in files {
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            println!("cargo:rerun-if-changed={}", file.display());
            let _ = writeln!(list, "    (\"{folder}/{name}\", include_bytes!({:?})),", file.canonicalize()?);
        }
    }
    list.push(']');
    let out = env::var_os("OUT_DIR").map(PathBuf::from).ok_or(io::ErrorKind::NotFound)?;
    fs::write(out.join("programs.rs"), list)
}
