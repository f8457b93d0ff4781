"""Python programs as stages of latentbeam. docs/exec.md of latentbeam is the specification of what happens here."""

from __future__ import annotations

import json
import os
import struct
import sys
import threading
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Callable, Iterable, Mapping, Optional, Sequence, Union

__all__ = ["Cancelled", "Fatal", "Latents", "Result", "Retry", "Row", "RowError", "Stage", "Tensor",
           "read_safetensors", "stage", "write_safetensors"]

PROTOCOL = 1
TAKES = ("prompt", "text", "media", "latents", "frames", "video")
GIVES = TAKES
HEARTBEAT = 5.0  # seconds


class RowError(Exception):
    """This row cannot be done. It goes to the failures table."""


class Retry(Exception):
    """Something outside of the row failed: the batch is to be tried again."""


class Fatal(Exception):
    """The job cannot go on."""


class Cancelled(Exception):
    """Nobody wants the batch any more."""


@dataclass
class Tensor:
    """An array without numpy: dtype as safetensors has it (F32, U8, ...), shape, little-endian bytes."""

    dtype: str
    shape: Sequence[int]
    data: bytes


@dataclass
class Latents:
    """Latents (channels, frames, height, width), and the factor between them and those of the autoencoder."""

    value: Any
    scale: Optional[float] = None


@dataclass
class Result:
    """What the function made of a row. output None: the row passes unchanged."""

    output: Any = None
    readings: Mapping[str, Any] = field(default_factory=dict)
    poster: Optional[Union[str, Path]] = None


class Row:
    """One row of a batch."""

    def __init__(self, raw: Mapping[str, Any], batch: "_Batch") -> None:
        self.id: str = raw["id"]
        self.key: str = raw["key"]
        self.seed: Optional[int] = raw.get("seed")
        self.params: dict[str, Any] = dict(raw["params"])
        self.inputs: dict[str, str] = dict(raw["inputs"])
        self._batch = batch

    @property
    def prompt(self) -> str:
        """The prompt; it must be one of the params."""
        return str(self.params["prompt"])

    @property
    def scratch(self) -> Path:
        """A directory for files of this batch. It is removed after the batch."""
        return Path(self._batch.scratch)

    def load(self) -> dict[str, Any]:
        """Read the tensors that the row comes with: numpy arrays where numpy is there, else Tensor."""
        for path in self.inputs.values():
            if path.endswith(".safetensors"):
                tensors, _ = read_safetensors(path)
                return {name: _to_numpy(t) for name, t in tensors.items()}
        raise RowError(f"the row comes with no tensors: {sorted(self.inputs)}")

    def torch_generator(self, device: str = "cpu") -> Any:
        """A torch.Generator with the seed of the row."""
        import torch  # type: ignore[import-not-found,unused-ignore]

        if self.seed is None:
            raise Fatal("the row has no seed: add seed to params")
        return torch.Generator(device).manual_seed(self.seed)

    def progress(self, step: int, of: int) -> None:
        """Tell how far the row is. Raises Cancelled where nobody wants it any more."""
        self._batch.say({"type": "progress", "batch": self._batch.number, "key": self.key, "step": step, "of": of})
        self._batch.check()

    def on_step_end(self, pipe: Any, step: int, timestep: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
        """callback_on_step_end of diffusers."""
        self.progress(step + 1, int(getattr(pipe, "num_timesteps", 0) or 0))
        return kwargs


Function = Callable[[list[Row]], Iterable[Any]]


class Stage:
    """A function as a stage. run() serves it; a call calls the function, for tests."""

    def __init__(self, function: Function, takes: str, gives: str) -> None:
        if takes not in TAKES or gives not in GIVES:
            raise ValueError(f"takes {takes!r}, gives {gives!r}: a stage takes one of {TAKES} and gives one of {GIVES}")
        self.function, self.takes, self.gives = function, takes, gives

    def __call__(self, rows: list[Row]) -> Iterable[Any]:
        return self.function(rows)

    def run(self, requests: Optional[BinaryIO] = None, answers: Optional[BinaryIO] = None) -> None:
        """Serve batches until latentbeam has no more. Call it when the model is loaded."""
        if requests is None or answers is None:
            try:
                for fd in (3, 4):
                    os.set_inheritable(fd, False)
                requests, answers = os.fdopen(3, "rb"), os.fdopen(4, "wb", buffering=0)
            except OSError:
                sys.exit("this program is a stage of latentbeam: name it as the command of an exec stage")
        _Server(self, requests, answers).serve()


def stage(takes: str, gives: str) -> Callable[[Function], Stage]:
    """Make a function a Stage. It gets a list of rows and returns or yields one result for each, in their order."""
    return lambda function: Stage(function, takes, gives)


class _Server:
    def __init__(self, what: Stage, requests: BinaryIO, answers: BinaryIO) -> None:
        self.stage, self.requests, self.answers = what, requests, answers
        self.lock = threading.Lock()
        self.arrived = threading.Condition()
        self.queue: list[Optional[dict[str, Any]]] = []
        self.cancelled: set[int] = set()

    def say(self, message: Mapping[str, Any]) -> None:
        line = json.dumps(message).encode() + b"\n"
        with self.lock:
            while line:  # the file is not buffered: a write may take a part
                line = line[self.answers.write(line):]

    def serve(self) -> None:
        self.say({"v": PROTOCOL, "type": "hello", "takes": self.stage.takes, "gives": self.stage.gives,
                  "heartbeat": HEARTBEAT})
        threading.Thread(target=self.listen, daemon=True).start()
        threading.Thread(target=self.beat, daemon=True).start()
        while True:
            with self.arrived:
                self.arrived.wait_for(lambda: bool(self.queue))
                request = self.queue.pop(0)
            if request is None:
                return
            _Batch(self, request).run()

    def listen(self) -> None:
        for line in self.requests:
            request = json.loads(line)
            if request["type"] == "cancel":
                self.cancelled.add(request["batch"])
            elif request["type"] == "batch":
                self.put(request)
        self.put(None)

    def put(self, request: Optional[dict[str, Any]]) -> None:
        with self.arrived:
            self.queue.append(request)
            self.arrived.notify()

    def beat(self) -> None:
        while True:
            time.sleep(HEARTBEAT)
            try:
                self.say({"type": "heartbeat"})
            except OSError:
                return


class _Batch:
    def __init__(self, server: _Server, request: Mapping[str, Any]) -> None:
        self.server, self.number, self.scratch = server, int(request["batch"]), str(request["scratch"])
        self.rows = [Row(raw, self) for raw in request["rows"]]
        self.say = server.say

    def check(self) -> None:
        if self.number in self.server.cancelled:
            raise Cancelled()

    def run(self) -> None:
        done = 0
        try:
            results = self.server.stage.function(list(self.rows))
            for row, result in zip(self.rows, results if results is not None else ()):
                try:
                    self.answer(row, result)
                except RowError as e:
                    self.error(row, "row", e)
                done += 1
                self.check()
            for row in self.rows[done:]:
                self.error(row, "row", RowError("the function gave fewer results than rows"))
        except Cancelled:
            pass
        except BaseException as e:  # whatever it is, the rows get their answers
            if not isinstance(e, RowError):
                traceback.print_exc()
            for row in self.rows[done:]:
                self.error(row, _class_of(e), e)
            if isinstance(e, (KeyboardInterrupt, SystemExit)):
                raise
        self.say({"type": "done", "batch": self.number})
        sys.stdout.flush()

    def error(self, row: Row, kind: str, e: BaseException) -> None:
        text = str(e)
        if not isinstance(e, (RowError, Retry, Fatal)):
            text = f"{type(e).__name__}: {text}"
        self.say({"type": "error", "batch": self.number, "key": row.key, "class": kind, "message": text[:4000]})

    def answer(self, row: Row, result: Any) -> None:
        if isinstance(result, RowError):
            raise result
        if not isinstance(result, Result):
            result = Result(result)
        message: dict[str, Any] = {"type": "result", "batch": self.number, "key": row.key}
        if result.output is not None:
            gives = self.server.stage.gives
            message["outputs"] = {gives: _write(gives, result.output, str(Path(self.scratch) / row.key))}
            if result.poster is not None:
                message["outputs"]["poster"] = os.path.abspath(result.poster)
        if result.readings:
            message["readings"] = {str(k): str(v) for k, v in result.readings.items()}
        self.say(message)


def _class_of(e: BaseException) -> str:
    if isinstance(e, MemoryError) or type(e).__name__ == "OutOfMemoryError":
        return "memory"
    return "retry" if isinstance(e, Retry) else "fatal" if isinstance(e, Fatal) else "row"


# What a function returns becomes a file.


def _write(kind: str, value: Any, base: str) -> str:
    if isinstance(value, Path) or isinstance(value, str) and kind != "prompt":
        return os.path.abspath(value)
    if kind == "prompt":
        if not isinstance(value, str):
            raise RowError(f"a stage that gives prompt returns a text, not {type(value).__name__}")
        Path(base + ".txt").write_text(value, encoding="utf-8")
        return base + ".txt"
    if kind in ("video", "media"):
        if not isinstance(value, bytes):
            raise RowError(f"a stage that gives {kind} returns a path or bytes, not {type(value).__name__}"
                           + ("; give frames and let encode_video make the file" if kind == "video" else ""))
        name = base + (".png" if value.startswith(b"\x89PNG") else ".mp4")
        Path(name).write_bytes(value)
        return name
    metadata: dict[str, str] = {}
    if kind == "latents" and isinstance(value, Latents):
        if value.scale is not None:
            metadata["latent_scale"] = repr(float(value.scale))
        value = value.value
    name = {"text": "embedding", "latents": "latents", "frames": "frames"}[kind]
    if kind == "text" and isinstance(value, Mapping):
        tensors = {str(k): _floats(v) for k, v in value.items()}
    elif kind == "frames":
        tensors = {name: _frames(value)}
    else:
        tensors = {name: _floats(value)}
    write_safetensors(base + ".safetensors", tensors, metadata)
    return base + ".safetensors"


def _array(value: Any) -> Any:
    """A numpy array of an array, a torch tensor, or a PIL image."""
    import numpy

    if hasattr(value, "detach"):
        value = value.detach().to("cpu")
        if str(value.dtype) == "torch.bfloat16":
            value = value.float()
        return value.numpy()
    if hasattr(value, "convert") and hasattr(value, "getbands"):
        value = value.convert("RGB")
    return numpy.asarray(value)


def _floats(value: Any) -> Tensor:
    if isinstance(value, Tensor):
        return value
    import numpy

    a = numpy.ascontiguousarray(_array(value), dtype="<f4")
    return Tensor("F32", a.shape, a.tobytes())


def _frames(value: Any) -> Tensor:
    if isinstance(value, Tensor):
        return value
    import numpy

    a = numpy.stack([_array(v) for v in value]) if isinstance(value, (list, tuple)) else _array(value)
    if a.dtype.kind == "f":
        if not numpy.isfinite(a).all():
            raise RowError("the frames hold values that are not finite")
        a = (a.clip(0, 1) * 255 + 0.5).astype("u1")
    if a.dtype != numpy.uint8 or a.ndim != 4 or a.shape[3] != 3:
        raise RowError(f"frames are {a.dtype} {a.shape}: (frames, height, width, 3) of bytes or floats is wanted")
    return Tensor("U8", a.shape, numpy.ascontiguousarray(a).tobytes())


_NUMPY = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "U8": "u1"}


def _to_numpy(t: Tensor) -> Any:
    try:
        import numpy
    except ImportError:
        return t
    return numpy.frombuffer(t.data, _NUMPY[t.dtype]).reshape(t.shape).copy()  # torch wants it writable


def write_safetensors(path: Union[str, Path], tensors: Mapping[str, Tensor], metadata: Mapping[str, str] = {}) -> None:
    """Write tensors as a safetensors file."""
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    at = 0
    for name, t in tensors.items():
        header[name] = {"dtype": t.dtype, "shape": [int(n) for n in t.shape], "data_offsets": [at, at + len(t.data)]}
        at += len(t.data)
    text = json.dumps(header).encode()
    text += b" " * (-(8 + len(text)) % 64)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)))
        f.write(text)
        for t in tensors.values():
            f.write(t.data)


def read_safetensors(path: Union[str, Path]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read the tensors and the metadata of a safetensors file."""
    with open(path, "rb") as f:
        (n,) = struct.unpack("<Q", f.read(8))
        header = json.loads(f.read(n))
        body = f.read()
    metadata = header.pop("__metadata__", {})
    return {name: Tensor(t["dtype"], t["shape"], body[slice(*t["data_offsets"])])
            for name, t in header.items()}, metadata
