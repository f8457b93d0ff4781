"""Rows a second of a LatentStream through a DataLoader, against reading the same parquet files by pyarrow by hand.

    python python/benchmarks/loader.py [--rows 100000] [--workers 2] [--rounds 3] [--shape 16 2 16 16]

It writes a table of latents as a job does (row groups of 8,192 rows or 16 MiB, tensors plain and uncompressed), then takes turns:
by hand (a loop over row groups and rows, numpy.frombuffer, reshape, the statistics, torch.stack) and the stream, both in this
process, and both in a DataLoader with workers. It also watches the memory of all processes, and resumes in the middle.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

import latentbeam
from latentbeam.data import collate

SHAPE, TEXT, BATCH = (16, 2, 16, 16), (8, 64), 64
MEAN, STD = [0.0], [1.0]  # one for each channel


def write(folder: Path, rows: int) -> None:
    (folder / "ledger").mkdir(parents=True)
    (folder / "tables/latents").mkdir(parents=True)
    rng = np.random.default_rng(0)
    metadata = {"latentbeam.schema": "latents/v1", "latentbeam.latents_mean": json.dumps(MEAN), "latentbeam.latents_std": json.dumps(STD)}
    group = min(8192, (16 << 20) // (4 * (int(np.prod(SHAPE)) + int(np.prod(TEXT))) + 512))
    writer, at, part = None, 0, 0
    while at < rows:
        n = min(group, rows - at)
        z = rng.standard_normal((n, *SHAPE), dtype=np.float32)
        text = rng.standard_normal((n, *TEXT), dtype=np.float32)
        table = pa.table({
            "id": [f"r{i}" for i in range(at, at + n)], "vae_latent_bytes": pa.array([v.tobytes() for v in z], pa.binary()),
            "vae_latent_shape": [list(SHAPE)] * n, "vae_latent_dtype": ["float32"] * n,
            "text_embedding_bytes": pa.array([v.tobytes() for v in text], pa.binary()), "text_embedding_shape": [list(TEXT)] * n,
            "text_embedding_dtype": ["float32"] * n, "caption": [f"caption of row {i}" for i in range(at, at + n)],
            "key": [f"{i:064x}" for i in range(at, at + n)], "latent_scale": [1.0] * n, "latent_space": ["raw"] * n,
            "seed": list(range(at, at + n)), "file_name": [f"clips/{i}.mp4" for i in range(at, at + n)]}).replace_schema_metadata(metadata)
        if writer is None:
            tensors = ("vae_latent_bytes", "text_embedding_bytes")
            names = {c: "zstd" for c in table.column_names}
            writer = pq.ParquetWriter(folder / f"tables/latents/{part:05d}.parquet", table.schema,
                                      compression={**names, **dict.fromkeys(tensors, "none")},
                                      use_dictionary=["vae_latent_dtype", "text_embedding_dtype", "latent_space"])
        writer.write_table(table, row_group_size=group)
        at += n
        if at // 32768 != (at - n) // 32768:  # several files, as large jobs have
            writer.close()
            writer, part = None, part + 1
    if writer is not None:
        writer.close()


COLUMNS = ["id", "key", "caption", "vae_latent_bytes", "vae_latent_shape", "vae_latent_dtype", "text_embedding_bytes",
           "text_embedding_shape", "text_embedding_dtype"]


class ByHand(IterableDataset):
    """What anybody would write: rows of row groups become dicts, bytes become tensors."""

    def __init__(self, folder: Path) -> None:
        self.files = sorted((folder / "tables/latents").glob("*.parquet"))

    def __iter__(self):
        info = get_worker_info()
        for path in self.files if info is None else self.files[info.id::info.num_workers]:
            file = pq.ParquetFile(path)
            meta = file.metadata.metadata
            mean, std = (torch.tensor(json.loads(meta[b"latentbeam." + k])).reshape(-1, 1, 1, 1) for k in (b"latents_mean", b"latents_std"))
            for g in range(file.num_row_groups):
                for row in file.read_row_group(g, columns=COLUMNS).to_pylist():
                    z = torch.from_numpy(np.frombuffer(row["vae_latent_bytes"], row["vae_latent_dtype"]).reshape(row["vae_latent_shape"]).copy())
                    text = np.frombuffer(row["text_embedding_bytes"], row["text_embedding_dtype"]).reshape(row["text_embedding_shape"])
                    yield {"id": row["id"], "key": row["key"], "caption": row["caption"], "latents": (z - mean) / std,
                           "text": torch.from_numpy(text.copy())}


def by_hand(folder: Path) -> int:
    """The rows of ByHand in batches, in one process."""
    rows, batch = 0, []
    for row in ByHand(folder):
        batch.append(row)
        if len(batch) == BATCH:
            torch.stack([b["latents"] for b in batch]), torch.stack([b["text"] for b in batch])
            rows, batch = rows + BATCH, []
    return rows + len(batch)


def only_read(folder: Path) -> int:
    """The least: row groups become numpy arrays, without rows, statistics or batches."""
    rows = 0
    for path in sorted((folder / "tables/latents").glob("*.parquet")):
        file = pq.ParquetFile(path)
        for g in range(file.num_row_groups):
            table = file.read_row_group(g, columns=["id", "caption", "vae_latent_bytes", "text_embedding_bytes"])
            for name in ("vae_latent_bytes", "text_embedding_bytes"):
                np.frombuffer(table.column(name).combine_chunks().buffers()[2], np.float32).copy()
            rows += len(table)
    return rows


def resident() -> float:
    """MB that this process and its children have for themselves: shared memory once."""
    total = 0
    me = os.getpid()
    for pid in os.listdir("/proc"):
        try:
            if pid.isdigit() and (int(pid) == me or int(Path("/proc", pid, "stat").read_text().rsplit(")", 1)[1].split()[1]) == me):
                lines = Path("/proc", pid, "smaps_rollup").read_text().splitlines()
                total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
        except OSError:
            pass
    return total / 1024


def processors() -> float:
    """Seconds of processors that this process and those of its children that have ended used, for themselves and in the kernel."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def main() -> None:
    global SHAPE, MEAN, STD
    p = argparse.ArgumentParser()
    p.add_argument("--rows", type=int, default=100_000)
    p.add_argument("--workers", type=int, default=2)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--shape", type=int, nargs=4, default=SHAPE, metavar=("C", "T", "H", "W"))
    args = p.parse_args()
    SHAPE, MEAN, STD = tuple(args.shape), [0.1 * c for c in range(args.shape[0])], [1.0 + c for c in range(args.shape[0])]
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, args.rows)
        latents = latentbeam.open(folder).latents
        size = sum(f.stat().st_size for f in folder.rglob("*.parquet"))
        print(f"{args.rows} rows of {SHAPE} and texts of {TEXT}, {size / 1e6:.0f} MB, {torch.__version__}, pyarrow {pa.__version__}")

        def loader() -> int:
            return sum(len(b["id"]) for b in DataLoader(latents.stream(seed=1, batch_size=BATCH), batch_size=None, num_workers=args.workers))

        def hand_loader() -> int:
            return sum(len(b["id"]) for b in DataLoader(ByHand(folder), batch_size=BATCH, num_workers=args.workers))

        def alone() -> int:
            return sum(len(b["id"]) for b in latents.stream(seed=1, batch_size=BATCH))

        def samples() -> int:
            return sum(len(b["id"]) for b in DataLoader(latents.stream(seed=1), batch_size=BATCH, num_workers=args.workers, collate_fn=collate))

        only_read(folder)  # the files are in memory
        rates: dict[str, list[float]] = {}
        for _ in range(args.rounds):
            for what, work in (
                    ("by hand", lambda: by_hand(folder)), ("stream", alone), ("by hand in a loader", hand_loader),
                    ("stream in a loader", loader), ("samples in a loader", samples), ("only read", lambda: only_read(folder))):
                begun, cpu = time.perf_counter(), processors()
                rows = work()
                took, cpu = time.perf_counter() - begun, processors() - cpu
                assert rows == args.rows, rows
                rates.setdefault(what, []).append(rows / took)
                print(f"  {what:20} {rows / took:9.0f} rows/s, {cpu:.1f} s of processors")
        best = {k: sorted(v)[len(v) // 2] for k, v in rates.items()}
        print("median rows/s: " + ", ".join(f"{k} {v:.0f}" for k, v in best.items()))
        for a, b in (("stream", "by hand"), ("stream in a loader", "by hand in a loader"), ("stream in a loader", "by hand")):
            print(f"{a} / {b} = {best[a] / best[b]:.2f}")

        stream = latents.stream(seed=1, batch_size=BATCH)
        memory, over = [], threading.Event()
        seen = 0

        def watch() -> None:
            while not over.wait(0.2):
                memory.append((seen, resident()))

        threading.Thread(target=watch).start()
        ids: list[str] = []
        for batch in DataLoader(stream, batch_size=None, num_workers=args.workers):
            ids += batch["id"]
            seen += len(batch["id"])
        over.set()
        parts = [[m for n, m in memory if k * args.rows / 4 <= n < (k + 1) * args.rows / 4] for k in range(4)]
        print("MB of all processes, highest by quarter of the rows: " + ", ".join(f"{max(q):.0f}" if q else "?" for q in parts))

        half = len(ids) // BATCH // 2
        resumed = latents.stream(seed=1, batch_size=BATCH)
        resumed.load_state_dict(latents.stream(seed=1, batch_size=BATCH).state_after(half, args.workers))
        rest = [i for b in DataLoader(resumed, batch_size=None, num_workers=args.workers) for i in b["id"]]
        both = ids[:half * BATCH] + rest
        print(f"resumed after {half} batches: {len(rest)} rows, {len(both) - len(set(both))} twice, {args.rows - len(set(both))} missing, "
              f"{'the same order' if both == ids else 'another order'}")


if __name__ == "__main__":
    main()
