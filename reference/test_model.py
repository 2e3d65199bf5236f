"""model.py and mtp.py against transformers' outputs."""
import numpy as np
import pytest

from reference import fixtures
from reference.model import Model
from reference.mtp import Mtp

# Float64 against transformers' float32, which is all of the difference: its noise, as
# golden.json states it, is at most 1e-4 in the logits (delta rule: 6e-4).
LOGITS_TOLERANCE = 1.5e-4


@pytest.fixture(scope="session")
def directories(tmp_path_factory):
    return fixtures.unpack(tmp_path_factory.mktemp("fixtures"), names=fixtures.ALL_NAMES)


@pytest.fixture(scope="session")
def long_directories(tmp_path_factory):
    return fixtures.unpack_long(tmp_path_factory.mktemp("long"))


@pytest.mark.parametrize("name", fixtures.ALL_NAMES)
def test_hidden_states_and_logits(directories, name):
    golden, model = fixtures.golden(directories[name]), Model(directories[name])
    slack = fixtures.tolerance(name) / fixtures.TOLERANCE
    for i in range(fixtures.N_PROMPTS):
        states = model.hidden_states(golden[f"p{i}.ids"])
        wanted = golden[f"p{i}.logits"]
        error = np.abs(model.logits(states[-1])[-len(wanted):] - wanted).max()
        assert error < LOGITS_TOLERANCE * slack
        for j, state in enumerate(states if i == 1 else []):
            assert np.abs(state - golden[f"p1.hidden{j}"]).max() < fixtures.tolerance(name)


@pytest.mark.parametrize("prompt", range(fixtures.N_PROMPTS))
@pytest.mark.parametrize("name", fixtures.ALL_NAMES)
def test_greedy_tokens(directories, name, prompt):
    """One pass over prompt and answer: the choice after each token is the next one."""
    golden = fixtures.golden(directories[name])
    ids, wanted = golden[f"p{prompt}.ids"], golden[f"p{prompt}.greedy"]
    model = Model(directories[name])
    states = model.hidden_states(np.concatenate([ids, wanted[:-1]]))
    logits = model.logits(states[-1][-fixtures.N_GREEDY:])
    assert [model.ops.argmax(row) for row in logits] == wanted.tolist()


@pytest.mark.parametrize("name", ["llama", "qwen3_5", "deepseek_v32"])
def test_greedy_one_by_one(directories, name):
    golden = fixtures.golden(directories[name])
    tokens = Model(directories[name]).greedy(golden["p1.ids"], 4)
    assert tokens == golden["p1.greedy"][:4].tolist()


@pytest.mark.parametrize("name", fixtures.LONG_NAMES)
def test_long_positions(long_directories, name):
    check_long(long_directories[name], "p0")


@pytest.mark.long
@pytest.mark.parametrize("name", fixtures.LONG_NAMES)
def test_16384_positions(long_directories, name):
    check_long(long_directories[name], "p1")


def check_long(directory, prompt):
    golden, model = fixtures.golden(directory), Model(directory)
    wanted = golden[f"{prompt}.logits"]
    found = model.logits(model.hidden_states(golden[f"{prompt}.ids"])[-1][-len(wanted):])
    assert np.abs(found - wanted).max() < fixtures.LONG_TOLERANCE


def test_context_chooses_longrope(long_directories):
    """A model loaded for more than the original positions takes the long factors at once."""
    directory = long_directories["long_longrope"]
    ids = fixtures.golden(directory)["p0.ids"][:40]
    short = Model(directory).hidden_states(ids)[-1]
    long = Model(directory, context=16384).hidden_states(ids)[-1]
    assert np.abs(short - long).max() > 0.1


# ---- the MTP head --------------------------------------------------------------------------


def head_of(directory):
    golden, model = fixtures.golden(directory), Model(directory)
    tokens = np.append(golden["p1.ids"][1:], golden["p1.greedy"][0])
    return golden, model, Mtp(model), tokens


def test_mtp_logits_and_drafts(directories):
    golden, model, head, tokens = head_of(directories["qwen3_5_mtp"])
    inputs = head.inputs(tokens, model.hidden_states(golden["p1.ids"])[-1])
    logits, _ = head.rows(inputs)
    assert np.abs(logits - golden["p1.mtp.logits"]).max() < fixtures.DELTA_RULE_TOLERANCE
    drafts, logits = head.drafts(inputs, 3)  # the first is what the last row above predicts
    assert drafts == golden["p1.mtp.draft"].tolist()
    assert np.abs(logits - golden["p1.mtp.draft_logits"]).max() < fixtures.DELTA_RULE_TOLERANCE


def test_mtp_reads_the_normed_state(directories):
    """The mistake that acceptance does not show (the README of hybrid-40m)."""
    golden, model, head, tokens = head_of(directories["qwen3_5_mtp"])
    hidden = model.hidden_states(golden["p1.ids"])
    raw = model.layer(hidden[-2], f"layers.{len(hidden) - 2}.", "full_attention")
    logits, _ = head.rows(head.inputs(tokens, raw))
    assert np.abs(logits - golden["p1.mtp.logits"]).max() > fixtures.DELTA_RULE_TOLERANCE
