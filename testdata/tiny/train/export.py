"""Writes the trained networks in the published layouts, and the numbers that parity tests compare with.

    python export.py --work WORKDIR --out ../ --golden ../../golden/tiny.json [--random]

--random writes untrained networks of the same layout; --check REFERENCE.json compares model.STDiT with
golden numbers of the published one instead (case stdit_v1_0_fp32) and writes nothing.
"""

import argparse
import json
import os
import shutil
import zlib

import numpy as np
import torch
from safetensors.torch import save_file

import model
import train

DEFAULTS = dict(
    num_frames=16, height=64, width=64, fps=8, num_inference_steps=20, guidance_scale=2.0,
    max_sequence_length=model.STDIT_CONFIG["model_max_length"],
)


def whiten(vae, mean, std):
    """Moves the latents' statistics into the 1x1 convolutions: 0.18215 * latent gets mean 0, deviation 1."""
    scale = std * 0.18215
    with torch.no_grad():
        conv = vae.quant_conv
        conv.bias[:4] = (conv.bias[:4] - mean) / scale
        conv.bias[4:] -= 2 * scale.log()
        conv.weight[:4] /= scale[:, None, None, None]
        conv = vae.post_quant_conv
        conv.bias += conv.weight[:, :, 0, 0] @ mean
        conv.weight *= scale[None, :, None, None]


def load(work, random=False):
    """The tokenizer and the three networks; those of a random export have no zero outputs."""
    tokenizer = train.Tokenizer(f"{work}/spiece.model")
    torch.manual_seed(4)
    vae, text, net = train.new_vae().eval(), model.new_text_encoder(tokenizer.vocabulary).eval(), None
    net = model.STDiT(model.STDIT_CONFIG).eval()
    if random:
        for parameter in net.parameters():
            if parameter.dim() > 1 and not parameter.any():
                torch.nn.init.xavier_uniform_(parameter)
        return tokenizer, vae, text, net
    sharpened = f"{work}/decoder.pt"
    vae.load_state_dict(torch.load(sharpened if os.path.exists(sharpened) else f"{work}/vae.pt"))
    state = torch.load(f"{work}/diffusion.pt")
    whiten(vae, state["mean"], state["std"])
    text.load_state_dict(state["text"])
    net.load_state_dict(state["net"])
    return tokenizer, vae, text, net


def write_json(path, value):
    with open(path, "w") as out:
        json.dump(value, out, indent=2)
        out.write("\n")


def write_model(out, work, vae, text, net):
    for folder in ("text_encoder", "transformer", "vae"):
        os.makedirs(f"{out}/{folder}", exist_ok=True)
    dense = lambda module: {k: v.contiguous().clone() for k, v in module.state_dict().items()}
    tensors = dense(text)
    tensors.pop("encoder.embed_tokens.weight", None)
    save_file(tensors, f"{out}/text_encoder/model.safetensors", metadata={"format": "pt"})
    config = dict(architectures=["T5EncoderModel"], model_type="t5", vocab_size=text.config.vocab_size,
                  **model.T5_CONFIG, dense_act_fn="gelu_new", is_gated_act=True, torch_dtype="float32")
    write_json(f"{out}/text_encoder/config.json", config)
    shutil.copy(f"{work}/spiece.model", f"{out}/text_encoder/spiece.model")
    save_file(dense(net), f"{out}/transformer/model.safetensors", metadata={"format": "pt"})
    write_json(f"{out}/transformer/config.json", model.STDIT_CONFIG)
    save_file(dense(vae), f"{out}/vae/diffusion_pytorch_model.safetensors", metadata={"format": "pt"})
    write_json(f"{out}/vae/config.json", dict(_class_name="AutoencoderKL", **train.VAE_CONFIG))
    write_json(f"{out}/model_index.json", dict(
        _class_name="OpenSoraPipeline", version="1.0", text_encoder="text_encoder", transformer="transformer", vae="vae",
        scheduler="iddpm", defaults=DEFAULTS))


# ------------------------------------------------------------------------------ golden numbers


def hashed(name, shape, amplitude):
    """H(name, shape, amp): fp32, in [-amp, amp), a mix of the name's CRC-32 and the flat index."""
    i = np.arange(int(np.prod(shape)), dtype=np.uint64)
    x = (np.uint64(zlib.crc32(name.encode())) ^ (i * np.uint64(0x9E3779B1) & np.uint64(0xFFFFFFFF))).astype(np.uint64)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor) & np.uint64(0xFFFFFFFF)
    x ^= x >> np.uint64(16)
    return torch.from_numpy((amplitude * (2 * (x / 2.0 ** 32) - 1)).astype(np.float32).reshape(shape))


def hashed_weight(name, shape):
    """Weights of the reference's golden numbers, by the name's ending."""
    if name.endswith("scale_shift_table"):
        return hashed(name, shape, 0.3)
    if name.endswith("y_embedding"):
        return hashed(name, shape, 1.0)
    if name.endswith(".weight"):
        return hashed(name, shape, (3 / np.prod(shape[1:])) ** 0.5)
    return hashed(name, shape, 0.1)


def check(path):
    """Compares this STDiT with the numbers of the published one."""
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


def numbers(tensor):
    return [float(f"{v:.6g}") for v in tensor.flatten().tolist()]


@torch.no_grad()
def write_golden(path, tokenizer, vae, text, net):
    """Inputs are hashed (see hashed), results come from the fp32 networks."""
    prompt, length = "A red circle moves to the left.", model.STDIT_CONFIG["model_max_length"]
    ids = tokenizer(prompt)
    hidden = text(input_ids=torch.tensor([ids])).last_hidden_state[0]
    keep = torch.zeros(1, length, dtype=torch.bool)
    keep[0, :9] = True
    x = hashed("input.x", (1, 4, 16, 8, 8), 1.7)
    y = hashed("input.y", (1, 1, length, model.T5_CONFIG["d_model"]), 1.0)
    denoised = net(x, torch.tensor([505]), y[:, 0], keep)
    image = vae.decode(hashed("input.z", (1, 4, 8, 8), 1.0) / 0.18215).sample
    case = lambda out, **more: dict(**more, out_shape=list(out.shape), out=numbers(out))
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as out:
        json.dump(dict(
            _about=dict(
                what="Results of the built-in model tiny, by torch, transformers and diffusers in fp32",
                inputs="H(name, shape, amp) as in the reference golden file: input.x amp 1.7, input.y (1,1,L,d) amp 1,"
                       " input.z (1,4,8,8) amp 1, divided by 0.18215 before the decoder",
            ),
            t5=case(hidden, prompt=prompt, ids=ids),
            stdit_v1_0_tiny=case(denoised, config=model.STDIT_CONFIG, timestep=[505], mask=keep.int().tolist()),
            vae_decode=case(image, scaling_factor=0.18215),
        ), out)
        out.write("\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work")
    parser.add_argument("--out")
    parser.add_argument("--golden")
    parser.add_argument("--random", action="store_true")
    parser.add_argument("--check")
    args = parser.parse_args()
    if args.check:
        return check(args.check)
    tokenizer, *networks = load(args.work, args.random)
    write_model(args.out, args.work, *networks)
    write_golden(args.golden, tokenizer, *networks)


if __name__ == "__main__":
    main()
