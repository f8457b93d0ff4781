"""The program latentbeam: where it is, how it is called, what its exit codes mean."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Mapping, Optional, Sequence


class Error(Exception):
    """The program ended with an error. `code` is its exit code, `message` its own words."""

    def __init__(self, message: str, code: int = 3) -> None:
        super().__init__(message)
        self.message = message
        self.code = code


class InvalidJob(Error):
    """The job, its input or the call is wrong (exit code 2): nothing was computed."""


class FailedRows(Error):
    """The job is complete, but rows failed (exit code 1). `output` has the others, and the failures table says why."""

    def __init__(self, message: str, code: int = 1, output: Optional[object] = None) -> None:
        super().__init__(message, code)
        self.output = output


class TryAgainLater(Error):
    """Something outside failed for now (exit code 75): the same call goes on where this one ended."""


class Interrupted(Error):
    """The job was asked to end (exit code 130). What was finished is kept: the same call goes on."""


class Warning(UserWarning):  # noqa: A001 (latentbeam.Warning)
    """What the program warns of."""


_CLASSES: Mapping[int, type[Error]] = {1: FailedRows, 2: InvalidJob, 75: TryAgainLater, 130: Interrupted,
                                       -signal.SIGINT: Interrupted, -signal.SIGTERM: Interrupted}


def error_of(code: int, stderr: str) -> Error:
    """The exception of an exit code; a negative one is a signal that ended the program."""
    text = said(stderr)[0]
    if not text:
        text = f"signal {-code} ended latentbeam" if code < 0 else f"latentbeam ended with exit code {code}"
    return _CLASSES.get(code, Error)(text, code)


def said(stderr: str) -> tuple[str, list[str]]:
    """The error and the warnings of what the program printed on stderr."""
    errors, warnings = [], []  # type: list[str], list[str]
    for part in re.split(r"^latentbeam: ", stderr, flags=re.MULTILINE):
        text = re.sub(r"^interrupt: .*\n?", "", part, flags=re.MULTILINE).strip()  # for a terminal
        if text.startswith("warning: "):
            warnings.append(text[len("warning: "):])
        elif text:
            errors.append(text)
    return "\n".join(errors), warnings


def program() -> str:
    """The path of the program: LATENTBEAM_BINARY, else the one of the wheel, else the one on PATH."""
    named = os.environ.get("LATENTBEAM_BINARY")
    if named:
        if not Path(named).is_file():
            raise Error(f"LATENTBEAM_BINARY is {named}, and no file is there", 2)
        return named
    name = "latentbeam.exe" if sys.platform == "win32" else "latentbeam"
    inside = Path(__file__).parent / "bin" / name
    if inside.is_file():
        return str(inside)
    found = shutil.which(name)
    if found and Path(found).resolve() != Path(sys.argv[0]).resolve():
        return found
    raise Error("this installation holds no program for this platform: install the wheel of the platform, or build the program "
                "with Go (`make build`) and name it in LATENTBEAM_BINARY", 2)


def call(args: Sequence[str], cwd: Optional[str] = None, env: Optional[Mapping[str, str]] = None,
         accept: Sequence[int] = (0,)) -> "subprocess.CompletedProcess[str]":
    """Run the program and return what it printed. Exit codes that are not accepted raise the exception of their class."""
    done = subprocess.run([program(), *args], cwd=cwd, env=None if env is None else {**os.environ, **env},
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, encoding="utf-8", errors="replace")
    if done.returncode not in accept:
        raise error_of(done.returncode, done.stderr)
    return done


def version() -> str:
    """The version of the program, with the commit that it was built from."""
    return call(["version"]).stdout.strip().removeprefix("latentbeam ")


def main() -> None:
    """The command `latentbeam` of an installed wheel: the program takes this process's place."""
    try:
        path = program()
    except Error as e:
        print(f"latentbeam: {e}", file=sys.stderr)
        sys.exit(e.code)
    args = [path, *sys.argv[1:]]
    if sys.platform == "win32":
        sys.exit(subprocess.run(args).returncode)
    os.execv(path, args)
