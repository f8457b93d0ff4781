"""Reads whether a video shows the scene that its prompt asks for: the part of its frames whose captions have all words of the scene.

That is VBench's rule for its dimension `scene`. VBench captions by Tag2Text, here a captioner of transformers does (MODEL), so its numbers are
not VBench's. The scene is the column `scene` of the prompt table, in VBench's auxiliary information ("water park").
"""
import os

import av
import torch
from transformers import AutoProcessor, BlipForConditionalGeneration

from latentbeam_stage import Result, stage

FRAMES = 16  # of a video at most, evenly spread

device = "cuda" if torch.cuda.is_available() else "cpu"
model = BlipForConditionalGeneration.from_pretrained(os.environ["MODEL"]).to(device).eval()
processor = AutoProcessor.from_pretrained(os.environ["MODEL"])


@stage(takes="video", gives="readings")
def scene(rows):
    for row in rows:
        words = (row.params.get("scene") or "").lower().split()
        if not words:
            yield Result(readings={})  # the row asks for no scene
            continue
        with av.open(row.inputs["video"]) as file:
            frames = [f.to_image() for f in file.decode(video=0)]
        some = frames[:: max(1, -(-len(frames) // FRAMES))]
        with torch.no_grad():
            tokens = model.generate(**processor(images=some, return_tensors="pt").to(device), max_new_tokens=30, do_sample=False)
        captions = [set(c.lower().split()) for c in processor.batch_decode(tokens, skip_special_tokens=True)]
        yield Result(readings={"scene": f"{sum(all(w in c for w in words) for c in captions) / len(captions):.6f}"})


if __name__ == "__main__":
    scene.run()
