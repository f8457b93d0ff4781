"""One evaluation of Open-Sora-Plan's denoiser against PyTorch's: 
python osplan_against_torch.py SOURCE DIR 12|13 [layers [types]].

SOURCE is a checkout of PKU-YuanGroup/Open-Sora-Plan at v1.2.0 or v1.3.1. Needs go, torch, diffusers and einops; no test needs
this file. DIR gets a network of published width with random weights (11 GB with all 32 layers in fp32; fewer for a trial)
and one case: 480x640, 29 frames, 120 tokens of text, timestep 437.5. The project's modules run unchanged, and the test
TestFullSize of stages/osplan, each in a process of its own. Types are fp32,bf16 unless given. What is printed: seconds of
one evaluation, by the clock and of all processors, the relative RMS, the peak of resident memory, and the load of the machine
when it ended.
"""

import json
import os
import pathlib
import re
import resource
import subprocess
import sys
import time

import torch
from safetensors.torch import load_file, save_file

HERE = pathlib.Path(__file__).parent
COMMON = dict(num_attention_heads=24, attention_head_dim=96, cross_attention_dim=2304, attention_bias=True, patch_size=2, patch_size_t=1,
              activation_fn="gelu-approximate", norm_elementwise_affine=False, norm_eps=1e-6, caption_channels=4096,
              interpolation_scale_t=1.0, interpolation_scale_h=1.0, interpolation_scale_w=1.0)
V12 = COMMON | dict(in_channels=4, out_channels=4, norm_type="ada_norm_single", use_rope=True, attention_mode="math",
                    sample_size=[60, 80], sample_size_t=8)
V13 = COMMON | dict(in_channels=8, out_channels=8, sparse1d=True, sparse_n=4)


def model(source, version, layers):
    text = (HERE / "goldens.py").read_text()
    space = {}
    exec(text[: text.index("\nCOMMON")], space)  # its loader of modules
    torch.backends.cuda.sdp_kernel = lambda **_: torch.autograd.profiler.record_function("")
    if version == "12":
        cls, config = space["module"](source, "opensora.models.diffusion.opensora.modeling_opensora").OpenSoraT2V, V12
    else:
        cls, config = space["module"](source, "opensora.models.diffusion.opensora_v1_3.modeling_opensora").OpenSoraT2V_v1_3, V13
    torch.manual_seed(1)
    made = cls(**config, num_layers=layers).eval()
    return made, config | {"num_layers": layers, "_class_name": cls.__name__}


def theirs(source, folder, version, layers):
    made, config = model(source, version, layers)
    save_file({k: v.contiguous() for k, v in made.state_dict().items()}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config))
    x, words = torch.randn(1, config["in_channels"], 8, 60, 80), torch.randn(120, 4096)
    text, mask = torch.zeros(1, 1, 512, 4096), torch.zeros(1, 1, 512)
    text[0, 0, :120], mask[0, 0, :120] = words, 1
    begun, busy = time.time(), time.process_time()
    with torch.no_grad():
        out = made(x, timestep=torch.tensor([437.5]), encoder_hidden_states=text, attention_mask=torch.ones(1, 8, 60, 80),
                   encoder_attention_mask=mask, return_dict=False)[0]
    seconds, busy = time.time() - begun, time.process_time() - busy
    save_file({"x": x, "text": words, "timestep": torch.tensor([437.5]), "out": out.contiguous()}, folder / "case.safetensors")
    print(f"torch: evaluated {seconds:.1f} s, processors {busy:.1f} s, peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss} kB; "
          f"load {os.getloadavg()[0]:.1f}", flush=True)


def main():
    if sys.argv[1] == "--theirs":
        return theirs(sys.argv[2], pathlib.Path(sys.argv[3]), sys.argv[4], int(sys.argv[5]))
    source, folder, version, layers, kinds = (sys.argv[1:] + ["32", "fp32,bf16"][len(sys.argv) - 4:])[:5]
    folder = pathlib.Path(folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.executable, "-W", "ignore", str(pathlib.Path(__file__).resolve()), "--theirs", source, str(folder), version, layers],
                   check=True, stderr=subprocess.DEVNULL)
    for kind in kinds.split(","):
        env = {**os.environ, "LATENTBEAM_OSPLAN_FULL_SIZE": str(folder), "LATENTBEAM_OSPLAN_DTYPE": kind, "CGO_ENABLED": "0"}
        text = subprocess.run(["go", "test", "-count", "1", "-v", "-timeout", "4h", "-run", "TestFullSize", "."], cwd=HERE.parent, env=env,
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout
        found = re.search(r"evaluated .*", text)
        print(f"ours, {kind}: {found[0] if found else text}; load {os.getloadavg()[0]:.1f}", flush=True)


main()
