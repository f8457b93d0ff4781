"""Linear of this package against PyTorch's, in turns: python against_torch.py [threads] [rounds].

Needs go and torch; no test needs this file. Both sides compute y = x w^T with the weights as they lie, (N, K):
"mapped" packs them while it computes, "packed" has done so before, as PyTorch does not. The best time of all
rounds counts. What it printed on one machine is in benchmarks.md beside the package.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import torch

SHAPES = [(1024, 1152, 1152), (1024, 4608, 1152), (1024, 1152, 4608), (256, 1152, 1152), (120, 4096, 4096),
          (120, 10240, 4096), (120, 4096, 10240), (256, 128, 128), (64, 64, 64), (2, 1152, 1152)]
TYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


def ours(binary, threads, best):
    """Runs the package's own measurement and keeps the best rates."""
    with tempfile.NamedTemporaryFile() as out:
        env = dict(os.environ, LATENTBEAM_BENCH=out.name, LATENTBEAM_BENCH_ONLY="^linear .* (f32|bf16)$",
                   GOMAXPROCS=str(threads), LATENTBEAM_CPU=os.environ.get("LATENTBEAM_CPU", "avx512bf16"))
        subprocess.run([binary, "-test.run", "TestMeasure"], env=env, check=True, stdout=subprocess.DEVNULL,
                       cwd=pathlib.Path(__file__).parent.parent)
        for m in json.load(out):
            if m["type"] in TYPES:
                key = (m["kernel"], m["shape"], m["type"])
                best[key] = max(best.get(key, 0), m["rate"])


def theirs(best):
    """The same products by torch.nn.functional.linear."""
    for m, n, k in SHAPES:
        for name, dtype in TYPES.items():
            x, w = torch.randn(m, k).to(dtype), torch.randn(n, k).to(dtype)
            torch.nn.functional.linear(x, w)
            shortest, start = 1e9, time.perf_counter()
            while time.perf_counter() - start < 0.1:
                before = time.perf_counter()
                torch.nn.functional.linear(x, w)
                shortest = min(shortest, time.perf_counter() - before)
            key = ("torch", f"{m}x{n}x{k}", name)
            best[key] = max(best.get(key, 0), 2 * m * n * k / shortest / 1e9)


def main():
    threads = int(sys.argv[1]) if len(sys.argv) > 1 else os.cpu_count()
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    best = {}
    with tempfile.TemporaryDirectory() as directory:
        binary = os.path.join(os.environ.get("BINARIES", directory), "cpu.test")
        if not os.path.exists(binary):
            subprocess.run(["go", "test", "-c", "-o", binary, "."], check=True, cwd=pathlib.Path(__file__).parent.parent)
        for _ in range(rounds):
            ours(binary, threads, best)
            theirs(best)
    print(f"torch {torch.__version__}, {threads} threads, best of {rounds} rounds, GFLOP/s")
    print("peak: f32 %.0f, bf16 %.0f" % (best["peak", "", "f32"], best["peak", "", "bf16"]))
    print(f"{'M x N x K':18} {'type':5} {'torch':>7} {'mapped':>7} {'packed':>7}  mapped/torch packed/torch")
    for m, n, k in SHAPES:
        for name in TYPES:
            shape = f"{m}x{n}x{k}"
            t, a, b = (best[kind, shape, name] for kind in ("torch", "linear mapped", "linear packed"))
            print(f"{shape:18} {name:5} {t:7.1f} {a:7.1f} {b:7.1f}  {a / t:12.2f} {b / t:12.2f}")


if __name__ == "__main__":
    main()
