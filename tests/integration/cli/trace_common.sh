# shellcheck shell=bash
# What the tests of `rdmalloc trace` share, on top of common.sh.

# Remembers where the build has what replays and what records: before run_case.
take_programs() {
  replay_program=$(dirname "$1")/rdmalloc-replay
  recorder_library=$(dirname "$2")/librdmalloc-trace.so
}

# Puts it beside the command, as an installation does.
with_replay() { cp "$replay_program" "$work/bin/" || fail "rdmalloc-replay is not built"; }
with_recorder() {
  cp "$recorder_library" "$work/lib/" || fail "the recorder is not built"
  command -v python3 >/dev/null || skip "no python3 to compare traces with"
}
