"""What the tests of pull, list and rm share: a store of its own, and how results are judged."""

import json
import os
import subprocess
import time

import pytest

from hub_server import Hub, tiny_gguf

TOKEN = "hf_secretTokenOfThisTest"
FILE = "tiny-Q8_0.gguf"
REF = "hf:org/model:Q8_0"


class Store:
    """One store of its own, and the binary on it."""

    def __init__(self, ingot, home):
        self.ingot, self.home = ingot, home
        self.models = home / "models"

    def environment(self, hub=None, **extra):
        keep = {k: v for k, v in os.environ.items()
                if not k.startswith(("HF_", "XDG_")) and "proxy" not in k.lower()}
        keep.update(INGOT_HOME=str(self.home), HF_ENDPOINT=hub.url if hub else "http://127.0.0.1:9")
        keep.update(extra)
        return keep

    def start(self, *arguments, hub=None, prefix=(), **extra):
        return subprocess.Popen([*prefix, self.ingot, *map(str, arguments)], text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                errors="surrogateescape", env=self.environment(hub, **extra))

    def run(self, *arguments, hub=None, timeout=60, prefix=(), **extra):
        process = self.start(*arguments, hub=hub, prefix=prefix, **extra)
        out, err = process.communicate(timeout=timeout)
        assert TOKEN not in out + err, "the token was shown"
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)

    def pull(self, *arguments, hub=None, **extra):
        return self.run("pull", *arguments, hub=hub, **extra)

    def names(self):
        done = self.run("list", "--json")
        assert done.returncode == 0, done.stderr
        return [m["name"] for m in json.loads(done.stdout)["models"]]

    def entry(self, name):
        models = json.loads(self.run("list", "--json").stdout)["models"]
        return next(m for m in models if m["name"] == name)

    def bytes(self, name, file):
        return (self.models / name / file).read_bytes()

    def partials(self):
        return sorted((self.models / ".incoming").glob("*/*.partial"))

    def leftovers(self):
        """Everything in the store that is no whole model."""
        return [p for p in self.models.rglob("*")
                if p.is_file() and p.relative_to(self.models).parts[0].startswith(".")]


@pytest.fixture
def store(ingot, tmp_path):
    return Store(ingot, tmp_path / "home")


@pytest.fixture
def gguf_hub():
    with Hub({FILE: tiny_gguf()}) as hub:
        yield hub


def failed(done, *words, code=1):
    """One clear line (and at most a hint), the wanted exit code, the wanted words."""
    assert done.returncode == code, (done.returncode, done.stderr)
    lines = [l for l in done.stderr.splitlines() if "trying again" not in l and "warning" not in l]
    assert lines and lines[0].startswith("ingot: "), done.stderr
    assert len(lines) <= 2, done.stderr
    for word in words:
        assert word in done.stderr, (word, done.stderr)


def pulled(store, hub, done, name="tiny-Q8_0", file=FILE):
    assert done.returncode == 0, done.stderr
    assert done.stdout == name + "\n"
    assert store.bytes(name, file) == hub.files[file]
    assert store.names() == [name]
    assert store.leftovers() == []


def wait_for(condition, seconds=20):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "waited too long"
        time.sleep(0.02)


needs_strace = pytest.mark.skipif(
    subprocess.run(["sh", "-c", "strace -o /dev/null true"], capture_output=True).returncode != 0,
    reason="strace is not installed or may not trace here")
def strace(call, what):
    return ("strace", "-f", "-o", "/dev/null", "-e", f"trace={call}", "-e", f"inject={call}:{what}")
