//! The run header: comment lines of a program that say how to try it. Text in, data out.
//!
//! ```text
//! // run: reference = matmul                      which plain computation gives the expected results
//! // run: kernel = matmul                         of several in the file, the one to run
//! // run: input x = ints -100 100                 how to fill a tensor (otherwise: normal, integers -8 to 8)
//! // run: set BM=64                               constants and types, for the cases below
//! // run: tolerance = rel 1e-2 abs 1e-3           likewise; or `exact`, or `fa`
//! // run: case M=64 N=3 ; scalars eps=1e-5 ; set T=f16 ; layout x=10 ; seed=7
//! ```
//! A layout lists a tensor's axes from the outermost in memory to the contiguous one: `x=10` is column-major, and for
//! `q` of `[B, H, S, D]` `q=0213` is the order (B, S, H, D). docs/language.md describes all of it.

use std::fmt;

/// What a program's run header says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunHeader {
    /// Name of the reference (`flashc_compiler::reference`).
    pub reference: String,
    /// The kernel to run; the only one of the file if absent.
    pub kernel: Option<String>,
    /// How to fill tensors, by name.
    pub inputs: Vec<(String, Fill)>,
    /// At least one.
    pub cases: Vec<Case>,
}

/// One launch.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// Its line in the file.
    pub line: u32,
    /// Values of generics, by name; the last of a name counts.
    pub set: Vec<(String, String)>,
    /// Runtime dimensions.
    pub dims: Vec<(String, i64)>,
    /// Scalar arguments; a bool is 0 or 1.
    pub scalars: Vec<(String, f64)>,
    /// Memory order of tensors that are not row-major: axes from the outermost to the contiguous one.
    pub layouts: Vec<(String, Vec<usize>)>,
    /// Of the random inputs.
    pub seed: u64,
    /// How close the results have to be.
    pub tolerance: Tolerance,
}

/// How close a result has to be to the reference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tolerance {
    /// Equal.
    Exact,
    /// `|out - ref| <= abs + rel * |ref|` in each element.
    Close {
        /// Relative to the reference.
        rel: f64,
        /// On top.
        abs: f64,
    },
    /// FlashAttention's criterion: at most twice the error of the same formula in the low precision.
    FlashAttention,
}

/// How to fill an input.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fill {
    /// Mean 0, deviation 1.
    Normal,
    /// Evenly from the first to the second.
    Uniform(f64, f64),
    /// Whole numbers from the first to the second, both included.
    Ints(i64, i64),
    /// Zeros.
    Zeros,
}

/// A header that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderError {
    /// Its line in the file; 0 if it is about the whole.
    pub line: u32,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "run header: {}", self.message),
            line => write!(f, "run header, line {line}: {}", self.message),
        }
    }
}

impl std::error::Error for HeaderError {}

type Pairs = Vec<(String, String)>;

/// The header of a program; none if no line starts with `// run:`.
pub fn parse(text: &str) -> Result<Option<RunHeader>, HeaderError> {
    let mut header = RunHeader::default();
    let mut set: Pairs = vec![];
    let mut tolerance = Tolerance::Exact;
    let mut seen = false;
    for (i, line) in text.lines().enumerate() {
        let Some(rest) = line.trim_start().strip_prefix("// run:") else { continue };
        seen = true;
        let line = i as u32 + 1;
        let fail = |message: String| HeaderError { line, message };
        let rest = rest.trim();
        let (word, tail) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        match word {
            "case" => {
                let case = case(tail, line, &set, tolerance).map_err(fail)?;
                header.cases.push(case);
            }
            "set" => set.extend(pairs(tail).map_err(fail)?),
            "input" => {
                let (name, fill) =
                    tail.split_once('=').ok_or_else(|| fail("expected `input x = normal`".into()))?;
                header.inputs.push((name.trim().to_owned(), fill_of(fill).map_err(fail)?));
            }
            "tolerance" => tolerance = tolerance_of(value(tail).map_err(fail)?).map_err(fail)?,
            "reference" => header.reference = value(tail).map_err(fail)?.to_owned(),
            "kernel" => header.kernel = Some(value(tail).map_err(fail)?.to_owned()),
            _ => {
                let known = "reference, kernel, input, set, tolerance, case";
                return Err(fail(format!("`{word}` is unknown; there are {known}")));
            }
        }
    }
    let fail = |message: &str| HeaderError { line: 0, message: message.into() };
    match seen {
        false => Ok(None),
        true if header.reference.is_empty() => Err(fail("a line `// run: reference = name` is missing")),
        true if header.cases.is_empty() => Err(fail("a line `// run: case N=...` is missing")),
        true => Ok(Some(header)),
    }
}

fn value(text: &str) -> Result<&str, String> {
    let value = text.trim().strip_prefix('=').map(str::trim);
    value.filter(|v| !v.is_empty()).ok_or_else(|| "expected `= value`".to_owned())
}

fn pairs(text: &str) -> Result<Pairs, String> {
    text.split_whitespace()
        .map(|item| match item.split_once('=') {
            Some((name, value)) if !name.is_empty() && !value.is_empty() => {
                Ok((name.to_owned(), value.to_owned()))
            }
            _ => Err(format!("`{item}` is not of the form name=value")),
        })
        .collect()
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("`{text}` is not a number that fits here"))
}

fn case(text: &str, line: u32, set: &Pairs, tolerance: Tolerance) -> Result<Case, String> {
    let mut parts = text.split(';').map(str::trim);
    let mut dims = vec![];
    for (name, n) in pairs(parts.next().unwrap_or(""))? {
        dims.push((name, number(&n)?));
    }
    let mut case =
        Case { line, set: set.clone(), dims, scalars: vec![], layouts: vec![], seed: 1, tolerance };
    for part in parts {
        if let Some(seed) = part.strip_prefix("seed") {
            case.seed = number(value(seed)?)?;
            continue;
        }
        let (word, tail) = part.split_once(char::is_whitespace).unwrap_or((part, ""));
        for (name, value) in pairs(tail)? {
            match word {
                "scalars" => case.scalars.push((name, scalar(&value)?)),
                "set" => case.set.push((name, value)),
                "layout" => case.layouts.push((name, order(&value)?)),
                _ => return Err(format!("`{word}` is unknown; there are scalars, set, layout, seed")),
            }
        }
    }
    Ok(case)
}

fn scalar(text: &str) -> Result<f64, String> {
    match text {
        "true" => Ok(1.0),
        "false" => Ok(0.0),
        _ => number(text),
    }
}

fn order(text: &str) -> Result<Vec<usize>, String> {
    let axes: Option<Vec<usize>> = text.chars().map(|c| c.to_digit(10).map(|d| d as usize)).collect();
    let axes = axes.unwrap_or_default();
    let mut sorted = axes.clone();
    sorted.sort_unstable();
    if axes.is_empty() || sorted.iter().enumerate().any(|(i, &axis)| i != axis) {
        return Err(format!("`{text}` is no order of axes: write each axis once, as in 10 or 0213"));
    }
    Ok(axes)
}

fn tolerance_of(text: &str) -> Result<Tolerance, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    match words.as_slice() {
        ["exact"] => return Ok(Tolerance::Exact),
        ["fa"] => return Ok(Tolerance::FlashAttention),
        _ => {}
    }
    let (mut rel, mut abs) = (0.0, 0.0);
    for pair in words.chunks(2) {
        match pair {
            ["rel", x] => rel = number(x)?,
            ["abs", x] => abs = number(x)?,
            _ => return Err("expected `exact`, `fa`, or `rel 1e-2 abs 1e-3`".into()),
        }
    }
    Ok(Tolerance::Close { rel, abs })
}

fn fill_of(text: &str) -> Result<Fill, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    match words.as_slice() {
        ["normal"] => Ok(Fill::Normal),
        ["zeros"] => Ok(Fill::Zeros),
        ["uniform", lo, hi] => Ok(Fill::Uniform(number(lo)?, number(hi)?)),
        ["ints", lo, hi] => match (number(lo)?, number(hi)?) {
            (lo, hi) if lo <= hi => Ok(Fill::Ints(lo, hi)),
            _ => Err(format!("there is no number from {lo} to {hi}")),
        },
        _ => Err("expected `normal`, `zeros`, `uniform -1 1` or `ints -8 8`".into()),
    }
}

/// Strides in elements of a tensor that lies densely in this order of its axes, outermost first.
pub fn strides(shape: &[i64], order: &[usize]) -> Vec<i64> {
    let mut strides = vec![0; shape.len()];
    let mut step = 1;
    for &axis in order.iter().rev() {
        if let (Some(s), Some(&n)) = (strides.get_mut(axis), shape.get(axis)) {
            *s = step;
            step *= n.max(1);
        }
    }
    strides
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_in_order() {
        let text = "// about\n// run: reference = f\n// run: set A=1\n// run: tolerance = rel 1e-2\n\
                    // run: case N=3 M=0 ; scalars s=-0.5 on=true ; set T=f16 ; layout q=0213 ; seed=9\n\
                    // run: tolerance = fa\n// run: case N=4\n// run: input x = ints -2 2\nkernel ...";
        let h = parse(text).unwrap().unwrap();
        assert_eq!((h.reference.as_str(), h.cases.len()), ("f", 2));
        let c = &h.cases[0];
        assert_eq!(c.line, 5);
        assert_eq!(c.dims, [("N".to_owned(), 3), ("M".to_owned(), 0)]);
        assert_eq!(c.scalars, [("s".to_owned(), -0.5), ("on".to_owned(), 1.0)]);
        assert_eq!(c.set, [("A".to_owned(), "1".to_owned()), ("T".to_owned(), "f16".to_owned())]);
        assert_eq!(c.layouts, [("q".to_owned(), vec![0, 2, 1, 3])]);
        assert_eq!((c.seed, c.tolerance), (9, Tolerance::Close { rel: 1e-2, abs: 0.0 }));
        assert_eq!((h.cases[1].seed, h.cases[1].tolerance), (1, Tolerance::FlashAttention));
        assert_eq!(h.inputs, [("x".to_owned(), Fill::Ints(-2, 2))]);
        assert_eq!(parse("kernel f() {}"), Ok(None));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let line = |text: &str| parse(text).unwrap_err().line;
        assert_eq!(line("// run: reference = f"), 0);
        assert_eq!(line("// run: reference = f\n// run: case N"), 2);
        assert_eq!(line("// run: reference = f\n\n// run: cse N=1"), 3);
        assert_eq!(line("// run: case N=1 ; layout x=12"), 1);
        assert_eq!(line("// run: tolerance = rel"), 1);
    }

    #[test]
    fn strides_follow_the_order() {
        assert_eq!(strides(&[2, 3, 5, 7], &[0, 2, 1, 3]), [105, 7, 21, 1]);
        assert_eq!(strides(&[4, 6], &[1, 0]), [1, 4]);
    }
}
