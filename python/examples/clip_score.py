"""Scores how well the frames of a video fit their prompt, by a CLIP model of transformers. MODEL names it."""
import os

import av
import torch
from transformers import CLIPModel, CLIPProcessor

from latentbeam_stage import Result, stage

FRAMES = 8  # of a video at most, evenly spread

device = "cuda" if torch.cuda.is_available() else "cpu"
model = CLIPModel.from_pretrained(os.environ["MODEL"]).to(device).eval()
processor = CLIPProcessor.from_pretrained(os.environ["MODEL"])


@stage(takes="video", gives="readings")
def score(rows):
    for row in rows:
        with av.open(row.inputs["video"]) as file:
            frames = [f.to_image() for f in file.decode(video=0)]
        some = frames[:: max(1, -(-len(frames) // FRAMES))]
        inputs = processor(text=[row.prompt], images=some, return_tensors="pt", padding=True, truncation=True).to(device)
        with torch.no_grad():
            out = model(**inputs)
        cosine = out.logits_per_image[:, 0] / model.logit_scale.exp()
        yield Result(readings={"clip": f"{cosine.mean().item():.4f}", "clip_worst": f"{cosine.min().item():.4f}"})


if __name__ == "__main__":
    score.run()
