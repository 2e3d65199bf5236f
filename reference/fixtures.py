"""The tiny checkpoints of tests/data/fixtures.tar.xz with the outputs of transformers.

One directory a model: config.json, model.safetensors and golden.safetensors (transformers
5.17, fp32, eager attention).  Prompts p0, p1, p2 have 5, 33 and 100 tokens; keys are
p<i>.ids, .logits (p1: the last 12 rows, p2: the last 4), .greedy [32], .greedy_gap, and
p1.hidden0 ... 4; of qwen3_5_mtp also p1.mtp.logits, .draft and .draft_logits.  What
transformers gave of p1's other rows was left out for its size: the last hidden state, of which
logits are a product, is there for all of them.
"""
import pathlib
import tarfile

from reference import tensors

ARCHIVE = pathlib.Path(__file__).parents[1] / "tests" / "data" / "fixtures.tar.xz"
# One attention and one MLP a layer: for tests that take weights or sizes by those names.
NAMES = ["gpt2", "llama", "llama3_rope", "mistral", "qwen2", "qwen3", "gemma3"]
# All of the archive: a family joins every test of parity by standing here.
ALL_NAMES = NAMES + [
    "qwen3_moe", "mixtral", "gpt_oss", "glm4_moe", "minimax_m2", "qwen3_next", "qwen3_5",
    "qwen3_5_moe", "qwen3_5_mtp", "deepseek_v3", "deepseek_v32", "glm_moe_dsa", "olmo3", "smollm3"]
DELTA_RULE = ["qwen3_next", "qwen3_5", "qwen3_5_moe", "qwen3_5_mtp"]
N_PROMPTS = 3
N_GREEDY = 32

# The models' own float32 noise is at most 7e-5 (golden.json); three programs that each carry
# it, summed in another order, stay within 3e-4.  The gap of every greedy step is 0.02 or more.
TOLERANCE = 3e-4
# transformers' two ways through the delta rule (chunks, steps) differ by up to 6e-4.
DELTA_RULE_TOLERANCE = 2e-3

# Scaled frequencies, windows of 512 and the delta rule at 3,000 (p0) and 16,384 (p1) positions:
# p<i>.ids and the logits of the last 4.  An ulp of a frequency is an angle by then:
# transformers' own float32 and float64 differ by 1.7e-4 here.
LONG_ARCHIVE = ARCHIVE.with_name("fixtures_long.tar.xz")
LONG_NAMES = ["long_linear", "long_llama3", "long_window", "long_yarn", "long_longrope", "long_hybrid"]
LONG_TOLERANCE = 1e-3


def tolerance(name):
    """Of three programs that each compute in float32, or better."""
    return DELTA_RULE_TOLERANCE if name in DELTA_RULE else TOLERANCE


def unpack(directory, archive=ARCHIVE, names=None):
    """{name: its directory} under `directory`, of NAMES or of `names`."""
    names = names or NAMES
    with tarfile.open(archive) as opened:  # ours; Debian 12's 3.11.2 has no filters yet
        wanted = [m for m in opened.getmembers() if m.name.split("/")[0] in names]
        opened.extractall(directory, wanted)
    return {name: pathlib.Path(directory) / name for name in names}


def unpack_long(directory, names=None):
    return unpack(directory, LONG_ARCHIVE, names or LONG_NAMES)


def golden(directory):
    return tensors.load(directory / "golden.safetensors")[0]
