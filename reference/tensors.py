"""Reads and writes safetensors files as NumPy arrays.  bfloat16 is read as float32 (exact)."""
import json
import struct

import numpy as np

DTYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1",
    "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1", "BOOL": "?",
}
NAMES = {np.dtype(v): k for k, v in DTYPES.items()}


class Bf16:
    """A bfloat16 array for save(): float32 values, rounded to nearest even."""

    def __init__(self, values):
        self.bits = to_bf16_bits(values)


def to_bf16_bits(values):
    bits = np.ascontiguousarray(values, "<f4").view("<u4").astype(np.uint64)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2")


def from_bf16_bits(bits):
    return (np.ascontiguousarray(bits, "<u2").astype("<u4") << 16).view("<f4")


def load(path):
    """(tensors by name, metadata)."""
    with open(path, "rb") as f:
        (n,) = struct.unpack("<Q", f.read(8))
        header = json.loads(f.read(n))
        data = f.read()
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        kind = entry["dtype"]
        flat = np.frombuffer(data[begin:end], "<u2" if kind == "BF16" else DTYPES[kind])
        if kind == "BF16":
            flat = from_bf16_bits(flat)
        tensors[name] = flat.reshape(entry["shape"])
    return tensors, metadata


def save(path, tensors, metadata=None):
    """Widest elements first, so that every tensor is aligned to its width."""
    def parts(value):
        if isinstance(value, Bf16):
            return "BF16", value.bits
        value = np.asarray(value)
        return NAMES[value.dtype], value

    stored = {name: parts(value) for name, value in tensors.items()}
    header, data, at = {}, [], 0
    if metadata:
        header["__metadata__"] = metadata
    for name in sorted(stored, key=lambda name: (-stored[name][1].itemsize, name)):
        kind, value = stored[name]
        raw = np.ascontiguousarray(value).tobytes()
        header[name] = {"dtype": kind, "shape": list(value.shape), "data_offsets": [at, at + len(raw)]}
        data.append(raw)
        at += len(raw)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(data))
