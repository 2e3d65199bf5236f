"""One model in the other forms that checkpoints come in: experts stacked or fused, norms folded,
prefixes of multimodal files, projections split or whole.  Greedy tokens are transformers'."""

import json
import re

import gguf
import numpy as np
import pytest

from reference import fixtures, tensors
from tests import parity
from tests.tools import to_gguf


@pytest.fixture(scope="session")
def directories(tmp_path_factory):
    return fixtures.unpack(tmp_path_factory.mktemp("forms"), names=sorted({*SAFETENSORS, *GGUF}))


# ---- safetensors: (config, tensors) to the same ------------------------------------------------


def stacks(name, one, stack):
    """Experts `one`.N.gate_proj.weight and so on, stacked as `stack`(matrix)."""
    def form(config, weights):
        out, groups = {}, {}
        for key, w in weights.items():
            match = re.fullmatch(rf"(.*\.){re.escape(one)}\.(\d+)\.(\w+)\.weight", key)
            if match:
                groups.setdefault(match[1] + stack(match[3]), {})[int(match[2])] = w
            else:
                out[key] = w
        return config, out | {key: np.stack([ws[i] for i in range(len(ws))])
                              for key, ws in groups.items()}
    return name, form


def fused(config, weights):
    """Gate and up of all experts in one tensor without a suffix, under the prefix of a multimodal
    checkpoint: how the published ones are."""
    _, form = stacks("", "mlp.experts", lambda m: f"mlp.experts.{m}")
    config, weights = form(config, weights)
    for key in [k for k in weights if k.endswith("experts.gate_proj")]:
        up = weights.pop(key.replace("gate_proj", "up_proj"))
        weights[key.replace("gate_proj", "gate_up_proj")] = np.concatenate([weights.pop(key), up], 1)
    wrapper = {"model_type": config["model_type"].removesuffix("_text"), "text_config": config,
               "architectures": ["Qwen3_5MoeForConditionalGeneration"],
               "tie_word_embeddings": config["tie_word_embeddings"]}
    return wrapper, {re.sub(r"^model\.", "model.language_model.", k): w for k, w in weights.items()}


def folded(config, weights):
    """MLX's conversion of a hybrid: 1 added to the norms, the convolution turned."""
    out = {}
    for key, w in weights.items():
        if key.endswith("norm.weight") and not key.endswith("linear_attn.norm.weight"):
            w = w.astype(np.float32) + 1
        if key.endswith("conv1d.weight"):
            w = np.moveaxis(w, 2, 1)
        out[key.replace("model.", "language_model.model.", 1) if key.startswith("model.") else
            "language_model." + key] = w
    return config, out


def split_latent(config, weights):
    """MLX's halves of kv_b, by head."""
    heads, nope = config["num_attention_heads"], config["qk_nope_head_dim"]
    for key in [k for k in weights if k.endswith("kv_b_proj.weight")]:
        w = weights.pop(key).reshape(heads, -1, config["kv_lora_rank"])
        weights[key.replace("kv_b_proj", "embed_q")] = np.moveaxis(w[:, :nope], 1, 2)
        weights[key.replace("kv_b_proj", "unembed_out")] = w[:, nope:]
    return config, weights


MIXTRAL = {"w1": "gate_proj", "w3": "up_proj", "w2": "down_proj"}
SAFETENSORS = {
    "qwen3_5_moe": ("fused, multimodal", fused),
    "qwen3_5": ("folded", folded),
    "deepseek_v3": ("split by head", split_latent),
    "qwen3_moe": stacks("MLX stacks", "mlp.experts", lambda m: f"mlp.switch_mlp.{m}.weight"),
    "mixtral": stacks("MLX stacks", "block_sparse_moe.experts",
                      lambda m: f"block_sparse_moe.switch_mlp.{MIXTRAL[m]}.weight"),
}


def expect_golden(ingot, model, directory, tmp_path, name):
    golden = fixtures.golden(directory)
    found = parity.eval_logits(ingot, model, parity.prompts_of(golden), tmp_path, *parity.F32)
    errors = {k: e for k, e in parity.errors_of_golden(found, golden).items()
              if not e < fixtures.tolerance(name)}
    assert not errors
    for i in range(fixtures.N_PROMPTS):
        tokens = parity.greedy(ingot, model, golden[f"p{i}.ids"].tolist(), fixtures.N_GREEDY,
                               *parity.F32)
        assert tokens == golden[f"p{i}.greedy"].tolist()


@pytest.mark.parametrize("name", SAFETENSORS)
def test_safetensors_forms(ingot, directories, tmp_path, name):
    _, form = SAFETENSORS[name]
    config = json.loads((directories[name] / "config.json").read_text())
    stored, _ = tensors.load(directories[name] / "model.safetensors")
    config, weights = form(config, {k: w.astype(np.float32) for k, w in stored.items()})
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    tensors.save(folder / "model.safetensors",
                 {k: np.ascontiguousarray(w) for k, w in weights.items()}, {})
    expect_golden(ingot, folder, directories[name], tmp_path, name)


# ---- GGUF: the file of to_gguf.py with tensors exchanged ------------------------------------------


def rewritten(source, out, change, keys):
    """float32 tensors through `change`; metadata `keys` set, or left out where None."""
    reader = gguf.GGUFReader(source)
    architecture = reader.fields["general.architecture"].contents()
    writer = gguf.GGUFWriter(str(out), architecture)
    for key, field in reader.fields.items():
        if key.startswith(("GGUF.", "general.architecture")) or key in keys:
            continue
        value, kind = field.contents(), field.types[0]
        writer.add_key_value(key, value, kind,
                             field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None)
    for key, value in keys.items():
        if value is not None:
            writer.add_uint32(key, value)
    weights = {t.name: gguf.quants.dequantize(t.data, t.tensor_type) for t in reader.tensors}
    for name, w in change(weights).items():
        writer.add_tensor(name, np.ascontiguousarray(w, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def fused_experts(weights):
    for key in [k for k in weights if "ffn_gate_exps" in k]:
        up = weights.pop(key.replace("gate", "up"))
        weights[key.replace("gate", "gate_up")] = np.concatenate([weights.pop(key), up], 1)
    return weights


def whole_latent(weights):
    for key in [k for k in weights if "attn_k_b" in k]:
        k = np.moveaxis(weights.pop(key), 1, 2)
        v = weights.pop(key.replace("k_b", "v_b"))
        weights[key.replace("k_b", "kv_b")] = np.concatenate([k, v], 1).reshape(-1, k.shape[2])
    return weights


def by_key_head(weights):
    """2 key heads of 16, 4 value heads of 16: q, k, v and z of each key head together."""
    for key in [k for k in weights if "attn_qkv" in k]:
        q, k, v = np.split(weights.pop(key), [32, 64])
        z = weights.pop(key.replace("attn_qkv", "attn_gate"))
        parts = [w.reshape(2, -1, w.shape[1]) for w in (q, k, v, z)]
        weights[key.replace("attn_qkv", "ssm_in")] = np.concatenate(parts, 1).reshape(192, -1)
    return weights


GGUF = {
    "qwen3_5_moe": (fused_experts, {}),
    "deepseek_v3": (whole_latent, {"deepseek2.attention.key_length_mla": None,
                                   "deepseek2.attention.value_length_mla": None,
                                   "deepseek2.attention.key_length": 24,
                                   "deepseek2.attention.value_length": 16,
                                   "deepseek2.attention.head_count_kv": 4}),
    "qwen3_next": (by_key_head, {}),
}


@pytest.mark.parametrize("name", GGUF)
def test_gguf_forms(ingot, directories, tmp_path, name):
    change, keys = GGUF[name]
    to_gguf.convert(directories[name], tmp_path / "new.gguf")
    rewritten(tmp_path / "new.gguf", tmp_path / "old.gguf", change, keys)
    expect_golden(ingot, tmp_path / "old.gguf", directories[name], tmp_path, name)
