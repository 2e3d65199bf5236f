"""Model directories in other forms: MLX affine-quantised, and sharded."""

import json
import pathlib
import shutil

import numpy as np

from reference import quant, tensors


def quantise(w, bits, group):
    """(codes, scales, biases) of formats.md 4.3, scales and biases float32."""
    runs = w.reshape(len(w), -1, group).astype(np.float32)
    lo, hi = runs.min(axis=-1), runs.max(axis=-1)
    step = np.maximum((hi - lo) / np.float32(2**bits - 1), np.float32(1e-7))
    low_end = np.abs(lo) > np.abs(hi)
    scale = np.where(low_end, step, -step)
    edge = np.where(low_end, lo, hi)
    z = np.rint(edge / scale)
    scale = np.where(z != 0, edge / np.where(z != 0, z, 1), scale).astype(np.float32)
    bias = np.where(z != 0, edge, 0).astype(np.float32)
    codes = np.clip(np.rint((runs - bias[..., None]) / scale[..., None]), 0, 2**bits - 1)
    return codes.reshape(w.shape).astype(np.uint32), scale, bias


def packed(codes, bits):
    """A little-endian bit stream a row, in 32-bit words."""
    stream = (codes[..., None] >> np.arange(bits)) & 1
    raw = np.packbits(stream.reshape(len(codes), -1).astype(np.uint8), axis=1, bitorder="little")
    return np.ascontiguousarray(raw).view("<u4")


def convert(source, folder, bits, group):
    """Every matrix whose rows fit is quantised, the embedding too; scales are float16.  Returns
    the weights as float64, by their Hugging Face names, and the names of the quantised ones."""
    source, folder = pathlib.Path(source), pathlib.Path(folder)
    folder.mkdir()
    stored, _ = tensors.load(source / "model.safetensors")
    out, kept, odd, quantised = {}, {}, {}, set()
    for name, w in stored.items():
        path = name.removesuffix(".weight")
        if w.ndim == 2 and w.shape[1] % group == 0:
            codes, scale, bias = quantise(w, bits, group)
            scale, bias = scale.astype(np.float16), bias.astype(np.float16)
            out[name] = packed(codes, bits)
            out[path + ".scales"], out[path + ".biases"] = scale, bias
            quantised.add(name)
            kept[name] = quant.mlx_affine(out[name], scale, bias, bits, group)
        else:
            if w.ndim == 2:
                odd[path] = False
            out[name] = w.astype(np.float32)
            kept[name] = w.astype(np.float64)
    config = json.loads((source / "config.json").read_text())
    config["quantization"] = {"group_size": group, "bits": bits, **odd}
    config["quantization_config"] = config["quantization"]
    (folder / "config.json").write_text(json.dumps(config))
    tensors.save(folder / "model.safetensors", out, {"format": "mlx"})
    return kept, quantised


def shard(source, folder):
    """The same directory in two shards and an index."""
    source, folder = pathlib.Path(source), pathlib.Path(folder)
    folder.mkdir()
    shutil.copy(source / "config.json", folder)
    stored, _ = tensors.load(source / "model.safetensors")
    kind = json.loads((source / "config.json").read_text())["dtype"]
    names = sorted(stored)
    parts = {"model-00001-of-00002.safetensors": names[::2],
             "model-00002-of-00002.safetensors": names[1::2]}
    for file, part in parts.items():
        keep = {n: tensors.Bf16(stored[n]) if kind == "bfloat16" else stored[n] for n in part}
        tensors.save(folder / file, keep, {"format": "pt"})
    index = {"metadata": {"total_size": sum(value.nbytes for value in stored.values())},
             "weight_map": {name: file for file, part in parts.items() for name in part}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
