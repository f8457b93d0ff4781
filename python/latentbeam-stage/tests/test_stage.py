"""The package against the protocol of docs/exec.md, through pipes."""

import json
import os
import re
import tempfile
import threading
import unittest
from pathlib import Path

from latentbeam_stage import (Fatal, Latents, Result, Retry, RowError, Stage, Tensor, read_safetensors, stage,
                              write_safetensors)

try:
    import numpy
except ImportError:
    numpy = None  # type: ignore[assignment]


class Serving:
    """A stage that is served by a thread."""

    def __init__(self, served: Stage) -> None:
        there, self.requests = os.pipe()
        self.answers, here = os.pipe()
        self.lines = os.fdopen(self.answers, "rb")
        self.scratch = tempfile.mkdtemp()
        self.thread = threading.Thread(target=served.run, args=(os.fdopen(there, "rb"), os.fdopen(here, "wb", buffering=0)))
        self.thread.start()
        self.hello = self.next()
        self.batches = 0

    def next(self) -> dict:
        return json.loads(self.lines.readline())

    def send(self, message: dict) -> None:
        os.write(self.requests, json.dumps(dict(message, v=1)).encode() + b"\n")

    def batch(self, *prompts: str, inputs: dict = {}) -> list:
        self.batches += 1
        rows = [{"id": p, "key": f"{i:064x}", "seed": 7, "params": {"prompt": p, "seed": 7}, "inputs": inputs}
                for i, p in enumerate(prompts)]
        self.send({"type": "batch", "batch": self.batches, "scratch": self.scratch, "rows": rows})
        found = []
        while True:
            m = self.next()
            if m["type"] == "done":
                assert m["batch"] == self.batches
                return found
            if m["type"] != "heartbeat":
                found.append(m)

    def close(self) -> None:
        os.close(self.requests)
        self.thread.join(10)
        self.lines.close()
        assert not self.thread.is_alive()


class TestStage(unittest.TestCase):
    def serve(self, takes: str, gives: str, function) -> Serving:
        s = Serving(stage(takes=takes, gives=gives)(function))
        self.addCleanup(s.close)
        return s

    def test_frames_and_errors(self) -> None:
        def generate(rows):
            for row in rows:
                if row.prompt == "bad":
                    yield RowError("no")
                    continue
                row.progress(1, 2)
                yield Result(Tensor("U8", [1, 2, 2, 3], bytes(12)), readings={"score": 0.5})

        s = self.serve("prompt", "frames", generate)
        self.assertEqual((s.hello["v"], s.hello["takes"], s.hello["gives"]), (1, "prompt", "frames"))
        found = s.batch("good", "bad", "good too")
        self.assertEqual([m["type"] for m in found], ["progress", "progress", "result", "error", "result"])
        self.assertEqual((found[3]["class"], found[3]["message"]), ("row", "no"))
        self.assertEqual(found[2]["readings"], {"score": "0.5"})
        tensors, _ = read_safetensors(found[2]["outputs"]["frames"])
        self.assertEqual((tensors["frames"].dtype, tensors["frames"].shape), ("U8", [1, 2, 2, 3]))

    def test_readings_alone(self) -> None:
        """A stage that only looks gives readings, and nothing where it has none to say."""
        def look(rows):
            for row in rows:
                yield Result(readings={} if row.prompt == "silent" else {"scene": 1})

        s = self.serve("video", "readings", look)
        self.assertEqual(s.hello["gives"], "readings")
        found = s.batch("a", "silent")
        self.assertEqual([(m["type"], m.get("readings"), "outputs" in m) for m in found],
                         [("result", {"scene": "1"}, False), ("result", None, False)])

    def test_exceptions(self) -> None:
        for error, kind, text in ((RowError("a"), "row", "a"), (Retry("b"), "retry", "b"), (Fatal("c"), "fatal", "c"),
                                  (MemoryError("d"), "memory", "MemoryError: d (test_stage.py, line N)"), (KeyError("e"), "row", "KeyError: 'e' (test_stage.py, line N)")):
            def generate(rows, error=error):
                raise error

            found = self.serve("prompt", "prompt", generate).batch("x", "y")
            got = [(m["type"], m["class"], re.sub(r"line \d+", "line N", m["message"])) for m in found]
            self.assertEqual(got, [("error", kind, text)] * 2)

    def test_culprit(self) -> None:
        """An exception for one row of a batch fails this row alone, whether results are yielded or returned."""
        def each(row):
            if row.prompt == "bad":
                raise ValueError("no")
            return row.prompt

        def yields(rows):
            for row in rows:
                yield each(row)

        for function in (yields, lambda rows: [each(row) for row in rows]):
            found = self.serve("prompt", "prompt", function).batch("a", "bad", "c", "d")
            self.assertEqual([m["type"] for m in found], ["result", "error", "result", "result"])
            self.assertRegex(found[1]["message"], r"^ValueError: no \(test_stage.py, line \d+\)$")

    def test_misfits(self) -> None:
        """Results that do not belong to the rows are said with what to do. Each row is tried alone before."""
        def one_row(row):
            yield row.prompt

        def forgets(rows):
            for row in rows:
                row.prompt

        def skips(rows):
            for row in rows:
                if row.prompt != "x":
                    yield "two"

        def returns(rows):
            for row in rows:
                return "one"

        def asks(rows):
            for row in rows:
                yield row.params["speed"]

        for function, kinds, text in (
                (lambda rows: ["one"], ["result", "result"], ""),
                (skips, ["error", "result"], "gave 0 results for 1 row"),
                (lambda rows: ["one"] * 3, ["error", "error"], "gave more than 1 result for 1 row: yield one for each row"),
                (lambda rows: (p for p in "abc"), ["error", "error"], "gave more than 1 result"),
                (one_row, ["error", "error"], "gets a list of rows, so write `for row in rows:`"),
                (forgets, ["error", "error"], "gave nothing for 1 row: yield one result for each"),
                (returns, ["error", "error"], "returned one str for 1 row, not a list"),
                (lambda rows: [None] * len(rows), ["error", "error"], "the result is None, prompt is wanted"),
                (asks, ["error", "error"], "speed is not among params of the stage: add it to params in the job file")):
            found = self.serve("media", "prompt", function).batch("x", "y")
            self.assertEqual([m["type"] for m in found], kinds)
            for m in found:
                if m["type"] == "error":
                    self.assertIn(text, m["message"])

    def test_no_such_file(self) -> None:
        found = self.serve("prompt", "frames", lambda rows: ["a text"]).batch("x")
        self.assertIn("'a text', and there is no such file: frames or the path of a file is wanted", found[0]["message"])

    def test_unchanged(self) -> None:
        found = self.serve("video", "video", lambda rows: [Result(readings={"clip": 1})]).batch("x")
        self.assertEqual(found, [{"type": "result", "batch": 1, "key": "0" * 64, "readings": {"clip": "1"}}])

    def test_cancel(self) -> None:
        begun = threading.Event()

        def generate(rows):
            begun.set()
            while True:
                rows[0].progress(0, 1)

        s = self.serve("prompt", "prompt", generate)

        def cancel() -> None:
            begun.wait()
            s.send({"type": "cancel", "batch": 1})

        threading.Thread(target=cancel).start()
        self.assertTrue(all(m["type"] == "progress" for m in s.batch("x")))

    def test_input(self) -> None:
        path = tempfile.mkdtemp() + "/in.safetensors"
        write_safetensors(path, {"latents": Tensor("F32", [2], b"\0\0\x80\x3f\0\0\0\x40")}, {"latent_scale": "0.5"})
        seen = []

        def look(rows):
            seen.append(rows[0].load()["latents"])
            return [Latents(Tensor("F32", [2], bytes(8)), scale=0.25)]

        found = self.serve("latents", "latents", look).batch("x", inputs={"latents": path})
        if numpy is None:
            self.assertEqual(seen[0].data, b"\0\0\x80\x3f\0\0\0\x40")
        else:
            self.assertEqual(list(seen[0]), [1, 2])
            self.assertTrue(seen[0].flags.writeable)
        _, metadata = read_safetensors(found[0]["outputs"]["latents"])
        self.assertEqual(metadata, {"latent_scale": "0.25"})

    def test_wrong_kinds(self) -> None:
        with self.assertRaises(ValueError):
            stage(takes="prompt", gives="film")(lambda rows: rows)

    @unittest.skipIf(numpy is None, "numpy is not there")
    def test_numpy(self) -> None:
        values = [numpy.zeros((2, 4, 4, 3)) + 0.5, [numpy.full((4, 4, 3), 9, "u1")] * 2, numpy.zeros((2, 4, 4)),
                  numpy.full((1, 2, 2, 3), numpy.nan), numpy.full((1, 2, 2, 3), 200.0), numpy.full((1, 2, 2, 3), -1.0),
                  numpy.full((1, 2, 2, 3), 1.02), [numpy.zeros((4, 4, 3)), numpy.zeros((4, 5, 3))]]
        found = self.serve("prompt", "frames", lambda rows: values).batch(*"abcdefgh")
        self.assertEqual([m["type"] for m in found], ["result"] * 2 + ["error"] * 4 + ["result", "error"])
        for m, text in zip(found[2:], ("is wanted", "not finite", "these from 200 to 200: divide by 255 or use uint8",
                                       "these from -1 to -1: scale or clip")):
            self.assertIn(text, m["message"])
        self.assertIn("the result cannot be used: ValueError", found[7]["message"])
        whole = self.serve("prompt", "frames", lambda rows: numpy.zeros((1, 2, 2, 3))).batch("x")
        self.assertIn("returned one ndarray for 1 row", whole[0]["message"])
        stacked = self.serve("prompt", "frames", lambda rows: numpy.zeros((len(rows), 1, 2, 2, 3))).batch("x", "y")
        self.assertEqual([m["type"] for m in stacked], ["result", "result"])
        first = [read_safetensors(m["outputs"]["frames"])[0]["frames"] for m in found[:2]]
        self.assertEqual([(t.shape, t.data[0]) for t in first], [([2, 4, 4, 3], 128), ([2, 4, 4, 3], 9)])


if __name__ == "__main__":
    unittest.main()
