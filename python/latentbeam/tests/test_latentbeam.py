"""Tests of the package with a program: LATENTBEAM_BINARY=./latentbeam python -m unittest discover python/latentbeam/tests.

Without the program, pyarrow or torch the tests that need them are skipped, and say so.
"""

from __future__ import annotations

import importlib.util
import tempfile
import time
import unittest
from pathlib import Path

import latentbeam

try:
    latentbeam.program()
    PROGRAM = ""
except latentbeam.Error as e:
    PROGRAM = str(e)

PYARROW = "" if importlib.util.find_spec("pyarrow") else "pyarrow is not installed"
TORCH = "" if importlib.util.find_spec("torch") else "torch is not installed"

JOB = {"model": "tiny", "input": {"prompts": "p.csv"},
       "defaults": {"height": 32, "width": 32, "num_frames": 4, "num_inference_steps": 2},
       "output": {"path": "out", "write": ["video", "latents", "embeddings"]}}


class WithoutProgram(unittest.TestCase):
    def test_run_stage(self) -> None:
        @latentbeam.stage.stage(takes="prompt", gives="prompt")
        def shout(rows):
            for row in rows:
                yield row.prompt.upper()

        self.assertEqual(latentbeam.run_stage(shout, [{"prompt": "a"}, {"prompt": "b"}]), ["A", "B"])

    def test_run_stage_counts(self) -> None:
        with self.assertRaisesRegex(ValueError, "1 results for 2 rows"):
            latentbeam.run_stage(lambda rows: ["x"], [{}, {}])


@unittest.skipIf(PROGRAM, PROGRAM)
class Jobs(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = Path(folder.name)
        (self.dir / "p.csv").write_text("id,prompt\na,a red square\nb,a blue circle\nc,a green triangle\n")

    def job(self, **changes):
        return latentbeam.Job({**JOB, **changes}, directory=self.dir)

    def test_plan(self) -> None:
        plan = self.job().plan()
        self.assertEqual((plan.rows, plan.new, plan.done), (3, 3, 0))
        self.assertIn("shape", str(plan))
        self.assertFalse((self.dir / "out").exists())

    def test_invalid(self) -> None:
        with self.assertRaises(latentbeam.InvalidJob) as caught:
            self.job(model="no-such-model").plan()
        self.assertEqual(caught.exception.code, 2)
        self.assertIn("no-such-model", caught.exception.message)
        self.assertEqual(list(self.dir.glob(".latentbeam-*")), [], "the job's file is removed")

    @unittest.skipIf(PYARROW, PYARROW)
    def test_run_and_read(self) -> None:
        seen = []
        out = self.job().run(progress=seen.append)
        self.assertEqual(len(out.videos), 3)
        self.assertEqual([r["id"] for r in out.videos.select("id")], ["a", "b", "c"])
        self.assertEqual([r["id"] for r in out.videos.where("prompt = 'a blue circle' and height > 16")], ["b"])
        self.assertEqual(len(out.videos.where("id in ('a', 'c') and not id = 'a'")), 1)
        self.assertEqual(out.summary["totals"]["done"], 3)
        self.assertTrue(Path(out.path(out.videos.to_arrow().to_pylist()[0]["video_path"])).is_file())
        self.assertEqual([e["id"] for e in out.explain("a")], ["a"])
        self.assertEqual(self.job().plan().done, 3)
        self.assertTrue(seen)

    @unittest.skipIf(PYARROW, PYARROW)
    def test_failed_rows(self) -> None:
        (self.dir / "p.csv").write_text("id,prompt,height\na,a red square,32\nb,a blue circle,33\n")
        with self.assertRaises(latentbeam.FailedRows) as caught:
            self.job().run()
        self.assertEqual(len(caught.exception.output.videos), 1)
        self.assertEqual(len(caught.exception.output.failures), 1)
        self.assertEqual(len(self.job().run(allow_failed=True).videos), 1)

    def test_start_and_stop(self) -> None:
        rows = "".join(f"r{i},a red square {i}\n" for i in range(400))
        (self.dir / "p.csv").write_text("id,prompt\n" + rows)
        running = self.job(defaults={**JOB["defaults"], "num_inference_steps": 20}).start()
        end = time.monotonic() + 120
        while not ((running.status() or {}).get("rows") or {}).get("done") and time.monotonic() < end and not running.done():
            time.sleep(0.2)
        running.stop()
        with self.assertRaises(latentbeam.Interrupted):
            running.wait(120)

    @unittest.skipIf(PYARROW or TORCH, PYARROW or TORCH)
    def test_torch(self) -> None:
        import torch
        from latentbeam.data import collate

        out = self.job().run()
        data = out.latents.torch()
        self.assertEqual(len(data), 3)
        self.assertEqual(tuple(data[0]["latents"].shape), (4, 4, 4, 4))
        raw = out.latents.torch(normalized=False)[0]["latents"]
        mean, std = out.latents.metadata["latents_mean"], out.latents.metadata["latents_std"]
        expected = data[0]["latents"] * torch.tensor(std).reshape(-1, 1, 1, 1) + torch.tensor(mean).reshape(-1, 1, 1, 1)
        self.assertTrue(torch.equal(raw, expected))
        batch = next(iter(torch.utils.data.DataLoader(data, batch_size=2, collate_fn=collate)))
        self.assertEqual(tuple(batch["latents"].shape), (2, 4, 4, 4, 4))
        self.assertEqual(data.negative(), {})  # the built-in model has no embedding of a negative prompt
        stream = out.latents.stream()
        self.assertEqual(sorted(s["id"] for s in torch.utils.data.DataLoader(stream, batch_size=None)), ["a", "b", "c"])


if __name__ == "__main__":
    unittest.main()
