"""Attention and row operations of this package against PyTorch's, in turns: python rows_against_torch.py [rounds].

Needs go and torch; no test needs this file. Attention is scaled_dot_product_attention on views of the same
memory layout; norms, activations and the rotary embedding are what Open-Sora's modules call. Two threads, the
best time of all rounds. What it printed on one machine is in benchmarks.md beside the package.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import torch
import torch.nn.functional as F

PACKAGE = pathlib.Path(__file__).parent.parent
TYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
HEADS, TOKENS, CHANNELS = 16, 4096, 1152
ROWS = "layer norm, modulated|layer norm|rms norm of heads|rope|group norm, silu|gelu|silu|add|permute"


def ours(binary, best):
    """Runs the package's own measurement and keeps the best rates."""
    with tempfile.NamedTemporaryFile() as out:
        env = dict(os.environ, LATENTBEAM_BENCH=out.name, LATENTBEAM_BENCH_ONLY=f"^(attention .*|{ROWS}) ",
                   LATENTBEAM_CPU="avx512bf16")
        subprocess.run([binary, "-test.run", "TestMeasure"], env=env, check=True, stdout=subprocess.DEVNULL, cwd=PACKAGE)
        for m in json.load(out):
            key = (m["kernel"], m["shape"], m["type"])
            best[key] = max(best.get(key, (0, ""))[0], m["rate"]), m["unit"]


def rate(best, key, amount, run):
    run()
    shortest, start = 1e9, time.perf_counter()
    while time.perf_counter() - start < 0.1:
        before = time.perf_counter()
        run()
        shortest = min(shortest, time.perf_counter() - before)
    best[key] = max(best.get(key, 0), amount / shortest / 1e9)


def attention(best, key):
    b, t, s, keys, d = map(int, re.fullmatch(r"(\d+)x(\d+)x(\d+), (\d+) keys of (\d+)", key[1]).groups())
    dtype = TYPES[key[2]]
    q, k, v = torch.randn(b, t, s, 3, HEADS, d).to(dtype).unbind(3)
    axes = (0, 2, 3, 1, 4) if key[0] == "attention time" else (0, 1, 3, 2, 4)
    q, k, v = (x.permute(axes).flatten(0, 1) if key[0] != "attention time" else x.permute(axes)[0] for x in (q, k, v))
    mask = None
    if key[0] == "attention text":
        k, v = k[:, :, :keys], v[:, :, :keys]
    if key[0] == "attention T5":
        mask = torch.randn(1, HEADS, s, keys).to(dtype)
    rate(best, key, 4 * q.numel() * keys, lambda: F.scaled_dot_product_attention(q, k, v, attn_mask=mask))


def rms(x, w):
    h = x.float()
    return w * (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


def rotate(x, cos, sin):
    a, b = x.unflatten(-1, (-1, 2)).unbind(-1)
    return x * cos + torch.stack((-b, a), -1).flatten(-2) * sin


def rows(best, key):
    dtype = TYPES[key[2]]
    x, y = torch.randn(2, TOKENS, CHANNELS).to(dtype)
    mod, w = torch.randn(1, CHANNELS).to(dtype), torch.randn(72).to(dtype)
    q, k = torch.randn(2, TOKENS, HEADS, 72).to(dtype)
    angles = torch.randn(TOKENS, 1, 72).to(dtype)
    image, gw = torch.randn(1, 256, 128, 128).to(dtype), torch.randn(256).to(dtype)
    run, tensors = {
        "layer norm, modulated": (lambda: F.layer_norm(x, (CHANNELS,)) * (1 + mod) + mod, 2),
        "layer norm": (lambda: F.layer_norm(x, (CHANNELS,)), 2),
        "rms norm of heads": (lambda: (rms(q, w), rms(k, w)), 2),
        "rope": (lambda: (rotate(q, angles, angles), rotate(k, angles, angles)), 2),
        "group norm, silu": (lambda: F.silu(F.group_norm(image, 32, gw, gw), inplace=True), 3),
        "gelu": (lambda: F.gelu(x, approximate="tanh"), 2),
        "silu": (lambda: F.silu(x), 2),
        "add": (lambda: x + y, 3),
        "permute": (lambda: x.view(16, 256, CHANNELS).permute(1, 0, 2).contiguous(), 2),
    }[key[0]]
    rate(best, key, tensors * int(key[1]) * x.element_size(), run)


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    torch.set_num_threads(2)
    torch.set_grad_enabled(False)
    mine, theirs = {}, {}
    with tempfile.TemporaryDirectory() as directory:
        binary = os.path.join(os.environ.get("BINARIES", directory), "cpu.test")
        if not os.path.exists(binary):
            subprocess.run(["go", "test", "-c", "-o", binary, "."], check=True, cwd=PACKAGE)
        for _ in range(rounds):
            ours(binary, mine)
            for key in mine:
                if key[0] != "peak":
                    (attention if key[0].startswith("attention") else rows)(theirs, key)
    print(f"torch {torch.__version__}, 2 threads, best of {rounds} rounds")
    for key, (value, unit) in mine.items():
        if key in theirs:
            kernel, shape, kind = key
            print(f"{kernel:22} {shape:28} {kind:5} torch {theirs[key]:7.1f} ours {value:7.1f} {unit:8}"
                  f" {value / theirs[key]:6.2f}")


if __name__ == "__main__":
    main()
