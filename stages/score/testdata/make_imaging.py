"""Makes testdata/golden/vbench-imaging.json: python3 make_imaging.py VBENCH OUT

VBENCH is a checkout of Vchitect/VBench. Needed are torch, torchvision, pyiqa. VBench's own technical_quality rates the clips of make_vbench.py
and a larger one by pyiqa's MUSIQ with hashed weights in published names; only the reader of files is replaced.
"""
import importlib.util
import json
import math
import os
import sys
import types
import zlib

import numpy as np
import torch
from pyiqa.archs.musiq_arch import MUSIQ

VBENCH, OUT = sys.argv[1:3]
torch.set_num_threads(2)

# What imaging_quality.py imports of VBench and does not need here.
package = types.ModuleType("vbench")
package.__path__ = [os.path.join(VBENCH, "vbench")]
utils = types.ModuleType("vbench.utils")
utils.load_dimension_info = None
utils.load_video = lambda path: VIDEOS[path]
sys.modules |= {"vbench": package, "vbench.utils": utils}
import vbench.imaging_quality as imaging  # noqa: E402

source = open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "make_vbench.py")).read()
shared = {"np": np, "torch": torch, "math": math, "zlib": zlib, "sys": types.SimpleNamespace(argv=[])}
exec(source[source.index("def mix(x)"):source.index("VIDEOS = {")], shared)  # the clips and hashed weights
hashed, weight = shared["hashed"], shared["weight"]

LARGE = dict(Kind="drift", Height=300, Width=643, Frames=2)
CLIPS = [{k: c[k] for k in ("Kind", "Height", "Width", "Frames")} for c in shared["CLIPS"]] + [LARGE]
VIDEOS = {str(i): torch.from_numpy(shared["clip_frames"](c)).permute(0, 3, 1, 2).float() for i, c in enumerate(CLIPS)}

model = MUSIQ(pretrained=False, hidden_size=128, mlp_dim=192, num_heads=2, num_layers=2)
state = {k: weight("musiq.", k, v.shape) for k, v in model.state_dict().items()}
state["head.weight"], state["head.bias"] = hashed("musiq.head.weight", 8, (1, 128)), torch.tensor([50.0])
model.load_state_dict(state)
model.eval()
if __name__ == "__main__":
    with torch.no_grad():
        for i, c in enumerate(CLIPS):
            average, rows = imaging.technical_quality(model, [str(i)], "cpu")
            c["Imaging"] = average
            c["Rates"] = [float(model(imaging.transform(VIDEOS[str(i)], "longer")[j:j + 1])) for j in range(c["Frames"])]
            print(c, flush=True)
    json.dump({"_about": "made by stages/score/testdata/make_imaging.py", "clips": CLIPS}, open(OUT, "w"))
