"""A fixture's directory with its linear layers quantised as FP8, GPTQ, AWQ or compressed-tensors.

The quantisers round to the nearest code and no more; what counts is that the files are laid out
as formats.md 5 and 6 say, and that reference/stored_quant.py gives their values.
"""
import json
import pathlib

import numpy as np

from reference import stored_quant as sq
from reference import tensors
from tests.tools.make_stored_quant_golden import words_of

SEED = 20261202


def groups_of(n_in, group, rng):
    """The group of each input: runs, or (act-order) the same sizes in no order."""
    g_idx = (np.arange(n_in) // group).astype(np.int32)
    if rng is not None:
        rng.shuffle(g_idx)
    return g_idx


def integers(w, bits, g_idx):
    """(codes [out, in], zeros [out, groups], scales float16 [out, groups]): scale (code - zero)."""
    top, n_groups = (1 << bits) - 1, g_idx.max() + 1
    scales = np.empty((len(w), n_groups), np.float16)
    zeros = np.empty(scales.shape, np.int64)
    for g in range(n_groups):
        part = w[:, g_idx == g]
        low = np.minimum(part.min(axis=1), 0)
        high = np.maximum(part.max(axis=1), 0)
        scales[:, g] = np.maximum((high - low) / top, 1e-4)
        zeros[:, g] = np.clip(np.rint(-low / scales[:, g].astype(np.float32)), 0, top)
    wide = scales.astype(np.float32)
    codes = np.clip(np.rint(w / wide[:, g_idx]) + zeros[:, g_idx], 0, top).astype(np.int64)
    return codes, zeros, scales


def gptq(path, w, config, rng):
    bits, group = config["bits"], config["group_size"]
    g_idx = groups_of(w.shape[1], group, rng if config["desc_act"] else None)
    codes, zeros, scales = integers(w, bits, g_idx)
    less = 1 if config["checkpoint_format"] == "gptq" else 0
    stored = {path + ".qweight": words_of(codes.T, bits, 0), path + ".g_idx": g_idx,
              path + ".qzeros": words_of((zeros.T - less) % (1 << bits), bits, 1),
              path + ".scales": np.ascontiguousarray(scales.T)}
    return stored, sq.gptq(stored[path + ".qweight"], stored[path + ".qzeros"],
                           stored[path + ".scales"].astype(np.float32), bits, 2 - less, g_idx)


def awq(path, w, config, rng):
    codes, zeros, scales = integers(w, 4, groups_of(w.shape[1], config["group_size"], None))

    def packed(values):
        order = np.empty((values.shape[0], values.shape[1] // 8, 8), np.int64)
        order[:, :, [0, 4, 1, 5, 2, 6, 3, 7]] = values.reshape(order.shape)
        return words_of(order.reshape(values.shape), 4, 1)

    stored = {path + ".qweight": packed(codes.T), path + ".qzeros": packed(zeros.T),
              path + ".scales": np.ascontiguousarray(scales.T)}
    return stored, sq.awq(stored[path + ".qweight"], stored[path + ".qzeros"],
                          stored[path + ".scales"].astype(np.float32))


def compressed(path, w, config, rng):
    scheme = config["config_groups"]["group_0"]["weights"]
    g_idx = groups_of(w.shape[1], scheme["group_size"], None)
    codes, zeros, scales = integers(w, scheme["num_bits"], g_idx)
    bits = scheme["num_bits"]
    stored = {path + ".weight_packed": words_of(codes, bits, 1), path + ".weight_scale": scales,
              path + ".weight_zero_point": words_of(zeros, bits, 0),
              path + ".weight_shape": np.array(w.shape, np.int64)}
    return stored, sq.compressed_packed(stored[path + ".weight_packed"],
                                        scales.astype(np.float32), bits, w.shape[1],
                                        stored[path + ".weight_zero_point"])


class Typed:
    """An array that save() names by this dtype."""

    def __init__(self, dtype, values):
        self.dtype, self.values = dtype, values


def fp8(path, w, config, rng):
    rows, cols = config.get("weight_block_size") or (1, w.shape[1])
    grid = np.zeros((-(-w.shape[0] // rows), -(-w.shape[1] // cols)), np.float32)
    row, col = np.arange(w.shape[0])[:, None] // rows, np.arange(w.shape[1])[None, :] // cols
    np.maximum.at(grid, (row, col), np.abs(w))
    scale = np.maximum(grid / np.float32(448), np.float32(1e-9))
    values = np.where(np.isin(np.arange(256) & 127, 127), np.inf, sq.E4M3)  # NaN is never near
    ascending = np.unique(values[np.isfinite(values)])
    nearest = ascending[np.abs(w / scale[row, col] - ascending[:, None, None]).argmin(axis=0)]
    code_of = {float(values[i]): i for i in range(255, -1, -1) if np.isfinite(values[i])}
    codes = np.vectorize(lambda v: code_of[float(v)], otypes=[np.uint8])(nearest)
    name = ".weight_scale_inv" if "weight_block_size" in config else ".weight_scale"
    stored = {path + ".weight": Typed("F8_E4M3", codes), path + name: scale}
    return stored, sq.fp8(codes, scale, (rows, cols))


def int_config(bits, group):
    weights = {"num_bits": bits, "type": "int", "symmetric": False, "strategy": "group",
               "group_size": group}
    return {"quant_method": "compressed-tensors", "format": "pack-quantized",
            "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}}}


def gptq_config(bits, group, order=False, form="gptq"):
    return {"quant_method": "gptq", "bits": bits, "group_size": group, "desc_act": order,
            "sym": False, "checkpoint_format": form}


FP8 = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic"}
SCHEMES = {
    "fp8_grid": (fp8, FP8 | {"weight_block_size": [24, 40]}),
    "fp8_channel": (fp8, FP8),
    "gptq_4": (gptq, gptq_config(4, 32)),
    "gptq_4_group_16": (gptq, gptq_config(4, 16)),
    "gptq_8_act_order": (gptq, gptq_config(8, 32, order=True, form="gptq_v2")),
    "awq": (awq, {"quant_method": "awq", "bits": 4, "group_size": 32, "zero_point": True,
                  "version": "gemm"}),
    "compressed_6": (compressed, int_config(6, 32)),
}


def save(path, stored):
    """tensors.save(), but for the names of 8-bit floats."""
    plain = {n: v.values if isinstance(v, Typed) else v for n, v in stored.items()}
    tensors.save(path, plain, {"format": "pt"})
    raw = path.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + size])
    for name, value in stored.items():
        if isinstance(value, Typed):
            header[name]["dtype"] = value.dtype
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + raw[8 + size :])


def convert(source, folder, scheme):
    """Returns all weights as float64 by their Hugging Face names, and the quantised names."""
    source, folder = pathlib.Path(source), pathlib.Path(folder)
    folder.mkdir()
    quantise, quantization = SCHEMES[scheme]
    rng = np.random.default_rng(SEED)
    loaded, _ = tensors.load(source / "model.safetensors")
    out, weights, quantised = {}, {}, set()
    for name, w in loaded.items():
        path = name.removesuffix(".weight")
        is_linear = path.endswith(("_proj", "_proj_with_mqa", ".w1", ".w2", ".w3"))
        if not is_linear or w.ndim != 2:
            out[name] = w
            weights[name] = w.astype(np.float64)
            continue
        stored, values = quantise(path, w.astype(np.float32), quantization, rng)
        out |= stored
        weights[name] = values.astype(np.float64)
        quantised.add(name)
    config = json.loads((source / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(
        config | {"quantization_config": quantization}))
    save(folder / "model.safetensors", out)
    return weights, quantised
