"""Latents and text embeddings of clips, ours against PyTorch's: python precompute_against_torch.py DIR [rounds] [clips] [dtype] [sides].

Needs go, ffmpeg, torch, torchvision, diffusers, transformers, sentencepiece, av and pyarrow; no test needs this file. DIR gets
an AutoencoderKLWan of the size of Wan 2.1 and a UMT5-xxl encoder in bf16, both with random weights (12 GB), and clips of
ffmpeg's test sources in 1280x720 and h264 (8 unless given). A round is a job of `latentbeam run` and of theirs: 17 frames at
16 a second, 240x416, latents and embeddings in parquet. Each is a process of its own that begins with cold models, and every
second round begins with the other side. dtype is that of the autoencoder, bf16 or fp32; the text encoder has bf16.

Theirs decodes by PyAV in threads ahead of the autoencoder, resizes by torchvision, encodes all captions at once, frees the
encoder before the clips, and takes the autoencoder's clips one at a time, channels last, under inference_mode, compiled where
sides says so (ours,torch,compile). What is printed: seconds and clips a second of the whole process, where they went, the peak of resident
memory and of the part of it that is no mapped file, and how far latents and embeddings are apart.
"""

import concurrent.futures
import csv
import gzip
import json
import os
import pathlib
import shutil
import subprocess
import sys
import threading
import time

TREE = pathlib.Path(__file__).parents[2]
HEIGHT, WIDTH, FRAMES, FPS = 240, 416, 17, 16
TEXT = dict(model_type="umt5", architectures=["UMT5EncoderModel"], vocab_size=256384, d_model=4096, d_kv=64, d_ff=10240,
            num_layers=24, num_heads=64, feed_forward_proj="gated-gelu", relative_attention_num_buckets=32,
            relative_attention_max_distance=128, layer_norm_epsilon=1e-6, torch_dtype="bfloat16", dropout_rate=0.1,
            tie_word_embeddings=False, is_encoder_decoder=False, pad_token_id=0, eos_token_id=1, scalable_attention=True)
# How far ours and theirs may be apart. Most of it for latents is colour: where chroma has half the size PyAV and ffmpeg
# interpolate it in other ways, on average by 0.6 of 255 and at the edges of these sources by up to 74. From equal pixels an
# autoencoder in fp32 gives latents that are 1.4e-6 apart.
APART = dict(vae_latent=0.06, text_embedding=0.04)
SOURCES = ["testsrc2", "mandelbrot", "smptehdbars", "life=ratio=0.3:mold=10", "gradients=seed=7", "cellauto=rule=110", "testsrc",
           "rgbtestsrc"]
ABOUT = ["a test card with moving patterns, a counter and coloured bars", "a slow zoom into the border of a fractal set",
         "the colour bars of a television station, standing still", "small white cells that live and die on a black ground"]


def make_text(folder):
    import torch
    from safetensors.torch import save_file

    folder.mkdir(parents=True)
    torch.manual_seed(1)
    names, total = {}, 0

    def save(tensors, number):
        nonlocal total
        file = f"model-{number:05d}-of-00026.safetensors"
        save_file(tensors, folder / file, metadata={"format": "pt"})
        names.update({name: file for name in tensors})
        total += sum(t.numel() * 2 for t in tensors.values())

    def random(deviation, *shape):
        return torch.randn(*shape, dtype=torch.bfloat16).mul_(deviation)

    d, ff, inner = TEXT["d_model"], TEXT["d_ff"], TEXT["d_kv"] * TEXT["num_heads"]
    save({"shared.weight": random(1, TEXT["vocab_size"], d)}, 1)
    for i in range(TEXT["num_layers"]):
        at = f"encoder.block.{i}.layer."
        save({at + "0.SelfAttention.q.weight": random((d * TEXT["d_kv"]) ** -0.5, inner, d),
              at + "0.SelfAttention.k.weight": random(d ** -0.5, inner, d),
              at + "0.SelfAttention.v.weight": random(d ** -0.5, inner, d),
              at + "0.SelfAttention.o.weight": random(inner ** -0.5, d, inner),
              at + "0.SelfAttention.relative_attention_bias.weight": random(d ** -0.5, 32, TEXT["num_heads"]),
              at + "0.layer_norm.weight": 1 + random(0.1, d),
              at + "1.DenseReluDense.wi_0.weight": random(d ** -0.5, ff, d),
              at + "1.DenseReluDense.wi_1.weight": random(d ** -0.5, ff, d),
              at + "1.DenseReluDense.wo.weight": random(ff ** -0.5, d, ff),
              at + "1.layer_norm.weight": 1 + random(0.1, d)}, i + 2)
    save({"encoder.final_layer_norm.weight": 1 + random(0.1, d)}, 26)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {"total_size": total}, "weight_map": names}))
    (folder / "config.json").write_text(json.dumps(TEXT, indent=2))


def make(folder):
    import torch
    from diffusers import AutoencoderKLWan

    model = folder / "model"
    make_text(model / "text_encoder")
    (model / "tokenizer").mkdir()
    pieces = TREE / "stages/t5/sentencepiece/testdata/umt5.model.gz"
    (model / "tokenizer/spiece.model").write_bytes(gzip.decompress(pieces.read_bytes()))
    torch.manual_seed(2)
    AutoencoderKLWan().save_pretrained(model / "vae")
    (model / "model_index.json").write_text(json.dumps({
        "_class_name": "WanPipeline", "text_encoder": ["transformers", "UMT5EncoderModel"],
        "tokenizer": ["transformers", "T5TokenizerFast"], "vae": ["diffusers", "AutoencoderKLWan"]}))


def make_clips(folder, count):
    (folder / "clips").mkdir(exist_ok=True)
    rows = []
    for i in range(count):
        source, name = SOURCES[i % len(SOURCES)], folder / f"clips/{i}.mp4"
        if not name.exists():
            sized = source + (":" if "=" in source else "=") + "size=1280x720:rate=24"
            subprocess.run(["ffmpeg", "-v", "error", "-f", "lavfi", "-i", sized, "-frames:v", "72", "-c:v", "libx264", "-crf", "18",
                            "-pix_fmt", "yuv420p", name], check=True)
        rows.append({"id": i, "video": name, "caption": ", then ".join(ABOUT[(i + k) % 4] for k in range(4)) + f", take {i}"})
    with open(folder / f"clips{count}.csv", "w", newline="") as f:
        table = csv.DictWriter(f, ["id", "video", "caption"])
        table.writeheader()
        table.writerows(rows)


def pixels(path):
    """Frame i is the one on screen at i / FPS; it fills HEIGHT x WIDTH and is cropped in the middle, half a pixel to the left.
    Colours are converted as exactly as ours: PyAV's own way is darker by a half of 255 on average."""
    import av
    import torch
    from av.video.reformatter import Interpolation
    from torchvision.transforms.v2 import functional as F

    frames, last = [], None
    with av.open(path) as f:
        f.streams.video[0].thread_type = "AUTO"
        for frame in f.decode(video=0):
            while len(frames) < FRAMES and last is not None and frame.time > len(frames) / FPS + 1e-9:
                frames.append(last)
            if len(frames) == FRAMES:
                break
            last = frame
    while len(frames) < FRAMES:
        frames.append(last)
    once, exact = {}, Interpolation.BICUBIC | Interpolation.ACCURATE_RND | Interpolation.FULL_CHR_H_INT
    for frame in frames:
        if id(frame) not in once:
            once[id(frame)] = torch.from_numpy(frame.to_ndarray(format="rgb24", interpolation=exact)).permute(2, 0, 1)
    x = torch.stack([once[id(frame)] for frame in frames])
    h, w = x.shape[2:]
    scale = max(HEIGHT / h, WIDTH / w)
    x = F.resize(x, [round(h * scale), round(w * scale)], F.InterpolationMode.BICUBIC, antialias=True)
    x = F.crop(x, (x.shape[2] - HEIGHT) // 2, (x.shape[3] - WIDTH) // 2, HEIGHT, WIDTH)
    return x.permute(1, 0, 2, 3)[None]


def theirs(folder, out, table, dtype, compiled):
    """Runs in a process of its own."""
    import pyarrow
    import pyarrow.parquet
    import sentencepiece
    import torch
    from diffusers import AutoencoderKLWan
    from transformers import UMT5EncoderModel

    spent, begun = {}, time.time()

    def note(what):
        nonlocal begun
        spent[what] = spent.get(what, 0) + time.time() - begun
        begun = time.time()

    rows = list(csv.DictReader(open(table)))
    pool = concurrent.futures.ThreadPoolExecutor(2)
    ahead = [pool.submit(pixels, r["video"]) for r in rows[:2]]
    note("start")
    with torch.inference_mode():
        encoder = UMT5EncoderModel.from_pretrained(folder / "model/text_encoder", dtype=torch.bfloat16).eval()
        pieces = sentencepiece.SentencePieceProcessor(model_file=str(folder / "model/tokenizer/spiece.model"))
        note("load text encoder")
        ids = [pieces.encode(r["caption"])[:511] + [1] for r in rows]
        longest = max(map(len, ids))
        mask = torch.tensor([[1] * len(i) + [0] * (longest - len(i)) for i in ids])
        states = encoder(torch.tensor([i + [0] * (longest - len(i)) for i in ids]), attention_mask=mask).last_hidden_state
        texts = [states[k, :len(i)].float().numpy() for k, i in enumerate(ids)]
        del encoder, states
        note("text")
        vae = AutoencoderKLWan.from_pretrained(folder / "model/vae", torch_dtype={"bf16": torch.bfloat16, "fp32": torch.float32}[dtype])
        vae = vae.eval()
        for m in vae.modules():  # 1.1 to 1.3 times as fast
            if isinstance(m, (torch.nn.Conv2d, torch.nn.Conv3d)):
                m.to(memory_format=torch.channels_last_3d if isinstance(m, torch.nn.Conv3d) else torch.channels_last)
        if compiled:
            vae.encoder = torch.compile(vae.encoder)
        note("load autoencoder")
        latents = []
        for k in range(len(rows)):
            x = ahead[k].result()
            ahead[k] = None
            if k + 2 < len(rows):
                ahead.append(pool.submit(pixels, rows[k + 2]["video"]))
            note("wait for frames")
            x = ((x.float() / 127.5) - 1).to(vae.dtype).contiguous(memory_format=torch.channels_last_3d)
            z = vae.encode(x).latent_dist.mode().float()
            latents.append(z[0].numpy())
            note("autoencoder")
    columns = {"id": [r["id"] for r in rows], "caption": [r["caption"] for r in rows]}
    for name, values in (("vae_latent", latents), ("text_embedding", texts)):
        columns |= {name + "_bytes": [v.tobytes() for v in values], name + "_shape": [list(v.shape) for v in values],
                    name + "_dtype": ["float32"] * len(values)}
    pyarrow.parquet.write_table(pyarrow.table(columns), out / "latents.parquet", row_group_size=1)
    note("write")
    (out / "spent.json").write_text(json.dumps(spent))


class Peaks(threading.Thread):
    """Peaks of the memory of a process and its children."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.resident, self.own = pid, 0, 0

    def run(self):
        while True:
            try:
                lines = dict(line.split(":", 1) for line in open(f"/proc/{self.pid}/status"))
                self.resident = max(self.resident, int(lines["VmHWM"].split()[0]))
                self.own = max(self.own, int(lines["RssAnon"].split()[0]))
            except (OSError, KeyError, ValueError):
                return
            time.sleep(0.1)


def run(side, folder, count, dtype):
    out = folder / "out" / side
    shutil.rmtree(out, ignore_errors=True)
    if side == "ours":
        command = [folder / "latentbeam", "run", folder / "job.yaml", "--set", f"input.media={folder}/clips{count}.csv",
                   "--set", f"stages.encode_vae.dtype={dtype}", "--output", out]
    else:
        out.mkdir(parents=True)
        command = [sys.executable, pathlib.Path(__file__).resolve(), "--theirs", folder, out, folder / f"clips{count}.csv", dtype, side]
    begun = time.time()
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    peaks = Peaks(process.pid)
    peaks.start()
    text, _ = process.communicate()
    seconds = time.time() - begun
    if process.returncode:
        sys.exit(text)
    return seconds, peaks.resident / 1e6, peaks.own / 1e6, text


def table(folder, side):
    import numpy
    import pyarrow.parquet

    files = [folder / "out" / side / "latents.parquet"]
    if side == "ours":
        files = sorted((folder / "out/ours/tables/latents").glob("*.parquet"))
    rows = {r["id"]: r for f in files for r in pyarrow.parquet.read_table(f).to_pylist()}
    return {i: {k: numpy.frombuffer(r[k + "_bytes"], "float32").reshape(r[k + "_shape"]).astype("float64")
                for k in ("vae_latent", "text_embedding")} for i, r in rows.items()}


def apart(folder, side):
    """The relative RMS of theirs to ours over all rows, at most APART, and the largest difference over the largest value."""
    import numpy

    ours, other, said = table(folder, "ours"), table(folder, side), []
    assert sorted(map(str, ours)) == sorted(map(str, other))
    for k in ("vae_latent", "text_embedding"):
        d = numpy.concatenate([(ours[i][k] - other[str(i)][k]).ravel() for i in ours])
        v = numpy.concatenate([ours[i][k].ravel() for i in ours])
        rms = (d @ d / (v @ v)) ** 0.5
        assert rms <= APART[k], f"{k}: relative RMS {rms:.3g}, at most {APART[k]} is tolerated"
        said.append(f"{k}: relative RMS {rms:.3g}, largest {abs(d).max():.3g} of {abs(v).max():.3g}")
    return "; ".join(said)


def main():
    if sys.argv[1] == "--theirs":
        folder, out, clips, dtype, side = sys.argv[2:]
        return theirs(pathlib.Path(folder), pathlib.Path(out), clips, dtype, side == "compile")
    folder = pathlib.Path(sys.argv[1]).resolve()
    given = sys.argv[2:] + ["3", "8", "bf16", "ours,torch"][len(sys.argv) - 2:]
    rounds, count, dtype, sides = int(given[0]), int(given[1]), given[2], given[3].split(",")
    if not (folder / "model").exists():
        make(folder)
    make_clips(folder, count)
    (folder / "job.yaml").write_text(f"""version: 1
model: {folder}/model
input: {{media: clips.csv, resize: bicubic, buckets: {{sizes: [{WIDTH}x{HEIGHT}x{FRAMES}]}}}}
defaults: {{fps: {FPS}}}
stages:
  - encode_text: {{dtype: bf16}}
  - encode_vae: {{}}
output: {{path: out, write: [latents, embeddings]}}
runner: local
""")
    subprocess.run(["go", "build", "-o", folder / "latentbeam", "./cmd/latentbeam"], cwd=TREE, check=True,
                   env={**os.environ, "CGO_ENABLED": "0"})
    if rounds == 0:
        return
    ratios = []
    for i in range(rounds):
        took = {}
        for side in sides[:: 1 if i % 2 == 0 else -1]:
            took[side], resident, own, text = run(side, folder, count, dtype)
            where = text.strip() if side == "ours" else {k: round(v, 2) for k, v in json.loads((folder / "out" / side / "spent.json").read_text()).items()}
            print(f"{dtype} {side}: {took[side]:.1f} s, {count / took[side]:.3f} clips/s, peak {resident:.2f} GB, {own:.2f} GB of it no file, "
                  f"load {os.getloadavg()[0]:.1f}\n{where}", flush=True)
        for side in took:
            if side != "ours" and "ours" in took:
                ratios.append(took[side] / took["ours"])
                print(f"{dtype}: ours is {ratios[-1]:.2f} times as fast as {side}; {apart(folder, side)}", flush=True)


main()
