"""What PySceneDetect, OpenCV, ImageHash and NumPy read off made-up clips: python make_quality.py > ../../../testdata/golden/quality.json.

Needs scenedetect, opencv-python, imagehash, pillow and numpy. The clips are those of clip in quality_test.go.
"""

import json
import zlib

import cv2
import imagehash
import numpy as np
from PIL import Image
from scenedetect import ContentDetector, FrameTimecode
from scenedetect.stats_manager import StatsManager

CASES = [dict(height=48, width=80, frames=9, cut=4, bar=0, kind=0), dict(height=45, width=61, frames=5, cut=0, bar=6, kind=1),
         dict(height=120, width=208, frames=17, cut=9, bar=11, kind=0), dict(height=32, width=32, frames=1, cut=0, bar=0, kind=1),
         dict(height=20, width=24, frames=2, cut=0, bar=0, kind=2)]


def clip(c):
    t, y, x, ch = np.meshgrid(*map(np.arange, (c["frames"], c["height"], c["width"], 3)), indexing="ij")
    if c["kind"] == 2:
        return np.full(t.shape, 77, np.uint8)
    smooth = (x * 3 + y * 2 * (ch + 1) + t * 5 + x * y // 37 * 3) % 256
    other = ((x // 4) * (y // 3) * (ch + 2) + 40 * ch + 3 * t) % 256
    v = np.where((t >= c["cut"]) == (c["kind"] == 0), smooth, other)
    dark = (y < c["bar"]) | (y >= c["height"] - c["bar"]) | (x >= c["width"] - c["bar"] // 2)
    return np.where(dark, (x + y + t) % 23, v).astype(np.uint8)


def read(c):
    rgb = clip(c)
    grey = np.stack([np.asarray(Image.fromarray(f).convert("L")) for f in rgb])
    stats, scores = StatsManager(), []
    detector = ContentDetector()
    detector.stats_manager = stats
    for i, f in enumerate(rgb):
        at = FrameTimecode(i, 16.0)
        detector.process_frame(at, np.ascontiguousarray(f[..., ::-1]))
        if i > 0:
            scores.append(stats.get_metrics(at, ["content_val"])[0])
    wide = grey.astype(np.float64)
    black = lambda axis: (grey.mean(axis=axis) <= 24).all(axis=0)
    edges = lambda line: len(line) if line.all() else int(np.argmin(line) + np.argmin(line[::-1]))
    words = [str(imagehash.phash(Image.fromarray(rgb[i]))) for i in (0, len(rgb) // 2, len(rgb) - 1)]
    return c | dict(
        scene_cuts=sum(bool(s >= 27) for s in scores), scene_change=float(max(scores, default=0)), luminance=float(wide.mean()),
        motion=float(np.abs(np.diff(wide, axis=0)).mean()) if len(rgb) > 1 else 0,
        sharpness=float(np.mean([cv2.Laplacian(g, cv2.CV_64F).var() for g in grey])),
        black_rows=edges(black(2)), black_columns=edges(black(1)), phash="-".join(words))


def colours():
    """The CRC-32 of hue, saturation and value of all colours whose parts are multiples of 3."""
    v = np.arange(0, 256, 3, dtype=np.uint8)
    rgb = np.stack(np.meshgrid(v, v, v, indexing="ij"), -1).reshape(1, -1, 3)
    return zlib.crc32(np.ascontiguousarray(np.moveaxis(cv2.cvtColor(rgb, cv2.COLOR_RGB2HSV)[0], -1, 0)).tobytes())


print(json.dumps({"clips": [read(c) for c in CASES], "hsv_crc32": colours()}, indent=1))
