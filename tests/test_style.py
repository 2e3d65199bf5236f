"""Each rule of style.py and of the no-framework check bites, and lets good text pass."""

import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import style  # noqa: E402

BAD = [
    ("src/tensor/a.cc", '#include "model/recipe.h"\n', "room_order"),
    ("src/base/a.h", '#pragma once\n#include "tensor/dtype.h"\n', "room_order"),
    ("include/ingot/a.h", '#pragma once\n#include "base/error.h"\n', "room_order"),
    ("src/text/a.cc", "std::shared_ptr<int> p;\n", "no_shared_ptr"),
    ("src/text/a.cc", "#if defined(__AVX2__)\n#endif\n", "targets_in_device_and_ops"),
    ("src/base/a.cc", "#ifdef __aarch64__\n#endif\n", "targets_in_device_and_ops"),
    ("src/model/forward.cc", 'if (name == "llama") return;\n', "models_are_data"),
    ("src/ops/a.cc", "bool is_gemma3 = true;\n", "models_are_data"),
    ("src/text/a.cc", "int x;\n" * 601, "small_files"),
    ("src/text/a.h", "int x;\n", "header_guards"),
    ("docs/a.md", "see /work/" + "main/x\n", "no_lone_machine"),
    ("tests/a.sh", "curl py" + "pi.org\n", "no_lone_machine"),
]

GOOD = [
    ("src/model/a.cc", '#include "tensor/dtype.h"\n#include "model/recipe.h"\n'),
    ("src/model/derive/llama.cc", 'if (name == "llama") return;\n'),
    ("src/model/a.cc", "// as llama does\nint x;\n"),
    ("src/ops/cpu/a.cc", "#ifdef __AVX2__\n#endif\n"),
    ("src/text/a.cc", "// no shared_ptr here\n"),
    ("src/text/a.h", "#pragma once\n" + "int x;\n" * 599),
    ("include/ingot/a.h", '#pragma once\n#include "ingot/b.h"\n#include <vector>\n'),
]


def found(tmp_path, name, text):
    path = tmp_path / name
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return {rule.__name__ for rule, *_ in style.findings(tmp_path, [pathlib.Path(name)])}


@pytest.mark.parametrize("name,text,rule", BAD)
def test_bad_text_is_found(tmp_path, name, text, rule):
    assert found(tmp_path, name, text) == {rule}


@pytest.mark.parametrize("name,text", GOOD)
def test_good_text_passes(tmp_path, name, text):
    assert found(tmp_path, name, text) == set()


def test_whole_run_fails_on_one_finding(tmp_path):
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "src" / "base").mkdir(parents=True)
    (tmp_path / "src/base/a.h").write_text("int x;\n")
    done = subprocess.run([sys.executable, style.__file__, str(tmp_path)],
                          capture_output=True, text=True)
    assert done.returncode == 1
    assert "src/base/a.h:1: no #pragma once" in done.stdout
    assert done.stdout.splitlines()[-1] == f"{len(style.SOURCE_RULES + style.TEXT_RULES) - 1} passed, 1 failed"
