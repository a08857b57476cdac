"""dsl-examples/matmul.tile beside cuBLAS: checked, then timed in turn. Needs PyTorch and a GPU.

    python3 tests/gpu/matmul.py ARTIFACT.json... [--library libflashc_capi.so]

Artifacts as `flashc compile dsl-examples/matmul.tile --set BM=128 --set BN=256 --set BK=64 -o m` writes them. Rates are TFLOP/s of
2·M·N·K operations: the median of three rounds of ten launches back to back.
"""
import argparse
import os
import statistics
import sys
import threading
import time

SHAPES = [(4096, 4096, 4096), (8192, 8192, 8192), (4095, 4096, 4096), (1000, 8192, 512), (8192, 1024, 8192)]
LAUNCHES, ROUNDS, REST_S, LIMIT_S, ERROR = 10, 3, 0.05, 90, 0.01


def rate(torch, flop, launch):
    launch()
    torch.cuda.synchronize()
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(LAUNCHES):
        launch()
    end.record()
    torch.cuda.synchronize()
    time.sleep(REST_S)
    return flop * LAUNCHES / start.elapsed_time(end) * 1e-9


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("artifacts", nargs="+")
    parser.add_argument("--library")
    args = parser.parse_args()
    if args.library:
        os.environ["FLASHC_LIBRARY"] = os.path.abspath(args.library)
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "runtime", "python"))
    import torch
    import flashc
    watchdog = threading.Timer(LIMIT_S, lambda: (print("a kernel hangs", flush=True), os._exit(86)))
    watchdog.daemon = True
    watchdog.start()
    kernels = {os.path.basename(a)[:-len(".json")]: flashc.load(a) for a in args.artifacts}
    wrong = 0
    for m, n, k in SHAPES:
        a = torch.randn(m, k, device="cuda", dtype=torch.bfloat16)
        b = torch.randn(k, n, device="cuda", dtype=torch.bfloat16)
        c = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
        want = a.float() @ b.float()
        launches = {"cuBLAS": lambda: torch.matmul(a, b, out=c)}
        for name, kernel in kernels.items():
            launches[name] = kernel.bind(a, b, c)
        rates = {name: [] for name in launches}
        for name, launch in launches.items():
            c.fill_(float("nan"))
            launch()
            error = float((c.float() - want).norm() / want.norm())
            if not error < ERROR:
                wrong += 1
                print(f"WRONG {name} {m}x{n}x{k}: relative error {error}")
        for _ in range(ROUNDS):
            for name, launch in launches.items():
                rates[name].append(rate(torch, 2 * m * n * k, launch))
        print(f"{m}x{n}x{k}: " + ", ".join(f"{name} {statistics.median(r):.0f}" for name, r in rates.items()), flush=True)
    sys.exit(1 if wrong else 0)


main()
