//! `flashc run`: compiles a program, runs its cases, compares with a reference.

use crate::args::{self, Run};
use crate::cases;
use crate::execute::{Launch, Problem, compare, short};
use crate::exit::{Exit, Result, out, usage};
use crate::program::{self, Program, Watch};
use crate::table::{Paint, Table, colors};
use crate::tensors::{self, FileTensor};
use flashc_compiler::reference::{self, Outputs, Signature};
use flashc_compiler::run_header::{Case, RunHeader};
use flashc_compiler::{CompileOptions, Compiled};
use flashc_ir::Func;
use flashc_runtime::{Device, Kernel, LoadOptions, watchdog};
use std::path::Path;
use std::time::{Duration, Instant};

/// Runs it.
pub(crate) fn run(args: &Run) -> Result<Exit> {
    let program = Program::read(&args.file)?;
    program.check()?;
    if let Some(pass) = &args.after {
        program::known_pass(pass)?;
    }
    let header = header(args, &program)?;
    let files = inputs(&args.input)?;
    let todo = cases::cases(&header, &args.specialize, &args.inputs, !files.is_empty())?;
    if args.output.is_some() && todo.len() != 1 {
        let n = todo.len();
        return Err(usage(format!("--out holds the results of one case, not of {n}: add --case N or --dim")));
    }
    let gpu = if args.after.is_some() { None } else { device(args.device, args.gpu)? };
    match (&gpu, &args.after) {
        (Some(d), _) => out!("on GPU {}: {}", d.ordinal(), d.facts().name),
        (None, None) => out!("on the CPU: the interpreter runs the program as imported"),
        (None, Some(pass)) => out!("on the CPU: the interpreter runs the IR after {pass}"),
    }
    let width = todo.iter().map(|c| cases::label(c).chars().count()).max().unwrap_or(0).min(72);
    let table = Table::new(colors(&std::io::stdout()))
        .words("case", width)
        .words("output", 6)
        .numbers("max error", 9)
        .numbers("allowed", 8)
        .numbers("s", 6)
        .words("", 6);
    out!("{}", table.head());
    let mut session = Session { args, program, header, files, gpu, table, ready: None, said: String::new() };
    let mut worst = Exit::Ok;
    for case in todo {
        let (exit, go_on) = session.case(case);
        worst = worst.max(exit);
        if !go_on {
            break;
        }
    }
    Ok(worst)
}

/// A compiled specialization, ready to run.
#[derive(Debug)]
struct Ready {
    set: Vec<(String, String)>,
    compiled: Compiled,
    /// For the interpreter.
    func: Func,
    kernel: Option<Kernel>,
}

struct Session<'a> {
    args: &'a Run,
    program: Program,
    header: RunHeader,
    files: Vec<(String, FileTensor)>,
    gpu: Option<Device>,
    table: Table,
    ready: Option<Ready>,
    /// The last failure to compile, which need not be said again.
    said: String,
}

impl Session<'_> {
    /// One case; false if the ones after it make no sense.
    fn case(&mut self, mut case: Case) -> (Exit, bool) {
        let label = cases::label(&case);
        // Neighbouring cases often share a specialization.
        if self.ready.as_ref().is_none_or(|r| r.set != case.set) {
            match self.compile(&case) {
                Ok(ready) => self.ready = Some(ready),
                Err(exit) => {
                    out!("{}", self.table.verdict(&[&label, "", "", "", "", "FAILED"], Paint::Bad));
                    return (exit, true);
                }
            }
        }
        let Some(Ready { compiled, func, kernel, .. }) = &self.ready else { return (Exit::Bug, false) };
        let signature = Signature::from(&compiled.artifact);
        let started = Instant::now();
        let result = cases::dims_from(&mut case, &signature, &self.args.inputs, &self.files)
            .map_err(Problem::Case)
            .and_then(|()| Launch::new(signature, &self.header, &case, &self.files))
            .and_then(|mut launch| {
                let outputs = match kernel {
                    Some(kernel) => {
                        let _guard = watchdog::Guard::new(Duration::from_secs(self.args.timeout), &label);
                        launch.on_gpu(kernel, 0)?.0
                    }
                    None => launch.on_cpu(func)?,
                };
                Ok((launch, outputs))
            });
        let seconds = format!("{:.2}", started.elapsed().as_secs_f64());
        let label = cases::label(&case);
        match result {
            Ok((launch, outputs)) => {
                let exit = self.show(&case, &launch, &outputs, compiled, &seconds).unwrap_or_else(|e| e);
                let written = self.args.output.as_ref().map(|path| {
                    tensors::write(path, &launch.files()).inspect(|()| out!("outputs: {}", path.display()))
                });
                (exit.max(written.transpose().map_err(usage).err().unwrap_or(Exit::Ok)), true)
            }
            Err(problem) => {
                out!("{}", self.table.verdict(&[&label, "", "", "", &seconds, "FAILED"], Paint::Bad));
                eprintln!("{problem}");
                (status(&problem), !matches!(problem, Problem::Fault(_)))
            }
        }
    }

    fn compile(&mut self, case: &Case) -> Result<Ready> {
        let options = CompileOptions {
            kernel: self.args.specialize.kernel.clone().or(self.header.kernel.clone()),
            set: case.set.clone(),
            ..program::options(&self.args.specialize)
        };
        let mut watch = Watch::keeping(self.args.after.as_deref());
        let compiled = self.program.try_compile(&options, &mut watch).map_err(|failed| {
            if failed.text != self.said {
                eprint!("{}", failed.text);
            }
            self.said = failed.text;
            failed.exit
        })?;
        let kernel = self.gpu.as_ref().map(|d| Kernel::load(d, &compiled.artifact, &LoadOptions::default()));
        let kernel = kernel.transpose().map_err(|e| {
            eprintln!("{}", e.render());
            Exit::Launch
        })?;
        let func = watch.kept().unwrap_or_else(|| compiled.imported.clone());
        Ok(Ready { set: case.set.clone(), compiled, func, kernel })
    }

    /// A line for each output.
    fn show(
        &self,
        case: &Case,
        launch: &Launch<'_>,
        outputs: &Outputs,
        compiled: &Compiled,
        seconds: &str,
    ) -> Result<Exit> {
        let label = cases::label(case);
        let mut first = (label.as_str(), seconds);
        if self.header.reference.is_empty() {
            for (name, array) in outputs {
                let shape: Vec<_> = array.shape.iter().map(|n| n.to_string()).collect();
                let output = format!("{name}[{}]", shape.join(", "));
                let cells = [first.0, &output, "", "", first.1, "not compared"];
                out!("{}", self.table.verdict(&cells, Paint::Dim));
                first = ("", "");
            }
            return Ok(Exit::Ok);
        }
        let tensors = &compiled.artifact.tensors;
        let compared = compare(&self.header, case, tensors, &launch.inputs, outputs).map_err(|problem| {
            eprintln!("{problem}");
            status(&problem)
        })?;
        let mut worst = Exit::Ok;
        for c in compared {
            let (verdict, paint) = if c.ok { ("ok", Paint::Good) } else { ("WRONG", Paint::Bad) };
            let cells = [first.0, &c.name, &short(c.error), &short(c.bound), first.1, verdict];
            out!("{}", self.table.verdict(&cells, paint));
            if let (false, Some((at, got, want))) = (c.ok, &c.worst) {
                worst = Exit::Differs;
                out!("  {}{at:?} is {got}, expected {want}", c.name);
            }
            first = ("", "");
        }
        Ok(worst)
    }
}

/// The header with the reference of the command line.
fn header(args: &Run, program: &Program) -> Result<RunHeader> {
    let mut header = cases::header(&program.name, &program.bytes)?;
    match args.reference.as_deref() {
        Some("none") => header.reference.clear(),
        Some(name) if reference::reference(name).is_none() => {
            let known: Vec<_> = reference::REFERENCES.iter().map(|r| r.0).collect();
            return Err(usage(format!(
                "no reference `{name}`\n  help: `none`, or one of {}",
                known.join(", ")
            )));
        }
        Some(name) => header.reference = name.into(),
        None => {}
    }
    Ok(header)
}

/// The exit status of a problem.
pub(crate) fn status(problem: &Problem) -> Exit {
    match problem {
        Problem::Case(_) => Exit::Usage,
        Problem::Launch(_) | Problem::Fault(_) => Exit::Launch,
        Problem::Wrong(_) => Exit::Differs,
    }
}

/// The GPU, or none for the interpreter.
pub(crate) fn device(wanted: args::Device, ordinal: i32) -> Result<Option<Device>> {
    if wanted == args::Device::Cpu {
        return Ok(None);
    }
    match Device::open(ordinal) {
        Ok(d) => Ok(Some(d)),
        Err(_) if wanted == args::Device::Auto => Ok(None),
        Err(e) => {
            eprintln!("{}", e.render());
            Err(Exit::Launch)
        }
    }
}

/// The tensors that files give.
fn inputs(list: &[String]) -> Result<Vec<(String, FileTensor)>> {
    let mut all: Vec<(String, FileTensor)> = vec![];
    for item in list {
        let (name, path) = match item.split_once('=') {
            Some((name, path)) => (Some(name), path),
            None => (None, item.as_str()),
        };
        for (own, tensor) in tensors::read(Path::new(path)).map_err(usage)? {
            let name = name.map_or(own, str::to_owned);
            if all.iter().any(|t| t.0 == name) {
                return Err(usage(format!("`{name}` is given twice")));
            }
            all.push((name, tensor));
        }
    }
    Ok(all)
}
