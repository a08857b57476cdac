//! Every program is interpreted after import and after every pass of every variant. Import is compared with
//! a plain reference; a pass that does not reassociate with what was before it, bit for bit; one that does
//! by the tolerance of the case.

use flashc_compiler::reference::{Array, Inputs, Outputs, Signature, check};
use flashc_compiler::run_header::{self, Case, RunHeader};
use flashc_ir::Func;
use flashc_ir::interp::{HostTensor, Launch, Options, run};
use flashc_tests::{program_cases, trace};

/// The outputs of one run, and their bits.
fn interpret(
    func: &Func,
    signature: &Signature<'_>,
    inputs: &Inputs,
    case: &Case,
    before_barriers: bool,
) -> Result<(Outputs, Vec<Vec<u64>>), String> {
    let mut launch = Launch::new(signature.grid(inputs)?);
    for s in signature.scalars {
        let x = inputs.scalars.get(&s.name).copied().unwrap_or_default();
        launch = if s.elem.is_float() { launch.float(&s.name, x) } else { launch.int(&s.name, x as i64) };
    }
    for (name, n) in &inputs.dims {
        launch = launch.int(name, *n);
    }
    for t in signature.tensors {
        let mut host = match inputs.tensors.get(&t.name) {
            Some(a) => HostTensor::from_f64(t.elem, &a.shape, &a.data),
            None => HostTensor::uninitialised(t.elem, &signature.shape(t, inputs)),
        };
        if let Some((_, order)) = case.layouts.iter().find(|l| l.0 == t.name) {
            host = host.with_strides(&run_header::strides(&host.shape, order), 0);
        }
        launch = launch.tensor(&t.name, host);
    }
    // Sums in the order of the elements: threads then change no bit.
    let options = Options { ordered_sums: true, before_barriers, ..Options::default() };
    run(func, &mut launch, &options).map_err(|t| t.to_string())?;
    let (mut outputs, mut bits) = (Outputs::new(), vec![]);
    for t in signature.tensors.iter().filter(|t| t.out) {
        let got = launch.get(&t.name);
        assert!(got.all_written(), "elements of {} were never written", t.name);
        outputs.insert(t.name.clone(), Array { shape: got.shape.clone(), data: got.to_vec() });
        bits.push(got.to_bits());
    }
    Ok((outputs, bits))
}

fn one(name: &str, text: &str, header: &RunHeader, case: &Case) {
    let at = format!("{name}:{}", case.line);
    let (compiled, steps) = trace(name, text, &case.set, None).unwrap_or_else(|e| panic!("{at}: {e}"));
    let signature = Signature::from(&compiled.artifact);
    let inputs = Inputs::generate(&signature, header, case).unwrap_or_else(|e| panic!("{at}: {e}"));
    let judge = |outputs: &Outputs, what: &str| {
        let all = check(&header.reference, case.tolerance, signature.tensors, &inputs, outputs)
            .unwrap_or_else(|e| panic!("{at} {what}: {e}"));
        for c in all {
            assert!(c.ok, "{at} {what}: {c}");
        }
    };
    let (outputs, meaning) =
        interpret(&compiled.imported, &signature, &inputs, case, false).unwrap_or_else(|e| panic!("{at} import: {e}"));
    judge(&outputs, "import");
    let mut variant = String::new();
    let mut last = meaning.clone();
    let mut placed = false;
    for (pass, reassociates, of, func) in &steps.after {
        if *of != variant {
            (variant, last, placed) = (of.clone(), meaning.clone(), false);
        }
        placed |= *pass == "place-barriers";
        let what = format!("after {pass} ({variant})");
        let (outputs, bits) =
            interpret(func, &signature, &inputs, case, !placed).unwrap_or_else(|e| panic!("{at} {what}: {e}"));
        if !reassociates {
            assert!(bits == last, "{at} {what}: the pass changed results");
        }
        judge(&outputs, &what);
        last = bits;
    }
}

fn folder(folder: &str) {
    let mut cases = 0;
    for (name, text, header) in program_cases(folder) {
        for case in &header.cases {
            one(&name, &text, &header, case);
            cases += 1;
        }
    }
    println!("{cases} cases of {folder}");
    assert!(cases > 0);
}

#[test]
fn examples() {
    folder("dsl-examples");
}

#[test]
fn programs_that_are_no_examples() {
    folder("tests/corpus/run");
}
