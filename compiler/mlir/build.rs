//! Generates the `tile` and `sm90` dialects from their ODS files and compiles them with the C++ glue.
//!
//! The LLVM installation is the one that `mlir-sys` uses: the prefix in `MLIR_SYS_220_PREFIX`.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Options of mlir-tblgen and the file that each makes.
const GENERATORS: [(&str, &str); 8] = [
    ("-gen-dialect-decls -dialect=", "Dialect.h.inc"),
    ("-gen-dialect-defs -dialect=", "Dialect.cpp.inc"),
    ("-gen-attrdef-decls -attrdefs-dialect=", "Attrs.h.inc"),
    ("-gen-attrdef-defs -attrdefs-dialect=", "Attrs.cpp.inc"),
    ("-gen-typedef-decls -typedefs-dialect=", "Types.h.inc"),
    ("-gen-typedef-defs -typedefs-dialect=", "Types.cpp.inc"),
    ("-gen-op-decls -op-include-regex=^", "Ops.h.inc"),
    ("-gen-op-defs -op-include-regex=^", "Ops.cpp.inc"),
];

fn main() {
    println!("cargo:rerun-if-env-changed=MLIR_SYS_220_PREFIX");
    let prefix =
        PathBuf::from(std::env::var("MLIR_SYS_220_PREFIX").expect("MLIR_SYS_220_PREFIX: where LLVM 22 is"));
    let out = PathBuf::from(std::env::var("OUT_DIR").expect("cargo sets OUT_DIR"));
    let include = prefix.join("include");

    for (dialect, name) in [("tile", "Tile"), ("sm90", "Sm90")] {
        for (option, suffix) in GENERATORS {
            let regex_end = if option.contains("regex") { "\\." } else { "" };
            let source = format!("src/{dialect}/{name}Ops.td");
            let output = out.join(format!("{name}{suffix}"));
            tblgen(&prefix, &format!("{option}{dialect}{regex_end}"), &source, &output);
        }
    }

    println!("cargo:rerun-if-changed=src/tile");
    println!("cargo:rerun-if-changed=src/sm90");
    println!("cargo:rerun-if-changed=src/glue.cpp");
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .flag("-fno-exceptions")
        .flag("-fno-rtti")
        .flag("-ffunction-sections")
        .flag_if_supported("-Wno-unused-parameter")
        .flag_if_supported("-Wno-comment")
        .include("src")
        .include(&out)
        .flag(format!("-isystem{}", include.display()))
        .debug(false)
        .opt_level(1)
        .file("src/tile/Tile.cpp")
        .file("src/sm90/Sm90.cpp")
        .file("src/glue.cpp")
        .compile("flashc_dialects");
}

fn tblgen(prefix: &Path, options: &str, source: &str, output: &Path) {
    let status = Command::new(prefix.join("bin/mlir-tblgen"))
        .args(options.split(' '))
        .arg("-I")
        .arg(prefix.join("include"))
        .arg("-Isrc")
        .arg(source)
        .arg("-o")
        .arg(output)
        .status()
        .unwrap_or_else(|e| panic!("cannot run mlir-tblgen of {}: {e}", prefix.display()));
    assert!(status.success(), "mlir-tblgen {options} {source} failed");
}
