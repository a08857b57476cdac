//! Arguments for a case of a run header, random but the same every time.

use super::{Array, Inputs};
use crate::import::Imported;
use crate::run_header::{Case, Fill, RunHeader};
use flashc_ir::Elem;
use flashc_ir::artifact::{Artifact, Expr, HostBinary, HostValue, ScalarParam, TensorParam, Where};
use flashc_ir::types::Dim;

/// What a launch has to give.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "as in `Artifact`")]
pub struct Signature<'a> {
    pub scalars: &'a [ScalarParam],
    pub dims: &'a [String],
    pub tensors: &'a [TensorParam],
    pub wheres: &'a [Where],
    pub grid: &'a [Expr],
    pub specialization: &'a [(String, String)],
}

impl<'a> From<&'a Imported> for Signature<'a> {
    fn from(i: &'a Imported) -> Self {
        Signature {
            scalars: &i.scalars,
            dims: &i.dims,
            tensors: &i.tensors,
            wheres: &i.wheres,
            grid: &i.grid,
            specialization: &i.specialization,
        }
    }
}

impl<'a> From<&'a Artifact> for Signature<'a> {
    fn from(a: &'a Artifact) -> Self {
        Signature {
            scalars: &a.scalars,
            dims: &a.dims,
            tensors: &a.tensors,
            wheres: &a.wheres,
            grid: &a.grid,
            specialization: &a.specialization,
        }
    }
}

impl Signature<'_> {
    /// The lengths of a tensor.
    pub fn shape(&self, tensor: &TensorParam, inputs: &Inputs) -> Vec<i64> {
        let len = |d: &Dim| match d {
            Dim::Const(n) => *n,
            Dim::Sym(name) => inputs.dim(name),
        };
        tensor.dims.iter().map(len).collect()
    }

    /// The grid, and whether all conditions hold (the first that does not, as text).
    pub fn grid(&self, inputs: &Inputs) -> Result<[i64; 3], String> {
        let (dims, scalars) = self.values(inputs);
        for w in self.wheres {
            if w.holds.eval(&dims, &scalars) != Some(HostValue::Bool(true)) {
                return Err(format!("line {}: `{}` does not hold", w.line, w.text));
            }
        }
        let mut grid = [1; 3];
        for (n, e) in grid.iter_mut().zip(self.grid) {
            *n = e.eval(&dims, &scalars).and_then(HostValue::int).ok_or("the grid overflows")?;
        }
        Ok(grid)
    }

    fn values(&self, inputs: &Inputs) -> (Vec<i64>, Vec<HostValue>) {
        let dims = self.dims.iter().map(|d| inputs.dim(d)).collect();
        let scalar = |s: &ScalarParam| match inputs.scalar(&s.name) {
            x if s.elem.is_float() => HostValue::Float(x),
            x if s.elem == Elem::I1 => HostValue::Bool(x != 0.0),
            x => HostValue::Int(x as i64),
        };
        (dims, self.scalars.iter().map(scalar).collect())
    }
}

impl Inputs {
    /// The arguments of a case. An error says what is missing or unknown.
    pub fn generate(signature: &Signature<'_>, header: &RunHeader, case: &Case) -> Result<Inputs, String> {
        let mut inputs =
            Inputs { generics: signature.specialization.iter().cloned().collect(), ..Inputs::default() };
        for (name, n) in &case.dims {
            if !signature.dims.contains(name) {
                return Err(format!("there is no dimension `{name}`"));
            }
            inputs.dims.insert(name.clone(), *n);
        }
        for (name, x) in &case.scalars {
            let Some(s) = signature.scalars.iter().find(|s| s.name == *name) else {
                return Err(format!("there is no scalar `{name}`"));
            };
            inputs.scalars.insert(name.clone(), round(*x, s.elem));
        }
        if let Some(s) = signature.scalars.iter().find(|s| !inputs.scalars.contains_key(&s.name)) {
            return Err(format!("no value for the scalar `{}`", s.name));
        }
        derive(signature, &mut inputs);
        if let Some(d) = signature.dims.iter().find(|d| !inputs.dims.contains_key(*d)) {
            return Err(format!("no value for the dimension `{d}`"));
        }
        let known = |name: &str| signature.tensors.iter().any(|t| t.name == name);
        let named = header.inputs.iter().map(|i| &i.0).chain(case.layouts.iter().map(|l| &l.0));
        if let Some(name) = named.into_iter().find(|n| !known(n)) {
            return Err(format!("there is no tensor `{name}`"));
        }
        for t in signature.tensors.iter().filter(|t| !t.out) {
            let given = header.inputs.iter().find(|i| i.0 == t.name).map(|i| i.1);
            let fill = given.unwrap_or(match t.elem {
                e if e.is_float() => Fill::Normal,
                Elem::I1 => Fill::Ints(0, 1),
                _ if t.dtype.starts_with('u') => Fill::Ints(0, 8),
                _ => Fill::Ints(-8, 8),
            });
            let mut random = Random::new(case.seed, &t.name);
            let shape = signature.shape(t, &inputs);
            let array = Array::build(&shape, &mut |_| round(random.fill(fill), t.elem));
            inputs.tensors.insert(t.name.clone(), array);
        }
        Ok(inputs)
    }
}

/// Dimensions that conditions define: lengths of axes computed from others.
fn derive(signature: &Signature<'_>, inputs: &mut Inputs) {
    for w in signature.wheres {
        let (dims, scalars) = signature.values(inputs);
        if let Expr::Binary(HostBinary::Eq, own, value) = &w.holds
            && let Expr::Dim(i) = **own
            && let Some(name) = signature.dims.get(i)
            && !inputs.dims.contains_key(name)
            && let Some(HostValue::Int(n)) = value.eval(&dims, &scalars)
        {
            inputs.dims.insert(name.clone(), n);
        }
    }
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn new(seed: u64, name: &str) -> Random {
        let hash = name
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
        Random(hash ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 to 1.
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn fill(&mut self, fill: Fill) -> f64 {
        match fill {
            // The sum of twelve: near enough to a normal distribution, and the same on every machine.
            Fill::Normal => (0..12).map(|_| self.unit()).sum::<f64>() - 6.0,
            Fill::Uniform(lo, hi) => lo + (hi - lo) * self.unit(),
            Fill::Ints(lo, hi) => (lo + (self.unit() * (hi - lo + 1) as f64) as i64).min(hi) as f64,
            Fill::Zeros => 0.0,
        }
    }
}

/// The nearest number of a type, ties to even; integers lose their fraction.
pub fn round(x: f64, elem: Elem) -> f64 {
    // Bits of the significand, least exponent, largest number.
    let (bits, least, max) = match elem {
        Elem::F64 => return x,
        Elem::F32 => return f64::from(x as f32),
        Elem::F16 => (11, -14, 65504.0),
        Elem::BF16 => (8, -126, f64::from(f32::from_bits(0x7f7f_0000))),
        Elem::E4M3 => (4, -6, 448.0),
        Elem::E5M2 => (3, -14, 57344.0),
        _ => return x.trunc(),
    };
    if !x.is_finite() || x == 0.0 {
        return x;
    }
    let exponent = (x.abs().log2().floor() as i32).max(least);
    // The distance of neighbours here; log2 may be off by one just below a power of two, where both serve.
    let mut step = f64::powi(2.0, exponent - bits + 1);
    if x.abs() >= step * f64::powi(2.0, bits) {
        step *= 2.0;
    } else if x.abs() < step * f64::powi(2.0, bits - 1) && exponent > least {
        step /= 2.0;
    }
    let y = (x / step).round_ties_even() * step;
    match (y.abs() > max, elem) {
        (false, _) => y,
        (true, Elem::E4M3 | Elem::E5M2) => max.copysign(x),
        (true, _) => f64::INFINITY.copysign(x),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_is_to_nearest_even() {
        assert_eq!(round(1.0 + 1.0 / 2048.0, Elem::F16), 1.0);
        assert_eq!(round(1.0 + 3.0 / 2048.0, Elem::F16), 1.0 + 2.0 / 1024.0);
        assert_eq!(round(65519.0, Elem::F16), 65504.0);
        assert_eq!(round(65520.0, Elem::F16), f64::INFINITY);
        assert_eq!(round(f64::powi(2.0, -25), Elem::F16), 0.0);
        assert_eq!(round(f64::powi(2.0, -24), Elem::F16), f64::powi(2.0, -24));
        assert_eq!(round(1.0 + 1.0 / 256.0, Elem::BF16), 1.0);
        assert_eq!(round(-1e6, Elem::E4M3), -448.0);
        for x in [0.5f64, 1.0, 2.0, 1023.9999999, 1024.0, 0.3] {
            let wide = round(x, Elem::BF16);
            assert_eq!(wide, round(wide, Elem::BF16));
            assert!((wide - x).abs() <= x / 256.0);
        }
    }
}
