"""One evaluation of Wan's denoiser against PyTorch's, in turns: python wan_against_torch.py DIR [rounds] [layers] [sides].

Needs go, torch and diffusers; no test needs this file. Sides are ours, torch, compile (torch.compile, which needs a C++
compiler) and openvino (its package, in bf16 where the network is), with commas between them; ours and torch unless given. DIR gets a network of the size of Wan 2.1 1.3B with random
weights (5.7 GB; fewer layers for a trial) and one case: 480x832, 17 frames, 120 tokens of text, timestep 437. Each
round runs the test TestFullSize of stages/wan and diffusers in fp32 and in bf16, each in a process of its own with as
many threads as there are cores. Every second round begins with the other side. What is printed: seconds of one
evaluation, of the clock and of the processors together, the relative RMS to PyTorch's fp32, the peak of resident memory,
and the load of the machine. Under load the processors' seconds say more; PyTorch's threads are told to sleep while they wait.
compile and openvino evaluate twice, and the second time counts.
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
from diffusers import WanTransformer3DModel
from safetensors.torch import load_file, save_file

HERE = pathlib.Path(__file__).parent
CONFIG = dict(patch_size=(1, 2, 2), num_attention_heads=12, attention_head_dim=128, in_channels=16, out_channels=16, text_dim=4096,
              freq_dim=256, ffn_dim=8960, num_layers=30, cross_attn_norm=True, qk_norm="rms_norm_across_heads", eps=1e-6)
TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def make(folder, layers):
    torch.manual_seed(1)
    model = WanTransformer3DModel(**{**CONFIG, "num_layers": layers}).eval()
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name.endswith("scale_shift_table"):
                p.mul_(0.1)
    model.save_pretrained(folder, max_shard_size="100GB")
    (folder / "diffusion_pytorch_model.safetensors").rename(folder / "model.safetensors")
    case = {"x": torch.randn(1, 16, 5, 60, 104), "text": torch.randn(120, 4096), "timestep": torch.tensor([437.0])}
    save_file(case | {"out": evaluate(model, case)[0]}, folder / "case.safetensors")


def evaluate(model, case):
    dtype = model.patch_embedding.weight.dtype
    text = torch.zeros(1, 512, 4096)
    text[0, : len(case["text"])] = case["text"]
    begun, busy = time.time(), time.process_time()
    with torch.no_grad():
        out = model(hidden_states=case["x"].to(dtype), timestep=case["timestep"], encoder_hidden_states=text.to(dtype),
                    return_dict=False)[0]
    return out.float(), time.time() - begun, time.process_time() - busy


def to_openvino(model, case, kind):
    import openvino

    inputs = dict(hidden_states=case["x"], timestep=case["timestep"], encoder_hidden_states=torch.zeros(1, 512, 4096))
    with torch.no_grad():
        graph = openvino.convert_model(model, example_input=inputs)
    hint = {"INFERENCE_PRECISION_HINT": {"fp32": "f32", "bf16": "bf16"}[kind], "PERFORMANCE_HINT": "LATENCY"}
    compiled = openvino.Core().compile_model(graph, "CPU", hint)
    ranks = [len(p.partial_shape) for p in compiled.inputs]  # not every input keeps its name

    def run(hidden_states, timestep, encoder_hidden_states, return_dict):
        values = {v.dim(): v.float().numpy() for v in (hidden_states, timestep, encoder_hidden_states)}
        return [torch.from_numpy(compiled([values[r] for r in ranks])[0])]

    run.patch_embedding = model.patch_embedding
    return run


def theirs(side, folder, kind):
    """Runs in a process of its own."""
    config = json.loads((folder / "config.json").read_text())
    (folder / "diffusion_pytorch_model.safetensors").unlink(missing_ok=True)
    (folder / "diffusion_pytorch_model.safetensors").symlink_to("model.safetensors")
    model = WanTransformer3DModel.from_pretrained(folder, torch_dtype=torch.float32 if side == "openvino" else TYPES[kind]).eval()
    assert len(model.blocks) == config["num_layers"]
    case = load_file(folder / "case.safetensors")
    if side != "torch":
        model = torch.compile(model) if side == "compile" else to_openvino(model, case, kind)
        evaluate(model, case)
    out, seconds, busy = evaluate(model, case)
    rms = ((out - case["out"]).square().mean() / case["out"].square().mean()).sqrt().item()
    print(f"evaluated {seconds:.3f} s, cpu {busy:.2f} s, rms {rms:.6g}, peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss} kB")


def run(side, folder, kind):
    env = {**os.environ, "LATENTBEAM_WAN_FULL_SIZE": str(folder), "LATENTBEAM_WAN_DTYPE": kind, "CGO_ENABLED": "0",
           "OMP_WAIT_POLICY": "PASSIVE"}
    if side == "ours":
        command = ["go", "test", "-count", "1", "-v", "-timeout", "4h", "-run", "TestFullSize", "."]
    else:
        command = [sys.executable, str(pathlib.Path(__file__).resolve()), "--theirs", side, str(folder), kind]
    text = subprocess.run(command, cwd=HERE.parent, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout
    found = re.search(r"evaluated ([\d.]+) s, cpu ([\d.]+) s, rms (\S+), peak (\d+) kB", text)
    if not found:
        sys.exit(text)
    return float(found[1]), float(found[2]), found[3], int(found[4]) / 1e6


def main():
    if sys.argv[1] == "--theirs":
        return theirs(sys.argv[2], pathlib.Path(sys.argv[3]), sys.argv[4])
    folder = pathlib.Path(sys.argv[1]).resolve()
    given = sys.argv[2:] + ["3", "30", "ours,torch"][len(sys.argv) - 2:]
    rounds, layers, sides = int(given[0]), int(given[1]), given[2].split(",")
    if not (folder / "case.safetensors").exists():
        folder.mkdir(parents=True, exist_ok=True)
        make(folder, layers)
    for kind in TYPES:
        best = {}
        for i in range(rounds):
            for side in sides[:: 1 if i % 2 == 0 else -1]:
                seconds, busy, rms, peak = run(side, folder, kind)
                best[side] = [min(pair) for pair in zip(best.get(side, (1e9, 1e9)), (seconds, busy))]
                print(f"{kind} {side}: {seconds:.2f} s, cpu {busy:.2f} s, rms {rms}, peak {peak:.2f} GB, load {os.getloadavg()[0]:.1f}",
                      flush=True)
        print(f"{kind}: best", *(f"{side} {wall:.2f} s, cpu {busy:.2f} s;" for side, (wall, busy) in best.items()), flush=True)


main()
