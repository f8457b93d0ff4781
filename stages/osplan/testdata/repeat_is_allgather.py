"""Shows that Open-Sora-Plan's repeat of masks is an all-gather: python repeat_is_allgather.py SOURCE12 [ranks].

Runs prepare_parallel_data of the project (v1.2.0, opensora/utils/communications.py) unchanged in as many processes, over
gloo, with the latents of 93x480x640, another mask on each rank, and compares what each rank gets with dist.all_gather of the
masks. Prints the sizes. Needs torch and einops; no test needs this file.
"""

import importlib
import pathlib
import sys
import types

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def single(output, input_, group=None):
    """all_to_all_single by pairs, where the backend has none."""
    requests = []
    for peer in range(dist.get_world_size()):
        if peer == dist.get_rank():
            output[peer] = input_[peer]
            continue
        requests += [dist.isend(input_[peer].contiguous(), peer), dist.irecv(output[peer], peer)]
    for r in requests:
        r.wait()


def rank(me, source, ranks):
    dist.init_process_group("gloo", init_method="tcp://127.0.0.1:29517", rank=me, world_size=ranks)
    for name in "opensora", "opensora.utils":
        package = types.ModuleType(name)
        package.__path__ = [str(pathlib.Path(source, *name.split(".")))]
        sys.modules[name] = package
    state = importlib.import_module("opensora.utils.parallel_states")
    state.nccl_info.world_size, state.nccl_info.rank = ranks, me
    code = importlib.import_module("opensora.utils.communications")
    code.dist = types.SimpleNamespace(all_to_all_single=single)
    mask = (torch.rand(1, 24, 60, 80, generator=torch.Generator().manual_seed(me)) < 0.5).float()
    text = (torch.rand(1, 1, 512, generator=torch.Generator().manual_seed(100 + me)) < 0.5).float()
    x, words = torch.zeros(1, 4, 24, 60, 80), torch.zeros(1, 1, 512, 8)
    x, words, got, got_text, _ = code.prepare_parallel_data(x, words, mask, text, 0)
    want, want_text = ([torch.empty_like(v) for _ in range(ranks)] for v in (mask, text))
    dist.all_gather(want, mask)
    dist.all_gather(want_text, text)
    assert torch.equal(got, torch.cat(want)) and torch.equal(got_text, torch.cat(want_text))
    if me == 0:
        n = mask.numel()
        print(f"{ranks} ranks: mask {tuple(mask.shape)}, repeated {tuple(mask.repeat(1, ranks, 1, 1).shape)}, each rank gets "
              f"{tuple(got.shape)}, the all-gather of the masks; it sends {(ranks - 1) * n} numbers, as an all-gather does. Latents "
              f"{tuple(x.shape)}, words {tuple(words.shape)}")


if __name__ == "__main__":
    count = int((sys.argv[2:] + ["2"])[0])
    mp.spawn(rank, (sys.argv[1], count), nprocs=count)
