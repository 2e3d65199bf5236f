"""Runs clang-tidy over the sources of a build, two at a time, and remembers what passed.

    tests/clang_tidy.py BUILD_DIR

A file is checked again only when it, a header of ours that it includes, its compile
command or .clang-tidy has changed.  Tests are left out: their macros cost most of the time.
"""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TIDY = "clang-tidy-14"


def dependencies(build):
    """Object file -> the headers and sources of ours that went into it."""
    lines = subprocess.run(["ninja", "-C", build, "-t", "deps"], check=True,
                           capture_output=True, text=True).stdout.splitlines()
    found, current = {}, None
    for line in lines:
        if line and not line.startswith(" "):
            current = found.setdefault(line.split(":")[0], [])
        elif current is not None and str(ROOT) in line:
            current.append(line.strip())
    return found


def compile_commands(build):
    """The entries for sources under src/ that are no tests, one an entry a file."""
    entries = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        path = pathlib.Path(entry["file"])
        if ROOT / "src" in path.parents and not path.name.endswith("_test.cc"):
            entries[path] = entry
    return entries


def key_of(entry, files):
    digest = hashlib.sha256((ROOT / ".clang-tidy").read_bytes())
    digest.update(pathlib.Path(__file__).read_bytes())
    digest.update(entry["command"].replace(entry["directory"], "").encode())
    for name in sorted(set(files)):
        digest.update(name.encode() + pathlib.Path(name).read_bytes())
    return digest.hexdigest()


def tidy(path, build):
    command = [TIDY, "-p", str(build), "--quiet", "--extra-arg=-Wno-unknown-warning-option",
               "--extra-arg=-Wno-ignored-optimization-argument", str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    errors = "\n".join(line for line in done.stderr.splitlines()
                       if "warnings generated" not in line and "warning generated" not in line)
    return done.returncode == 0, done.stdout + errors


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    cache = build / "clang_tidy_passed"
    cache.mkdir(exist_ok=True)
    deps = dependencies(build)
    todo, n_known = {}, 0
    for path, entry in compile_commands(build).items():
        # The object's name follows -o in the compile command.
        words = shlex.split(entry["command"])
        key = key_of(entry, deps.get(words[words.index("-o") + 1], []) + [str(path)])
        if (cache / key).exists():
            n_known += 1
        else:
            todo[path] = key
    n_failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for (path, key), (passed, text) in zip(
                todo.items(), pool.map(lambda p: tidy(p, build), todo)):
            if passed:
                (cache / key).touch()
            else:
                n_failed += 1
                print(f"--- {path.relative_to(ROOT)}\n{text}")
    n_passed = n_known + len(todo) - n_failed
    print(f"clang-tidy: {len(todo)} files looked at, {n_known} unchanged")
    print(f"{n_passed} passed, {n_failed} failed")
    return 1 if n_failed else 0


if __name__ == "__main__":
    sys.exit(main())
