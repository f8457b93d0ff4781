"""Puts the video of a Wan pipeline of diffusers beside the one that comes in, and says how far they are apart. MODEL is the directory."""
import os

import numpy
import torch
from diffusers import WanPipeline
from transformers import AutoTokenizer

from latentbeam_stage import Result, read_safetensors, stage

device = "cuda" if torch.cuda.is_available() else "cpu"
where = os.environ["MODEL"]
pipe = WanPipeline.from_pretrained(where, tokenizer=AutoTokenizer.from_pretrained(where + "/tokenizer"), torch_dtype=torch.float32)
pipe.to(device).set_progress_bar_config(disable=True)


def noise_of(path):
    """What the latents of a row begin with, as latentbeam reads it."""
    tensors, _ = read_safetensors(path)
    value = numpy.frombuffer(tensors["noise"].data, "<f4").reshape(tensors["noise"].shape)
    return torch.from_numpy(value.copy())[None].to(device)


@stage(takes="frames", gives="frames")
def beside(rows):
    for row in rows:
        ours, p = row.load()["frames"], row.params
        negative = p.get("negative_prompt", "")
        theirs = pipe(row.prompt, negative_prompt="" if negative == "none" else negative, height=p["height"], width=p["width"],
                      num_frames=p["num_frames"], num_inference_steps=p["num_inference_steps"], guidance_scale=p["guidance_scale"],
                      latents=noise_of(p["noise"]), output_type="np", callback_on_step_end=row.on_step_end).frames[0]
        theirs = numpy.trunc(theirs * 255).astype("u1")  # as the reference writes videos
        apart = numpy.abs(ours.astype(int) - theirs)
        yield Result(numpy.concatenate([ours, theirs], axis=2),
                     readings={"apart_at_most": str(apart.max()), "bytes_apart": f"{(apart > 0).mean():.4f}"})


if __name__ == "__main__":
    beside.run()
