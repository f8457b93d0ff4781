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
from typing import Any, BinaryIO, Callable, Iterable, Iterator, Mapping, Optional, Sequence, Union

__all__ = ["Cancelled", "Fatal", "Latents", "Result", "Retry", "Row", "RowError", "Stage", "Tensor",
           "read_safetensors", "stage", "write_safetensors"]

PROTOCOL = 1
TAKES = ("prompt", "text", "media", "latents", "frames", "video")
GIVES = (*TAKES, "readings")  # readings: the stage only looks, and its results have nothing else
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


class _Misfit(Exception):
    """The results do not belong to the rows."""


class _Missing(KeyError):
    def __str__(self) -> str:
        return f"{self.args[0]} is not among params of the stage: add it to params in the job file (a null of the table is not sent)"


class _Params(dict[str, Any]):
    def __missing__(self, name: str) -> Any:
        raise _Missing(name)


class Row:
    """One row of a batch."""

    def __init__(self, raw: Mapping[str, Any], batch: "_Batch") -> None:
        self.id: str = raw["id"]
        self.key: str = raw["key"]
        self.params: dict[str, Any] = _Params(raw["params"])
        self.inputs: dict[str, str] = dict(raw["inputs"])
        self._batch = batch

    @property
    def seed(self) -> int:
        """The seed of the row; it must be one of the params."""
        return int(self.params["seed"])

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

        return torch.Generator(device).manual_seed(self.seed)

    def progress(self, step: int, of: int) -> None:
        """Tell how far the row is. Raises Cancelled where nobody wants it any more."""
        self._batch.say({"type": "progress", "batch": self._batch.number, "key": self.key, "step": step, "of": of})
        self._batch.check()

    def on_step_end(self, pipe: Any, step: int, timestep: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
        """callback_on_step_end of diffusers."""
        self.progress(step + 1, int(getattr(pipe, "num_timesteps", 0) or 0))
        return kwargs


class _Rows(list[Row]):
    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"no {name!r}: the function gets a list of rows, so write `for row in rows:` and yield a result for each")


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
        try:
            self.some(self.rows)
        except Cancelled:
            pass
        self.say({"type": "done", "batch": self.number})
        sys.stdout.flush()

    def some(self, rows: list[Row]) -> None:
        """Give rows to the function. Where it raises for several, each that has no result is given alone."""
        answers: list[dict[str, Any]] = []  # they wait: results that are too many or too few belong to no row
        alone: list[Row] = []
        try:
            for result in _each(self.server.stage.function(_Rows(rows)), self.server.stage.gives, len(rows)):
                answers.append(self.answer(rows[len(answers)], result))
                self.check()
        except Cancelled:
            raise
        except Exception as e:
            if isinstance(e, _Misfit):
                answers = []
            kind = _class_of(e)
            if kind == "row" and len(rows) > 1:
                alone = rows[len(answers):]
                print(f"{type(e).__name__}: {e}{_place(e)}; tried alone:", ", ".join(row.id for row in alone), file=sys.stderr)
            else:
                if not isinstance(e, (RowError, _Misfit)):
                    traceback.print_exc()
                answers += [self.error(row, kind, e) for row in rows[len(answers):]]
        for answer in answers:
            self.say(answer)
        for row in alone:
            self.some([row])

    def error(self, row: Row, kind: str, e: BaseException) -> dict[str, Any]:
        text = str(e)
        if not isinstance(e, (RowError, Retry, Fatal, _Misfit, _Missing)):
            text = f"{type(e).__name__}: {text}"
        if not isinstance(e, (RowError, Retry, Fatal, _Misfit)):
            text += _place(e)
        return {"type": "error", "batch": self.number, "key": row.key, "class": kind, "message": text[:4000]}

    def answer(self, row: Row, result: Any) -> dict[str, Any]:
        try:
            return self.result(row, result)
        except MemoryError:
            raise
        except OSError as e:
            raise Retry(f"the result cannot be written: {e}") from e
        except RowError as e:
            return self.error(row, "row", e)
        except Exception as e:
            traceback.print_exc()
            return self.error(row, "row", RowError(f"the result cannot be used: {type(e).__name__}: {e}"))

    def result(self, row: Row, result: Any) -> dict[str, Any]:
        if isinstance(result, RowError):
            raise result
        if not isinstance(result, Result):
            result = Result(result)
        takes, gives = self.server.stage.takes, self.server.stage.gives
        message: dict[str, Any] = {"type": "result", "batch": self.number, "key": row.key}
        if result.output is not None:
            message["outputs"] = {gives: _write(gives, result.output, str(Path(self.scratch) / row.key))}
            if result.poster is not None:
                message["outputs"]["poster"] = os.path.abspath(result.poster)
        elif gives not in (takes, "readings"):
            raise RowError(f"the result is None, {gives} is wanted: yield it, or a RowError where the row cannot be done")
        if result.readings:
            message["readings"] = {str(k): str(v) for k, v in result.readings.items()}
        return message


def _class_of(e: BaseException) -> str:
    if isinstance(e, MemoryError) or type(e).__name__ == "OutOfMemoryError":
        return "memory"
    return "retry" if isinstance(e, Retry) else "fatal" if isinstance(e, Fatal) else "row"


_LIBRARIES = os.path.dirname(os.__file__)


def _place(e: BaseException) -> str:
    """Where in the code of the user an exception comes from: " (generate.py, line 16)"."""
    for frame in reversed(traceback.extract_tb(e.__traceback__)):
        name = frame.filename
        if name != __file__ and not name.startswith((_LIBRARIES, "<")) and "site-packages" not in name:
            return f" ({os.path.basename(name)}, line {frame.lineno})"
    return ""


_AXES = {"frames": 4, "latents": 4, "text": 2}  # of what one row gives, as an array


def _each(results: Any, gives: str, rows: int) -> Iterator[Any]:
    """Yield one result for each row. Fewer or more raise _Misfit."""
    for_rows = f"for {rows} row{'s'[:rows > 1]}"
    if results is None:
        raise _Misfit(f"the function gave nothing {for_rows}: yield one result for each row, or return a list of them")
    one = isinstance(results, (str, bytes, Path, Mapping, Tensor, Latents, Result, RowError)) or hasattr(results, "getbands")
    if one or getattr(results, "ndim", 0) == _AXES.get(gives, -1) or not isinstance(results, Iterable):
        raise _Misfit(f"the function returned one {type(results).__name__} {for_rows}, not a list with a result for each: "
                      "write yield in place of return, inside the loop over the rows")
    found = 0
    for result in results:
        if found == rows:
            raise _Misfit(f"the function gave more than {found} result{'s'[:found > 1]} {for_rows}: yield one for each row; "
                          "all frames of a row are one result")
        yield result
        found += 1
    if found < rows:
        raise _Misfit(f"the function gave {found} result{'s'[:found != 1]} {for_rows}: yield one for each row; a return inside the "
                      "loop ends it after its first, and a continue needs a yield RowError(...) before it")


# What a function returns becomes a file.


def _write(kind: str, value: Any, base: str) -> str:
    if isinstance(value, Path) or isinstance(value, str) and kind != "prompt":
        if not os.path.exists(value):
            raise RowError(f"the result is {str(value)[:80]!r}, and there is no such file: {kind} or the path of a file is wanted")
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
        low, high = (float(a.min()), float(a.max())) if a.size else (0.0, 0.0)
        if low < -_OVER or high > 1 + _OVER:
            mend = "divide by 255 or use uint8" if high > 2 else "scale or clip them, as by (frames / 2 + 0.5).clip(0, 1)"
            raise RowError(f"frames of floats go from 0 to 1, these from {low:g} to {high:g}: {mend}")
        a = (a.clip(0, 1) * 255 + 0.5).astype("u1")
    if a.dtype != numpy.uint8 or a.ndim != 4 or a.shape[3] != 3:
        mend = ("; one image is frame[None]" if a.ndim == 3 else "; the channels come last" if a.ndim == 4 and a.shape[1] == 3
                else "; .astype('uint8') makes bytes of it" if a.ndim == 4 and a.shape[3] == 3 else "")
        raise RowError(f"frames are {a.dtype} {a.shape}: (frames, height, width, 3) of bytes or floats is wanted{mend}")
    return Tensor("U8", a.shape, numpy.ascontiguousarray(a).tobytes())


_OVER = 0.1  # what floats may go beyond 0 and 1, as those of a decoder do; they are clipped


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
