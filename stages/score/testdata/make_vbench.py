"""Makes testdata/golden/vbench.json: python3 make_vbench.py VBENCH CLIP DINO OUT [DIR]

With DIR it makes models of the published sizes, writes their weights there, and times VBench, each measure by itself: see TestFullSize. OUT is then
DIR/vbench.json, and make_imaging.py's and make_motion.py's packages are needed too.

VBENCH, CLIP and DINO are checkouts of Vchitect/VBench, openai/CLIP and facebookresearch/dino. Needed are torch, torchvision, opencv, ftfy,
regex, tqdm, easydict. VBench's own functions score made-up clips with hashed weights in published names; only readers of files are replaced.
"""
import importlib
import importlib.util
import json
import math
import os
import sys
import types
import zlib

import cv2
import numpy as np
import torch

VBENCH, CLIP, DINO, OUT = sys.argv[1:5]
sys.path[:0] = [VBENCH, CLIP]
torch.set_num_threads(2)


def mix(x):
    x = x ^ x >> np.uint32(16)
    x = x * np.uint32(0x85EBCA6B)
    x = x ^ x >> np.uint32(13)
    x = x * np.uint32(0xC2B2AE35)
    return x ^ x >> np.uint32(16)


def hashed(name, amp, shape):
    """Returns the values of nntest.Hash."""
    x = np.arange(int(np.prod(shape)), dtype=np.uint32) * np.uint32(0x9E3779B1) ^ np.uint32(zlib.crc32(name.encode()))
    u = mix(x).astype(np.float64) / 2**32
    return torch.from_numpy((amp * (2 * u - 1)).astype(np.float32).reshape(shape))


# SCALES multiply the weights of names with such an end, so that features depend on images as much as those of trained networks do.
SCALES = {"out_proj.weight": 6, "attn.proj.weight": 4, "c_proj.weight": 2, "fc2.weight": 2, "token_embedding.weight": 8, "flow_head.conv2.weight": 0.02,
          "flow_head.conv2.bias": 0.01}


def weight(prefix, name, shape):
    """Returns the values of values in vbench_test.go."""
    if name.endswith("running_var"):
        return hashed(prefix + name, 0.5, shape) + 1
    if name.endswith("in_proj_weight") or name.endswith(".weight") and len(shape) >= 2:
        v = hashed(prefix + name, math.sqrt(3 / np.prod(shape[1:])), shape)
    else:
        v = hashed(prefix + name, 0.1, shape) + (1 if name.endswith(".weight") else 0)
    if name in ("visual.proj", "text_projection"):
        v = v * 5
    for end, scale in SCALES.items():
        if name.endswith(end):
            v = v * np.float32(scale)
    if name == "logit_scale":
        v = torch.tensor(np.float32(math.log(100)))
    return v


def fill(model, prefix):
    state = model.state_dict()
    shared = {k: k for k in state}
    for k in state:  # norms that stand twice have one value
        if ".norm3." in k:
            shared[k] = k.replace("norm3", "downsample.1")
    model.load_state_dict({k: v if v.dtype == torch.int64 else weight(prefix, shared[k], v.shape) for k, v in state.items()})
    return model.eval()


def pattern(kind, t, y, x, c):
    """Returns the pixels of frame t of a clip."""
    if kind == "noise":
        return mix((t * 1000003 + y * 4099 + x * 3 + c).astype(np.uint32)).astype(np.int64) & 255
    if kind == "flash":
        return np.where(t % 2 == 1, 255, 0) + 0 * (x + y + c)
    speed = {"still": 0, "drift": 2, "fast": 9, "cuts": 1, "fade": 0, "blink": 1}[kind]
    X, Y = x + speed * t, y + speed * t // 2
    v = (X * 5 + Y * 3 * (c + 1) + (X // 16 + Y // 12) % 2 * 90 + X * Y // 64) & 255
    if kind == "cuts":
        other = ((x // 8) * (y // 6) * (c + 2) + 40 * c + 31 * (t // 2)) & 255
        v = np.where(t // 2 % 2 == 1, other, v)
    if kind == "blink":
        v = v // 8 + t % 2 * 220
    if kind == "fade":
        v = v * (8 - np.minimum(t, 8)) // 8
    return v


CLIPS = [dict(Kind=k, Height=h, Width=w, Frames=n, FPS=fps, Prompt=p, Style=s) for k, h, w, n, fps, p, s in [
    ("still", 128, 176, 5, 8, "a photo of a still lake", "Van Gogh style"),
    ("drift", 131, 179, 6, 8, "waves that drift slowly, 4k &amp; calm", "Ukiyo-e by Hokusai"),
    ("fast", 136, 184, 17, 24, "a racing car\u2019s wheel; it's fast!", "cyberpunk"),
    ("cuts", 150, 128, 9, 16, "\u5c71\u6c34 two scenes \U0001F600", "black and white"),
    ("noise", 130, 250, 4, 8, "static " * 90, "in super slow motion"),
    ("flash", 128, 128, 10, 8, "lightning", "oil painting"),
    ("fade", 240, 135, 9, 10, "the light goes out", "claymation 3D!"),
]]


if len(sys.argv) > 5:
    CLIPS = [dict(Kind="drift", Height=256, Width=448, Frames=16, FPS=24, Prompt="waves that drift slowly", Style="watercolor")]


def clip_frames(c):
    t, y, x, ch = np.meshgrid(*map(np.arange, (c["Frames"], c["Height"], c["Width"], 3)), indexing="ij")
    return pattern(c["Kind"], t, y, x, ch).astype(np.uint8)


VIDEOS = {f"/{c['Kind']}.mp4": (clip_frames(c), c["FPS"]) for c in CLIPS}

# What stands for files: decord and OpenCV get the frames of the clips.
decord = types.ModuleType("decord")
decord.cpu = None
decord.bridge = types.SimpleNamespace(now="native", set_bridge=lambda name: setattr(decord.bridge, "now", name))


class VideoReader:
    def __init__(self, path, num_threads=1):
        self.frames, self.fps = VIDEOS[path]

    def __len__(self):
        return len(self.frames)

    def get_avg_fps(self):
        return self.fps

    def get_batch(self, indices):
        some = self.frames[np.array(list(indices))]
        return torch.from_numpy(some) if decord.bridge.now == "torch" else types.SimpleNamespace(asnumpy=lambda: some)


class VideoCapture:
    def __init__(self, path):
        self.frames, self.fps = VIDEOS[path]
        self.at = 0

    def get(self, what):
        assert what == cv2.CAP_PROP_FPS
        return self.fps

    def isOpened(self):
        return True

    def read(self):
        self.at += 1
        return (True, self.frames[self.at - 1][..., ::-1].copy()) if self.at <= len(self.frames) else (False, None)

    def release(self):
        pass


decord.VideoReader = VideoReader
cv2.VideoCapture = VideoCapture
sys.modules["decord"] = decord
long = types.ModuleType("vbench2_beta_long")
long.utils = types.ModuleType("vbench2_beta_long.utils")
long.utils.reorganize_clips_results = None
sys.modules |= {"vbench2_beta_long": long, "vbench2_beta_long.utils": long.utils}

import clip.model  # noqa: E402
from easydict import EasyDict  # noqa: E402
import vbench.aesthetic_quality as aesthetic  # noqa: E402
import vbench.appearance_style as style  # noqa: E402
import vbench.background_consistency as background  # noqa: E402
import vbench.dynamic_degree as dynamic  # noqa: E402
import vbench.subject_consistency as subject  # noqa: E402
import vbench.temporal_flickering as flickering  # noqa: E402
from vbench.third_party.RAFT.core.raft import RAFT  # noqa: E402
from vbench.utils import clip_transform, dino_transform, load_video  # noqa: E402


def load(path, name):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


similarity = load(os.path.join(VBENCH, "competitions", "clip_score.py"), "clip_score")
sys.path.insert(0, DINO)
vits = load(os.path.join(DINO, "vision_transformer.py"), "vision_transformer")

SMALL = dict(image_resolution=224, vision_layers=2, vision_width=128, vision_patch_size=32, context_length=77, vocab_size=49408, transformer_width=64,
             transformer_heads=1, transformer_layers=2)
FULL = len(sys.argv) > 5  # the published sizes, for a comparison outside of the tree
if FULL:
    b32 = fill(clip.model.CLIP(512, 224, 12, 768, 32, 77, 49408, 512, 8, 12), "b32.")
    l14 = fill(clip.model.CLIP(768, 224, 24, 1024, 14, 77, 49408, 768, 12, 12), "l14.")
    dino = fill(vits.vit_base(), "dino.")
    width = 768
else:
    b32 = fill(clip.model.CLIP(16, **SMALL), "b32.")
    l14 = fill(clip.model.CLIP(24, **SMALL | dict(vision_patch_size=56, vision_width=64)), "l14.")
    dino = fill(vits.VisionTransformer(patch_size=16, embed_dim=64, depth=2, num_heads=1, qkv_bias=True,
                                       norm_layer=lambda n: torch.nn.LayerNorm(n, eps=1e-6)), "dino.")
    width = 24
head = torch.nn.Linear(width, 1)
head.load_state_dict({"weight": hashed("head.weight", 40, (1, width)), "bias": torch.tensor([5.0])})


class Dynamic(dynamic.DynamicDegree):
    def load_model(self):
        self.model = fill(RAFT(self.args), "raft.")

    def check_move(self, scores):
        self.scores = scores
        return super().check_move(scores)


moves = Dynamic(EasyDict(small=False, mixed_precision=False, alternate_corr=False), "cpu")
if FULL:
    torch.set_num_threads(1)
    for name in ("imageio",):
        sys.modules.setdefault(name, types.ModuleType(name))
    sys.modules["imageio"].imread = sys.modules["imageio"].imwrite = None
    import vbench.imaging_quality as imaging
    import vbench.motion_smoothness as motion
    from pyiqa.archs.musiq_arch import MUSIQ

    class Smooth(motion.MotionSmoothness):
        def load_model(self):
            self.model = importlib.import_module("vbench.third_party.amt.networks.AMT-S").Model()
            self.model.load_state_dict({k: hashed("amt." + k, math.sqrt(3 / np.prod(v.shape[1:])) * 0.3 if v.dim() > 1 else 0.1, v.shape)
                                        for k, v in self.model.state_dict().items()})
            self.model.eval()

    smooth = Smooth(None, None, "cpu")
    musiq = MUSIQ(pretrained=False)
    musiq.load_state_dict({k: weight("musiq.", k, v.shape) for k, v in musiq.state_dict().items()})
    musiq.eval()


def save(dir):
    from safetensors.torch import save_file

    for name, model in dict(clip_b32=b32, clip_l14=l14, dino=dino, raft=moves.model, aesthetic_head=head, musiq=musiq, amt=smooth.model).items():
        save_file({k: v.clone().contiguous() for k, v in model.state_dict().items()}, os.path.join(dir, name + ".safetensors"))


if __name__ == "__main__":
    import time

    if FULL:
        save(sys.argv[5])
    def numbers(t):
        return [float(np.float32(v)) for v in t.flatten()]

    out = []
    with torch.no_grad():
        for c in CLIPS:
            path = f"/{c['Kind']}.mp4"
            frames = load_video(path)
            text = b32.encode_text(similarity.clip.tokenize([c["Prompt"]], truncate=True))
            measures = {
                "Flickering": lambda: flickering.cal_score(path),
                "Subject": lambda: subject.subject_consistency(dino, [path], "cpu", False)[1][0]["video_results"],
                "Background": lambda: background.background_consistency(b32, None, [path], "cpu", False)[1][0]["video_results"],
                "Aesthetic": lambda: aesthetic.laion_aesthetic(head, l14, [path], "cpu")[1][0]["video_results"],
                "Similarity": lambda: similarity.clip_alignment(b32, [dict(prompt=c["Prompt"], video_list=[path])], None, "cpu")[1][0]["video_results"],
                "Appearance": lambda: float(style.appearance_style(b32, [dict(auxiliary_info=dict(appearance_style=c["Style"]), video_list=[path])],
                                                                   "cpu")[1][0]["video_results"]),
                "Dynamic": lambda: bool(moves.infer(path)),
            }
            if FULL:
                imaging.load_video = lambda path: frames.float()
                measures["Imaging"] = lambda: float(imaging.technical_quality(musiq, [path], "cpu")[0])
                measures["Smoothness"] = lambda: float(smooth.motion_score(path))
            spent = {}
            for name, measure in measures.items():
                began = time.process_time()
                c[name] = measure()
                spent[name] = time.process_time() - began
            if FULL:
                c["CPUSeconds"] = spent
            c["Flows"] = [float(s) for s in moves.scores]
            c["TextFeatures"] = numbers(text)[:64]
            c["ImageFeatures"] = numbers(b32.encode_image(clip_transform(224)(frames[-1:])))[:64]
            c["DINO"] = numbers(dino(dino_transform(224)(frames[-1:])))[:64]
            shown = {k: c[k] for k in ("Kind", "Flickering", "Subject", "Background", "Aesthetic", "Similarity", "Appearance", "Dynamic")}
            print(shown, [round(f, 3) for f in c["Flows"]], flush=True)
            out.append(c)
        first, second = (torch.from_numpy(VIDEOS["/drift.mp4"][0][i].copy()).permute(2, 0, 1)[None].float() for i in (0, 1))
        first, second = dynamic.InputPadder(first.shape).pad(first, second)
        flow = moves.model(first, second, iters=20, test_mode=True)[1][0].permute(1, 2, 0)
    json.dump({"_about": "made by stages/score/testdata/make_vbench.py", "clips": out, "scales": SCALES,
               "flow": {"Shape": list(flow.shape), "Every": 97, "Values": numbers(flow)[::97]}}, open(OUT, "w"))
