"""The tiny checkpoints of tests/data/fixtures.tar.xz with the outputs of transformers.

One directory a model: config.json, model.safetensors and golden.safetensors (transformers
5.17, fp32, eager attention).  Prompts p0, p1, p2 have 5, 33 and 100 tokens; keys are
p<i>.ids, .logits (p2: the last 4 rows), .greedy [32], .greedy_gap, and p1.hidden0 ... 4.
"""
import pathlib
import tarfile

from reference import tensors

ARCHIVE = pathlib.Path(__file__).parents[1] / "tests" / "data" / "fixtures.tar.xz"
NAMES = ["gpt2", "llama", "llama3_rope", "mistral", "qwen2", "qwen3", "gemma3"]
N_PROMPTS = 3
N_GREEDY = 32

# The models' own float32 noise is at most 7e-5 (golden.json); three programs that each carry
# it, summed in another order, stay within 3e-4.  The gap of every greedy step is 0.02 or more.
TOLERANCE = 3e-4


# Linear and llama-3 scaling and windows of 512 at 3,000 positions: p0.ids and the logits of the
# last 4.  An ulp of a frequency is an angle by then: transformers' own float32 and float64 differ
# by 1.7e-4 here.
LONG_ARCHIVE = ARCHIVE.with_name("fixtures_long.tar.xz")
LONG_NAMES = ["long_linear", "long_llama3", "long_window"]
LONG_TOLERANCE = 1e-3


def unpack(directory, archive=ARCHIVE, names=None):
    """{name: its directory} under `directory`."""
    with tarfile.open(archive) as opened:
        opened.extractall(directory)  # ours; Debian 12's 3.11.2 has no filters yet
    return {name: pathlib.Path(directory) / name for name in names or NAMES}


def unpack_long(directory):
    return unpack(directory, LONG_ARCHIVE, LONG_NAMES)


def golden(directory):
    return tensors.load(directory / "golden.safetensors")[0]
