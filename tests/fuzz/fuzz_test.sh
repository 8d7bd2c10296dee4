#!/bin/sh
# Runs a fuzzer of this folder for some seconds, from the inputs in a folder and one seed: what it
# finds is a broken promise, an address or undefined behaviour error, or a hang. Skipped (77)
# without a clang++ that has libFuzzer.
# usage: fuzz_test.sh SOURCE_FOLDER SECONDS FUZZER INPUTS
cd "$1" || exit 2
command -v clang++ > /dev/null || { echo "SKIPPED: no clang++ (install clang)"; exit 77; }
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
echo 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }' \
  > "$work/probe.cpp"
clang++ -fsanitize=fuzzer,address,undefined "$work/probe.cpp" -o "$work/probe" 2> /dev/null ||
  { echo "SKIPPED: clang++ has no libFuzzer (install libclang-rt-14-dev)"; exit 77; }
cmake --preset fuzz > "$work/log" && cmake --build --preset fuzz > "$work/log" ||
  { cat "$work/log"; exit 1; }
mkdir "$work/found"
# New inputs, and what breaks, go there; the latter is shown, so that it can be run again.
if ! build/fuzz/bin/$3 -seed=1 -len_control=0 -max_total_time="$2" \
    -max_len=1024 -timeout=10 -rss_limit_mb=2048 -artifact_prefix="$work/" "$work/found" \
    "tests/fuzz/$4" > "$work/log" 2>&1; then
  tail -n 60 "$work/log"
  for input in "$work"/crash-* "$work"/timeout-* "$work"/leak-*; do
    [ ! -e "$input" ] || { echo "the input, for base64 -d:"; base64 "$input"; }
  done
  exit 1
fi
tail -n 2 "$work/log"
