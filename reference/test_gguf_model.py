"""A GGUF file, read by gguf_model.py, is the model that tests/tools/to_gguf.py wrote."""
import numpy as np
import pytest

from reference import fixtures, gguf_model
from reference.model import Model
from tests.tools import to_gguf


@pytest.fixture(scope="session")
def directories(tmp_path_factory):
    return fixtures.unpack(tmp_path_factory.mktemp("fixtures"))


@pytest.mark.parametrize("name,kind", [("llama", None), ("mistral", None), ("qwen2", "q8_0"),
                                       ("qwen3", "bf16"), ("gemma3", None)])
def test_gguf_model_is_the_same_model(directories, tmp_path, name, kind):
    """Written by one set of rules (tests/tools/to_gguf.py) and read by another."""
    weights, _ = to_gguf.convert(directories[name], tmp_path / "model.gguf", kind)
    model = Model(directories[name])
    model.weights.update({n.removeprefix("model."): value for n, value in weights.items()})
    ids = fixtures.golden(directories[name])["p1.ids"]
    read = gguf_model.load(tmp_path / "model.gguf")
    wanted, found = model.hidden_states(ids)[-1], read.hidden_states(ids)[-1]
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-6)  # epsilon is float32 in GGUF
