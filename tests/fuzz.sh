#!/bin/bash
# Runs every fuzz target of a build, two at a time (reliability R1).
#     tests/fuzz.sh BUILD_DIR RUNS [SECONDS]
# RUNS inputs a target; with SECONDS, a target stops then, whichever comes first.  Seeds come
# from tests/corpus/NAME; what a run learns stays in BUILD_DIR/corpus/NAME; an input that
# fails is kept in BUILD_DIR/findings.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
build=$1
export RUNS=$2 SECONDS_EACH=${3:-0} ROOT=$root BUILD=$build
mkdir -p "$build/findings" "$build/fuzz_logs"

fuzz_one() {
  local target=$1 name log
  name=${target##*/fuzz_}
  log=$BUILD/fuzz_logs/$name.log
  local seeds=$ROOT/tests/corpus/$name
  mkdir -p "$BUILD/corpus/$name"
  if [ ! -d "$seeds" ]; then
    echo "FAILED $name: no seed corpus in tests/corpus/$name"
    return 1
  fi
  UBSAN_OPTIONS=print_stacktrace=1 "$target" -seed=20261130 -runs="$RUNS" \
    -max_total_time="$SECONDS_EACH" -timeout=2 -rss_limit_mb=512 -malloc_limit_mb=256 \
    -print_final_stats=1 -artifact_prefix="$BUILD/findings/$name-" \
    "$BUILD/corpus/$name" "$seeds" >"$log" 2>&1 </dev/null
  local rc=$?
  local n_done seconds
  n_done=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  n_done=${n_done:-0}
  seconds=$(sed -n 's/^Done [0-9]* runs in \([0-9]*\) second.*/\1/p' "$log")
  if [ $rc != 0 ]; then
    echo "FAILED $name: $n_done inputs, exit $rc"
    tail -40 "$log"
    return 1
  fi
  if [ "$SECONDS_EACH" = 0 ] && [ "$n_done" -lt "$RUNS" ]; then
    echo "FAILED $name: $n_done inputs, wanted $RUNS"
    return 1
  fi
  echo "fuzz $name: $n_done inputs in ${seconds:-?} s, 0 findings (seed 20261130)"
}
export -f fuzz_one

targets=$(find "$build/fuzz" -maxdepth 1 -name 'fuzz_*' -type f 2>/dev/null | sort)
if [ -z "$targets" ]; then
  echo "fuzz: no targets in $build/fuzz"
  echo "0 passed, 1 failed"
  exit 1
fi
out=$(echo "$targets" | xargs -P 2 -I{} bash -c 'fuzz_one {}')
echo "$out"
n_failed=$(echo "$out" | grep -c '^FAILED')
n_passed=$(echo "$out" | grep -c '^fuzz .* 0 findings')
[ $((n_failed + n_passed)) = "$(echo "$targets" | wc -l)" ] || n_failed=$((n_failed + 1))
echo "$n_passed passed, $n_failed failed"
[ "$n_failed" = 0 ]
