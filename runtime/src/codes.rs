//! The table of error codes, for `flashc explain` and the documentation.

/// One row: what a code means.
#[derive(Clone, Copy, Debug)]
pub struct Code {
    /// `L0307`.
    pub code: &'static str,
    /// One line.
    pub title: &'static str,
    /// What it means, why it is an error and what to do.
    pub explanation: &'static str,
}

/// Every code of [`crate::Error`], ascending.
pub fn codes() -> &'static [Code] {
    TABLE
}

const fn row(code: &'static str, title: &'static str, explanation: &'static str) -> Code {
    Code { code, title, explanation }
}

const TABLE: &[Code] = &[
    row(
        "L0101",
        "no NVIDIA driver",
        "The driver's library is not on this machine or cannot be loaded. Only launching needs it: checking, compiling and the interpreter do not.",
    ),
    row(
        "L0102",
        "driver too old",
        "PTX has a version, and a driver compiles PTX up to its own. A cubin made by a ptxas of the driver's major version runs too.",
    ),
    row(
        "L0103",
        "no such GPU",
        "GPUs are numbered from 0 in the order that the driver gives them; CUDA_VISIBLE_DEVICES hides and reorders them.",
    ),
    row(
        "L0104",
        "wrong kind of GPU",
        "A kernel is compiled for one target. A target whose name ends in `a`, such as sm_90a, uses instructions of that generation alone and runs on exactly that compute capability.",
    ),
    row("L0105", "the driver refused a call", "The message has the driver's own name for the problem."),
    row("L0106", "out of GPU memory", "An allocation failed. Other processes and PyTorch's cache count too."),
    row(
        "L0107",
        "a kernel failed on the GPU",
        "An earlier kernel in this process accessed memory that is not there, trapped in an assert or hung. The driver reports it at a later call and refuses all work from then on.",
    ),
    row("L0108", "a file cannot be read or written", "The message says which and why."),
    row(
        "L0109",
        "a copy does not fit its buffer",
        "A device buffer was given more bytes than it has, or read beyond its end.",
    ),
    row(
        "L0201",
        "inconsistent artifact",
        "The artifact names a tensor, a dimension or a parameter that it does not have. An edited file or a bug in the compiler.",
    ),
    row(
        "L0202",
        "the driver cannot compile the PTX",
        "The driver's own compiler rejected the code; its log follows the message.",
    ),
    row(
        "L0203",
        "entry not found",
        "The machine code has no kernel of the name that the artifact gives. A cubin of another kernel?",
    ),
    row(
        "L0204",
        "too much shared memory",
        "The variant's tiles and stages need more shared memory in one CTA than the GPU has.",
    ),
    row(
        "L0205",
        "too many threads",
        "The register file has 65536 registers; a CTA cannot have more threads than fit with the registers that each takes.",
    ),
    row(
        "L0206",
        "ptxas not found",
        "ptxas is looked for at the flag, then FLASHC_PTXAS, then PATH, then where the pip package nvidia-cuda-nvcc puts it. Without it the driver compiles the PTX.",
    ),
    row("L0207", "ptxas failed", "ptxas rejected the PTX or crashed; its output follows the message."),
    row("L0208", "the program does not compile", "The diagnostics of the compiler follow."),
    row("L0209", "not a readable artifact", "The text is not an artifact or was written by another version."),
    row(
        "L0301",
        "wrong number of arguments",
        "A launch gives every tensor and every scalar of the kernel once, by position in the order of declaration or by name.",
    ),
    row("L0302", "no argument of this name", "The kernel has no parameter of this name."),
    row(
        "L0303",
        "an argument given twice",
        "The same parameter was given by name twice, or by name and by position.",
    ),
    row(
        "L0304",
        "wrong element type",
        "Element types must be the same; nothing is converted at a launch. A generic kernel is specialized for one type when it is compiled.",
    ),
    row("L0305", "wrong number of axes", "The tensor has more or fewer axes than the parameter."),
    row(
        "L0306",
        "tensor on another device",
        "Every tensor must be in the memory of the GPU on which the kernel is loaded.",
    ),
    row(
        "L0307",
        "a dimension with two lengths",
        "A dimension that several tensors (or axes) use must have one length in all of them. The message names the two that disagree.",
    ),
    row(
        "L0308",
        "length differs from the specialization",
        "The axis has a constant length in this specialization of the kernel.",
    ),
    row("L0309", "length out of range", "Dimensions are 32-bit: a length is 0 to 2147483647."),
    row("L0310", "negative stride", "Strides, in elements, are 0 or positive."),
    row(
        "L0311",
        "broadcast output",
        "Stride 0 makes one element stand for many. That is fine for a tensor that is read, not for one that is written.",
    ),
    row(
        "L0312",
        "output overlaps itself",
        "Two different indices of a written tensor are the same memory, so the result would depend on timing. Found where two axes collide.",
    ),
    row(
        "L0313",
        "outputs overlap",
        "Two written tensors share memory. It is reported where it is certain: the same address, or both without gaps and their ranges meet.",
    ),
    row(
        "L0314",
        "address below element alignment",
        "The tensor's address is not a multiple of its element size.",
    ),
    row("L0315", "null address", "The tensor has elements but no memory."),
    row(
        "L0316",
        "a `where` condition fails",
        "The kernel was compiled under this condition, so its results would be wrong without it.",
    ),
    row(
        "L0317",
        "host arithmetic overflows",
        "A condition or the grid leaves 64-bit integers for these dimensions and scalars.",
    ),
    row(
        "L0318",
        "grid too large",
        "A GPU takes 2147483647 programs along the first axis of a grid and 65535 along the second and third.",
    ),
    row(
        "L0319",
        "wrong type of scalar",
        "Scalars must be of the parameter's kind and fit its range. An integer is accepted for a float.",
    ),
    row(
        "L0320",
        "no variant fits",
        "Each variant of the code has conditions (alignment, strides); none holds here. The message lists what each lacks.",
    ),
    row(
        "L0321",
        "tensor too large",
        "An offset of an element within the tensor does not fit 63 bits: the strides are not those of real memory.",
    ),
    row("L0322", "number of strides", "A tensor has one stride, in elements, for each of its axes."),
];
