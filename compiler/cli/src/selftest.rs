//! `flashc selftest`: every built-in program with every case of its header, on this machine. Needs no
//! files, no compiler and no CUDA toolkit.

use crate::args::Selftest;
use crate::cases;
use crate::execute::{Launch, Problem, compare};
use crate::exit::{Exit, Result, out, usage};
use crate::program;
use crate::run::device;
use crate::table::{Paint, Table, colors};
use flashc_compiler::reference::{self, Outputs, Signature};
use flashc_compiler::run_header::{Case, RunHeader};
use flashc_compiler::{CompileOptions, Compiled, Quiet};
use flashc_runtime::{Device, Kernel, LoadOptions, watchdog};
use std::time::{Duration, Instant};

/// Name and text of the built-in programs.
const PROGRAMS: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/programs.rs"));

/// A specialization, compiled if that worked.
#[derive(Debug)]
struct Attempt<'a> {
    set: &'a [(String, String)],
    ready: Option<Ready>,
}

/// A compiled specialization, ready to run.
#[derive(Debug)]
struct Ready {
    compiled: Compiled,
    kernel: Option<Kernel>,
}

/// How a case can go.
#[derive(Debug, Default)]
struct Tally {
    passed: usize,
    failed: usize,
    worst: Option<Exit>,
}

struct Suite<'a> {
    args: &'a Selftest,
    table: Table,
    gpu: Option<Device>,
    tally: Tally,
}

/// Runs it.
pub(crate) fn selftest(args: &Selftest) -> Result<Exit> {
    if args.list {
        for (name, text) in PROGRAMS {
            let cases = cases::header(name, text)?.cases;
            cases.iter().for_each(|c| out!("{}", label(name, c)));
        }
        return Ok(Exit::Ok);
    }
    let wanted = if args.cpu { crate::args::Device::Cpu } else { crate::args::Device::Gpu };
    let gpu = device(wanted, args.gpu)?;
    match &gpu {
        Some(d) => {
            let f = d.facts();
            out!("on GPU {}: {}, driver for CUDA {}.{}", d.ordinal(), f.name, f.driver.0, f.driver.1);
        }
        None => out!("on the CPU, by the interpreter of tile IR"),
    }
    let table = Table::new(colors(&std::io::stdout()))
        .words("case", 78)
        .words("variant", 8)
        .numbers("error/bound", 11)
        .numbers("ms", 8)
        .words("", 6);
    out!("{}", table.head());
    let mut suite = Suite { args, table, gpu, tally: Tally::default() };
    let started = Instant::now();
    for (name, text) in PROGRAMS {
        if let Err(stop) = suite.program(name, text) {
            out!("stopped: {stop}");
            out!("the cases after it did not run; start again with a filter to leave it out");
            break;
        }
    }
    let Tally { passed, failed, worst } = suite.tally;
    out!("\n{passed} passed, {failed} failed, in {:.1} s", started.elapsed().as_secs_f64());
    if passed + failed == 0 {
        return Err(usage("no case has this in its name: `flashc selftest --list` shows them"));
    }
    Ok(worst.unwrap_or(Exit::Ok))
}

impl Suite<'_> {
    /// Every case of a program. An error ends the suite.
    fn program(&mut self, name: &str, text: &[u8]) -> std::result::Result<(), Problem> {
        let header = cases::header(name, text).map_err(|_| Problem::Case(format!("the header of {name}")))?;
        let mut attempt: Option<Attempt<'_>> = None;
        for case in &header.cases {
            let label = label(name, case);
            if !self.args.filter.is_empty() && !self.args.filter.iter().any(|f| label.contains(f.as_str())) {
                continue;
            }
            let _guard = watchdog::Guard::new(Duration::from_secs(self.args.timeout), &label);
            // Neighbouring cases often share a specialization.
            if attempt.as_ref().is_none_or(|a| a.set != case.set) {
                let ready = self.compile(name, text, &header, case, &label);
                let failed = ready.is_none();
                attempt = Some(Attempt { set: &case.set, ready });
                if failed {
                    continue; // and it has been said
                }
            }
            match attempt.as_ref().and_then(|a| a.ready.as_ref()) {
                Some(ready) => self.case(&header, case, &label, ready)?,
                None => self.failed(&label, "", Instant::now(), Exit::Program),
            }
        }
        Ok(())
    }

    fn compile(
        &mut self,
        name: &str,
        text: &[u8],
        header: &RunHeader,
        case: &Case,
        label: &str,
    ) -> Option<Ready> {
        let options = CompileOptions {
            kernel: header.kernel.clone(),
            set: case.set.clone(),
            choices: program::choices(&self.args.choose),
            ..CompileOptions::default()
        };
        let started = Instant::now();
        let compiled = match flashc_compiler::compile(name, text, &options, &mut Quiet) {
            Ok(c) => c,
            Err(f) => {
                self.failed(label, "", started, Exit::Program);
                let failed = program::describe(&f, name, &options);
                eprint!("{}", failed.text);
                self.tally.worst = self.tally.worst.max(Some(failed.exit));
                return None;
            }
        };
        let kernel = match self.gpu.as_ref().map(|d| Kernel::load(d, &compiled.artifact, &load_all())) {
            Some(Err(e)) => {
                self.failed(label, "", started, Exit::Launch);
                out!("  {}", e.render().replace('\n', "\n  "));
                return None;
            }
            Some(Ok(k)) => {
                let warned = |v| k.warnings(v).map(<[String]>::to_vec).unwrap_or_default();
                let warnings: Vec<String> = (0..compiled.artifact.variants.len()).flat_map(warned).collect();
                if !warnings.is_empty() {
                    self.failed(label, "", started, Exit::Launch);
                    out!("  the driver's compiler: {}", warnings.join("\n  "));
                    return None;
                }
                Some(k)
            }
            None => None,
        };
        Some(Ready { compiled, kernel })
    }

    /// On a GPU: as it is, and off alignment so that the last variant runs. Twice must give the same bits.
    fn case(
        &mut self,
        header: &RunHeader,
        case: &Case,
        label: &str,
        Ready { compiled, kernel }: &Ready,
    ) -> std::result::Result<(), Problem> {
        let shifts: &[i64] = if kernel.is_some() { &[0, 1] } else { &[0] };
        let mut before: Option<(usize, Outputs)> = None;
        for shift in shifts {
            let started = Instant::now();
            let mut variant = String::new();
            let mut index = None;
            let result =
                Launch::new(Signature::from(&compiled.artifact), header, case, &[]).and_then(|mut launch| {
                    let outputs = match kernel {
                        Some(kernel) => {
                            let (outputs, report) = launch.on_gpu(kernel, *shift)?;
                            variant.clone_from(&compiled.artifact.variants[report.variant].name);
                            index = Some(report.variant);
                            let again = launch.on_gpu(kernel, *shift)?.0;
                            if !same(&outputs, &again) {
                                return Err(Problem::Wrong("a second launch gave other results".into()));
                            }
                            outputs
                        }
                        None => launch.on_cpu(&compiled.imported)?,
                    };
                    Ok((launch.inputs, outputs))
                });
            let (inputs, outputs) = match result {
                Ok(r) => r,
                Err(problem) => {
                    self.failed(label, &variant, started, crate::run::status(&problem));
                    out!("  {problem}");
                    if matches!(problem, Problem::Fault(_)) {
                        return Err(problem);
                    }
                    continue;
                }
            };
            if before.as_ref().is_some_and(|(i, o)| Some(*i) == index && same(o, &outputs)) {
                continue; // the same variant with the same results: nothing new to say
            }
            self.compare(header, case, label, compiled, (&variant, started), &inputs, &outputs)?;
            before = index.map(|i| (i, outputs));
        }
        Ok(())
    }

    #[allow(clippy::too_many_arguments, reason = "what a line of the table says")]
    fn compare(
        &mut self,
        header: &RunHeader,
        case: &Case,
        label: &str,
        made: &Compiled,
        (variant, started): (&str, Instant),
        inputs: &reference::Inputs,
        outputs: &Outputs,
    ) -> std::result::Result<(), Problem> {
        let tensors = &made.artifact.tensors;
        let compared = compare(header, case, tensors, inputs, outputs)?;
        let ratio =
            compared.iter().map(|c| if c.error == 0.0 { 0.0 } else { c.error / c.bound }).fold(0.0, f64::max);
        let bad: Vec<_> = compared.iter().filter(|c| !c.ok).collect();
        if bad.is_empty() {
            let ms = format!("{:.0}", started.elapsed().as_secs_f64() * 1e3);
            out!("{}", self.table.verdict(&[label, variant, &format!("{ratio:.2}"), &ms, "ok"], Paint::Good));
            self.tally.passed += 1;
            return Ok(());
        }
        self.failed(label, variant, started, Exit::Differs);
        bad.iter().for_each(|c| out!("  {c}"));
        Ok(())
    }

    fn failed(&mut self, label: &str, variant: &str, started: Instant, status: Exit) {
        let ms = format!("{:.0}", started.elapsed().as_secs_f64() * 1e3);
        out!("{}", self.table.verdict(&[label, variant, "", &ms, "FAILED"], Paint::Bad));
        self.tally.failed += 1;
        self.tally.worst = self.tally.worst.max(Some(status));
    }
}

/// A case's name: the program's, without folder and extension, and what is particular.
fn label(program: &str, case: &Case) -> String {
    let name = program.rsplit('/').next().unwrap_or(program).trim_end_matches(".tile");
    format!("{name} {}", cases::label(case))
}

fn load_all() -> LoadOptions {
    LoadOptions { preload_all: true, ..LoadOptions::default() }
}

/// Equal to the bit, but for the sign and payload of NaN.
fn same(a: &Outputs, b: &Outputs) -> bool {
    let equal = |x: &f64, y: &f64| x.to_bits() == y.to_bits() || (x.is_nan() && y.is_nan());
    a.len() == b.len()
        && a.iter().zip(b).all(|((n, x), (m, y))| {
            n == m && x.shape == y.shape && x.data.iter().zip(&y.data).all(|(x, y)| equal(x, y))
        })
}
