"""Outputs: what a job has left, read lazily."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Iterator, Mapping, Optional, Sequence

from ._program import Error, call

if TYPE_CHECKING:
    from .data import LatentDataset, LatentStream

_NEEDS = "tables are read by pyarrow, which is not installed: pip install latentbeam[tables]"


def open(address: "os.PathLike[str] | str") -> "Output":  # noqa: A001
    """Open an output: a folder, or an address that begins with gs:// or s3://. Nothing is read yet but its summary."""
    return Output(str(address))


class Output:
    """The output of a job."""

    def __init__(self, address: str) -> None:
        self.address = address.rstrip("/")
        self.remote = "://" in self.address
        if not self.remote:
            folder = Path(self.address)
            if not folder.is_dir():
                raise Error(f"{address} is no folder", 2)
            if not (folder / "ledger").is_dir() and not (folder / "summary.json").is_file():
                raise Error(f"{address} is not the output of a job: it has neither ledger/ nor summary.json", 2)
            self.address = str(folder.resolve())
        self._fs: Any = None

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
    def videos(self) -> "Table":
        """A row for each video: parameters, seed, file, readings."""
        return Table(self, "videos")

    @property
    def failures(self) -> "Table":
        """A row for each row that could not be done, with the reason."""
        return Table(self, "failures")

    @property
    def latents(self) -> "Table":
        """A row for each latent, with its text embedding where the job made both."""
        return Table(self, "latents")

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

    def export(self, folder: "os.PathLike[str] | str", to: str, args: Sequence[str] = ()) -> str:
        """Write latents and embeddings in the format of a trainer, and return the folder."""
        call(["export", self.address, str(folder), "--to", to, *args])
        return str(folder)

    def _filesystem(self) -> tuple[Any, str]:
        """The file system of pyarrow and the path of the output in it."""
        try:
            from pyarrow import fs
        except ImportError as e:
            raise ImportError(_NEEDS) from e
        if self._fs is None:
            self._fs = fs.FileSystem.from_uri(self.address) if self.remote else (fs.LocalFileSystem(), self.address)
        return self._fs[0], self._fs[1]

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


class Table:
    """A table of an output. It is read when it is asked for: `len` reads the ends of its files, an iterator a group at a time.

    `where` and `select` return tables of their own, which filter while they read.
    """

    def __init__(self, output: Output, name: str, where: Any = None, columns: Optional[Sequence[str]] = None) -> None:
        self.output, self.name = output, name
        self._where, self._columns = where, list(columns) if columns is not None else None
        self._dataset: Any = None

    def __repr__(self) -> str:
        return f"{self.output!r}.{self.name}"

    def where(self, expression: Any) -> "Table":
        """The rows for which an expression is true: pyarrow's, or a text such as "measured_motion > 0.5 and color = 'red'"."""
        if isinstance(expression, str):
            from ._where import parse

            expression = parse(expression)
        if self._where is not None:
            expression = self._where & expression
        return Table(self.output, self.name, expression, self._columns)

    def select(self, *columns: str) -> "Table":
        """The table with these columns alone."""
        return Table(self.output, self.name, self._where, columns)

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
                raise Error(f"{self.output.address} has no table {self.name}: name it in output.write of the job", 2)
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
        for batch in self.dataset.to_batches(columns=self._columns, filter=self._where, batch_size=1024):
            yield from batch.to_pylist()

    def to_arrow(self) -> Any:
        """The whole table as a pyarrow.Table."""
        return self.dataset.to_table(columns=self._columns, filter=self._where)

    def to_pandas(self) -> Any:
        """The whole table as a pandas.DataFrame."""
        return self.to_arrow().to_pandas()

    def torch(self, **options: Any) -> "LatentDataset":
        """A map-style torch data set of latents and text embeddings (see latentbeam.data.LatentDataset)."""
        from .data import LatentDataset

        return LatentDataset(self, **options)

    def stream(self, **options: Any) -> "LatentStream":
        """An iterable torch data set: shuffled, sharded by rank and worker, resumable (see latentbeam.data.LatentStream)."""
        from .data import LatentStream

        return LatentStream(self, **options)


