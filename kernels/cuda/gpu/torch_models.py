"""The models of `timings` in PyTorch, asked as our tests are: torch_models.py STAGE eager|compiled cpu|cuda

Every line of standard input names a case, and the answer is a line of seconds; "result PATH" asks for what the
case gives. STAGE is stdit, t5 or vae; cases are those of its tests that measure. Blocks and weights are
those of blocks_against_torch.py (kernels/cpu/testdata), which lies beside it in the bundle: every block has the weights of
block 0. Attention is scaled_dot_product_attention, which takes the flash kernel in bf16. Needs torch, for t5 also
transformers, for vae diffusers.
"""

import os
import re
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

import blocks_against_torch as blocks

MODE = os.environ.get("TORCH_MODE", "max-autotune-no-cudagraphs")
C, TYPE = blocks.C, torch.bfloat16


def fill(model):
    """Every block gets the values of block 0, which are made once."""
    made = {}
    for name, parameter in model.named_parameters():
        name = re.sub(r"(blocks?)\.\d+\.", r"\1.0.", name, count=1)
        if name not in made:
            scale = 8 if name.endswith(".SelfAttention.q.weight") else 1  # see nntest.Repeated
            made[name] = (blocks.weight(name, parameter.shape) / scale).to(TYPE)
        parameter.data.copy_(made[name])


def empty(make):
    """A module with memory for its parameters, without the time that initialising them takes."""
    with torch.device("meta"):
        model = make()
    return model.to(TYPE).to_empty(device="cpu").eval()


def sinusoid(t):
    angles = t[:, None] * torch.exp(-torch.log(torch.tensor(10000.0)) * torch.arange(128, device=t.device) / 128)
    return torch.cat((angles.cos(), angles.sin()), -1)


class Embedder(nn.Module):
    """Of a scalar: (B) -> (B, C)."""

    def __init__(self):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(256, C), nn.SiLU(), nn.Linear(C, C))

    def forward(self, t):
        return self.mlp(sinusoid(t).to(TYPE))


class Caption(nn.Module):
    def __init__(self):
        super().__init__()
        self.y_proj = nn.ModuleDict({"fc1": nn.Linear(4096, C), "fc2": nn.Linear(C, C)})

    def forward(self, y):
        return self.y_proj["fc2"](F.gelu(self.y_proj["fc1"](y), approximate="tanh"))


class Final(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale_shift_table = nn.Parameter(torch.zeros(2, C))
        self.linear = nn.Linear(C, 32)

    def forward(self, x, t):
        shift, scale = (self.scale_shift_table + t[:, None])[:, :, None, None].unbind(1)
        return self.linear(F.layer_norm(x, (C,), eps=1e-6) * (1 + scale) + shift)


class STDiT(nn.Module):
    """Open-Sora 1.0 or 1.2: latents (B, 4, T, H, W), timesteps (B), text (B, L, 4096) -> (B, 8, T, H, W)."""

    def __init__(self, version, depth):
        super().__init__()
        self.x_embedder = nn.ModuleDict({"proj": nn.Conv3d(4, C, (1, 2, 2), (1, 2, 2))})
        self.t_embedder, self.y_embedder, self.final_layer = Embedder(), Caption(), Final()
        self.t_block = nn.Sequential(nn.SiLU(), nn.Linear(C, 6 * C))
        self.version = version
        if version == "1.0":
            self.blocks = nn.ModuleList(blocks.Block("both") for _ in range(depth))
        else:
            self.fps_embedder = Embedder()
            self.spatial_blocks = nn.ModuleList(blocks.Block("space") for _ in range(depth))
            self.temporal_blocks = nn.ModuleList(blocks.Block("time") for _ in range(depth))

    def layers(self):
        if self.version == "1.0":
            return list(self.blocks)
        return [block for pair in zip(self.spatial_blocks, self.temporal_blocks) for block in pair]

    def prepare(self, frames, height, width, device):
        """What does not change from step to step: the positions of patches and frames."""
        rows, cols = height // 2, width // 2
        line = torch.arange(frames, dtype=torch.float64)
        if self.version == "1.0":
            patches = grid(rows, cols, 1, 1, torch.float64)
            angles = line[:, None] / 10000 ** (torch.arange(C // 2, dtype=torch.float64) / (C // 2))
            times = torch.cat((angles.sin(), angles.cos()), -1)[:, None].to(TYPE).to(device)
        else:
            side = round((rows * cols) ** 0.5)
            area = (torch.tensor(8.0 * height).to(TYPE).item() * torch.tensor(8.0 * width).to(TYPE).item()) ** 0.5
            patches = grid(rows, cols, side / rows / (area / 512), side / cols / (area / 512), torch.float32)
            angles = line.to(TYPE)[:, None] * torch.tensor(10000.0) ** -(torch.arange(36) / 36).to(TYPE)
            times = tuple(f(angles.to(TYPE).double()).to(TYPE).repeat_interleave(2, -1).to(device)
                          for f in (torch.cos, torch.sin))
        self.patches, self.times = patches.to(TYPE).to(device), times

    def forward(self, x, timesteps, y):
        b, _, frames, height, width = x.shape
        x = self.x_embedder["proj"](x).flatten(3).permute(0, 2, 3, 1) + self.patches  # (B, T, S, C)
        t, y = self.t_embedder(timesteps), self.y_embedder(y)
        if self.version != "1.0":
            t = t + self.fps_embedder(torch.full_like(timesteps, 24))
        t6 = self.t_block(t).unflatten(-1, (6, C))
        for i, block in enumerate(self.layers()):
            x = block(x, y, t6, self.times if i == 0 or self.version != "1.0" else None)
        x = self.final_layer(x, t).view(b, frames, height // 2, width // 2, 2, 2, 8)
        return x.permute(0, 6, 1, 2, 4, 3, 5).reshape(b, 8, frames, height, width)


def grid(rows, cols, row_scale, col_scale, dtype):
    """Sines and cosines of the columns, then of the rows: (S, C)."""
    def line(n, scale):
        frequencies = 1 / 10000 ** (torch.arange(C // 4, dtype=dtype) / (C // 4))
        if dtype == torch.float32:
            frequencies = frequencies.to(TYPE).float()
        angles = (torch.arange(n, dtype=dtype) * scale)[:, None] * frequencies
        return torch.cat((angles.sin(), angles.cos()), -1)

    by_row, by_col = line(rows, row_scale)[:, None], line(cols, col_scale)[None]
    return torch.cat((by_col.expand(rows, -1, -1), by_row.expand(-1, cols, -1)), -1).flatten(0, 1)


def stdit(case, device):
    """A case of TestMeasureSteps. A step is one evaluation of two rows, guidance and the update of the latents."""
    version, size, _, tokens, depth, steps = case.split()
    frames, height, width = map(int, size.split("x"))
    model = empty(lambda: STDiT(version, int(depth)))
    fill(model)
    model = model.to(device)
    model.prepare(frames, height, width, device)
    text = blocks.hashed("text", 1, int(tokens), 4096).to(TYPE).to(device).expand(2, -1, -1)
    x = blocks.hashed("x", 1, 1, 4, frames, height, width).to(device)

    def evaluate(z, t):
        return model(torch.cat((z, z)).to(TYPE), torch.full((2,), float(t), device=device), text).float()

    def run():
        z = torch.randn_like(x)
        for i in range(int(steps)):
            given, null = evaluate(z, 1000 * (1 - i / int(steps)))[:, :4].chunk(2)
            z = z + (null + 7 * (given - null)) / int(steps)
        return z

    return run, lambda: evaluate(x, 500), model.layers()


def t5(case, device):
    """A case of TestMeasureEncode."""
    from transformers import T5Config
    from transformers.models.t5.modeling_t5 import T5EncoderModel

    width, layers, tokens = case.split()[0], *map(int, case.split()[1:])
    shape = dict(vocab_size=32128, d_model=4096, d_ff=10240, num_heads=64)
    if width == "small":
        shape = dict(vocab_size=128, d_model=256, d_ff=640, num_heads=4)
    config = T5Config(d_kv=64, num_layers=layers, feed_forward_proj="gated-gelu", dropout_rate=0,
                      attn_implementation="sdpa", **shape)
    model = empty(lambda: T5EncoderModel(config))
    model.encoder.embed_tokens.weight = model.shared.weight  # to_empty may part them
    fill(model)
    model = model.to(device)
    ids = (3 + 7 * torch.arange(tokens) % 100)[None].to(device)

    def run():
        return model(ids).last_hidden_state

    return run, run, list(model.encoder.block)


def vae(case, device):
    """A case of TestMeasureClips."""
    model, (z,) = blocks.vae(case)
    model, z = model.to(device), z.to(device)

    def run():
        return model(z)

    return run, lambda: run().permute(0, 2, 3, 1), [model.vae.decoder]


def main():
    stage, how, device = sys.argv[1:]
    torch.set_grad_enabled(False)
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    opened = None
    for line in sys.stdin:
        case = line.strip()
        if case.startswith("result "):
            result().float().cpu().contiguous().numpy().astype("<f4").tofile(case.removeprefix("result "))
            print("written", flush=True)
            continue
        if case != opened:
            run, result, parts = {"stdit": stdit, "t5": t5, "vae": vae}[stage](case, device)
            for part in parts if how == "compiled" else []:
                part.compile(mode=MODE, dynamic=False)
            opened = case
        wait()
        start = time.perf_counter()
        run()
        wait()
        print(f"seconds {time.perf_counter() - start:.6f}", flush=True)


if __name__ == "__main__":
    main()
