"""Reads exports with the readers of those who take them and writes what they find to readers.json, beside this file.

    READERS=DIR go test ./internal/results/export -run TestReaders     # writes the exports; it fails until readers.json is new
    python read_exports.py DIR FASTVIDEO MUSUBI

FASTVIDEO and MUSUBI are checkouts of FastVideo and musubi-tuner. Needs torch, numpy, safetensors, pyarrow, webdataset and
datasets; musubi-tuner's reader needs av, opencv, toml and voluptuous. TestReaders then checks without any of them that the
exports still have these names and values.
"""

import argparse
import glob
import hashlib
import importlib.util
import json
import os
import sys
import types

import datasets
import numpy as np
import pyarrow.parquet as pq
import safetensors
import torch
import webdataset


def digest(values):
    """The digest of a tensor's bytes."""
    if isinstance(values, torch.Tensor):
        values = values.contiguous().view(torch.uint8).numpy()
    return hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()[:16]


def finding(latents, text, caption=""):
    found = {"latents": digest(latents), "shape": list(latents.shape), "text": digest(text)}
    return {**found, "caption": caption} if caption else found


def read_safetensors(directory):
    found = {}
    for path in glob.glob(os.path.join(directory, "safetensors", "*.safetensors")):
        with safetensors.safe_open(path, "pt") as f:
            about = f.metadata()
            found[about["id"]] = finding(f.get_tensor("latents"), f.get_tensor("text_embedding"), about["caption"])
    return found


def read_webdataset(directory):
    tars = sorted(glob.glob(os.path.join(directory, "webdataset", "*.tar")))
    samples = webdataset.WebDataset(tars, shardshuffle=False).decode()
    return {s["json"]["id"]: finding(s["latent.npy"], s["text.npy"], s["json"]["caption"]) for s in samples}


def read_hf(directory):
    directory = os.path.join(directory, "hf")
    rows = datasets.load_dataset(directory, split="train").with_format("numpy")
    found = {}
    for r in rows:
        latents = r["latents"].reshape(r["latents_shape"])
        assert latents.dtype == np.float32
        found[str(r["id"])] = finding(latents, r["text_embedding"].reshape(r["text_embedding_shape"]), str(r["caption"]))
    parts = [c for c in datasets.get_dataset_config_names(directory) if c != "default"]
    assert sum(len(datasets.load_dataset(directory, c, split="train")) for c in parts) == len(found) == len(rows)
    return found


def module(checkout, name):
    """A file of FastVideo alone: the package itself asks for CUDA."""
    spec = importlib.util.spec_from_file_location(os.path.basename(name), os.path.join(checkout, name + ".py"))
    m = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(m)
    return m


def read_fastvideo(directory, checkout):
    sys.modules.setdefault("fastvideo", types.ModuleType("fastvideo"))
    schema = module(checkout, "fastvideo/dataset/dataloader/schema").pyarrow_schema_t2v
    utils = module(checkout, "fastvideo/dataset/utils")
    found = {}
    for path in glob.glob(os.path.join(directory, "fastvideo", "*", "*.parquet")):
        table = pq.read_table(path)
        assert table.column_names == schema.names, path
        rows = table.to_pylist()
        batch = utils.collate_rows_from_parquet_schema(rows, schema, text_padding_length=512)
        for i, row in enumerate(rows):
            length = int(batch["text_attention_mask"][i].sum())
            found[row["id"]] = finding(batch["vae_latent"][i], batch["text_embedding"][i][:length], row["caption"])
    return found


def read_musubi(directory, checkout):
    sys.path.insert(0, os.path.join(checkout, "src"))
    from musubi_tuner.dataset import config_utils

    config = config_utils.load_user_config(os.path.join(directory, "musubi", "dataset.toml"))
    blueprint = config_utils.BlueprintGenerator(config_utils.ConfigSanitizer()).generate(
        config, argparse.Namespace(debug_dataset=False), architecture="wan")
    group = config_utils.generate_dataset_group_by_blueprint(blueprint.dataset_group, training=True)
    found = {}
    for dataset in group.datasets:
        items = [(i, b) for i, b in enumerate(dataset.batch_manager.bucket_batch_indices)]
        for i, (bucket, at) in items:
            item = dataset.batch_manager.buckets[bucket][at]
            batch = dataset.batch_manager[i]
            assert batch["latents"].dtype == torch.bfloat16 and tuple(item.original_size) == tuple(bucket[:2])
            found[os.path.basename(item.latent_cache_path)] = finding(batch["latents"][0], batch["t5"][0])
    return found


if __name__ == "__main__":
    at, fastvideo, musubi = sys.argv[1:]
    found = {"fastvideo": read_fastvideo(at, fastvideo), "hf": read_hf(at), "musubi": read_musubi(at, musubi),
             "safetensors": read_safetensors(at), "webdataset": read_webdataset(at)}
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "readers.json"), "w") as f:
        json.dump(found, f, indent=1, sort_keys=True)
        f.write("\n")
    for name, samples in sorted(found.items()):
        print(f"{name}: {len(samples)} samples")
