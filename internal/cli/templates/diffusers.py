"""Makes videos or images of prompts with any pipeline of diffusers. MODEL names it: a directory or a name on the hub."""
import inspect
import os

import torch
from diffusers import DiffusionPipeline

from latentbeam_stage import RowError, stage

# Loaded once; latentbeam gives each program one GPU by CUDA_VISIBLE_DEVICES where it lends GPUs.
device = "cuda" if torch.cuda.is_available() else "cpu"
dtype = torch.bfloat16 if device == "cuda" else torch.float32
pipe = DiffusionPipeline.from_pretrained(os.environ["MODEL"], torch_dtype=dtype).to(device)
pipe.set_progress_bar_config(disable=True)
KNOWN = inspect.signature(pipe.__call__).parameters  # what this pipeline can be told

NAMES = ["prompt", "negative_prompt", "height", "width", "num_frames", "num_inference_steps", "guidance_scale"]


@stage(takes="prompt", gives="frames")
def generate(rows):
    for row in rows:
        given = {name: row.params[name] for name in NAMES if name in KNOWN and row.params.get(name) not in (None, "")}
        given["generator"] = row.torch_generator()  # on the CPU: the same noise on every GPU
        if "callback_on_step_end" in KNOWN:
            given["callback_on_step_end"] = row.on_step_end
        try:
            made = pipe(**given)
        except ValueError as e:  # such as a size that the model does not have
            yield RowError(str(e))
            continue
        if hasattr(made, "frames"):
            yield made.frames[0]
        else:
            yield made.images[:1]  # an image is a video of one frame


if __name__ == "__main__":
    generate.run()
