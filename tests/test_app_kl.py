"""`ingot eval kl`: what it prints, computed again by NumPy from `eval logits` of both models."""

import json

import numpy as np
import pytest

from reference import fixtures, tensors
from tests import app_models
from tests.tools import mlx_dir, to_gguf

WINDOW = 90  # the second half is scored in no whole number of pieces
TEXT = "It was a bright cold day in April, and the clocks were striking thirteen. " * 4
EXACT = ("--act", "f32", "--kv-type", "f32")


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    """One model three times: float32, 4-bit, and in a GGUF file that has no tokenizer."""
    room = tmp_path_factory.mktemp("kl")
    source = fixtures.unpack(room / "fixtures")["llama"]
    mlx_dir.convert(source, room / "q4", bits=4, group=32)
    (room / "q4" / "generation_config.json").write_text("{}")
    app_models.add_text(app_models.copy_model(source, room / "f32"))
    app_models.add_text(room / "q4")
    to_gguf.convert(source, room / "q8.gguf", "q8_0", no_vocab=True)
    app_models.zero_model(room / "small", n_layers=1, hidden=64, intermediate=64, vocab=300)
    (room / "text.txt").write_text(TEXT)
    return room


def logits(run_ingot, model, windows, out, *flags):
    (out / "tokens.json").write_text(json.dumps(windows))
    done = run_ingot("eval", "logits", model, "--tokens", out / "tokens.json", "--out",
                     out / "out.safetensors", *flags)
    assert done.returncode == 0, done.stderr
    found, _ = tensors.load(out / "out.safetensors")
    return [found[f"logits.{i}"].astype(np.float64) for i in range(len(windows))]


def log_softmax(rows):
    rows = rows - rows.max(axis=-1, keepdims=True)
    return rows - np.log(np.exp(rows).sum(axis=-1, keepdims=True))


def expected(run_ingot, out, window, model, reference):
    """`model`, `reference`: a model and its flags."""
    ids = list(TEXT.encode())  # the tokenizer's tokens are bytes
    windows = [ids[at:at + window] for at in range(0, len(ids) - window + 1, window)]
    scored = slice(window // 2, window - 1)
    q, p = (np.concatenate([log_softmax(w[scored]) for w in logits(run_ingot, one, windows, out,
                                                                   *flags)])
            for one, *flags in (model, reference))
    targets = np.concatenate([w[window // 2 + 1:] for w in windows])
    kl = (np.exp(p) * (p - q)).sum(axis=-1)
    rows = np.arange(len(targets))
    return {"kl": {"mean": kl.mean(), "p99": np.percentile(kl, 99), "max": kl.max()},
            "top1_agreement": (p.argmax(axis=-1) == q.argmax(axis=-1)).mean(),
            "perplexity": np.exp(-q[rows, targets].mean()),
            "reference_perplexity": np.exp(-p[rows, targets].mean()), "n_tokens": len(targets)}


def close(found, wanted):
    # Logits are float32 on both sides, and everything after them float64.
    kl, wanted_kl = found.pop("kl"), wanted.pop("kl")
    assert kl == {name: pytest.approx(value, rel=1e-9, abs=1e-13)
                  for name, value in wanted_kl.items()}
    assert found == {name: pytest.approx(value, rel=1e-11) for name, value in wanted.items()}


@pytest.mark.parametrize("name, flags, reference", [
    ("q4", (), ("q4", *EXACT)),                                        # itself, in float32
    ("q4", ("--kv-type", "q8", "--chunk", "7"), ("q4", "--act", "f32", "--kv-type", "f16")),
    ("q4", (), ("f32", *EXACT)),
    ("q8.gguf", (), ("f32", *EXACT)),                                  # the reference's tokenizer
])
def test_equals_numpy(run_ingot, room, tmp_path, name, flags, reference):
    other, *modes = reference
    chosen = [f"--reference-{f[2:]}" if f.startswith("--") else f for f in modes]
    if other != name:
        chosen += ["--reference", room / other]
    done = run_ingot("eval", "kl", room / name, "--text", room / "text.txt", "-c", WINDOW,
                     "--json", *flags, *chosen)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    close(found, expected(run_ingot, tmp_path, WINDOW, (room / name, *flags),
                          (room / other, *modes)))


def test_defaults_to_its_own_weights_in_float32(run_ingot, room):
    """Quantised weights lose something to int8 activations, float32 ones nothing."""
    said = {}
    for name in ("q4", "f32"):
        done = run_ingot("eval", "kl", room / name, "--text", room / "text.txt", "-c", WINDOW,
                         "--kv-type", "f32", "--json")
        said[name] = json.loads(done.stdout)
    assert said["q4"]["kl"]["mean"] > 0
    assert said["f32"]["kl"] == {"mean": 0, "p99": 0, "max": 0}
    assert said["f32"]["top1_agreement"] == 1
    ppl = json.loads(run_ingot("eval", "ppl", room / "f32", "--text", room / "text.txt", "-c",
                               WINDOW, *EXACT).stdout)
    assert said["f32"]["perplexity"] == pytest.approx(ppl["perplexity"], rel=1e-12)
    assert said["f32"]["n_tokens"] == ppl["n_tokens"]


def test_windows(run_ingot, room, tmp_path):
    """The first windows alone are scored, by both commands."""
    (tmp_path / "first.txt").write_text(TEXT[:2 * WINDOW])
    for command in (["kl", room / "q4", "--json"], ["ppl", room / "q4"]):
        whole, cut = (run_ingot("eval", *command, "-c", WINDOW, *flags) for flags in (
            ("--text", room / "text.txt", "--windows", 2), ("--text", tmp_path / "first.txt")))
        assert whole.returncode == 0 and whole.stdout == cut.stdout, whole.stderr


def test_text(run_ingot, room):
    done = run_ingot("eval", "kl", room / "q4", "--text", room / "text.txt", "-c", WINDOW)
    lines = done.stdout.splitlines()
    assert lines[0].startswith("KL(reference || model)") and "99th percentile" in lines[0]
    assert lines[1].startswith("top-1 agreement") and lines[2].startswith("perplexity")


@pytest.mark.parametrize("flags, code, says", [
    (["--reference", "small"], 1, "vocabulary of 300 tokens, wanted 512"),
    (["--reference-act", "f8"], 2, "--act is 'f8'"),
    (["--reference-kv-type", "f8"], 2, "--kv-type is 'f8'"),
    (["-c", "3"], 2, "--ctx"),
    (["--windows", "-1"], 2, "--windows"),
    (["-c", "4000"], 1, "wanted at least one window"),
    (["--text", "none.txt"], 1, "none.txt"),
])
def test_wrong_setups(run_ingot, room, flags, code, says):
    named = [room / f if f in ("small", "none.txt") else f for f in flags]
    done = run_ingot("eval", "kl", room / "f32", "--text", room / "text.txt", *named)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert says in done.stderr and len(done.stderr.splitlines()) == 1
