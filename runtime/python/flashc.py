"""flashc from Python: compile tile programs and launch them on PyTorch tensors. Needs nothing but ctypes.

    import flashc
    kernel = flashc.compile("flash_attention_fwd.tile", D=128, T="bf16", CAUSAL=True)
    kernel(q, k, v, o, lse, scale=0.0884)              # on PyTorch's current stream

Tensors are anything with data_ptr(), shape, stride(), dtype and device, as PyTorch's have; strides may be
anything, nothing is copied. Tensors and scalars are given by position (each kind in the order of declaration)
or by name. Errors are FlashcError, with the rendered text and its code.

The library libflashc_capi is looked for at $FLASHC_LIBRARY, beside this file, and in the target folder of the
repository that this file is in.
"""
import ctypes
import json
import os
import sys
from ctypes import POINTER, byref, c_char_p, c_double, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p

__all__ = ["FlashcError", "Kernel", "Report", "compile", "load"]

ABI = 1
DTYPES = {
    "bool": 0, "int8": 1, "int16": 2, "int32": 3, "int64": 4, "uint8": 5, "uint16": 6, "uint32": 7, "uint64": 8,
    "float16": 9, "bfloat16": 10, "float32": 11, "float64": 12, "float8_e4m3fn": 13, "float8_e5m2": 14,
}


class FlashcError(RuntimeError):
    """What flashc reports; str() is the whole text, code its code."""

    def __init__(self, text, code=""):
        super().__init__(text)
        self.code = code


class _Tensor(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("data", c_uint64), ("dtype", c_int32), ("device", c_int32),
                ("rank", c_uint32), ("reserved", c_uint32), ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64))]


class _Scalar(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("kind", c_int32), ("reserved", c_uint32), ("integer", c_int64), ("real", c_double)]


class Report(ctypes.Structure):
    """What a launch did: variant (an index), grid, launched, and how many variants were rejected."""
    _fields_ = [("variant", c_uint32), ("grid", c_uint32 * 3), ("launched", c_uint32), ("rejected", c_uint32),
                ("notes", c_uint32)]


class _Resources(ctypes.Structure):
    _fields_ = [(n, c_uint32) for n in ("registers", "local_bytes", "static_shared", "dynamic_shared", "max_threads")]


_OUT = POINTER(c_void_p)
_ARGUMENTS = [c_void_p, POINTER(_Tensor), c_size_t, POINTER(_Scalar), c_size_t]
_FUNCTIONS = {
    "flashc_abi_version": (c_uint32, []),
    "flashc_error_message": (c_char_p, []),
    "flashc_error_code": (c_char_p, []),
    "flashc_compile": (c_int32, [c_char_p, c_char_p, c_size_t, c_char_p, _OUT]),
    "flashc_artifact_read": (c_int32, [c_char_p, _OUT]),
    "flashc_artifact_json": (c_int32, [c_void_p, _OUT]),
    "flashc_load": (c_int32, [c_void_p, c_int32, c_char_p, _OUT]),
    "flashc_kernel_resources": (c_int32, [c_void_p, c_uint32, POINTER(_Resources)]),
    "flashc_launch": (c_int32, [*_ARGUMENTS, c_uint64, POINTER(Report)]),
    "flashc_plan": (c_int32, [*_ARGUMENTS, _OUT]),
    "flashc_artifact_free": (None, [c_void_p]),
    "flashc_kernel_free": (None, [c_void_p]),
    "flashc_string_free": (None, [c_void_p]),
}
_library = None


def _lib():
    """the library, loaded at the first use"""
    global _library
    if _library is None:
        here = os.path.dirname(os.path.abspath(__file__))
        name = "libflashc_capi.dylib" if sys.platform == "darwin" else "libflashc_capi.so"
        target = os.environ.get("CARGO_TARGET_DIR") or os.path.join(here, "..", "..", "target")
        places = [os.path.join(here, name), *(os.path.join(target, kind, name) for kind in ("release", "debug"))]
        if os.environ.get("FLASHC_LIBRARY"):
            places = [os.environ["FLASHC_LIBRARY"]]
        path = next((p for p in places if os.path.exists(p)), None)
        if path is None:
            raise FlashcError(f"{name} not found; looked at {', '.join(places)}\n"
                              "  help: build it with `cargo build --release -p flashc-capi` or set FLASHC_LIBRARY")
        lib = ctypes.CDLL(path)
        for function, (result, arguments) in _FUNCTIONS.items():
            f = getattr(lib, function)
            f.restype, f.argtypes = result, arguments
        if lib.flashc_abi_version() != ABI:
            raise FlashcError(f"{path} has interface {lib.flashc_abi_version()}, this module {ABI}: use one version of both")
        _library = lib
    return _library


def _check(status):
    if status:
        lib = _lib()
        raise FlashcError(lib.flashc_error_message().decode(), lib.flashc_error_code().decode())


def _text(pointer):
    """a text that the library gave, freed"""
    try:
        return ctypes.string_at(pointer).decode()
    finally:
        _lib().flashc_string_free(pointer)


def _spelling(value):
    return str(value).lower() if isinstance(value, bool) else str(value)


def compile(path, kernel=None, target=None, source=None, **generics):
    """A kernel from a .tile file (or from source text, path being its name) with the generics given by name."""
    if source is None:
        with open(path, "rb") as f:
            source = f.read()
    elif isinstance(source, str):
        source = source.encode()
    options = {"set": {k: _spelling(v) for k, v in generics.items()}}
    options.update({k: v for k, v in (("kernel", kernel), ("target", target)) if v is not None})
    out = c_void_p()
    name = os.fspath(path).encode()
    _check(_lib().flashc_compile(name, source, len(source), json.dumps(options).encode(), byref(out)))
    return Kernel(out)


def load(path):
    """A kernel from an artifact that was compiled before (JSON)."""
    with open(path, "rb") as f:
        text = f.read()
    out = c_void_p()
    _check(_lib().flashc_artifact_read(text, byref(out)))
    return Kernel(out)


class Kernel:
    """A compiled kernel, loaded on a GPU when it is first called with tensors there."""

    def __init__(self, artifact):
        self._artifact, self._loaded, self.options = artifact, {}, {}
        self._free = _lib().flashc_artifact_free, _lib().flashc_kernel_free
        text = c_void_p()
        _check(_lib().flashc_artifact_json(artifact, byref(text)))
        self.json = _text(text)
        a = json.loads(self.json)
        self.name, self.doc, self.target = a["kernel"], a["doc"], a["target"]
        self.tensors = [t["name"] for t in a["tensors"]]
        self.scalars = [s["name"] for s in a["scalars"]]
        self.variants = [v["name"] for v in a["variants"]]

    def __del__(self):
        free_artifact, free_kernel = getattr(self, "_free", (None, None))
        if free_artifact:
            for handle in self._loaded.values():
                free_kernel(handle)
            free_artifact(self._artifact)

    def on(self, device=0, **options):
        """Loads on a GPU now. options as in flashc.h: cache, ptxas, preload_all."""
        if device not in self._loaded:
            out = c_void_p()
            text = json.dumps({**self.options, **options}).encode()
            _check(_lib().flashc_load(self._artifact, device, text, byref(out)))
            self._loaded[device] = out
        return self

    def _arguments(self, args, named):
        """ctypes arguments, the GPU, and what must stay alive as long as they"""
        tensors, scalars, keep = [], [], []
        for name, value in [*((None, a) for a in args), *named.items()]:
            label = name.encode() if name else None
            if not hasattr(value, "data_ptr"):
                scalars.append(_scalar(label, value))
                continue
            rank = len(value.shape)
            shape, strides = (c_int64 * rank)(*value.shape), (c_int64 * rank)(*value.stride())
            dtype = str(value.dtype).rsplit(".", 1)[-1]
            if dtype not in DTYPES:
                raise FlashcError(f"flashc has no element type {value.dtype}")
            device = (value.device.index or 0) if value.device.type == "cuda" else -1
            tensors.append(_Tensor(label, value.data_ptr(), DTYPES[dtype], device, rank, 0, shape, strides))
            keep.append((shape, strides, value, label))
        device = max((t.device for t in tensors), default=0)
        arrays = (_Tensor * len(tensors))(*tensors), (_Scalar * len(scalars))(*scalars)
        self.on(max(device, 0))
        handle = self._loaded[max(device, 0)]
        return (handle, arrays[0], len(tensors), arrays[1], len(scalars)), max(device, 0), keep

    def __call__(self, *args, stream=None, **named):
        """Launches on a stream (an object with cuda_stream, a number, or PyTorch's current one) and returns a Report."""
        packed, device, _keep = self._arguments(args, named)
        report = Report()
        _check(_lib().flashc_launch(*packed, _stream(stream, device), byref(report)))
        return report

    def bind(self, *args, **named):
        """A function that launches with these very arguments on the stream given to it: for calling often."""
        packed, device, keep = self._arguments(args, named)
        launch = _lib().flashc_launch

        def call(stream=None, _keep=(self, keep)):
            status = launch(*packed, _stream(stream, device), None)
            if status:
                _check(status)
        return call

    def plan(self, *args, **named):
        """What a launch would do, as a dict: variant, grid, dims, and why better variants are rejected."""
        packed, _, _keep = self._arguments(args, named)
        out = c_void_p()
        _check(_lib().flashc_plan(*packed, byref(out)))
        return json.loads(_text(out))

    def resources(self, variant=0, device=0):
        """Registers, spills and shared memory of a variant, as a dict."""
        self.on(device)
        r = _Resources()
        _check(_lib().flashc_kernel_resources(self._loaded[device], variant, byref(r)))
        return {name: getattr(r, name) for name, _ in r._fields_}


def _scalar(label, value):
    if isinstance(value, bool):
        return _Scalar(label, 0, 0, int(value), 0.0)
    if hasattr(value, "__index__"):
        i = value.__index__()
        if not -2 ** 63 <= i < 2 ** 64:
            raise FlashcError(f"{i} is not a 64-bit integer")
        return _Scalar(label, 1 if i < 2 ** 63 else 2, 0, i if i < 2 ** 63 else i - 2 ** 64, 0.0)
    if hasattr(value, "__float__"):
        return _Scalar(label, 3, 0, 0, float(value))
    raise FlashcError(f"neither a tensor nor a number: {value!r}")


def _stream(stream, device):
    if stream is None:
        torch = sys.modules.get("torch")
        return torch.cuda.current_stream(device).cuda_stream if torch else 0
    return getattr(stream, "cuda_stream", stream)
