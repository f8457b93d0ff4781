"""Writes testdata/golden/osplan.json and osplan-sampler.json: python goldens.py SOURCE12 SOURCE13 FOLDER.

SOURCE12 and SOURCE13 are checkouts of PKU-YuanGroup/Open-Sora-Plan at v1.2.0 and v1.3.1. Needs torch, diffusers, einops;
no test needs this file. Weights and inputs are hashed by name (nntest.Hash and nntest.Weight), outputs are numbers of the
project's own modules, which run unchanged.
"""

import importlib
import json
import math
import pathlib
import sys
import types
import zlib

import numpy as np
import torch
from diffusers import EulerAncestralDiscreteScheduler, PNDMScheduler


def hashed(name, amp, *shape):
    x = np.uint32(zlib.crc32(name.encode())) ^ (np.arange(math.prod(shape), dtype=np.uint32) * np.uint32(0x9E3779B1))
    for shift, factor in (16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1):
        x = (x ^ (x >> np.uint32(shift))) * np.uint32(factor)
    return torch.from_numpy((amp * (2 * (x.astype(np.float64) / 2**32) - 1)).astype(np.float32).reshape(shape))


def weight(name, shape):
    if name.endswith("scale_shift_table"):
        return hashed(name, 0.3, *shape)
    if name.endswith(".weight"):
        return hashed(name, math.sqrt(3 / math.prod(shape[1:])), *shape)
    return hashed(name, 0.1, *shape)


def module(source, name):
    """Imports a module of a checkout, with what of the project it needs."""
    for old in [m for m in sys.modules if m.split(".")[0] == "opensora"]:
        del sys.modules[old]
    for package in ["opensora", "opensora.utils", "opensora.models", "opensora.models.diffusion"]:
        m = types.ModuleType(package)
        m.__path__ = [str(pathlib.Path(source, *package.split(".")))]
        sys.modules[package] = m
    utils = types.ModuleType("opensora.utils.utils")
    utils.to_2tuple = lambda x: tuple(x) if isinstance(x, (list, tuple)) else (x, x)
    sys.modules["opensora.utils.utils"] = utils
    if "diffusers.models.transformer_2d" not in sys.modules:  # its old place
        from diffusers.models.modeling_outputs import Transformer2DModelOutput
        m = types.ModuleType("diffusers.models.transformer_2d")
        m.Transformer2DModelOutput = Transformer2DModelOutput
        sys.modules[m.__name__] = m
    return importlib.import_module(name)


COMMON = dict(num_attention_heads=3, attention_head_dim=12, cross_attention_dim=36, attention_bias=True, patch_size=2,
              patch_size_t=1, activation_fn="gelu-approximate", norm_elementwise_affine=False, norm_eps=1e-6, caption_channels=10)
V12 = COMMON | dict(in_channels=4, out_channels=4, num_layers=2, norm_type="ada_norm_single", use_rope=True, attention_mode="math",
                    sample_size=[6, 8], sample_size_t=3, interpolation_scale_t=1.0, interpolation_scale_h=1.5,
                    interpolation_scale_w=2.0)
V13 = COMMON | dict(in_channels=8, out_channels=8, num_layers=5, sparse1d=True, sparse_n=4, sample_size_h=6, sample_size_w=8,
                    sample_size_t=3)
NO_SCALES = dict(interpolation_scale_t=None, interpolation_scale_h=None, interpolation_scale_w=None)

# name: (version, changes of the configuration, latents (T, H, W), box or None, lengths of the texts, timesteps)
CASES = {
    "v12": (12, {}, (3, 6, 8), None, [3, 7], [987.4, 12.0]),
    "v12_image": (12, {}, (1, 4, 6), None, [1], [500.0]),
    "v12_scales": (12, NO_SCALES | dict(sample_size=[45, 80], sample_size_t=24), (4, 6, 4), None, [5], [333.25]),
    "v12_odd": (12, NO_SCALES | dict(sample_size=45, sample_size_t=33), (2, 4, 4), None, [2], [1.0]),
    "v12_box": (12, {}, (3, 5, 7), (4, 8, 10), [3, 6], [700.5, 20.0]),
    "v13": (13, {}, (3, 6, 8), None, [3, 7], [999.0, 12.0]),
    "v13_whole": (13, {}, (4, 8, 8), None, [4], [640.0]),
    "v13_image": (13, {}, (1, 2, 6), None, [1], [500.0]),
    "v13_tall": (13, dict(num_layers=6), (5, 6, 10), None, [8], [77.0]),
    "v13_dense": (13, dict(sparse1d=False, sparse_n=1), (2, 6, 4), None, [3], [450.0]),
    "v13_late": (13, dict(num_layers=32), (2, 6, 6), None, [2], [250.0]),
    "v13_box": (13, {}, (3, 5, 7), (4, 8, 10), [3, 6], [700.0, 20.0]),
    "v13_low": (13, {}, (2, 3, 8), (3, 8, 8), [3], [300.0]),
}


def forward(sources, dtype, version, changes, size, box, lens, times):
    if version == 12:
        cls = module(sources[0], "opensora.models.diffusion.opensora.modeling_opensora").OpenSoraT2V
        config = V12 | changes
    else:
        cls = module(sources[1], "opensora.models.diffusion.opensora_v1_3.modeling_opensora").OpenSoraT2V_v1_3
        config = V13 | changes
    torch.backends.cuda.sdp_kernel = lambda **_: torch.autograd.profiler.record_function("")  # it is about CUDA
    model = cls(**config).eval()
    state = {name: weight(name, tuple(p.shape)) for name, p in model.named_parameters()}
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not missing and not unexpected
    model = model.to(dtype)
    n, c = len(lens), config["in_channels"]
    valid, box = size, box or size
    text, mask = torch.zeros(n, 1, 12, 10), torch.zeros(n, 1, 12)
    for i, length in enumerate(lens):
        text[i, 0, :length], mask[i, 0, :length] = hashed(f"text.{i}", 1, length, 10), 1
        text[i, 0, length:] = hashed("padding", 3, 12 - length, 10)
    small = hashed("input.x", 1.7, n, c, *valid)
    outs = []
    for around in [torch.zeros(n, c, *box), hashed("around", 1, n, c, *box)]:
        x, keep = around, torch.zeros(n, *box)
        t, h, w = valid
        x[:, :, :t, : h + h % 2, : w + w % 2] = 0  # patches with any valid latent
        x[:, :, :t, :h, :w], keep[:, :t, :h, :w] = small, 1
        with torch.no_grad():
            out = model(x.to(dtype), timestep=torch.tensor(times).to(dtype if version == 13 else torch.float32),
                        encoder_hidden_states=text.to(dtype), attention_mask=keep, encoder_attention_mask=mask,
                        return_dict=False)[0]
        outs.append(out.float()[:, :, :t, :h, :w])
    assert dtype != torch.float32 or torch.allclose(*outs, rtol=0, atol=1e-5)  # what is masked changes nothing
    named = config | {"_class_name": cls.__name__}
    return {"config": named, "tensors": len(state), "shape": [n, c, *valid], "box": list(box) if box != size else None,
            "lens": lens, "timesteps": times}, outs[0]


def forwards(sources):
    out = {"_about": {"what": "Forwards of OpenSoraT2V (v1.2.0) and OpenSoraT2V_v1_3 (v1.3.1) of PKU-YuanGroup/Open-Sora-Plan, "
                      f"torch {torch.__version__}, CPU, fp32. Made by stages/osplan/testdata/goldens.py; data only.",
                      "rms": "relative RMS of the same modules in bf16"}}
    for name, case in CASES.items():
        entry, values = forward(sources, torch.float32, *case)
        _, low = forward(sources, torch.bfloat16, *case)
        entry["rms"] = ((low - values).square().mean() / values.square().mean()).sqrt().item()
        out[name] = entry | {"out": values.flatten().tolist()}
    return out


RUNS = {
    "v12": ("euler_ancestral", {}, 8, 7.5),
    "v12_fractional": ("euler_ancestral", {}, 30, 3.0),
    "v12_one": ("euler_ancestral", {}, 1, 2.0),
    "v13": ("euler_ancestral", dict(prediction_type="v_prediction", rescale_betas_zero_snr=True, timestep_spacing="trailing"), 10, 7.5),
    "v13_odd": ("euler_ancestral", dict(prediction_type="v_prediction", rescale_betas_zero_snr=True, timestep_spacing="trailing"), 7, 2.0),
    "leading": ("euler_ancestral", dict(timestep_spacing="leading"), 9, 4.0),
    "v_leading": ("euler_ancestral", dict(prediction_type="v_prediction", timestep_spacing="leading"), 6, 4.0),
    "alone": ("euler_ancestral", {}, 5, None),
    "zero_snr_linspace": ("euler_ancestral", dict(rescale_betas_zero_snr=True, timestep_spacing="linspace", prediction_type="v_prediction"), 4, 1.5),
    "pndm": ("pndm", {}, 10, 5.0),
    "pndm_least": ("pndm", {}, 4, 2.0),
    "pndm_v": ("pndm", dict(prediction_type="v_prediction"), 7, 2.0),
    "pndm_trailing": ("pndm", dict(timestep_spacing="trailing"), 9, 2.0),
    "pndm_linspace": ("pndm", dict(timestep_spacing="linspace"), 12, None),
}


def sample(solver, config, steps, guidance):
    scheduler = {"euler_ancestral": EulerAncestralDiscreteScheduler, "pndm": PNDMScheduler}[solver](**config)
    scheduler.set_timesteps(steps)
    shape = [2, 2, 2, 3, 2]
    x = hashed("noise.init", 1.7, *shape) * scheduler.init_noise_sigma
    module_ = sys.modules[type(scheduler).__module__]
    for i, t in enumerate(scheduler.timesteps):
        module_.randn_tensor = lambda shape, **_: hashed(f"noise.{i}", 1.7, *shape)
        label = torch.tensor([1.0, 2.0]).reshape(2, 1, 1, 1, 1)
        u = float(t) / 1000
        given = scheduler.scale_model_input(x, t)
        out = given * u * (label * 0.0625 + 1)
        if guidance is not None:
            null = given * u * (-label * 0.0625 + 1)
            out = null + guidance * (out - null)
        x = scheduler.step(out, t, x, return_dict=False)[0]
    return {"solver": solver, "config": config, "steps": steps, "guidance": guidance, "shape": shape,
            "timesteps": scheduler.timesteps.tolist(), "first": float(scheduler.init_noise_sigma),
            "levels": getattr(scheduler, "sigmas", torch.zeros(0)).tolist(), "out": x.flatten().tolist()}


def main():
    *sources, folder = sys.argv[1:]
    about = {"what": "Runs of EulerAncestralDiscreteScheduler and PNDMScheduler of diffusers over a toy network, CPU, fp32. Made by "
             "stages/osplan/testdata/goldens.py; data only.", "network": "as in sampler.json", "noise": "as in sampler.json"}
    runs = {"_about": about} | {name: sample(*run) for name, run in RUNS.items()}
    for name, values in ("osplan", forwards(sources)), ("osplan-sampler", runs):
        rounded = json.loads(json.dumps(values), parse_float=lambda s: float(f"{float(s):.8g}"))
        lines = ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in rounded.items())
        pathlib.Path(folder, name + ".json").write_text("{\n" + lines + "\n}\n")


main()
