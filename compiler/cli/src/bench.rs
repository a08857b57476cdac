//! `flashc bench`: device time of each case, as lines of JSON.

use crate::args::{self, Bench};
use crate::cases;
use crate::execute::{Launch, Problem};
use crate::exit::{Exit, Result, out};
use crate::program::{self, Program, Watch};
use crate::run::{device, status};
use flashc_compiler::CompileOptions;
use flashc_compiler::reference::{Inputs, Signature};
use flashc_compiler::run_header::{Case, RunHeader};
use flashc_ir::artifact::Artifact;
use flashc_runtime::{BenchOptions, Device, Kernel, LoadOptions};
use serde_json::{Map, Value, json};

/// Runs it.
pub(crate) fn bench(args: &Bench) -> Result<Exit> {
    let program = Program::read(&args.file)?;
    let header = cases::header(&program.name, &program.bytes)?;
    let todo = cases::cases(&header, &args.specialize, &args.inputs, false)?;
    let Some(gpu) = device(args::Device::Gpu, args.gpu)? else { return Err(Exit::Launch) };
    let mut worst = Exit::Ok;
    for case in &todo {
        let options = CompileOptions {
            kernel: args.specialize.kernel.clone().or(header.kernel.clone()),
            set: case.set.clone(),
            ..program::options(&args.specialize)
        };
        let compiled = program.compile(&options, &mut Watch::default())?;
        match measure(&gpu, &compiled.artifact, &header, case, args.budget as f64 * 1e3) {
            Ok(line) => out!("{line}"),
            Err(problem) => {
                eprintln!("{}: {problem}", cases::label(case));
                worst = worst.max(status(&problem));
            }
        }
    }
    Ok(worst)
}

/// One case as JSON.
fn measure(
    gpu: &Device,
    artifact: &Artifact,
    header: &RunHeader,
    case: &Case,
    budget_us: f64,
) -> std::result::Result<Value, Problem> {
    let kernel = Kernel::load(gpu, artifact, &LoadOptions::default())?;
    let launch = Launch::new(Signature::from(artifact), header, case, &[])?;
    let uploaded = launch.upload(gpu, 0)?;
    let args = uploaded.args();
    let plan = kernel.plan(&args)?;
    let resources = kernel.resources(plan.variant)?;
    let options = BenchOptions { budget_us, ..BenchOptions::default() };
    let stats = flashc_runtime::bench(gpu, options, |stream| kernel.launch(stream, &args).map(|_| ()))?;
    let seconds = stats.median_us * 1e-6;
    let dims: Map<String, Value> = launch.inputs.dims.iter().map(|(k, v)| (k.clone(), json!(v))).collect();
    let set: Map<String, Value> = launch.inputs.generics.iter().map(|(k, v)| (k.clone(), json!(v))).collect();
    let mut line = json!({
        "kernel": artifact.kernel,
        "set": set,
        "dims": dims,
        "variant": artifact.variants[plan.variant].name,
        "median_us": stats.median_us,
        "min_us": stats.min_us,
        "max_us": stats.max_us,
        "calls": stats.n,
        "gb_per_s": launch.bytes() as f64 / seconds * 1e-9,
        "registers": resources.registers,
        "local_bytes": resources.local_bytes,
        "shared_bytes": artifact.variants[plan.variant].shared_bytes,
        "gpu": gpu.facts().name,
    });
    if let (Some(flops), Value::Object(fields)) = (flops(&header.reference, &launch.inputs), &mut line) {
        fields.insert("tflop_per_s".into(), json!(flops / seconds * 1e-12));
    }
    Ok(line)
}

/// Useful floating-point operations, where the convention is settled: products of matrices, and attention's
/// two products, causal counted by the scores that exist.
fn flops(reference: &str, inputs: &Inputs) -> Option<f64> {
    let dim = |name: &str| inputs.dims.get(name).map(|n| *n as f64);
    let generic = |name: &str| inputs.generics.get(name).map(String::as_str);
    match reference {
        "matmul" => Some(2.0 * dim("M")? * dim("N")? * dim("K")?),
        "attention_fwd" => {
            let (sq, sk, d) = (dim("SQ")?, dim("SK")?, generic("D")?.parse::<f64>().ok()?);
            let scores = match generic("CAUSAL") {
                // Row i sees the keys up to i + SK - SQ.
                Some("true") if sk >= sq => sq * (sk - sq) + sq * (sq + 1.0) / 2.0,
                Some("true") => sk * (sk + 1.0) / 2.0,
                _ => sq * sk,
            };
            Some(4.0 * dim("B")? * dim("HQ")? * scores * d)
        }
        _ => None,
    }
}
