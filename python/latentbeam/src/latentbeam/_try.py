"""A way to try a stage on a few rows without a job."""

from __future__ import annotations

import tempfile
from typing import Any, Callable, Iterable, Mapping, Optional, Sequence, Union

from .stage import Row, Stage


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

    `inputs` are the files of each row, as `Row.inputs` has them. Paths that the results name lie in a scratch directory
    that is gone when this returns: arrays are safe, files are not.
    """
    with tempfile.TemporaryDirectory(prefix="latentbeam-") as scratch:
        batch: Any = _Here(scratch)
        batch_rows = [Row({"id": str(p.get("id", i)), "key": f"{i:064x}", "params": dict(p), "inputs": dict(inputs[i] if inputs else {})}, batch)
                      for i, p in enumerate(rows)]
        results = list(function(batch_rows))
    if len(results) != len(batch_rows):
        raise ValueError(f"the stage gave {len(results)} results for {len(batch_rows)} rows: it gives one for each, in their order")
    return results
