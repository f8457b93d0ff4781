"""Puts an imperceptible watermark into all frames, by invisible-watermark (method dwtDct, which needs no model).

PAYLOAD is four bytes in hexadecimal. As a stage it gives frames and the readings `watermark`, method and payload, and
`watermark_bits`, how many of the 32 bits are read back from the frames before they are encoded. `watermark.py FILE.mp4`
reads a video: the payload, and how sure each bit is.
"""
import os
import sys

import cv2
import numpy as np
from imwatermark import WatermarkDecoder, WatermarkEncoder

METHOD = "dwtDct"
LEAST = 256 * 256  # pixels that the method needs
BITS = 32


def read(frames):
    """Returns, for each bit, the part of the frames (height, width, 3), BGR, that have it set."""
    decoder = WatermarkDecoder("bits", BITS)
    return np.mean([np.asarray(decoder.decode(frame, METHOD), dtype=float) for frame in frames], axis=0)


def bits_of(payload):
    return np.unpackbits(np.frombuffer(payload, dtype=np.uint8))


def main():
    from latentbeam_stage import Result, RowError, stage

    payload = bytes.fromhex(os.environ["PAYLOAD"])
    if len(payload) * 8 != BITS:
        sys.exit(f"PAYLOAD has {len(payload)} bytes, {BITS // 8} are needed")
    encoder = WatermarkEncoder()
    encoder.set_watermark("bytes", payload)

    @stage(takes="frames", gives="frames")
    def mark(rows):
        for row in rows:
            frames = row.load()["frames"]
            if frames.shape[1] * frames.shape[2] < LEAST:
                yield RowError(f"{METHOD} needs {LEAST} pixels, the frames have {frames.shape[2]}x{frames.shape[1]}")
                continue
            marked = [encoder.encode(np.ascontiguousarray(frame[:, :, ::-1]), METHOD) for frame in frames]
            right = int(((read(marked) > 0.5) == bits_of(payload)).sum())
            yield Result(np.stack([frame[:, :, ::-1] for frame in marked]),
                         readings={"watermark": f"{METHOD}:{payload.hex()}", "watermark_bits": f"{right}/{BITS}"})

    mark.run()


def look(path):
    video, frames = cv2.VideoCapture(path), []
    while True:
        more, frame = video.read()
        if not more:
            break
        frames.append(frame)
    if not frames:
        sys.exit(f"{path}: no frames can be read")
    parts = read(frames)
    print(np.packbits(parts > 0.5).tobytes().hex(), "least sure bit in", f"{100 * np.abs(parts - 0.5).min() + 50:.0f} %", "of",
          len(frames), "frames")


if __name__ == "__main__":
    look(sys.argv[1]) if len(sys.argv) > 1 else main()
