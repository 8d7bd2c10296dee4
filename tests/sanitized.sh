#!/bin/sh
# Builds a sanitizer's preset, and runs what is in it. The preset asan has libFuzzer's targets, too:
# what they find is a broken promise, an address or undefined behaviour error, or a hang.
#
#   sanitized.sh PRESET build
#   sanitized.sh PRESET test
#   sanitized.sh PRESET fuzz FUZZER INPUTS SECONDS   from the inputs in a folder of fuzz/, and one seed
#
# In the source folder. The build leaves the processors to tests that are bounded in time. Skipped (77)
# where the compiler does not know that sanitizer.
set -u
. "$(dirname "$0")/support/verdict.sh"
preset=$1
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT

# can_build COMPILER OPTION PACKAGES
can_build() {
  echo 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }
int main() { return 0; }' > "$work/probe.cpp"
  "$1" "$2" "$work/probe.cpp" -o "$work/probe" 2> /dev/null ||
    skip "$1 cannot build with $2: install $3"
}
case $preset in
  asan) can_build clang++ -fsanitize=fuzzer-no-link,address,undefined "clang and libclang-rt-14-dev" ;;
  tsan) can_build g++ -fsanitize=thread libtsan2 ;;
  *) echo "sanitized.sh: no preset $preset" >&2; exit 2 ;;
esac

fuzz() {
  mkdir "$work/found"
  # New inputs, and what breaks, go there; the latter is shown, so that it can be run again.
  if ! build/asan/bin/$1 -seed=1 -len_control=0 -max_total_time="$3" \
      -max_len=1024 -timeout=10 -rss_limit_mb=2048 -artifact_prefix="$work/" "$work/found" \
      "tests/fuzz/$2" > "$work/log" 2>&1; then
    tail -n 60 "$work/log"
    for input in "$work"/crash-* "$work"/timeout-* "$work"/leak-*; do
      [ ! -e "$input" ] || { echo "the input, for base64 -d:"; base64 "$input"; }
    done
    exit 1
  fi
  tail -n 2 "$work/log"
}

# What it says of the tests that pass would hide what it says of the others.
run_tests() {
  { ctest --preset "$preset" 2>&1; echo $? > "$work/status"; } |
    grep --line-buffered -vE '^ *Start +[0-9]+: | Passed +[0-9.]+ sec$'
  exit "$(cat "$work/status")"
}

case $2 in
  build) cmake --preset "$preset" && nice cmake --build --preset "$preset" ;;
  test) run_tests ;;
  fuzz) fuzz "$3" "$4" "$5" ;;
  *) echo "sanitized.sh: $2 is not build, test or fuzz" >&2; exit 2 ;;
esac
