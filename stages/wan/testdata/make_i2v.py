"""Makes testdata/golden/wan-i2v.json: python make_i2v.py [CASE ...] from the repository root.

Needs torch, diffusers 0.42.1, transformers, sentencepiece and pillow; no test needs this file. Each case is diffusers'
WanImageToVideoPipeline on tiny random models, from an image and given noise to pixels. Weights follow the rules of
nntest.Weight (gammas are 1 + Hash), those of transformer_2 hash "second.NAME". Cases that are not named stay.
"""

import gzip
import json
import pathlib
import sys
import zlib

import numpy as np
import sentencepiece
import torch
from diffusers import AutoencoderKLWan, UniPCMultistepScheduler, WanImageToVideoPipeline, WanTransformer3DModel
from PIL import Image
from transformers import CLIPImageProcessorPil, CLIPVisionConfig, CLIPVisionModel, UMT5Config, UMT5EncoderModel

OUT = pathlib.Path("testdata/golden/wan-i2v.json")
PIECES = pathlib.Path("stages/t5/sentencepiece/testdata/umt5.model.gz")
TEXT = dict(model_type="umt5", vocab_size=2800, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4,
            relative_attention_num_buckets=32, relative_attention_max_distance=128, layer_norm_epsilon=1e-6,
            feed_forward_proj="gated-gelu")
NET = dict(patch_size=[1, 2, 2], num_attention_heads=2, attention_head_dim=12, in_channels=36, out_channels=16, text_dim=32,
           freq_dim=256, ffn_dim=32, num_layers=2, cross_attn_norm=True, qk_norm="rms_norm_across_heads", eps=1e-6,
           rope_max_seq_len=32, added_kv_proj_dim=None, image_dim=None, pos_embed_seq_len=None)
CLIP = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=2, image_size=28, patch_size=14,
            hidden_act="gelu", layer_norm_eps=1e-5, num_channels=3, projection_dim=16)
PROCESSOR = dict(crop_size=dict(height=28, width=28), do_center_crop=True, do_convert_rgb=True, do_normalize=True, do_rescale=True,
                 do_resize=True, image_mean=[0.48145466, 0.4578275, 0.40821073], image_std=[0.26862954, 0.26130258, 0.27577711],
                 resample=3, rescale_factor=1 / 255, size=dict(shortest_edge=28))
CASES = {
    "first": dict(prompt="a bird flies", negative="", frames=5, height=64, width=96, steps=4, guidance=5.0, shift=5.0,
                  index=dict(_class_name="WanPipeline", expand_timesteps=True), net=dict(in_channels=48, out_channels=48)),
    "first_alone": dict(prompt="a dog runs", negative=None, frames=9, height=64, width=64, steps=3, guidance=1.0, shift=3.0,
                        index=dict(_class_name="WanImageToVideoPipeline", expand_timesteps=True),
                        net=dict(in_channels=48, out_channels=48)),
    "experts": dict(prompt="a dog runs", negative="ugly", frames=9, height=32, width=48, steps=6, guidance=3.5, guidance_2=3.0,
                    shift=5.0, index=dict(_class_name="WanImageToVideoPipeline", boundary_ratio=0.9), net={}),
    "last": dict(prompt="a red ball", negative="", frames=5, height=32, width=32, steps=3, guidance=4.0, shift=5.0, images=2,
                 index=dict(_class_name="WanImageToVideoPipeline"), net={}),
    "clip": dict(prompt="a red ball rolls", negative="blurred", frames=5, height=48, width=32, steps=4, guidance=5.0, shift=3.0,
                 index=dict(_class_name="WanImageToVideoPipeline", image_encoder=["transformers", "CLIPVisionModel"]),
                 net=dict(image_dim=32, added_kv_proj_dim=24), clip=True),
    "clip_last": dict(prompt="a cat", negative="", frames=5, height=32, width=48, steps=3, guidance=4.0, shift=5.0, images=2,
                      index=dict(_class_name="WanImageToVideoPipeline", image_encoder=["transformers", "CLIPVisionModel"]), clip=True,
                      net=dict(image_dim=32, added_kv_proj_dim=24, pos_embed_seq_len=10)),
}


def hashed(name, amp, *shape):
    x = np.arange(int(np.prod(shape)), dtype=np.uint64) * 0x9E3779B1 & 0xFFFFFFFF ^ zlib.crc32(name.encode())
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        x = (x ^ x >> shift) * factor & 0xFFFFFFFF
    return (amp * (2 * (x / 2**32) - 1)).astype(np.float32).reshape(shape)


def weight(name, shape):
    if name.endswith("scale_shift_table"):
        return hashed(name, 0.3, *shape)
    if name.endswith(".weight") and len(shape) >= 2:
        return hashed(name, (3 / np.prod(shape[1:])) ** 0.5, *shape)
    return hashed(name, 0.1, *shape) + np.float32(name.endswith((".weight", ".gamma")))


def fill(model, prefix=""):
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(torch.from_numpy(weight(prefix + name, tuple(p.shape))))
    return model.eval()


def picture(number, height, width):
    values = np.floor((hashed(f"image.{number}", 1, height, width, 3).astype(np.float64) + 1) * 128)
    return Image.fromarray(np.minimum(values, 255).astype(np.uint8))


def embed(encoder, pieces, text):
    ids = pieces.encode(text) + [1]
    with torch.no_grad():
        states = encoder(torch.tensor([ids])).last_hidden_state
    return torch.cat([states, states.new_zeros(1, 512 - len(ids), states.shape[2])], 1)


def vae_config(z):
    mean = [round(0.3 * float(np.sin(0.1 * 1.41 * i)) * (-1) ** i, 4) for i in range(z)]
    std = [round(1.5 + float(np.cos(2.0 * i)), 4) for i in range(z)]
    c = dict(latents_mean=mean, latents_std=std, base_dim=6, z_dim=z, dim_mult=[1, 1, 1, 1], num_res_blocks=1,
             temperal_downsample=[False, True, True])
    if z == 48:
        c |= dict(base_dim=8, decoder_base_dim=12, dim_mult=[1, 2, 4, 4], num_res_blocks=2, is_residual=True, patch_size=2,
                  in_channels=12, out_channels=12, scale_factor_spatial=16, scale_factor_temporal=4)
    return c


def run(c):
    net = NET | c.pop("net")
    z = net["out_channels"]
    vae, stride = vae_config(z), 16 if z == 48 else 8
    clip, images, shift = c.pop("clip", False), c.pop("images", 1), c.pop("shift")
    scheduler = dict(_class_name="UniPCMultistepScheduler", prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=shift)
    index, boundary = c["index"], c["index"].get("boundary_ratio")
    encoder = fill(UMT5EncoderModel(UMT5Config(**TEXT)))
    pieces = sentencepiece.SentencePieceProcessor(model_proto=gzip.decompress(PIECES.read_bytes()))
    pipe = WanImageToVideoPipeline(
        tokenizer=None, text_encoder=encoder, vae=fill(AutoencoderKLWan(**vae)),
        scheduler=UniPCMultistepScheduler.from_config(scheduler),
        image_processor=CLIPImageProcessorPil(**PROCESSOR) if clip else None,
        image_encoder=fill(CLIPVisionModel(CLIPVisionConfig(**CLIP)), "vision_model.") if clip else None,
        transformer=fill(WanTransformer3DModel(**net)),
        transformer_2=fill(WanTransformer3DModel(**net), "second.") if boundary else None,
        boundary_ratio=boundary, expand_timesteps=index.get("expand_timesteps", False))
    shape = [z, (c["frames"] - 1) // 4 + 1, c["height"] // stride, c["width"] // stride]
    noise = torch.from_numpy(hashed("noise", 1.7, 1, *shape))
    pictures = [picture(i, c["height"], c["width"]) for i in range(images)]
    args = dict(image=pictures[0], height=c["height"], width=c["width"], num_frames=c["frames"], num_inference_steps=c["steps"],
                guidance_scale=c["guidance"], guidance_scale_2=c.get("guidance_2"), latents=noise,
                prompt_embeds=embed(encoder, pieces, c["prompt"]),
                negative_prompt_embeds=None if c["negative"] is None else embed(encoder, pieces, c["negative"]))
    if images == 2:
        args["last_image"] = pictures[1]
    latents = pipe(**args, output_type="latent").frames
    pixels = (pipe(**args, output_type="np").frames[0] * 255).astype(np.uint8)
    out = c | dict(images=images, scheduler=scheduler, text_encoder=TEXT, transformer=dict(_class_name="WanTransformer3DModel") | net,
                   vae=dict(_class_name="AutoencoderKLWan") | vae, shape=shape, latents=[float(f"{v:.7g}") for v in latents.flatten().tolist()],
                   pixels_shape=list(pixels.shape), pixels=pixels.flatten()[::7].tolist())
    if clip:
        out |= dict(image_encoder=dict(architectures=["CLIPVisionModel"], model_type="clip_vision_model") | CLIP,
                    image_processor=dict(image_processor_type="CLIPImageProcessor") | PROCESSOR)
        with torch.no_grad():
            inputs = pipe.image_processor(images=pictures, return_tensors="pt")
            states = pipe.image_encoder(**inputs, output_hidden_states=True).hidden_states[-2]
        out |= dict(embedding_shape=list(states.shape), embedding=[float(f"{v:.7g}") for v in states.flatten().tolist()])
    return out


def main():
    goldens = json.loads(OUT.read_text()) if OUT.exists() else {}
    goldens["_about"] = dict(
        what="WanImageToVideoPipeline of diffusers 0.42.1 (torch 2.15.0, CPU, fp32) on tiny random models, from an image and given "
             "noise to pixels; made by stages/wan/testdata/make_i2v.py; data only.",
        weights="as in wan-pipelines.json", image='min(255, floor(128 (1 + Hash("image.N", 1, (H, W, 3)))))',
        noise='Hash("noise", 1.7, shape)', pixels="every 7th byte of trunc(255 x), (T, H, W, 3)")
    for name in sys.argv[1:] or CASES:
        goldens[name] = run(dict(CASES[name]))
        print(name, goldens[name]["shape"], flush=True)
    lines = ",\n".join(json.dumps(k) + ":" + json.dumps(v, separators=(",", ":")) for k, v in goldens.items())
    OUT.write_text("{" + lines + "}\n")


if __name__ == "__main__":
    main()
