"""Makes testdata/golden/vbench-motion.json: python3 make_motion.py VBENCH OUT

VBENCH is a checkout of Vchitect/VBench. Needed are torch, opencv, omegaconf, tqdm. VBench's own MotionSmoothness scores the clips of
make_vbench.py and small ones by AMT-S with hashed weights in published names; only the reader of files is replaced.
"""
import importlib
import json
import math
import os
import sys
import types
import zlib

import cv2
import numpy as np
import torch

VBENCH, OUT = sys.argv[1:3]
torch.set_num_threads(2)
sys.path.insert(0, VBENCH)

# What motion_smoothness.py imports and does not need here.
package = types.ModuleType("vbench")
package.__path__ = [os.path.join(VBENCH, "vbench")]
utils = types.ModuleType("vbench.utils")
utils.load_dimension_info = None
imageio = types.ModuleType("imageio")
imageio.imread = imageio.imwrite = None
sys.modules |= {"vbench": package, "vbench.utils": utils, "imageio": imageio}
import vbench.motion_smoothness as motion  # noqa: E402

source = open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "make_vbench.py")).read()
shared = {"np": np, "torch": torch, "math": math, "zlib": zlib, "cv2": cv2, "sys": types.SimpleNamespace(argv=[])}
exec(source[source.index("def mix(x)"):source.index("VIDEOS = {")], shared)  # the clips and hashed weights
hashed = shared["hashed"]
exec(source[source.index("class VideoCapture:"):source.index("decord.VideoReader")], shared)
cv2.VideoCapture = shared["VideoCapture"]

EDGES = [dict(Kind=k, Height=h, Width=w, Frames=n) for k, h, w, n in [("drift", 113, 145, 3), ("drift", 128, 160, 4), ("blink", 140, 130, 5)]]
# Frames of one colour are left out: their norms amplify rounding, and PyTorch's scores depend on its number of threads.
CLIPS = [{k: c[k] for k in ("Kind", "Height", "Width", "Frames")} for c in shared["CLIPS"] if c["Kind"] != "flash"] + EDGES
shared["VIDEOS"] = {f"/{i}.mp4": (shared["clip_frames"](c), 8) for i, c in enumerate(CLIPS)}

# SCALES multiply the weights of names with such a part, so that flows are some pixels long and images depend on all of them.
SCALES = {"feat_encoder.conv2.": 1.5, "convblock.2.": 0.1, "flow_head.2.": 0.4, "comb_block.2.": 0.2}


def weight(name, shape):
    """Returns the values of amtValues in motion_test.go."""
    if len(shape) > 1:
        v = hashed("amt." + name, math.sqrt(3 / np.prod(shape[1:])), shape)
    else:
        v = hashed("amt." + name, 0.1, shape) + (0.25 if name.endswith(".weight") else 0)  # of PReLU, and biases
    for part, scale in SCALES.items():
        if part in name:
            v = v * np.float32(scale)
    return v


class Motion(motion.MotionSmoothness):
    def load_model(self):
        self.model = importlib.import_module("vbench.third_party.amt.networks.AMT-S").Model()
        self.model.load_state_dict({k: weight(k, v.shape) for k, v in self.model.state_dict().items()})
        self.model.eval()


if __name__ == "__main__":
    m = Motion(None, None, "cpu")
    for i, c in enumerate(CLIPS):
        try:
            c["Smoothness"] = float(m.motion_score(f"/{i}.mp4"))
        except Exception as e:
            print(c, type(e), e)
            continue
        print(c, flush=True)

    def some(t):
        return [float(np.float32(v)) for v in t[0].permute(1, 2, 0).flatten()[::997]]

    parts = []
    for i in (1, 2, 4):
        images = [motion.img2tensor(shared["VIDEOS"][f"/{i}.mp4"][0][t]) for t in (0, 2)]
        a, b = motion.InputPadder(images[0].shape, 16).pad(*images)
        with torch.no_grad():
            out = m.model(a, b, m.embt, eval=False)
        print([float(f.abs().mean()) for f in out["flow0_pred"]], out["imgt_pred"].std(), out["imgt_pred"].mean())
        b, n, two, h, w = out["flow0_pred"][0].shape
        parts.append({"Clip": i, "Every": 997, "Image": some(out["imgt_pred"]), "Flow0": some(out["flow0_pred"][0].reshape(b, 2 * n, h, w)),
                      "Flow1": some(out["flow1_pred"][0].reshape(b, 2 * n, h, w)), "First": some(out["flow0_pred"][3])})
    json.dump({"_about": "made by stages/score/testdata/make_motion.py", "clips": CLIPS, "scales": SCALES, "parts": parts}, open(OUT, "w"))
