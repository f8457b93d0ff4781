# Makes the checkpoints of this directory with torch (made with 2.15), and what is in them as safetensors.
import collections
import pathlib

import safetensors.torch
import torch

here = pathlib.Path(__file__).parent
torch.manual_seed(1)


def save(name, value, want, **how):
    torch.save(value, here / f"{name}.pth", **how)
    want = {k: v.detach().contiguous().clone() for k, v in want.items()}
    safetensors.torch.save_file(want, here / f"{name}.safetensors")


f = torch.randn(6, 8)
dtypes = {
    "f64": torch.randn(3, dtype=torch.float64), "f32": torch.randn(2, 3), "f16": torch.randn(5).half(),
    "bf16": torch.randn(5).bfloat16(), "i64": torch.tensor([-1, 1 << 40]), "i32": torch.tensor([7], dtype=torch.int32),
    "i16": torch.tensor([-7], dtype=torch.int16), "i8": torch.tensor([-7, 7], dtype=torch.int8),
    "u8": torch.tensor([200], dtype=torch.uint8), "bool": torch.tensor([True, False, True]),
    "scalar": torch.tensor(2.5), "empty": torch.zeros(0, 4),
}
views = {
    "whole": f, "row": f[2], "column": f[:, 3], "transposed": f.T, "window": f[1:5:2, 2:7:3],
    "permuted": torch.arange(24).reshape(2, 3, 4).permute(2, 0, 1), "tied": f,
    "one": f[5:, 7:], "half": torch.arange(12).half().reshape(3, 4).T,
}
parameter = torch.nn.Linear(3, 2)
module = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
old = dict(_use_new_zipfile_serialization=False)

save("dtypes", dtypes, dtypes)
save("dtypes-legacy", dtypes, dtypes, **old)
v3 = {"f8": torch.randn(4).to(torch.float8_e4m3fn), "u16": torch.tensor([1, 65535], dtype=torch.uint16)}
save("typed", v3, v3)
save("views", views, views)
save("views-legacy", views, views, **old)
save("parameters", dict(parameter.named_parameters()), dict(parameter.named_parameters()))
save("module", module.state_dict(), module.state_dict())
save("module-legacy", module.state_dict(), module.state_dict(), **old)
save("protocol5", collections.OrderedDict(dtypes), dtypes, pickle_protocol=5)
state = module.state_dict()
trained = {"epoch": 3, "state_dict": state, "optimizer": torch.optim.Adam(module.parameters()).state_dict(),
           "ema": {k: v + 1 for k, v in state.items()}, "args": {"lr": 1e-4, "sizes": [1, 2], "name": "x"},
           "size": torch.Size([1, 2]), "device": torch.device("cpu")}
save("nested", trained, trained["ema"])
save("wrapped", {"model": {"module." + k: v for k, v in state.items()}, "step": 7}, state)
