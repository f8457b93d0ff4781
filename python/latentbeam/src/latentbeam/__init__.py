"""Jobs of offline video diffusion from Python: start them, follow them, read their outputs.

    import latentbeam

    job = latentbeam.Job({"model": "tiny", "input": {"prompts": "prompts.csv"}, "output": {"path": "out/first"}})
    out = job.run()
    print(out.videos.to_pandas())

The work is done by the program `latentbeam`, which the wheel holds; this package starts it and reads what it wrote. The core
needs nothing but Python. Tables need pyarrow, data sets need pyarrow, numpy and torch: `pip install latentbeam[torch]`.
"""

from __future__ import annotations

from ._program import Error, FailedRows, Interrupted, InvalidJob, TryAgainLater, Warning, program, version
from .jobs import Job, Plan, RunningJob
from .outputs import Export, Output, Samples, Table, Videos, open, open_export  # noqa: A004 (latentbeam.open reads as it should)
from . import stage
from ._try import run_stage

for _class in (Error, FailedRows, Interrupted, InvalidJob, TryAgainLater, Warning):
    _class.__module__ = __name__  # as people catch them

__version__ = "0.1.0"
__all__ = ["Error", "Export", "FailedRows", "Interrupted", "InvalidJob", "Job", "Output", "Plan", "RunningJob", "Samples", "Table",
           "TryAgainLater", "Videos", "Warning", "open", "open_export", "program", "run_stage", "stage", "version"]
