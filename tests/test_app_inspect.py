"""`ingot inspect` and `ingot doctor`: what they say is counted here again, from the files."""

import json

import numpy as np
import pytest

from reference import fixtures, tensors
from tests import app_models
from tests.tools import to_gguf

KV_BYTES = {"f16": 2, "bf16": 2, "f32": 4, "q8": 1}


@pytest.fixture(scope="session")
def directories(tmp_path_factory):
    return fixtures.unpack(tmp_path_factory.mktemp("fixtures"))


def inspect(run_ingot, model, *flags):
    done = run_ingot("inspect", model, *flags)
    assert done.returncode == 0, done.stderr
    return done.stdout


def heads_of(config):
    if config["model_type"] == "gpt2":
        return config["n_layer"], config["n_head"], config["n_embd"] // config["n_head"]
    head_dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    return config["num_hidden_layers"], config["num_key_value_heads"], head_dim


@pytest.mark.parametrize("name", fixtures.NAMES)
def test_counts_equal_the_files(run_ingot, directories, name):
    config = json.loads((directories[name] / "config.json").read_text())
    stored, _ = tensors.load(directories[name] / "model.safetensors")
    types = {n: t.upper() for n, t in
             to_gguf.stored_types(directories[name] / "model.safetensors").items()}
    sizes = {"F32": 4, "F16": 2, "BF16": 2}
    found = json.loads(inspect(run_ingot, directories[name], "--json", "--tensors", "-c", 130))
    assert found["parameters"]["total"] == sum(t.size for t in stored.values())
    stored_bytes = sum(t.size * sizes[types[n]] for n, t in stored.items())
    assert found["weights"]["bytes"] == stored_bytes
    assert abs(sum(t["share"] for t in found["weights"]["by_dtype"]) - 1) < 1e-9
    assert {t["name"]: tuple(t["shape"]) for t in found["tensors"]} == {
        n: t.shape for n, t in stored.items()}
    assert {t["name"]: t["dtype"].upper() for t in found["tensors"]} == types
    assert len(found["recipe"]["layers"]) == heads_of(config)[0]
    n_layers, kv_heads, head_dim = heads_of(config)
    for kv_type, plan in found["memory"]["state"].items():
        scales = 2 * kv_heads * 4 if kv_type == "q8" else 0
        per_token = n_layers * (2 * kv_heads * head_dim * KV_BYTES[kv_type] + scales)
        assert plan["bytes_per_token"] == per_token
        assert plan["bytes"] == per_token * 192, "three pages of 64 hold 130 tokens"
    assert found["tokenizer"] is None and found["chat_template"] is None
    assert found["stop_ids"] == [2]


def test_recipe_is_told_in_words(run_ingot, directories):
    text = inspect(run_ingot, directories["gemma3"])
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert any(line.startswith("layers 0-2: attention: 4 heads of 16 over 2 KV heads, window 16, "
                               "rope theta 10000") for line in lines), text
    assert any(line.startswith("layer 3: attention: 4 heads of 16 over 2 KV heads, all positions, "
                               "rope theta 1000000") for line in lines), text
    assert "MLP: gated gelu (tanh) 160" in text
    assert "head tied to the embedding" in lines
    llama3 = inspect(run_ingot, directories["llama3_rope"])
    assert "llama3 scaling by 8 (low 1, high 4, original context 64)" in llama3
    assert "'lm_head.weight'" in llama3
    gpt2 = inspect(run_ingot, directories["gpt2"])
    assert "no rope" in gpt2 and "plus learned positions" in gpt2 and "layer norm" in gpt2
    assert "q/k/v bias" in inspect(run_ingot, directories["qwen2"])
    assert "queries and keys normed" in inspect(run_ingot, directories["qwen3"])


MIXERS = {  # what inspect says of each family's layers, besides the MLP that all can have
    "qwen3_moe": ["experts: "], "mixtral": ["experts: "], "gpt_oss": ["sinks", "experts: "],
    "glm4_moe": ["experts: ", "sigmoid routing"], "minimax_m2": ["experts: ", "normed whole"],
    "qwen3_next": ["gated delta rule: ", "gated", "one shared of "],
    "qwen3_5": ["gated delta rule: "], "qwen3_5_moe": ["gated delta rule: ", "experts: "],
    "qwen3_5_mtp": ["MTP head"], "deepseek_v3": ["latent attention: ", "sigmoid routing within"],
    "deepseek_v32": ["latent attention: ", "sparse index: "],
    "glm_moe_dsa": ["latent attention: ", "sparse index: "],
    "olmo3": ["norms after both, none before"], "smollm3": ["no rope"]}


@pytest.fixture(scope="session")
def all_directories(tmp_path_factory):
    return fixtures.unpack(tmp_path_factory.mktemp("all_fixtures"), names=fixtures.ALL_NAMES)


@pytest.mark.parametrize("name", fixtures.ALL_NAMES)
def test_recipe_of_every_family_reads_back(run_ingot, all_directories, tmp_path, name):
    """What inspect --json prints, as recipe.json, is the recipe itself."""
    model = app_models.copy_model(all_directories[name], tmp_path / "model")
    found = json.loads(inspect(run_ingot, model, "--json"))
    assert "recipe_changes" not in found
    stored, _ = tensors.load(model / "model.safetensors")
    assert found["parameters"]["total"] == sum(t.size for t in stored.values())
    text = inspect(run_ingot, model)
    for words in MIXERS.get(name, ["attention: "]):
        assert words in text, text
    (model / "recipe.json").write_text(json.dumps(found["recipe"]))
    again = json.loads(inspect(run_ingot, model, "--json"))
    assert again["recipe"] == found["recipe"] and again["recipe_changes"] == []
    assert "recipe.json the same as the derived recipe" in " ".join(
        inspect(run_ingot, model).split())


def greedy(run_ingot, model):
    prompt = json.dumps([1 + 7 * i % 200 for i in range(40)])
    done = run_ingot("run", model, "--tokens", prompt, "--temp", 0, "-n", 16, "--ignore-eos",
                     "--act", "f32", "--kv-type", "f32", "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["tokens"]


def test_recipe_json_changes_what_runs(run_ingot, directories, tmp_path):
    """A window taken away by recipe.json is a window taken away in config.json."""
    by_recipe = app_models.copy_model(directories["gemma3"], tmp_path / "by_recipe")
    by_config = app_models.copy_model(directories["gemma3"], tmp_path / "by_config")
    config = json.loads((by_config / "config.json").read_text())
    config["sliding_window"] = 2
    (by_config / "config.json").write_text(json.dumps(config))
    before = greedy(run_ingot, by_recipe)
    (by_recipe / "recipe.json").write_text('{"layers": {"0-2": {"mixer": {"window": 2}}}}')
    assert greedy(run_ingot, by_recipe) == greedy(run_ingot, by_config) != before
    lines = [" ".join(line.split()) for line in inspect(run_ingot, by_recipe).splitlines()]
    at = lines.index("recipe.json changes 1 field:")
    assert lines[at + 1] == "layers[0-2].mixer.window: 16 -> 2"
    assert json.loads(inspect(run_ingot, by_recipe, "--json"))["recipe_changes"] == [
        {"field": "layers[0-2].mixer.window", "derived": "16", "now": "2"}]


@pytest.mark.parametrize("text, message", [
    ('{"ropes": [{"attention_factor": "big"}]}',
     "field 'ropes[0].attention_factor' is \"big\", wanted a number from 0.001 to 1000"),
    ('{"layers": {"1": {"mixer": {"rope": 7}}}}',
     "field 'layers[1].mixer.rope' is 7, wanted -1 to 1"),
    ('{"layers": {"1": {"mixer": {"n_heads": 3}}}}',
     "field 'layers[1].mixer.n_kv_heads' is 2, wanted a number that divides 3 heads"),
    ('{"hidden_sise": 64}', "field 'hidden_sise' is not known here"),
    ('{"ropes": ', "no strict JSON at byte 11"),
])
def test_wrong_recipe_json_is_refused(run_ingot, directories, tmp_path, text, message):
    model = app_models.copy_model(directories["gemma3"], tmp_path / "model")
    (model / "recipe.json").write_text(text)
    for command in [["inspect"], ["run", "--tokens", "[1]"]]:
        done = run_ingot(command[0], model, *command[1:])
        assert done.returncode == 1 and done.stdout == ""
        assert f"{model / 'recipe.json'}: {message}" in done.stderr, done.stderr


def test_recipe_json_that_the_weights_do_not_fit(run_ingot, directories, tmp_path):
    """The recipe agrees with itself; the tensors are of another size."""
    model = app_models.copy_model(directories["llama"], tmp_path / "model")
    recipe = json.loads(inspect(run_ingot, model, "--json"))["recipe"]
    recipe["layers"][0]["ffn"]["down"]["parts"][0]["name"] = "model.nothing.weight"
    (model / "recipe.json").write_text(json.dumps(recipe))
    done = run_ingot("run", model, "--tokens", "[1]", "-n", 1)
    assert done.returncode == 1 and "tensor 'model.nothing.weight' is missing" in done.stderr


def test_text_side(run_ingot, directories, tmp_path):
    model = app_models.copy_model(directories["llama"], tmp_path / "model")
    app_models.add_text(model)
    app_models.edit_json(model / "generation_config.json", do_sample=True, temperature=0.6, top_k=20,
                         top_p=0.95)
    found = json.loads(inspect(run_ingot, model, "--json"))
    assert found["tokenizer"]["kind"] == "BPE (tokenizer.json)"
    assert found["tokenizer"]["vocab_size"] == app_models.N_TOKENS
    assert found["tokenizer"]["eos"] == {"id": app_models.IM_END, "token": "<|im_end|>"}
    assert found["stop_ids"] == [app_models.IM_END]
    assert found["stop_ids_source"] == "generation_config.json"
    assert found["chat_template"]["source"] == app_models.CHATML
    assert found["generation"] == {"temperature": 0.6, "top_k": 20, "top_p": 0.95, "min_p": 0.0,
                                   "repeat_penalty": 1.0}
    text = inspect(run_ingot, model)
    assert "temperature 0.6, top-k 20, top-p 0.95" in text
    assert "'<|im_end|>' (from generation_config.json)" in text
    assert "| {%- for m in messages -%}" in text


def test_control_characters_are_escaped(run_ingot, directories, tmp_path):
    """A model's own words must not drive the terminal."""
    model = app_models.copy_model(directories["llama"], tmp_path / "mo\x1b[31mdel")
    app_models.add_text(model, "\x1b]0;owned\x07{{ messages[0].content }}")
    text = inspect(run_ingot, model, "--tensors")
    assert not [c for c in text if ord(c) < 32 and c != "\n"] and "\\x1b]0;owned\\x07" in text
    json.loads(inspect(run_ingot, model, "--json"))


def test_gguf(run_ingot, directories, tmp_path):
    to_gguf.convert(directories["llama3_rope"], tmp_path / "m.gguf", "q8_0")
    found = json.loads(inspect(run_ingot, tmp_path / "m.gguf", "--json"))
    stored, _ = tensors.load(directories["llama3_rope"] / "model.safetensors")
    matrices = [t for t in stored.values() if t.ndim == 2]
    q8 = next(t for t in found["weights"]["by_dtype"] if t["dtype"] == "q8_0")
    assert q8["bytes"] == sum(t.size for t in matrices) * 34 // 32
    assert q8["tensors"] == len(matrices)
    assert found["container"] == "gguf" and found["recipe"]["ropes"][0]["scaling"] == "divisors"
    # Permuted rows are a recipe like any other; as text it stands for itself anywhere.
    model = app_models.copy_model(directories["llama"], tmp_path / "model")
    (model / "recipe.json").write_text(json.dumps(found["recipe"]))
    assert json.loads(inspect(run_ingot, model, "--json"))["recipe"] == found["recipe"]


def test_weights_are_not_read(run_ingot, tmp_path):
    """NaN in a weight, and inspect still says what the model is."""
    model = app_models.zero_model(tmp_path / "zero", n_layers=2, hidden=64, intermediate=96,
                                  vocab=512)
    app_models.poison(model, "model.norm.weight", 3, np.nan)
    assert "parameters" in inspect(run_ingot, model)


def test_doctor(run_ingot, tmp_path):
    done = run_ingot("doctor", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["machine"]["cores"] >= 1 and found["machine"]["backend"].startswith("cpu-")
    assert "scalar" in found["machine"]["kernel_tables"]
    for figure in ["read_gb_per_s", "int8_gop_per_s", "f32_gop_per_s"]:
        assert 0.1 < found["machine"][figure] < 1e5, figure
    with open("/proc/meminfo", encoding="utf8") as meminfo:
        total = int(meminfo.readline().split()[1]) * 1024
    assert abs(found["machine"]["memory_bytes"] - total) < 0.01 * total
    assert found["store"]["path"] == str(tmp_path / "ingot_home" / "models")
    assert found["store"]["writable"] and found["store"]["free_bytes"] > 0
    assert found["backends"] == {"built": ["cpu"], "left_out": ["cuda", "metal", "sim"]}
    text = run_ingot("doctor").stdout
    assert "cuda: not in this build" in text and "GB/s, measured" in text


def test_doctor_warns_and_still_ends_well(run_ingot):
    done = run_ingot("doctor", "--json", env={"INGOT_HOME": "/dev/null/nowhere"})
    assert done.returncode == 0
    found = json.loads(done.stdout)
    assert not found["store"]["writable"] and any("store" in w for w in found["warnings"])
