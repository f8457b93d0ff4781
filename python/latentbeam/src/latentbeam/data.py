"""Latents and text embeddings of an output as torch data sets.

    out = latentbeam.open("out/latents")
    loader = torch.utils.data.DataLoader(out.latents.torch(), batch_size=4, shuffle=True)
    for batch in loader:
        batch["latents"], batch["text"], batch["caption"]

A sample is a dict: `id`, `key`, `caption`, `latents` (C, T, H, W) in float32, and, where the job made embeddings, `text` (L, D).
Rows of one batch must have one shape for the default collate; `collate` pads texts and refuses latents of other shapes by name.
"""

from __future__ import annotations

import json
import os
import random
from collections import OrderedDict
from typing import Any, Iterator, Mapping, Optional, Sequence

try:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq
    import torch
    from torch.utils.data import Dataset, IterableDataset, get_worker_info
except ImportError as e:
    raise ImportError(f"{e.name} is not installed: pip install latentbeam[torch]") from e

from ._program import Error
from .outputs import Table

_TEXT = "text_embedding"
_READ = ["id", "key", "caption", "vae_latent_bytes", "vae_latent_shape", "vae_latent_dtype", "latent_scale", "latent_space",
         "text_embedding_bytes", "text_embedding_shape", "text_embedding_dtype"]


def _tensor(data: Any, dtype: str, shape: Sequence[int]) -> torch.Tensor:
    """A tensor of its own of bytes; numpy has no bfloat16."""
    if dtype == "bfloat16":
        return torch.from_numpy(np.frombuffer(data, np.int16).copy()).view(torch.bfloat16).reshape(list(shape))
    return torch.from_numpy(np.frombuffer(data, np.dtype(dtype)).copy()).reshape(list(shape))


class _Statistics:
    """How raw latents and those that denoisers take follow from each other: model = (raw - mean) / std, channel by channel."""

    def __init__(self, metadata: Mapping[bytes, bytes]) -> None:
        mean, std = metadata.get(b"latentbeam.latents_mean"), metadata.get(b"latentbeam.latents_std")
        self.mean = torch.tensor(json.loads(mean)).reshape(-1, 1, 1, 1) if mean else None
        self.std = torch.tensor(json.loads(std)).reshape(-1, 1, 1, 1) if std else None

    def convert(self, z: torch.Tensor, space: Optional[str], scale: Optional[float], normalized: bool, row: str) -> torch.Tensor:
        """Bring latents (C, T, H, W) into the space that is asked for."""
        z = z.float()
        if (space == "raw") != normalized:  # raw stays raw, or model stays model
            return z
        if self.mean is None or self.std is None:
            if not scale or normalized:
                raise Error(f"row {row}: the table has no statistics of its latents (latents_mean, latents_std), so "
                            f"normalized={normalized} cannot be had: pass normalized={not normalized} and do it yourself", 2)
            return z / scale
        return (z - self.mean) / self.std if normalized else z * self.std + self.mean


class _Groups:
    """The row groups of a table, in its order, and how many rows come before each."""

    def __init__(self, table: Table) -> None:
        if table._where is not None:
            raise Error("a data set of a filtered table: pass the condition as where=..., or export the rows that you want", 2)
        self.filesystem, _ = table.output._filesystem()
        self.files = table.files
        if not self.files:
            raise Error(f"{table.output.address} has no table {table.name}: name it in output.write of the job", 2)
        self.groups: list[tuple[int, int, int]] = []  # file, row group, rows
        self.first = [0]
        for i, name in enumerate(self.files):
            meta = pq.read_metadata(name, filesystem=self.filesystem)
            for g in range(meta.num_row_groups):
                rows = meta.row_group(g).num_rows
                if rows:
                    self.groups.append((i, g, rows))
                    self.first.append(self.first[-1] + rows)
        self._open: "OrderedDict[int, tuple[Any, _Statistics]]" = OrderedDict()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_open": OrderedDict()}  # open files do not go to worker processes

    def __len__(self) -> int:
        return self.first[-1]

    def file(self, i: int) -> tuple[Any, _Statistics]:
        if i not in self._open:
            f = pq.ParquetFile(self.files[i], filesystem=self.filesystem, read_dictionary=["text_embedding_bytes"])
            self._open[i] = f, _Statistics(f.metadata.metadata or {})
            while len(self._open) > 16:
                self._open.popitem(last=False)[1][0].close()
        return self._open[i]


class _Group:
    """The rows of one row group."""

    def __init__(self, groups: _Groups, number: int, normalized: bool, columns: Sequence[str]) -> None:
        i, g, _ = groups.groups[number]
        file, self.statistics = groups.file(i)
        names = set(file.schema_arrow.names)
        missing = [c for c in columns if c not in names]
        if missing:
            raise Error(f"{groups.files[i]} has no column {missing[0]}: it has {', '.join(sorted(names))}", 2)
        table = file.read_row_group(g, columns=[c for c in [*_READ, *columns] if c in names])
        self.columns = {name: table.column(name).combine_chunks() for name in table.column_names}
        self.normalized, self.extra = normalized, columns
        self.latents = self.columns["vae_latent_bytes"]
        if isinstance(self.latents, pa.ChunkedArray):
            self.latents = self.latents.chunk(0)
        self.texts: dict[int, torch.Tensor] = {}

    def __len__(self) -> int:
        return len(self.latents)

    def value(self, name: str, i: int) -> Any:
        column = self.columns.get(name)
        return column[i].as_py() if column is not None else None

    def sample(self, i: int) -> dict[str, Any]:
        row = str(self.value("id", i))
        z = _tensor(self.latents[i].as_buffer(), self.value("vae_latent_dtype", i), self.value("vae_latent_shape", i))
        z = self.statistics.convert(z, self.value("latent_space", i), self.value("latent_scale", i), self.normalized, row)
        sample = {"id": row, "key": self.value("key", i), "caption": self.value("caption", i) or "", "latents": z}
        text = self.text(i)
        if text is not None:
            sample["text"] = text
        for name in self.extra:
            sample[name] = self.value(name, i)
        return sample

    def text(self, i: int) -> Optional[torch.Tensor]:
        """The text embedding. Equal texts of a row group stand in it once and are decoded once."""
        column = self.columns.get(_TEXT + "_bytes")
        shape = self.value(_TEXT + "_shape", i)
        if column is None or not shape:
            return None
        if isinstance(column, pa.DictionaryArray):
            index = column.indices[i].as_py()
            if index not in self.texts:
                self.texts[index] = _tensor(column.dictionary[index].as_buffer(), self.value(_TEXT + "_dtype", i), shape)
            return self.texts[index]
        return _tensor(column[i].as_buffer(), self.value(_TEXT + "_dtype", i), shape)


class LatentDataset(Dataset):  # type: ignore[type-arg,misc,unused-ignore]
    """A map-style data set of a latents table.

    normalized=True gives latents as denoisers take them, False as the autoencoder has them; both follow from the statistics
    that the table carries. `columns` are further columns of a sample. A few row groups are kept in memory (`cached`): a
    shuffled loader over a large table reads them again and again, and LatentStream is the faster way.
    """

    def __init__(self, table: Table, *, normalized: bool = True, columns: Sequence[str] = (), cached: int = 8) -> None:
        self.normalized, self.columns, self.cached = normalized, list(columns), max(1, cached)
        self.output, self.groups = table.output, _Groups(table)
        self._cache: "OrderedDict[int, _Group]" = OrderedDict()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_cache": OrderedDict()}

    def __len__(self) -> int:
        return len(self.groups)

    def __getitem__(self, index: int) -> dict[str, Any]:
        n = len(self)
        if not -n <= index < n:
            raise IndexError(f"row {index} of {n}")
        index %= n
        number = _find(self.groups.first, index)
        if number not in self._cache:
            self._cache[number] = _Group(self.groups, number, self.normalized, self.columns)
            while len(self._cache) > self.cached:
                self._cache.popitem(last=False)
        self._cache.move_to_end(number)
        return self._cache[number].sample(index - self.groups.first[number])

    def negative(self) -> dict[str, torch.Tensor]:
        """The embeddings of the negative prompts of the output, each once, by prompt; "" is that of the empty one."""
        return negative(self.output)


def _find(first: Sequence[int], index: int) -> int:
    import bisect

    return bisect.bisect_right(first, index) - 1


def negative(output: Any) -> dict[str, torch.Tensor]:
    """The embeddings of the negative prompts of an output, each once, by prompt."""
    found: dict[str, torch.Tensor] = {}
    columns = ["negative_prompt", "negative_embedding_bytes", "negative_embedding_shape", "text_embedding_dtype"]
    table = output.embeddings
    if not table.files:
        return found
    import pyarrow.compute as pc
    import pyarrow.dataset as ds

    prompts = pc.unique(table.dataset.to_table(columns=["negative_prompt"]).column("negative_prompt")).to_pylist()
    for prompt in prompts:
        condition = ds.field("negative_prompt").is_null() if prompt is None else ds.field("negative_prompt") == prompt
        rows = table.dataset.head(1, columns=columns, filter=condition).to_pylist()
        if rows and rows[0]["negative_embedding_shape"]:
            row = rows[0]
            found[prompt or ""] = _tensor(row["negative_embedding_bytes"], row["text_embedding_dtype"], row["negative_embedding_shape"])
    return found


class LatentStream(IterableDataset):  # type: ignore[type-arg,misc,unused-ignore]
    """An iterable data set of a latents table for training.

    Row groups are dealt out to ranks and loader workers, so that each reads its own files in order. shuffle mixes the row
    groups and the rows of `buffer` of them; the order follows from `seed` and the epoch (`set_epoch`). rank and world are
    those of torch.distributed's environment (RANK, WORLD_SIZE) unless they are given.

    A run can go on where it was: torchdata's StatefulDataLoader calls state_dict and load_state_dict; for torch's own loader,
    `load_state_dict(state_after(batches, batch_size, num_workers))` gives the same.
    """

    def __init__(self, table: Table, *, normalized: bool = True, columns: Sequence[str] = (), shuffle: bool = True, seed: int = 0,
                 rank: Optional[int] = None, world: Optional[int] = None, buffer: int = 4) -> None:
        self.normalized, self.columns, self.shuffle, self.seed, self.buffer = normalized, list(columns), shuffle, seed, max(1, buffer)
        self.rank = int(os.environ.get("RANK", 0)) if rank is None else rank
        self.world = int(os.environ.get("WORLD_SIZE", 1)) if world is None else world
        if not 0 <= self.rank < self.world:
            raise Error(f"rank {self.rank} of {self.world}: ranks count from 0", 2)
        self.epoch = 0
        self.output, self.groups = table.output, _Groups(table)
        self._skip: dict[int, int] = {}  # rows that a worker has given already
        self._given = 0

    def set_epoch(self, epoch: int) -> None:
        """Take the order of another epoch, and begin at its start."""
        self.epoch, self._skip = epoch, {}

    def __len__(self) -> int:
        """The rows of this rank."""
        return sum(self.groups.groups[g][2] for g in self._order() if self._owner(g)[0] == self.rank)

    def negative(self) -> dict[str, torch.Tensor]:
        """The embeddings of the negative prompts of the output, each once, by prompt; "" is that of the empty one."""
        return negative(self.output)

    def _order(self) -> list[int]:
        order = list(range(len(self.groups.groups)))
        if self.shuffle:
            random.Random(f"{self.seed} {self.epoch}").shuffle(order)
        return order

    def _owner(self, group: int, workers: int = 1) -> tuple[int, int]:
        """The rank and the worker of a row group. It does not change with the epoch, so caches of hosts stay warm."""
        return group % self.world, group // self.world % workers

    def __iter__(self) -> Iterator[dict[str, Any]]:
        info = get_worker_info()
        worker, workers = (info.id, info.num_workers) if info is not None else (0, 1)
        mine = [g for g in self._order() if self._owner(g, workers) == (self.rank, worker)]
        skip = self._skip.get(worker, 0)
        self._given = skip
        at = 0
        for start in range(0, len(mine), self.buffer):
            numbers = mine[start:start + self.buffer]
            rows = [(g, i) for g in numbers for i in range(self.groups.groups[g][2])]
            if at + len(rows) <= skip:  # nothing of these is read
                at += len(rows)
                continue
            if self.shuffle:
                random.Random(f"{self.seed} {self.epoch} {numbers}").shuffle(rows)
            open_groups: dict[int, _Group] = {}
            for g, i in rows:
                at += 1
                if at <= skip:
                    continue
                if g not in open_groups:
                    open_groups[g] = _Group(self.groups, g, self.normalized, self.columns)
                self._given = at
                yield open_groups[g].sample(i)

    def state_dict(self) -> dict[str, Any]:
        """Where this process is, for StatefulDataLoader."""
        info = get_worker_info()
        return {"epoch": self.epoch, "seed": self.seed, "rows": {str(info.id if info else 0): self._given}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on after the rows that a state names."""
        if state["seed"] != self.seed:
            raise Error(f"the state is of seed {state['seed']}, this stream has {self.seed}", 2)
        self.epoch = int(state["epoch"])
        self._skip = {int(k): int(v) for k, v in state["rows"].items()}

    def state_after(self, batches: int, batch_size: int, num_workers: int = 0) -> dict[str, Any]:
        """The state after so many batches of a torch DataLoader over this stream, which asks its workers in turn."""
        workers = max(1, num_workers)
        size = [sum(self.groups.groups[g][2] for g in self._order() if self._owner(g, workers) == (self.rank, w)) for w in range(workers)]
        before = self._skip
        rows = {w: before.get(w, 0) for w in range(workers)}
        turn, left = 0, batches
        while left > 0 and any(rows[w] < size[w] for w in range(workers)):
            w = turn % workers
            turn += 1
            if rows[w] < size[w]:
                rows[w] = min(size[w], rows[w] + batch_size)
                left -= 1
        return {"epoch": self.epoch, "seed": self.seed, "rows": {str(w): n for w, n in rows.items()}}


def collate(samples: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Put samples together: latents (B, C, T, H, W); text (B, L, D) padded with zeros to the longest, and text_mask (B, L)."""
    shapes = {tuple(s["latents"].shape) for s in samples}
    if len(shapes) > 1:
        raise Error(f"a batch has latents of {len(shapes)} shapes, {sorted(shapes)}: give the loader batches of one shape "
                    "(batch_size=1, or a table for each bucket)", 2)
    batch: dict[str, Any] = {"latents": torch.stack([s["latents"] for s in samples])}
    if all("text" in s for s in samples):
        longest = max(s["text"].shape[0] for s in samples)
        batch["text"] = torch.stack([torch.nn.functional.pad(s["text"], (0, 0, 0, longest - s["text"].shape[0])) for s in samples])
        batch["text_mask"] = torch.stack([torch.arange(longest) < s["text"].shape[0] for s in samples])
    for name in samples[0]:
        if name not in ("latents", "text"):
            batch[name] = [s[name] for s in samples]
    return batch
