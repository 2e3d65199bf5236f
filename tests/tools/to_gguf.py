"""A Hugging Face directory of one of the fixtures' families as a GGUF file.

    python -m tests.tools.to_gguf DIR OUT.gguf [--type q8_0] [--no-vocab]

gguf_layout.py says where the values go, gguf_metadata.py what the file says of itself.  Here:
1 added to norms that are stored around zero, -exp(A_log), and types.  Matrices keep the type
they are stored in, or take --type where the rows fit its groups (PyPI gguf quantises); what
converters always write as float32 is float32.  There is no tokenizer, as the fixtures have
none; --no-vocab says so in the way that llama.cpp asks for.
"""
import argparse
import json
import pathlib
import struct

import gguf
import numpy as np

from reference import quant, tensors
from reference.model import ZERO_CENTRED
from tests.tools import gguf_metadata
from tests.tools.gguf_layout import ARCHITECTURES, laid_out

# Of matrices; vectors, biases and what has no suffix are float32 too.
ALWAYS_F32 = ("ffn_gate_inp.weight", "ssm_conv1d.weight", "indexer.proj.weight")


def stored_types(path):
    """Tensor name to the dtype word of the safetensors header."""
    with open(path, "rb") as f:
        (n,) = struct.unpack("<Q", f.read(8))
        header = json.loads(f.read(n))
    return {name: entry["dtype"].lower() for name, entry in header.items() if name != "__metadata__"}


def stored_form(values, kind):
    """(array for the writer, its ggml type, its values as float64)"""
    kind = gguf.GGMLQuantizationType[kind.upper()]
    raw = gguf.quants.quantize(np.ascontiguousarray(values), kind)
    return raw, kind, gguf.quants.dequantize(raw, kind).astype(np.float64)


def pack_mxfp4(blocks, scales):
    """Four-bit blocks of gpt-oss in ggml's order: the scale, then value j beside j + 16 (10)."""
    codes = np.stack([blocks & 15, blocks >> 4], axis=-1).reshape(*blocks.shape[:-1], 32)
    packed = codes[..., :16] | codes[..., 16:] << 4
    raw = np.concatenate([scales[..., None], packed], axis=-1)
    return raw.reshape(*blocks.shape[:-2], -1)


def is_zero_centred(name, config):
    return (config["model_type"] in ZERO_CENTRED and name.endswith("norm.weight")
            and not name.endswith("ssm_norm.weight"))


class Numbered:
    """The values of all tensors in one row, and where each tensor's begin."""

    def __init__(self, weights):
        self.shapes = {name: value.shape for name, value in weights.items()}
        sizes = [value.size for value in weights.values()]
        self.begins = dict(zip(weights, np.cumsum([0] + sizes)[:-1]))
        self.flat = np.zeros(sum(sizes))

    def numbers(self):
        return {name: np.arange(self.begins[name], self.begins[name] + int(np.prod(shape))).reshape(shape)
                for name, shape in self.shapes.items()}

    def owners(self, numbers):
        names, begins = list(self.begins), list(self.begins.values())
        return {names[i] for i in np.unique(np.searchsorted(begins, numbers, side="right") - 1)}

    def tensors(self):
        return {name: self.flat[at : at + int(np.prod(self.shapes[name]))].reshape(self.shapes[name])
                for name, at in self.begins.items()}


def wanted_type(name, value, stored, matrix_type):
    matrix = value.ndim >= 2 and name.endswith(".weight") and not name.endswith(ALWAYS_F32)
    wanted = (matrix_type or stored) if matrix else "f32"
    return "f32" if value.shape[-1] % quant.TYPES.get(wanted, (1,))[0] else wanted


def write_tensors(writer, config, weights, types, matrix_type):
    """Returns the values as the file now has them, by Hugging Face names, and which of them are
    quantised."""
    blocks = {n: v for n, v in weights.items() if n.endswith(("_blocks", "_scales"))}
    weights = {n: v.astype(np.float32) for n, v in weights.items() if n not in blocks}
    kept, quantised = Numbered(weights), set()
    numbers = laid_out(config, kept.numbers())
    for name, value in laid_out(config, weights).items():
        owners = kept.owners(numbers[name])
        added = float(is_zero_centred(name, config))
        decay = name.endswith(".ssm_a")
        value = -np.exp(value) if decay else value + np.float32(added)
        wanted = wanted_type(name, value, types[min(owners)], matrix_type)
        raw, kind, exact = stored_form(value, wanted)
        if wanted in quant.TYPES:
            quantised |= owners
        kept.flat[numbers[name].reshape(-1)] = (np.log(-exact) if decay else exact - added).reshape(-1)
        writer.add_tensor(name, np.ascontiguousarray(raw), raw_dtype=kind)
    packed = laid_out(config, blocks)
    for name in [n for n in packed if n.endswith("_blocks")]:
        raw = pack_mxfp4(packed[name], packed[name.replace("_blocks", "_scales")])
        writer.add_tensor(name.removesuffix("_blocks"), raw, raw_dtype=gguf.GGMLQuantizationType.MXFP4)
    return kept.tensors() | {n: v.astype(np.float64) for n, v in blocks.items()}, quantised


def convert(directory, out, matrix_type=None, no_vocab=False):
    """Returns what write_tensors() does."""
    directory = pathlib.Path(directory)
    config = json.loads((directory / "config.json").read_text())
    architecture = ARCHITECTURES[config["model_type"]]
    weights, _ = tensors.load(directory / "model.safetensors")
    types = stored_types(directory / "model.safetensors")
    writer = gguf.GGUFWriter(str(out), architecture)
    mtp_layers = sum(name.endswith(("mtp.fc.weight", ".eh_proj.weight")) for name in weights)
    gguf_metadata.write(writer, config, architecture, mtp_layers)
    if no_vocab:
        writer.add_tokenizer_model("no_vocab")
    kept, quantised = write_tensors(writer, config, weights, types, matrix_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return kept, quantised


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory")
    parser.add_argument("out")
    parser.add_argument("--type", help="of matrices, as q8_0; default: as stored")
    parser.add_argument("--no-vocab", action="store_true")
    args = parser.parse_args()
    convert(args.directory, args.out, args.type, args.no_vocab)


if __name__ == "__main__":
    main()
