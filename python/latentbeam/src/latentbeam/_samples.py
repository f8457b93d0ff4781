"""Where data sets find their samples: tables of outputs, and the folders that `latentbeam export` writes.

A source has groups, the parts that are read at once: row groups of parquet files, a few files, a few members of a tar. `load`
brings a group into memory. Tensors of a group that have one shape become one tensor, so a row costs a copy and little else.
"""

from __future__ import annotations

import ctypes
import json
import tarfile
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Mapping, Optional, Sequence, Union

try:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq
    import torch
except ImportError as e:
    raise ImportError(f"{e.name} is not installed: pip install 'latentbeam[torch]'") from e

from . import _shared
from ._program import Error
from .stage import read_safetensors

if TYPE_CHECKING:
    from .outputs import Samples

_TOGETHER = 32  # files, or samples of a tar, that are a group
_DTYPES = {"F32": "float32", "F16": "float16", "BF16": "bfloat16", "F64": "float64"}
Facts = Mapping[str, Any]  # what is known of the latents of a row: space, scale, mean, std


def tensor(data: Any, dtype: str, shape: Sequence[int]) -> torch.Tensor:
    """A tensor with memory of its own, of little-endian bytes. numpy has no bfloat16."""
    return _view(np.frombuffer(data, np.uint8).copy(), dtype, shape)


def _view(memory: Any, dtype: str, shape: Sequence[int]) -> torch.Tensor:
    """A tensor over bytes that may be written."""
    if dtype == "bfloat16":
        return torch.from_numpy(memory.view(np.int16)).view(torch.bfloat16).reshape(list(shape))
    return torch.from_numpy(memory.view(np.dtype(dtype))).reshape(list(shape))


def _lent(memory: Any, dtype: str, shape: Sequence[int]) -> torch.Tensor:
    """A tensor over bytes of pyarrow, without a copy. It is only read, and the caller keeps the bytes."""
    address = memory.__array_interface__["data"][0]
    if not memory.size or address % 8:
        return tensor(memory, dtype, shape)
    return _view(np.frombuffer((ctypes.c_char * memory.size).from_address(address), np.uint8), dtype, shape)


def convert(z: torch.Tensor, facts: Facts, normalized: bool, where: str) -> torch.Tensor:
    """Bring latents (..., C, T, H, W) in float32 into the space that is asked for, where they lie: model = (raw - mean) / std,
    channel by channel."""
    if (facts.get("latent_space") == "raw") != normalized:  # raw stays raw, or model stays model
        return z
    mean, std = facts.get("latents_mean"), facts.get("latents_std")
    if mean is None or std is None:
        scale = float(facts.get("latent_scale") or 0)
        if not scale or normalized:
            raise Error(f"{where}: there are no statistics of its latents (latents_mean, latents_std), so normalized={normalized} "
                        f"cannot be had: pass normalized={not normalized} and do it yourself", 2)
        return z.div_(scale)
    m, s = (torch.tensor(v, dtype=torch.float32).reshape(-1, 1, 1, 1) for v in (mean, std))
    if m.shape[0] != z.shape[-4]:
        raise Error(f"{where}: the statistics are of {m.shape[0]} channels, the latents have {z.shape[-4]}", 2)
    return z.sub_(m).div_(s) if normalized else z.mul_(s).add_(m)


Tensors = Union[torch.Tensor, list[torch.Tensor]]  # (N, ...) where all have one shape, else a list


class Texts:
    """The texts of rows: each text once, and which of them a row has; -1: none."""

    def __init__(self, values: Tensors, index: list[int]) -> None:
        self.values, self.index = values, index

    def row(self, i: int) -> Optional[torch.Tensor]:
        """The text of a row, which rows with the same text share."""
        return self.values[self.index[i]] if self.index and self.index[i] >= 0 else None

    def take(self, rows: Sequence[int]) -> "Texts":
        """The texts of some rows, in memory of their own."""
        index = [self.index[i] for i in rows] if self.index else []
        kept = [k for k in index if k >= 0]
        numbers = iter(range(len(kept)))
        return Texts(_pick(self.values, kept), [next(numbers) if k >= 0 else -1 for k in index])


def _pick(values: Tensors, rows: Sequence[int]) -> Tensors:
    if isinstance(values, torch.Tensor):
        return values[torch.tensor(rows, dtype=torch.int64)]
    return [values[i].clone() for i in rows]


class Group:
    """The samples of a group: tensors of the rows as they are stored, what is known of them, and their other columns as lists."""

    def __init__(self, latents: Tensors, facts: Sequence[Facts], normalized: bool, where: str, texts: Texts, columns: Mapping[str, Sequence[Any]],
                 memory: Any = None) -> None:
        self.latents, self.texts, self.columns = latents, texts, columns
        self.facts, self.normalized, self.where = facts, normalized, where
        self.memory = memory  # that the tensors lie in

    def __len__(self) -> int:
        return len(self.latents)

    def fill(self, out: torch.Tensor, rows: Sequence[int]) -> None:
        """Write the latents of some rows into out, in the space that is asked for."""
        _fill(out, self.latents, rows)
        if len(self.facts) == 1:
            convert(out, self.facts[0], self.normalized, self.where)
        else:
            for k, i in enumerate(rows):
                convert(out[k], self.facts[i], self.normalized, self.where)

    def sample(self, i: int) -> dict[str, Any]:
        """One row. Its latents are a copy; equal texts of a group share their memory."""
        sample: dict[str, Any] = {name: values[i] for name, values in self.columns.items()}
        z = self.latents[i]
        z = z.clone() if z.dtype == torch.float32 else z.float()
        sample["latents"] = convert(z, self.facts[i if len(self.facts) > 1 else 0], self.normalized, self.where)
        text = self.texts.row(i)
        if text is not None:
            sample["text"] = text
        return sample

    def take(self, rows: Sequence[int]) -> "Group":
        """Some rows, in memory of their own."""
        return Group(_pick(self.latents, rows), self.facts if len(self.facts) == 1 else [self.facts[i] for i in rows], self.normalized, self.where,
                     self.texts.take(rows), {k: [v[i] for i in rows] for k, v in self.columns.items()})


def batch_of(parts: Sequence[tuple[Group, Sequence[int]]]) -> dict[str, Any]:
    """Some rows of some groups as one batch. Their latents have one shape."""
    n = sum(len(rows) for _, rows in parts)
    first, at, room = parts[0][0].latents[parts[0][1][0]], 0, _shared.room()
    batch: dict[str, Any] = {"latents": room(n, first.shape, torch.float32)}
    for group, rows in parts:
        group.fill(batch["latents"][at:at + len(rows)], rows)
        at += len(rows)
    texts = [(g.texts.values, [g.texts.index[i] for i in rows]) for g, rows in parts if g.texts.index]
    shapes = {v.shape[1:] for v, _ in texts if isinstance(v, torch.Tensor)}
    if texts and len(shapes) == 1 and all(isinstance(v, torch.Tensor) for v, _ in texts) and sum(i >= 0 for _, index in texts for i in index) == n:
        at, batch["text"] = 0, room(n, texts[0][0][0].shape, texts[0][0][0].dtype)
        for values, index in texts:
            _fill(batch["text"][at:at + len(index)], values, index)
            at += len(index)
        batch["text_mask"] = torch.ones(batch["text"].shape[:2], dtype=torch.bool)
    else:
        pad([g.texts.row(i) for g, rows in parts for i in rows], batch)
    for name in parts[0][0].columns:
        batch[name] = [g.columns[name][i] for g, rows in parts for i in rows]
    return _shared.finished(batch)


def _fill(out: torch.Tensor, values: Tensors, rows: Sequence[int]) -> None:
    """Copy some tensors into a part of a batch."""
    if not isinstance(values, torch.Tensor):
        for k, i in enumerate(rows):
            out[k] = values[i]
    elif values.dtype == out.dtype:
        torch.index_select(values, 0, torch.tensor(rows, dtype=torch.int64), out=out)
    else:
        out.copy_(values[torch.tensor(rows, dtype=torch.int64)])


def pad(texts: Sequence[Optional[torch.Tensor]], batch: dict[str, Any]) -> None:
    """Put texts into a batch: padded with zeros to the longest, and where they have tokens. Without any there is neither."""
    some = next((t for t in texts if t is not None), None)
    if some is None:
        return
    full = [some[:0] if t is None else t for t in texts]
    lengths = torch.tensor([t.shape[0] for t in full])
    batch["text"] = torch.nn.utils.rnn.pad_sequence(full, batch_first=True)
    batch["text_mask"] = torch.arange(batch["text"].shape[1]) < lengths[:, None]


class Source:
    """Groups of samples. A source travels to worker processes; open files do not."""

    address: str
    sizes: list[int]  # rows of the groups

    def load(self, number: int, normalized: bool, columns: Sequence[str]) -> Group:
        """Read a group."""
        raise NotImplementedError

    def shapes(self) -> list[tuple[int, ...]]:
        """The shape of the latents of each row, without reading them."""
        raise NotImplementedError

    def texts_of_empty(self) -> Optional[torch.Tensor]:
        """The text embedding of a row without a caption; None: there is no such row."""
        raise NotImplementedError

    def no_column(self, name: str, there: Sequence[str]) -> Error:
        """The error of a column that is not there."""
        return Error(f"{self.address} has no column {name}: it has {', '.join(sorted(there))}", 2)


class Parquet(Source):
    """A latents table, and the exports for FastVideo and for the datasets package."""

    def __init__(self, samples: "Samples") -> None:
        self.address = samples.output.address
        self.filesystem, _ = samples.output._filesystem()
        self.files = samples.files
        if not self.files:
            raise Error(f"{self.address} has no table {samples.name}: name it in output.write of the job", 2)
        self.beside = samples.output._beside()
        self.groups: list[tuple[int, int, int]] = []  # file, row group, its rows
        for i, name in enumerate(self.files):
            meta = pq.read_metadata(name, filesystem=self.filesystem)
            self.groups += [(i, g, meta.row_group(g).num_rows) for g in range(meta.num_row_groups)]
        self.groups = [g for g in self.groups if g[2]]
        self.chosen: Optional[list[Any]] = None
        if samples._where is not None:
            self._choose(samples)
        self.sizes = [g[2] for g in self.groups] if self.chosen is None else [len(c) for c in self.chosen]
        self._open: "OrderedDict[int, tuple[Any, Facts]]" = OrderedDict()

    def _choose(self, samples: "Samples") -> None:
        """The rows of each group for which the condition of a filtered table is true. It reads the columns of the condition alone."""
        keep = samples.dataset.to_table(columns={"keep": samples._where}).column("keep")
        mask = keep.fill_null(False).to_numpy()
        ends = np.cumsum([g[2] for g in self.groups])
        found = [np.flatnonzero(mask[end - g[2]:end]) for g, end in zip(self.groups, ends)]
        self.groups = [g for g, c in zip(self.groups, found) if len(c)]
        self.chosen = [c for c in found if len(c)]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_open": OrderedDict()}

    def _file(self, i: int) -> tuple[Any, Facts]:
        if i not in self._open:
            meta = pq.read_metadata(self.files[i], filesystem=self.filesystem)
            texts = [c for c in ("text_embedding_bytes",) if c in meta.schema.names]
            f = pq.ParquetFile(self.files[i], filesystem=self.filesystem, metadata=meta, read_dictionary=texts)
            facts = {**self.beside, **{k[len(b"latentbeam."):].decode(): _value(v) for k, v in (f.metadata.metadata or {}).items()
                                       if k.startswith(b"latentbeam.")}}
            if facts.get("schema") == "fastvideo/t2v":
                facts["latent_space"] = "raw"  # the format has raw latents alone
            self._open[i] = f, facts
            while len(self._open) > 16:
                self._open.popitem(last=False)[1][0].close()
        self._open.move_to_end(i)
        return self._open[i]

    def load(self, number: int, normalized: bool, columns: Sequence[str]) -> Group:
        i, g, _ = self.groups[number]
        file, facts = self._file(i)
        names = file.schema_arrow.names
        for c in columns:
            if c not in names:
                raise self.no_column(c, names)
        wanted = ["id", "key", "caption", *columns]
        lists = "latents_shape" in names  # the export for the datasets package
        tensors = _HF if lists else _BYTES
        read = file.read_row_group(g, columns=[c for c in (*wanted, *tensors, "latent_space", "latent_scale") if c in names])
        if self.chosen is not None:
            read = read.take(pa.array(self.chosen[number]))
        table = {name: _whole(read.column(name)) for name in read.column_names}
        kept = {c: table[c].to_pylist() for c in dict.fromkeys(wanted) if c in table}
        if "caption" in kept:
            kept["caption"] = [c or "" for c in kept["caption"]]
        where = f"{self.files[i]}, row group {g}"
        latents = _tensors(table, *_LATENTS[lists], where, _lent)
        return Group(latents, _facts_of_rows(table, facts, len(read)), normalized, where, _texts(table, *_TEXTS[lists], where), kept, table)

    def shapes(self) -> list[tuple[int, ...]]:
        found: list[tuple[int, ...]] = []
        known: dict[tuple[int, ...], tuple[int, ...]] = {}  # a million rows of one shape have one tuple
        for number, (i, g, _) in enumerate(self.groups):
            file, _facts = self._file(i)
            name = "latents_shape" if "latents_shape" in file.schema_arrow.names else "vae_latent_shape"
            column = file.read_row_group(g, columns=[name]).column(name).to_pylist()
            found += [known.setdefault(s, s) for s in (tuple(column[k]) for k in (range(len(column)) if self.chosen is None else self.chosen[number]))]
        return found

    def text(self, number: int, k: int) -> Optional[torch.Tensor]:
        """The text of a row of a group, whose latents are not read."""
        i, g, _ = self.groups[number]
        file, _facts = self._file(i)
        names = _TEXTS["text_embedding" in file.schema_arrow.names]
        row = int(k if self.chosen is None else self.chosen[number][k])
        read = file.read_row_group(g, columns=[c for c in names if c in file.schema_arrow.names])
        table = {name: _whole(read.column(name).slice(row, 1)) for name in read.column_names}
        return _texts(table, *names, self.files[i]).row(0)

    def texts_of_empty(self) -> Optional[torch.Tensor]:
        for number, (i, g, _) in enumerate(self.groups):
            captions = self._file(i)[0].read_row_group(g, columns=["caption"]).column("caption").to_pylist()
            rows = range(len(captions)) if self.chosen is None else self.chosen[number]
            for k, row in enumerate(rows):
                if not captions[row]:
                    text = self.text(number, k)
                    if text is not None:
                        return text
        return None


_LATENTS = {False: ("vae_latent_bytes", "vae_latent_shape", "vae_latent_dtype"), True: ("latents", "latents_shape", None)}
_TEXTS = {False: ("text_embedding_bytes", "text_embedding_shape", "text_embedding_dtype"),
          True: ("text_embedding", "text_embedding_shape", None)}
_BYTES = (*_LATENTS[False], *_TEXTS[False])
_HF = ("latents", "latents_shape", "text_embedding", "text_embedding_shape")


def _value(text: bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text.decode("utf-8", "replace")


def _whole(column: Any) -> Any:
    """The column of a row group as one array."""
    column = column.combine_chunks()
    return pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column


def _facts_of_rows(table: Mapping[str, Any], facts: Facts, n: int) -> list[Facts]:
    """What is known of the latents of each row; of one alone where it is the same for all."""
    there = [name for name in ("latent_space", "latent_scale") if name in table]
    alike = all(len(table[name].unique()) == 1 for name in there)
    rows = [{name: table[name][i].as_py() for name in there} for i in range(1 if alike else n)]
    return [{**facts, **{k: v for k, v in row.items() if v not in (None, "")}} for row in rows]


def _shape_of_all(shapes: Any) -> Optional[tuple[int, ...]]:
    """The shape that all rows of a column of lists have; None: they differ."""
    ends = np.asarray(shapes.offsets)
    size = int(ends[1] - ends[0])
    if not size or (np.diff(ends) != size).any():
        return None
    values = np.asarray(shapes.values)[ends[0]:ends[-1]].reshape(-1, size)
    return tuple(int(n) for n in values[0]) if (values == values[0]).all() else None


def _tensors(table: Mapping[str, Any], name: str, shape: str, dtype: Optional[str], where: str, make: Callable[..., torch.Tensor]) -> Tensors:
    """The tensors of a column: one (N, ...) where all rows have one shape, else one for each row. make is tensor or _lent."""
    kinds = table[dtype].unique().to_pylist() if dtype is not None else ["float32"]
    memory, ends = _memory(table[name])
    one = _shape_of_all(table[shape])
    if one is not None and len(kinds) == 1:
        return make(memory[ends[0]:ends[-1]], kinds[0] or "float32", (len(table[shape]), *one))
    kinds = table[dtype].to_pylist() if dtype is not None else ["float32"] * len(table[shape])
    found = []
    for i, (s, d) in enumerate(zip(table[shape].to_pylist(), kinds)):
        if not s:
            raise Error(f"{where}: row {i} has no {name.removesuffix('_bytes')}", 2)
        found.append(make(memory[ends[i]:ends[i + 1]], d or "float32", s))
    return found


def _memory(array: Any) -> tuple[Any, Any]:
    """The memory of an array of bytes, or of lists of float32, and where each value begins and ends in it, in bytes."""
    if pa.types.is_list(array.type):
        values = array.values
        data, ends = values.buffers()[1], (np.asarray(array.offsets, np.int64) + values.offset) * values.type.byte_width
    else:
        _, offsets, data = array.buffers()
        wide = pa.types.is_large_binary(array.type)
        ends = np.frombuffer(offsets, np.int64 if wide else np.int32)[array.offset:array.offset + len(array) + 1].astype(np.int64)
    return np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8), ends


def _texts(table: Mapping[str, Any], name: str, shape: str, dtype: Optional[str], where: str) -> Texts:
    """The text embeddings of rows. Equal texts stand once in a row group, and become one tensor."""
    if name not in table:
        return Texts([], [])
    if pa.types.is_dictionary(table[name].type):
        array = table[name]
        index = np.asarray(array.indices)
        numbers, first, index = np.unique(index, return_index=True, return_inverse=True)  # the row that first has each text
        texts = array.dictionary if len(numbers) == len(array.dictionary) else array.dictionary.take(pa.array(numbers))
        table = {name: texts, **{c: table[c].take(pa.array(first)) for c in (shape, dtype) if c is not None}}
    else:
        index = np.arange(len(table[name]))
    there = np.diff(np.asarray(table[shape].offsets)) > 0  # an empty shape: no text
    if not there.any():
        return Texts([], [])
    if not there.all():
        kept = pa.array(np.flatnonzero(there))
        table = {c: table[c].take(kept) for c in (name, shape, dtype) if c is not None}
    place = np.where(there, np.cumsum(there) - 1, -1)
    return Texts(_tensors(table, name, shape, dtype, where, tensor), place[index].tolist())


class _Each(Source):
    """An export with a file, or some members of a tar, for each sample."""

    def __init__(self, samples: "Samples") -> None:
        self.address = samples.output.address
        self.root = Path(self.address)
        self.beside = samples.output._beside()
        if samples._where is not None:
            raise Error(f"{self.address}: a condition needs columns, and this export has none: export with --where", 2)
        self.rows = self._list()
        if not self.rows:
            raise Error(f"{self.address} has no samples", 2)
        self.sizes = [min(_TOGETHER, len(self.rows) - i) for i in range(0, len(self.rows), _TOGETHER)]

    def _list(self) -> list[Any]:
        raise NotImplementedError

    def _read(self, row: Any) -> tuple[torch.Tensor, Optional[torch.Tensor], dict[str, Any]]:
        """Latents, text and facts of a sample."""
        raise NotImplementedError

    def load(self, number: int, normalized: bool, columns: Sequence[str]) -> Group:
        latents, texts, index, kept = [], [], [], {}  # type: list[torch.Tensor], list[torch.Tensor], list[int], dict[str, list[Any]]
        about: list[Facts] = []
        for row in self.rows[number * _TOGETHER:][:_TOGETHER]:
            z, text, facts = self._read(row)
            latents.append(z)
            about.append({**self.beside, **facts})
            index.append(len(texts) if text is not None else -1)
            texts += [text] if text is not None else []
            for c in ("id", "key", "caption", *columns):
                if c in columns and c not in facts:
                    raise self.no_column(c, list(facts))
                kept.setdefault(c, []).append(facts.get(c, ""))
        return Group(latents, about, normalized, self.address, Texts(texts, index if texts else []), kept)

    def shapes(self) -> list[tuple[int, ...]]:
        return [tuple(self._read(row)[0].shape) for row in self.rows]

    def texts_of_empty(self) -> Optional[torch.Tensor]:
        for row in self.rows:
            _, text, facts = self._read(row)
            if text is not None and not facts.get("caption"):
                return text
        return None


class Safetensors(_Each):
    """A safetensors file for each sample."""

    def _list(self) -> list[Any]:
        return sorted(str(p.relative_to(self.root)) for p in self.root.rglob("*.safetensors"))  # names may hold folders

    def _read(self, row: Any) -> tuple[torch.Tensor, Optional[torch.Tensor], dict[str, Any]]:
        tensors, facts = read_safetensors(self.root / row)
        made = {name: tensor(t.data, _DTYPES[t.dtype], t.shape) for name, t in tensors.items()}
        return made["latents"], made.get("text_embedding"), _facts(facts)


class Musubi(_Each):
    """Caches of musubi-tuner: latents and text in files of their own."""

    def _list(self) -> list[Any]:
        return sorted(str(p.relative_to(self.root)) for p in self.root.rglob("*_wan.safetensors"))

    def _read(self, row: Any) -> tuple[torch.Tensor, Optional[torch.Tensor], dict[str, Any]]:
        tensors, facts = read_safetensors(self.root / row)
        (latents,) = tensors.values()
        parts = row[:-len("_wan.safetensors")].rsplit("_", 2 if int(facts.get("frame_count", 0)) else 1)
        texts, about = read_safetensors(self.root / (parts[0] + "_wan_te.safetensors"))
        (text,) = texts.values()
        return (tensor(latents.data, _DTYPES[latents.dtype], latents.shape), tensor(text.data, _DTYPES[text.dtype], text.shape),
                {**facts, "id": Path(row).name[:-len("_wan.safetensors")], "caption": about.get("caption1", ""), "latent_space": "model"})


class WebDataset(_Each):
    """Tars with .json, .latent.npy and .text.npy for each sample."""

    def _list(self) -> list[Any]:
        rows: list[Any] = []
        for path in sorted(self.root.glob("*.tar")):
            found: dict[str, dict[str, tuple[int, int]]] = {}
            with tarfile.open(path) as tar:
                for member in tar:
                    key, _, end = member.name.partition(".")
                    found.setdefault(key, {})[end] = member.offset_data, member.size
            rows += [(path.name, parts) for parts in found.values()]
        return rows

    def _read(self, row: Any) -> tuple[torch.Tensor, Optional[torch.Tensor], dict[str, Any]]:
        name, parts = row
        with open(self.root / name, "rb") as f:
            def part(end: str) -> bytes:
                at, size = parts[end]
                f.seek(at)
                return f.read(size)

            facts = _facts(json.loads(part("json")))
            latents = _npy(part("latent.npy"))
            text = _npy(part("text.npy")) if "text.npy" in parts else None
        return latents, text, facts


def _npy(data: bytes) -> torch.Tensor:
    import io

    return torch.from_numpy(np.load(io.BytesIO(data), allow_pickle=False))


def _facts(texts: Mapping[str, str]) -> dict[str, Any]:
    """The facts beside a sample, whose values are texts: numbers become numbers, lists lists."""
    facts: dict[str, Any] = dict(texts)
    for name in ("latents_mean", "latents_std", "latent_scale", "fps", "height", "width", "num_frames"):
        if name in facts:
            facts[name] = json.loads(facts[name])
    return facts


FORMATS: Mapping[str, Callable[["Samples"], Source]] = {"output": Parquet, "fastvideo": Parquet, "hf": Parquet, "safetensors": Safetensors,
                                       "musubi": Musubi, "webdataset": WebDataset}
