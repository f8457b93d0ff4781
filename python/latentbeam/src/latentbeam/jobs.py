"""Jobs: what the YAML file says, from Python."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Mapping, Optional, Sequence, TextIO, Union

from ._program import Error, FailedRows, InvalidJob, Warning, call, error_of, program, said
from .outputs import Output
from .outputs import open as open_output


@dataclass(frozen=True, repr=False)
class Plan:
    """What a run would do. `text` is what `run --dry-run` prints; the numbers count rows."""

    rows: int
    new: int
    done: int
    failed: int
    stale: int
    warnings: Sequence[str]
    notes: Sequence[str]
    seconds: Optional[float]
    raw: Mapping[str, Any]
    text: str

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__  # a notebook shows it


class Job:
    """A job: a dict as the YAML file would have it, the text of one, or the path of one.

    Paths in a dict or a text are relative to `directory` (default: the current one). `set` overrides keys, as --set does:
    `{"defaults.seed": 7}`. `output` overrides output.path. Nothing is computed before run or start.
    """

    def __init__(self, job: Union[Mapping[str, Any], str, "os.PathLike[str]"], *, output: Optional[str] = None,
                 set: Optional[Mapping[str, Any]] = None, directory: Optional[Union[str, "os.PathLike[str]"]] = None) -> None:
        self.directory = Path(directory) if directory is not None else Path.cwd()
        self.output = output
        self.set = dict(set or {})
        self._text: Optional[str] = None
        self._file: Optional[Path] = None
        if isinstance(job, Mapping):
            # JSON is YAML; a version is what the file would have to say.
            self._text = json.dumps({"version": 1, **job}, ensure_ascii=False, indent=1, default=_plain)
        elif isinstance(job, str) and ("\n" in job or ":" in job and not Path(job).exists() and not job.endswith((".yaml", ".yml"))):
            self._text = job
        else:
            self._file = Path(job)
            if not self._file.is_file():
                raise InvalidJob(f"{job} is no file: a job is a dict, the text of a YAML file, or the path of one", 2)
            if directory is None:
                self.directory = self._file.resolve().parent
        if not self.directory.is_dir():
            raise InvalidJob(f"the directory of the job, {self.directory}, is not there", 2)

    def plan(self, limit: int = 0) -> Plan:
        """What a run would do, without doing it. An invalid job raises InvalidJob with the program's message."""
        written = self._written()
        with written as (file, args):
            try:
                done = call(["run", file, "--dry-run", "--json", *args, *_limit(limit)], cwd=str(self.directory), accept=(0, 1))
            except Error as e:
                raise written.named(e) from None
        raw = json.loads(done.stdout)
        return Plan(rows=raw["rows"], new=raw["new"], done=raw["done"], failed=raw["failed"], stale=raw["stale"],
                    warnings=raw.get("warnings") or [], notes=raw.get("notes") or [], seconds=raw.get("seconds"),
                    raw=raw, text=raw.get("text", ""))

    def run(self, *, progress: Union[bool, Callable[[Mapping[str, Any]], None]] = False, limit: int = 0,
            allow_failed: bool = False, args: Sequence[str] = ()) -> Output:
        """Run the job and return its output. Rows that are done are not computed again.

        progress=True shows a bar in a notebook or on a terminal; a function gets the facts of `status --json` every second.
        Ctrl-C and SIGTERM drain: batches at work are finished, and Interrupted is raised; a second Ctrl-C ends it at once. The
        next run goes on. What the program warns of are Python's warnings. A job with failed rows raises FailedRows (its `output` has the others) unless allow_failed is set. `args` are further flags of `run`.
        """
        show = _shown(progress)
        with _Stops(quiet=progress is not False) as stops:
            stops.running = running = self.start(limit=limit, args=args)
            if stops.asked:
                running.stop()
            pause, facts = 0.1, {}  # type: float, dict[str, Any]
            while not self._over(running, pause, stops):
                if show:
                    facts = running.status() or facts  # a Ctrl-C of a terminal ends the program that was asked, too
                    show({**facts, "stopping": stops.asked} if stops.asked else facts)
                pause = min(running._pause(), 1.5 * pause)
        if show:
            show(running.status() or {})
            getattr(show, "close", lambda: None)()
        return running.result(allow_failed=allow_failed)

    @staticmethod
    def _over(running: "RunningJob", seconds: float, stops: "_Stops") -> bool:
        """Wait so long for the end of a job, or until somebody asks it to end, and say whether it is over."""
        end, asked = time.monotonic() + seconds, stops.asked
        while time.monotonic() < end and stops.asked == asked:
            if running._wait(0.05):
                return True
        return running._wait(0)

    def start(self, *, limit: int = 0, args: Sequence[str] = ()) -> "RunningJob":
        """Start the job without waiting for it."""
        written = self._written()
        file, settings = written.__enter__()
        try:
            return RunningJob([program(), "run", file, "--json", *settings, *_limit(limit), *args], self.directory, written)
        except BaseException:
            written.__exit__(None, None, None)
            raise

    def _written(self) -> "_Written":
        return _Written(self)


def _plain(value: Any) -> Any:
    """Paths, and numbers of numpy, as JSON has them."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if callable(getattr(value, "tolist", None)):
        return value.tolist()
    raise InvalidJob(f"a job has texts, numbers, booleans, lists and dicts: {type(value).__name__} is none of them", 2)


class _Stops:
    """While it is open, Ctrl-C and SIGTERM ask a job to end, and raise nothing. Signals are those of the main thread."""

    def __init__(self, quiet: bool) -> None:
        self.running: Optional[RunningJob] = None
        self.asked = 0
        self.quiet = quiet
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "_Stops":
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                before = signal.getsignal(number)
                if before in (signal.SIG_DFL, signal.default_int_handler):  # others have their own reasons
                    self._before[number] = before
                    signal.signal(number, self._ask)
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
        if self.running is not None and not self.running.done():  # a fault of a progress function
            self.running.stop()

    def _ask(self, number: int, frame: Any) -> None:
        self.asked += 1
        if not self.quiet:
            os.write(2, b"latentbeam: stopping: batches at work are finished first; Ctrl-C again ends it at once\n")
        if self.running is not None:
            self.running.stop()


def _limit(n: int) -> list[str]:
    return ["--limit", str(n)] if n else []


def _first_failures(output: Output, limit: int = 3) -> str:
    """The first rows of the failures table as lines, where it can be read."""
    text = ""
    try:
        table = output.failures
        for number, row in enumerate(table):
            if number == limit:
                return f"{text}\n  and {len(table) - limit} more in output.failures"
            text += f"\n  {row['id']}: {row['message']}"
    except (ImportError, OSError, Error):  # the program's own message is enough
        return ""
    return text


class _Written:
    """The job as a file for as long as the program needs it, and its settings as flags."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.name: Optional[str] = None

    def __enter__(self) -> tuple[str, list[str]]:
        job, args = self.job, []
        for key, value in job.set.items():
            args += ["--set", f"{key}={json.dumps(value)}"]
        if job.output is not None:
            args += ["--output", str(job.output)]
        if job._file is not None:
            return str(job._file.resolve()), args
        # A file of the job's own directory, because paths in it are relative to the file.
        try:
            handle, name = tempfile.mkstemp(prefix=".latentbeam-", suffix=".yaml", dir=job.directory)
        except OSError as e:
            raise Error(f"the job cannot be written into {job.directory}: {e}", 2) from e
        with os.fdopen(handle, "w", encoding="utf-8") as f:
            f.write(job._text or "")
        self.name = name
        self._remove = weakref.finalize(self, Path(name).unlink, missing_ok=True)  # also where nobody waits for the end
        return name, args

    def named(self, error: Error) -> Error:
        """The error, which names the job and not the file that nobody else has seen."""
        if self.name is not None:
            for name in (self.name, Path(self.name).name):
                error.message = error.message.replace(name, "the job")
            error.args = (error.message,)
        return error

    def __exit__(self, *_: object) -> None:
        if self.name is not None:
            self._remove()


class RunningJob:
    """A job that is at work in a process of its own."""

    def __init__(self, args: Sequence[str], directory: Path, written: _Written) -> None:
        self._written = written
        self._files = tempfile.TemporaryDirectory(prefix="latentbeam-")
        self._ended: Optional[tuple[str, str]] = None  # what it printed, once it is over
        flags = {"creationflags": getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)} if sys.platform == "win32" else {
            "start_new_session": True}  # Ctrl-C of a notebook or terminal reaches Python alone, which drains
        with open(self._path("stdout"), "wb") as stdout, open(self._path("stderr"), "wb") as stderr:
            self._process = subprocess.Popen(args, cwd=directory, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, **flags)
        self._address: Optional[str] = None
        self._warned = False

    @property
    def pid(self) -> int:
        """The process of the job."""
        return int(self._process.pid)

    def done(self) -> bool:
        """Whether the job has ended."""
        return self._process.poll() is not None

    def stop(self) -> None:
        """Ask the job to end: batches at work are finished first. A second call ends it at once."""
        if not self.done():
            self._process.send_signal(getattr(signal, "CTRL_BREAK_EVENT", signal.SIGTERM) if sys.platform == "win32" else signal.SIGINT)

    @property
    def output(self) -> Optional[Output]:
        """The output, which can be read while the job is at work. None before it is there."""
        address = self._output()
        try:
            return open_output(address) if address is not None else None
        except Error:
            return None

    def status(self) -> Optional[dict[str, Any]]:
        """The facts of `status --json`: rows, rates, what is at work. None before the output is there."""
        address = self._output()
        if address is None:
            return None
        try:
            done = call(["status", address, "--json"])
        except Error:
            return None
        return json.loads(done.stdout.splitlines()[-1]) if done.stdout.strip() else None

    def wait(self, timeout: Optional[float] = None) -> Output:
        """Wait for the end and return the output, or raise as run does. TimeoutError when it is not over in time."""
        if not self._wait(timeout):
            raise TimeoutError(f"the job is still at work after {timeout} s")
        return self.result()

    def result(self, *, allow_failed: bool = False) -> Output:
        """The output of a job that has ended, or the exception of its exit code."""
        if not self._wait(0):
            raise Error("the job is still at work: wait for it")
        code = int(self._process.returncode)
        address = self._output()
        if not self._warned:
            self._warned = True
            for text in said(self._text("stderr"))[1]:
                warnings.warn(text, Warning, stacklevel=3)
        if code == 0 or code == 1 and allow_failed:
            if address is None:
                raise Error("the job does not say where its output is: " + self._text("stdout"))
            return open_output(address)
        error = self._written.named(error_of(code, self._text("stderr")))
        if isinstance(error, FailedRows) and address is not None:
            error.output = open_output(address)
            error.message += _first_failures(error.output) + "\nrun(allow_failed=True) returns the output all the same"
            error.args = (error.message,)
        raise error

    def _wait(self, timeout: Optional[float]) -> bool:
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            return False
        if self._ended is None:
            self._ended = self._text("stdout"), self._text("stderr")
            self._written.__exit__(None, None, None)
            self._files.cleanup()
        return True

    def _output(self) -> Optional[str]:
        """The output's address, which the program prints as the first line once it has opened the job."""
        if self._address is None:
            for line in self._text("stdout").splitlines(keepends=True):
                if line.endswith("\n"):
                    event = json.loads(line)
                    if event.get("output"):
                        self._address = str(event["output"])
                        break
        return self._address

    def _pause(self) -> float:
        """Seconds between two looks at the job: a bucket is asked less often."""
        return 5.0 if "://" in (self._address or "") else 1.0

    def _path(self, name: str) -> Path:
        return Path(self._files.name, name)

    def _text(self, name: str) -> str:
        """What the program printed so far, on stdout or stderr."""
        if self._ended is not None:
            return self._ended[0 if name == "stdout" else 1]
        return self._path(name).read_text(encoding="utf-8", errors="replace")


class _Bar:
    """One line that says how far the job is: in a notebook it is replaced, on a terminal overwritten, in a log printed rarely."""

    def __init__(self, out: TextIO) -> None:
        self.out = out
        self.terminal = out.isatty()
        self.last = 0.0
        self.line = self.printed = ""
        self.display: Any = None
        try:
            from IPython import get_ipython  # type: ignore[import-not-found,unused-ignore]
            from IPython.display import display  # type: ignore[import-not-found,unused-ignore]

            shell = get_ipython()
            if shell is not None and "IPKernelApp" in shell.config:
                self.display = display({"text/plain": ""}, raw=True, display_id=True)  # type: ignore[no-untyped-call,unused-ignore]
        except ImportError:
            pass

    def __call__(self, facts: Mapping[str, Any]) -> None:
        line = _line(facts)
        if self.display is not None:
            self.display.update({"text/plain": line}, raw=True)
        elif self.terminal:
            self.out.write("\r" + line + " " * max(0, len(self.line) - len(line)))
            self.out.flush()
        elif line != self.line and time.monotonic() - self.last >= 10:
            self.out.write(line + "\n")
            self.last, self.printed = time.monotonic(), line
        self.line = line

    def close(self) -> None:
        if self.display is None and self.line and (self.terminal or self.line != self.printed):
            self.out.write("\n" if self.terminal else self.line + "\n")


def _line(facts: Mapping[str, Any]) -> str:
    rows = facts.get("rows") or {}
    done, failed, before = rows.get("done", 0), rows.get("failed", 0), rows.get("skipped", 0)
    total = max(rows.get("total", 0), done + failed)
    if facts.get("stopping"):
        at_work = sum(int(b.get("count", 0)) for p in facts.get("processes") or [] for b in p.get("batches") or [])
        what = f"{at_work} rows at work are finished first" if at_work > 1 else "what is at work is finished first"
        return f"stopping after {done + failed}/{total} rows: {what}; Ctrl-C again ends it at once"
    if not total:
        return f"{before} rows, all done before" if before else "latentbeam: opening the model and reading the input"
    width = 24
    full = int(width * min(1.0, (done + failed) / total))
    eta = facts.get("eta_s")
    rest = f", about {eta:.0f} s" if isinstance(eta, (int, float)) and eta > 0 else ""
    bad = (f", {failed} failed" if failed else "") + (f", {before} done before" if before else "")
    return f"[{'#' * full}{'.' * (width - full)}] {done + failed}/{total} rows{bad}{rest}"


def _shown(progress: Union[bool, Callable[[Mapping[str, Any]], None]]) -> Optional[Callable[[Mapping[str, Any]], None]]:
    if progress is True:
        return _Bar(sys.stderr)
    return progress if callable(progress) else None
