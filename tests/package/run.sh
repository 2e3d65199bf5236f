#!/bin/bash
# Installs a build under a fresh prefix, builds the project in this folder against it, from
# another folder, and runs both programs.  The library must continue the qwen3 fixture's
# prompts with the tokens of transformers.  Needs ./check's .venv.
#     tests/package/run.sh BUILD_DIR
set -eu
build=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$build" --prefix "$work/prefix"
cp "$here/CMakeLists.txt" "$here/main.cc" "$work/"
cmake -S "$work" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$work/prefix"
cmake --build "$work/build"
"$work/prefix/bin/ingot" --version

tar -xJf "$here/../data/fixtures.tar.xz" -C "$work" qwen3
root=$(cd "$here/../.." && pwd)
cd "$root"
.venv/bin/python - "$work" <<'PYTHON'
import subprocess, sys
from reference import tensors
work = sys.argv[1]
golden, _ = tensors.load(f"{work}/qwen3/golden.safetensors")
for i in range(3):
    ids, wanted = golden[f"p{i}.ids"].tolist(), golden[f"p{i}.greedy"].tolist()
    got = subprocess.run([f"{work}/build/uses_ingot", f"{work}/qwen3", str(len(wanted)),
                          *map(str, ids)], check=True, capture_output=True, text=True)
    tokens = [int(word) for word in got.stdout.split()]
    assert tokens == wanted, f"{len(ids)} prompt tokens: got {tokens}, wanted {wanted}"
    print(f"package: {len(wanted)} tokens equal after {len(ids)}")
PYTHON
