"""Tests of exports that the program writes, as data sets: every format gives the samples of the output."""

from __future__ import annotations

import importlib.util
import tempfile
import unittest
from pathlib import Path

import latentbeam

NEEDED = [name for name in ("pyarrow", "numpy", "torch") if importlib.util.find_spec(name) is None]
if NEEDED:
    raise unittest.SkipTest(f"NOT TESTED: data sets: there is no {', '.join(NEEDED)}")
try:
    latentbeam.program()
except latentbeam.Error as e:
    raise unittest.SkipTest(f"NOT TESTED: exports: {e}") from None

import torch


class Exports(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        root = Path(cls.folder.name)
        (root / "clips").mkdir()
        for i, (height, width) in enumerate(((64, 64), (32, 64), (64, 64))):
            (root / f"clips/c{i}.y4m").write_bytes(f"YUV4MPEG2 W{width} H{height} F8:1 Ip A1:1 C420jpeg\n".encode() + b"".join(
                b"FRAME\n" + bytes((40 * i + f) % 256 for f in range(height * width)) + b"\x80" * (height * width // 2) for f in range(16)))
            if i != 1:
                (root / f"clips/c{i}.txt").write_text(f"clip number {i}")
        (root / "clips.csv").write_text("id,path,caption,height,width\n" + "".join(
            f"c{i},clips/c{i}.y4m,{'' if i == 1 else f'clip number {i}'},{h},64\n" for i, h in enumerate((64, 32, 64))))
        cls.out = latentbeam.Job({"model": "tiny", "input": {"media": "clips.csv", "buckets": {"sizes": ["64x64x16", "64x32x16"]}}, "defaults": {"num_frames": 16, "fps": 8},
                                  "stages": ["encode_vae", "encode_text"], "output": {"path": "out", "write": ["latents", "embeddings"]}},
                                 directory=root).run()

    def test_formats(self) -> None:
        for normalized in (True, False):
            data = self.out.latents.torch(normalized=normalized)
            want = {s["id"]: s for s in (data[i] for i in range(len(data)))}
            self.assertEqual({k: tuple(s["latents"].shape) for k, s in want.items()}, {"c0": (4, 16, 8, 8), "c1": (4, 16, 4, 8), "c2": (4, 16, 8, 8)})
            for to in ("hf", "safetensors", "webdataset", "fastvideo"):
                with self.subTest(to=to, normalized=normalized), tempfile.TemporaryDirectory() as name:
                    folder = self.out.export(Path(name, "x"), to)
                    export = latentbeam.open_export(folder)
                    self.assertEqual(export.format, to)
                    got = export.latents.torch(normalized=normalized)
                    for samples in ((got[i] for i in range(len(got))), iter(export.latents.stream(normalized=normalized))):
                        found = {s["id"]: s for s in samples}
                        self.assertEqual(sorted(found), sorted(want))
                        for k, s in want.items():
                            self.assertTrue(torch.equal(found[k]["latents"], s["latents"]), k)
                            self.assertTrue(torch.equal(found[k]["text"], s["text"]), k)
                            self.assertEqual(found[k]["caption"], s["caption"])
                    self.assertTrue(torch.equal(got.negative()[""], want["c1"]["text"]))
                    self.assertEqual(sorted(len(b) for b in got.batches(2)), [1, 2])

    def test_open(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            self.out.export(Path(name, "x"), "hf")
            with self.assertRaisesRegex(latentbeam.Error, r"is an export \(hf\): latentbeam.open_export opens it"):
                latentbeam.open(Path(name, "x"))
            self.assertEqual(len(latentbeam.open_export(Path(name, "x")).latents.where("height == 32")), 1)

    def test_empty_text(self) -> None:
        want = self.out.latents.torch()[1]["text"]
        self.assertTrue(torch.equal(self.out.latents.torch().negative()[""], want))


if __name__ == "__main__":
    unittest.main()
