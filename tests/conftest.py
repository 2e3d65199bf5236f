"""What tests of the whole program share: the binary that ./check built."""

import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def ingot():
    """Path of the binary: $INGOT, else build/release/ingot."""
    path = pathlib.Path(os.environ.get("INGOT", ROOT / "build/release/ingot"))
    assert path.is_file(), f"{path} is not built"
    return path


@pytest.fixture
def run_ingot(ingot, tmp_path):
    """run_ingot(*arguments, stdin=None, env={}) -> CompletedProcess with text output; the store
    is a folder of this test's own."""

    def run(*arguments, stdin=None, env=None, timeout=120):
        environment = dict(os.environ, INGOT_HOME=str(tmp_path / "ingot_home"))
        environment.update(env or {})
        return subprocess.run([ingot, *map(str, arguments)], input=stdin, capture_output=True,
                              text=True, env=environment, timeout=timeout)

    return run
