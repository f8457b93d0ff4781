"""Writes golden.json: digests of the bytes of Pillow's Image.resize, and how far torchvision's resize(antialias=True) is from them."""
import hashlib, json, sys
import numpy as np, PIL, torch, torchvision
from PIL import Image
from torchvision.transforms.v2 import functional as F, InterpolationMode as M

def pattern(w, h):  # smooth, sharp and noisy at once; the test draws the same
    y, x, c = np.meshgrid(np.arange(h), np.arange(w), np.arange(3), indexing="ij")
    return ((x * x * 7 + y * y * 13 + x * y * (c + 3) + c * 71 + (x // 5 + y // 3) % 2 * 97) % 256).astype(np.uint8)

filters = {"area": (Image.Resampling.BOX, None), "bilinear": (Image.Resampling.BILINEAR, M.BILINEAR),
           "bicubic": (Image.Resampling.BICUBIC, M.BICUBIC), "lanczos": (Image.Resampling.LANCZOS, None)}
sizes = [(64, 48, 32, 24), (67, 41, 24, 16), (67, 41, 120, 77), (31, 90, 31, 30), (40, 20, 40, 20), (100, 3, 7, 5)]
out = {"pillow": PIL.__version__, "torchvision": torchvision.__version__, "cases": []}
for name, (pil, tv) in filters.items():
    for w, h, tw, th in sizes:
        src = pattern(w, h)
        got = np.asarray(Image.fromarray(src).resize((tw, th), pil))
        case = {"filter": name, "size": [w, h, tw, th], "sha256": hashlib.sha256(got.tobytes()).hexdigest()}
        if tv is not None:
            t = torch.from_numpy(src.copy()).permute(2, 0, 1)
            for kind, v in (("uint8", t), ("float", t.float())):
                r = F.resize(v, [th, tw], tv, antialias=True).float().clamp(0, 255).permute(1, 2, 0).numpy()
                case["torchvision_" + kind] = float(np.abs(r - got).max())
        out["cases"].append(case)
json.dump(out, open(sys.argv[1], "w"), indent=1)
