"""Kernels in PyTorch beside this package's: go test -run '^$' -bench Kernel ./kernels/cpu | python kernels_against_torch.py.

Needs torch; no test needs this file. It prints what it reads, and behind it a result of PyTorch for each kernel that PyTorch has a
counterpart for, in Go's benchmark format (benchmarks/README.md beside the package). Products compute y = x w^T with the weights as
they lie, (N, K); attention is scaled_dot_product_attention on views of the same memory layout; norms, activations and the rotary
embedding are what Open-Sora's modules call. Two threads.
"""

import sys
import time

import gobench
import torch
import torch.nn.functional as F

TYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
THREADS = 2
SECONDS = 0.1  # least time of a measurement


def shape_of(parts):
    return tuple(map(int, parts["shape"].split("x")))


def linear(parts, dtype):
    m, n, k = shape_of(parts)
    x, w = torch.randn(m, k).to(dtype), torch.randn(n, k).to(dtype)
    return lambda: F.linear(x, w)


def attention(parts, dtype):
    b, t, s, heads, d = shape_of(parts)
    keys, kind = int(parts["keys"]), parts["op"].removeprefix("attention_")
    q, k, v = torch.randn(b, t, s, 3, heads, d).to(dtype).unbind(3)
    if kind == "time":
        q, k, v = (x.permute(0, 2, 3, 1, 4)[0] for x in (q, k, v))
    else:
        q, k, v = (x.permute(0, 1, 3, 2, 4).flatten(0, 1) for x in (q, k, v))
    if kind == "text":
        k, v = k[:, :, :keys], v[:, :, :keys]
    mask = torch.randn(1, heads, s, keys).to(dtype) if kind == "T5" else None
    return lambda: F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def rms(x, w):
    h = x.float()
    return w * (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


def rotate(x, cos, sin):
    a, b = x.unflatten(-1, (-1, 2)).unbind(-1)
    return x * cos + torch.stack((-b, a), -1).flatten(-2) * sin


def rows(parts, dtype):
    shape = shape_of(parts)
    x, y = torch.randn(2, *shape).to(dtype)
    channels = shape[-1]
    mod, w = torch.randn(1, channels).to(dtype), torch.randn(channels).to(dtype)
    heads = x.transpose(0, 2).flatten(1, 2).unbind(0) if len(shape) == 5 else None  # queries and keys
    angles = torch.randn(heads[0].shape[0], 1, channels).to(dtype) if heads else None
    return {
        "layer_norm_modulated": lambda: F.layer_norm(x, (channels,)) * (1 + mod) + mod,
        "layer_norm": lambda: F.layer_norm(x, (channels,)),
        "rms_norm_of_heads": lambda: [rms(h, w) for h in heads],
        "rope": lambda: [rotate(h, angles, angles) for h in heads],
        "group_norm_silu": lambda: F.silu(F.group_norm(x.permute(0, 3, 1, 2), 32, w, w), inplace=True),
        "gelu": lambda: F.gelu(x, approximate="tanh"),
        "silu": lambda: F.silu(x),
        "add": lambda: x + y,
        "permute": lambda: x.view(16, 256, channels).permute(1, 0, 2).contiguous(),
    }[parts["op"]]


MAKE = dict.fromkeys(["layer_norm_modulated", "layer_norm", "rms_norm_of_heads", "rope", "group_norm_silu", "gelu", "silu", "add", "permute"], rows)
MAKE |= {"linear": linear} | dict.fromkeys([f"attention_{kind}" for kind in ("space", "time", "text", "T5", "video")], attention)


def measure(run):
    """Seconds of the clock and of the processors of a call."""
    run()
    calls, start, busy = 0, time.perf_counter(), time.process_time()
    while calls == 0 or time.perf_counter() - start < SECONDS:
        run()
        calls += 1
    return (time.perf_counter() - start) / calls, (time.process_time() - busy) / calls


def main():
    torch.set_num_threads(THREADS)
    torch.set_grad_enabled(False)
    text, done = sys.stdin.read(), set()
    print(text, end="", flush=True)
    for parts, values in gobench.parse(text):
        make = MAKE.get(parts.get("op"))
        name = gobench.name("Kernel", THREADS, **{**parts, "impl": "torch"})
        # PyTorch has one form of weights, those that are mapped here
        if make is None or parts["type"] not in TYPES or parts.get("weights") == "packed" or name in done:
            continue
        done.add(name)
        unit = "GB/s" if "GB/s" in values else "GFLOP/s"
        amount = values[unit] * values["ns/op"]  # operations or bytes of a call
        clock, busy = measure(make(parts, TYPES[parts["type"]]))
        print(gobench.line(name, clock, busy, amount, unit), flush=True)


if __name__ == "__main__":
    main()
