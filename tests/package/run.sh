#!/bin/bash
# Installs a build under a fresh prefix, builds the project in this folder against it, from
# another folder, and runs both programs.    tests/package/run.sh BUILD_DIR
set -eu
build=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$build" --prefix "$work/prefix"
cp "$here/CMakeLists.txt" "$here"/*.cc "$work/"
cmake -S "$work" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$work/prefix"
cmake --build "$work/build"
"$work/prefix/bin/ingot" --version
"$work/build/uses_ingot"
