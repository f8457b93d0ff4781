"""The blocks of timings.sh in PyTorch on the same GPU, in turns with ours: python3 against_torch.py

Uses the modules of blocks_against_torch.py (kernels/cpu/testdata), which lies beside it in the bundle, with weights
and inputs moved to the GPU. Attention is scaled_dot_product_attention, which takes the flash kernel in bf16."""

import os
import pathlib
import sys
import tempfile
import time

os.environ["LATENTBEAM_BENCH_DEVICE"] = "cuda:0"

import torch

import blocks_against_torch as blocks

HERE = pathlib.Path(__file__).parent.resolve()
ROUNDS = 20

# name, stage, case, how many of it a step has
CASES = [
    ("STDiT-XL/2 16x512x512, guidance step", "stdit", "1.0 16x64x64 120 bf16", 28),
    ("STDiT-XL/2 16x256x256, guidance step", "stdit", "1.0 16x32x32 120 bf16", 28),
    ("STDiT3 720p 51 frames, guidance step", "stdit", "1.2 15x90x160 300 bf16", 28),
    ("STDiT3 240p 51 frames, guidance step", "stdit", "1.2 15x30x53 300 bf16", 28),
    ("T5-v1.1-xxl 120 tokens", "t5", "120 bf16", 24),
    ("T5-v1.1-xxl 300 tokens", "t5", "300 bf16", 24),
    ("AutoencoderKL decode, 16 frames 512x512", "vae", "16x64x64 16 bf16", 1),
]


def moved(args):
    """args on the GPU, which may be tuples of tensors."""
    return tuple(moved(a) if isinstance(a, tuple) else a.cuda() for a in args)


def seconds(run, args):
    torch.cuda.synchronize()
    start = time.perf_counter()
    run(*args)
    torch.cuda.synchronize()
    return time.perf_counter() - start


def compiled(model, args):
    try:
        run = torch.compile(model, dynamic=False, mode="max-autotune-no-cudagraphs")
        seconds(run, args)
        return run
    except Exception as error:  # any failure of the compiler only loses a column
        print(f"    not compiled: {str(error)[:200]}", file=sys.stderr)
        return None


def main():
    torch.set_grad_enabled(False)
    for stage in ("stdit", "t5", "vae"):  # where blocks.Ours starts our tests
        (HERE / "stages" / stage).mkdir(parents=True, exist_ok=True)
    blocks.STAGES = HERE / "stages"
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name()}, milliseconds, best of {ROUNDS}")
    print(f"{'':40} {'ours':>9} {'torch':>9} {'compiled':>9} {'to best':>8} {'apart':>8}", flush=True)
    for name, stage, case, times in CASES:
        try:
            model, args = {"stdit": blocks.stdit, "t5": blocks.t5, "vae": blocks.vae}[stage](case)
        except ImportError as error:
            print(f"{name:40} {error}")
            continue
        model, args = model.cuda(), moved(args)
        ours = blocks.Ours(stage, str(HERE))
        ours.seconds(case)
        with tempfile.TemporaryDirectory() as directory:
            apart = blocks.difference(ours.result(directory), model(*args).cpu(), stage)
        sides = [lambda: ours.seconds(case), lambda: seconds(model, args)]
        fast = compiled(model, args)
        if fast is not None:
            sides.append(lambda: seconds(fast, args))
        best = [min(column) * 1e3 * times for column in zip(*[[side() for side in sides] for _ in range(ROUNDS)])]
        ours.close()
        torch._dynamo.reset()
        best += [float("nan")] * (3 - len(best))
        fastest = min(b for b in best[1:] if b == b)
        print(f"{name:40} {best[0]:9.2f} {best[1]:9.2f} {best[2]:9.2f} {fastest / best[0]:8.2f} {apart:8.1e}", flush=True)


if __name__ == "__main__":
    main()
