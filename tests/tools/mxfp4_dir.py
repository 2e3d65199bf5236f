"""The gpt_oss fixture with its experts in MXFP4 blocks, as published gpt-oss checkpoints are.

    python -m tests.tools.mxfp4_dir DIR OUT

PyPI gguf chooses scales and codes; the blocks are then laid out as architectures.md 10 says:
byte j holds value 2j in its low half and 2j + 1 in its high one.
"""
import argparse
import pathlib
import shutil

import gguf
import numpy as np

from reference import tensors

MXFP4 = gguf.GGMLQuantizationType.MXFP4


def blocks_of(matrices):
    """(blocks uint8 [experts, rows, cols / 32, 16], scales, values) of [experts, rows, cols]."""
    raw = gguf.quants.quantize(np.ascontiguousarray(matrices, np.float32), MXFP4)
    values = gguf.quants.dequantize(raw, MXFP4).astype(np.float64)
    groups = raw.reshape(*matrices.shape[:2], -1, 17)
    packed = groups[..., 1:]
    codes = np.concatenate([packed & 15, packed >> 4], axis=-1)  # of values 0 ... 31
    return codes[..., 0::2] | codes[..., 1::2] << 4, groups[..., 0], values


def convert(directory, out):
    """Returns the values of the experts by the names and in the form of the bf16 checkpoint."""
    directory, out = pathlib.Path(directory), pathlib.Path(out)
    shutil.copytree(directory, out, ignore=shutil.ignore_patterns("model.safetensors"))
    weights, _ = tensors.load(directory / "model.safetensors")
    stored, values = {}, {}
    for name, value in weights.items():
        if name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            blocks, scales, exact = blocks_of(value.swapaxes(1, 2))
            stored[name + "_blocks"], stored[name + "_scales"] = blocks, scales
            values[name] = exact.swapaxes(1, 2)
        else:
            stored[name] = tensors.Bf16(value)
    tensors.save(out / "model.safetensors", stored)
    return values


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory")
    parser.add_argument("out")
    args = parser.parse_args()
    convert(args.directory, args.out)


if __name__ == "__main__":
    main()
