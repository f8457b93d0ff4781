"""Numbers for parity tests: inputs and weights that are a hash of their name, in the format of the
project's golden files, and a check of this STDiT against the published reference's numbers.

    python golden.py check REFERENCE.json
"""

import json
import sys
import zlib

import numpy as np
import torch

import model


def hashed(name, shape, amplitude):
    """H(name, shape, amp): fp32, in [-amp, amp), a mix of the name's CRC-32 and the flat index."""
    i = np.arange(int(np.prod(shape)), dtype=np.uint64)
    x = (np.uint64(zlib.crc32(name.encode())) ^ (i * np.uint64(0x9E3779B1) & np.uint64(0xFFFFFFFF))).astype(np.uint64)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor) & np.uint64(0xFFFFFFFF)
    x ^= x >> np.uint64(16)
    return torch.from_numpy((amplitude * (2 * (x / 2.0 ** 32) - 1)).astype(np.float32).reshape(shape))


def hashed_weight(name, shape):
    if name.endswith("scale_shift_table"):
        return hashed(name, shape, 0.3)
    if name.endswith("y_embedding"):
        return hashed(name, shape, 1.0)
    if name.endswith(".weight"):
        return hashed(name, shape, (3 / np.prod(shape[1:])) ** 0.5)
    return hashed(name, shape, 0.1)


def check(path):
    case = json.load(open(path))["stdit_v1_0_fp32"]
    config = {**model.STDIT_CONFIG, **case["config"]}
    net = model.STDiT(config).eval()
    state = {k: v if k.startswith("pos_embed") else hashed_weight(k, tuple(v.shape)) for k, v in net.state_dict().items()}
    net.load_state_dict(state)
    shape = (2, 4, *config["input_size"])
    keep = torch.tensor(case["mask"] * 2, dtype=torch.bool)
    with torch.no_grad():
        y = hashed("input.y", (2, 1, config["model_max_length"], config["caption_channels"]), 1.0)[:, 0]
        out = net(hashed("input.x", shape, 1.7), torch.tensor(case["timestep"]), y, keep)
    want = torch.tensor(case["out"]).view(case["out_shape"])
    print("largest difference", (out - want).abs().max().item(), "largest value", want.abs().max().item())


if __name__ == "__main__":
    check(sys.argv[2])
