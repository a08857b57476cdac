//! Every program is interpreted after import and after every pass of every variant. Import is compared with
//! a plain reference; a pass that does not reassociate with what was before it, bit for bit; one that does
//! by the tolerance of the case. Then once more with all stores that can go through shared memory.

use flashc_compiler::passes::tma_stores::Stores;
use flashc_compiler::passes::{Choices, Schedule as Programs};
use flashc_compiler::pipeline::VARIANTS;
use flashc_compiler::reference::{Array, Inputs, Outputs, Signature, check};
use flashc_compiler::run_header::{self, Case, RunHeader};
use flashc_ir::Kind;
use flashc_ir::artifact::Requirement;
use flashc_ir::interp::{HostTensor, Launch, Options, Schedule, run};
use flashc_ir::{Builder, Func, Step};
use flashc_tests::{program_cases, trace_with};

/// Cases with at most so many input elements are interpreted after every pass.
const EVERY_PASS: usize = 20_000;

/// The outputs of one run, and their bits.
fn interpret(
    func: &Func,
    signature: &Signature<'_>,
    inputs: &Inputs,
    case: &Case,
    before_barriers: bool,
    schedule: Schedule,
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
    let options = Options { ordered_sums: true, before_barriers, schedule, ..Options::default() };
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

/// Does a case's tensor meet a variant's requirement?
fn satisfied(r: &Requirement, signature: &Signature<'_>, inputs: &Inputs, case: &Case) -> bool {
    let (Requirement::Aligned16 { tensor, contiguous } | Requirement::Whole16 { tensor, axis: contiguous }) =
        r;
    let t = &signature.tensors[*tensor];
    let shape = signature.shape(t, inputs);
    if matches!(r, Requirement::Whole16 { .. }) {
        return shape[*contiguous] * t.elem.bytes() % 16 == 0;
    }
    let order = case.layouts.iter().find(|l| l.0 == t.name).map(|l| l.1.clone());
    let strides = run_header::strides(&shape, &order.unwrap_or_else(|| (0..shape.len()).collect()));
    (0..shape.len()).all(|a| match a == *contiguous {
        true => strides[a] == 1,
        false => shape[a] <= 1 || strides[a] * t.elem.bytes() % 16 == 0,
    })
}

/// Runs a case; with `stores` forced only what that changes: the passes from `tma-stores` on.
fn one(name: &str, text: &str, header: &RunHeader, case: &Case, stores: Stores) {
    let at = format!("{name}:{}", case.line);
    let (compiled, steps) = trace_with(name, text, &case.set, None, Choices { stores, ..Choices::default() })
        .unwrap_or_else(|e| panic!("{at}: {e}"));
    let forced = stores != Stores::Auto;
    let copies = |f: &Func| {
        let mut any = false;
        f.walk(&mut |op| any |= matches!(op.kind, Kind::TmaStore { .. }));
        any
    };
    if forced && !steps.after.iter().any(|a| a.0 == "tma-stores" && copies(&a.3)) {
        return;
    }
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
        interpret(&compiled.imported, &signature, &inputs, case, false, Schedule::RoundRobin)
            .unwrap_or_else(|e| panic!("{at} import: {e}"));
    judge(&outputs, "import");
    // What the launch would not choose need not run.
    let launchable = |variant: &str| {
        let name = |v: &str| if v == "tma" { "aligned".to_string() } else { v.to_string() };
        compiled.artifact.variants.iter().any(|v| {
            name(&v.name) == variant && v.requires.iter().all(|r| satisfied(r, &signature, &inputs, case))
        })
    };
    let mut variant = String::new();
    let mut last = meaning.clone();
    let mut placed = false;
    // Threads are simulated one by one, which takes time: a large case runs after the last pass only, and
    // a pass that changed nothing is not run again.
    let elements: usize = inputs.tensors.values().map(|a| a.data.len()).sum();
    let every_pass = elements <= EVERY_PASS;
    let mut before: &Func = &compiled.imported;
    let mut skipping = forced;
    for (i, (pass, reassociates, of, func)) in steps.after.iter().enumerate() {
        skipping &= *pass != "tma-stores";
        if !launchable(of) || skipping || forced && of != VARIANTS[0].name {
            continue;
        }
        if *of != variant && !forced {
            (variant, last, placed) = (of.clone(), meaning.clone(), false);
            before = &compiled.imported;
        }
        let is_last = steps.after.get(i + 1).is_none_or(|next| next.2 != *of);
        let unchanged = std::mem::replace(&mut before, func) == func && !is_last;
        placed |= *pass == "place-barriers";
        if unchanged || !every_pass && !is_last {
            continue;
        }
        let what = format!("after {pass} ({variant})");
        let (outputs, bits) = interpret(func, &signature, &inputs, case, !placed, Schedule::RoundRobin)
            .unwrap_or_else(|e| panic!("{at} {what}: {e}"));
        if !reassociates && every_pass && !(forced && *pass == "tma-stores") {
            assert!(bits == last, "{at} {what}: the pass changed results");
        }
        judge(&outputs, &what);
        last = bits;
    }
}

/// What a buffer of the epilogue lies over, another role has filled: whoever is ahead, the results are the same.
/// With several programs a CTA the buffer has its own place, and warpgroups meet for themselves.
#[test]
fn whoever_is_ahead() {
    let mut missed = vec![Kind::CtaBarrier, Kind::GroupBarrier, Kind::FenceAsync];
    for (folder, program, line, schedule) in [
        ("dsl-examples", "matmul.tile", "BN=256", Programs::Single),
        ("dsl-examples", "matmul.tile", "M=200 N=136", Programs::Auto),
        ("tests/corpus/run", "shifted_columns.tile", "BM=128", Programs::Single),
        ("tests/corpus/run", "stored_operand.tile", "M=129", Programs::Auto),
    ] {
        let all = program_cases(folder);
        let (name, text, header) = all.iter().find(|p| p.0 == program).expect("the program");
        let lines: Vec<&str> = text.lines().collect();
        let case = header.cases.iter().find(|c| lines[c.line as usize - 1].contains(line)).expect("the case");
        // Its layouts in memory are those that bulk copies want.
        let case = &Case { layouts: vec![], ..case.clone() };
        let choices = Choices { stores: Stores::Tma, schedule, ..Choices::default() };
        let compiled = trace_with(name, text, &case.set, None, choices).expect("it compiles").0;
        let signature = Signature::from(&compiled.artifact);
        let inputs = Inputs::generate(&signature, header, case).expect("inputs");
        let func = &compiled.sm90[0].1;
        let mut results = vec![];
        for schedule in
            [Schedule::RoundRobin, Schedule::ProducerFirst, Schedule::ConsumerFirst, Schedule::Random(1)]
        {
            let run = interpret(func, &signature, &inputs, case, false, schedule);
            results.push(run.unwrap_or_else(|e| panic!("{name} {schedule:?}: {e}")).1);
        }
        assert!(results.iter().all(|r| *r == results[0]), "{name}");
        // Without what `place-barriers` saw a need for somebody is too early.
        for kind in [Kind::CtaBarrier, Kind::GroupBarrier, Kind::FenceAsync] {
            let mut removed = false;
            let without = Builder::rebuild(func, &mut |_, _, op, _| match op.kind == kind {
                true => {
                    removed = true;
                    Step::Done
                }
                false => Step::Copy,
            });
            if !removed {
                continue;
            }
            missed.retain(|k| *k != kind);
            let run = interpret(&without, &signature, &inputs, case, false, Schedule::RoundRobin);
            let trap = run.err().unwrap_or_else(|| panic!("{name}: nobody misses {kind:?}"));
            assert!(trap.contains("Race") || trap.contains("MissingFence"), "{name}: {trap}");
        }
    }
    assert!(missed.is_empty(), "no program has {missed:?}");
}

fn folder(folder: &str, stores: Stores) {
    let all = program_cases(folder);
    let cases: Vec<_> = all.iter().flat_map(|(n, t, h)| h.cases.iter().map(move |c| (n, t, h, c))).collect();
    // One thread a core: a case takes seconds.
    let next = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|s| {
        let workers = std::thread::available_parallelism().map_or(1, |n| n.get());
        for _ in 0..workers {
            s.spawn(|| {
                while let Some((name, text, header, case)) =
                    cases.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
                {
                    let start = std::time::Instant::now();
                    one(name, text, header, case, stores);
                    println!("{name}:{} {:.1} s", case.line, start.elapsed().as_secs_f64());
                }
            });
        }
    });
    assert!(!cases.is_empty());
}

#[test]
fn examples() {
    folder("dsl-examples", Stores::Auto);
}

#[test]
fn programs_that_are_no_examples() {
    folder("tests/corpus/run", Stores::Auto);
}

#[test]
fn through_shared_memory() {
    folder("dsl-examples", Stores::Tma);
    folder("tests/corpus/run", Stores::Tma);
}
