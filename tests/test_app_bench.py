"""`ingot bench`: its rows, its byte counts, and the guard that voids them."""

import json

import pytest

from reference import fixtures, tensors
from tests.tools import to_gguf

ROW = {"test", "tokens_per_s", "spread", "bytes_per_token", "gb_per_s", "fraction"}
F32 = ("--act", "f32", "--kv-type", "f32")


@pytest.fixture(scope="session")
def llama(tmp_path_factory):
    return fixtures.unpack(tmp_path_factory.mktemp("fixtures"))["llama"]


def guard_of(model, **changes):
    golden = fixtures.golden(model)
    return {"made_by": "transformers 5.17.0, float32, eager", "model": "fixture llama",
            "prompt_tokens": golden["p1.ids"].tolist(), "tokens": golden["p1.greedy"].tolist(),
            "gaps": golden["p1.greedy_gap"].tolist(),
            "flags": {"act": "f32", "kv_type": "f32"}} | changes


def bench(run_ingot, model, *flags):
    return run_ingot("bench", model, "-t", 1, "-r", 2, *flags)


def test_rows(run_ingot, llama):
    done = bench(run_ingot, llama, "-p", "65,7", "-n", 3, "-n", 9, "-d", "0,70", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [row["test"] for row in found["rows"]] == [
        "pp65", "pp7", "tg3", "tg9", "pp65@d70", "pp7@d70", "tg3@d70", "tg9@d70"]
    assert set(found) == {"machine", "build", "model", "rows", "memory"}
    for row in found["rows"]:
        assert set(row) == ROW
        assert row["tokens_per_s"] > 0 and row["spread"] >= 0 and row["fraction"] > 0
        assert row["gb_per_s"] == pytest.approx(row["bytes_per_token"] * row["tokens_per_s"] / 1e9)


def test_bytes_are_those_of_the_weights(run_ingot, llama):
    """A decoded token reads every matrix once, the tied embedding as the head, one row of it as
    the embedding, and the keys and values before it."""
    stored, _ = tensors.load(llama / "model.safetensors")
    weights = sum(4 * t.size for t in stored.values() if t.ndim == 2) + 4 * 64
    depth, n = 100, 10
    state = sum(4 * 2 * 2 * 16 * 4 * (depth + i + 1) for i in range(n)) / n  # 4 layers, f32
    done = bench(run_ingot, llama, *F32, "-p", 0, "-n", n, "-d", depth, "--json")
    row = json.loads(done.stdout)["rows"][0]
    assert row["test"] == "tg10@d100"
    assert row["bytes_per_token"] == pytest.approx(weights + state, rel=1e-3)
    # One pass over many rows reads the layers once, whatever their number.
    done = bench(run_ingot, llama, *F32, "-p", 50, "-n", 0, "--json")
    row = json.loads(done.stdout)["rows"][0]
    assert row["bytes_per_token"] < (weights / 50 + 4 * 64 + 4 * 2 * 2 * 16 * 4) * 1.01


def test_table_and_verify(run_ingot, llama):
    done = bench(run_ingot, llama, "-p", 5, "-n", 5, "--verify", 3)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].split()[:3] == ["test", "tokens/s", "spread"]
    assert lines[1].startswith("pp5 ") and lines[2].startswith("tg5 ")
    assert sum(line.startswith("verify") for line in lines) == 3
    done = bench(run_ingot, llama, "-p", 0, "-n", 0, "--verify", 4, "--json")
    verify = json.loads(done.stdout)["verify"]
    assert [v["rows"] for v in verify] == [1, 2, 3, 4] and verify[0]["relative"] == 1.0


def test_time_to_first_token(run_ingot, llama):
    """Where no flag says what to time; what the context is too short for is said, not timed."""
    context = json.loads((llama / "config.json").read_text())["max_position_embeddings"]
    assert 128 <= context < 2048
    done = run_ingot("bench", llama, "-t", 1, "-r", 2, "--json")
    assert done.returncode == 0, done.stderr
    one, some, many = json.loads(done.stdout)["ttft"]
    assert [one["test"], some["test"], many["test"]] == ["ttft1", "ttft128", "ttft2048"]
    assert 0 < one["ms"] < some["ms"] and one["spread_ms"] >= 0
    assert many["ms"] is None and str(context) in many["note"]

    done = bench(run_ingot, llama, "-p", 0, "-n", 0, "--ttft", "3,9", "-c", 8)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("ttft3 ") and " ms " in lines[0]
    assert lines[1].startswith("ttft9 ") and lines[1].endswith("the context is 8 tokens")
    done = run_ingot("bench", llama, "-t", 1, "-r", 1, "--ttft", 0, "--json")
    assert "ttft" not in json.loads(done.stdout)


def test_memory(run_ingot, llama):
    done = bench(run_ingot, llama, *F32, "-p", 5, "-n", 9, "-d", 100, "--json")
    memory = json.loads(done.stdout)["memory"]
    assert memory["file_bytes"] == (llama / "model.safetensors").stat().st_size
    assert memory["state_bytes"] == 4 * 2 * 2 * 16 * 4 * 128  # 4 layers; two pages of tokens
    due = memory["file_bytes"] + memory["state_bytes"]
    assert memory["peak_bytes"] > due
    assert memory["above_percent"] == pytest.approx(100 * (memory["peak_bytes"] / due - 1))
    done = bench(run_ingot, llama, "-p", 5, "-n", 5)
    assert any(line.startswith("peak memory") for line in done.stdout.splitlines())


def test_kernels(run_ingot, llama, tmp_path):
    """Every matrix that a token meets, once by type and shape, with the bytes of its values."""
    stored, _ = tensors.load(llama / "model.safetensors")
    q, k, up, down = (stored[f"model.layers.0.{name}.weight"].shape for name in [
        "self_attn.q_proj", "self_attn.k_proj", "mlp.up_proj", "mlp.down_proj"])
    head = stored["model.embed_tokens.weight"].shape
    shapes = [(q[0] + 2 * k[0], q[1]), (q[1], q[0]), (2 * up[0], up[1]), down, head]
    done = run_ingot("bench", llama, "-t", 1, "--kernels", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    rows = found["kernels"]
    assert [(tuple(r["shape"]), r["rows"]) for r in rows] == [
        (shape, n) for shape in shapes for n in (1, 4, 512)]
    for row in rows:
        assert row["type"] == "f32" and row["arithmetic"] == "f32"
        assert row["count"] == (1 if tuple(row["shape"]) == head else 4)
        assert row["bytes"] >= 4 * row["shape"][0] * row["shape"][1]
        assert row["warm_us"] > 0 and row["cold_us"] > 0
        assert row["cold_gb_per_s"] == pytest.approx(row["bytes"] / row["cold_us"] / 1e3)
        assert row["read_fraction"] == pytest.approx(
            row["cold_gb_per_s"] / found["machine"]["read_gb_per_s"])
        operations = 2 * row["rows"] * row["shape"][0] * row["shape"][1]
        assert row["peak_fraction"] == pytest.approx(
            operations / row["cold_us"] / 1e3 / found["machine"]["f32_gop_per_s"])
        assert 0 < row["peak_fraction"] < 1.1  # the peak is the machine's

    to_gguf.convert(llama, tmp_path / "m.gguf", "q8_0")
    done = run_ingot("bench", tmp_path / "m.gguf", "-t", 1, "--kernels")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].split()[:2] == ["type", "shape"]
    assert all(line.startswith("q8_0 ") and line.endswith("int8") for line in lines[1:-1])


@pytest.mark.parametrize("changes", [{}, {"flags": {"act": "f32"}},
                                     {"bound": 0.001}])
def test_guard_holds(run_ingot, llama, tmp_path, changes):
    (tmp_path / "guard.json").write_text(json.dumps(guard_of(llama, **changes)))
    done = bench(run_ingot, llama, *F32, "-p", 4, "-n", 4, "--guard", tmp_path / "guard.json")
    assert done.returncode == 0, done.stderr
    assert "32 greedy tokens equal transformers 5.17.0" in done.stdout


@pytest.mark.parametrize("place", [0, 17, 31])
def test_one_wrong_token_voids_every_row(run_ingot, llama, tmp_path, place):
    guard = guard_of(llama)
    guard["tokens"][place] = (guard["tokens"][place] + 1) % 512
    (tmp_path / "guard.json").write_text(json.dumps(guard))
    done = bench(run_ingot, llama, *F32, "-p", 4, "-n", 4, "--guard", tmp_path / "guard.json")
    assert done.returncode == 1 and done.stdout == ""
    assert f"token {place} is" in done.stderr and "void" in done.stderr


def test_tokens_past_the_bound_do_not_count(run_ingot, llama, tmp_path):
    guard = guard_of(llama, bound=0.5)
    first = next(i for i, gap in enumerate(guard["gaps"]) if gap < 0.5)
    assert first > 0
    guard["tokens"][first] = (guard["tokens"][first] + 1) % 512
    (tmp_path / "guard.json").write_text(json.dumps(guard))
    done = bench(run_ingot, llama, *F32, "-p", 4, "-n", 4, "--guard", tmp_path / "guard.json")
    assert done.returncode == 0 and f"{first} greedy tokens equal" in done.stdout


@pytest.mark.parametrize("changes, code, says", [
    ({"made_by": None}, 1, "made_by"),
    ({"made_by": ""}, 1, "made_by"),
    ({"made_by": "ingot 0.1.0"}, 1, "other than this program"),
    ({"tokens": []}, 1, "'tokens'"),
    ({"tokens": [1.5]}, 1, "'tokens'"),
    ({"prompt_tokens": "1 2"}, 1, "'prompt_tokens'"),
    ({"prompt_tokens": [512]}, 2, "512"),
    ({"bound": 0.1, "gaps": [1]}, 1, "gaps"),
    ({"bound": 1e9}, 1, "nothing is guarded"),
    ({"flags": {"act": "auto"}}, 2, "--act"),
    ({"flags": {"threads": 1}}, 1, "flags.threads"),
])
def test_bad_guards(run_ingot, llama, tmp_path, changes, code, says):
    (tmp_path / "guard.json").write_text(json.dumps(guard_of(llama, **changes)))
    done = bench(run_ingot, llama, *F32, "-p", 4, "-n", 4, "--guard", tmp_path / "guard.json")
    assert (done.returncode, done.stdout) == (code, "")
    assert says in done.stderr and len(done.stderr.splitlines()) == 1
