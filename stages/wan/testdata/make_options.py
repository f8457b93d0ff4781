"""Makes testdata/golden/wan-options.json: python stages/wan/testdata/make_options.py from the repository root.

Needs what make_i2v.py needs; no test needs this file. Each case is diffusers' WanPipeline on a tiny random model, from
given noise to latents, with arguments whose defaults matter: guidance_scale_2 left out or below 1, guidance_scale of at
most 1, max_sequence_length below 512.
"""

import gzip
import json
import pathlib

import sentencepiece
import torch
from diffusers import AutoencoderKLWan, UniPCMultistepScheduler, WanPipeline, WanTransformer3DModel
from make_i2v import NET, PIECES, TEXT, fill, hashed, vae_config
from transformers import UMT5Config, UMT5EncoderModel

OUT = pathlib.Path("testdata/golden/wan-options.json")
INDEX = dict(_class_name="WanPipeline")
TWO = INDEX | dict(boundary_ratio=0.875)
CASES = {
    "one_scale": dict(index=TWO, guidance=4.0, guidance_2=None),
    "second_below_1": dict(index=TWO, guidance=4.0, guidance_2=0.5),
    "unguided": dict(index=TWO, guidance=0.5, guidance_2=3.0),
    "tokens_24": dict(index=INDEX, guidance=5.0, guidance_2=None, tokens=24),
    "tokens_7": dict(index=INDEX, guidance=5.0, guidance_2=None, tokens=7),
    "freq_dim": dict(index=INDEX, guidance=5.0, guidance_2=None, net=dict(freq_dim=64)),
}


def embed(encoder, pieces, text, tokens):
    ids = (pieces.encode(text) + [1])
    if len(ids) > tokens:
        ids = ids[:tokens - 1] + [1]
    with torch.no_grad():
        states = encoder(torch.tensor([ids])).last_hidden_state
    return torch.cat([states, states.new_zeros(1, tokens - len(ids), states.shape[2])], 1)


def run(c):
    net = NET | dict(in_channels=16) | c.get("net", {})
    tokens, index, vae = c.get("tokens", 512), c["index"], vae_config(16)
    scheduler = dict(_class_name="UniPCMultistepScheduler", prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=5.0)
    encoder = fill(UMT5EncoderModel(UMT5Config(**TEXT)))
    pieces = sentencepiece.SentencePieceProcessor(model_proto=gzip.decompress(PIECES.read_bytes()))
    boundary = index.get("boundary_ratio")
    pipe = WanPipeline(
        tokenizer=None, text_encoder=encoder, vae=fill(AutoencoderKLWan(**vae)),
        scheduler=UniPCMultistepScheduler.from_config(scheduler), transformer=fill(WanTransformer3DModel(**net)),
        transformer_2=fill(WanTransformer3DModel(**net), "second.") if boundary else None, boundary_ratio=boundary)
    prompt, negative, shape = "a dog runs over the grass", "ugly", [16, 2, 4, 6]
    latents = pipe(
        height=32, width=48, num_frames=5, num_inference_steps=4, guidance_scale=c["guidance"],
        guidance_scale_2=c["guidance_2"], max_sequence_length=tokens, latents=torch.from_numpy(hashed("noise", 1.7, 1, *shape)),
        prompt_embeds=embed(encoder, pieces, prompt, tokens),
        negative_prompt_embeds=embed(encoder, pieces, negative, tokens), output_type="latent").frames
    return dict(prompt=prompt, negative=negative, frames=5, height=32, width=48, steps=4, guidance=c["guidance"],
                guidance_2=c["guidance_2"], tokens=tokens, scheduler=scheduler, index=index, text_encoder=TEXT,
                transformer=dict(_class_name="WanTransformer3DModel") | net, vae=dict(_class_name="AutoencoderKLWan") | vae,
                shape=shape, latents=[float(f"{v:.7g}") for v in latents.flatten().tolist()])


def main():
    goldens = {"_about": dict(
        what="WanPipeline of diffusers 0.42.1 (torch 2.15.0, CPU, fp32) on tiny random models, from given noise to latents; made by "
             "stages/wan/testdata/make_options.py; data only.", weights="as in wan-pipelines.json", noise='Hash("noise", 1.7, shape)')}
    for name, c in CASES.items():
        goldens[name] = run(c)
        print(name, flush=True)
    lines = ",\n".join(json.dumps(k) + ":" + json.dumps(v, separators=(",", ":")) for k, v in goldens.items())
    OUT.write_text("{" + lines + "}\n")


main()
