"""Blocks of the models against PyTorch's, in turns: python blocks_against_torch.py [words of the cases to run].

Needs go, torch, transformers and diffusers; no test needs this file. Two threads on both sides, the best time of
all rounds. STDiT's blocks are written here with scaled_dot_product_attention as the reference computes them; T5's
is that of transformers, the decoder that of diffusers with channels last. Every module runs as it is and behind
torch.compile, where that takes less than COMPILE seconds. What it printed is in benchmarks.md beside the package.
"""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

STAGES = pathlib.Path(__file__).parent.parent.parent.parent / "stages"
TYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
C, HEADS, THREADS, COMPILE = 1152, 16, 2, 60

# name, stage, case as the stage's test reads it, rounds, what is asked for, whether to compile
CASES = [
    ("T5-xxl layer, 120 tokens, bf16", "t5", "120 bf16", 15, 1.03, True),
    ("T5-xxl layer, 300 tokens, bf16", "t5", "300 bf16", 15, 1.03, True),
    ("STDiT block, 16x256x256, bf16", "stdit", "1.0 16x32x32 120 bf16", 6, 1.25, True),
    ("STDiT block, 16x256x256, f32", "stdit", "1.0 16x32x32 120 f32", 4, 1.1, True),
    ("STDiT3 pair, 240p 51 frames, bf16", "stdit", "1.2 15x30x53 300 bf16", 5, 1.25, True),
    ("STDiT3 pair, 240p 51 frames, f32", "stdit", "1.2 15x30x53 300 f32", 2, 1.1, True),
    ("VAE decode, 1 frame 512x512, bf16", "vae", "1x64x64 4 bf16", 4, 1.1, False),
    ("STDiT block, 16x512x512, bf16", "stdit", "1.0 16x64x64 120 bf16", 3, 1.25, True),
    ("STDiT block, 16x512x512, f32", "stdit", "1.0 16x64x64 120 f32", 2, 1.1, False),
    ("VAE decode, 16 frames 512x512, bf16", "vae", "16x64x64 4 bf16", 1, 1.1, False),
]


def rotate(x, cos, sin):
    a, b = x.unflatten(-1, (-1, 2)).unbind(-1)
    return x * cos + torch.stack((-b, a), -1).flatten(-2) * sin


class Attention(nn.Module):
    """timm's Attention: x (B, N, C); rope, if any, is cos and sin (N, D)."""

    def __init__(self, qk_norm):
        super().__init__()
        self.qkv, self.proj = nn.Linear(C, 3 * C), nn.Linear(C, C)
        self.norms = nn.ModuleList(nn.RMSNorm(C // HEADS, 1e-6) for _ in range(2)) if qk_norm else None

    def forward(self, x, rope=None):
        q, k, v = self.qkv(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        if self.norms:
            q, k = (norm(t) for norm, t in zip(self.norms, (q, k)))
        if rope:
            q, k = rotate(q, *rope), rotate(k, *rope)
        return self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class Cross(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.kv, self.proj = nn.Linear(C, C), nn.Linear(C, 2 * C), nn.Linear(C, C)

    def forward(self, x, y):
        q = self.q(x).unflatten(-1, (HEADS, -1)).transpose(1, 2)
        k, v = self.kv(y).unflatten(-1, (2, HEADS, -1)).permute(2, 0, 3, 1, 4)
        return self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class Block(nn.Module):
    """A block of STDiT ("both") or of STDiT3 ("space" or "time"): x (B, T, S, C), y (B, L, C)."""

    def __init__(self, kind):
        super().__init__()
        self.kind = kind
        self.table = nn.Parameter(torch.randn(6, C) / C**0.5)
        self.attn, self.cross = Attention(kind != "both"), Cross()
        self.attn_temp = Attention(False) if kind == "both" else None
        self.mlp = nn.Sequential(nn.Linear(C, 4 * C), nn.GELU(approximate="tanh"), nn.Linear(4 * C, C))

    def over(self, attn, x, axis, *rope):
        if axis == 1:
            x = x.transpose(1, 2)
        h = attn(x.flatten(0, 1), *rope).view(x.shape)
        return h.transpose(1, 2) if axis == 1 else h

    def forward(self, x, y, t6, positions):
        shift, scale, gate, shift2, scale2, gate2 = (self.table + t6)[:, :, None, None].unbind(1)
        h = F.layer_norm(x, (C,), eps=1e-6) * (1 + scale) + shift
        h = self.over(self.attn, h, 1, positions) if self.kind == "time" else self.over(self.attn, h, 2)
        x = x + gate * h
        if self.kind == "both":
            x = x + gate * self.over(self.attn_temp, x + positions, 1)
        x = x + self.cross(x.flatten(1, 2), y).view(x.shape)
        h = F.layer_norm(x, (C,), eps=1e-6) * (1 + scale2) + shift2
        return x + gate2 * self.mlp(h)


class Denoiser(nn.Module):
    """What the stage's test times: the modulation and one block, or one pair."""

    def __init__(self, version):
        super().__init__()
        self.t_block = nn.Linear(C, 6 * C)
        self.blocks = nn.ModuleList(map(Block, ["both"] if version == "1.0" else ["space", "time"]))

    def forward(self, x, y, t, positions):
        t6 = self.t_block(F.silu(t)).unflatten(-1, (6, C))
        for block in self.blocks:
            x = block(x, y, t6, positions)
        return x


def stdit(case):
    version, size, tokens, dtype = case.split()
    frames, height, width = map(int, size.split("x"))
    patches, dtype = (height + 1) // 2 * ((width + 1) // 2), TYPES[dtype]
    model = Denoiser(version).to(dtype)
    positions = torch.randn(frames, 1, C).to(dtype)
    if version != "1.0":
        positions = tuple(torch.randn(2, frames, C // HEADS).to(dtype))
    shapes = (2, frames, patches, C), (2, int(tokens), C), (2, C)
    return model, (*(torch.randn(s).to(dtype) for s in shapes), positions)


class Layer(nn.Module):
    def __init__(self, block):
        super().__init__()
        self.block = block

    def forward(self, x, bias):
        return self.block(x, position_bias=bias)[0]


def t5(case):
    from transformers import T5Config
    from transformers.models.t5.modeling_t5 import T5EncoderModel

    tokens, dtype = int(case.split()[0]), TYPES[case.split()[1]]
    config = T5Config(vocab_size=128, d_model=4096, d_kv=64, d_ff=10240, num_layers=1, num_heads=64,
                      feed_forward_proj="gated-gelu", dropout_rate=0, attn_implementation="sdpa")
    with torch.device("meta"):
        model = T5EncoderModel(config)
    model = model.to(dtype).to_empty(device="cpu").eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.02)
    return Layer(model.encoder.block[0]), (torch.randn(1, tokens, 4096).to(dtype),
                                           torch.randn(1, 64, tokens, tokens).to(dtype))


class Decoder(nn.Module):
    def __init__(self, vae, micro):
        super().__init__()
        self.vae, self.micro = vae, micro

    def forward(self, z):
        return [self.vae.decode(part).sample for part in z.split(self.micro)]


def vae(case):
    from diffusers import AutoencoderKL

    size, micro, dtype = case.split()
    frames, height, width = map(int, size.split("x"))
    kinds = {"down_block_types": ["DownEncoderBlock2D"] * 4, "up_block_types": ["UpDecoderBlock2D"] * 4}
    model = AutoencoderKL(block_out_channels=[128, 256, 512, 512], layers_per_block=2, **kinds).eval()
    z = torch.randn(frames, 4, height, width).to(TYPES[dtype], memory_format=torch.channels_last)
    return Decoder(model.to(TYPES[dtype], memory_format=torch.channels_last), int(micro)), (z,)


class Ours:
    """The test of one stage, which times the cases that it is told."""

    def __init__(self, stage, directory):
        binary = os.path.join(directory, stage + ".test")
        if not os.path.exists(binary):
            subprocess.run(["go", "test", "-c", "-o", binary, "."], check=True, cwd=STAGES / stage)
        env = dict(os.environ, LATENTBEAM_BENCH_BLOCKS="1", GOMAXPROCS=str(THREADS))
        self.process = subprocess.Popen([binary, "-test.run", "TestMeasure(Block|Decode)", "-test.timeout", "0"],
                                        env=env, cwd=STAGES / stage, text=True, bufsize=1,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def seconds(self, case):
        self.process.stdin.write(case + "\n")
        answer = self.process.stdout.readline().split()
        if answer[:1] != ["seconds"]:
            raise RuntimeError(f"case {case!r}: {answer} {self.process.communicate()[0]}")
        return float(answer[1])

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def seconds(run, args):
    start = time.perf_counter()
    run(*args)
    return time.perf_counter() - start


def compiled(model, args):
    """The module behind torch.compile, or None where that fails or takes too long."""
    def late(*_):
        raise TimeoutError(f"took more than {COMPILE} s")

    run = torch.compile(model, dynamic=False)
    signal.signal(signal.SIGALRM, late)
    signal.alarm(COMPILE)
    try:
        print(f"    compiled and run in {seconds(run, args):.0f} s", file=sys.stderr)
        return run
    except Exception as error:  # any failure of the compiler only loses a column
        print(f"    not compiled: {str(error)[:200]}", file=sys.stderr)
        return None
    finally:
        signal.alarm(0)


def measure(ours, stage, case, rounds, compile):
    """Returns the best seconds of ours, of torch as it is, and compiled (None without)."""
    model, args = {"stdit": stdit, "t5": t5, "vae": vae}[stage](case)
    sides = [lambda: ours.seconds(case), lambda: seconds(model, args)]
    fast = compiled(model, args) if compile else None
    if fast is not None:
        sides.append(lambda: seconds(fast, args))
    best = [None, None, None]
    for number in range(rounds + (rounds > 1)):  # the first round warms up
        for i, side in enumerate(sides):
            took = side()
            best[i] = took if best[i] is None else min(best[i], took)
    return best


def main():
    torch.set_num_threads(THREADS)
    torch.set_grad_enabled(False)
    print(f"torch {torch.__version__}, {THREADS} threads, seconds, best of the rounds in brackets")
    print(f"{'':38} {'ours':>8} {'torch':>8} {'compiled':>8} {'ratio':>6} {'to best':>8} {'asked':>6}", flush=True)
    with tempfile.TemporaryDirectory() as directory:
        for name, stage, case, rounds, asked, compile in CASES:
            if sys.argv[1:] and not any(word in name for word in sys.argv[1:]):
                continue
            ours = Ours(stage, directory)
            mine, torch_s, fast = measure(ours, stage, case, rounds, compile)
            ours.close()
            torch._dynamo.reset()
            print(f"{name + f' ({rounds})':38} {mine:8.3f} {torch_s:8.3f} {fast or float('nan'):8.3f}"
                  f" {torch_s / mine:6.2f} {min(torch_s, fast or torch_s) / mine:8.2f} {asked:6.2f}", flush=True)


if __name__ == "__main__":
    main()
