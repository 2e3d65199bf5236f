"""Nothing depends on the fixtures' sizes: random shapes and options of each family, the program
against NumPy, as a directory and as GGUF, whole and in pieces."""

import json
import types

import numpy as np
import pytest

from reference import ops
from reference.model import Model
from tests import parity
from tests.tools import random_model, to_gguf

SEEDS = range(20261201, 20261205)
N_TOKENS = 90  # past a page
# Float32 against float64; the fixtures' own noise is 1e-4, delta rule 6e-4.
TOLERANCE = 1e-3
# Of what is chosen over what is not, in experts and keys: nearer, and float32 may choose otherwise.
MARGIN = 1e-5


class Margins:
    """Ops that remember the closest call of any choice of experts or keys."""

    def __init__(self):
        self.least = np.inf
        self.module = types.SimpleNamespace(
            **vars(ops) | {"route": self.route, "select_keys": self.select_keys})

    def note(self, ranks, chosen):
        lead = np.where(chosen, ranks, np.inf).min(axis=1) - np.where(chosen, -np.inf, ranks).max(axis=1)
        self.least = min(self.least, lead[np.isfinite(lead)].min(initial=np.inf))

    def route(self, logits, n_used, score="softmax", bias=None, n_groups=1, n_groups_used=1, **more):
        experts, weights = ops.route(logits, n_used, score, bias, n_groups, n_groups_used, **more)
        ranks = ops.sigmoid(logits) if score == "sigmoid" else ops.softmax(logits)
        ranks = ranks if bias is None else ranks + bias
        grouped = ranks.reshape(len(ranks), n_groups, -1)
        kept = np.zeros(grouped.shape[:2], bool)
        sums = np.sort(grouped, axis=2)[:, :, -2:].sum(axis=2)
        np.put_along_axis(kept, np.argsort(-sums, axis=1, kind="stable")[:, :n_groups_used], True, axis=1)
        self.note(sums, kept)
        chosen = np.zeros(ranks.shape, bool)
        np.put_along_axis(chosen, experts.astype(np.int64), True, axis=1)
        open_to = np.repeat(kept, grouped.shape[2], axis=1)
        self.note(np.where(open_to, ranks, -np.inf), chosen)
        return experts, weights

    def select_keys(self, q, k, weights, positions, key_positions, n_heads, top_k, scale):
        chosen = ops.select_keys(q, k, weights, positions, key_positions, n_heads, top_k, scale)
        products = np.matmul(q.reshape(len(q), n_heads, -1), k.T) * scale
        scores = (weights[:, :, None] * np.maximum(products, 0)).sum(axis=1)
        before = key_positions[None, :] <= positions[:, None]
        self.note(np.where(before, scores, -np.inf), chosen)
        return chosen


def clear_model(rng, config, directory, values_of):
    """Writes weights, drawn again until no choice is a close call; returns values_of the model."""
    for _ in range(100):
        random_model.write(rng, config, directory)
        margins = Margins()
        values = values_of(Model(directory, margins.module))
        if margins.least > MARGIN:
            return values
    raise AssertionError("every draw of weights has a choice on the edge")


def check(ingot, path, prompts, wanted, folder):
    whole = parity.eval_logits(ingot, path, prompts, folder, *parity.F32)
    pieces = parity.eval_logits(ingot, path, prompts, folder, *parity.F32, "--chunk", 7)
    assert parity.same_bits(whole, pieces) == []
    assert whole.keys() == wanted.keys()
    errors = {key: float(np.abs(whole[key] - wanted[key]).max()) for key in wanted}
    assert not {key: e for key, e in errors.items() if not e < TOLERANCE}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("family", random_model.FAMILIES)
def test_random_shape(ingot, tmp_path, family, seed):
    rng = np.random.default_rng([seed, random_model.FAMILIES.index(family)])
    config = random_model.config(rng, family)
    print(seed, json.dumps(config))
    prompts = [rng.integers(3, config["vocab_size"], n).tolist() for n in (1, N_TOKENS)]
    wanted = clear_model(rng, config, tmp_path / "model", lambda model: parity.numpy_values(model, prompts))
    check(ingot, tmp_path / "model", prompts, wanted, tmp_path)
    to_gguf.convert(tmp_path / "model", tmp_path / "model.gguf")
    check(ingot, tmp_path / "model.gguf", prompts, wanted, tmp_path)


MTP_FAMILIES = ["qwen3_next", "qwen3_5_text", "qwen3_5_moe_text", "glm4_moe", "deepseek_v3", "deepseek_v32",
                "glm_moe_dsa"]


@pytest.mark.parametrize("seed", SEEDS[:2])
@pytest.mark.parametrize("family", MTP_FAMILIES)
def test_random_mtp_head(ingot, tmp_path, family, seed):
    """Rows and chained drafts of a head of each style, with an embedding and a head of its own
    where the style may have them."""
    rng = np.random.default_rng([seed, MTP_FAMILIES.index(family), 1])
    config = random_model.config(rng, family)
    config["mtp_num_hidden_layers" if family.startswith("qwen") else "num_nextn_predict_layers"] = 1
    print(seed, json.dumps(config))
    prompt = rng.integers(3, config["vocab_size"], N_TOKENS).tolist()
    wanted = clear_model(rng, config, tmp_path / "model", lambda model: parity.numpy_mtp(model, prompt))
    to_gguf.convert(tmp_path / "model", tmp_path / "model.gguf")
    for path in (tmp_path / "model", tmp_path / "model.gguf"):
        found = [parity.eval_logits(ingot, path, [prompt], tmp_path, "--mtp", *parity.F32, *flags)
                 for flags in ((), ("--chunk", 7))]
        assert parity.same_bits(*found) == []
        assert found[0]["mtp.draft.0"].tolist() == wanted["draft"]
        for kind in ("logits", "draft_logits"):
            assert np.abs(found[0][f"mtp.{kind}.0"] - wanted[kind]).max() < TOLERANCE, kind
