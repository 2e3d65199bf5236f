"""`ingot synth`: files of random weights, read by PyPI's gguf and safetensors.

What a file must hold (names, shapes, metadata) is what tests/tools/to_gguf.py writes for a fixture
of the same config; which types, what llama.cpp's quantiser is published to choose, as literals."""

import json
import pathlib
import shutil

import gguf
import numpy as np
import pytest
from safetensors.numpy import load_file

from reference import fixtures, ops, tensors
from tests import app_models
from tests.tools import to_gguf

NAMES = ["gpt2", "llama", "llama3_rope", "mistral", "mixtral", "qwen2", "qwen3", "qwen3_moe",
         "gemma3", "qwen3_next", "qwen3_5", "qwen3_5_moe", "olmo3", "smollm3"]
NO_GGUF = ["gpt_oss", "glm4_moe", "minimax_m2", "deepseek_v3", "deepseek_v32", "glm_moe_dsa"]
TYPES = ["f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1",
         "q2_k", "q3_k", "q4_k", "q5_k", "q6_k"]
CONFIGS = pathlib.Path(__file__).resolve().parent.parent / "bench" / "configs"

LLAMA = {
    "model_type": "llama", "vocab_size": 640, "hidden_size": 256, "intermediate_size": 768,
    "num_hidden_layers": 8, "num_attention_heads": 4, "num_key_value_heads": 2,
    "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "hidden_act": "silu",
    "rope_theta": 10000.0, "tie_word_embeddings": False}


@pytest.fixture(scope="session")
def directories(tmp_path_factory):
    return fixtures.unpack(tmp_path_factory.mktemp("fixtures"), names=fixtures.ALL_NAMES)


@pytest.fixture
def synth(run_ingot, tmp_path):
    """synth(config, *flags, name="m.gguf") -> the path of what was written."""

    def make(config, *flags, name="m.gguf"):
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps(config))
        done = run_ingot("synth", path, tmp_path / name, *flags)
        assert done.returncode == 0 and done.stdout == "", done.stderr
        return tmp_path / name

    return make


def dequantised(tensor):
    """float32 in the row-major shape."""
    shape = [int(n) for n in tensor.shape[::-1]]
    return gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32).reshape(shape)


def fields(path):
    reader = gguf.GGUFReader(str(path))
    values = {key: field.contents() for key, field in reader.fields.items() if field.data}
    return {key: value for key, value in values.items()
            if not key.startswith(("GGUF.", "general.name", "general.file_type", "general.quant"))}


def check_logits(run_ingot, model, tmp_path, vocab):
    (tmp_path / "ids.json").write_text(json.dumps([list(range(0, 90))]))
    out = tmp_path / "logits.safetensors"
    done = run_ingot("eval", "logits", model, "--tokens", tmp_path / "ids.json", "--out", out)
    assert done.returncode == 0, done.stderr
    logits = tensors.load(out)[0]["logits.0"]
    assert logits.shape == (90, vocab) and np.isfinite(logits).all()
    assert 0.05 < logits.std() < 20


# ---- as converters write --------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_same_tensors_and_keys_as_a_converted_fixture(run_ingot, directories, tmp_path, name):
    """Row-major shapes and metadata; keys of ours that others need not have are listed."""
    wanted = tmp_path / "wanted.gguf"
    to_gguf.convert(directories[name], wanted, no_vocab=True)
    made = tmp_path / "made.gguf"
    config = directories[name] / "config.json"
    done = run_ingot("synth", config, made, "--type", "f32")
    assert done.returncode == 0, done.stderr
    shapes = {t.name: t.shape.tolist() for t in gguf.GGUFReader(str(made)).tensors}
    if name == "gpt2":  # older readers want the tied head in the file
        assert shapes.pop("output.weight") == shapes["token_embd.weight"]
    assert shapes == {t.name: t.shape.tolist() for t in gguf.GGUFReader(str(wanted)).tensors}
    ours, theirs = fields(made), fields(wanted)
    extra = {key.split(".", 1)[1] for key in ours.keys() - theirs.keys()}
    assert extra <= {"attention.head_count_kv", "attention.key_length", "attention.value_length",
                     "rope.dimension_count", "rope.freq_base_swa", "attention.scale"}
    for key, value in theirs.items():
        if key.endswith(".feed_forward_length"):  # may be of a dense layer that is not there
            continue
        exact = isinstance(value, (str, list))
        assert ours[key] == (value if exact else pytest.approx(value, rel=1e-6)), key
    check_logits(run_ingot, made, tmp_path, json.loads(config.read_text())["vocab_size"])


@pytest.mark.parametrize("name", fixtures.ALL_NAMES)
def test_directory(run_ingot, directories, tmp_path, name):
    """The fixture's tensors, in the type asked for; MTP heads alone are left out."""
    out = tmp_path / "made"
    done = run_ingot("synth", directories[name] / "config.json", out, "--type", "f16")
    assert done.returncode == 0 and done.stdout == "", done.stderr
    assert sorted(p.name for p in out.iterdir()) == ["config.json", "model.safetensors"]
    config = json.loads((out / "config.json").read_text())
    made = load_file(out / "model.safetensors")
    assert {value.dtype for value in made.values()} == {np.dtype(np.float16)}
    wanted, _ = tensors.load(directories[name] / "model.safetensors")
    layers = config.get("num_hidden_layers", 1 << 20)
    heads = ("mtp.", f"model.layers.{layers}.", f"model.layers.{layers + 1}.")
    wanted = {n: v.shape for n, v in wanted.items() if not n.startswith(heads)}
    if name != "gpt_oss":  # the fixture's experts are in 4-bit blocks
        assert {n: v.shape for n, v in made.items()} == wanted
    check_logits(run_ingot, out, tmp_path, config["vocab_size"])


# ---- values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", TYPES)
def test_values(run_ingot, synth, tmp_path, kind):
    """Mean 0, deviation 1 / sqrt(columns), by gguf's own dequantiser; norms near 1."""
    model = synth(LLAMA, "--type", kind)
    assert fields(model)["tokenizer.ggml.model"] == "no_vocab"
    unit = []  # values over their deviation
    for tensor in gguf.GGUFReader(str(model)).tensors:
        values = dequantised(tensor)
        assert np.isfinite(values).all()
        if "norm" in tensor.name:
            assert tensor.tensor_type.name == "F32" and abs(values - 1).max() <= 0.05
            continue
        assert tensor.tensor_type.name == kind.upper(), tensor.name
        # Groups of up to 256 share a scale, which differs by a seventh from group to group.
        noise = 1 / np.sqrt(values.size / 256)
        unit.append(values.reshape(-1) * np.sqrt(values.shape[1]))
        assert unit[-1].std() == pytest.approx(1, abs=0.6 * noise), tensor.name
        assert abs(unit[-1].mean()) < 0.6 * noise, tensor.name
        assert len(np.unique(values)) > 100 and not (values[0] == values[1]).all()
    assert np.concatenate(unit).std() == pytest.approx(1, abs=0.01)
    assert abs(np.concatenate(unit).mean()) < 0.005
    check_logits(run_ingot, model, tmp_path, LLAMA["vocab_size"])


def test_the_seed_decides(synth, tmp_path):
    first = synth(LLAMA, "--seed", 7, name="a.gguf").read_bytes()
    assert synth(LLAMA, "--seed", 7, name="b.gguf").read_bytes() == first
    assert synth(LLAMA, "--seed", 8, name="c.gguf").read_bytes() != first
    assert synth(LLAMA, name="d.gguf").read_bytes() == synth(LLAMA, "--seed", 0, name="e.gguf").read_bytes()


def test_a_tensor_does_not_depend_on_the_others(synth):
    """The same layer in a model of fewer layers has the same weights."""
    def layer(path):
        return {t.name: t.data.tobytes() for t in gguf.GGUFReader(str(path)).tensors
                if t.name.startswith("blk.1.")}

    shallow = synth(LLAMA | {"num_hidden_layers": 2}, "--type", "q6_k", name="a.gguf")
    assert layer(shallow) == layer(synth(LLAMA, "--type", "q6_k", name="b.gguf"))


def test_a_head_stored_twice_is_the_embedding(synth):
    """gpt2's, for readers that want output.weight."""
    path = synth({"model_type": "gpt2", "vocab_size": 640, "n_embd": 64, "n_head": 4, "n_layer": 1,
                  "n_positions": 128}, "--type", "f16")
    data = {t.name: t.data for t in gguf.GGUFReader(str(path)).tensors}
    assert (data["output.weight"] == data["token_embd.weight"]).all()


def test_rope_divisors(synth):
    """llama3's scaling of each frequency, as the formulas of reference/ops.py give it."""
    scaling = {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 8192}
    path = synth(LLAMA | {"rope_theta": 500000.0, "rope_scaling": scaling,
                          "max_position_embeddings": 131072})
    made = next(t for t in gguf.GGUFReader(str(path)).tensors if t.name == "rope_freqs.weight")
    plain = ops.inv_freq_default(500000.0, 64)
    wanted = plain / ops.inv_freq_llama3(plain, 32.0, 1.0, 4.0, 8192)
    assert made.tensor_type.name == "F32" and np.allclose(made.data, wanted, rtol=1e-6)


def test_chunks_leave_no_seam(synth):
    """A tensor of more than one chunk: no two rows are alike."""
    path = synth(LLAMA | {"vocab_size": 20000, "num_hidden_layers": 1}, "--type", "q8_0")
    embed = next(t for t in gguf.GGUFReader(str(path)).tensors if t.name == "token_embd.weight")
    assert embed.data.nbytes > 5 << 20
    assert len({row.tobytes() for row in embed.data}) == 20000


# ---- mixtures -------------------------------------------------------------------------------------

# Of 8 layers, those that get more bits in the _m mixtures: the first and last eighth, and every
# third between.
MORE = {0, 3, 6, 7}


def types_by_layer(path):
    """{part: [type of layer 0, 1, ...]}; tensors outside layers: {name: type}."""
    out = {}
    for tensor in gguf.GGUFReader(str(path)).tensors:
        if tensor.name.startswith("blk."):
            out.setdefault(tensor.name.split(".", 2)[2].removesuffix(".weight"), []).append(
                tensor.tensor_type.name)
        else:
            out[tensor.name.removesuffix(".weight")] = tensor.tensor_type.name
    return out


def more(usual, lifted, layers=MORE):
    return [lifted if i in layers else usual for i in range(8)]


@pytest.mark.parametrize("kind, usual, values, down, attention_output", [
    ("q3_k_s", "Q3_K", ["Q3_K"] * 8, ["Q3_K"] * 8, "Q3_K"),
    ("q3_k_m", "Q3_K", more("Q4_K", "Q5_K", {0, 1}), ["Q4_K"] * 8, "Q4_K"),
    ("q3_k_l", "Q3_K", ["Q5_K"] * 8, ["Q5_K"] * 8, "Q5_K"),
    ("q4_k_s", "Q4_K", more("Q4_K", "Q5_K", {0, 1, 2, 3}), more("Q4_K", "Q5_K", {0}), "Q4_K"),
    ("q4_k_m", "Q4_K", more("Q4_K", "Q6_K"), more("Q4_K", "Q6_K"), "Q4_K"),
    ("Q5_K_S", "Q5_K", ["Q5_K"] * 8, ["Q5_K"] * 8, "Q5_K"),
    ("q5_k_m", "Q5_K", more("Q5_K", "Q6_K"), more("Q5_K", "Q6_K"), "Q5_K"),
])
def test_mixtures(synth, kind, usual, values, down, attention_output):
    types = types_by_layer(synth(LLAMA, "--type", kind))
    assert types["attn_v"] == values and types["ffn_down"] == down
    assert types["attn_output"] == [attention_output] * 8
    for part in ["attn_q", "attn_k", "ffn_gate", "ffn_up"]:
        assert types[part] == [usual] * 8
    assert types["token_embd"] == usual and types["output"] == "Q6_K"
    tied = types_by_layer(synth(LLAMA | {"tie_word_embeddings": True}, "--type", kind))
    assert tied["token_embd"] == "Q6_K" and "output" not in tied


def test_rows_that_do_not_fit(synth):
    """Types of smaller groups stand in; 16-bit floats where none fits."""
    odd = LLAMA | {"hidden_size": 288, "head_dim": 64, "intermediate_size": 520}
    types = types_by_layer(synth(odd, "--type", "q4_k_m"))
    assert types["attn_v"] == more("Q5_0", "Q8_0") and types["attn_q"] == ["Q5_0"] * 8
    assert types["attn_output"] == ["Q4_K"] * 8  # 256 columns
    assert types["ffn_down"] == ["F16"] * 8
    assert types["token_embd"] == "Q5_0" and types["output"] == "Q8_0"
    for kind, instead in {"q5_k": "Q5_1", "q6_k": "Q8_0", "q2_k": "Q4_0", "q3_k": "Q4_0"}.items():
        assert types_by_layer(synth(odd, "--type", kind))["attn_q"] == [instead] * 8


def test_experts(run_ingot, synth, tmp_path):
    """Routers stay float32; of eight experts, values and keys get 8 bits."""
    moe = LLAMA | {"model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2}
    model = synth(moe, "--type", "q4_k_m")
    types = types_by_layer(model)
    assert types["attn_v"] == types["attn_k"] == ["Q8_0"] * 8
    assert types["attn_output"] == ["Q5_K"] * 8
    assert types["ffn_gate_inp"] == ["F32"] * 8 and types["ffn_up_exps"] == ["Q4_K"] * 8
    assert types["ffn_down_exps"] == more("Q4_K", "Q6_K")
    check_logits(run_ingot, model, tmp_path, moe["vocab_size"])


# ---- published shapes -----------------------------------------------------------------------------

# Weights of the models that the configs name, as published (billions, embedding once).
PUBLISHED = {"gpt2-124m": 0.1244, "qwen3-0.6b": 0.596, "llama-3.2-1b": 1.236, "qwen3-4b": 4.02}


@pytest.mark.parametrize("name", ["gpt2-124m", "qwen3-0.6b"])
def test_published_shapes(run_ingot, tmp_path, name):
    out = tmp_path / "m.gguf"
    done = run_ingot("synth", CONFIGS / f"{name}.json", out, "--type", "q4_0")
    assert done.returncode == 0, done.stderr
    n = sum(int(t.n_elements) for t in gguf.GGUFReader(str(out)).tensors if t.name != "output.weight")
    assert n / 1e9 == pytest.approx(PUBLISHED[name], rel=0.002)
    out.unlink()


# ---- what is refused ------------------------------------------------------------------------------


def refused(done, code, *words):
    assert done.returncode == code and done.stdout == ""
    assert done.stderr.startswith("ingot: ") and len(done.stderr.splitlines()) <= 2
    for word in words:
        assert word in done.stderr, done.stderr


def test_errors(run_ingot, tmp_path):
    config = tmp_path / "c.json"
    config.write_text(json.dumps(LLAMA))
    out = tmp_path / "m.gguf"
    refused(run_ingot("synth", config, out, "--type", "q4_x"), 2, "--type is 'q4_x'", "q4_k_m")
    refused(run_ingot("synth", config, tmp_path / "d", "--type", "q4_k"), 2, "f32, f16 or bf16")
    refused(run_ingot("synth", config), 2, "OUT")
    refused(run_ingot("synth", config, out, "--seed", "x"), 2, "seed")
    refused(run_ingot("synth", tmp_path / "none.json", out), 1, "none.json", "opened")
    refused(run_ingot("synth", config, tmp_path / "none" / "m.gguf"), 1, "m.gguf")
    full = tmp_path / "full"
    full.mkdir()
    (full / "kept").write_text("")
    refused(run_ingot("synth", config, full), 1, "full", "new directory")
    (tmp_path / "empty").mkdir()
    assert run_ingot("synth", config, tmp_path / "empty").returncode == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["c.json", "empty", "full"]


@pytest.mark.parametrize("change, words", [
    ({"model_type": "mamba9"}, ["model_type", "mamba9"]),
    ({"hidden_size": None}, ["hidden_size"]),
    ({"num_key_value_heads": 3}, ["num_key_value_heads"]),
    ({"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}, ["rope_type", "dynamic"]),
    ({"model_type": "qwen2", "layer_types": ["sliding_attention"] + ["full_attention"] * 7,
      "sliding_window": 64}, ["window", "qwen2"]),
])
def test_refused_configs(run_ingot, tmp_path, change, words):
    config = tmp_path / "c.json"
    config.write_text(json.dumps({k: v for k, v in (LLAMA | change).items() if v is not None}))
    refused(run_ingot("synth", config, tmp_path / "m.gguf"), 1, "c.json", *words)
    assert not (tmp_path / "m.gguf").exists()


@pytest.mark.parametrize("name", NO_GGUF)
def test_families_without_gguf(run_ingot, directories, tmp_path, name):
    done = run_ingot("synth", directories[name] / "config.json", tmp_path / "m.gguf")
    refused(done, 1, "model_type", json.loads((directories[name] / "config.json").read_text())["model_type"],
            "directory")


def test_broken_json(run_ingot, tmp_path):
    config = tmp_path / "c.json"
    config.write_text('{"model_type": ')
    refused(run_ingot("synth", config, tmp_path / "m.gguf"), 1, "c.json")


def test_full_disk(run_ingot, tmp_path):
    with app_models.tiny_disk(256) as disk:
        config = tmp_path / "c.json"
        config.write_text(json.dumps(LLAMA))
        for out in [disk / "m.gguf", disk / "d"]:
            refused(run_ingot("synth", config, out), 1, str(out), "space")
        assert list(disk.iterdir()) == []


def test_a_quantised_config_becomes_plain(run_ingot, directories, tmp_path):
    """The written config says nothing of a quantisation that the weights do not have."""
    config = json.loads((directories["llama"] / "config.json").read_text())
    config["quantization"] = {"group_size": 64, "bits": 4}
    source = tmp_path / "c.json"
    source.write_text(json.dumps(config))
    done = run_ingot("synth", source, tmp_path / "d")
    assert done.returncode == 0, done.stderr
    assert "quantization" not in json.loads((tmp_path / "d" / "config.json").read_text())
    check_logits(run_ingot, tmp_path / "d", tmp_path, config["vocab_size"])
    shutil.rmtree(tmp_path / "d")
