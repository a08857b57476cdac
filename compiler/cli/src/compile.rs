//! `flashc compile`: PTX, the artifact, machine code, or one stage of the way there.

use crate::args::{Compile, Emit};
use crate::exit::{Exit, Result, out, usage};
use crate::program::{self, Program, Watch};
use crate::table::{Table, colors};
use flashc_compiler::{CompileOptions, Compiled};
use flashc_front::diagnostic::render;
use flashc_front::source::Source;
use flashc_ir::Func;
use flashc_mlir::Context;
use flashc_runtime::ptxas::{self, Assembled};
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

/// Runs it.
pub(crate) fn compile(args: &Compile) -> Result<Exit> {
    let program = Program::read(&args.file)?;
    for name in args.dump_after.iter().filter(|n| *n != "all") {
        program::known_pass(name)?;
    }
    if let Some(stage @ (Emit::Tokens | Emit::Ast | Emit::Hir)) = args.emit {
        return front(args, &program, stage);
    }
    let options = CompileOptions {
        line_info: args.line_info,
        keep_llvm: args.emit == Some(Emit::Llvm),
        ..program::options(&args.specialize)
    };
    let mut watch = Watch::new(&args.dump_after);
    if args.emit == Some(Emit::Tile) && args.dump_after.is_empty() {
        let front = flashc_compiler::front(&program.name, &program.bytes, &options, &mut watch);
        let front = front.map_err(|f| {
            let failed = program::describe(&f, &program.name, &options);
            eprint!("{}", failed.text);
            failed.exit
        })?;
        watch.stop();
        times(args, &watch);
        return put(args, mlir(&front.imported.func)?.as_bytes());
    }
    let mut compiled = program.compile(&options, &mut watch)?;
    watch.stop();
    match args.emit {
        Some(Emit::Cubin) => {
            let ptxas = ptxas::find(args.ptxas.as_deref()).map_err(|e| launch(&e))?;
            let first = compiled.artifact.variants.first();
            let ptx = first.map(|v| v.ptx.as_str()).unwrap_or_default();
            let cubin =
                ptxas::assemble(ptx, &compiled.artifact.target, &ptxas).map_err(|e| launch(&e))?.cubin;
            if args.output.is_none() && std::io::stdout().is_terminal() {
                return Err(usage("machine code is no text: give -o PATH"));
            }
            put(args, &cubin)?;
        }
        Some(stage) => put(args, text(&compiled, stage)?.as_bytes()).map(|_| ())?,
        None => files(args, &mut compiled)?,
    }
    times(args, &watch);
    Ok(Exit::Ok)
}

/// The stages before there is a specialization.
fn front(args: &Compile, program: &Program, stage: Emit) -> Result<Exit> {
    let color = colors(&std::io::stderr());
    let source = Source::from_bytes(&program.name, program.bytes.clone()).map_err(|d| {
        eprint!("{}", render(&[*d], &Source::new(&program.name, ""), color));
        Exit::Program
    })?;
    if stage == Emit::Tokens {
        return put(args, flashc_front::dump_tokens(&source).as_bytes());
    }
    let analysis = flashc_front::analyze(&source);
    eprint!("{}", render(&analysis.diagnostics, &source, color));
    let text = match stage {
        Emit::Ast => analysis.ast.as_ref().map(|f| f.dump()),
        _ => analysis.program.as_ref().map(|p| p.dump()),
    };
    match text {
        Some(text) => {
            put(args, text.as_bytes())?;
            Ok(if analysis.program.is_some() { Exit::Ok } else { Exit::Program })
        }
        None => Err(Exit::Program),
    }
}

/// A function as MLIR.
fn mlir(func: &Func) -> Result<String> {
    let written = Context::new().write(func).map(|m| m.print(false));
    written.map_err(|e| {
        eprintln!("error: a bug in flashc, in printing: {e}");
        Exit::Bug
    })
}

/// A stage of every variant as text.
fn text(compiled: &Compiled, stage: Emit) -> Result<String> {
    let titled =
        |name: &str, text: &str, comment: &str| format!("{comment} variant {name}\n{}\n", text.trim_end());
    let variants = &compiled.artifact.variants;
    let all: Vec<String> = match stage {
        Emit::Tile => vec![mlir(&compiled.imported)?],
        Emit::Sm90 => {
            compiled.sm90.iter().map(|(n, f)| Ok(titled(n, &mlir(f)?, "//"))).collect::<Result<_>>()?
        }
        Emit::Llvm => compiled.llvm.iter().map(|(n, t)| titled(n, t, ";")).collect(),
        _ => variants.iter().map(|v| titled(&v.name, &v.ptx, "//")).collect(),
    };
    Ok(all.join("\n"))
}

/// To `-o`, else to standard output.
fn put(args: &Compile, bytes: &[u8]) -> Result<Exit> {
    match &args.output {
        Some(path) if path.as_os_str() != "-" => {
            write(path, bytes)?;
        }
        // A reader that has seen enough, as `head` has, is no error.
        _ => drop(std::io::stdout().write_all(bytes)),
    }
    Ok(Exit::Ok)
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    std::fs::write(path, bytes).map_err(|e| usage(format!("cannot write {}: {e}", path.display())))
}

fn launch(e: &flashc_runtime::Error) -> Exit {
    eprintln!("{}", e.render());
    Exit::Launch
}

fn times(args: &Compile, watch: &Watch) {
    if args.time_passes {
        eprint!("{}", watch.times());
    }
}

/// The default: every file that a launch or a reader may want, and a table of them.
fn files(args: &Compile, compiled: &mut Compiled) -> Result<()> {
    let stem = args.file.file_stem().filter(|s| *s != "-").map_or("kernel".into(), PathBuf::from);
    let base = args.output.clone().unwrap_or(stem);
    let writing = base.as_os_str() != "-";
    let named = |variant: usize, name: &str, extension: &str| {
        let mut path = base.clone().into_os_string();
        if variant > 0 {
            path.push(format!(".{name}"));
        }
        path.push(format!(".{extension}"));
        PathBuf::from(path)
    };
    let ptxas = match ptxas::find(args.ptxas.as_deref()) {
        Ok(p) => Some(p),
        Err(e) if args.ptxas.is_some() => return Err(launch(&e)),
        Err(_) => None,
    };
    let artifact = &mut compiled.artifact;
    let values: Vec<_> = artifact.specialization.iter().map(|(k, v)| format!("{k}={v}")).collect();
    out!("{}[{}] for {}", artifact.kernel, values.join(", "), artifact.target);
    let table = Table::new(false)
        .words("variant", 8)
        .numbers("threads", 7)
        .numbers("shared", 8)
        .numbers("registers", 9)
        .numbers("spills", 8)
        .words("files", 0);
    out!("{}", table.head());
    let mut notes = vec![];
    for (i, v) in artifact.variants.iter_mut().enumerate() {
        let mut paths = vec![];
        if writing {
            let path = named(i, &v.name, "ptx");
            write(&path, v.ptx.as_bytes())?;
            paths.push(path);
        }
        let (mut registers, mut spills) = (String::new(), String::new());
        if let Some(ptxas) = &ptxas {
            let Assembled { cubin, entries, codes, warnings } =
                ptxas::assemble(&v.ptx, &artifact.target, ptxas).map_err(|e| launch(&e))?;
            if let Some(u) = entries.iter().find(|u| u.entry == v.entry) {
                v.registers = Some(u.registers);
                registers = u.registers.to_string();
                spills = format!("{} B", u.spill_stores + u.spill_loads);
            }
            let loud = |w: &&String| codes.iter().any(|c| w.contains(c.as_str()));
            notes.extend(
                warnings.iter().filter(loud).map(|w| format!("note: ptxas on variant {}: {w}", v.name)),
            );
            if writing {
                let path = named(i, &v.name, "cubin");
                write(&path, &cubin)?;
                paths.push(path);
            }
        }
        let files: Vec<_> = paths.iter().map(|p| p.display().to_string()).collect();
        let (threads, shared) = (v.threads.to_string(), format!("{} B", v.shared_bytes));
        out!("{}", table.row(&[&v.name, &threads, &shared, &registers, &spills, &files.join(" ")]));
    }
    if writing {
        let path = named(0, "", "json");
        write(&path, artifact.to_json().as_bytes())?;
        out!("artifact: {}", path.display());
    }
    notes.iter().for_each(|n| out!("{n}"));
    if ptxas.is_none() {
        out!("no ptxas found: no .cubin, registers unknown; a driver compiles the PTX when it is loaded");
    }
    Ok(())
}
