"""Latents and text embeddings as torch data sets: of an output, and of a folder that `latentbeam export` wrote.

    out = latentbeam.open("out/latents")
    data = out.latents.torch()
    loader = torch.utils.data.DataLoader(data, batch_sampler=data.batches(4, seed=1), collate_fn=latentbeam.data.collate)
    for batch in loader:
        batch["latents"], batch["text"], batch["text_mask"], batch["caption"]

A sample is a dict: `id`, `key`, `caption`, `latents` (C, T, H, W) in float32, and, where the job made embeddings, `text` (L, D).
"""

from __future__ import annotations

import bisect
import os
import random
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Iterator, Mapping, Optional, Sequence

from ._program import Error
from ._samples import FORMATS, Group, Source, batch_of, pad, tensor  # says what to install where torch is not there
from . import _shared

import torch
from torch.utils.data import Dataset, IterableDataset, Sampler, get_worker_info

if TYPE_CHECKING:
    from .outputs import Samples

__all__ = ["Batches", "LatentDataset", "LatentStream", "collate", "negative"]


def _source(samples: "Samples") -> Source:
    if samples.output.format not in FORMATS:
        raise Error(f"{samples.output.address} is of the format {samples.output.format}, which this package does not read: "
                    f"it reads {', '.join(sorted(FORMATS))}", 2)
    return FORMATS[samples.output.format](samples)


def _first(sizes: Sequence[int]) -> list[int]:
    """How many rows come before each group, and at the end how many there are."""
    first = [0]
    for n in sizes:
        first.append(first[-1] + n)
    return first


def _ranks(rank: Optional[int], world: Optional[int]) -> tuple[int, int]:
    """The rank and the number of ranks: as given, else those of torch.distributed, else RANK and WORLD_SIZE, else one."""
    distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
    if rank is None:
        rank = torch.distributed.get_rank() if distributed else int(os.environ.get("RANK", 0))
    if world is None:
        world = torch.distributed.get_world_size() if distributed else int(os.environ.get("WORLD_SIZE", 1))
    if not 0 <= rank < world:
        raise Error(f"rank {rank} of {world}: ranks count from 0", 2)
    return rank, world


class LatentDataset(Dataset):  # type: ignore[type-arg,misc,unused-ignore]
    """A map-style data set: data[i] is a sample.

    normalized=True gives latents as denoisers take them, False as the autoencoder has them; both follow from the statistics
    that are stored with the latents. `columns` are further columns of a sample. The last `cached` row groups that were read
    stay in memory: `batches` orders rows so that this is enough, a DataLoader with shuffle=True reads a row group for each row.
    """

    def __init__(self, samples: "Samples", *, normalized: bool = True, columns: Sequence[str] = (), cached: int = 8) -> None:
        self.normalized, self.columns, self.cached = normalized, list(columns), max(1, cached)
        self.output, self.source = samples.output, _source(samples)
        self.first = _first(self.source.sizes)
        self._cache: "OrderedDict[int, Group]" = OrderedDict()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_cache": OrderedDict()}

    def __len__(self) -> int:
        return self.first[-1]

    def __getitem__(self, index: int) -> dict[str, Any]:
        n = len(self)
        if not -n <= index < n:
            raise IndexError(f"row {index} of {n}")
        index %= n
        number = bisect.bisect_right(self.first, index) - 1
        if number not in self._cache:
            while len(self._cache) >= self.cached:
                self._cache.popitem(last=False)
            self._cache[number] = self.source.load(number, self.normalized, self.columns)
        self._cache.move_to_end(number)
        return self._cache[number].sample(index - self.first[number])

    def batches(self, batch_size: int, *, shuffle: bool = True, seed: int = 0, epoch: int = 0, start: int = 0, drop_last: bool = False,
                rank: Optional[int] = None, world: Optional[int] = None) -> "Batches":
        """A batch sampler for DataLoader(batch_sampler=...): each batch has latents of one shape (see Batches)."""
        return Batches(self, batch_size, shuffle=shuffle, seed=seed, epoch=epoch, start=start, drop_last=drop_last, rank=rank, world=world)

    def negative(self) -> dict[str, torch.Tensor]:
        """The embeddings of negative prompts, and of the empty text as "", each once."""
        return negative(self.output, self.source)


class Batches(Sampler):  # type: ignore[type-arg,misc,unused-ignore]
    """Batches of rows whose latents have one shape, as lists of row numbers.

    Rows of `cached` / 2 row groups at a time are mixed, so that a shuffled loader reads each row group about once. The order
    follows from seed and epoch. Ranks take the batches in turn, and each gets the same number: the last ones, fewer than there
    are ranks, are left out. `start` leaves out so many batches of this rank, which were done before: that is how a run resumes,
    with any number of loader workers.
    """

    def __init__(self, data: LatentDataset, batch_size: int, *, shuffle: bool, seed: int, epoch: int, start: int, drop_last: bool,
                 rank: Optional[int], world: Optional[int]) -> None:
        if batch_size < 1:
            raise Error(f"batch_size {batch_size}: 1 is the least", 2)
        self.batch_size, self.shuffle, self.seed, self.epoch, self.start = batch_size, shuffle, seed, epoch, start
        self.drop_last = drop_last
        self.rank, self.world = _ranks(rank, world)
        self.first, self.mixed = data.first, max(1, data.cached // 2)
        self.shapes = data.source.shapes()

    def set_epoch(self, epoch: int) -> None:
        """Take the order of an epoch. Another one than before begins at its start."""
        if epoch != self.epoch:
            self.epoch, self.start = epoch, 0

    def _all(self) -> list[list[int]]:
        groups = list(range(len(self.first) - 1))
        rng = random.Random(f"{self.seed} {self.epoch}")
        if self.shuffle:
            rng.shuffle(groups)
        batches: list[list[int]] = []
        waiting: dict[tuple[int, ...], list[int]] = {}
        for at in range(0, len(groups), self.mixed):
            rows = [i for g in groups[at:at + self.mixed] for i in range(self.first[g], self.first[g + 1])]
            if self.shuffle:
                rng.shuffle(rows)
            made: list[list[int]] = []
            for i in rows:
                batch = waiting.setdefault(self.shapes[i], [])
                batch.append(i)
                if len(batch) == self.batch_size:
                    made.append(waiting.pop(self.shapes[i]))
            if self.shuffle:
                rng.shuffle(made)
            batches += made
        if not self.drop_last:
            batches += waiting.values()
        mine = batches[self.rank::self.world]
        return mine[:len(batches) // self.world]

    def __iter__(self) -> Iterator[list[int]]:
        yield from self._all()[self.start:]

    def __len__(self) -> int:
        return max(0, len(self._all()) - self.start)


def negative(output: Any, source: Optional[Source] = None) -> dict[str, torch.Tensor]:
    """The embeddings of the negative prompts of an output, each once, by prompt. "" is the empty text: of a negative prompt that
    is empty, else of a row without a caption. What the job did not encode is not there."""
    found: dict[str, torch.Tensor] = {}
    table = output.embeddings if hasattr(output, "embeddings") else None
    if table is not None and table.files:
        import pyarrow.compute as pc
        import pyarrow.dataset as ds

        columns = ["negative_prompt", "negative_embedding_bytes", "negative_embedding_shape", "text_embedding_dtype"]
        prompts = pc.unique(table.dataset.to_table(columns=["negative_prompt"]).column("negative_prompt")).to_pylist()
        for prompt in prompts:
            condition = ds.field("negative_prompt").is_null() if prompt is None else ds.field("negative_prompt") == prompt
            rows = table.dataset.head(1, columns=columns, filter=condition).to_pylist()
            if rows and rows[0]["negative_embedding_shape"]:
                row = rows[0]
                found[prompt or ""] = tensor(row["negative_embedding_bytes"], row["text_embedding_dtype"], row["negative_embedding_shape"])
        if "" not in found:
            columns = ["text_embedding_bytes", "text_embedding_shape", "text_embedding_dtype"]
            rows = table.dataset.head(1, columns=columns, filter=ds.field("caption") == "").to_pylist()
            if rows and rows[0]["text_embedding_shape"]:
                found[""] = tensor(*(rows[0][c] for c in ("text_embedding_bytes", "text_embedding_dtype", "text_embedding_shape")))
    if "" not in found and source is not None:
        text = source.texts_of_empty()
        if text is not None:
            found[""] = text
    return found


_MOST_WORKERS = 1024


class LatentStream(IterableDataset):  # type: ignore[type-arg,misc,unused-ignore]
    """An iterable data set, the fast way for tables that are large.

    With batch_size it gives batches, as `collate` makes them, each of one shape: pass batch_size=None to the DataLoader. Without it,
    it gives samples. Each rank has a range of the rows, and each loader worker a part of it, which it reads in order, a row group
    at a time. Without batch_size, and with it where all latents have one shape, all ranks give the same number of rows or batches
    (at most one row of a range is left out in an epoch, not always the same). shuffle mixes the order of row groups, and the rows
    of `buffer` of them; the order follows from seed and epoch (`set_epoch`, which reaches persistent workers too). rank and world
    are those of torch.distributed, else of its environment (RANK, WORLD_SIZE).

    A run continues where it stopped with the same number of ranks and workers: torchdata's StatefulDataLoader calls state_dict and
    load_state_dict; with torch's own loader, `load_state_dict(state_after(batches, num_workers))` gives the same.
    """

    def __init__(self, samples: "Samples", *, batch_size: Optional[int] = None, normalized: bool = True, columns: Sequence[str] = (),
                 shuffle: bool = True, seed: int = 0, drop_last: bool = False, rank: Optional[int] = None, world: Optional[int] = None,
                 buffer: int = 4) -> None:
        if batch_size is not None and batch_size < 1:
            raise Error(f"batch_size {batch_size}: 1 is the least", 2)
        self.batch_size, self.drop_last = batch_size, drop_last
        self.normalized, self.columns, self.shuffle, self.seed, self.buffer = normalized, list(columns), shuffle, seed, max(1, buffer)
        self.rank, self.world = _ranks(rank, world)
        self.output, self.source = samples.output, _source(samples)
        self.first = _first(self.source.sizes)
        self.shapes = self.source.shapes() if batch_size is not None else []
        self._epoch = torch.zeros(1, dtype=torch.int64).share_memory_()  # type: ignore[no-untyped-call,unused-ignore]
        self._resumed: Mapping[str, Any] = {}
        # Workers that are through with the rest of a resumed epoch.
        self._over = torch.zeros(_MOST_WORKERS, dtype=torch.bool).share_memory_()  # type: ignore[no-untyped-call,unused-ignore]
        self._given = 0

    @property
    def epoch(self) -> int:
        """The epoch whose order is given."""
        return int(self._epoch.item())

    def set_epoch(self, epoch: int) -> None:
        """Take the order of an epoch. Another one than before begins at its start."""
        self._epoch[0] = epoch

    @property
    def rows(self) -> int:
        """The rows of this rank."""
        return self.first[-1] // self.world

    def __len__(self) -> int:
        """The rows of this rank. With batch_size: its batches, where one process reads them; each further worker may have one
        batch more for each shape, which is not full."""
        return self.rows if self.batch_size is None else self._size(0, 1)

    def negative(self) -> dict[str, torch.Tensor]:
        """The embeddings of negative prompts, and of the empty text as "", each once."""
        return negative(self.output, self.source)

    def _range(self, worker: int, workers: int) -> tuple[int, int, int]:
        """The rows of a worker of this rank: the first, the end, and how many of them it gives."""
        low, high, each = self.rank * self.first[-1] // self.world, (self.rank + 1) * self.first[-1] // self.world, self.rows
        a, b = low + worker * each // workers, low + (worker + 1) * each // workers
        return a, high if worker == workers - 1 else b, b - a

    def _pieces(self, a: int, b: int) -> list[tuple[int, int, int]]:
        """The row groups with rows a to b, and which of their rows these are."""
        pieces = []
        for g in range(bisect.bisect_right(self.first, a) - 1, len(self.first) - 1):
            if self.first[g] >= b:
                break
            pieces.append((g, max(a, self.first[g]) - self.first[g], min(b, self.first[g + 1]) - self.first[g]))
        return pieces

    def _turns(self, worker: int, workers: int) -> Iterator[list[tuple[int, int]]]:
        """The rows of a worker in their order, as row group and row of it, those of `buffer` row groups at a time."""
        a, b, left = self._range(worker, workers)
        pieces = self._pieces(a, b)
        rng = random.Random(f"{self.seed} {self.epoch} {self.rank} {worker}")
        if self.shuffle:
            rng.shuffle(pieces)
        for start in range(0, len(pieces), self.buffer):
            rows = [(g, i) for g, low, high in pieces[start:start + self.buffer] for i in range(low, high)]
            if self.shuffle:
                rng.shuffle(rows)
            yield rows[:left]
            left -= len(rows)
            if left <= 0:
                return

    def _batches(self, worker: int, workers: int) -> Iterator[tuple[list[list[tuple[int, int]]], list[list[tuple[int, int]]]]]:
        """The batches that become full in each turn of a worker, and at the end those that do not. A batch that was begun in one turn
        is filled in the next."""
        assert self.batch_size is not None
        waiting: dict[tuple[int, ...], list[tuple[int, int]]] = {}
        for rows in self._turns(worker, workers):
            full = []
            for g, i in rows:
                shape = self.shapes[self.first[g] + i]
                batch = waiting.setdefault(shape, [])
                batch.append((g, i))
                if len(batch) == self.batch_size:
                    full.append(waiting.pop(shape))
            yield full, [b for b in waiting.values() if b]
        if not self.drop_last:
            yield list(waiting.values()), []

    def _size(self, worker: int, workers: int) -> int:
        """How many rows or batches a worker gives."""
        if self.batch_size is None:
            return self._range(worker, workers)[2]
        a, b, gives = self._range(worker, workers)
        if len(set(self.shapes[a:b])) <= 1:
            return gives // self.batch_size if self.drop_last else -(-gives // self.batch_size)
        return sum(len(full) for full, _ in self._batches(worker, workers))

    def _resuming(self, workers: int) -> bool:
        """Whether the next pass goes on in the middle. It does not where such a pass has come to its end."""
        return bool(self._resumed) and self._resumed["epoch"] == self.epoch and not bool(self._over[:workers].all())

    def _skip(self, worker: int, workers: int) -> int:
        """The rows or batches that a resumed run has had of a worker."""
        return int(self._resumed["given"].get(str(worker), 0)) if self._resuming(workers) else 0

    def _turn(self, workers: int) -> int:
        """The worker whose batch comes first."""
        return int(self._resumed["turn"]) if self._resuming(workers) else 0

    def _check(self, workers: Optional[int]) -> None:
        state = self._resumed
        for name, now in (("world", self.world), ("workers", workers), ("seed", self.seed), ("total", self.first[-1]), ("batch_size", self.batch_size)):
            if state and state[name] != now and not (name == "workers" and now is None):
                what = {"world": "ranks", "workers": "loader workers", "seed": "as its seed", "total": "rows", "batch_size": "as its batch_size"}[name]
                raise Error(f"the run was saved with {state[name]} {what}, now it has {now}: go on with the same, or take "
                            "LatentDataset.batches(start=...), which resumes with any number of workers", 2)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        info = get_worker_info()
        worker, workers = (info.id, info.num_workers) if info is not None else (0, 1)
        if workers > _MOST_WORKERS:
            raise Error(f"{workers} loader workers: {_MOST_WORKERS} are the most", 2)
        self._check(workers)
        resuming, worker = self._resuming(workers), (worker + self._turn(workers)) % workers
        skip = self._given = self._skip(worker, workers)
        for item in self._samples(worker, workers, skip) if self.batch_size is None else self._made(worker, workers, skip):
            self._given += 1
            yield item
        if resuming:
            self._over[worker] = True

    def _samples(self, worker: int, workers: int, skip: int) -> Iterator[dict[str, Any]]:
        for rows in self._turns(worker, workers):
            groups: dict[int, Group] = {}
            for g, i in rows[skip:]:  # where all are left out, nothing is read
                if g not in groups:
                    groups[g] = self.source.load(g, self.normalized, self.columns)
                yield groups[g].sample(i)
            skip = max(0, skip - len(rows))

    def _made(self, worker: int, workers: int, skip: int) -> Iterator[dict[str, Any]]:
        kept: dict[tuple[int, int], Group] = {}  # rows of earlier turns, whose batches are not full
        for full, begun in self._batches(worker, workers):
            groups: dict[int, Group] = {}

            def group(g: int) -> Group:
                if g not in groups:
                    groups[g] = self.source.load(g, self.normalized, self.columns)
                return groups[g]

            def made(batch: list[tuple[int, int]]) -> dict[str, Any]:
                parts = [(kept.pop(row), [0]) for row in batch if row in kept]
                inside: dict[int, list[int]] = {}
                for g, i in batch[len(parts):]:  # rows of earlier turns come first in a batch
                    inside.setdefault(g, []).append(i)
                return batch_of(parts + [(group(g), rows) for g, rows in inside.items()])

            for batch in full[skip:]:
                yield made(batch)
            for row in (row for batch in full[:skip] for row in batch):
                kept.pop(row, None)
            skip = max(0, skip - len(full))
            for g, i in (row for batch in begun for row in batch if row not in kept) if skip == 0 else ():
                kept[g, i] = group(g).take([i])

    def state_dict(self) -> dict[str, Any]:
        """Where this process is, for StatefulDataLoader."""
        info = get_worker_info()
        return self._state({str(info.id if info else 0): self._given}, info.num_workers if info else 1, 0)

    def _state(self, given: Mapping[str, int], workers: int, turn: int) -> dict[str, Any]:
        return {"epoch": self.epoch, "seed": self.seed, "world": self.world, "workers": workers, "total": self.first[-1],
                "batch_size": self.batch_size, "given": dict(given), "turn": turn}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on after what a state names. Call it before the loader is made or first iterated."""
        self._resumed = dict(state)
        self._check(None)
        self._over.zero_()
        self.set_epoch(int(state["epoch"]))

    def state_after(self, batches: int, num_workers: int = 0, *, batch_size: Optional[int] = None, drop_last: bool = False) -> dict[str, Any]:
        """The state after so many batches of this epoch came out of a torch DataLoader, which asks its workers in turn. Where this run
        was resumed in the epoch, batches are counted from there. batch_size and drop_last are those of the loader, where the stream
        has no batch_size."""
        workers = max(1, num_workers)
        if self.batch_size is None and batch_size is None:
            raise Error("state_after of a stream without batch_size needs the loader's: state_after(batches, num_workers, batch_size=...)", 2)
        step = 1 if self.batch_size is not None or batch_size is None else batch_size
        size = [self._size(w, workers) for w in range(workers)]
        given = [self._skip(w, workers) for w in range(workers)]
        turn, least = self._turn(workers), step if drop_last else 1
        while batches > 0 and any(size[w] - given[w] >= least for w in range(workers)):
            w = turn % workers
            turn += 1
            if size[w] - given[w] >= least:
                given[w] = min(size[w], given[w] + step)
                batches -= 1
        return self._state({str(w): n for w, n in enumerate(given)}, workers, turn % workers)


def collate(samples: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Put samples together: latents (B, C, T, H, W); text (B, L, D) padded with zeros to the longest, and text_mask (B, L), true
    where there is a token. A sample without text has none. Other columns are lists."""
    shapes = {tuple(s["latents"].shape) for s in samples}
    if len(shapes) > 1:
        raise Error(f"a batch has latents of {len(shapes)} shapes, {sorted(shapes)}: make batches of one shape, as "
                    "DataLoader(data, batch_sampler=data.batches(batch_size), collate_fn=latentbeam.data.collate) does", 2)
    latents = [s["latents"] for s in samples]
    batch: dict[str, Any] = {"latents": torch.stack(latents, out=_shared.room()(len(latents), latents[0].shape, latents[0].dtype))}
    pad([s.get("text") for s in samples], batch)
    for name in samples[0]:
        if name not in ("latents", "text"):
            batch[name] = [s[name] for s in samples]
    return _shared.finished(batch)
