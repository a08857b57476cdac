//! The flashc command line. Each command has its file; `args` is the command line as data.

mod args;
mod bench;
mod cases;
mod check;
mod compile;
mod execute;
mod exit;
mod explain;
mod passes;
mod program;
mod run;
mod selftest;
mod table;
mod tensors;

use args::{Cli, Command};
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Compile(a) => compile::compile(&a),
        Command::Check(a) => check::check(&a),
        Command::Run(a) => run::run(&a),
        Command::Bench(a) => bench::bench(&a),
        Command::Passes => Ok(passes::passes()),
        Command::Explain(a) => Ok(explain::explain(&a)),
        Command::Selftest(a) => selftest::selftest(&a),
    };
    result.unwrap_or_else(|e| e).into()
}
