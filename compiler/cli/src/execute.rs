//! One launch: arguments made, run on the interpreter or on a GPU, results collected.

use crate::tensors::{FileTensor, storage_bytes, with_storage};
use flashc_compiler::reference::{self, Array, Comparison, Inputs, Outputs, Signature};
use flashc_compiler::run_header::{self, Case, RunHeader};
use flashc_ir::Func;
use flashc_ir::artifact::TensorParam;
use flashc_ir::interp::{self, HostTensor};
use flashc_ir::types::Elem;
use flashc_runtime::{Args, DType, Device, DeviceBuffer, Kernel, LaunchReport, Scalar, Stream, TensorArg};
use std::fmt;

/// Bytes behind every buffer on the GPU that nobody may change.
const GUARD: [u8; 256] = [0xa5; 256];
/// What outputs hold before a launch on the GPU: NaN in every float type.
const POISON: u8 = 0xff;

/// Why there is no result.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Problem {
    /// The case does not fit the kernel: a value is missing or unknown.
    Case(String),
    /// The launch was refused or failed.
    Launch(String),
    /// As above, and the GPU is of no use to this process any more.
    Fault(String),
    /// It ran, but something is wrong with the results besides their values.
    Wrong(String),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Problem::Case(m) | Problem::Launch(m) | Problem::Fault(m) | Problem::Wrong(m)) = self;
        // What the runtime says has its own heading.
        if m.starts_with("error") { f.write_str(m) } else { write!(f, "error: {m}") }
    }
}

impl From<flashc_runtime::Error> for Problem {
    fn from(e: flashc_runtime::Error) -> Problem {
        match e {
            flashc_runtime::Error::Fault { .. } => Problem::Fault(e.render()),
            _ => Problem::Launch(e.render()),
        }
    }
}

/// The arguments of a launch, in host memory.
#[derive(Debug)]
pub(crate) struct Launch<'a> {
    signature: Signature<'a>,
    /// As the reference wants them.
    pub inputs: Inputs,
    tensors: Vec<(&'a TensorParam, DType, HostTensor)>,
    grid: [i64; 3],
}

impl<'a> Launch<'a> {
    /// Arguments for a case: from files where these have them, else random.
    pub(crate) fn new(
        signature: Signature<'a>,
        header: &RunHeader,
        case: &Case,
        files: &[(String, FileTensor)],
    ) -> Result<Launch<'a>, Problem> {
        let mut inputs = Inputs::generate(&signature, header, case).map_err(Problem::Case)?;
        let grid = signature.grid(&inputs).map_err(Problem::Launch)?;
        let mut tensors = vec![];
        for t in signature.tensors {
            let dtype: DType = t.dtype.parse().map_err(Problem::Case)?;
            let mut host = match (inputs.tensors.get_mut(&t.name), files.iter().find(|f| f.0 == t.name)) {
                (Some(array), Some((name, file))) => {
                    let host = file.to_host(dtype).map_err(|e| Problem::Case(format!("`{name}` {e}")))?;
                    *array = Array { shape: host.shape.clone(), data: numbers(&host, dtype) };
                    host
                }
                (Some(array), None) => HostTensor::from_f64(t.elem, &array.shape, &array.data),
                (None, _) => HostTensor::uninitialised(t.elem, &signature.shape(t, &inputs)),
            };
            if let Some((_, order)) = case.layouts.iter().find(|l| l.0 == t.name) {
                if order.len() != host.shape.len() {
                    return Err(Problem::Case(format!(
                        "the layout of `{}` has {} axes",
                        t.name,
                        order.len()
                    )));
                }
                host = host.with_strides(&run_header::strides(&host.shape, order), 0);
            }
            tensors.push((t, dtype, host));
        }
        Ok(Launch { signature, inputs, tensors, grid })
    }

    /// Runs a function, imported or after any pass, on the interpreter.
    pub(crate) fn on_cpu(&mut self, func: &Func) -> Result<Outputs, Problem> {
        let mut launch = interp::Launch::new(self.grid);
        for s in self.signature.scalars {
            let x = self.inputs.scalars.get(&s.name).copied().unwrap_or_default();
            launch = if s.elem.is_float() { launch.float(&s.name, x) } else { launch.int(&s.name, x as i64) };
        }
        for (name, n) in &self.inputs.dims {
            launch = launch.int(name, *n);
        }
        for (t, _, host) in &self.tensors {
            launch = launch.tensor(&t.name, host.clone());
        }
        interp::run(func, &mut launch, &interp::Options::default())
            .map_err(|trap| Problem::Launch(trap.to_string()))?;
        for (t, _, host) in self.tensors.iter_mut().filter(|t| t.0.out) {
            if let Some(done) = launch.tensors.get(&t.name) {
                if !done.all_written() {
                    return Err(Problem::Wrong(format!("elements of `{}` were never written", t.name)));
                }
                *host = done.clone();
            }
        }
        Ok(self.outputs())
    }

    /// Puts the arguments on a GPU; `shift` moves every tensor so many elements off its 256-byte alignment.
    pub(crate) fn upload(&self, device: &Device, shift: i64) -> Result<Uploaded<'_, 'a>, Problem> {
        let mut buffers = vec![];
        for (t, _, host) in &self.tensors {
            let skip = (shift * t.elem.bytes()) as usize;
            let mut bytes = vec![0; skip];
            bytes.extend(storage_bytes(host));
            if t.out {
                bytes[skip..].fill(POISON);
            }
            bytes.extend(GUARD);
            buffers.push((DeviceBuffer::from_bytes(device, &bytes)?, skip));
        }
        Ok(Uploaded { launch: self, buffers })
    }

    /// Takes results back from a GPU.
    pub(crate) fn on_gpu(&mut self, kernel: &Kernel, shift: i64) -> Result<(Outputs, LaunchReport), Problem> {
        let uploaded = self.upload(kernel.device(), shift)?;
        let stream = Stream::legacy(kernel.device());
        let report = kernel.launch(&stream, &uploaded.args())?;
        stream.synchronize()?;
        let mut storages = vec![];
        for ((t, ..), (buffer, skip)) in self.tensors.iter().zip(&uploaded.buffers) {
            let mut bytes = buffer.to_vec()?;
            if bytes.split_off(bytes.len() - GUARD.len()) != GUARD {
                return Err(Problem::Wrong(format!("memory behind `{}` was overwritten", t.name)));
            }
            bytes.drain(..skip);
            storages.push(bytes);
        }
        for ((t, _, host), bytes) in self.tensors.iter_mut().zip(storages) {
            if t.out {
                *host = with_storage(host, &bytes);
            } else if storage_bytes(host) != bytes {
                return Err(Problem::Wrong(format!("the input `{}` was overwritten", t.name)));
            }
        }
        Ok((self.outputs(), report))
    }

    fn outputs(&self) -> Outputs {
        let outs = self.tensors.iter().filter(|t| t.0.out);
        outs.map(|(t, _, h)| (t.name.clone(), Array { shape: h.shape.clone(), data: h.to_vec() })).collect()
    }

    /// The outputs for a file, after a run.
    pub(crate) fn files(&self) -> Vec<(String, FileTensor)> {
        let outs = self.tensors.iter().filter(|t| t.0.out);
        outs.map(|(t, dtype, host)| (t.name.clone(), FileTensor::from_host(*dtype, host))).collect()
    }

    /// Bytes of all tensors, each counted once.
    pub(crate) fn bytes(&self) -> i64 {
        self.tensors.iter().map(|(t, _, h)| h.shape.iter().product::<i64>() * t.elem.bytes()).sum()
    }
}

/// Arguments in the memory of a GPU.
#[derive(Debug)]
pub(crate) struct Uploaded<'l, 'a> {
    launch: &'l Launch<'a>,
    buffers: Vec<(DeviceBuffer, usize)>,
}

impl Uploaded<'_, '_> {
    /// For a launch.
    pub(crate) fn args(&self) -> Args<'_> {
        let mut args = Args::new();
        for ((t, dtype, host), (buffer, skip)) in self.launch.tensors.iter().zip(&self.buffers) {
            let pointer = buffer.pointer() + *skip as u64 + (host.offset * t.elem.bytes()) as u64;
            let device = 0;
            args.push_tensor(
                Some(&t.name),
                TensorArg { pointer, dtype: *dtype, shape: &host.shape, strides: &host.strides, device },
            );
        }
        for s in self.launch.signature.scalars {
            let x = self.launch.inputs.scalars.get(&s.name).copied().unwrap_or_default();
            let value = match s.elem {
                e if e.is_float() => Scalar::Float(x),
                Elem::I1 => Scalar::Bool(x != 0.0),
                _ => Scalar::Int(x as i128),
            };
            args.push_scalar(Some(&s.name), value);
        }
        args
    }
}

/// Elements as numbers: an unsigned type has no negative ones.
fn numbers(t: &HostTensor, dtype: DType) -> Vec<f64> {
    let wrap = if dtype.is_unsigned() { f64::powi(256.0, dtype.bytes() as i32) } else { 0.0 };
    t.to_vec().into_iter().map(|x| if x < 0.0 { x + wrap } else { x }).collect()
}

/// Compares results with a reference. One that is for other kernels may look for tensors that are not there.
pub(crate) fn compare(
    header: &RunHeader,
    case: &Case,
    tensors: &[TensorParam],
    inputs: &Inputs,
    outputs: &Outputs,
) -> Result<Vec<Comparison>, Problem> {
    let name = &header.reference;
    let check = || reference::check(name, case.tolerance, tensors, inputs, outputs);
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(check));
    std::panic::set_hook(hook);
    let unfit = |_| Problem::Case(format!("the reference `{name}` is for a kernel with other tensors"));
    checked.map_err(unfit)?.map_err(Problem::Case)
}

/// A number for a table: short, and 0 as such.
pub(crate) fn short(x: f64) -> String {
    if x == 0.0 { "0".into() } else { format!("{x:.1e}") }
}
