# shellcheck shell=bash
# Shared by the tests of `rdmalloc trace`, in addition to common.sh.

# Records where the build has the replayer and the recorder. Call before run_case.
take_programs() {
  replay_program=$(dirname "$1")/rdmalloc-replay
  recorder_library=$(dirname "$2")/librdmalloc-trace.so
}

# Puts the replayer beside the command, as an installation does.
with_replay() { cp "$replay_program" "$work/bin/" || fail "rdmalloc-replay is not built"; }
with_recorder() {
  cp "$recorder_library" "$work/lib/" || fail "the recorder is not built"
  need python3
}
