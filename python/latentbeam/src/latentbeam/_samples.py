"""Where data sets find their samples: tables of outputs, and the folders that `latentbeam export` writes.

A source has groups, the parts that are read at once: row groups of parquet files, a few files, a few members of a tar. `load`
brings a group into memory. Tensors of a group that have one shape become one tensor, so a row costs a copy and little else.
"""

from __future__ import annotations

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
    raise ImportError(f"{e.name} is not installed: pip install latentbeam[torch]") from e

from ._program import Error
from .stage import read_safetensors

if TYPE_CHECKING:
    from .outputs import Samples

_TOGETHER = 32  # files, or samples of a tar, that are a group
_DTYPES = {"F32": "float32", "F16": "float16", "BF16": "bfloat16", "F64": "float64"}
Facts = Mapping[str, Any]  # what is known of the latents of a row: space, scale, mean, std


def tensor(data: Any, dtype: str, shape: Sequence[int]) -> torch.Tensor:
    """A tensor with memory of its own, of little-endian bytes. numpy has no bfloat16."""
    if dtype == "bfloat16":
        return torch.from_numpy(np.frombuffer(data, np.int16).copy()).view(torch.bfloat16).reshape(list(shape))
    return torch.from_numpy(np.frombuffer(data, np.dtype(dtype)).copy()).reshape(list(shape))


def convert(z: torch.Tensor, facts: Facts, normalized: bool, where: str) -> torch.Tensor:
    """Bring latents (..., C, T, H, W) into the space that is asked for: model = (raw - mean) / std, channel by channel."""
    z = z.float()
    if (facts.get("latent_space") == "raw") != normalized:  # raw stays raw, or model stays model
        return z
    mean, std = facts.get("latents_mean"), facts.get("latents_std")
    if mean is None or std is None:
        scale = float(facts.get("latent_scale") or 0)
        if not scale or normalized:
            raise Error(f"{where}: there are no statistics of its latents (latents_mean, latents_std), so normalized={normalized} "
                        f"cannot be had: pass normalized={not normalized} and do it yourself", 2)
        return z / scale
    m, s = (torch.tensor(v, dtype=torch.float32).reshape(-1, 1, 1, 1) for v in (mean, std))
    if m.shape[0] != z.shape[-4]:
        raise Error(f"{where}: the statistics are of {m.shape[0]} channels, the latents have {z.shape[-4]}", 2)
    return (z - m) / s if normalized else z * s + m


class Group:
    """The samples of a group: tensors of the rows, and their other columns as lists."""

    def __init__(self, latents: Union[torch.Tensor, Sequence[torch.Tensor]], texts: Sequence[Optional[torch.Tensor]],
                 columns: Mapping[str, Sequence[Any]]) -> None:
        self.latents, self.texts, self.columns = latents, texts, columns

    def __len__(self) -> int:
        return len(self.latents)

    def sample(self, i: int) -> dict[str, Any]:
        """One row. Its latents are a copy; equal texts of a group share their memory."""
        sample: dict[str, Any] = {name: values[i] for name, values in self.columns.items()}
        sample["latents"] = self.latents[i].clone()
        text = self.texts[i] if self.texts else None
        if text is not None:
            sample["text"] = text
        return sample


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
        about = [{**facts, **{k: v for k, v in row.items() if v not in (None, "")}}
                 for row in _rows(table, ("latent_space", "latent_scale"), len(read))]
        z = _tensors(table, *_LATENTS[lists])
        where = f"{self.files[i]}, row group {g}"
        latents: Union[torch.Tensor, list[torch.Tensor]]
        if isinstance(z, torch.Tensor) and all(a == about[0] for a in about):
            latents = convert(z, about[0], normalized, where)
        else:
            latents = []
            for k, v in enumerate(z):
                if v is None:
                    raise Error(f"{where}: row {k} has no latents", 2)
                latents.append(convert(v, about[k], normalized, where))
        return Group(latents, _texts(table, *_TEXTS[lists]), kept)

    def shapes(self) -> list[tuple[int, ...]]:
        found: list[tuple[int, ...]] = []
        known: dict[tuple[int, ...], tuple[int, ...]] = {}  # a million rows of one shape have one tuple
        for number, (i, g, _) in enumerate(self.groups):
            file, _facts = self._file(i)
            name = "latents_shape" if "latents_shape" in file.schema_arrow.names else "vae_latent_shape"
            column = file.read_row_group(g, columns=[name]).column(name).to_pylist()
            found += [known.setdefault(s, s) for s in (tuple(column[k]) for k in (range(len(column)) if self.chosen is None else self.chosen[number]))]
        return found

    def texts_of_empty(self) -> Optional[torch.Tensor]:
        for number, (i, g, _) in enumerate(self.groups):
            captions = self._file(i)[0].read_row_group(g, columns=["caption"]).column("caption").to_pylist()
            rows = range(len(captions)) if self.chosen is None else self.chosen[number]
            for k, row in enumerate(rows):
                if not captions[row]:
                    texts = self.load(number, self._file(i)[1].get("latent_space") != "raw", ()).texts
                    if texts and texts[k] is not None:
                        return texts[k]
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


def _rows(table: Mapping[str, Any], names: Sequence[str], n: int) -> list[dict[str, Any]]:
    there = [name for name in names if name in table]
    return [dict(zip(there, values)) for values in zip(*(table[name].to_pylist() for name in there))] if there else [{}] * n


def _tensors(table: Mapping[str, Any], name: str, shape: str, dtype: Optional[str]) -> Union[torch.Tensor, list[Optional[torch.Tensor]]]:
    """The tensors of a column: one (N, ...) where all rows have one shape, else one for each row. None: the row has none."""
    array, shapes = table[name], [tuple(s or ()) for s in table[shape].to_pylist()]
    dtypes = [d or "float32" for d in table[dtype].to_pylist()] if dtype is not None else ["float32"] * len(shapes)
    memory, ends = _memory(array)
    if all(shapes) and len(set(shapes)) == 1 and len(set(dtypes)) == 1:
        return tensor(memory[ends[0]:ends[-1]], dtypes[0], (len(shapes), *shapes[0]))
    return [tensor(memory[ends[i]:ends[i + 1]], dtypes[i], s) if s else None for i, s in enumerate(shapes)]


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


def _texts(table: Mapping[str, Any], name: str, shape: str, dtype: Optional[str]) -> Sequence[Optional[torch.Tensor]]:
    """The text embeddings of rows. Equal texts stand once in a row group, and become one tensor."""
    if name not in table:
        return []
    array = table[name]
    if not pa.types.is_dictionary(array.type):
        return list(_tensors(table, name, shape, dtype))
    shapes, made = table[shape].to_pylist(), {}  # type: list[Any], dict[Any, torch.Tensor]
    dtypes = table[dtype].to_pylist() if dtype is not None else ["float32"] * len(shapes)
    texts: list[Optional[torch.Tensor]] = []
    for index, s, d in zip(array.indices.to_pylist(), shapes, dtypes):
        if not s:
            texts.append(None)
            continue
        if index not in made:
            made[index] = tensor(array.dictionary[index].as_buffer(), d, s)
        texts.append(made[index])
    return texts


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
        latents, texts, kept = [], [], {}  # type: list[torch.Tensor], list[Optional[torch.Tensor]], dict[str, list[Any]]
        for row in self.rows[number * _TOGETHER:][:_TOGETHER]:
            z, text, facts = self._read(row)
            latents.append(convert(z, {**self.beside, **facts}, normalized, f"{self.address}: {facts['id']}"))
            texts.append(text)
            for c in ("id", "key", "caption", *columns):
                if c in columns and c not in facts:
                    raise self.no_column(c, list(facts))
                kept.setdefault(c, []).append(facts.get(c, ""))
        return Group(latents, texts, kept)

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
