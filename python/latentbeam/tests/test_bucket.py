"""A job whose output is in a bucket: S3 as moto plays it, in this process."""

from __future__ import annotations

import importlib.util
import logging
import os
import tempfile
import unittest
import urllib.request
from pathlib import Path
from unittest import mock

import latentbeam

missing = [name for name in ("pyarrow", "moto", "flask") if importlib.util.find_spec(name) is None]
if missing:
    raise unittest.SkipTest(f"NOT TESTED: outputs in buckets: there is no {', '.join(missing)} (pip install 'moto[s3,server]')")
try:
    latentbeam.program()
except latentbeam.Error as e:
    raise unittest.SkipTest(f"NOT TESTED: outputs in buckets: {e}") from None


class Bucket(unittest.TestCase):
    def test_s3(self) -> None:
        from moto.server import ThreadedMotoServer

        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        server.start()
        self.addCleanup(server.stop)
        host, port = server.get_host_and_port()
        address = f"http://{host}:{port}"
        urllib.request.urlopen(urllib.request.Request(address + "/bucket", method="PUT")).close()
        settings = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "us-east-1", "AWS_ENDPOINT_URL": address,
                    "AWS_EC2_METADATA_DISABLED": "true"}
        with mock.patch.dict(os.environ, settings), tempfile.TemporaryDirectory() as folder:
            Path(folder, "p.csv").write_text("id,prompt\na,a red square\nb,a blue circle\n")
            job = latentbeam.Job({"model": "tiny", "input": {"prompts": "p.csv"}, "output": {"path": "s3://bucket/x", "write": ["video", "latents"]},
                                  "defaults": {"height": 32, "width": 32, "num_frames": 4, "num_inference_steps": 2},
                                  "stages": ["encode_text", "denoise", "decode_vae", "encode_video"]}, directory=folder)
            job.run()
            out = latentbeam.open("s3://bucket/x/")
            self.assertEqual(out.summary["state"], "complete")
            self.assertEqual([r["id"] for r in out.videos.where("prompt contains 'blue'")], ["b"])
            self.assertEqual(len(out.videos.show().cells), 2)
            self.assertTrue(out.path(next(iter(out.videos))["video_path"]).startswith("s3://bucket/x/videos/"))
            self.assertEqual(out.status()["state"], "done")
            self.assertIsNone(out.verify()["findings"])
            self.assertEqual(len(out.failures), 0)
            if importlib.util.find_spec("torch") is not None:
                self.assertEqual(sorted(s["id"] for s in out.latents.stream()), ["a", "b"])


if __name__ == "__main__":
    unittest.main()
