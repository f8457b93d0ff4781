"""The notebooks run to their end: in a kernel of Jupyter where it is there, else as scripts."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import latentbeam

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
NEEDS = {"first_ten_minutes": ["pyarrow"], "train": ["pyarrow", "numpy", "torch"]}
SAYS = {"first_ten_minutes": ["p0: a red square moves left on black, motion", "3    15       1", "the row has 3 values and the header 2", "every byte is as it was written"],
        "train": ["9", "loss: ", "4 batches; after two of them 2 are left", "train-hf has the same 32 samples"]}
KERNEL = all(importlib.util.find_spec(name) for name in ("nbclient", "nbformat", "ipykernel"))

try:
    latentbeam.program()
except latentbeam.Error as e:
    raise unittest.SkipTest(f"NOT TESTED: notebooks: {e}") from None


class Notebooks(unittest.TestCase):
    def run_one(self, name: str) -> None:
        missing = [m for m in NEEDS[name] if importlib.util.find_spec(m) is None]
        if missing:
            self.skipTest(f"NOT TESTED: {name}.ipynb: there is no {', '.join(missing)}")
        path = NOTEBOOKS / f"{name}.ipynb"
        with tempfile.TemporaryDirectory() as folder:
            if KERNEL:
                said = self.in_kernel(path, folder)
            else:
                done = subprocess.run([sys.executable, "-W", "ignore", str(NOTEBOOKS / "run.py"), str(path)], cwd=folder, capture_output=True, text=True,
                                      env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
                self.assertEqual(done.returncode, 0, done.stderr)
                said = done.stdout
            for text in SAYS[name]:
                self.assertIn(text, said)

    def in_kernel(self, path: Path, folder: str) -> str:
        """Run a notebook in Jupyter, and return what it shows. A copy with its outputs goes to LATENTBEAM_NOTEBOOKS, to be looked at."""
        import nbformat
        from nbclient import NotebookClient

        os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
        book = nbformat.read(path, as_version=4)
        NotebookClient(book, timeout=300, resources={"metadata": {"path": folder}}).execute()
        if os.environ.get("LATENTBEAM_NOTEBOOKS"):
            nbformat.write(book, Path(os.environ["LATENTBEAM_NOTEBOOKS"], path.name))
        outputs = [o for c in book.cells if c.cell_type == "code" for o in c.outputs]
        bars = [o["data"]["text/plain"] for o in outputs if o.output_type == "display_data" and "text/plain" in o["data"]]
        self.assertTrue(any(bar.startswith("[####") for bar in bars), bars)  # the bar is one display that changes
        shown = [o.get("text") or o["data"].get("text/html", "") + o["data"].get("text/plain", "") for o in outputs]
        if path.stem == "first_ten_minutes":
            self.assertEqual("".join(shown).count("<video src="), 6 + 4)
        return "\n".join(shown)

    def test_first_ten_minutes(self) -> None:
        self.run_one("first_ten_minutes")

    def test_train(self) -> None:
        self.run_one("train")

    def test_no_outputs(self) -> None:
        """The notebooks lie in the repository without outputs."""
        for name in NEEDS:
            book = json.loads((NOTEBOOKS / f"{name}.ipynb").read_text())
            self.assertFalse([c for c in book["cells"] if c.get("outputs")], name)


if __name__ == "__main__":
    unittest.main()
