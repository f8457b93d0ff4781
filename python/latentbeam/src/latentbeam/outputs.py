"""Outputs: what a job has left, read lazily."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Iterator, Mapping, Optional, Sequence, TypeVar, Union

from ._program import Error, call

if TYPE_CHECKING:
    from ._show import Grid
    from .data import LatentDataset, LatentStream

_T = TypeVar("_T", bound="Table")
_NEEDS = "tables are read by pyarrow, which is not installed: pip install 'latentbeam[tables]'"
_READ_AT_ONCE = 32 << 20  # bytes that an iterator of rows has in memory, about


def open(address: "Union[str, os.PathLike[str]]") -> "Output":  # noqa: A001
    """Open an output: a folder, or an address that begins with gs:// or s3://. No table is read yet."""
    return Output(os.fspath(address))


def open_export(address: "Union[str, os.PathLike[str]]") -> "Export":
    """Open a folder that `latentbeam export` wrote, in any of its formats: its latents and texts are a data set as those of an output."""
    return Export(os.fspath(address))


class _Place:
    """A folder or a prefix of a bucket, and the file system of pyarrow that reads it."""

    def __init__(self, address: str) -> None:
        self.address = address.rstrip("/") or "/"
        self.remote = "://" in self.address
        if not self.remote:
            folder = Path(self.address)
            if not folder.is_dir():
                raise Error(f"{address} is no folder", 2)
            self.address = str(folder.resolve())
        self._fs: Any = None

    def _filesystem(self) -> tuple[Any, str]:
        """The file system of pyarrow and the path of the place in it."""
        try:
            from pyarrow import fs
        except ImportError as e:
            raise ImportError(_NEEDS) from e
        if self._fs is None:
            self._fs = fs.FileSystem.from_uri(self.address) if self.remote else (fs.LocalFileSystem(), self.address)
        return self._fs[0], self._fs[1]

    def _files(self, table: str) -> list[str]:
        raise NotImplementedError

    def _beside(self) -> Mapping[str, Any]:
        """Facts of the latents that stand beside the tables."""
        return {}


class Output(_Place):
    """The output of a job."""

    format = "output"

    def __init__(self, address: str) -> None:
        super().__init__(address)
        folder = Path(self.address)
        if not self.remote and not (folder / "ledger").is_dir() and not (folder / "summary.json").is_file():
            what = "it has neither ledger/ nor summary.json"
            try:
                what = f"it is an export ({Export(address).format}): latentbeam.open_export opens it"
            except Error:
                pass
            raise Error(f"{address} is not the output of a job: {what}", 2)

    def __repr__(self) -> str:
        return f"latentbeam.open({self.address!r})"

    @property
    def summary(self) -> Mapping[str, Any]:
        """summary.json: counts, weights, times. Empty before the job is complete."""
        try:
            return dict(json.loads(self._bytes("summary.json")))
        except FileNotFoundError:
            return {}

    @property
    def videos(self) -> "Videos":
        """A row for each video: parameters, seed, file, readings."""
        return Videos(self, "videos")

    @property
    def failures(self) -> "Table":
        """A row for each row that could not be done, with the reason."""
        return Table(self, "failures")

    @property
    def latents(self) -> "Samples":
        """A row for each latent, with its text embedding where the job made both."""
        return Samples(self, "latents")

    @property
    def embeddings(self) -> "Table":
        """A row for each text embedding."""
        return Table(self, "embeddings")

    def path(self, name: str) -> str:
        """The path or address of a file that a table names, such as video_path."""
        return f"{self.address}/{name}" if self.remote else str(Path(self.address, name))

    def explain(self, row: str) -> list[dict[str, Any]]:
        """What became of the rows with an id, a place in the input or first digits of a key, and what would make them new."""
        return list(json.loads(call(["explain", self.address, row, "--json"]).stdout))

    def verify(self) -> Mapping[str, Any]:
        """Read every byte of the output and compare it with what was written. What was found, as `verify --json` says it."""
        return dict(json.loads(call(["verify", self.address, "--json"], accept=(0, 1)).stdout))

    def status(self) -> Mapping[str, Any]:
        """How far the job is, as `status --json` says it."""
        return dict(json.loads(call(["status", self.address, "--json"]).stdout.splitlines()[-1]))

    def export(self, folder: "Union[str, os.PathLike[str]]", to: str, args: Sequence[str] = ()) -> str:
        """Write latents and embeddings in the format of a trainer, and return the folder. `args` are further flags of `export`."""
        call(["export", self.address, str(folder), "--to", to, *args])
        return str(folder)

    def copy(self, folder: "Union[str, os.PathLike[str]]", where: str) -> str:
        """Copy the chosen videos, their posters and metadata.parquet into a folder or bucket, and return it."""
        call(["copy", self.address, str(folder), "--where", where])
        return str(folder)

    def _bytes(self, name: str) -> bytes:
        if not self.remote:
            return Path(self.address, name).read_bytes()
        filesystem, path = self._filesystem()
        with filesystem.open_input_file(f"{path}/{name}") as f:
            return bytes(f.read())

    def _files(self, table: str) -> list[str]:
        """The files of a table, in order. Earlier releases wrote tables/NAME-*.parquet."""
        if not self.remote:
            root = Path(self.address, "tables")
            found = sorted(root.glob(f"{table}/*.parquet")) or sorted(root.glob(f"{table}-*.parquet"))
            return [str(p) for p in found]
        from pyarrow import fs

        filesystem, path = self._filesystem()
        for selector, prefix in ((f"{path}/tables/{table}", ""), (f"{path}/tables", table + "-")):
            infos = filesystem.get_file_info(fs.FileSelector(selector, allow_not_found=True))
            names = sorted(i.path for i in infos if i.is_file and i.base_name.endswith(".parquet") and i.base_name.startswith(prefix))
            if names:
                return names
        return []


class Export(_Place):
    """A folder that `latentbeam export` wrote."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        if self.remote:
            raise Error(f"{address}: exports are folders of this host: copy it here first", 2)
        self.format = self._format()

    @property
    def statistics(self) -> Mapping[str, Any]:
        """statistics.json: space, mean, deviation, shapes and digests. Exports of release 0.1.0 have none, and this is empty."""
        try:
            return dict(json.loads(Path(self.address, "statistics.json").read_bytes()))
        except FileNotFoundError:
            return {}

    def _beside(self) -> Mapping[str, Any]:
        facts = self.statistics.get("latents") or {}
        names = {"space": "latent_space", "scale": "latent_scale", "mean": "latents_mean", "std": "latents_std"}
        return {names[k]: facts[k] for k in names if facts.get(k) is not None}

    def _format(self) -> str:
        if self.statistics.get("format"):
            return str(self.statistics["format"])
        root = Path(self.address)
        for pattern, format in (("dataset.toml", "musubi"), ("*/data_chunk_*.parquet", "fastvideo"), ("*/*.parquet", "hf"), ("*.tar", "webdataset"),
                                ("*.safetensors", "safetensors"), ("*/*.safetensors", "safetensors")):
            if next(root.glob(pattern), None) is not None:
                return format
        raise Error(f"{self.address} is no folder of latents that `latentbeam export` wrote: it has no parquet, safetensors or tar files", 2)

    def __repr__(self) -> str:
        return f"latentbeam.open_export({self.address!r})"

    @property
    def latents(self) -> "Samples":
        """Its samples. `torch` and `stream` read every format; where, select, rows and tables are there where it is parquet."""
        return Samples(self, "latents")

    def _files(self, table: str) -> list[str]:
        return sorted(str(p) for p in Path(self.address).glob("*/*.parquet"))


class Table:
    """A table of an output. It is read when it is asked for: `len` reads the ends of its files, an iterator a group at a time.

    `where` and `select` return tables of their own, which filter while they read.
    """

    def __init__(self, output: Union[Output, Export], name: str, where: Any = None, columns: Optional[Sequence[str]] = None) -> None:
        self.output, self.name = output, name
        self._where, self._columns = where, list(columns) if columns is not None else None
        self._dataset: Any = None

    def __repr__(self) -> str:
        return f"{self.output!r}.{self.name}"

    def where(self: "_T", expression: Any) -> "_T":
        """The rows for which an expression is true: pyarrow's, or a text such as "motion > 0.5 and color == 'red'", as --where takes it."""
        if isinstance(expression, str):
            from ._where import parse

            expression = parse(expression, self.dataset.schema.names)
        if self._where is not None:
            expression = self._where & expression
        return type(self)(self.output, self.name, expression, self._columns)

    def select(self: "_T", *columns: str) -> "_T":
        """The table with these columns alone."""
        return type(self)(self.output, self.name, self._where, [self._column(c) for c in columns])

    def _column(self, name: str) -> str:
        """The column of a name, from which `measured_` may be left out."""
        names = self.dataset.schema.names
        if name not in names and "measured_" + name not in names:
            raise Error(f"{self.name} has no column {name}, only {', '.join(names)}", 2)
        return name if name in names else "measured_" + name

    @property
    def files(self) -> list[str]:
        """The parquet files."""
        return self.output._files(self.name)

    @property
    def dataset(self) -> Any:
        """The pyarrow.dataset.Dataset."""
        if self._dataset is None:
            try:
                import pyarrow.dataset as ds
            except ImportError as e:
                raise ImportError(_NEEDS) from e
            files = self.files
            if not files:
                missing = "name it in output.write of the job" if isinstance(self.output, Output) else f"the format {self.output.format} has none"
                raise Error(f"{self.output.address} has no table {self.name}: {missing}", 2)
            filesystem, _ = self.output._filesystem()
            self._dataset = ds.dataset(files, filesystem=filesystem, format="parquet")
        return self._dataset

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What the table says of itself: schema, digests, latents_mean and latents_std, as Python values."""
        found = {}
        for key, value in (self.dataset.schema.metadata or {}).items():
            if key.startswith(b"latentbeam."):
                text = value.decode()
                try:
                    found[key.decode()[len("latentbeam."):]] = json.loads(text)
                except ValueError:
                    found[key.decode()[len("latentbeam."):]] = text
        return found

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return self._columns if self._columns is not None else list(self.dataset.schema.names)

    def __len__(self) -> int:
        if not self.files:
            return 0
        return int(self.dataset.count_rows(filter=self._where))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        if not self.files:
            return
        for batch in self.batches():
            yield from batch.to_pylist()

    def batches(self) -> Iterator[Any]:
        """The table as pyarrow.RecordBatches, of about 1,024 rows; of fewer where rows are large, so that memory stays bounded."""
        rows, size = 0, 0
        for fragment in self.dataset.get_fragments():
            meta = fragment.metadata
            for g in range(meta.num_row_groups):
                rows, size = rows + meta.row_group(g).num_rows, size + meta.row_group(g).total_byte_size
            break
        at_once = max(1, min(1024, _READ_AT_ONCE * rows // max(1, size)))
        yield from self.dataset.to_batches(columns=self._columns, filter=self._where, batch_size=at_once, batch_readahead=2, fragment_readahead=1)

    def to_arrow(self) -> Any:
        """The whole table as a pyarrow.Table."""
        return self.dataset.to_table(columns=self._columns, filter=self._where)

    def to_pandas(self) -> Any:
        """The whole table as a pandas.DataFrame."""
        return self.to_arrow().to_pandas()


class Videos(Table):
    """A table of videos."""

    def show(self, *columns: str, limit: int = 12, width: int = 192) -> "Grid":
        """The first videos side by side, as a notebook shows them, with these columns below each."""
        from ._show import grid

        return grid(self.output, self, columns, limit, width)

    def sorted(self, by: str, descending: bool = True) -> list[dict[str, Any]]:
        """Its rows in the order of a column, such as a reading. Rows without the value are last."""
        order = "descending" if descending else "ascending"
        return list(self.to_arrow().sort_by([(self._column(by), order)]).to_pylist())


class Samples(Table):
    """A table of latents, with data sets for training."""

    def torch(self, *, normalized: bool = True, columns: Sequence[str] = (), cached: int = 8) -> "LatentDataset":
        """A map-style torch data set of latents and text embeddings (see latentbeam.data.LatentDataset)."""
        from .data import LatentDataset

        return LatentDataset(self, normalized=normalized, columns=columns, cached=cached)

    def stream(self, *, batch_size: Optional[int] = None, normalized: bool = True, columns: Sequence[str] = (), shuffle: bool = True, seed: int = 0,
               drop_last: bool = False, rank: Optional[int] = None, world: Optional[int] = None, buffer: int = 4) -> "LatentStream":
        """An iterable torch data set: shuffled, sharded by rank and worker, resumable (see latentbeam.data.LatentStream)."""
        from .data import LatentStream

        return LatentStream(self, batch_size=batch_size, normalized=normalized, columns=columns, shuffle=shuffle, seed=seed, drop_last=drop_last,
                            rank=rank, world=world, buffer=buffer)
