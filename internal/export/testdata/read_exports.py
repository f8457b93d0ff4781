"""Reads exports with the readers of those who take them, and compares what they read.

    latentbeam run testdata/media/precompute.yaml --output OUT
    for f in safetensors webdataset fastvideo; do latentbeam export OUT DIR/$f --to $f; done
    python read_exports.py DIR SCALE [FASTVIDEO]

DIR holds the folders safetensors, webdataset and fastvideo. SCALE is the latent scale of the autoencoder (0.18215).
FASTVIDEO is a checkout of FastVideo. Needs torch, numpy, safetensors, pyarrow and webdataset.
"""
import glob
import importlib.util
import os
import sys
import types

import numpy as np
import pyarrow.parquet as pq
import safetensors.numpy
import webdataset


def ours(directory):
    """All samples of the safetensors export, by id."""
    files = glob.glob(os.path.join(directory, "safetensors", "*.safetensors"))
    return {os.path.basename(f)[: -len(".safetensors")]: safetensors.numpy.load_file(f) for f in files}


def read_webdataset(directory, want):
    tars = sorted(glob.glob(os.path.join(directory, "webdataset", "*.tar")))
    samples = list(webdataset.WebDataset(tars, shardshuffle=False).decode())
    left = list(want.values())
    for s in samples:
        at = next(i for i, w in enumerate(left) if np.array_equal(w["latents"], s["latent.npy"]))
        assert np.array_equal(left.pop(at)["text_embedding"], s["text.npy"])
    assert not left, f"webdataset lacks {len(left)} samples"
    print(f"webdataset: {len(samples)} samples, equal")


def module(checkout, name):
    """A file of FastVideo alone: the package itself asks for CUDA."""
    spec = importlib.util.spec_from_file_location(os.path.basename(name), os.path.join(checkout, name + ".py"))
    m = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(m)
    return m


def read_fastvideo(directory, scale, checkout, want):
    sys.modules.setdefault("fastvideo", types.ModuleType("fastvideo"))
    schema = module(checkout, "fastvideo/dataset/dataloader/schema").pyarrow_schema_t2v
    utils = module(checkout, "fastvideo/dataset/utils")
    worst = n = 0
    for path in glob.glob(os.path.join(directory, "fastvideo", "*", "*.parquet")):
        table = pq.read_table(path)
        assert table.column_names == schema.names, path
        rows = table.to_pylist()
        batch = utils.collate_rows_from_parquet_schema(rows, schema, text_padding_length=512)
        for i, row in enumerate(rows):
            w = want[row["id"]]
            worst = max(worst, np.abs(batch["vae_latent"][i].numpy() * scale - w["latents"]).max())
            length = len(w["text_embedding"])
            assert np.array_equal(batch["text_embedding"][i][:length].numpy(), w["text_embedding"])
            assert batch["text_attention_mask"][i].sum() == length
            n += 1
    assert n == len(want)
    print(f"fastvideo: {n} rows, text equal, largest difference of a latent {worst:.1e}")


if __name__ == "__main__":
    samples = ours(sys.argv[1])
    read_webdataset(sys.argv[1], samples)
    if len(sys.argv) > 3:
        read_fastvideo(sys.argv[1], float(sys.argv[2]), sys.argv[3], samples)
