#!/usr/bin/env python3
"""Tests of the runtime through its Python module; run it where PyTorch sees a GPU. Uses hand-written kernels.

    test_flashc.py            everything (fails without a GPU)
    test_flashc.py --no-gpu   only what needs none
"""
import os
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import flashc  # noqa: E402

DATA = os.path.join(HERE, "..", "testdata")


def fails(code, f, *parts):
    try:
        f()
    except flashc.FlashcError as e:
        assert e.code == code, (e.code, str(e))
        for part in parts:
            assert part in str(e), str(e)
        return str(e)
    raise AssertionError(f"{code} expected, no error")


class Fake:
    """quacks like a tensor"""
    def __init__(self, *shape):
        self.shape, self.dtype = shape, "torch.float32"
        self.device = type("D", (), dict(type="cpu", index=None))

    def data_ptr(self):
        return 4096

    def stride(self):
        return [1] * len(self.shape)


def test_without_gpu():
    kernel = flashc.load(os.path.join(DATA, "scale.json"))
    assert (kernel.name, kernel.tensors, kernel.scalars, kernel.variants) == ("scale", ["x", "y"], ["a"], ["plain"])
    with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
        f.write("{}")
        f.flush()
        fails("L0209", lambda: flashc.load(f.name))
    fails("MISUSE", lambda: kernel.on(0, nonsense=1), "unknown field")
    if not (os.path.exists("/dev/nvidiactl") or "torch" in sys.modules):
        print(fails("L0101", lambda: kernel(Fake(4), Fake(4), a=2.0), "no NVIDIA driver"))


def test_launch(torch):
    kernel = flashc.load(os.path.join(DATA, "scale.json"))
    x = torch.randn(2000, device="cuda")
    y = torch.empty(1000, device="cuda")
    report = kernel(x[:1000], y, a=2.0)
    assert torch.equal(y, 2 * x[:1000]) and report.launched and list(report.grid) == [8, 1, 1]
    kernel(y=y, x=x[::2], a=3)
    assert torch.equal(y, 3 * x[::2])
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        kernel(x[1::2], y, 0.5)
    stream.synchronize()
    assert torch.equal(y, 0.5 * x[1::2])
    assert not kernel(x[:0], y[:0], 1.0).launched
    fails("L0316", lambda: kernel(x[:1000], y, a=0.0), "`where a > 0.0` does not hold: a = 0.0", "line 3")
    fails("L0307", lambda: kernel(x, y, a=1.0), "dimension N is 2000 by axis 0 of `x`, but 1000 by axis 0 of `y`")
    fails("L0304", lambda: kernel(x[:1000].half(), y, a=1.0))
    fails("L0306", lambda: kernel(x[:1000].cpu(), y, a=1.0), "is on the CPU")
    fails("L0311", lambda: kernel(x[:1000], y[:1].expand(1000), a=1.0))
    r = kernel.resources()
    assert r["registers"] > 0 and r["local_bytes"] == 0, r
    torch.cuda.synchronize()


def test_tensor_maps(torch):
    kernel = flashc.load(os.path.join(DATA, "copy.json"))

    def copies(x, variant):
        y = torch.full(x.shape, 7.0, dtype=x.dtype, device="cuda")
        report = kernel(x, y)
        assert torch.equal(x, y), (tuple(x.shape), x.stride())
        assert kernel.variants[report.variant] == variant, (kernel.plan(x, y), x.stride())
        return y
    new = lambda *shape: torch.randn(*shape, device="cuda").to(torch.bfloat16)
    copies(new(2, 3, 100, 64), "tma")
    copies(new(2, 100, 3, 64).transpose(1, 2), "tma")            # (B, S, H, D)
    copies(new(100, 3, 2, 64).permute(2, 1, 0, 3), "tma")
    copies(new(1, 1, 100, 64), "tma")
    copies(new(1, 1, 1, 64), "tma")
    copies(new(1, 1, 100, 64).as_strided((1, 1, 100, 64), (3, 5, 64, 1)), "tma")   # strides that mean nothing
    copies(new(2, 3, 100, 80)[..., :64], "tma")
    copies(new(2, 3, 100, 80)[..., 8:72], "tma")
    copies(new(2, 3, 100, 80)[..., 4:68], "plain")
    copies(new(2, 3, 100, 66)[..., :64], "plain")
    copies(new(2, 3, 64, 100).transpose(2, 3), "plain")
    copies(new(2, 1, 100, 64).expand(2, 3, 100, 64), "plain")
    copies(new(70, 300, 5, 64).transpose(1, 2), "tma")
    x = new(2, 3, 100, 66)[..., :64]
    plan = kernel.plan(x, torch.empty(x.shape, dtype=x.dtype, device="cuda"))
    assert plan["rejected"][0]["variant"] == "tma" and "66 elements or 132 bytes" in plan["rejected"][0]["reason"], plan
    # More tensors than are remembered.
    pool = new(700, 1, 1, 16, 64)
    for i in range(700):
        copies(pool[i], "tma")


def test_cache_and_ptxas(torch):
    with tempfile.TemporaryDirectory() as d:
        x, y = torch.randn(100, device="cuda"), torch.empty(100, device="cuda")
        for expected in (1, 1):
            kernel = flashc.load(os.path.join(DATA, "scale.json")).on(0, cache=d)
            assert len(os.listdir(d)) == expected
            kernel(x, y, 2.0)
            assert torch.equal(y, 2 * x)
        name = os.path.join(d, os.listdir(d)[0])
        with open(name, "wb") as f:
            f.write(b"flashc\x001 and then nonsense")
        kernel = flashc.load(os.path.join(DATA, "scale.json")).on(0, cache=d)
        kernel(x, y, 3.0)
        assert torch.equal(y, 3 * x)
        fails("L0206", lambda: flashc.load(os.path.join(DATA, "scale.json")).on(0, ptxas="/no/ptxas"))
        bad = os.path.join(d, "bad.json")
        with open(os.path.join(DATA, "scale.json")) as f, open(bad, "w") as g:
            g.write(f.read().replace("mul.f32 %f3", "mul.f33 %f3"))
        print(fails("L0202", lambda: flashc.load(bad).on(0, cache=""), "cannot compile the PTX of `scale`", "mul"))
        with open(os.path.join(DATA, "copy.json")) as f, open(bad, "w") as g:
            g.write(f.read().replace('"shared_bytes": 2056', '"shared_bytes": 300000'))
        print(fails("L0204", lambda: flashc.load(bad).on(0, cache="")))


def test_threads_capture_and_unloading(torch):
    kernel = flashc.load(os.path.join(DATA, "scale.json"))
    problems = []

    def work(a):
        try:
            x, y = torch.randn(5000, device="cuda"), torch.empty(5000, device="cuda")
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            for _ in range(200):
                kernel(x, y, float(a), stream=stream)
            stream.synchronize()
            assert torch.equal(y, a * x)
        except Exception as e:
            problems.append(e)
    threads = [threading.Thread(target=work, args=(a,)) for a in range(1, 9)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not problems, problems
    x, y = torch.randn(5000, device="cuda"), torch.empty(5000, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel(x, y, 4.0)
    x.copy_(torch.randn(5000, device="cuda"))
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(y, 4 * x)
    big, out = torch.randn(1 << 28, device="cuda"), torch.empty(1 << 28, device="cuda")
    kernel(big, out, 2.0)
    del kernel, graph  # unloaded while the kernel runs
    torch.cuda.synchronize()
    assert torch.equal(out, 2 * big)


def overhead(torch):
    """host time of a launch"""
    kernel = flashc.load(os.path.join(DATA, "copy.json"))
    x = torch.randn(1, 1, 16, 64, device="cuda").to(torch.bfloat16)
    y = torch.empty_like(x)
    bound = kernel.bind(x, y)
    stream = torch.cuda.current_stream().cuda_stream
    null = torch.empty(1, device="cuda")
    for name, f in (("bound", lambda: bound(stream)), ("called", lambda: kernel(x, y)), ("torch fill_", lambda: null.fill_(1.0))):
        best = 1e9
        for _ in range(20):
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(200):
                f()
            best = min(best, (time.perf_counter() - start) / 200)
        torch.cuda.synchronize()
        print(f"host time of a launch, {name}: {best * 1e6:.2f} us")


if __name__ == "__main__":
    test_without_gpu()
    if "--no-gpu" not in sys.argv:
        import torch
        for test in (test_launch, test_tensor_maps, test_cache_and_ptxas, test_threads_capture_and_unloading, overhead):
            print(test.__name__, flush=True)
            test(torch)
    print("ok")
