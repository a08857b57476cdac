//! The command line as data.

use clap::{Args, Parser, Subcommand, ValueEnum};
use flashc_compiler::passes::Choices;
use std::path::PathBuf;

const EXIT_CODES: &str = "\
Exit status:
  0   all is well
  1   the program is wrong: see the diagnostics
  2   the command line is wrong, or a file cannot be read or written
  3   loading or launching failed
  4   a result differs from its reference
  70  a bug in flashc
  86  the watchdog ended a run that took too long

Colours are off when the output is no terminal or NO_COLOR is set.";

const COMPILE_EXAMPLES: &str = "\
Examples:
  flashc compile matmul.tile                        matmul.ptx, matmul.json and, with ptxas, matmul.cubin
  flashc compile attention.tile --set D=128 -o fa   fa.ptx and so on
  flashc compile matmul.tile --emit tile            the IR as imported, on standard output
  flashc compile matmul.tile --dump-after all       the IR after every pass
  flashc compile matmul.tile --time-passes -o -     where the time goes, no files";

const RUN_EXAMPLES: &str = "\
Without --dim, the cases in the file's own header (lines `// run: …`) are run; a case that leaves a
dimension or a scalar out gets it from the first case of the header.

Examples:
  flashc run matmul.tile                            every case of the header
  flashc run matmul.tile --dim M=512 --dim N=512 --dim K=64 --set T=f16
  flashc run softmax.tile --in x=rows.npy --out result.safetensors
  flashc run matmul.tile --after place-barriers     simulate what the GPU would do, barriers and all
  flashc run attention.tile --in qkv.safetensors --scalar scale=0.125 --set D=64 --device cpu";

/// Compiles block programs in the tile language for NVIDIA GPUs, checks them and runs them.
#[derive(Debug, Parser)]
#[command(name = "flashc", version, after_help = EXIT_CODES, propagate_version = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Compile a program to PTX and an artifact that the runtime loads
    #[command(after_help = COMPILE_EXAMPLES)]
    Compile(Compile),
    /// Check programs and print what is wrong with them
    Check(Check),
    /// Compile a program and run it, on a GPU or on the CPU interpreter, against a reference
    #[command(after_help = RUN_EXAMPLES)]
    Run(Run),
    /// Measure a program on a GPU; one line of JSON a case
    Bench(Bench),
    /// List the compiler's passes
    Passes,
    /// Explain the code of an error, such as E0501 or L0307
    Explain(Explain),
    /// Run the built-in programs on this machine's GPU, each against its reference
    Selftest(Selftest),
}

/// Which kernel, and which specialization of it.
#[derive(Args, Clone, Debug)]
pub(crate) struct Specialize {
    /// The kernel to compile, if the file has several
    #[arg(long, value_name = "NAME")]
    pub kernel: Option<String>,
    /// Give a generic parameter its value: D=128, T=bf16, CAUSAL=true (repeatable)
    #[arg(short, long = "set", value_name = "K=V", value_parser = pair)]
    pub set: Vec<(String, String)>,
    /// Decide what passes leave to measurement (repeatable): order=auto|halves|program,
    /// schedule=auto|single, stores=auto|direct|tma
    #[arg(long = "choose", value_name = "K=V", value_parser = choice)]
    pub choose: Vec<(String, String)>,
    /// The GPU to compile for
    #[arg(long, value_name = "TARGET", default_value = "sm_90a")]
    pub target: String,
}

#[derive(Debug, Args)]
pub(crate) struct Compile {
    /// The program; `-` reads standard input
    pub file: PathBuf,
    #[command(flatten)]
    pub specialize: Specialize,
    /// Print one stage of the compilation instead of writing files
    #[arg(long, value_name = "STAGE", value_enum)]
    pub emit: Option<Emit>,
    /// Print the IR after a pass (`flashc passes` lists them), or after `all` (repeatable)
    #[arg(long, value_name = "PASS")]
    pub dump_after: Vec<String>,
    /// Print how long each phase took
    #[arg(long)]
    pub time_passes: bool,
    /// Write to PATH.ptx, PATH.json and PATH.cubin, or with --emit to PATH; `-` writes no files
    /// [default: the program's name, in the current directory]
    #[arg(short, long, value_name = "PATH")]
    pub output: Option<PathBuf>,
    /// Put source lines into the PTX, for profilers
    #[arg(long)]
    pub line_info: bool,
    /// The ptxas to use [default: FLASHC_PTXAS, PATH, or pip's nvidia-cuda-nvcc]
    #[arg(long, value_name = "PATH")]
    pub ptxas: Option<PathBuf>,
}

/// A stage of the compilation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Emit {
    /// The words of the program
    Tokens,
    /// The syntax tree
    Ast,
    /// The typed program
    Hir,
    /// Tile IR as imported: values, no memory, no threads
    Tile,
    /// Tile and sm90 IR after the last pass
    Sm90,
    /// LLVM IR
    Llvm,
    /// PTX
    Ptx,
    /// Machine code; needs ptxas, and -o when standard output is a terminal
    Cubin,
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    /// The programs
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
}

/// What to run a program on.
#[derive(Args, Clone, Debug)]
pub(crate) struct Inputs {
    /// Give a dimension its length: B=2 (repeatable)
    #[arg(long = "dim", value_name = "DIM=N", value_parser = number::<i64>)]
    pub dims: Vec<(String, i64)>,
    /// Give a scalar its value: scale=0.125 (repeatable)
    #[arg(long = "scalar", value_name = "NAME=X", value_parser = number::<f64>)]
    pub scalars: Vec<(String, f64)>,
    /// Run only case N of the header, counted from 1
    #[arg(long, value_name = "N", conflicts_with = "dims")]
    pub case: Option<usize>,
    /// Seed of the random inputs [default: the case's own]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// The program
    pub file: PathBuf,
    #[command(flatten)]
    pub specialize: Specialize,
    #[command(flatten)]
    pub inputs: Inputs,
    /// Take inputs from a file: FILE.safetensors, FILE.npy or NAME=FILE.npy (repeatable); the rest is random
    #[arg(long = "in", value_name = "FILE")]
    pub input: Vec<String>,
    /// Write the outputs to a .safetensors (or one output to a .npy); needs a single case
    #[arg(long = "out", value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Where to run
    #[arg(long, value_enum, default_value = "auto")]
    pub device: Device,
    /// The number of the GPU
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub gpu: i32,
    /// Compare with this reference, or with `none` [default: the one of the header]
    #[arg(long, value_name = "NAME")]
    pub reference: Option<String>,
    /// On the CPU: interpret the IR as it is after this pass, not as imported
    #[arg(long, value_name = "PASS")]
    pub after: Option<String>,
    /// End the process when a case takes longer than this on the GPU
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub timeout: u64,
}

/// Where to run a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Device {
    /// A GPU if there is one, else the CPU
    Auto,
    /// A GPU; without one that is an error
    Gpu,
    /// The interpreter
    Cpu,
}

#[derive(Debug, Args)]
pub(crate) struct Bench {
    /// The program
    pub file: PathBuf,
    #[command(flatten)]
    pub specialize: Specialize,
    #[command(flatten)]
    pub inputs: Inputs,
    /// The number of the GPU
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub gpu: i32,
    /// Device time to spend on a case
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 200)]
    pub budget: u64,
}

#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// The code; without one, all codes are listed
    pub code: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Selftest {
    /// Run only cases whose name contains this (repeatable)
    #[arg(value_name = "FILTER")]
    pub filter: Vec<String>,
    /// Run on the CPU interpreter instead
    #[arg(long)]
    pub cpu: bool,
    /// The number of the GPU
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub gpu: i32,
    /// End the process when one case takes longer than this
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub timeout: u64,
    /// List the cases without running them
    #[arg(long)]
    pub list: bool,
    /// Decide what passes leave to measurement (repeatable): order=auto|halves|program,
    /// schedule=auto|single, stores=auto|direct|tma
    #[arg(long = "choose", value_name = "K=V", value_parser = choice)]
    pub choose: Vec<(String, String)>,
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((k, v)) if !k.trim().is_empty() && !v.trim().is_empty() => {
            Ok((k.trim().into(), v.trim().into()))
        }
        _ => Err("a name, `=` and a value are expected, as in D=128".into()),
    }
}

/// A choice that passes know.
fn choice(text: &str) -> Result<(String, String), String> {
    let (name, value) = pair(text)?;
    if Choices::default().set(&name, &value) {
        return Ok((name, value));
    }
    Err(format!("no such choice; there is {}", Choices::NAMES))
}

fn number<N: std::str::FromStr>(text: &str) -> Result<(String, N), String> {
    let (name, value) = pair(text)?;
    match value.parse() {
        Ok(v) => Ok((name, v)),
        Err(_) => Err(format!("`{value}` is not a number that fits")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
