"""Blocks of the models against PyTorch's, in turns: python blocks_against_torch.py [regular expressions of cases].

Needs go, torch, transformers and diffusers, and openvino, nncf and torchao for the other rivals; no test needs this file. Two
threads on all sides. STDiT's blocks are written here with scaled_dot_product_attention as the
reference computes them; T5's is that of transformers, Wan's and the autoencoders those of diffusers. Every module runs as it
is, behind torch.compile where that takes less than COMPILE seconds, and converted by OpenVINO, which computes in the
type of the case. Cases of type int8 are ours with precision: int8 and without, PyTorch in bf16, torchao's int8 of activations (dynamic,
by token) and weights (by channel) as it is and behind torch.compile, and OpenVINO with NNCF's int8, which has seen the very input before.

Weights and inputs are hashes of their names on all sides. It prints Go's benchmark format, which benchstat reads (benchmarks/README.md
beside the package), a line for each side and round: time of the clock and of the processors together (where other work runs only the
latter can be compared), GFLOP/s by the clock, the share of this machine's peak for the type by the processors' time, and how far its
result is from PyTorch's in fp32 ("apart"; of autoencoders, in the type of the case): the root mean square of the differences over
that of PyTorch's result.
"""

import copy
import functools
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import zlib
from collections import OrderedDict

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # waiting is no work, see processors' seconds

import gobench
import numpy
import torch
import torch.nn as nn
import torch.nn.functional as F

STAGES = pathlib.Path(__file__).resolve().parent.parent.parent.parent / "stages"
ROOMS = {"stdit": "stdit", "t5": "t5", "vae": "vae/autoencoder", "wan": "wan"}  # where the test of a stage is
TYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "int8": torch.bfloat16}  # of what is no product, where that is int8
C, HEADS, THREADS = 1152, 16, 2
COMPILE = int(os.environ.get("COMPILE", "60"))  # seconds that torch.compile may take
SIDES = os.environ.get("SIDES", "")  # regular expression of the others to run

# Of the root mean square of the differences over that of PyTorch's result. The decoder is 40 layers deep: in bf16
# both sides are 0.019 away from PyTorch's fp32.
TOLERANCE = {"f32": 1e-5, "bf16": 1e-2, "int8": 0.1, "vae f32": 1e-4, "vae bf16": 3e-2}

# name, stage, case as the stage's test reads it, rounds, whether to compile
CASES = [
    ("T5-xxl layer, 120 tokens, bf16", "t5", "120 bf16", 15, True),
    ("T5-xxl layer, 300 tokens, bf16", "t5", "300 bf16", 15, True),
    ("STDiT block, 16x256x256, bf16", "stdit", "1.0 16x32x32 120 bf16", 6, True),
    ("STDiT block, 16x256x256, f32", "stdit", "1.0 16x32x32 120 f32", 4, True),
    ("STDiT3 pair, 240p 51 frames, bf16", "stdit", "1.2 15x30x53 300 bf16", 5, True),
    ("STDiT3 pair, 240p 51 frames, f32", "stdit", "1.2 15x30x53 300 f32", 2, True),
    ("Wan 1.3B block, 17x480x832, bf16", "wan", "5x60x104 512 bf16", 3, True),
    ("Wan 1.3B block, 17x480x832, f32", "wan", "5x60x104 512 f32", 2, True),
    ("Wan 1.3B block, 17x480x832, int8", "wan", "5x60x104 512 int8", 3, True),
    ("T5-xxl layer, 120 tokens, int8", "t5", "120 int8", 10, True),
    ("T5-xxl layer, 300 tokens, int8", "t5", "300 int8", 8, True),
    ("STDiT block, 16x256x256, int8", "stdit", "1.0 16x32x32 120 int8", 4, True),
    ("VAE decode, 1 frame 512x512, bf16", "vae", "sd decode 1x512x512 4 bf16", 4, False),
    ("STDiT block, 16x512x512, bf16", "stdit", "1.0 16x64x64 120 bf16", 3, True),
    ("STDiT block, 16x512x512, f32", "stdit", "1.0 16x64x64 120 f32", 2, False),
    ("VAE decode, 4 frames 512x512, bf16", "vae", "sd decode 4x512x512 4 bf16", 2, False),
    ("VAE decode, 16 frames 512x512, bf16", "vae", "sd decode 16x512x512 4 bf16", 1, False),
    ("Wan VAE decode, 17x480x832, f32", "vae", "wan decode 17x480x832 4 f32", 1, False),
    ("Wan VAE encode, 17x480x832, f32", "vae", "wan encode 17x480x832 4 f32", 1, False),
    ("Wan VAE decode, 17x480x832, bf16", "vae", "wan decode 17x480x832 4 bf16", 1, False),
    ("Wan VAE encode, 17x480x832, bf16", "vae", "wan encode 17x480x832 4 bf16", 1, False),
    ("Wan 2.2 VAE decode, 17x480x832, bf16", "vae", "wan2.2 decode 17x480x832 4 bf16", 1, False),
    ("Wan 2.2 VAE encode, 17x480x832, bf16", "vae", "wan2.2 encode 17x480x832 4 bf16", 1, False),
]


def hashed(name, amplitude, *shape):
    """Values by the rule of nntest.Hash."""
    x = numpy.arange(numpy.prod(shape, dtype=int), dtype=numpy.uint32) * numpy.uint32(0x9E3779B1)
    x ^= numpy.uint32(zlib.crc32(name.encode()))
    for shift, factor in (16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1):
        x ^= x >> numpy.uint32(shift)
        x *= numpy.uint32(factor)
    values = amplitude * (2 * (x / 2.0**32) - 1)
    return torch.from_numpy(values.astype(numpy.float32)).reshape(shape)


def weight(name, shape):
    """A parameter's value by the rule of nntest.Weight."""
    amplitude = 0.1
    if name.endswith("scale_shift_table"):
        amplitude = 0.3
    elif name.endswith(".weight") and len(shape) >= 2:
        amplitude = (3 / numpy.prod(shape[1:])) ** 0.5
    values = hashed(name, amplitude, *shape)
    return values + 1 if name.endswith(".weight") and len(shape) == 1 or name.endswith(".gamma") else values


def fill(model, rename):
    """Gives every parameter its value, by the name it has in checkpoints."""
    for name, parameter in model.named_parameters():
        parameter.data.copy_(weight(rename(name), parameter.shape))


def rotate(x, cos, sin):
    a, b = x.unflatten(-1, (-1, 2)).unbind(-1)
    return x * cos + torch.stack((-b, a), -1).flatten(-2) * sin


class Attention(nn.Module):
    """timm's Attention: x (B, N, C); rope, if any, is cos and sin (N, D)."""

    def __init__(self, qk_norm):
        super().__init__()
        self.qkv, self.proj = nn.Linear(C, 3 * C), nn.Linear(C, C)
        self.qk_norm = qk_norm
        if qk_norm:
            self.q_norm, self.k_norm = nn.RMSNorm(C // HEADS, 1e-6), nn.RMSNorm(C // HEADS, 1e-6)

    def forward(self, x, rope=None):
        q, k, v = self.qkv(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        if self.qk_norm:
            q, k = self.q_norm(q), self.k_norm(k)
        if rope:
            q, k = rotate(q, *rope), rotate(k, *rope)
        return self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class Cross(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_linear, self.kv_linear, self.proj = nn.Linear(C, C), nn.Linear(C, 2 * C), nn.Linear(C, C)

    def forward(self, x, y):
        q = self.q_linear(x).unflatten(-1, (HEADS, -1)).transpose(1, 2)
        k, v = self.kv_linear(y).unflatten(-1, (2, HEADS, -1)).permute(2, 0, 3, 1, 4)
        return self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class Block(nn.Module):
    """A block of STDiT ("both") or of STDiT3 ("space" or "time"): x (B, T, S, C), y (B, L, C)."""

    def __init__(self, kind):
        super().__init__()
        self.kind = kind
        self.scale_shift_table = nn.Parameter(torch.zeros(6, C))
        self.attn, self.cross_attn = Attention(kind != "both"), Cross()
        self.attn_temp = Attention(False) if kind == "both" else None
        self.mlp = nn.Sequential(OrderedDict(fc1=nn.Linear(C, 4 * C), act=nn.GELU(approximate="tanh"),
                                             fc2=nn.Linear(4 * C, C)))

    def over(self, attn, x, axis, *rope):
        if axis == 1:
            x = x.transpose(1, 2)
        h = attn(x.flatten(0, 1), *rope).view(x.shape)
        return h.transpose(1, 2) if axis == 1 else h

    def forward(self, x, y, t6, positions):
        shift, scale, gate, shift2, scale2, gate2 = (self.scale_shift_table + t6)[:, :, None, None].unbind(1)
        h = F.layer_norm(x, (C,), eps=1e-6) * (1 + scale) + shift
        h = self.over(self.attn, h, 1, positions) if self.kind == "time" else self.over(self.attn, h, 2)
        x = x + gate * h
        if self.kind == "both":
            x = x + gate * self.over(self.attn_temp, x if positions is None else x + positions, 1)
        x = x + self.cross_attn(x.flatten(1, 2), y).view(x.shape)
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
    model = Denoiser(version)
    kinds = {"blocks.0.": "blocks.0."} if version == "1.0" else \
        {"blocks.0.": "spatial_blocks.0.", "blocks.1.": "temporal_blocks.0."}

    def rename(name):
        for ours, theirs in kinds.items() | {("t_block.", "t_block.1.")}:
            name = theirs + name.removeprefix(ours) if name.startswith(ours) else name
        return name

    fill(model, rename)
    t, y = hashed("text", 1, 2, C).to(dtype), hashed("text", 1, 2, int(tokens), C).to(dtype)
    line = torch.arange(frames, dtype=torch.float64)
    if version == "1.0":  # added once, before the only block
        angles = line[:, None] / 10000 ** (torch.arange(C // 2, dtype=torch.float64) / (C // 2))
        positions = torch.cat((angles.sin(), angles.cos()), -1)[:, None].to(dtype)
    else:
        angles = line.to(dtype)[:, None] * torch.tensor(10000.0) ** -(torch.arange(36) / 36).to(dtype)
        positions = tuple(f(angles.to(dtype).double()).to(dtype).repeat_interleave(2, -1) for f in (torch.cos, torch.sin))
        t = t + frame_rate(24, dtype)
    return model.to(dtype), (hashed("x", 1, 2, frames, patches, C).to(dtype), y, t, positions)


def frame_rate(fps, dtype):
    """What STDiT3 adds to the embedding of the timestep."""
    embed = nn.Sequential(OrderedDict({"0": nn.Linear(256, C), "1": nn.SiLU(), "2": nn.Linear(C, C)}))
    fill(embed, lambda name: "fps_embedder.mlp." + name)
    angles = fps * torch.exp(-torch.log(torch.tensor(10000.0)) * torch.arange(128) / 128)
    return embed.to(dtype)(torch.cat((angles.cos(), angles.sin())).to(dtype)[None])


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
    block = model.encoder.block[0]
    fill(block, lambda name: "encoder.block.0." + name)
    bias = block.layer[0].SelfAttention.compute_bias(tokens, tokens).to(dtype)
    return Layer(block), (hashed("x", 1, 1, tokens, 4096).to(dtype), bias)


class WanBlock(nn.Module):
    def __init__(self, block):
        super().__init__()
        self.block = block

    def forward(self, x, text, mod, cos, sin):
        return self.block(x, text, mod, (cos, sin))


def wan(case):
    from diffusers.models.transformers.transformer_wan import WanRotaryPosEmbed, WanTransformerBlock

    size, tokens, dtype = case.split()
    frames, height, width = map(int, size.split("x"))
    width_of_block = 1536
    block = WanTransformerBlock(width_of_block, 8960, 12, cross_attn_norm=True).eval()
    fill(block, lambda name: "blocks.0." + name)
    model = WanBlock(copy.deepcopy(block).to(TYPES[dtype]))
    model.block.norm2, model.block.scale_shift_table = block.norm2, block.scale_shift_table  # stay in fp32, as in diffusers
    cos, sin = WanRotaryPosEmbed(128, (1, 2, 2), 1024)(torch.zeros(1, 16, frames, height, width))
    count = frames * (height // 2) * (width // 2)
    text = hashed("text", 1, int(tokens) + 1, width_of_block)[None, :-1]  # without the row of padding
    return model, (hashed("x", 1, 1, count, width_of_block).to(TYPES[dtype]), text.to(TYPES[dtype]),
                   hashed("mod", 1, 1, 6, width_of_block), cos.float(), sin.float())


class Decoder(nn.Module):
    """Frames (T, 3, H, W) of latents (T, 4, h, w)."""

    def __init__(self, vae, micro):
        super().__init__()
        self.vae, self.micro = vae, micro

    def forward(self, z):
        return torch.cat([self.vae.decode(part).sample for part in z.split(self.micro)])


class WanClip(nn.Module):
    """The mean (C, T', h, w) of the posterior of x (1, 3, T, H, W), or the frames (T, 3, H, W) of latents x. Latents are
    normalised by channel, as denoisers have them."""

    def __init__(self, vae, what):
        super().__init__()
        self.vae, self.what = vae, what
        self.mean, self.std = (torch.tensor(v).view(-1, 1, 1, 1).to(vae.dtype)
                               for v in (vae.config.latents_mean, vae.config.latents_std))

    def forward(self, x):
        if self.what == "encode":
            return (self.vae.encode(x).latent_dist.mode()[0] - self.mean) / self.std
        return self.vae.decode(x * self.std + self.mean).sample[0].transpose(0, 1)


def vae(case):
    which, what, size, micro, dtype = case.split()
    frames, height, width = map(int, size.split("x"))
    if which.startswith("wan"):
        return wan_vae(which, what, frames, height, width, TYPES[dtype])
    from diffusers import AutoencoderKL

    kinds = {"down_block_types": ["DownEncoderBlock2D"] * 4, "up_block_types": ["UpDecoderBlock2D"] * 4}
    model = AutoencoderKL(block_out_channels=[128, 256, 512, 512], layers_per_block=2, **kinds).eval()
    fill(model, lambda name: name)
    z = hashed("z", 1, 4, frames, height // 8, width // 8).transpose(0, 1)
    z = z.to(TYPES[dtype], memory_format=torch.channels_last)
    return Decoder(model.to(TYPES[dtype], memory_format=torch.channels_last), int(micro)), (z,)


# Of Wan 2.2 TI2V-5B.
WAN22 = dict(base_dim=160, decoder_base_dim=256, z_dim=48, is_residual=True, in_channels=12, out_channels=12, patch_size=2,
             scale_factor_spatial=16, latents_mean=[0.0] * 48, latents_std=[1.0] * 48)


def wan_vae(which, what, frames, height, width, dtype):
    from diffusers import AutoencoderKLWan

    model = AutoencoderKLWan(**(WAN22 if which == "wan2.2" else {})).eval()
    fill(model, lambda name: name)
    x = hashed("x", 1, 3, frames, height, width)
    if what == "decode":
        scale = model.config.scale_factor_spatial
        x = hashed("z", 1, model.config.z_dim, (frames + 3) // 4, height // scale, width // scale)
    return WanClip(model.to(dtype), what), (x[None].to(dtype),)


class Ours:
    """The test of one stage, which times the cases that it is told."""

    beside = None  # another that runs in turns with it

    def __init__(self, stage, directory):
        binary = os.path.join(directory, stage + ".test")
        if not os.path.exists(binary):
            subprocess.run(["go", "test", "-c", "-o", binary, "."], check=True, cwd=STAGES / ROOMS[stage])
        env = dict(os.environ, LATENTBEAM_BENCH_BLOCKS="1", GOMAXPROCS=str(THREADS))
        self.process = subprocess.Popen([binary, "-test.run", "TestMeasure(Block|Clips)", "-test.timeout", "0"],
                                        env=env, cwd=STAGES / ROOMS[stage], text=True, bufsize=1,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def busy(self):
        """Seconds of processors that it has had."""
        return time.clock_gettime((~self.process.pid << 3) | 2)  # as clock_getcpuclockid makes it, on Linux

    def seconds(self, case):
        """Of the clock and of the processors."""
        before = self.busy()
        self.process.stdin.write(case + "\n")
        answer = self.process.stdout.readline().split()
        if answer[:1] != ["seconds"]:
            raise RuntimeError(f"case {case!r}: {answer} {self.process.communicate()[0]}")
        return float(answer[1]), self.busy() - before

    def result(self, directory):
        """What the last case gave."""
        path = os.path.join(directory, "result")
        self.process.stdin.write(f"result {path}\n")
        if self.process.stdout.readline() != "written\n":
            raise RuntimeError(f"no result: {self.process.communicate()[0]}")
        return torch.from_numpy(numpy.fromfile(path, "<f4"))

    def close(self):
        if self.beside is not None:
            self.beside.close()
        self.process.stdin.close()
        self.process.wait()


def seconds(run):
    """Of the clock and of the processors."""
    start, busy = time.perf_counter(), time.process_time()
    run()
    return time.perf_counter() - start, time.process_time() - busy


def compiled(model, args):
    """The module behind torch.compile, or None where that fails or takes too long."""
    def late(*_):
        raise TimeoutError(f"took more than {COMPILE} s")

    run = torch.compile(model, dynamic=False)
    signal.signal(signal.SIGALRM, late)
    signal.alarm(COMPILE)
    try:
        print(f"    compiled and run in {seconds(lambda: run(*args))[0]:.0f} s", file=sys.stderr)
        return lambda: run(*args)
    except Exception as error:  # any failure of the compiler only loses a side
        print(f"    not compiled: {str(error)[:200]}", file=sys.stderr)
        return None
    finally:
        signal.alarm(0)


def converted(model, args, kind):
    """The module behind OpenVINO, or None where that fails."""
    try:
        import openvino

        graph = openvino.convert_model(copy.deepcopy(model).float(), example_input=tuple(a.float() for a in args))
        values = [a.float().contiguous().numpy() for a in args]
        if kind == "int8":
            import nncf

            nncf.set_log_level(40)
            graph = nncf.quantize(graph, nncf.Dataset([dict(enumerate(values))]), subset_size=1, model_type=nncf.ModelType.TRANSFORMER)
        hint = {"INFERENCE_PRECISION_HINT": "f32" if kind == "f32" else "bf16", "PERFORMANCE_HINT": "LATENCY",
                "INFERENCE_NUM_THREADS": THREADS}
        run = openvino.Core().compile_model(graph, "CPU", hint)
        print(f"    converted and run in {seconds(lambda: run(values))[0]:.0f} s", file=sys.stderr)
        return lambda: torch.from_numpy(run(values)[0])
    except Exception as error:  # any failure of the converter only loses a side
        print(f"    not converted: {str(error)[:200]}", file=sys.stderr)
        return None


def rounded(model):
    """The module with torchao's products of 8 bits, or None where that fails."""
    try:
        from torchao.quantization import Int8DynamicActivationInt8WeightConfig, quantize_

        model = copy.deepcopy(model)
        quantize_(model, Int8DynamicActivationInt8WeightConfig())
        return model
    except Exception as error:
        print(f"    not rounded: {str(error)[:200]}", file=sys.stderr)
        return None


def difference(result, wanted, case):
    """Root mean square of the differences over that of what is wanted."""
    if result.dim() == 1 and " decode " in case:  # ours
        wanted = wanted.permute(0, 2, 3, 1)
        if case.startswith("wan"):
            result = result.clamp(-1, 1)  # theirs is
    result, wanted = result.flatten().float(), wanted.flatten().float()
    return ((result - wanted).square().mean() / wanted.square().mean()).sqrt().item()


def operations(model, args):
    """FLOP of the products of one call: those of nn.Linear and of attention, 2 for a multiplication and an addition."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        model(*args)
    return counter.get_total_flops()


def peaks():
    """GFLOP/s of a core of this machine by type, in the best of three runs."""
    text = subprocess.run(["go", "test", "-run", "^$", "-bench", "Kernel/op=peak", "-count", "3", "."], check=True, text=True,
                          cwd=pathlib.Path(__file__).resolve().parent.parent, env=dict(os.environ, GOMAXPROCS=str(THREADS)), stdout=subprocess.PIPE).stdout
    best = {}
    for parts, values in gobench.parse(text):
        if "GFLOP/s" in values:  # by the processors' time
            rate = values["GFLOP/s"] * values["ns/op"] / values["cpu-ns/op"]
            best[parts["type"]] = max(best.get(parts["type"], 0), rate)
    best.setdefault("bf16", best["f32"])  # processors that have no products of bf16 widen them
    return best


def sides_of(ours, stage, case, compile, directory):
    """Of a case: what runs each side, by name, and how far the result of it is from PyTorch's; and FLOP of a call."""
    kind = case.split()[-1]
    plain = case.removesuffix(kind) + ("f32" if stage != "vae" else kind)
    make = {"stdit": stdit, "t5": t5, "vae": vae, "wan": wan}[stage]
    model, args = make(plain)
    wanted, flop = model(*args), operations(model, args) if stage != "vae" else 0
    if plain != case:
        model, args = make(case)
    runs = {"latentbeam": lambda: ours.seconds(case)}
    apart = {"latentbeam": (ours.seconds(case), difference(ours.result(directory), wanted, case))[1]}
    if kind == "int8":
        half, other = case.replace("int8", "bf16"), Ours(stage, directory)  # or each round would load the case again
        ours.beside = other
        runs["latentbeam-bf16"] = lambda: other.seconds(half)
        apart["latentbeam-bf16"] = (other.seconds(half), difference(other.result(directory), wanted, case))[1]
    own = lambda: model(*args)
    theirs = {"torch": lambda: own, "torch-compile": lambda: compiled(model, args) if compile else None,
              "openvino": lambda: converted(model, args, kind)}
    if kind == "int8":
        few = functools.cache(lambda: rounded(model))
        theirs = {"torch-bf16": lambda: own, "openvino-int8": theirs["openvino"],
                  "torchao": lambda: few() is not None and (lambda: few()(*args)),
                  "torchao-compile": lambda: few() is not None and compiled(few(), args)}
    for name, open_side in theirs.items():
        if re.search(SIDES, name) and (run := open_side()):
            runs[name], apart[name] = lambda run=run: seconds(run), difference(run(), wanted, case)
    limit = TOLERANCE.get(f"{stage} {kind}", TOLERANCE[kind])
    if not apart["latentbeam"] <= max(limit, 2 * apart.get("torch", 0)):
        raise RuntimeError(f"case {case!r}: the result is {apart['latentbeam']:.2g} from PyTorch's")
    return runs, apart, flop


def measure(ours, name, stage, case, rounds, compile, directory, peak):
    """Runs the sides of a case in turns and prints a line for each."""
    runs, apart, flop = sides_of(ours, stage, case, compile, directory)
    model, size, kind = name.split(", ")
    for number in range(rounds):
        for side in list(runs)[:: 1 if number % 2 == 0 else -1]:
            clock, busy = runs[side]()
            print(gobench.line(gobench.name("Block", THREADS, model=model, size=size, type=kind, impl=side), clock, busy, flop,
                               peak=peak.get("bf16" if "bf16" in side else kind, 0), apart=apart[side]), flush=True)


def main():
    torch.set_num_threads(THREADS)
    torch.set_grad_enabled(False)
    with tempfile.TemporaryDirectory() as temporary:
        directory = os.environ.get("BINARIES", temporary)  # of the tests, so that a run may find them built
        peak = peaks()
        print("pkg: latentbeam/stages\n# torch", torch.__version__, "and peaks of a core in GFLOP/s", peak, flush=True)
        for name, stage, case, rounds, compile in CASES:
            if not re.search("|".join(sys.argv[1:]), name):
                continue
            ours = Ours(stage, directory)
            rounds = int(os.environ.get("ROUNDS", rounds))  # 0: compare results only
            print(gobench.load(), flush=True)
            measure(ours, name, stage, case, rounds, compile, directory, peak)
            ours.close()
            torch._dynamo.reset()


if __name__ == "__main__":
    main()
