//! What a launch will do, decided without a GPU: arguments checked, dimensions bound, a variant chosen.

use crate::args::{Args, TensorArg};
use crate::device::DeviceFacts;
use crate::error::{Error, Result};
use crate::overlap;
use crate::scalar;
use crate::signature::{Axis, Signature, visit};
use crate::tensor_map::{TensorMapParams, aligned16, whole16};
use flashc_ir::artifact::{Expr, HostValue, Param, Persistent, Requirement, TensorMapSpec, Variant};
use std::fmt;

/// Programs along the first axis of a grid, and along the others.
const GRID_LIMITS: [i64; 3] = [i32::MAX as i64, 65535, 65535];

/// A launch, ready but for the driver.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Index of the chosen variant.
    pub variant: usize,
    /// Programs along each axis.
    pub grid: [u32; 3],
    /// Lengths of the dimensions, in the artifact's order.
    pub dims: Vec<i64>,
    /// Is there nothing to do: an empty grid, or only outputs without elements?
    pub empty: bool,
    /// Variants that would have been better, and why they cannot run.
    pub rejected: Vec<Rejected>,
    /// What is legal but suspicious.
    pub notes: Vec<Note>,
    /// Kernel parameters in order.
    pub params: Vec<ParamValue>,
    /// Tensor maps that they refer to.
    pub maps: Vec<TensorMapParams>,
}

/// The value of a kernel parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParamValue {
    /// The value in the low bytes; the kernel knows how many it takes.
    Word(u64),
    /// The tensor map of this index.
    Map(usize),
}

/// A variant that cannot run with these arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// Its name.
    pub variant: String,
    /// Which tensor, and what is wrong with it.
    pub reason: String,
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.variant, self.reason)
    }
}

/// Something legal but suspicious about the arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// An output shares memory with an input that is not the very same tensor. (The very same one is taken
    /// as meant: many kernels work in place.)
    OutputOverlapsInput {
        /// The output.
        output: String,
        /// The input.
        input: String,
    },
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Note::OutputOverlapsInput { output, input } = self;
        write!(f, "the output `{output}` shares memory with the input `{input}`: reads may see new values")
    }
}

/// Checks the arguments and decides how to launch.
///
/// In the order of the checks: number and names; of each tensor its type, axes, device, lengths, strides
/// and address; agreement of the dimensions; overlap of outputs (only what is certain is an error, see
/// [`Note`] for inputs); scalars; `where` conditions; the grid; the conditions of the variants.
pub fn plan_launch(sig: &Signature, args: &Args, device: &DeviceFacts) -> Result<Plan> {
    let a = &sig.artifact;
    let tensors = positions(&args.tensors, "tensors", &a.kernel, a.tensors.len(), |i| &a.tensors[i].name)?;
    let scalars = positions(&args.scalars, "scalars", &a.kernel, a.scalars.len(), |i| &a.scalars[i].name)?;
    for (i, t) in tensors.iter().enumerate() {
        check_tensor(sig, i, t, device.ordinal)?;
    }
    let dims = bind_dims(sig, &tensors)?;
    let notes = check_outputs(sig, &tensors)?;

    let mut words = Vec::with_capacity(scalars.len());
    let mut values = Vec::with_capacity(scalars.len());
    for (i, s) in scalars.iter().enumerate() {
        let (word, value) = scalar::encode(&a.scalars[i].name, sig.scalar_types[i], *s, sig.host_read[i])?;
        words.push(word);
        values.push(value);
    }
    let host = Host { sig, dims: &dims, values: &values };
    for w in &a.wheres {
        match w.holds.eval(&dims, &values) {
            Some(HostValue::Bool(true)) => {}
            Some(HostValue::Bool(false)) => {
                return Err(Error::WhereFails {
                    text: w.text.clone(),
                    line: w.line,
                    values: host.read_by(&w.holds),
                });
            }
            _ => {
                return Err(Error::HostOverflow {
                    text: format!("`where {}`", w.text),
                    values: host.read_by(&w.holds),
                });
            }
        }
    }
    let (grid, programs) = host.grid()?;
    let mut outs = a.tensors.iter().zip(&tensors).filter(|(p, _)| p.out).peekable();
    let no_output = outs.peek().is_some() && outs.all(|(_, t)| t.shape.contains(&0));

    let mut rejected = Vec::new();
    for (variant, v) in a.variants.iter().enumerate() {
        let programs_fit = grid.iter().try_fold(1u64, |n, g| n.checked_mul(u64::from(*g)));
        let counted = programs_fit.is_some_and(|n| n <= i32::MAX as u64);
        let maps = if v.persistent != Persistent::No && !counted {
            Err("more than 2147483647 programs cannot be counted".to_string())
        } else {
            fit(sig, v, &tensors)
        };
        match maps {
            Ok(maps) => {
                let params = v.params.iter().map(|p| parameter(p, &words, &dims, &grid, &tensors)).collect();
                let empty = !programs || no_output;
                let grid = ctas(grid, v.persistent, device);
                return Ok(Plan { variant, grid, dims, empty, rejected, notes, params, maps });
            }
            Err(reason) => rejected.push(Rejected { variant: v.name.clone(), reason }),
        }
    }
    let reasons = rejected.iter().map(Rejected::to_string).collect();
    Err(Error::NoVariant { kernel: a.kernel.clone(), reasons })
}

/// Brings arguments into the order of declaration.
fn positions<'n, T: Copy>(
    given: &[(Option<&str>, T)],
    what: &'static str,
    kernel: &str,
    wants: usize,
    name_of: impl Fn(usize) -> &'n String,
) -> Result<Vec<T>> {
    let names = || (0..wants).map(|i| name_of(i).clone()).collect::<Vec<_>>();
    let mut slots: Vec<Option<T>> = vec![None; wants];
    for (name, value) in given {
        let Some(name) = name else { continue };
        let slot = (0..wants).find(|i| name_of(*i) == name).ok_or_else(|| Error::UnknownArgument {
            kernel: kernel.to_owned(),
            what: what.strip_suffix('s').unwrap_or(what),
            name: (*name).to_owned(),
            names: names(),
        })?;
        if slots[slot].replace(*value).is_some() {
            return Err(Error::DuplicateArgument { name: (*name).to_owned() });
        }
    }
    let count = || Error::ArgumentCount {
        kernel: kernel.to_owned(),
        what,
        wants,
        given: given.len(),
        names: names(),
    };
    if given.len() != wants {
        return Err(count());
    }
    // A positional argument is for the parameter at its position among the positional ones.
    for (i, value) in given.iter().filter(|(name, _)| name.is_none()).map(|(_, v)| *v).enumerate() {
        if slots[i].replace(value).is_some() {
            return Err(Error::DuplicateArgument { name: name_of(i).clone() });
        }
    }
    slots.into_iter().collect::<Option<Vec<T>>>().ok_or_else(count)
}

fn check_tensor(sig: &Signature, i: usize, t: &TensorArg, ordinal: i32) -> Result<()> {
    let param = &sig.artifact.tensors[i];
    let tensor = || param.name.clone();
    if t.dtype != sig.tensor_types[i] {
        let (wants, given) = (param.dtype.clone(), t.dtype.to_string());
        return Err(Error::Dtype { tensor: tensor(), wants, given });
    }
    if t.strides.len() != t.shape.len() {
        let (lengths, strides) = (t.shape.len(), t.strides.len());
        return Err(Error::StrideCount { tensor: tensor(), lengths, strides });
    }
    if t.shape.len() != param.dims.len() {
        let dims = param.dims.iter().map(ToString::to_string).collect();
        return Err(Error::Rank { tensor: tensor(), dims, given: t.shape.len() });
    }
    if t.device != ordinal {
        let given = if t.device < 0 { "the CPU".into() } else { format!("GPU {}", t.device) };
        return Err(Error::WrongDevice { tensor: tensor(), wants: ordinal, given });
    }
    for (axis, (&len, &stride)) in t.shape.iter().zip(t.strides).enumerate() {
        if !(0..=i64::from(i32::MAX)).contains(&len) {
            return Err(Error::DimRange { tensor: tensor(), axis, given: len });
        }
        if stride < 0 {
            return Err(Error::NegativeStride { tensor: tensor(), axis, stride });
        }
        if param.out && stride == 0 && len > 1 && !t.shape.contains(&0) {
            return Err(Error::BroadcastOut { tensor: tensor(), axis, len });
        }
    }
    let bytes = t.dtype.bytes();
    if !t.pointer.is_multiple_of(bytes as u64) {
        return Err(Error::Misaligned { tensor: tensor(), address: t.pointer, bytes });
    }
    let elements = t.elements();
    if elements == Some(0) {
        return Ok(());
    }
    if t.pointer == 0 {
        return Err(Error::NullPointer { tensor: tensor(), elements: elements.unwrap_or(i64::MAX) });
    }
    let span = overlap::span_bytes(t).and_then(|n| t.pointer.checked_add(n));
    if span.is_none() {
        return Err(Error::TooLarge { tensor: tensor() });
    }
    if param.out
        && let Some((a, b)) = overlap::colliding_axes(t)
    {
        return Err(Error::OverlappingOut {
            tensor: tensor(),
            a,
            b,
            a_stride: t.strides[a],
            b_stride: t.strides[b],
            a_len: t.shape[a],
            b_len: t.shape[b],
        });
    }
    Ok(())
}

fn bind_dims(sig: &Signature, tensors: &[TensorArg]) -> Result<Vec<i64>> {
    const UNBOUND: i64 = -1;
    let mut dims = vec![UNBOUND; sig.artifact.dims.len()];
    for (i, t) in tensors.iter().enumerate() {
        for (axis, (&given, bound)) in t.shape.iter().zip(&sig.axes[i]).enumerate() {
            match *bound {
                Axis::Const(wants) if wants != given => {
                    return Err(Error::ConstDim { tensor: sig.tensor_name(i), axis, wants, given });
                }
                Axis::Const(_) => {}
                Axis::Sym(d) if dims[d] == UNBOUND => dims[d] = given,
                Axis::Sym(d) if dims[d] != given => {
                    return Err(disagreement(sig, d, dims[d], i, axis, given));
                }
                Axis::Sym(_) => {}
            }
        }
    }
    Ok(dims)
}

#[cold]
fn disagreement(sig: &Signature, dim: usize, a: i64, b_tensor: usize, b_axis: usize, b: i64) -> Error {
    let first = sig
        .axes
        .iter()
        .enumerate()
        .find_map(|(t, axes)| axes.iter().position(|x| *x == Axis::Sym(dim)).map(|axis| (t, axis)));
    let (a_tensor, a_axis) = first.unwrap_or((b_tensor, b_axis));
    Error::DimsDisagree {
        dim: sig.artifact.dims[dim].clone(),
        a,
        a_tensor: sig.tensor_name(a_tensor),
        a_axis,
        b,
        b_tensor: sig.tensor_name(b_tensor),
        b_axis,
    }
}

/// Overlap between an output and another tensor.
fn check_outputs(sig: &Signature, tensors: &[TensorArg]) -> Result<Vec<Note>> {
    let params = &sig.artifact.tensors;
    let mut notes = Vec::new();
    for (i, out) in tensors.iter().enumerate().filter(|(i, _)| params[*i].out) {
        for (j, other) in tensors.iter().enumerate() {
            if i == j || (params[j].out && j < i) || out.shape.contains(&0) || other.shape.contains(&0) {
                continue;
            }
            if !overlap::share_memory(out, other) {
                continue;
            }
            if params[j].out {
                return Err(Error::OutputsOverlap { a: sig.tensor_name(i), b: sig.tensor_name(j) });
            }
            if out != other {
                let (output, input) = (sig.tensor_name(i), sig.tensor_name(j));
                notes.push(Note::OutputOverlapsInput { output, input });
            }
        }
    }
    Ok(notes)
}

/// Host arithmetic of one launch.
struct Host<'a> {
    sig: &'a Signature,
    dims: &'a [i64],
    values: &'a [HostValue],
}

impl Host<'_> {
    /// Programs along each axis, and whether there are any.
    fn grid(&self) -> Result<([u32; 3], bool)> {
        let mut grid = [1u32; 3];
        let mut any = true;
        for (axis, e) in self.sig.artifact.grid.iter().enumerate() {
            let value = e.eval(self.dims, self.values).and_then(HostValue::int);
            let given = value.ok_or_else(|| Error::HostOverflow {
                text: format!("axis {axis} of the grid"),
                values: self.read_by(e),
            })?;
            let limit = GRID_LIMITS[axis];
            if !(0..=limit).contains(&given) {
                return Err(Error::Grid { axis, given, limit });
            }
            grid[axis] = given as u32;
            any &= given > 0;
        }
        Ok((grid, any))
    }

    /// `HQ = 6, HK = 4`: what an expression reads.
    fn read_by(&self, e: &Expr) -> String {
        let mut seen: Vec<String> = Vec::new();
        visit(e, &mut |leaf| {
            let text = match leaf {
                Expr::Dim(i) => format!("{} = {}", self.sig.artifact.dims[*i], self.dims[*i]),
                Expr::Scalar(i) => {
                    let value = match self.values[*i] {
                        HostValue::Int(v) => v.to_string(),
                        HostValue::Float(v) => format!("{v:?}"),
                        HostValue::Bool(v) => v.to_string(),
                    };
                    format!("{} = {value}", self.sig.artifact.scalars[*i].name)
                }
                _ => return,
            };
            if !seen.contains(&text) {
                seen.push(text);
            }
        });
        seen.join(", ")
    }
}

/// The variant's tensor maps, or why it cannot run.
fn fit(
    sig: &Signature,
    v: &Variant,
    tensors: &[TensorArg],
) -> std::result::Result<Vec<TensorMapParams>, String> {
    let explain = |tensor: usize, p| format!("`{}`: {p}", sig.artifact.tensors[tensor].name);
    for r in &v.requires {
        match *r {
            Requirement::Aligned16 { tensor, contiguous } => {
                aligned16(&tensors[tensor], contiguous).map_err(|p| explain(tensor, p))?;
            }
            Requirement::Whole16 { tensor, axis } => {
                whole16(&tensors[tensor], axis).map_err(|p| explain(tensor, p))?;
            }
        }
    }
    for m in &v.tensor_maps {
        // A bulk load reads what the map names, and a tensor without elements has nothing at its address.
        // Stores to it are guarded.
        if !sig.artifact.tensors[m.tensor].out && tensors[m.tensor].shape.contains(&0) {
            return Err(format!("`{}`: it has no elements", sig.artifact.tensors[m.tensor].name));
        }
    }
    let map =
        |m: &TensorMapSpec| TensorMapParams::new(m, &tensors[m.tensor]).map_err(|p| explain(m.tensor, p));
    v.tensor_maps.iter().map(map).collect()
}

/// How many CTAs run the programs of a grid.
fn ctas(grid: [u32; 3], persistent: Persistent, device: &DeviceFacts) -> [u32; 3] {
    let programs: u64 = grid.iter().map(|g| u64::from(*g)).product();
    match persistent {
        Persistent::No => grid,
        Persistent::UpTo(n) if grid[0] > n => [programs as u32, 1, 1],
        _ => [programs.min(u64::from(device.multiprocessors)) as u32, 1, 1],
    }
}

fn parameter(p: &Param, scalars: &[u64], dims: &[i64], grid: &[u32; 3], tensors: &[TensorArg]) -> ParamValue {
    match *p {
        Param::Scalar(i) => ParamValue::Word(scalars[i]),
        Param::Dim(i) => ParamValue::Word(dims[i] as u64),
        Param::Grid(axis) => ParamValue::Word(u64::from(grid[axis])),
        Param::Pointer(i) => ParamValue::Word(tensors[i].pointer),
        Param::Stride { tensor, axis } => ParamValue::Word(tensors[tensor].strides[axis] as u64),
        Param::TensorMap(i) => ParamValue::Map(i),
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
