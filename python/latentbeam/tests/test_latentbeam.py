"""Tests of the package with a program: LATENTBEAM_BINARY=./latentbeam python -m unittest discover python/latentbeam/tests.

Without the program, pyarrow or torch the tests that need them are skipped, and say so.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
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

    def test_run_stage_checks(self) -> None:
        """What a stage gives is checked as in a job; files come as inputs."""
        @latentbeam.stage.stage(takes="media", gives="frames")
        def read(rows):
            for row in rows:
                path = Path(row.inputs["media"])
                yield latentbeam.stage.Tensor("U8", [1, 1, 1, 3], path.read_bytes()) if path.stat().st_size == 3 else "no such file"

        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "three").write_bytes(b"abc")
            Path(folder, "four").write_bytes(b"abcd")
            good, bad = latentbeam.run_stage(read, [{}, {}], inputs=[{"media": folder + "/three"}, {"media": folder + "/four"}])
        self.assertEqual(good.data, b"abc")
        self.assertIsInstance(bad, latentbeam.stage.RowError)
        self.assertIn("there is no such file", str(bad))

    def test_no_file(self) -> None:
        with self.assertRaisesRegex(latentbeam.InvalidJob, "nothing.yaml is no file"):
            latentbeam.Job("nothing.yaml")
        with self.assertRaisesRegex(latentbeam.InvalidJob, "is not there"):
            latentbeam.Job({}, directory="/no/such/directory")
        with self.assertRaisesRegex(latentbeam.InvalidJob, "set is none of them"):
            latentbeam.Job({"model": {1}})

    def test_said(self) -> None:
        """Warnings are told from the error, which may have several lines."""
        from latentbeam._program import said

        self.assertEqual(said("latentbeam: warning: careful,\n  twice\nlatentbeam: no\n  fix: yes\nlatentbeam: warning: w\n"),
                         ("no\n  fix: yes", ["careful,\n  twice", "w"]))

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
        self.assertTrue(caught.exception.message.startswith("the job:"), caught.exception.message)
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
        self.assertRegex(str(caught.exception), r"1 of 2 rows failed: (?s:.*)\n  b: .*33.*\nrun\(allow_failed=True\)")
        self.assertTrue(traceback.format_exception_only(caught.exception)[0].startswith("latentbeam.FailedRows: "))
        self.assertEqual(len(caught.exception.output.failures), 1)
        self.assertEqual(len(self.job().run(allow_failed=True).videos), 1)

    def test_kinds(self) -> None:
        """A job is a dict, the text of a YAML file, or a path; paths in it are relative to where it lies."""
        text = "version: 1\nmodel: tiny\ninput: {prompts: p.csv}\noutput: {path: out}\nstages: [encode_text, denoise, decode_vae, encode_video]\n"
        (self.dir / "job.yaml").write_text(text)
        for job in (latentbeam.Job(self.dir / "job.yaml"), latentbeam.Job(text, directory=self.dir), latentbeam.Job(str(self.dir / "job.yaml")),
                    latentbeam.Job({**JOB, "input": {"prompts": self.dir / "p.csv"}}, directory=self.dir)):
            self.assertEqual(job.plan().new, 3)
        job = latentbeam.Job(self.dir / "job.yaml", set={"defaults.height": 33}, output="other")
        with self.assertRaisesRegex(latentbeam.InvalidJob, "33"):
            job.plan()

    @unittest.skipIf(PYARROW, PYARROW)
    def test_warnings(self) -> None:
        with self.assertWarnsRegex(latentbeam.Warning, "3 rows of another size or length: expect noise"):
            self.job().run()

    @unittest.skipIf(PYARROW, PYARROW)
    def test_show_and_choose(self) -> None:
        out = self.job(stages=["encode_text", "denoise", "decode_vae", "encode_video", {"score": {"by": ["luminance"]}}]).run()
        best = out.videos.sorted("luminance")
        self.assertEqual(len(best), 3)
        self.assertGreaterEqual(best[0]["measured_luminance"], best[2]["measured_luminance"])
        grid = out.videos.show("luminance", limit=2)
        self.assertEqual(repr(grid).splitlines()[2], "and 1 more")
        self.assertRegex(repr(grid), r"^a: a red square, luminance [0-9.]+\n")
        self.assertEqual(grid._repr_html_().count("<video src=\"data:video/mp4;base64,"), 2)
        folder = out.copy(self.dir / "best", where=f"luminance >= {best[1]['measured_luminance']}")
        self.assertEqual(len(list(Path(folder).glob("**/*.mp4"))), 2)

    def long(self) -> None:
        """A job of many rows, whose steps take a while."""
        rows = "".join(f"r{i},a red square {i}\n" for i in range(2000))
        (self.dir / "p.csv").write_text("id,prompt\n" + rows)

    def done(self) -> int:
        """Rows that are done, as status says."""
        try:
            return int(latentbeam.open(self.dir / "out").status()["rows"]["done"])
        except (latentbeam.Error, KeyError):
            return 0

    def until(self, what) -> None:
        end = time.monotonic() + 120
        while not what():
            self.assertLess(time.monotonic(), end, "it takes too long")
            time.sleep(0.1)

    def test_start_and_stop(self) -> None:
        self.long()
        running = self.job(defaults={**JOB["defaults"], "num_inference_steps": 20}).start()
        self.until(lambda: ((running.status() or {}).get("rows") or {}).get("done") or running.done())
        self.assertFalse(running.done())
        self.assertEqual(running.output.address, str((self.dir / "out").resolve()))
        with self.assertRaisesRegex(latentbeam.TryAgainLater, "is in use by pid"):
            self.job(defaults={**JOB["defaults"], "num_inference_steps": 20}).run()
        running.stop()
        with self.assertRaises(latentbeam.Interrupted):
            running.wait(120)
        self.assertEqual(list(self.dir.glob(".latentbeam-*")), [], "the job's file is removed")

    @staticmethod
    def heeds() -> None:
        """In a child: Ctrl-C counts, also where these tests run in the background of a shell, which ignores it."""
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    SCRIPT = """import latentbeam, sys
try:
    latentbeam.Job({**%r, "defaults": {"height": 32, "width": 32, "num_frames": 4, "num_inference_steps": 20}}).run(progress=%r)
except latentbeam.Interrupted as e:
    print("INTERRUPTED", e.code, e.message, flush=True)
"""

    @unittest.skipIf(sys.platform == "win32", "NOT TESTED: signals: this is Windows")
    def test_signals(self) -> None:
        """SIGINT and SIGTERM of a script drain its job: rows at work are finished, and the next run goes on."""
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(number.name):
                self.long()
                shutil.rmtree(self.dir / "out", ignore_errors=True)
                script = subprocess.Popen([sys.executable, "-c", self.SCRIPT % (JOB, False)], cwd=self.dir, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                          text=True, preexec_fn=self.heeds, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
                self.until(lambda: self.done() or script.poll() is not None)
                script.send_signal(number)
                out, err = script.communicate(timeout=120)
                self.assertTrue(out.startswith("INTERRUPTED 130"), (out, err))
                self.assertIn("Ctrl-C again ends it at once", err)
                self.assertGreater(self.done(), 0)
                self.assertLess(self.done(), 2000)
                plan = self.job(defaults={**JOB["defaults"], "num_inference_steps": 20}).plan()
                self.assertEqual(plan.done, self.done())
                self.assertEqual(list(self.dir.glob(".latentbeam-*")), [])

    def test_early_signal(self) -> None:
        """A Ctrl-C before the program has begun is not lost."""
        self.long()
        job = self.job(defaults={**JOB["defaults"], "num_inference_steps": 20})
        start = job.start

        def interrupted(**options):
            signal.raise_signal(signal.SIGINT)
            return start(**options)

        job.start = interrupted
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            with self.assertRaises(latentbeam.Interrupted):
                job.run()
        finally:
            signal.signal(signal.SIGINT, before)
        self.assertEqual(list(self.dir.glob(".latentbeam-*")), [])

    @unittest.skipIf(sys.platform == "win32", "NOT TESTED: a terminal: this is Windows")
    def test_terminal(self) -> None:
        """Ctrl-C on a terminal, which reaches every process of it: the bar says what is finished, and the job drains once."""
        import pty

        self.long()
        screen = b""
        child, terminal = pty.fork()
        if child == 0:
            self.heeds()
            os.chdir(self.dir)
            os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
            os.execv(sys.executable, [sys.executable, "-c", self.SCRIPT % (JOB, True)])
        sent = False
        while True:
            try:
                some = os.read(terminal, 65536)
            except OSError:  # the other end is closed
                some = b""
            if not some:
                break
            screen += some
            if not sent and re.search(rb"[1-9]\d*/2000 rows", screen):
                os.write(terminal, b"\x03")
                sent = True
        os.close(terminal)
        self.assertEqual(os.waitpid(child, 0)[1], 0, screen)
        text = screen.decode()
        self.assertRegex(text, r"\[#*\.+\] \d+/2000 rows")
        self.assertRegex(text, r"stopping after \d+/2000 rows: .* finished first; Ctrl-C again ends it at once")
        self.assertIn("INTERRUPTED 130", text)
        self.assertNotIn("Traceback", text)
        self.assertEqual(latentbeam.open(self.dir / "out").status()["state"], "stopped", "the program was asked once: twice is cancelled")
        self.assertGreater(self.done(), 0)

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
