//! Which launches a command makes: the cases of a run header, changed or replaced by the command line.

use crate::args::{Inputs as Given, Specialize};
use crate::exit::{Result, usage};
use crate::tensors::FileTensor;
use flashc_compiler::reference::Signature;
use flashc_compiler::run_header::{self, Case, RunHeader, Tolerance};
use flashc_ir::types::Dim;

/// Without a header: looser than any single operation in 16 bits.
const DEFAULT_TOLERANCE: Tolerance = Tolerance::Close { rel: 1e-2, abs: 1e-2 };

/// The header, empty if the program has none.
pub(crate) fn header(name: &str, text: &[u8]) -> Result<RunHeader> {
    match run_header::parse(&String::from_utf8_lossy(text)) {
        Ok(found) => Ok(found.unwrap_or_default()),
        Err(e) => Err(usage(format!("{name}: {e}"))),
    }
}

/// The cases to run. With `--dim` or tensors from files there is one, for which the header's first case
/// supplies what is left out.
pub(crate) fn cases(
    header: &RunHeader,
    s: &Specialize,
    given: &Given,
    from_files: bool,
) -> Result<Vec<Case>> {
    let one = from_files || !given.dims.is_empty();
    let mut cases = match (one, given.case) {
        (true, _) => {
            let first = header.cases.first().cloned().unwrap_or_else(empty);
            vec![Case { layouts: vec![], line: 0, ..first }]
        }
        (false, None) if header.cases.is_empty() => vec![empty()],
        (false, None) => header.cases.clone(),
        (false, Some(n)) => match n.checked_sub(1).and_then(|i| header.cases.get(i)) {
            Some(case) => vec![case.clone()],
            None => return Err(usage(format!("no case {n}: the header has {}", header.cases.len()))),
        },
    };
    for case in &mut cases {
        case.set.extend(s.set.iter().cloned());
        for (name, n) in &given.dims {
            replace(&mut case.dims, name, *n);
        }
        for (name, x) in &given.scalars {
            replace(&mut case.scalars, name, *x);
        }
        case.seed = given.seed.unwrap_or(case.seed);
    }
    Ok(cases)
}

fn empty() -> Case {
    Case {
        line: 0,
        set: vec![],
        dims: vec![],
        scalars: vec![],
        layouts: vec![],
        seed: 1,
        tolerance: DEFAULT_TOLERANCE,
    }
}

fn replace<V>(list: &mut Vec<(String, V)>, name: &str, value: V) {
    list.retain(|(n, _)| n != name);
    list.push((name.to_owned(), value));
}

/// Takes the lengths of dimensions from the shapes of tensors that files give.
pub(crate) fn dims_from(
    case: &mut Case,
    signature: &Signature<'_>,
    given: &Given,
    files: &[(String, FileTensor)],
) -> std::result::Result<(), String> {
    let mut bound: Vec<(String, i64, String)> = vec![];
    for (name, file) in files {
        let Some(t) = signature.tensors.iter().find(|t| t.name == *name) else {
            let known: Vec<_> =
                signature.tensors.iter().filter(|t| !t.out).map(|t| t.name.as_str()).collect();
            return Err(format!("no input named `{name}`; there are {}", known.join(", ")));
        };
        if t.out {
            return Err(format!("`{name}` is an output"));
        }
        let shape = format!("`{name}` has shape {:?}", file.shape);
        if file.shape.len() != t.dims.len() {
            return Err(format!("{shape}, the kernel wants {} axes", t.dims.len()));
        }
        for (dim, &n) in t.dims.iter().zip(&file.shape) {
            match dim {
                Dim::Const(c) if *c != n => {
                    return Err(format!("{shape}, but an axis has length {c} in this specialization"));
                }
                Dim::Const(_) => {}
                Dim::Sym(d) => match bound.iter().find(|b| b.0 == *d) {
                    Some((_, m, other)) if *m != n => {
                        return Err(format!("{shape}, which makes {d} {n}, but `{other}` makes it {m}"));
                    }
                    _ => bound.push((d.clone(), n, name.clone())),
                },
            }
        }
    }
    for (dim, n, tensor) in bound {
        if let Some((_, m)) = given.dims.iter().find(|d| d.0 == dim && d.1 != n) {
            return Err(format!("--dim {dim}={m} does not agree with `{tensor}`, which makes it {n}"));
        }
        replace(&mut case.dims, &dim, n);
    }
    Ok(())
}

/// A case in few words.
pub(crate) fn label(case: &Case) -> String {
    let mut words: Vec<String> = case.dims.iter().map(|(k, v)| format!("{k}={v}")).collect();
    let mut seen: Vec<&str> = vec![];
    for (k, v) in case.set.iter().rev() {
        if !seen.contains(&k.as_str()) {
            seen.push(k);
            words.push(format!("{k}={v}"));
        }
    }
    let mut rest: Vec<&(String, Vec<usize>)> = case.layouts.iter().collect();
    while let Some((_, order)) = rest.first() {
        let (same, others): (Vec<_>, Vec<_>) = rest.into_iter().partition(|l| l.1 == *order);
        let names: Vec<_> = same.iter().map(|l| l.0.as_str()).collect();
        words.push(format!(
            "{}:{}",
            names.join(","),
            order.iter().map(|a| a.to_string()).collect::<String>()
        ));
        rest = others;
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "// run: reference = matmul\n// run: set T=f16\n\
        // run: case M=8 N=8 K=8 ; layout a=10\n// run: case M=9 N=9 K=9 ; seed=4\n";

    fn given(dims: &[(&str, i64)], case: Option<usize>) -> Given {
        let dims = dims.iter().map(|(k, v)| (k.to_string(), *v)).collect();
        Given { dims, scalars: vec![("s".into(), 0.5)], case, seed: None }
    }

    fn labels(given: &Given) -> Result<Vec<String>> {
        let s = Specialize {
            kernel: None,
            set: vec![("T".into(), "bf16".into())],
            target: String::new(),
            choose: vec![],
        };
        Ok(cases(&header("x", HEADER.as_bytes())?, &s, given, false)?.iter().map(label).collect())
    }

    #[test]
    fn the_command_line_changes_and_replaces_cases() {
        assert_eq!(
            labels(&given(&[], None)),
            Ok(vec!["M=8 N=8 K=8 T=bf16 a:10".into(), "M=9 N=9 K=9 T=bf16".into()])
        );
        assert_eq!(labels(&given(&[("K", 64)], None)), Ok(vec!["M=8 N=8 K=64 T=bf16".into()]));
        assert_eq!(labels(&given(&[], Some(2))).map(|l| l.len()), Ok(1));
        assert_eq!(labels(&given(&[], Some(3))), Err(crate::exit::Exit::Usage));
        assert_eq!(labels(&given(&[], Some(0))), Err(crate::exit::Exit::Usage));
    }
}
