"""Writes the captions of videos and images with a model of transformers. MODEL names it."""
import os

import torch
from PIL import Image, UnidentifiedImageError
from transformers import BlipForConditionalGeneration, BlipProcessor

from latentbeam_stage import RowError, stage

device = "cuda" if torch.cuda.is_available() else "cpu"
processor = BlipProcessor.from_pretrained(os.environ["MODEL"])
model = BlipForConditionalGeneration.from_pretrained(os.environ["MODEL"]).to(device).eval()


def picture(path):
    """The image itself, or the frame in the middle of a video."""
    if os.path.isdir(path):  # a folder of frames
        names = sorted(os.listdir(path))
        path = os.path.join(path, names[len(names) // 2])
    try:
        return Image.open(path).convert("RGB")
    except UnidentifiedImageError:
        import av  # pip install av

        with av.open(path) as video:
            frames = [frame for frame in video.decode(video=0)]
        return frames[len(frames) // 2].to_image()


@stage(takes="media", gives="prompt")
def caption(rows):
    for row in rows:
        try:
            image = picture(row.inputs["media"])
        except Exception as e:
            yield RowError(f"no picture can be read: {e}")
            continue
        inputs = processor(images=image, return_tensors="pt").to(device)
        with torch.no_grad():
            tokens = model.generate(**inputs, max_new_tokens=64, do_sample=False)
        yield processor.decode(tokens[0], skip_special_tokens=True).strip()


if __name__ == "__main__":
    caption.run()
