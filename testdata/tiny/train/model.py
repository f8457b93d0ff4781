"""The networks of `tiny`: STDiT v1.0 with the published tensor names, and the T5 encoder's size.

STDiT is Open-Sora 1.0's denoiser: spatial attention inside each frame, temporal attention over each
patch position, cross attention to the caption, all steered by adaLN-single.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

STDIT_CONFIG = dict(
    architectures=["STDiT"], model_type="STDiT", input_size=[16, 8, 8], in_channels=4, patch_size=[1, 2, 2],
    hidden_size=128, depth=4, num_heads=4, mlp_ratio=4.0, class_dropout_prob=0.1, pred_sigma=True,
    caption_channels=128, model_max_length=64, space_scale=0.5, time_scale=1.0,
)
T5_CONFIG = dict(
    d_model=128, d_kv=32, num_heads=4, d_ff=256, num_layers=2, relative_attention_num_buckets=32,
    relative_attention_max_distance=128, dropout_rate=0.0, layer_norm_epsilon=1e-6, feed_forward_proj="gated-gelu",
    is_encoder_decoder=False, use_cache=False, tie_word_embeddings=False, pad_token_id=0, eos_token_id=1,
)


def new_text_encoder(vocabulary):
    from transformers import T5Config, T5EncoderModel
    return T5EncoderModel(T5Config(vocab_size=vocabulary, **T5_CONFIG))


def sincos(positions, width):
    """Sines then cosines of width/2 geometric frequencies, fp64: (n,) -> (n, width)."""
    frequency = 10000.0 ** (-torch.arange(width // 2, dtype=torch.float64) / (width // 2))
    angle = positions.double()[:, None] * frequency
    return torch.cat([angle.sin(), angle.cos()], 1)


def spatial_table(rows, columns, width, scale):
    """Half of the width encodes the column, the other half the row: (1, rows*columns, width)."""
    row, column = torch.meshgrid(torch.arange(rows) / scale, torch.arange(columns) / scale, indexing="ij")
    return torch.cat([sincos(column.flatten(), width // 2), sincos(row.flatten(), width // 2)], 1)[None].float()


def temporal_table(frames, width, scale):
    return sincos(torch.arange(frames) / scale, width)[None].float()


def modulate(x, shift, scale):
    return torch.addcmul(shift, x, 1 + scale)


class MLP(nn.Module):
    def __init__(self, width, hidden, out):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(width, hidden), nn.Linear(hidden, out)

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x), approximate="tanh"))


def attend(q, k, v, keep=None):
    """Softmax attention spelled out: for these short sequences much faster on a CPU than the fused kernel."""
    scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-1, -2)
    if keep is not None:
        scores = scores.masked_fill(~keep[:, None, None, :], -1e4)
    return scores.softmax(-1) @ v


class SelfAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.qkv, self.proj = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        rows, n, width = x.shape
        q, k, v = self.qkv(x).view(rows, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        out = attend(q, k, v)
        return self.proj(out.transpose(1, 2).reshape(rows, n, width))


class CrossAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.q_linear, self.kv_linear = nn.Linear(width, width), nn.Linear(width, 2 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x, y, keep):
        batch, n, width = x.shape
        q = self.q_linear(x).view(batch, n, self.heads, -1).transpose(1, 2)
        k, v = self.kv_linear(y).view(batch, y.shape[1], 2, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        out = attend(q, k, v, keep)
        return self.proj(out.transpose(1, 2).reshape(batch, n, width))


class Block(nn.Module):
    def __init__(self, width, heads, ratio):
        super().__init__()
        self.scale_shift_table = nn.Parameter(torch.randn(6, width) / width ** 0.5)
        self.attn, self.attn_temp = SelfAttention(width, heads), SelfAttention(width, heads)
        self.cross_attn = CrossAttention(width, heads)
        self.mlp = MLP(width, int(width * ratio), width)

    def forward(self, x, y, keep, six, frames, times):
        """x (B, frames*patches, C); six (B, 6, C); times (1, frames, C) in block 0, else None."""
        batch, n, width = x.shape
        patches = n // frames
        shift, scale, gate, shift_mlp, scale_mlp, gate_mlp = (self.scale_shift_table + six).chunk(6, 1)
        h = modulate(F.layer_norm(x, (width,), eps=1e-6), shift, scale)
        h = self.attn(h.reshape(batch * frames, patches, width)).view(batch, n, width)
        x = torch.addcmul(x, gate, h)
        h = x.view(batch, frames, patches, width).transpose(1, 2).reshape(batch * patches, frames, width)
        h = self.attn_temp(h if times is None else h + times)
        h = h.view(batch, patches, frames, width).transpose(1, 2).reshape(batch, n, width)
        x = torch.addcmul(x, gate, h)
        x = x + self.cross_attn(x, y, keep)
        h = modulate(F.layer_norm(x, (width,), eps=1e-6), shift_mlp, scale_mlp)
        return torch.addcmul(x, gate_mlp, self.mlp(h))


class TimestepEmbedder(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(256, width), nn.SiLU(), nn.Linear(width, width))

    def forward(self, timestep):
        frequency = torch.exp(-math.log(10000) * torch.arange(128, dtype=torch.float32) / 128)
        angle = timestep.float()[:, None] * frequency
        return self.mlp(torch.cat([angle.cos(), angle.sin()], 1))


class CaptionEmbedder(nn.Module):
    def __init__(self, channels, width, length):
        super().__init__()
        self.y_embedding = nn.Parameter(torch.randn(length, channels) * 0.02)
        self.y_proj = MLP(channels, width, width)

    def forward(self, y):
        return self.y_proj(y)


class PatchEmbedder(nn.Module):
    def __init__(self, channels, width, patch):
        super().__init__()
        self.proj = nn.Conv3d(channels, width, patch, stride=patch)

    def forward(self, x):
        return self.proj(x).flatten(2).transpose(1, 2)


class FinalLayer(nn.Module):
    def __init__(self, width, out):
        super().__init__()
        self.scale_shift_table = nn.Parameter(torch.randn(2, width) / width ** 0.5)
        self.linear = nn.Linear(width, out)

    def forward(self, x, t):
        shift, scale = (self.scale_shift_table + t[:, None]).chunk(2, 1)
        return self.linear(modulate(F.layer_norm(x, x.shape[-1:], eps=1e-6), shift, scale))


class STDiT(nn.Module):
    """forward: x (B, c, T, H, W), timestep (B,), y (B, L, caption), keep (B, L) bool -> (B, 2c, T, H, W)."""

    def __init__(self, config):
        super().__init__()
        self.config, width = config, config["hidden_size"]
        self.patch, self.out = tuple(config["patch_size"]), 2 * config["in_channels"]
        self.x_embedder = PatchEmbedder(config["in_channels"], width, self.patch)
        self.t_embedder = TimestepEmbedder(width)
        self.t_block = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))
        self.y_embedder = CaptionEmbedder(config["caption_channels"], width, config["model_max_length"])
        make = lambda: Block(width, config["num_heads"], config["mlp_ratio"])
        self.blocks = nn.ModuleList(make() for _ in range(config["depth"]))
        self.final_layer = FinalLayer(width, math.prod(self.patch) * self.out)
        frames, rows, columns = (n // p for n, p in zip(config["input_size"], self.patch))
        self.register_buffer("pos_embed", spatial_table(rows, columns, width, config["space_scale"]))
        self.register_buffer("pos_embed_temporal", temporal_table(frames, width, config["time_scale"]))
        self.reset()

    def reset(self):
        """Small random weights; what adds to the residual stream without a gate starts at zero."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)
        nn.init.xavier_uniform_(self.x_embedder.proj.weight.view(self.x_embedder.proj.weight.shape[0], -1))
        for layer in (self.t_embedder.mlp[0], self.t_embedder.mlp[2], self.t_block[1]):
            nn.init.normal_(layer.weight, std=0.02)
        for block in self.blocks:
            nn.init.zeros_(block.attn_temp.proj.weight)
            nn.init.zeros_(block.cross_attn.proj.weight)
        nn.init.zeros_(self.final_layer.linear.weight)

    def tables(self, frames, rows, columns):
        """The stored position tables, or freshly computed ones for another size."""
        width, space, time = (self.config[k] for k in ("hidden_size", "space_scale", "time_scale"))
        size = tuple(n // p for n, p in zip(self.config["input_size"], self.patch))
        if (frames, rows, columns) == size:
            return self.pos_embed, self.pos_embed_temporal
        return spatial_table(rows, columns, width, space), temporal_table(frames, width, time)

    def forward(self, x, timestep, y, keep, inside=False):
        """With inside, also returns the tokens after every block."""
        batch = x.shape[0]
        frames, rows, columns = (n // p for n, p in zip(x.shape[2:], self.patch))
        space, times = self.tables(frames, rows, columns)
        x = self.x_embedder(x).view(batch, frames, rows * columns, -1) + space[:, None]
        x = x.reshape(batch, frames * rows * columns, -1)
        t = self.t_embedder(timestep)
        six = self.t_block(t).view(batch, 6, -1)
        y = self.y_embedder(y)
        after = []
        for i, block in enumerate(self.blocks):
            x = block(x, y, keep, six, frames, times if i == 0 else None)
            after.append(x)
        x = self.final_layer(x, t).view(batch, frames, rows, columns, *self.patch, self.out)
        x = x.permute(0, 7, 1, 4, 2, 5, 3, 6)
        x = x.reshape(batch, self.out, frames * self.patch[0], rows * self.patch[1], columns * self.patch[2]).float()
        return (x, after) if inside else x
