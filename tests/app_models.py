"""Small models for tests of the whole program: a fixture's weights with a byte-level tokenizer
and a chat template of this file's own, so that text goes in and comes out."""

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

import numpy as np

from reference import tensors

N_BYTES = 256  # ids of the bytes; then the marks
MARKS = ["<|im_start|>", "<|im_end|>", "<|endoftext|>"]
IM_END, END_OF_TEXT = N_BYTES + 1, N_BYTES + 2
N_TOKENS = N_BYTES + len(MARKS)

CHATML = """{%- for m in messages -%}
{%- if loop.index0 > 0 and m.role == 'system' -%}{{ raise_exception('system comes first') }}{%- endif -%}
{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\\n' }}{%- endif -%}"""


def byte_letters():
    """Byte to the letter that byte-level tokenizers write it as."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in plain]
    return {b: chr(b) for b in plain} | {b: chr(256 + i) for i, b in enumerate(rest)}


def tokenizer_json():
    letters = byte_letters()
    added = [{"id": N_BYTES + i, "content": mark, "single_word": False, "lstrip": False,
              "rstrip": False, "normalized": False, "special": True}
             for i, mark in enumerate(MARKS)]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
             "use_regex": True}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
            "normalizer": None, "pre_tokenizer": level, "post_processor": None, "decoder": level,
            "model": {"type": "BPE", "dropout": None, "unk_token": None,
                      "continuing_subword_prefix": None, "end_of_word_suffix": None,
                      "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                      "vocab": {letters[b]: b for b in range(N_BYTES)}, "merges": []}}


def edit_json(path, **changes):
    document = json.loads(path.read_text())
    path.write_text(json.dumps(document | changes))


def add_text(directory, chat_template=CHATML):
    """Gives a fixture's directory a tokenizer and (not None) a chat template."""
    (directory / "tokenizer.json").write_text(json.dumps(tokenizer_json()))
    config = {"eos_token": "<|im_end|>", "tokenizer_class": "PreTrainedTokenizerFast"}
    if chat_template is not None:
        config["chat_template"] = chat_template
    (directory / "tokenizer_config.json").write_text(json.dumps(config))
    for name in ["config.json", "generation_config.json"]:
        edit_json(directory / name, bos_token_id=None, eos_token_id=IM_END)


def copy_model(source, target):
    target.mkdir(parents=True)
    for name in ["config.json", "generation_config.json", "model.safetensors"]:
        shutil.copy(source / name, target / name)
    return target


def zero_model(directory, n_layers=8, hidden=1024, intermediate=2816, vocab=32000):
    """A llama of zeros whose file is sparse: it costs no disk, but time to load."""
    directory.mkdir(parents=True)
    (directory / "config.json").write_text(json.dumps({
        "model_type": "llama", "vocab_size": vocab, "hidden_size": hidden,
        "intermediate_size": intermediate, "num_hidden_layers": n_layers,
        "num_attention_heads": 8, "num_key_value_heads": 8, "max_position_embeddings": 4096,
        "rms_norm_eps": 1e-5, "hidden_act": "silu", "tie_word_embeddings": True,
        "rope_theta": 10000.0}))
    shapes = {"model.embed_tokens.weight": [vocab, hidden], "model.norm.weight": [hidden]}
    for i in range(n_layers):
        p = f"model.layers.{i}."
        for name in "qkvo":
            shapes[f"{p}self_attn.{name}_proj.weight"] = [hidden, hidden]
        for name in ["gate", "up"]:
            shapes[f"{p}mlp.{name}_proj.weight"] = [intermediate, hidden]
        shapes[f"{p}mlp.down_proj.weight"] = [hidden, intermediate]
        for name in ["input_layernorm", "post_attention_layernorm"]:
            shapes[f"{p}{name}.weight"] = [hidden]
    header, at = {}, 0
    for name, shape in shapes.items():
        size = 4 * int(np.prod(shape))
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(directory / "model.safetensors", "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text)
        f.truncate(8 + len(text) + at)
    return directory


def poison(directory, name, index, value):
    """Overwrites one stored element of a tensor with a value that is no number."""
    path = directory / "model.safetensors"
    raw = bytearray(path.read_bytes())
    n = int.from_bytes(raw[:8], "little")
    entry = json.loads(raw[8:8 + n])[name]
    if entry["dtype"] == "BF16" and not np.isfinite(value):
        stored = {"inf": b"\x80\x7f", "-inf": b"\x80\xff", "nan": b"\xc0\x7f"}[str(float(value))]
    elif entry["dtype"] == "BF16":
        stored = tensors.to_bf16_bits(np.array([value], "<f4")).tobytes()
    else:
        stored = np.array([value], tensors.DTYPES[entry["dtype"]]).tobytes()
    at = 8 + n + entry["data_offsets"][0] + index * len(stored)
    raw[at:at + len(stored)] = stored
    path.write_bytes(raw)


def share_of_a_core():
    """Limits in seconds are for a machine of one's own: where others wait for the cores too, the
    clock gives each its share."""
    return max(1.0, os.getloadavg()[0] / len(os.sched_getaffinity(0)))


@contextlib.contextmanager
def tiny_disk(kilobytes):
    """A file system that is soon full."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="ingot-full-"))
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", folder],
                   check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)
        os.rmdir(folder)
