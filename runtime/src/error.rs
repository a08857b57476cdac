//! Every way in which loading or launching can fail, in the user's words.
//!
//! An [`Error`] has a stable code (`L0101`), a message ([`std::fmt::Display`]) and usually a help line.
//! [`Error::render`] joins them; [`crate::codes`] is the table behind `flashc explain`.

use std::path::PathBuf;

/// A failure of this crate.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum Error {
    // ---- L01xx: the machine
    /// `L0101`
    #[error("no NVIDIA driver here: the library {library} cannot be loaded")]
    NoDriver { library: &'static str },
    /// `L0102`
    #[error("the NVIDIA driver supports CUDA {}.{}, but {what} needs {}.{}", .has.0, .has.1, .needs.0, .needs.1)]
    DriverTooOld { has: (u32, u32), needs: (u32, u32), what: String },
    /// `L0103`
    #[error("no GPU number {ordinal}: the driver sees {}", gpus(*.count))]
    NoDevice { ordinal: i32, count: i32 },
    /// `L0104`
    #[error("GPU {ordinal} ({name}) has compute capability {}.{}, but the kernel is compiled for {target}, which needs {}{}.{}",
        .has.0, .has.1, if *.exact { "exactly " } else { "" }, .needs.0, .needs.1)]
    Capability { ordinal: i32, name: String, has: (u32, u32), needs: (u32, u32), target: String, exact: bool },
    /// `L0105`
    #[error("the driver refused {call}: {name} ({text})")]
    Driver { call: &'static str, name: String, text: String },
    /// `L0106`
    #[error("out of GPU memory: {bytes} bytes wanted")]
    OutOfMemory { bytes: u64 },
    /// `L0107`
    #[error("a kernel on this GPU failed: {name} ({text}), noticed at {call}")]
    Fault { call: &'static str, name: String, text: String },
    /// `L0108`
    #[error("{action} {}: {text}", .path.display())]
    Io { action: &'static str, path: PathBuf, text: String },
    /// `L0109`
    #[error("{what}: {given} bytes given, the buffer has {capacity}")]
    BufferSize { what: &'static str, given: u64, capacity: u64 },

    // ---- L02xx: loading
    /// `L0201`
    #[error("the artifact of `{kernel}` is inconsistent: {problem}")]
    BadArtifact { kernel: String, problem: String },
    /// `L0202`
    #[error("the driver cannot compile the PTX of `{kernel}` (variant {variant}): {reason}{}", indented(.log))]
    Jit { kernel: String, variant: String, reason: String, log: String },
    /// `L0203`
    #[error("the code of `{kernel}` (variant {variant}) has no entry `{entry}`")]
    NoEntry { kernel: String, variant: String, entry: String },
    /// `L0204`
    #[error(
        "`{kernel}` (variant {variant}) needs {needs} bytes of shared memory in a CTA, the GPU has {limit}"
    )]
    SharedMemory { kernel: String, variant: String, needs: u64, limit: u64 },
    /// `L0205`
    #[error(
        "`{kernel}` (variant {variant}) wants {threads} threads in a CTA, with {registers} registers each at most {limit} fit"
    )]
    Threads { kernel: String, variant: String, threads: u32, registers: u32, limit: u32 },
    /// `L0206`
    #[error("ptxas not found; looked at {looked}")]
    PtxasMissing { looked: String },
    /// `L0207`
    #[error("ptxas failed: {reason}{}", indented(.log))]
    Ptxas { reason: String, log: String },
    /// `L0208`
    #[error("{rendered}")]
    Compile { rendered: String },
    /// `L0209`
    #[error("not an artifact that this build can read: {text}")]
    Format { text: String },

    // ---- L03xx: a launch
    /// `L0301`
    #[error("`{kernel}` takes {}, {given} given", counted(*.wants, .what))]
    ArgumentCount { kernel: String, what: &'static str, wants: usize, given: usize, names: Vec<String> },
    /// `L0302`
    #[error("`{kernel}` has no {what} named `{name}`")]
    UnknownArgument { kernel: String, what: &'static str, name: String, names: Vec<String> },
    /// `L0303`
    #[error("`{name}` is given twice")]
    DuplicateArgument { name: String },
    /// `L0304`
    #[error("`{tensor}` has element type {given}, the kernel wants {wants}")]
    Dtype { tensor: String, wants: String, given: String },
    /// `L0305`
    #[error("`{tensor}` has {}, the kernel wants {}: [{}]", counted(*.given, "axes"), .dims.len(), .dims.join(", "))]
    Rank { tensor: String, dims: Vec<String>, given: usize },
    /// `L0306`
    #[error("`{tensor}` is on {given}, the kernel is loaded on GPU {wants}")]
    WrongDevice { tensor: String, wants: i32, given: String },
    /// `L0307`
    #[error(
        "dimension {dim} is {a} by axis {a_axis} of `{a_tensor}`, but {b} by axis {b_axis} of `{b_tensor}`"
    )]
    DimsDisagree {
        dim: String,
        a: i64,
        a_tensor: String,
        a_axis: usize,
        b: i64,
        b_tensor: String,
        b_axis: usize,
    },
    /// `L0308`
    #[error("axis {axis} of `{tensor}` has length {given}, this kernel is compiled for {wants}")]
    ConstDim { tensor: String, axis: usize, wants: i64, given: i64 },
    /// `L0309`
    #[error("axis {axis} of `{tensor}` has length {given}: lengths are 0 to 2147483647")]
    DimRange { tensor: String, axis: usize, given: i64 },
    /// `L0310`
    #[error("axis {axis} of `{tensor}` has stride {stride}: strides cannot be negative")]
    NegativeStride { tensor: String, axis: usize, stride: i64 },
    /// `L0311`
    #[error(
        "axis {axis} of `{tensor}` has stride 0 and length {len}: its elements share memory, but the kernel writes it"
    )]
    BroadcastOut { tensor: String, axis: usize, len: i64 },
    /// `L0312`
    #[error(
        "elements of `{tensor}` share memory (axes {a} and {b}: strides {a_stride} and {b_stride}, lengths {a_len} and {b_len}), but the kernel writes it"
    )]
    OverlappingOut {
        tensor: String,
        a: usize,
        b: usize,
        a_stride: i64,
        b_stride: i64,
        a_len: i64,
        b_len: i64,
    },
    /// `L0313`
    #[error("the outputs `{a}` and `{b}` share memory")]
    OutputsOverlap { a: String, b: String },
    /// `L0314`
    #[error("the address {address:#x} of `{tensor}` is not a multiple of its element size, {bytes}")]
    Misaligned { tensor: String, address: u64, bytes: i64 },
    /// `L0315`
    #[error("`{tensor}` has no memory (its address is null), but {} elements", .elements)]
    NullPointer { tensor: String, elements: i64 },
    /// `L0316`
    #[error("`where {text}` does not hold: {values}")]
    WhereFails { text: String, line: u32, values: String },
    /// `L0317`
    #[error("{text} cannot be computed from {values}: an integer leaves 64 bits")]
    HostOverflow { text: String, values: String },
    /// `L0318`
    #[error("the grid has {given} programs along axis {axis}, the GPU takes {limit}")]
    Grid { axis: usize, given: i64, limit: i64 },
    /// `L0319`
    #[error("`{scalar}` is {wants}, but {given} is given")]
    ScalarType { scalar: String, wants: String, given: String },
    /// `L0320`
    #[error("no variant of `{kernel}` fits these arguments:{}", .reasons.iter().map(|r| format!("\n  {r}")).collect::<String>())]
    NoVariant { kernel: String, reasons: Vec<String> },
    /// `L0321`
    #[error("`{tensor}` is too large: an offset leaves 63 bits")]
    TooLarge { tensor: String },
    /// `L0322`
    #[error("`{tensor}` has {}, but {}", counted(*.lengths, "lengths"), counted(*.strides, "strides"))]
    StrideCount { tensor: String, lengths: usize, strides: usize },
}

/// The result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;

fn gpus(count: i32) -> String {
    match count {
        0 => "none".into(),
        1 => "one, number 0".into(),
        n => format!("{n}, numbers 0 to {}", n - 1),
    }
}

fn counted(n: usize, plural: &str) -> String {
    let one = match plural {
        "axes" => "axis",
        p => p.strip_suffix('s').unwrap_or(p),
    };
    if n == 1 { format!("1 {one}") } else { format!("{n} {plural}") }
}

fn indented(log: &str) -> String {
    log.lines().filter(|l| !l.trim().is_empty()).map(|l| format!("\n  | {l}")).collect()
}

impl Error {
    /// The stable code, for example `L0307`.
    pub fn code(&self) -> &'static str {
        match self {
            Error::NoDriver { .. } => "L0101",
            Error::DriverTooOld { .. } => "L0102",
            Error::NoDevice { .. } => "L0103",
            Error::Capability { .. } => "L0104",
            Error::Driver { .. } => "L0105",
            Error::OutOfMemory { .. } => "L0106",
            Error::Fault { .. } => "L0107",
            Error::Io { .. } => "L0108",
            Error::BufferSize { .. } => "L0109",
            Error::BadArtifact { .. } => "L0201",
            Error::Jit { .. } => "L0202",
            Error::NoEntry { .. } => "L0203",
            Error::SharedMemory { .. } => "L0204",
            Error::Threads { .. } => "L0205",
            Error::PtxasMissing { .. } => "L0206",
            Error::Ptxas { .. } => "L0207",
            Error::Compile { .. } => "L0208",
            Error::Format { .. } => "L0209",
            Error::ArgumentCount { .. } => "L0301",
            Error::UnknownArgument { .. } => "L0302",
            Error::DuplicateArgument { .. } => "L0303",
            Error::Dtype { .. } => "L0304",
            Error::Rank { .. } => "L0305",
            Error::WrongDevice { .. } => "L0306",
            Error::DimsDisagree { .. } => "L0307",
            Error::ConstDim { .. } => "L0308",
            Error::DimRange { .. } => "L0309",
            Error::NegativeStride { .. } => "L0310",
            Error::BroadcastOut { .. } => "L0311",
            Error::OverlappingOut { .. } => "L0312",
            Error::OutputsOverlap { .. } => "L0313",
            Error::Misaligned { .. } => "L0314",
            Error::NullPointer { .. } => "L0315",
            Error::WhereFails { .. } => "L0316",
            Error::HostOverflow { .. } => "L0317",
            Error::Grid { .. } => "L0318",
            Error::ScalarType { .. } => "L0319",
            Error::NoVariant { .. } => "L0320",
            Error::TooLarge { .. } => "L0321",
            Error::StrideCount { .. } => "L0322",
        }
    }

    /// What to do about it, where there is something to say.
    pub fn help(&self) -> Option<String> {
        Some(match self {
            Error::NoDriver { .. } => "install the NVIDIA driver, 580 or newer; without a GPU, programs run on the interpreter".into(),
            Error::DriverTooOld { needs, .. } => {
                format!("update the driver to one for CUDA {}.{}, or give a cubin made by a matching ptxas", needs.0, needs.1)
            }
            Error::NoDevice { count: 0, .. } => "is CUDA_VISIBLE_DEVICES empty?".into(),
            Error::Capability { .. } => "compile the kernel for this GPU's target, or choose another GPU".into(),
            Error::Fault { .. } => "the process can no longer use the GPU: start it again; compute-sanitizer finds the access".into(),
            Error::Jit { .. } => "if ptxas accepts the same PTX, the driver is older than the compiler's PTX version; else this is a bug in flashc".into(),
            Error::SharedMemory { .. } => "use smaller tiles or fewer stages".into(),
            Error::Threads { .. } => "use fewer warpgroups or smaller tiles".into(),
            Error::PtxasMissing { .. } => "name it with --ptxas or FLASHC_PTXAS, or `pip install nvidia-cuda-nvcc`".into(),
            Error::Format { .. } => "compile the program again".into(),
            Error::ArgumentCount { names, .. } => format!("in this order: {}", names.join(", ")),
            Error::UnknownArgument { names, what, .. } if !names.is_empty() => {
                format!("its {what}s are {}", names.join(", "))
            }
            Error::Dtype { .. } => "convert the tensor, or specialize the kernel for its type".into(),
            Error::ConstDim { wants, given, .. } => format!("specialize the kernel for {given} instead of {wants}"),
            Error::WrongDevice { .. } => "move the tensor, or load the kernel on its GPU".into(),
            Error::BroadcastOut { .. } | Error::OverlappingOut { .. } => "give an output with memory of its own".into(),
            Error::NegativeStride { .. } => "copy the tensor to a contiguous one".into(),
            Error::WhereFails { line, .. } if *line > 0 => format!("required on line {line} of the program"),
            Error::ScalarType { .. } => "integers are accepted for float parameters, nothing else is converted".into(),
            _ => return None,
        })
    }

    /// Code, message and help, as the command line shows them.
    pub fn render(&self) -> String {
        if let Error::Compile { rendered } = self {
            return rendered.clone();
        }
        let mut text = format!("error[{}]: {self}", self.code());
        if let Some(help) = self.help() {
            text += &format!("\n  help: {help}");
        }
        text
    }
}
