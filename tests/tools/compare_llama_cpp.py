"""llama.cpp's greedy tokens on the GGUF files of to_gguf.py, beside transformers'.

    python -m tests.tools.compare_llama_cpp LLAMA_CPP_GREEDY [--type f32] [NAME ...]

LLAMA_CPP_GREEDY is llama_cpp_greedy.cc, built.  An error made twice, in the writer here and in
the reader of src/model, cannot hide from a third program that reads the file its own way.
Where llama.cpp is known to compute something else, a variant is compared instead: the
checkpoint changed so that both compute the same, and the tokens of the NumPy reference on it.
So are the long fixtures, at the start of their prompts, which have no greedy tokens of their own.
"""
import argparse
import json
import pathlib
import shutil
import subprocess
import tempfile
import types

import numpy as np

from reference import fixtures, ops, tensors
from reference.model import Model
from tests.tools import mxfp4_dir, to_gguf

INDEX_DIM = 64
LONGEST = 100  # tokens of a prompt
SEED = 20261201


def without_window(config, weights):
    config["sliding_window"] = None


def truncated_yarn(config, weights):
    config["rope_parameters"]["truncate"] = True


def wider_index(config, weights):
    """New index heads of 64: llama.cpp turns them by a Hadamard matrix of that size at least."""
    rng = np.random.default_rng(SEED)
    config["index_head_dim"] = INDEX_DIM
    for name, value in weights.items():
        if ".indexer.wq_b" in name or ".indexer.wk." in name:
            rows = config["index_n_heads"] * INDEX_DIM if "wq_b" in name else INDEX_DIM
            weights[name] = (rng.normal(size=(rows, value.shape[1])) * value.std()).astype(np.float32)
        elif ".indexer.k_norm.weight" in name:
            weights[name] = np.ones(INDEX_DIM, np.float32)
        elif ".indexer.k_norm.bias" in name:
            weights[name] = np.zeros(INDEX_DIM, np.float32)


VARIANTS = {
    "mistral": (without_window, "arch llama has no window"),
    "gpt_oss": (truncated_yarn, "yarn's bounds are always whole pairs"),
    "deepseek_v32": (wider_index, "index heads of 16 are refused (Hadamard of 64)"),
    "glm_moe_dsa": (wider_index, "index heads of 16 are refused (Hadamard of 64)"),
}


def vary(directory, out, change):
    out.mkdir()
    config = json.loads((directory / "config.json").read_text())
    weights, _ = tensors.load(directory / "model.safetensors")
    change(config, weights)
    (out / "config.json").write_text(json.dumps(config))
    tensors.save(out / "model.safetensors", weights)


def witness(program, directory, matrix_type, prompts, folder):
    """Tokens of each prompt, or what the program said."""
    file = folder / "model.gguf"
    to_gguf.convert(directory, file, matrix_type, no_vocab=True)
    answers = []
    for ids in prompts:
        done = subprocess.run([program, file, str(fixtures.N_GREEDY), *map(str, ids)],
                              capture_output=True, text=True)
        if done.returncode != 0:
            return f"exit code {done.returncode}"
        answers.append([int(word) for word in done.stdout.split()])
    return answers


def equal(found, wanted):
    """Tokens equal from the start, of each prompt."""
    if isinstance(found, str):
        return found
    return ", ".join(str(next((i for i, (a, b) in enumerate(zip(f, w)) if a != b), len(w)))
                     for f, w in zip(found, wanted))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("names", nargs="*",
                        default=fixtures.ALL_NAMES + fixtures.LONG_NAMES)
    parser.add_argument("--type", default="f32")
    args = parser.parse_args()
    print("| family | tokens equal, of 32 each prompt | compared with | llama.cpp otherwise |")
    print("|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        directories = fixtures.unpack(folder, names=args.names)
        directories |= fixtures.unpack_long(folder, args.names)
        for name in args.names:
            for row in rows_of(args.program, name, directories[name], args.type, folder):
                print(f"| {' | '.join(row)} |", flush=True)


def rows_of(program, name, directory, matrix_type, folder):
    golden = fixtures.golden(directory)
    prompts = [golden[key].tolist()[:LONGEST] for key in ("p0.ids", "p1.ids", "p2.ids") if key in golden]
    if name in fixtures.ALL_NAMES:
        wanted = [golden[f"p{i}.greedy"].tolist() for i in range(len(prompts))]
        found = equal(witness(program, directory, matrix_type, prompts, folder), wanted)
        yield name, found, "transformers", ""
    changes = {name: (lambda config, weights: None, "")} if name in fixtures.LONG_NAMES else {}
    changes |= {f"{name}, varied": VARIANTS[name]} if name in VARIANTS else {}
    for title, (change, why) in changes.items():
        shutil.rmtree(folder / "variant", ignore_errors=True)
        vary(directory, folder / "variant", change)
        yield compared_with_numpy(program, title, folder / "variant", matrix_type, prompts, folder) + (why,)
    if name == "gpt_oss":
        shutil.rmtree(folder / "blocks", ignore_errors=True)
        mxfp4_dir.convert(folder / "variant", folder / "blocks")
        yield compared_with_numpy(
            program, "gpt_oss, varied, MXFP4", folder / "blocks", matrix_type, prompts, folder,
            types.SimpleNamespace(**vars(ops) | {"expert_matmul": eight_bit_expert_matmul})) + (
                why + "; activations of MXFP4 experts have 8 bits, so here too",)


def eight_bit_expert_matmul(x, matrices, experts, biases=None):
    """As llama.cpp meets four-bit weights: 32 values share a scale, which is stored in half."""
    codes, scales = ops.quantize_rows(x)
    x = codes * np.repeat(scales.astype(np.float16).astype(np.float64), 32, axis=-1)
    return ops.expert_matmul(x, matrices, experts, biases)


def compared_with_numpy(program, title, directory, matrix_type, prompts, folder, ops=ops):
    model = Model(directory, ops)
    wanted = [model.greedy(ids, fixtures.N_GREEDY) for ids in prompts]
    found = witness(program, directory, matrix_type, prompts, folder)
    return title, equal(found, wanted), "NumPy"


if __name__ == "__main__":
    main()
