"""A way to try a stage on a few rows without a job."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, Callable, Iterable, Mapping, Optional, Sequence, Union

from . import stage as _stage
from .stage import Result, Row, RowError, Stage


class _Here:
    """Stands where a batch of the program would be."""

    number = 0

    def __init__(self, scratch: str) -> None:
        self.scratch = scratch

    def say(self, message: Mapping[str, Any]) -> None:
        """Progress goes nowhere."""

    def check(self) -> None:
        """Nobody cancels."""


def run_stage(function: Union[Stage, Callable[[list[Row]], Iterable[Any]]], rows: Iterable[Mapping[str, Any]], *,
              inputs: Optional[Sequence[Mapping[str, str]]] = None) -> list[Any]:
    """Call a stage with rows of parameters, without a job, and return what it gives for each row.

        latentbeam.run_stage(shout, [{"prompt": "a red square"}, {"prompt": "a blue disc"}])

    `inputs` are the files of each row, as `Row.inputs` has them, such as {"media": "clip.mp4"}. What a stage gives is checked as a
    job would check it; a RowError, given or of that check, stands in the place of its row, and other exceptions are raised. Paths
    that the results name lie in a scratch directory that is gone when this returns: arrays are safe, files are not.
    """
    rows = [dict(r) for r in rows]
    if inputs is not None and len(inputs) != len(rows):
        raise ValueError(f"inputs are of {len(inputs)} rows, there are {len(rows)}")
    with tempfile.TemporaryDirectory(prefix="latentbeam-") as scratch:
        batch: Any = _Here(scratch)
        batch_rows = [Row({"id": str(p.get("id", i)), "key": f"{i:064x}", "params": p, "inputs": dict(inputs[i] if inputs else {})}, batch)
                      for i, p in enumerate(rows)]
        results = list(function(batch_rows))
        if len(results) != len(batch_rows):
            raise ValueError(f"the stage gave {len(results)} results for {len(batch_rows)} rows: it gives one for each, in their order")
        if isinstance(function, Stage):
            results = [_checked(function, result, Path(scratch, row.key)) for row, result in zip(batch_rows, results)]
    return results


def _checked(of: Stage, result: Any, base: Path) -> Any:
    """The result, or the RowError that a job would record."""
    value = result.output if isinstance(result, Result) else result
    if isinstance(result, RowError):
        return result
    if value is None:
        return result if of.gives in (of.takes, "readings") else RowError(f"the result is None, {of.gives} is wanted: yield it, or a RowError")
    try:
        _stage._write(of.gives, value, str(base))
    except RowError as e:
        return e
    return result
