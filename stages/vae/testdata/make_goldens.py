"""Makes testdata/golden/osplan-vae.json: python3 make_goldens.py V1.2.0 V1.3.1 OUT

V1.2.0 and V1.3.1 are checkouts of Open-Sora-Plan at these tags; needed are torch, diffusers and einops. Only the files of
the models are loaded, because the packages around them import much that is not needed.
"""
import copy
import importlib
import json
import math
import os
import sys
import types
import zlib

import numpy as np
import diffusers  # before stubs stand for what it looks for
import diffusers.configuration_utils
import diffusers.models.modeling_utils
import torch

ROOT = "opensora.models.causalvideovae"


def hashed(name, amp, shape):
    """Returns the values of nntest.Hash."""
    n = int(np.prod(shape))
    x = np.arange(n, dtype=np.uint32) * np.uint32(0x9E3779B1) ^ np.uint32(zlib.crc32(name.encode()))
    x ^= x >> np.uint32(16)
    x *= np.uint32(0x85EBCA6B)
    x ^= x >> np.uint32(13)
    x *= np.uint32(0xC2B2AE35)
    x ^= x >> np.uint32(16)
    u = x.astype(np.float64) / 2**32
    return torch.from_numpy((amp * (2 * u - 1)).astype(np.float32).reshape(shape))


def weight(name, shape):
    """Returns the values of nntest.Weight."""
    if name.endswith(".weight") and len(shape) >= 2:
        return hashed(name, math.sqrt(3 / np.prod(shape[1:])), shape)
    return hashed(name, 0.1, shape) + (1 if name.endswith(".weight") else 0)


def model_of(checkout, module, name, config):
    """Returns the model with hashed weights."""
    for key in [k for k in sys.modules if k.startswith("opensora")]:
        del sys.modules[key]
    for sub in ["opensora", "opensora.models", ROOT, ROOT + ".model", ROOT + ".model.vae", ROOT + ".model.causal_vae",
                ROOT + ".model.utils", ROOT + ".utils", ROOT + ".eval"]:
        package = types.ModuleType(sub)
        package.__path__ = [os.path.join(checkout, *sub.split("."))]
        sys.modules[sub] = package
    for absent in ["pytorch_lightning", "decord", "pytorchvideo", "pytorchvideo.transforms", "torchvision", "torchvision.io",
                   "torchvision.transforms", "torchvision.transforms._transforms_video", ROOT + ".utils.utils",
                   ROOT + ".eval.cal_psnr"]:
        stub = types.ModuleType(absent)
        stub.__path__ = []
        stub.__getattr__ = lambda attribute: object
        sys.modules.setdefault(absent, stub)
    model = getattr(importlib.import_module(f"{ROOT}.model.{module}"), name)(**config).eval()
    state = model.state_dict()
    for key in state:
        if "wavelet_tranform" not in key:
            state[key] = weight(key, tuple(state[key].shape))
    model.load_state_dict(state)
    return model


def thin(values, most):
    """Returns a stride that leaves at most so many values, and them."""
    values = values.float().flatten()
    stride = max(1, -(-len(values) // most)) | 1
    return stride, [float(f"{v:.7g}") for v in values[::stride].tolist()]


pool = torch.nn.functional.avg_pool3d  # which CPUs do not have in bf16: a mean in fp32, rounded, as on GPUs
torch.nn.functional.avg_pool3d = lambda x, *a: pool(x.float(), *a).to(x.dtype)


def outputs(model, frames, height, width, shift, scale, dtype):
    """Returns latents, latents of noise and pixels, of the model in a type."""
    model.to(dtype)
    shift, scale = (torch.tensor(v, dtype=dtype).view(1, -1, 1, 1, 1) for v in (shift, scale))
    x = hashed("input.x", 1, (3, frames, height, width)).to(dtype)
    posterior = model.encode(x[None])
    mean = ((posterior.mode() - shift) * scale)[0]
    sample = posterior.mean + posterior.std * hashed("noise", 1.7, mean.shape).to(dtype)
    z = hashed("input.z", 1.7, mean.shape).to(dtype)
    pixels = model.decode(z[None] / scale + shift)[0]
    return x, {"mean": mean, "sample": ((sample - shift) * scale)[0], "pixels": pixels}


def case(model, name, config, *of):
    x, values = outputs(model, *of, torch.float32)
    low = outputs(copy.deepcopy(model), *of, torch.bfloat16)[1]
    out = {"config": {"_class_name": name, **config}, "x_shape": list(x.shape), "latents_shape": list(values["mean"].shape),
           "pixels_shape": list(values["pixels"].shape)}
    for what, v in values.items():
        rms = ((low[what].float() - v).square().mean() / v.square().mean()).sqrt()
        out[what + "_stride"], out[what] = thin(v, 400)
        out[what + "_spread"] = float(f"{rms:.4g}")
    return out


@torch.no_grad()
def main(v12, v13, path):
    torch.manual_seed(0)
    cases = {"_about": "CausalVAEModel of Open-Sora-Plan v1.2.0 and WFVAEModel of v1.3.1 (CPU, fp32, whole clips: tiling off, but "
             "for causal_grouped) on tiny models, by stages/vae/testdata/make_goldens.py. Tensors are hashes of their names as in "
             "open-sora.json. x is Hash('input.x', 1), z Hash('input.z', 1.7) as denoisers have it, noise Hash('noise', 1.7). "
             "Every stride-th value of mean and sample (as denoisers have them) and of pixels; their "
             "spreads are how far the same modules in bf16 are from fp32, as a relative root mean square of all values."}
    blocks3 = ["ResnetBlock3D"] * 4
    published = {
        "hidden_size": 32, "z_channels": 4, "hidden_size_mult": [1, 2, 2, 2], "embed_dim": 4, "num_res_blocks": 2,
        "q_conv": "CausalConv3d", "encoder_conv_in": "Conv2d", "encoder_attention": "AttnBlock3DFix",
        "encoder_resnet_blocks": ["ResnetBlock2D", "ResnetBlock2D", "ResnetBlock3D", "ResnetBlock3D"],
        "encoder_spatial_downsample": ["Downsample", "Spatial2xTime2x3DDownsample", "Spatial2xTime2x3DDownsample", ""],
        "encoder_temporal_downsample": [""] * 4, "decoder_conv_in": "CausalConv3d", "decoder_attention": "AttnBlock3DFix",
        "decoder_resnet_blocks": blocks3,
        "decoder_spatial_upsample": ["", "SpatialUpsample2x", "Spatial2xTime2x3DUpsample", "Spatial2xTime2x3DUpsample"],
        "decoder_temporal_upsample": [""] * 4,
    }
    mixed = {**published, "encoder_attention": "AttnBlock3D", "decoder_attention": "AttnBlock3D"}
    defaults = {"hidden_size": 32, "hidden_size_mult": [1, 2, 1, 1], "num_res_blocks": 1}  # all else as the class has it
    for label, config, sizes in (
            ("causal_fixed", published, [(1, 16, 24), (5, 16, 24), (9, 24, 16), (29, 16, 24)]),
            ("causal_mixed", mixed, [(1, 16, 24), (5, 16, 24), (9, 24, 16), (29, 16, 24)]),
            ("causal_defaults", defaults, [(1, 16, 16), (9, 16, 24)]),
            ("causal_grouped", published, [(33, 16, 24), (57, 16, 16)])):
        model = model_of(v12, "causal_vae.modeling_causalvae", "CausalVAEModel", config)
        if label == "causal_grouped":  # as the sampling scripts set it, with sides that are no more than a tile
            model.enable_tiling()
            model.tile_sample_min_size, model.tile_latent_min_size = 512, 64
            model.tile_sample_min_size_t, model.tile_latent_min_size_t = 29, 8
        for frames, height, width in sizes:
            cases[f"{label}_{frames}frames"] = case(model, "CausalVAEModel", config, frames, height, width, [0] * 4, [0.18215] * 4)
    wf = {"latent_dim": 4, "base_channels": 8, "encoder_num_resblocks": 2, "encoder_energy_flow_hidden_size": 4,
          "decoder_num_resblocks": 2, "decoder_energy_flow_hidden_size": 8, "norm_type": "layernorm",
          "t_interpolation": "trilinear", "connect_res_layer_num": 2, "scale": [0.18215] * 4, "shift": [0] * 4}
    other = {**wf, "t_interpolation": "nearest", "connect_res_layer_num": 1, "use_attention": False, "encoder_num_resblocks": 1,
             "decoder_num_resblocks": 1, "scale": [0.5, 1, 2, 0.25], "shift": [0.5, -0.25, 0, 1]}
    for label, config, sizes in (("wf", wf, [(1, 16, 24), (5, 24, 16), (9, 16, 24), (29, 16, 24)]), ("wf_other", other, [(1, 16, 16), (13, 16, 24)])):
        model = model_of(v13, "vae.modeling_wfvae", "WFVAEModel", config)
        for frames, height, width in sizes:
            cases[f"{label}_{frames}frames"] = case(model, "WFVAEModel", config, frames, height, width, config["shift"], config["scale"])
    with open(path, "w") as f:
        f.write("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in cases.items()) + "\n}\n")


main(*sys.argv[1:])
