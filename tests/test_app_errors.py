"""Start-up errors (R33): wrong set-ups of every command.  Each is one clear line on standard
error (and perhaps a hint), the right exit code, nothing on standard output, within 2 s."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

import pytest

from reference import fixtures
from tests import app_models

LIMIT_S = 2.0
JOB, USAGE = 1, 2


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    """A folder of good and broken models, named as the table below names them."""
    room = tmp_path_factory.mktemp("room")
    source = fixtures.unpack(room / "fixtures")["llama"]
    app_models.add_text(app_models.copy_model(source, room / "good"))
    app_models.copy_model(source, room / "no_text")
    app_models.add_text(app_models.copy_model(source, room / "no_template"), None)
    gpt2 = app_models.copy_model(room / "fixtures" / "gpt2", room / "gpt2")
    app_models.add_text(gpt2)

    def broken(name):
        return app_models.copy_model(source, room / name)

    (room / "empty").mkdir()
    (broken("no_config") / "config.json").unlink()
    (broken("no_weights") / "model.safetensors").unlink()
    app_models.edit_json(broken("unknown_type") / "config.json", model_type="mamba9")
    app_models.edit_json(broken("rope_type") / "config.json", rope_parameters={
        "rope_type": "spiral", "rope_theta": 1e4})
    app_models.edit_json(broken("wrong_shape") / "config.json", intermediate_size=161)
    app_models.edit_json(broken("odd_heads") / "config.json", num_key_value_heads=3)
    app_models.edit_json(broken("more_layers") / "config.json", num_hidden_layers=5)
    (broken("bad_config") / "config.json").write_text('{"model_type": "llama",')
    weights = broken("truncated") / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    (broken("bad_tokenizer") / "tokenizer.json").write_text("{}")
    app_models.edit_json(broken("bad_both") / "config.json", intermediate_size=161)
    (room / "bad_both" / "tokenizer.json").write_text("{}")
    app_models.add_text(broken("bad_template"), "{% for m in messages %}")
    app_models.add_text(broken("raising"), "{{ raise_exception('roles must alternate') }}")
    (room / "text.gguf").write_text("this is no model\n" * 100)
    (room / "zero.gguf").write_bytes(b"")
    (room / "magic.gguf").write_bytes(b"GGUF")
    (room / "loop").symlink_to(room / "loop")
    (room / "bad.jinja").write_text("{% if %}")
    (room / "not.json").write_text("[1, 2")
    (room / "tokens.json").write_text("[[1, 2, 3]]")
    (room / "negative.json").write_text("[[1, -2]]")
    (room / "beyond.json").write_text("[[1, 512]]")
    (room / "hollow.json").write_text("[[]]")
    (room / "guard.json").write_text("{}")
    (room / "text.txt").write_text("hello\n")
    return room


# name: (arguments; words with @ are files of the room), exit code, what the line says
# A list in the fourth place: standard input.
SETUPS = {
    # the command line itself
    "nothing at all": ([], USAGE, "subcommand"),
    "unknown command": (["frobnicate"], USAGE, "frobnicate"),
    "unknown flag": (["run", "@good", "--frobnicate", "hi"], USAGE, "--frobnicate"),
    "no model": (["run"], USAGE, "MODEL"),
    "eval of nothing": (["eval"], USAGE, "subcommand"),
    "serve": (["serve", "@good"], USAGE, "not built yet"),
    "convert": (["convert", "a", "b"], USAGE, "not built yet"),
    "eval kl of no text": (["eval", "kl", "@good"], USAGE, "--text"),
    # the model
    "missing file": (["run", "@nowhere/x.gguf", "hi"], None, "nowhere"),
    "no such name": (["run", "nosuchmodel", "hi"], None, "nosuchmodel"),
    "empty directory": (["run", "@empty", "hi"], JOB, "empty"),
    "no config": (["inspect", "@no_config"], JOB, "config.json"),
    "no weights": (["run", "@no_weights", "hi"], JOB, "safetensors"),
    "unknown model_type": (["run", "@unknown_type", "hi"], JOB, "'mamba9'|\"mamba9\""),
    "unknown model_type, inspect": (["inspect", "@unknown_type"], JOB, "model_type"),
    "unknown rope type": (["run", "@rope_type", "hi"], JOB, "spiral"),
    "misshapen tensor": (["run", "@wrong_shape", "--tokens", "[1]"], JOB, "recipe wants"),
    "heads do not divide": (["inspect", "@odd_heads"], JOB, "num_key_value_heads"),
    "missing tensor": (["run", "@more_layers", "--tokens", "[1]"], JOB, "model.layers.4"),
    "config is no JSON": (["run", "@bad_config", "hi"], JOB, "config.json"),
    "truncated weights": (["run", "@truncated", "hi"], JOB, "model.safetensors"),
    "bad tokenizer": (["tokenize", "@bad_tokenizer"], JOB, "tokenizer.json"),
    "bad tokenizer, run": (["run", "@bad_tokenizer", "hi"], JOB, "tokenizer.json"),
    "bad tokenizer and weights": (["run", "@bad_both", "hi"], JOB, "tokenizer.json"),
    "bad template": (["run", "@bad_template", "hi"], JOB, "template"),
    "template refuses": (["run", "@raising", "hi"], JOB, "roles must alternate"),
    "text as model": (["run", "@text.gguf", "hi"], JOB, "text.gguf"),
    "empty file": (["run", "@zero.gguf", "hi"], JOB, "zero.gguf"),
    "magic alone": (["run", "@magic.gguf", "hi"], JOB, "magic.gguf"),
    "link to itself": (["run", "@loop", "hi"], None, "loop"),
    "a device": (["run", "/dev/null", "hi"], JOB, "/dev/null"),
    # flags of the machine
    "threads below zero": (["run", "@good", "-t", "-1", "hi"], USAGE, "--threads"),
    "a million threads": (["run", "@good", "-t", "1000000", "hi"], USAGE, "--threads"),
    "threads in words": (["run", "@good", "-t", "two", "hi"], USAGE, "--threads"),
    "unknown mode": (["run", "@good", "--act", "q3", "hi"], USAGE, "--act"),
    "mode not built": (["run", "@good", "--act", "bf16", "hi"], USAGE, "not built yet"),
    "unknown kv type": (["run", "@good", "--kv-type", "f8", "hi"], USAGE, "--kv-type"),
    "unknown backend": (["run", "@good", "--backend", "tpu", "hi"], USAGE, "--backend"),
    "cuda": (["run", "@good", "--backend", "cuda", "hi"], USAGE, "not built yet"),
    "context below zero": (["run", "@good", "-c", "-5", "hi"], USAGE, "context"),
    "context beyond learned positions": (["run", "@gpt2", "-c", "9999", "hi"], USAGE, "learned"),
    "context beyond int": (["run", "@good", "-c", "99999999999", "hi"], USAGE, "--ctx"),
    "chunk zero": (["run", "@good", "--chunk", "0", "hi"], USAGE, "chunk"),
    "template file missing": (["run", "@good", "--chat-template", "@none.jinja", "hi"], JOB,
                              "none.jinja"),
    "template file broken": (["run", "@good", "--chat-template", "@bad.jinja", "hi"], JOB,
                             "bad.jinja"),
    "tensor parallel": (["run", "@good", "--tp", "2", "hi"], USAGE, "not built yet"),
    # sampling
    "temp nan": (["run", "@good", "--temp", "nan", "hi"], USAGE, "temp"),
    "temp inf": (["run", "@good", "--temp", "inf", "hi"], USAGE, "temp"),
    "temp 1e999": (["run", "@good", "--temp", "1e999", "hi"], USAGE, "temp"),
    "temp below zero": (["run", "@good", "--temp", "-0.1", "hi"], USAGE, "temp"),
    "temp in words": (["run", "@good", "--temp", "warm", "hi"], USAGE, "--temp"),
    "top-p zero": (["run", "@good", "--top-p", "0", "hi"], USAGE, "top_p"),
    "top-p above one": (["run", "@good", "--top-p", "1.01", "hi"], USAGE, "top_p"),
    "top-p nan": (["run", "@good", "--top-p", "nan", "hi"], USAGE, "top_p"),
    "top-k below zero": (["run", "@good", "--top-k", "-1", "hi"], USAGE, "top_k"),
    "min-p above one": (["run", "@good", "--min-p", "2", "hi"], USAGE, "min_p"),
    "repeat penalty zero": (["run", "@good", "--repeat-penalty", "0", "hi"], USAGE, "repeat"),
    "repeat penalty inf": (["run", "@good", "--repeat-penalty", "inf", "hi"], USAGE, "repeat"),
    "presence penalty": (["run", "@good", "--presence-penalty", "3", "hi"], USAGE, "presence"),
    "frequency penalty": (["run", "@good", "--frequency-penalty", "-2.5", "hi"], USAGE,
                          "frequency"),
    "bias without value": (["run", "@good", "--logit-bias", "5", "hi"], USAGE, "--logit-bias"),
    "bias beyond vocabulary": (["run", "@good", "--logit-bias", "512=1", "hi"], USAGE, "512"),
    "bias nan": (["run", "@good", "--logit-bias", "5=nan", "hi"], USAGE, "bias"),
    "seed below zero": (["run", "@good", "--seed", "-1", "hi"], USAGE, "seed"),
    "seed in words": (["run", "@good", "--seed", "lucky", "hi"], USAGE, "--seed"),
    "-n below -1": (["run", "@good", "-n", "-2", "hi"], USAGE, "--max-tokens"),
    "-n beyond int": (["run", "@good", "-n", "9999999999", "hi"], USAGE, "--max-tokens"),
    "empty stop": (["run", "@good", "--stop", "", "hi"], USAGE, "stop"),
    "think maybe": (["run", "@good", "--think", "maybe", "hi"], USAGE, "--think"),
    "draft mtp": (["run", "@good", "--draft", "mtp", "hi"], USAGE, "not built yet"),
    "grammar": (["run", "@good", "--grammar", "g.gbnf", "hi"], USAGE, "not built yet"),
    "mirostat": (["run", "@good", "--mirostat", "2", "hi"], USAGE, "not built yet"),
    # the prompt
    "empty prompt": (["run", "@good", ""], USAGE, "empty"),
    "empty raw prompt": (["run", "@good", "--raw", ""], USAGE, "empty"),
    "empty standard input": (["run", "@good"], USAGE, "empty"),
    "prompt beyond the context": (["run", "@good", "-c", "8", "hello, hello"], USAGE, "context"),
    "token ids beyond the context": (["run", "@no_text", "-c", "2", "--tokens", "[1,2,3]"], USAGE,
                                     "context"),
    "no tokens": (["run", "@no_text", "--tokens", "[]"], USAGE, "empty"),
    "negative token": (["run", "@no_text", "--tokens", "[3, -1]"], USAGE, "-1"),
    "token beyond the vocabulary": (["run", "@no_text", "--tokens", "[512]"], USAGE, "512"),
    "token beyond int": (["run", "@no_text", "--tokens", "[2147483648]"], USAGE, "2147483648"),
    "half a token": (["run", "@no_text", "--tokens", "[1.5]"], USAGE, "1.5"),
    "tokens are no list": (["run", "@no_text", "--tokens", "1 2"], USAGE, "--tokens"),
    "no tokenizer": (["run", "@no_text", "hi"], JOB, "tokenizer"),
    # chat
    "chat without template": (["chat", "@no_template"], JOB, "chat template"),
    "chat without tokenizer": (["chat", "@no_text"], JOB, "tokenizer"),
    "chat raw": (["chat", "@good", "--raw"], USAGE, "--raw"),
    "chat of tokens": (["chat", "@good", "--tokens", "[1]"], USAGE, "--tokens"),
    "chat temp": (["chat", "@good", "--temp", "nan"], USAGE, "temp"),
    # inspect, bench, doctor
    "inspect context": (["inspect", "@good", "-c", "-5"], USAGE, "context"),
    "inspect kv type": (["inspect", "@good", "--kv-type", "q1"], USAGE, "--kv-type"),
    "bench of nothing": (["bench", "@good", "-p", "0", "-n", "0"], USAGE, "-p and -n"),
    "bench below zero": (["bench", "@good", "-d", "-1"], USAGE, "-d"),
    "bench in words": (["bench", "@good", "-p", "1,two"], USAGE, "--prefill"),
    "bench without repeats": (["bench", "@good", "-r", "0"], USAGE, "-r"),
    "bench beyond its context": (["bench", "@good", "-p", "20", "-c", "10"], USAGE, "context"),
    "bench guard missing": (["bench", "@good", "--guard", "@nowhere.json"], JOB, "nowhere.json"),
    "bench guard hollow": (["bench", "@good", "--guard", "@guard.json"], JOB, "made_by"),
    "bench kernels and more": (["bench", "@good", "--kernels", "-n", "4"], USAGE, "--kernels"),
    "bench ttft below zero": (["bench", "@good", "--ttft", "-1"], USAGE, "--ttft"),
    "doctor with a model": (["doctor", "@good"], USAGE, "good"),
    # eval
    "eval logits to nowhere": (["eval", "logits", "@good", "--tokens", "@tokens.json"], USAGE,
                               "--out"),
    "eval logits of nothing": (["eval", "logits", "@good", "--out", "@o.safetensors"], USAGE,
                               "--tokens"),
    "eval tokens missing": (["eval", "logits", "@good", "--tokens", "@none.json", "--out",
                             "@o.safetensors"], JOB, "none.json"),
    "eval tokens no JSON": (["eval", "logits", "@good", "--tokens", "@not.json", "--out",
                             "@o.safetensors"], USAGE, "not.json"),
    "eval tokens negative": (["eval", "logits", "@good", "--tokens", "@negative.json", "--out",
                              "@o.safetensors"], USAGE, "-2"),
    "eval tokens beyond": (["eval", "logits", "@good", "--tokens", "@beyond.json", "--out",
                            "@o.safetensors"], USAGE, "512"),
    "eval tokens hollow": (["eval", "logits", "@good", "--tokens", "@hollow.json", "--out",
                            "@o.safetensors"], USAGE, "empty"),
    "eval out in nowhere": (["eval", "logits", "@good", "--tokens", "@tokens.json", "--out",
                             "@nowhere/o.safetensors"], JOB, "nowhere"),
    "eval out is a directory": (["eval", "logits", "@good", "--tokens", "@tokens.json", "--out",
                                 "@empty"], JOB, "empty"),
    "eval reference is text": (["eval", "logits", "@good", "--reference", "@text.txt"], JOB,
                               "text.txt"),
    "eval text missing": (["eval", "ppl", "@good", "--text", "@none.txt"], JOB, "none.txt"),
    "eval window": (["eval", "ppl", "@good", "--text", "@text.txt", "-c", "2"], USAGE, "--ctx"),
    "eval text too short": (["eval", "ppl", "@good", "--text", "@text.txt"], None, "tokens"),
    # the store
    "rm of nothing": (["rm", "nosuchmodel"], JOB, "nosuchmodel"),
    "pull of nothing": (["pull", "@nowhere"], None, "nowhere"),
    "pull of a bad reference": (["pull", "hf:"], None, "hf:"),
    "pull under a bad name": (["pull", "@good", "--as", "../x"], USAGE, "../x"),
    # one step of the text side
    "tokenize no JSON": (["tokenize", "@good", "--jsonl"], USAGE, "line 1", 'nope\n'),
    "tokenize no string": (["tokenize", "@good", "--jsonl"], USAGE, "line 1", "[1]\n"),
    "detokenize words": (["detokenize", "@good"], USAGE, "seven", "1 seven"),
    "detokenize negative": (["detokenize", "@good"], USAGE, "-1", "[1, -1]"),
    "template no JSON": (["template", "@good"], None, "standard input", "{"),
    "template no messages": (["template", "@good"], USAGE, "messages", "{}"),
    "template of no model": (["template", "@no_template"], JOB, "chat template",
                             '{"messages": []}'),
}


def check_failure(done, seconds, code, says):
    assert done.returncode in ([code] if code else [JOB, USAGE]), done
    assert done.stdout == b""
    lines = [line for line in done.stderr.decode().splitlines()
             if not line.startswith("ingot: warning: ")]
    assert len(lines) in (1, 2), lines
    assert lines[0].startswith("ingot: ") and len(lines[0]) < 600
    if len(lines) == 2:
        assert lines[1].startswith("hint: ")
    assert any(word in lines[0] for word in says.split("|")), lines
    assert seconds < LIMIT_S * app_models.share_of_a_core()


def call(ingot, room, arguments, stdin="", **options):
    environment = dict(os.environ, INGOT_HOME=str(room / "home")) | options.pop("env", {})
    began = time.monotonic()
    done = subprocess.run([ingot, *arguments], input=stdin.encode(), capture_output=True,
                          env=environment, timeout=60, **options)
    return done, time.monotonic() - began


@pytest.mark.parametrize("name", SETUPS)
def test_wrong_setup(ingot, room, name):
    arguments, code, says, *stdin = SETUPS[name]
    arguments = [str(room / a[1:]) if a.startswith("@") else a for a in arguments]
    done, seconds = call(ingot, room, arguments, *stdin)
    check_failure(done, seconds, code, says)


# ---- the environment ---------------------------------------------------------------------------


@pytest.mark.parametrize("command", [["run", "nosuchmodel", "hi"], ["list"], ["rm", "x"],
                                     ["pull", "hf:a/b"]])
def test_no_home(ingot, room, command):
    environment = {k: v for k, v in os.environ.items()
                   if k not in ("HOME", "INGOT_HOME", "XDG_DATA_HOME")}
    began = time.monotonic()
    done = subprocess.run([ingot, *command], input=b"", capture_output=True, env=environment,
                          timeout=60)
    check_failure(done, time.monotonic() - began, JOB, "HOME")


def test_no_home_is_no_matter_for_a_path(ingot, room):
    done = subprocess.run([ingot, "run", room / "good", "-n", "1", "hi"], capture_output=True,
                          env={}, timeout=60)
    assert done.returncode == 0, done.stderr


def test_no_limit_is_minus_one(ingot, room):
    """As in llama.cpp: as many tokens as the context holds, which is also the default."""
    answers = []
    for limit in ([], ["-n", "-1"], ["--max-tokens=-1"]):
        done, _ = call(ingot, room, ["run", str(room / "good"), "-c", "80", "--ignore-eos",
                                     "--temp", "0", "--json", *limit, "hi"])
        assert done.returncode == 0, done.stderr
        answers.append(json.loads(done.stdout))
    assert all(a["finish_reason"] == "length" for a in answers)
    assert len({tuple(a["tokens"]) for a in answers}) == 1
    # The last one chosen is not fed: it needs no place in the context.
    assert len(answers[0]["prompt_tokens"]) + len(answers[0]["tokens"]) == 81


def test_the_largest_context(ingot, room):
    """More pages than this machine has memory for: refused in a line, or never touched."""
    done, seconds = call(ingot, room, ["run", str(room / "no_text"), "-c", "2147483647", "-n", "2",
                                       "--tokens", "[1]"])
    if done.returncode != 0:
        check_failure(done, seconds, JOB, "memory")


def test_store_that_cannot_be_written(ingot, room):
    done, seconds = call(ingot, room, ["pull", str(room / "good"), "--as", "x"],
                         env={"INGOT_HOME": "/dev/null/home"})
    check_failure(done, seconds, JOB, "/dev/null/home")


def test_output_that_cannot_be_written(ingot, room):
    for arguments in (["run", room / "good", "-n", "3", "hi"], ["inspect", room / "good"],
                      ["tokenize", room / "good"], ["detokenize", room / "good"], ["run", room / "good", "--json", "hi"],
                      ["doctor"], ["bench", room / "good", "-p", "4", "-n", "4"]):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([ingot, *arguments], input=b"104", stdout=full,
                                  stderr=subprocess.PIPE, timeout=60)
        assert done.returncode == 1, arguments
        assert b"standard output" in done.stderr and done.stderr.count(b"\n") == 1, arguments


def test_unreadable_model(ingot, room):
    """As a user who may not read the weights; root may read everything, so it becomes another."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="ingot-locked-"))
    try:
        folder.chmod(0o755)
        model = app_models.copy_model(room / "no_text", folder / "model")
        model.chmod(0o755)
        for file in model.iterdir():
            file.chmod(0o644)
        (model / "model.safetensors").chmod(0o000)
        binary = shutil.copy(ingot, folder / "ingot")
        other = {"user": 65534, "group": 65534} if os.getuid() == 0 else {}
        done, seconds = call(binary, room, ["run", str(model), "--tokens", "[1]"], cwd="/", **other)
        check_failure(done, seconds, JOB, "model.safetensors")
        model.chmod(0o000)
        for arguments in (["run", str(model), "--tokens", "[1]"], ["inspect", str(model)],
                          ["tokenize", str(model)], ["template", str(model)]):
            done, seconds = call(binary, room, arguments, cwd="/", **other)
            check_failure(done, seconds, None, "Permission denied")
    finally:
        (folder / "model").chmod(0o755)
        shutil.rmtree(folder)


# ---- set-ups that look wrong and are right --------------------------------------------------------


@pytest.mark.parametrize("name", ["mödel ü", "漢字 模型", "with space", "quote'\"", "new\nline",
                                  "{}", "%s%n", "a" * 200, "-dash", b"mod\xff\xfel"])
def test_odd_folder_names_work(ingot, room, tmp_path, name):
    folder = pathlib.Path(os.fsdecode(os.path.join(os.fsencode(tmp_path), os.fsencode(name))))
    app_models.copy_model(room / "good", folder)
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(room / "good" / file, folder / file)
    for arguments in (["run", folder, "-n", "2", "--temp", "0", "--json", "hi"],
                      ["inspect", folder, "--json"], ["bench", folder, "-p", "2", "-n", "2", "--json"]):
        done, _ = call(ingot, room, [os.fsencode(a) for a in arguments])
        assert done.returncode == 0, done.stderr
        json.loads(done.stdout)


@pytest.mark.parametrize("flags", [["--top-k", "2147483647"], ["--top-k", "1000000"],
                                   ["--top-p", "1"], ["--min-p", "0"], ["--seed", str(2**64 - 1)],
                                   ["--draft", "off"], ["--prefix-cache", "off"],
                                   ["--logit-bias", "5=-100"], ["-c", "4000"]])
def test_legal_extremes(ingot, room, flags):
    done, _ = call(ingot, room, ["run", str(room / "good"), "-n", "3", *flags, "--temp", "1", "hi"])
    assert done.returncode == 0, done.stderr


def test_a_huge_top_k_is_off(ingot, room):
    said = []
    for flags in ([], ["--top-k", "0"], ["--top-k", "2147483647"]):
        done, _ = call(ingot, room, ["run", str(room / "good"), "-n", "8", "--temp", "1", "--seed",
                                     "7", "--json", *flags, "hi"])
        said.append(json.loads(done.stdout)["tokens"])
    assert said[0] == said[1] == said[2]


def test_no_tokens_wanted(ingot, room):
    done, _ = call(ingot, room, ["run", str(room / "good"), "-n", "0", "--json", "hi"])
    found = json.loads(done.stdout)
    assert (done.returncode, found["tokens"], found["text"]) == (0, [], "")
    assert found["finish_reason"] == "length"
