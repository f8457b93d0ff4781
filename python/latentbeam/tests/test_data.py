"""Tests of the data sets: over tables that these tests write, without the program, and over what the program exports."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import pickle
import struct
import tempfile
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

import latentbeam

NEEDED = [name for name in ("pyarrow", "numpy", "torch") if importlib.util.find_spec(name) is None]
if NEEDED:
    raise unittest.SkipTest(f"NOT TESTED: data sets: there is no {', '.join(NEEDED)}")

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch.utils.data import DataLoader

from latentbeam.data import collate

MEAN, STD = [0.5, -1.0], [2.0, 3.0]


def write_output(folder: Path, shapes: list[tuple[int, ...]], group: int = 8, files: int = 2, space: str = "raw") -> None:
    """An output with a latents table: row i is full of the number i, and its text has i % 5 + 1 tokens, or none where i % 7 is 3."""
    (folder / "ledger").mkdir(parents=True)
    (folder / "tables/latents").mkdir(parents=True)
    rows = []
    for i, shape in enumerate(shapes):
        text = np.full((i % 5 + 1, 3), i, "float32")
        rows.append({"id": f"r{i}", "key": f"{i:064x}", "caption": f"caption {i}" if i % 5 else "", "vae_latent_bytes": np.full(shape, i, "float32").tobytes(),
                     "vae_latent_shape": list(shape), "vae_latent_dtype": "float32", "text_embedding_bytes": b"" if i % 7 == 3 else text.tobytes(),
                     "text_embedding_shape": [] if i % 7 == 3 else list(text.shape), "text_embedding_dtype": "float32", "latent_space": space,
                     "latent_scale": 1.0, "measured_motion": None if i % 4 == 0 else i / 10})
    metadata = {"latentbeam.schema": "latents/v1", "latentbeam.latents_mean": json.dumps(MEAN), "latentbeam.latents_std": json.dumps(STD)}
    schema = pa.Table.from_pylist(rows).schema
    part = -(-len(rows) // files)
    for f in range(files):
        table = pa.Table.from_pylist(rows[f * part:(f + 1) * part], schema=schema).replace_schema_metadata(metadata)
        pq.write_table(table, folder / f"tables/latents/{f:05d}.parquet", row_group_size=group)


class Synthetic(unittest.TestCase):
    def output(self, shapes: list[tuple[int, ...]], **options: Any) -> latentbeam.Output:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        write_output(Path(folder.name), shapes, **options)
        return latentbeam.open(folder.name)

    def test_values(self) -> None:
        """Shapes, spaces and texts of every row, normalized and raw, from tables of both spaces."""
        shapes = [(2, 1, 2, 2), (2, 3, 1, 2)] * 12
        mean, std = (torch.tensor(v).reshape(2, 1, 1, 1) for v in (MEAN, STD))
        for space in ("raw", "model"):
            out = self.output(shapes, space=space)
            for normalized in (True, False):
                data = out.latents.torch(normalized=normalized, columns=["measured_motion"])
                self.assertEqual(len(data), 24)
                for i in (0, 3, 11, 12, 23, -1):
                    n = i % 24
                    z = torch.full(shapes[n], float(n))
                    if (space == "raw") and normalized:
                        z = (z - mean) / std
                    if (space == "model") and not normalized:
                        z = z * std + mean
                    self.assertTrue(torch.equal(data[i]["latents"], z), (space, normalized, i))
                    self.assertEqual((data[i]["id"], data[i]["caption"]), (f"r{n}", f"caption {n}" if n % 5 else ""))
                    self.assertEqual(data[i]["measured_motion"], None if n % 4 == 0 else n / 10)
                    self.assertEqual("text" in data[i], n % 7 != 3)
                    if n % 7 != 3:
                        self.assertTrue(torch.equal(data[i]["text"], torch.full((n % 5 + 1, 3), float(n))))
        with self.assertRaises(IndexError):
            data[24]
        with self.assertRaisesRegex(latentbeam.Error, "no column nothing"):
            out.latents.torch(columns=["nothing"])[0]

    def test_samples_are_copies(self) -> None:
        data = self.output([(2, 1, 1, 1)] * 4, files=1).latents.torch(normalized=False)
        data[1]["latents"].fill_(99)
        self.assertEqual(data[1]["latents"].flatten().tolist(), [1, 1])

    def test_where(self) -> None:
        latents = self.output([(2, 1, 1, 1)] * 40).latents
        chosen = [i for i in range(40) if i % 4 and i / 10 > 1.0 and i not in (13, 15)]
        for condition in ("motion > 1.0 and id not in ['r13', 'r15']", "measured_motion > 1 && !(id = 'r13' || id == \"r15\")"):
            data = latents.where(condition).torch(normalized=False)
            self.assertEqual([int(data[i]["latents"][0, 0, 0, 0]) for i in range(len(data))], chosen, condition)
            self.assertEqual([row["id"] for row in latents.where(condition)], [f"r{i}" for i in chosen])
            self.assertEqual(len(latents.where(condition)), len(chosen))
        self.assertEqual(len(latents.where("motion is null")), 10)
        self.assertEqual(len(latents.where("motion == nil")), 10)
        self.assertEqual(len(latents.where("motion > 3.5 or motion is null")), 3 + 10)
        self.assertEqual(len(latents.where("not (motion > 1)")), 8)  # without a value: not chosen, as the program has it
        self.assertEqual(len(latents.where("motion > 100 or id == 'r0'")), 0)
        self.assertEqual([r["id"] for r in latents.where("id endsWith '9' and id startsWith 'r3'").select("id")], ["r39"])
        stream = latents.where("motion > 1.0 and id not in ['r13', 'r15']").stream(normalized=False)
        self.assertEqual(sorted(int(s["latents"][0, 0, 0, 0]) for s in stream), chosen)
        for wrong, why in (("speed > 1", "no column speed, only caption"), ("motion >", "a number or a text is wanted"), ("", "empty"),
                           ("motion > 1 motion", "not understood there"), ("motion # 1", "not understood")):
            with self.assertRaisesRegex(latentbeam.Error, why):
                latents.where(wrong)
        with self.assertRaisesRegex(latentbeam.Error, "no column speed"):
            latents.select("speed")

    def test_batches(self) -> None:
        """Batches have one shape; ranks get equal numbers of them and no row twice; a run resumes in the middle with other workers."""
        shapes = [(2, 1, 1, 1 + i % 3) for i in range(50)]
        data = self.output(shapes).latents.torch(normalized=False)
        batches = data.batches(4, seed=3)
        loader = DataLoader(data, batch_sampler=batches, collate_fn=collate)
        got = [[int(v) for v in b["latents"].flatten(1)[:, 0]] for b in loader]
        self.assertEqual(sorted(i for b in got for i in b), list(range(50)))
        self.assertTrue(all(len({i % 3 for i in b}) == 1 for b in got))
        self.assertEqual(len(got), len(batches))
        self.assertNotEqual(got, [list(b) for b in data.batches(4, seed=3, epoch=1)])
        rest = [[int(v) for v in b["latents"].flatten(1)[:, 0]] for b in
                DataLoader(data, batch_sampler=data.batches(4, seed=3, start=5), collate_fn=collate, num_workers=2)]
        self.assertEqual(rest, got[5:])
        ranks = [list(data.batches(4, seed=3, rank=r, world=3)) for r in range(3)]
        self.assertEqual(len({len(r) for r in ranks}), 1)
        rows = [i for r in ranks for b in r for i in b]
        self.assertEqual(len(rows), len(set(rows)))
        self.assertGreaterEqual(len(rows), 50 - 2 * 4)
        self.assertEqual([i for b in data.batches(1, shuffle=False) for i in b], list(range(50)))
        with self.assertRaisesRegex(latentbeam.Error, "batch_sampler"):
            collate([data[0], data[1]])

    def test_stream_ranks(self) -> None:
        """Every rank and worker has its own rows, and ranks have equal numbers, also where there are fewer row groups than they are."""
        for rows, group in ((41, 8), (41, 100), (7, 100)):
            latents = self.output([(2, 1, 1, 1)] * rows, group=group).latents
            for world in (1, 2, 3, 5):
                for workers in (0, 2):
                    found: list[list[int]] = []
                    for rank in range(world):
                        stream = latents.stream(normalized=False, rank=rank, world=world, seed=5)
                        loader = DataLoader(stream, batch_size=2, num_workers=workers, collate_fn=collate)
                        found.append([int(v) for b in loader for v in b["latents"].flatten(1)[:, 0]])
                        self.assertEqual(len(found[-1]), stream.rows)
                    self.assertEqual({len(f) for f in found}, {rows // world})
                    every = [i for f in found for i in f]
                    self.assertEqual(len(every), len(set(every)))

    def test_stream_environment(self) -> None:
        latents = self.output([(2, 1, 1, 1)] * 10).latents
        with mock.patch.dict(os.environ, {"RANK": "1", "WORLD_SIZE": "2"}):
            self.assertEqual(sorted(int(s["latents"][0, 0, 0, 0]) for s in latents.stream(normalized=False)), [5, 6, 7, 8, 9])
        with self.assertRaisesRegex(latentbeam.Error, "rank 2 of 2"):
            latents.stream(rank=2, world=2)

    def test_stream_resumes(self) -> None:
        """After any number of batches the rest comes, and no row twice; the epoch after it is whole. So with samples that the loader
        puts together, and with batches of the stream, of one shape and of several."""
        one, several = ([(2, 1, 1, 1 + i % n) for i in range(41)] for n in (1, 3))

        def rows(stream: Any, workers: int) -> list[list[int]]:
            loader = (DataLoader(stream, batch_size=3, num_workers=workers, collate_fn=collate) if stream.batch_size is None
                      else DataLoader(stream, batch_size=None, num_workers=workers))
            return [[int(v) for v in b["latents"].flatten(1)[:, 0]] for b in loader]

        for shapes, size, workers, stops in ((one, None, 0, (0, 1, 6, 13, 14)), (one, None, 2, (5, 14)), (one, 3, 0, (0, 1, 6, 14)), (one, 3, 2, (5, 14)),
                                             (several, 3, 0, (0, 1, 2, 5, 9, 12, 14)), (several, 3, 2, (3, 5))):
            latents = self.output(shapes, group=4).latents

            def stream(**options: Any) -> Any:
                return latents.stream(normalized=False, batch_size=size, buffer=2, **{"seed": 9, **options})

            by = {} if size else {"batch_size": 3}
            whole = rows(stream(), workers)
            self.assertEqual(sorted(i for b in whole for i in b), list(range(41)))
            if shapes is several:
                self.assertTrue(all(len({i % 3 for i in b}) == 1 for b in whole), whole)
            for stop in stops:
                with self.subTest(size=size, workers=workers, stop=stop, shapes=len(set(shapes))):
                    state = json.loads(json.dumps(stream().state_after(stop, workers, **by)))
                    resumed = stream()
                    resumed.load_state_dict(state)
                    resumed.set_epoch(0)  # as the loop of a trainer does; it is the epoch of the state
                    if len(whole) > stop:
                        again = json.loads(json.dumps(resumed.state_after(1, workers, **by)))  # saved a second time, counted from there
                    self.assertEqual(rows(resumed, workers), whole[stop:])
                    if len(whole) > stop:
                        twice = stream()
                        twice.load_state_dict(again)
                        self.assertEqual(rows(twice, workers), whole[stop + 1:])
                    if stop:  # a second pass, with set_epoch or without, is whole
                        self.assertEqual(len([i for b in rows(resumed, workers) for i in b]), 41)
                    resumed.set_epoch(1)
                    second = rows(resumed, workers)
                    self.assertEqual(sorted(i for b in second for i in b), list(range(41)))
                    self.assertNotEqual(second, whole)
        resumed = latents.stream(batch_size=2, seed=9)
        resumed.load_state_dict(latents.stream(batch_size=2, seed=9).state_after(2, 2))
        with self.assertRaisesRegex(latentbeam.Error, "saved with 2 loader workers, now it has 1"):
            next(iter(resumed))
        with self.assertRaisesRegex(latentbeam.Error, "saved with 9 as its seed"):
            latents.stream(batch_size=3, seed=8).load_state_dict(state)
        with self.assertRaisesRegex(latentbeam.Error, "needs the loader's"):
            latents.stream().state_after(2, 2)

    def test_stream_batches(self) -> None:
        """Batches of the stream are those that collate makes of its samples, texts and columns too."""
        for shapes in ([(2, 1, 1, 1)] * 41, [(2, 1, 1, 1 + i % 2) for i in range(41)]):
            latents = self.output(shapes).latents
            data = latents.torch(columns=["measured_motion"])
            total = 0
            for batch in latents.stream(batch_size=4, columns=["measured_motion"]):
                want = collate([data[int(i[1:])] for i in batch["id"]])
                self.assertEqual(list(want), list(batch) if list(batch) == list(want) else sorted(batch, key=list(want).index))
                for name, value in want.items():
                    same = torch.equal(value, batch[name]) if isinstance(value, torch.Tensor) else value == batch[name]
                    self.assertTrue(same, name)
                total += len(batch["id"])
            self.assertEqual(total, 41)
            self.assertTrue(all(len(b["id"]) == 4 for b in latents.stream(batch_size=4, drop_last=True)))
            stream = latents.stream(batch_size=4)
            self.assertEqual(len(list(stream)), len(stream))

    def test_epochs_reach_persistent_workers(self) -> None:
        stream = self.output([(2, 1, 1, 1)] * 30).latents.stream(normalized=False)
        loader = DataLoader(stream, batch_size=None, num_workers=1, persistent_workers=True)
        orders = []
        for epoch in range(2):
            stream.set_epoch(epoch)
            orders.append([s["id"] for s in loader])
        self.assertNotEqual(orders[0], orders[1])
        self.assertEqual(sorted(orders[0]), sorted(orders[1]))

    @unittest.skipIf(importlib.util.find_spec("torchdata") is None, "NOT TESTED: StatefulDataLoader: there is no torchdata")
    def test_stateful_loader(self) -> None:
        from torchdata.stateful_dataloader import StatefulDataLoader

        latents = self.output([(2, 1, 1, 1)] * 41).latents
        whole = [b["id"] for b in StatefulDataLoader(latents.stream(seed=2), batch_size=3, num_workers=2, collate_fn=collate)]
        first = StatefulDataLoader(latents.stream(seed=2), batch_size=3, num_workers=2, collate_fn=collate)
        it = iter(first)
        got = [next(it)["id"] for _ in range(6)]
        state = first.state_dict()
        second = StatefulDataLoader(latents.stream(seed=2), batch_size=3, num_workers=2, collate_fn=collate)
        second.load_state_dict(state)
        self.assertEqual(got + [b["id"] for b in second], whole)
        of_batches = [b["id"] for b in StatefulDataLoader(latents.stream(seed=2, batch_size=3), batch_size=None, num_workers=2)]
        first = StatefulDataLoader(latents.stream(seed=2, batch_size=3), batch_size=None, num_workers=2)
        it = iter(first)
        got = [next(it)["id"] for _ in range(6)]
        second = StatefulDataLoader(latents.stream(seed=2, batch_size=3), batch_size=None, num_workers=2)
        second.load_state_dict(first.state_dict())
        self.assertEqual(got + [b["id"] for b in second], of_batches)

    def test_collate(self) -> None:
        data = self.output([(2, 1, 1, 1)] * 12).latents.torch()
        batch = collate([data[2], data[3], data[4]])
        self.assertEqual(tuple(batch["text"].shape), (3, 5, 3))
        self.assertEqual(batch["text_mask"].sum(1).tolist(), [3, 0, 5])
        self.assertEqual(batch["text"][0, :, 0].tolist(), [2, 2, 2, 0, 0])
        self.assertEqual(batch["id"], ["r2", "r3", "r4"])

    def test_empty_text(self) -> None:
        data = self.output([(2, 1, 1, 1)] * 12).latents.torch()
        self.assertEqual({k: v.tolist() for k, v in data.negative().items()}, {"": [[0.0] * 3]})
        self.assertEqual(list(self.output([(2, 1, 1, 1)] * 12).latents.where("caption != ''").torch().negative()), [])

    def test_statistics(self) -> None:
        """Without statistics nothing is guessed, and statistics of other latents are refused."""
        out = self.output([(3, 1, 1, 1)] * 2, files=1)
        with self.assertRaisesRegex(latentbeam.Error, "statistics are of 2 channels, the latents have 3"):
            out.latents.torch()[0]
        path = Path(out.address, "tables/latents/00000.parquet")
        pq.write_table(pq.read_table(path).replace_schema_metadata({}), path)
        with self.assertRaisesRegex(latentbeam.Error, "no statistics.*pass normalized=False"):
            out.latents.torch()[0]
        self.assertEqual(tuple(out.latents.torch(normalized=False)[0]["latents"].shape), (3, 1, 1, 1))


class Shared(unittest.TestCase):
    """Batches of loader workers lie in memory that is used again when nobody has it any more, and not before."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        write_output(Path(folder.name), [(2, 1, 4, 4)] * 400, group=50)
        self.latents = latentbeam.open(folder.name).latents
        self.data = self.latents.torch(normalized=False)

    def check(self, batch: dict[str, Any]) -> None:
        self.assertIs(type(batch), dict)
        want = collate([self.data[int(i[1:])] for i in batch["id"]])
        self.assertEqual(sorted(batch), sorted(want))
        for name, value in want.items():
            self.assertTrue(torch.equal(value, batch[name]) if isinstance(value, torch.Tensor) else value == batch[name], (name, batch["id"]))

    def loaders(self, **options: Any) -> list[Any]:
        return [DataLoader(self.latents.stream(batch_size=4, normalized=False), batch_size=None, num_workers=2, **options),
                DataLoader(self.data, batch_sampler=self.data.batches(4), collate_fn=collate, num_workers=2, **options)]

    def test_used_again(self) -> None:
        for loader in self.loaders():
            places, seen = set(), 0
            for batch in loader:
                self.check(batch)
                seen += 1
                places.add(batch["latents"].data_ptr())
            self.assertEqual(seen, 100)
            self.assertLess(len(places), 20)

    def test_kept(self) -> None:
        """What is kept stays as it is, through epochs with new workers and with the same; a part of a batch keeps it too."""
        for options in ({}, {"persistent_workers": True}):
            for loader in self.loaders(**options):
                kept, parts = [], []
                for epoch in range(3):
                    for n, batch in enumerate(loader):
                        if n % 5 == epoch:
                            kept.append(batch)
                        if n % 7 == epoch:
                            parts.append((batch["id"][1], batch["latents"][1], batch["text"][1:2]))
                        if epoch == 1 and n == 40:
                            break
                del batch
                self.assertGreater(len(kept), 40)
                for batch in kept:
                    self.check(batch)
                for name, z, text in parts:
                    self.assertTrue(torch.equal(z, torch.full((2, 1, 4, 4), float(name[1:]))))
                    self.assertIn(float(text.max()), (0.0, float(name[1:])))

    @unittest.skipUnless(hasattr(os, "fork"), "NOT TESTED: batches in forked processes: there is no fork")
    def test_forked(self) -> None:
        """A process that was forked from this one has no say about the batches here."""
        for loader in self.loaders():
            batches = iter(loader)
            batch = next(batches)
            child = os.fork()
            if child == 0:
                del batch
                os._exit(0)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
            self.assertEqual(sum(1 for _ in batches), 99)
            self.check(batch)

    def test_all_kept(self) -> None:
        """More than a worker has pieces for."""
        from latentbeam import _shared

        for loader in self.loaders():
            with mock.patch.object(_shared, "_MOST", 10):  # in forked workers
                batches = list(loader)
            self.assertEqual(len(batches), 100)
            for batch in batches:
                self.check(batch)

    def test_sizes(self) -> None:
        """Of batches of many sizes each takes a piece that fits; where there are the most, others go."""
        from latentbeam import _shared

        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        write_output(Path(folder.name), [(2, 1, 1, 1 + i % 40 * 8) for i in range(400)], group=100)
        self.latents = latentbeam.open(folder.name).latents
        self.data = self.latents.torch(normalized=False)
        with mock.patch.object(_shared, "_MOST", 12):
            for batch in DataLoader(self.latents.stream(batch_size=2, normalized=False), batch_size=None, num_workers=1):
                self.check(batch)

    def test_other_ways(self) -> None:
        """What a collate_fn makes of a batch arrives, and a batch may be sent twice and pickled."""
        stream = self.latents.stream(batch_size=4, normalized=False)
        kept = list(DataLoader(stream, batch_size=None, num_workers=2, collate_fn=_doubled))
        for batch in kept:
            self.assertTrue(torch.equal(batch["twice"], 2 * batch["latents"]) and torch.equal(batch["first"], batch["latents"][:1]))
            self.check({k: v for k, v in batch.items() if k not in ("twice", "first")})
        for collate_fn in (_plain, _pickled):
            kept = list(DataLoader(stream, batch_size=None, num_workers=2, collate_fn=collate_fn))
            for batch in kept:
                self.check(batch)
        kept = list(DataLoader(_Twice(stream), batch_size=None, num_workers=1))
        self.assertEqual(len(kept), 200)
        for batch in kept:
            self.check(batch)

    def test_spawned(self) -> None:
        stream = self.latents.stream(batch_size=40, normalized=False)
        kept = list(DataLoader(stream, batch_size=None, num_workers=1, multiprocessing_context="spawn"))
        self.assertEqual(len(kept), 10)
        for batch in kept:
            self.check(batch)


def _doubled(batch: dict[str, Any]) -> dict[str, Any]:
    batch["twice"], batch["first"] = 2 * batch["latents"], batch["latents"][:1]
    return batch


def _plain(batch: dict[str, Any]) -> dict[str, Any]:
    return dict(batch)


def _pickled(batch: dict[str, Any]) -> dict[str, Any]:
    arrived = pickle.loads(pickle.dumps(batch))
    assert type(arrived) is dict and type(batch) is not dict
    return arrived


class _Twice(torch.utils.data.IterableDataset):  # type: ignore[type-arg,misc,unused-ignore]
    """Gives every batch of a stream again after the next one."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __iter__(self) -> Any:
        last: Any = None
        for batch in self.stream:
            yield batch
            if last is not None:
                yield last
            last = batch
        yield last


def safetensors(path: Path, tensors: dict[str, tuple[str, list[int], bytes]], metadata: dict[str, str]) -> None:
    header: dict[str, Any] = {"__metadata__": metadata}
    at = 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(t[2] for t in tensors.values()))


class Exports(unittest.TestCase):
    def test_musubi(self) -> None:
        """Latents and text of musubi-tuner's caches, in bfloat16. Windows of a video share their text."""
        with tempfile.TemporaryDirectory() as name:
            root = Path(name)
            z = torch.arange(4, dtype=torch.bfloat16)
            for at in (0, 16):
                safetensors(root / f"32x32x5/my_clip_{at:05d}-005_0032x0032_wan.safetensors",
                            {"latents_2x1x2_bfloat16": ("BF16", [1, 2, 1, 2], (z + at).view(torch.int16).numpy().tobytes())},
                            {"architecture": "wan", "width": "32", "height": "32", "frame_count": "5"})
            safetensors(root / "32x32x1/image_0032x0032_wan.safetensors", {"latents_1x1x1_bfloat16": ("BF16", [1, 1, 1, 1], b"\x80\x3f")}, {"width": "32"})
            for stem in ("32x32x5/my_clip", "32x32x1/image"):
                safetensors(root / f"{stem}_wan_te.safetensors", {"varlen_t5_bfloat16": ("BF16", [1, 2], b"\x80\x3f\0\0")}, {"caption1": "words"})
            (root / "dataset.toml").write_text("[general]\n")
            export = latentbeam.open_export(root)
            self.assertEqual(export.format, "musubi")
            data = export.latents.torch()
            found = {s["id"]: s for s in (data[i] for i in range(len(data)))}
            self.assertEqual(sorted(found), ["image_0032x0032", "my_clip_00000-005_0032x0032", "my_clip_00016-005_0032x0032"])
            clip = found["my_clip_00016-005_0032x0032"]
            self.assertEqual((clip["latents"].dtype, clip["latents"].flatten().tolist(), clip["caption"]), (torch.float32, [16, 17, 18, 19], "words"))
            self.assertEqual(clip["text"].float().tolist(), [[1, 0]])

    @unittest.skipIf("READERS" not in os.environ, "NOT TESTED: exports of Wan's latents: READERS names no folder of them (python_test.go makes it)")
    def test_readers(self) -> None:
        """The values of every format are those that the trainers' own readers found in the same exports (readers.json)."""
        golden = json.loads((Path(__file__).parents[3] / "internal/results/export/testdata/readers.json").read_text())
        self.assertEqual(sorted(golden), ["fastvideo", "hf", "musubi", "safetensors", "webdataset"])

        def digest(t: torch.Tensor) -> str:
            return hashlib.sha256(t.contiguous().view(torch.uint8).numpy().tobytes()).hexdigest()[:16]

        for to, want in golden.items():
            export = latentbeam.open_export(Path(os.environ["READERS"], to))
            self.assertEqual(export.format, to)
            data = export.latents.torch(normalized=to != "fastvideo")  # as each stores them
            self.assertEqual(len(data), len(want))
            for sample in (data[i] for i in range(len(data))):
                expected = want[sample["id"] + ("_wan.safetensors" if to == "musubi" else "")]
                z = sample["latents"].bfloat16() if to == "musubi" else sample["latents"]
                self.assertEqual((digest(z), list(z.shape), digest(sample["text"])), (expected["latents"], expected["shape"], expected["text"]), (to, sample["id"]))

    def test_no_export(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            with self.assertRaisesRegex(latentbeam.Error, "no folder of latents"):
                latentbeam.open_export(name)


if __name__ == "__main__":
    unittest.main()
