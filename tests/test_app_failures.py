"""What goes wrong while running (R28, and point 8 of the first issue): a full disk, Ctrl-C, a
model file that is cut or removed, values that are no numbers."""

import json
import os
import select
import signal
import subprocess
import time

import gguf
import numpy as np
import pytest

from reference import fixtures
from tests import app_models
from tests.tools import to_gguf

WITHIN_S = 1.0  # an interrupted program is gone after this


@pytest.fixture(scope="session")
def directories(tmp_path_factory):
    return fixtures.unpack(tmp_path_factory.mktemp("fixtures"))


@pytest.fixture
def llama(directories, tmp_path):
    return app_models.copy_model(directories["llama"], tmp_path / "llama")


@pytest.fixture
def start(ingot):
    """start(*arguments) -> Popen with piped output; killed when the test ends."""
    running = []

    def popen(*arguments):
        running.append(subprocess.Popen([ingot, *map(str, arguments)], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        return running[-1]

    yield popen
    for process in running:
        process.kill()
        process.communicate()


def wait_for_output(process, seconds=30):
    assert select.select([process.stdout], [], [], seconds)[0], "no output"
    return os.read(process.stdout.fileno(), 1)


def wait_for_load(process, model):
    """Until the weights are mapped: from then on they are read."""
    end = time.monotonic() + 30
    while f"{model}/model.safetensors" not in open(f"/proc/{process.pid}/maps").read():
        assert process.poll() is None and time.monotonic() < end
        time.sleep(0.005)
    time.sleep(0.05)
    assert process.poll() is None, "it should still be loading"


def finish(process, seconds):
    """(exit code, stdout, stderr, seconds until it was gone)"""
    began = time.monotonic()
    out, err = process.communicate(timeout=seconds)
    return process.returncode, out.decode(), err.decode(), time.monotonic() - began


# ---- a full disk -------------------------------------------------------------------------------


def test_full_disk(run_ingot, llama, tmp_path):
    (tmp_path / "tokens.json").write_text(json.dumps([list(range(200))]))  # 400 kB of logits
    with app_models.tiny_disk(64) as disk:
        out = disk / "logits.safetensors"
        done = run_ingot("eval", "logits", llama, "--tokens", tmp_path / "tokens.json", "--out", out)
        assert done.returncode == 1 and done.stdout == ""
        assert str(out) in done.stderr and "space" in done.stderr.lower()
        assert len(done.stderr.splitlines()) == 1
        assert list(disk.iterdir()) == [], "nothing half-written stays"


# ---- Ctrl-C ------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("command", ["run", "chat"])
def test_interrupt_during_load(start, tmp_path, command, number):
    model = app_models.zero_model(tmp_path / "zero", n_layers=24, vocab=8000)  # 1.3 GB of a sparse file
    process = start(command, model, "-v", *(["--tokens", "[1]"] if command == "run" else []))
    wait_for_load(process, model)
    process.send_signal(number)
    code, out, err, seconds = finish(process, 30)
    assert (code, out) == (130, "") and seconds < WITHIN_S * app_models.share_of_a_core()
    assert "of weights" not in err, "it had loaded already"
    assert err.splitlines()[-1].startswith("ingot: interrupted")


@pytest.mark.parametrize("as_json", [False, True])
def test_interrupt_during_an_answer(start, llama, as_json):
    app_models.add_text(llama)
    process = start("run", llama, "--ignore-eos", "-c", 200_000, "-n", 190_000, "hello",
                    *(["--json"] if as_json else []))
    if as_json:
        time.sleep(1.0)
    else:
        wait_for_output(process)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    code, out, _, seconds = finish(process, 30)
    assert code == 130 and seconds < WITHIN_S * app_models.share_of_a_core()
    if as_json:
        said = json.loads(out)
        assert said["finish_reason"] == "error" and 0 < len(said["tokens"]) < 190_000


def test_interrupt_while_the_prompt_is_read(start, llama):
    prompt = json.dumps([1 + i % 500 for i in range(20_000)])
    process = start("run", llama, "-c", 30_000, "--chunk", 64, "--tokens", prompt)
    time.sleep(0.7)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    code, out, err, seconds = finish(process, 30)
    assert (code, out) == (130, "") and seconds < WITHIN_S * app_models.share_of_a_core()
    assert err == "ingot: interrupted\n"


@pytest.mark.parametrize("command", [["bench", "-p", "0", "-n", "1000000"],
                                     ["bench", "-p", "200000", "-n", "0"]])
def test_interrupt_of_a_benchmark(start, llama, command):
    process = start(command[0], llama, *command[1:])
    time.sleep(0.7)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    code, out, err, seconds = finish(process, 30)
    assert (code, out, err) == (130, "", "ingot: interrupted\n") and seconds < WITHIN_S * app_models.share_of_a_core()


# ---- a model file that goes away -----------------------------------------------------------------


def test_file_cut_during_load(start, tmp_path):
    model = app_models.zero_model(tmp_path / "zero", n_layers=24, vocab=8000)
    process = start("run", model, "--tokens", "[1]")
    wait_for_load(process, model)
    os.truncate(model / "model.safetensors", 1 << 20)
    code, out, err, _ = finish(process, 60)
    assert (code, out) == (1, "")
    assert "model.safetensors: truncated while it was being read" in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("how", ["removed", "cut"])
def test_file_gone_during_an_answer(start, run_ingot, llama, how):
    """The weights are in memory by then: the answer is what it would have been."""
    app_models.add_text(llama)
    flags = ["--ignore-eos", "-c", 30_000, "-n", 3000, "--temp", 0, "hello"]
    whole = run_ingot("run", llama, *flags).stdout
    process = start("run", llama, *flags)
    first = wait_for_output(process)
    if how == "removed":
        (llama / "model.safetensors").unlink()
    else:
        os.truncate(llama / "model.safetensors", 100)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert (first + out).decode() == whole


# ---- values that are no numbers ------------------------------------------------------------------

POISONS = {  # tensor: (index, what the message names)
    "model.norm.weight": (5, "model.norm.weight"),
    "model.layers.2.input_layernorm.weight": (0, "model.layers.2.input_layernorm.weight"),
    "model.embed_tokens.weight": (7 * 64 + 3, "embed"),
    "model.layers.1.self_attn.q_proj.weight": (100, "layer"),
    "model.layers.3.mlp.down_proj.weight": (0, "layer"),
}


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("act", ["auto", "f32"])
@pytest.mark.parametrize("name", POISONS)
def test_poisoned_weight(run_ingot, llama, name, act, value):
    index, says = POISONS[name]
    app_models.poison(llama, name, index, value)
    done = run_ingot("run", llama, "--act", act, "--tokens", "[5, 6, 7]", "--json")
    assert (done.returncode, done.stdout) == (1, ""), done
    assert says in done.stderr and len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("act", ["auto", "f32"])
@pytest.mark.parametrize("tensor", ["blk.1.ffn_down.weight", "token_embd.weight", "blk.0.attn_q.weight"])
def test_poisoned_scale(run_ingot, directories, tmp_path, tensor, act):
    path = tmp_path / "m.gguf"
    to_gguf.convert(directories["llama3_rope"], path, "q8_0")
    at = next(t.data_offset for t in gguf.GGUFReader(path).tensors if t.name == tensor)
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(np.float16(np.nan).tobytes())  # the scale of the first 32 values
    done = run_ingot("run", path, "--act", act, "--tokens", "[0, 5, 6]", "--json")
    assert (done.returncode, done.stdout) == (1, ""), done
    assert "finite" in done.stderr and len(done.stderr.splitlines()) == 1


def test_overflow_names_its_layer(run_ingot, llama):
    """Finite weights whose products are not: found while running, and no token comes out."""
    app_models.poison(llama, "model.layers.2.mlp.down_proj.weight", 0, 3e38)
    app_models.poison(llama, "model.layers.2.mlp.up_proj.weight", 0, 3e38)
    done = run_ingot("run", llama, "--act", "f32", "--tokens", "[5, 6, 7]", "--json")
    assert (done.returncode, done.stdout) == (1, ""), done
    assert "layer 2" in done.stderr and "not finite" in done.stderr
