#!/usr/bin/env python3
"""The kernels of dsl-examples on a GPU against references computed there by PyTorch: a table, one group a kernel.

    correctness.py --flashc target/static/flashc --library libflashc_capi.so [--quick] [--only attention,matmul] [--json OUT]
    correctness.py --list                 the cases, nothing else; needs neither a GPU nor PyTorch
    correctness.py --fake right|wrong     tests this script on the CPU: PyTorch plays the kernels (wrong: one element is off)

Every specialization is compiled once, by the binary; the library only loads and launches. Inputs are random, by seed.
Inputs and outputs lie in larger buffers full of NaNs, so that reading beside an input spoils the result; after a launch
everything beside an output, and every input, must be what it was. Bounds, ratio = error / bound:

attention   o: max|o - ref| <= 2 max|low - ref| + 2 max|(ref + 0.3 - 0.3) - ref|, FlashAttention's: ref in f32 without
            TF32, low the same with scores, probabilities and results rounded to the inputs' type. lse: 1e-4 + 1e-5 max|lse|.
            Rows without keys: o = 0 and lse = -inf exactly. Lengths, types and layouts: every two values meet in a case.
matmul      each element: half a unit in the last place + 2^-20 |a||b|; Frobenius norm: half a unit + 1e-4, relative.
softmax, layer_norm   each element against f64: half a unit in the last place and what f32 arithmetic may lose.
vector_add  exact.

Exit status: 0, 1 if a case failed, 2 usage, 86 if a case took more than 60 s. The last line is `N passed, M failed`.
"""
import argparse
import concurrent.futures
import itertools
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
TILES = dict(attention="flash_attention_fwd", matmul="matmul", softmax="softmax", layer_norm="layer_norm",
             vector_add="vector_add")
torch = None  # imported by main: --list does without


# ---- cases -----------------------------------------------------------------------------------------------------------
@dataclass
class Case:
    kernel: str
    generics: dict  # what is compiled
    sizes: dict
    layout: str  # or several with commas, one a tensor
    seed: int = 0
    spread: float = 1.0  # of the inputs: large ones make a sharp softmax
    runs: int = 1  # all bit-identical

    def __str__(self):
        parts = {**self.sizes, **self.generics}
        more = [f"spread={self.spread:g}"] * (self.spread != 1) + [f"runs={self.runs}"] * (self.runs > 1)
        return " ".join([self.kernel, *(f"{k}={v}" for k, v in parts.items()), self.layout, *more, f"seed={self.seed}"])


def covering(factors, rng):
    """Rows in which every two values of different factors meet at least once; greedy."""
    names = list(factors)
    missing = {((a, x), (b, y)) for a, b in itertools.combinations(names, 2) for x in factors[a] for y in factors[b]}
    todo = sorted(missing, key=repr)
    rng.shuffle(todo)
    pair = lambda p, q: (p, q) if names.index(p[0]) < names.index(q[0]) else (q, p)  # noqa: E731
    for start in todo:
        if start not in missing:
            continue
        row = dict(start)
        for name in sorted((n for n in names if n not in row), key=lambda n: -len(factors[n])):
            gain = {v: sum(pair((name, v), other) in missing for other in row.items()) for v in factors[name]}
            row[name] = rng.choice([v for v in factors[name] if gain[v] == max(gain.values())])
        missing -= {pair(p, q) for p, q in itertools.combinations(row.items(), 2)}
        yield row


LENGTHS = [0, 1, 17, 64, 113, 128, 203, 239, 512, 799, 1023, 1024, 2048, 4224]


def attention_case(sq, sk, d, t, causal, ratio, layout, seed, hk=None, **more):
    b = 2 if sq * sk <= 2 ** 20 else 1
    hk = hk or {1: 3, 4: 2, 8: 1}[ratio]
    return Case("attention", dict(D=d, T=t, CAUSAL=causal), dict(B=b, HQ=hk * ratio, HK=hk, SQ=sq, SK=sk), layout, seed, **more)


def attention_cases():
    n = len(LENGTHS)
    pairs = [(LENGTHS[i], LENGTHS[(i + step) % n]) for i in range(n) for step in (0, 5, 9)]
    factors = dict(lengths=pairs, layout=["bhsd", "bshd", "transposed", "sliced", "strided", "even", "offset",
                                          "bshd,bhsd,strided,bhsd"],
                   ratio=[1, 4, 8], d=[64, 128], t=["bf16", "f16"], causal=[False, True], spread=[1.0, 5.0])
    for seed, r in enumerate(covering(factors, random.Random(7)), 100):
        yield attention_case(*r["lengths"], r["d"], r["t"], r["causal"], r["ratio"], r["layout"], seed, spread=r["spread"])
    same = [(512, 512, 64, "bf16", True, 1, "bshd"), (1024, 799, 128, "f16", False, 8, "bhsd"),
            (203, 1023, 128, "bf16", True, 4, "sliced"), (2048, 2048, 64, "f16", False, 4, "bhsd"),
            (4224, 4224, 128, "bf16", True, 1, "bhsd"), (1023, 4224, 128, "bf16", False, 1, "bshd")]
    for seed, c in enumerate(same, 900):
        yield attention_case(*c, seed, runs=10)
    for seed, (s, hk, d, causal) in enumerate([(16384, 2, 128, False), (16384, 2, 64, True), (65536, 1, 64, False),
                                               (65536, 1, 64, True)], 950):
        yield attention_case(s, s, d, "bf16", causal, 1, "bshd", seed, hk=hk)


def matmul_cases():
    shapes = [(1, 1, 1), (1, 1, 17), (17, 17, 17), (1, 4097, 64), (4095, 1, 129), (2, 3, 8192), (127, 127, 127), (128, 128, 128),
              (129, 129, 129), (127, 129, 128), (129, 128, 127), (255, 257, 64), (257, 255, 63), (256, 256, 1), (255, 255, 17),
              (1000, 8192, 512), (8192, 1000, 512), (4095, 4095, 257), (4097, 4097, 255), (4095, 4097, 4096), (4096, 4096, 4095),
              (64, 64, 0), (129, 257, 0), (0, 128, 64), (128, 0, 64), (0, 0, 0), (0, 17, 0), (333, 1, 1), (1, 777, 33),
              (17, 4096, 4096), (4096, 17, 4096), (113, 203, 799), (640, 384, 8192), (200, 136, 72), (1024, 1024, 1024)]
    layouts = ["row,row,row", "column,row,row", "row,column,row", "column,column,row", "row,row,column", "sliced,row,row",
               "row,offset,row", "even,strided,row", "strided,strided,strided", "row,row,offset"]
    for i, (m, n, k) in enumerate(shapes):
        for j, t in enumerate(("bf16", "f16")):
            for step in (0, 4):  # all ten layouts in turn, two a shape and type
                layout = layouts[(3 * i + 5 * j + step) % len(layouts)]
                yield Case("matmul", dict(T=t), dict(M=m, N=n, K=k), layout, 2000 + 10 * i + 2 * j + step)


def row_cases(kernel):
    layouts = ["row", "column", "sliced", "offset", "strided", "even", "row"]
    product = itertools.product((1, 7, 113, 1023, 1024, 1025, 5000, 8192, 20000), (1, 3, 200), ("f32", "bf16", "f16"))
    for i, (n, m, t) in enumerate(product):
        yield Case(kernel, dict(T=t), dict(M=m, N=n), layouts[i % 7], 3000 + i, spread=3.0 if i % 2 else 1.0)


def vector_cases():
    product = itertools.product((0, 1, 127, 128, 129, 1000003), ("f32", "bf16", "f16"), ("plain", "offset", "strided"))
    for i, (n, t, layout) in enumerate(product):
        yield Case("vector_add", dict(T=t), dict(N=n), layout, 4000 + i)


def all_cases(only, quick):
    sets = dict(attention=attention_cases(), matmul=matmul_cases(), softmax=row_cases("softmax"),
                layer_norm=row_cases("layer_norm"), vector_add=vector_cases())
    for name, cases in sets.items():
        if name in only:
            cases = [c for c in cases if not (quick and c.sizes.get("SQ", 0) > 20000)]
            yield from cases[::5] if quick else cases


# ---- tensors in buffers full of NaNs ---------------------------------------------------------------------------------
PAD = 64  # elements on both sides; 16-byte alignment stays


class Placed:
    """A tensor of a layout somewhere in a larger buffer."""

    def __init__(self, shape, dtype, layout, dev, values=None):
        rank = len(shape)
        axes = list(range(rank))
        order = {"bshd": [0, 2, 1, 3]}.get(layout, axes[:-2] + axes[:-3:-1] if layout in ("column", "transposed") else axes)
        spaced = {"even": rank - 1, "strided": max(rank - 2, 0)}.get(layout)  # the axis of which every second one is used
        strides, at = [0] * rank, 1
        for axis in reversed(order):
            strides[axis] = at * (2 if axis == spaced else 1)
            at = strides[axis] * max(shape[axis], 1) + (3 if layout == "sliced" and axis == order[-1] else 0)
        start = PAD + (layout == "offset")
        bits, self.poison = {torch.bfloat16: (torch.int16, 0x7FC1), torch.float16: (torch.int16, 0x7E01),
                             torch.float32: (torch.int32, 0x7FC00001)}[dtype]
        self.bits = torch.full((start + at + PAD,), self.poison, dtype=bits, device=dev)
        self.where = (tuple(shape), tuple(strides), start)
        self.view = self.bits.view(dtype).as_strided(*self.where)
        if values is not None:
            self.view.copy_(values)
        self.was = self.bits.clone()

    def spoil(self):
        self.bits.fill_(self.poison)

    def surroundings_unchanged(self):
        rest = self.bits.clone()
        rest.as_strided(*self.where).fill_(self.poison)
        return bool((rest == self.poison).all())


# ---- references and bounds: run(case, dev) gives inputs, outputs, scalars and check() -> [(what, error, bound)] ----------
DTYPES = dict(bf16="bfloat16", f16="float16", f32="float32")


def top(x):
    return x.max().item() if x.numel() else 0.0


def distance(x, y):
    """0 for equal infinities, infinite where something is NaN"""
    d = (x.to(y.dtype) - y).abs()
    return torch.where(x.to(y.dtype) == y, torch.zeros_like(d), torch.nan_to_num(d, nan=math.inf, posinf=math.inf))


def elementwise(what, got, want, bound):
    """(what, error, bound) at the worst element"""
    if not want.numel():
        return what, 0.0, 0.0
    d = distance(got, want).flatten()
    bound = bound.expand(want.shape).flatten().to(d.dtype)
    i = torch.where(d > 0, d / bound, torch.zeros_like(d)).argmax()
    return what, d[i].item(), bound[i].item()


def unit(dtype):
    """half a unit in the last place, relative, and near 0"""
    f = torch.finfo(dtype)
    return f.eps / 2 * 1.001, f.tiny * f.eps


def attention_reference(q, k, v, scale, causal):
    """o and lse in f32, and the largest error of o with everything rounded; blocks of rows keep the scores small"""
    (b, hq, sq, d), (hk, sk), t = q.shape, k.shape[1:3], q.dtype
    low = lambda x: x.to(t).float()  # noqa: E731
    q, k, v = q.float().reshape(b, hk, hq // hk, sq, d), k.float().unsqueeze(2), v.float().unsqueeze(2)
    o, lse, worst = torch.zeros_like(q), torch.full(q.shape[:-1], -math.inf, device=q.device), 0.0
    step = max(1, 2 ** 27 // (b * hq * max(sk, 1)))
    for r in range(0, sq if sk else 0, step):
        dots = q[..., r:r + step, :] @ k.transpose(-1, -2)
        hidden = None
        if causal:
            rows = torch.arange(r, min(r + step, sq), device=q.device) + (sk - sq)
            hidden = torch.arange(sk, device=q.device) > rows[:, None]
        results = []
        for rounded in (lambda x: x, low):
            s = rounded(rounded(dots) * scale)
            if causal:
                s = s.masked_fill_(hidden, -math.inf)
            total = torch.logsumexp(s, -1)
            p = (s - torch.where(total == -math.inf, 0.0, total)[..., None]).exp_()
            results.append((rounded(rounded(p) @ v), total))
        (o[..., r:r + step, :], lse[..., r:r + step]), (rough, _) = results
        worst = max(worst, top((rough - o[..., r:r + step, :]).abs()))
    return o.reshape(b, hq, sq, d), lse.reshape(b, hq, sq), worst


def attention(case, dev, normal):
    s, t, causal = case.sizes, getattr(torch, DTYPES[case.generics["T"]]), case.generics["CAUSAL"]
    d, lq, lk = case.generics["D"], (case.layout.split(",") * 4)[:4], "offset" if case.layout == "offset" else "plain"
    kv = (s["B"], s["HK"], s["SK"], d)
    q = Placed((s["B"], s["HQ"], s["SQ"], d), t, lq[0], dev, normal(s["B"], s["HQ"], s["SQ"], d) * case.spread)
    k, v = (Placed(kv, t, x, dev, normal(*kv)) for x in lq[1:3])
    o, lse = Placed(q.view.shape, t, lq[3], dev), Placed(q.view.shape[:3], torch.float32, lk, dev)
    scale = d ** -0.5

    def check():
        want, log, rough = attention_reference(q.view, k.view, v.view, scale, causal)
        r = want.to(t)
        bound = 2 * rough + 2 * top(((r + 0.3 - 0.3).float() - r.float()).abs())
        close = torch.tensor(bound, dtype=torch.float32, device=dev)
        yield elementwise("o", o.view, want, close)
        yield elementwise("lse", lse.view, log, 1e-4 + 1e-5 * torch.nan_to_num(log.abs(), posinf=0.0).amax()
                          if log.numel() else close)
        empty = s["SQ"] if s["SK"] == 0 else max(s["SQ"] - s["SK"], 0) if causal else 0
        yield "o of rows without keys", float((o.view[:, :, :empty] != 0).sum()), 0.0
        yield "lse of rows without keys", float((lse.view[:, :, :empty] != -math.inf).sum()), 0.0
    return [q, k, v], [o, lse], dict(scale=scale), check


def matmul(case, dev, normal):
    s, t = case.sizes, getattr(torch, DTYPES[case.generics["T"]])
    la, lb, lc = case.layout.split(",")
    a = Placed((s["M"], s["K"]), t, la, dev, normal(s["M"], s["K"]))
    b = Placed((s["K"], s["N"]), t, lb, dev, normal(s["K"], s["N"]))
    c = Placed((s["M"], s["N"]), t, lc, dev)

    def check():
        x, y = a.view.float(), b.view.float()
        want, (half, least) = x @ y, unit(t)
        yield elementwise("c", c.view, want, half * want.abs() + 2 ** -20 * (x.abs() @ y.abs()) + least)
        yield "c (Frobenius)", (c.view.float() - want).norm().item(), (half + 1e-4) * want.norm().item() + least
    return [a, b], [c], {}, check


def softmax(case, dev, normal):
    s, t = case.sizes, getattr(torch, DTYPES[case.generics["T"]])
    x = Placed((s["M"], s["N"]), t, case.layout, dev, normal(s["M"], s["N"]) * case.spread)
    y = Placed((s["M"], s["N"]), t, case.layout, dev)

    def check():
        want, (half, least) = torch.softmax(x.view.double(), -1), unit(t)
        yield elementwise("y", y.view, want, (half + 1e-5) * want + least + 1e-9)
    return [x], [y], {}, check


def layer_norm(case, dev, normal):
    s, t = case.sizes, getattr(torch, DTYPES[case.generics["T"]])
    line = case.layout if case.layout in ("offset", "strided") else "plain"
    x = Placed((s["M"], s["N"]), t, case.layout, dev, normal(s["M"], s["N"]) * case.spread + 0.5)
    w, b = (Placed((s["N"],), t, line, dev, normal(s["N"])) for _ in range(2))
    y = Placed((s["M"], s["N"]), t, case.layout, dev)
    mean, rstd = (Placed((s["M"],), torch.float32, line, dev) for _ in range(2))

    def check():
        z, (half, least) = x.view.double(), unit(t)
        mu = z.mean(-1)
        r = ((z - mu[:, None]).square().mean(-1) + 1e-5).rsqrt()
        product = (z - mu[:, None]) * r[:, None] * w.view.double()
        want = product + b.view.double()
        yield elementwise("y", y.view, want, half * want.abs() + 1e-5 * (1 + product.abs() + want.abs()) + least)
        yield elementwise("mean", mean.view, mu, 1e-6 * (1 + z.abs().mean(-1)))
        yield elementwise("rstd", rstd.view, r, 2e-5 * r)
    return [x, w, b], [y, mean, rstd], dict(eps=1e-5), check


def vector_add(case, dev, normal):
    n, t = case.sizes["N"], getattr(torch, DTYPES[case.generics["T"]])
    x, y = (Placed((n,), t, case.layout, dev, normal(n)) for _ in range(2))
    z = Placed((n,), t, case.layout, dev)

    def check():
        yield elementwise("z", z.view, (x.view.float() + y.view.float()).to(t).float(), torch.zeros((), device=dev))
    return [x, y], [z], {}, check


# ---- the kernels -------------------------------------------------------------------------------------------------------
def compile_all(cases, args, folder):
    """{(kernel, generics): kernel}, compiled and loaded in parallel; an exception in place of one that failed"""
    sys.path.insert(0, os.path.join(ROOT, "runtime", "python"))
    os.environ["FLASHC_LIBRARY"] = os.path.abspath(args.library)
    import flashc
    flashc._lib()

    def build(key):
        name, generics = key
        out = os.path.join(folder, "-".join([name, *(f"{k}_{v}" for k, v in generics)]))
        sets = [x for k, v in generics for x in ("--set", f"{k}={str(v).lower()}")]
        tile = os.path.join(ROOT, "dsl-examples", TILES[name] + ".tile")
        try:
            p = subprocess.run([os.path.abspath(args.flashc), "compile", tile, *sets, "-o", out], capture_output=True, text=True,
                               timeout=60)
            if p.returncode:
                raise RuntimeError(f"flashc compile {name} {' '.join(sets)} exited with {p.returncode}: {p.stderr.strip()}")
            return key, flashc.load(out + ".json").on(0, preload_all=True)
        except Exception as e:  # the cases of this one fail, the others run
            return key, e
    keys = sorted({(c.kernel, tuple(c.generics.items())) for c in cases}, key=repr)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        return dict(pool.map(build, keys))


class Fake:
    """PyTorch in the place of a kernel, to test this script."""
    variants = ["fake"]

    def __init__(self, case, wrong):
        self.case, self.wrong = case, wrong

    def __call__(self, *tensors, **_):
        c, (x, y, *_) = self.case, tensors
        if c.kernel == "attention":
            o, lse, _ = attention_reference(*tensors[:3], c.generics["D"] ** -0.5, c.generics["CAUSAL"])
            results = o, lse
        elif c.kernel == "layer_norm":
            z = x.float()
            mean, rstd = z.mean(-1), (z.var(-1, unbiased=False) + 1e-5).rsqrt()
            results = (z - mean[:, None]) * rstd[:, None] * y.float() + tensors[2].float(), mean, rstd
        else:
            results = [x.float().softmax(-1) if c.kernel == "softmax" else x.float() @ y.float() if c.kernel == "matmul" else x + y]
        for out, result in zip(tensors[-len(results):], results):
            out.copy_(result)
        if self.wrong and out.numel():
            out[(-1,) * out.dim()] += 1.0  # the last element of the last output
            if out[(-1,) * out.dim()].isinf():
                out[(-1,) * out.dim()] = 0.0
        return type("Report", (), dict(variant=0, launched=1))


# ---- running -----------------------------------------------------------------------------------------------------------
class Watchdog(threading.Thread):
    def __init__(self):
        super().__init__(daemon=True)
        self.now = ("start", time.monotonic() + 300)
        self.start()

    def watch(self, what, seconds=60):
        self.now = (what, time.monotonic() + seconds)

    def run(self):
        while True:
            time.sleep(0.5)
            what, until = self.now
            if time.monotonic() > until:
                print(f"WATCHDOG: too long: {what}", flush=True)
                os._exit(86)


@dataclass
class Result:
    case: Case
    variant: str = "-"
    what: str = ""
    error: float = 0.0
    bound: float = 0.0
    seconds: float = 0.0
    problems: list = field(default_factory=list)

    @property
    def ratio(self):
        return self.error / self.bound if self.bound else math.inf if self.error else 0.0


def run_case(case, kernel, dev):
    result, began = Result(case), time.monotonic()
    if isinstance(kernel, Exception):
        raise kernel
    generator = torch.Generator(device=dev).manual_seed(case.seed)
    normal = lambda *shape: torch.randn(*shape, generator=generator, device=dev)  # noqa: E731
    inputs, outputs, scalars, check = globals()[case.kernel](case, dev, normal)
    first, variants = None, set()
    for run in range(case.runs):
        for out in outputs:
            out.spoil()
        report = kernel(*(x.view for x in inputs + outputs), **scalars)
        variants.add(kernel.variants[report.variant] if report.launched else "nothing to do")
        if first is None:
            first = [out.bits.clone() for out in outputs]
        elif not all(torch.equal(a, out.bits) for a, out in zip(first, outputs)):
            result.problems.append(f"run {run + 1} differs from the first")
    result.variant = "+".join(sorted(variants))
    for what, error, bound in check():
        now = Result(case, what=what, error=error, bound=bound)
        if not error <= bound:
            result.problems.append(f"{what}: error {error:.3e}, allowed {bound:.3e}")
        if not result.what or now.ratio > result.ratio:
            result.what, result.error, result.bound = what, error, bound
    result.problems += [f"output {i}: memory beside it was written" for i, o in enumerate(outputs)
                        if not o.surroundings_unchanged()]
    result.problems += [f"input {i} was changed" for i, x in enumerate(inputs) if not torch.equal(x.bits, x.was)]
    result.seconds = time.monotonic() - began
    return result


def run_all(cases, kernels, dev, dog, sink):
    lost = None
    for case in cases:
        dog.watch(str(case))
        try:
            if lost:
                raise RuntimeError(f"not run, the GPU is lost since: {lost}")
            result = run_case(case, kernels(case), dev)
        except Exception as e:
            result = Result(case, problems=[f"{type(e).__name__}: {e}"], what="exception", error=math.inf)
            try:
                if dev == "cuda":
                    torch.cuda.synchronize()
            except Exception:
                lost = lost or str(case)
        if sink:
            row = dict(case=str(case), kernel=case.kernel, generics=case.generics, sizes=case.sizes, layout=case.layout,
                       variant=result.variant, what=result.what, error=result.error, bound=result.bound, ratio=result.ratio,
                       ms=round(1e3 * result.seconds, 2), ok=not result.problems, problems=result.problems)
            print(json.dumps({k: str(v) if isinstance(v, float) and not math.isfinite(v) else v for k, v in row.items()}),
                  file=sink, flush=True)
        yield result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flashc", help="the compiler's binary")
    parser.add_argument("--library", help="libflashc_capi.so; one that only launches will do")
    parser.add_argument("--quick", action="store_true", help="every fifth case, none of 65536 rows")
    parser.add_argument("--only", default=",".join(TILES), help="kernels, with commas: " + ",".join(TILES))
    parser.add_argument("--json", help="a file for one line of JSON a case")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--fake", choices=("right", "wrong"))
    args = parser.parse_args()
    only = args.only.split(",")
    if set(only) - set(TILES):
        parser.error(f"--only: there are {', '.join(TILES)}")
    cases = list(all_cases(only, args.quick))
    if args.list:
        return print(*cases, f"{len(cases)} cases", sep="\n")
    if not args.fake and not (args.flashc and args.library):
        parser.error("--flashc and --library are needed")
    for path in filter(None, (args.flashc, args.library)):
        if not os.path.exists(path):
            parser.error(f"there is no {path}")
    global torch
    import torch
    dev, dog, began = "cpu" if args.fake else "cuda", Watchdog(), time.monotonic()
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.set_float32_matmul_precision("highest")
    if args.fake:
        sizes = lambda c: math.prod(c.sizes.values())  # noqa: E731
        cases = [c for c in cases if sizes(c) < 3e6 and (args.fake == "right" or sizes(c))]
        kernels = lambda case: Fake(case, args.fake == "wrong")  # noqa: E731
        folder = None
    else:
        print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {len(cases)} cases", flush=True)
        dog.watch("compiling and loading", 180)
        folder = tempfile.TemporaryDirectory()
        table = compile_all(cases, args, folder.name)
        print(f"{len(table)} specializations compiled and loaded in {time.monotonic() - began:.1f} s", flush=True)
        kernels = lambda case: table[case.kernel, tuple(case.generics.items())]  # noqa: E731
    sink = open(args.json, "w") if args.json else None
    results = list(run_all(cases, kernels, dev, dog, sink))
    dog.watch("the table")
    print(f"\n{'kernel':<11} {'cases':>5} {'failed':>6} {'seconds':>8}  {'variants':<44} worst error/bound")
    for kernel in dict.fromkeys(c.kernel for c in cases):
        rs = [r for r in results if r.case.kernel == kernel]
        worst = max(rs, key=lambda r: r.ratio)
        variants = ", ".join(f"{v} {n}" for v, n in Counter(r.variant for r in rs).most_common())
        print(f"{kernel:<11} {len(rs):>5} {sum(bool(r.problems) for r in rs):>6} {sum(r.seconds for r in rs):>8.1f}  "
              f"{variants:<44} {worst.ratio:.3f} of {worst.what}: {worst.case}")
    failed = [r for r in results if r.problems]
    for r in failed:
        print(f"FAILED [{r.variant}] {r.case}", *("    " + p for p in r.problems), sep="\n")
    print(f"in {time.monotonic() - began:.1f} s")
    print(f"{len(results) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed or not results else 0


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.exit(status)
