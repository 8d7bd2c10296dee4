#!/bin/bash
# `rdmalloc info` and `rdmalloc doctor` on several kinds of systems.
. "$(dirname "$0")/common.sh"

all_in_window() {
  try "$rdmalloc" info --json
  promise_status 0
  cp "$work/out" "$work/info"
  promise_json info 'report["engine"]["took"] is True'
  promise_json info 'report["engine"]["allocations"] > 100'
  promise_json info 'report["engine"]["allocations_in_window"] == report["engine"]["allocations"]'
  promise_json info 'report["window_bytes"] >= report["budget_bytes"] > 0'
  promise_json info 'len(report["numa_nodes"]) > 0'
}

options_in_force() {
  try env RDMALLOC_CAP=64M RDMALLOC_SEAL=perhaps RDMALLOC_BOGUS=1 "$rdmalloc" info --json
  promise_status 0
  cp "$work/out" "$work/info"
  cap='[o for o in report["options"] if o["name"] == "cap"][0]'
  promise_json info "${cap}['value'] == '64M' and ${cap}['bytes'] == 64 << 20"
  promise_json info "${cap}['source'] == 'environment' and ${cap}['default'] == '80%'"
  promise_json info 'report["budget_bytes"] <= 64 << 20'
  promise_json info '[o["value"] for o in report["options"] if o["name"] == "seal"] == ["off"]'
  promise_json info '"RDMALLOC_BOGUS" in report["warning"]'
  "$rdmalloc" options | sed -n 's/^\(RDMALLOC_[A-Z_]*\),.*/\1/p' | while read -r variable; do
    promise_json info "'$variable' in [o['variable'] for o in report['options']]"
  done || exit 1
}

library_missing() {
  rm "$work/lib/librdmalloc.so.0"
  try "$rdmalloc" info
  promise_status 1
  promise_printed "cannot find the library"
  try "$rdmalloc" doctor
  promise_status 1
  promise_printed "problem  library"
}

ordinary_user() {
  need_root "become an ordinary user"
  try_as_user "$rdmalloc" info
  promise_status 0
  [ ! -s "$work/err" ] || fail "info wrote to standard error"
  try_as_user "$rdmalloc" doctor
  [ "$status" -le 1 ] || fail "doctor ended with $status"
  [ ! -s "$work/err" ] || fail "doctor wrote to standard error"
  promise_printed "ok       preload"
}

small_memlock() {
  need_root "give up CAP_IPC_LOCK"
  ulimit -l 64
  try_as_user "$rdmalloc" doctor
  promise_status 1
  promise_printed "problem  memlock"
  promise_printed "/etc/security/limits.d"
  promise_printed "LimitMEMLOCK=infinity"
  promise_printed "--ulimit memlock=-1"
  promise_printed "cap_ipc_lock"
}

raisable_memlock() {
  need_root "give up CAP_IPC_LOCK"
  ulimit -S -l 64
  try_as_user "$rdmalloc" doctor
  promise_printed "> ulimit -l $(ulimit -H -l)"
}

small_caps() {
  # The engine's slabs are 64 KiB where kernels have pages of different sizes.
  cap=4M
  [ "$(uname -m)" != x86_64 ] || cap=1M
  for setting in RDMALLOC_MEMORY_CAP=$cap "RDMALLOC_CAP=$cap RDMALLOC_STRICT=on"; do
    try env $setting "$rdmalloc" info --json
    promise_status 0
    cp "$work/out" "$work/info"
    promise_json info '0 < report["budget_bytes"]'
  done
}

small_address_space() {
  ulimit -v 900000
  try "$rdmalloc" doctor
  promise_status 1
  promise_printed "problem  address space"
  promise_printed "ulimit -v unlimited"
}

# The first line names what the first problem's lines say; then come problems, notes, what is ok.
gravest_first() {
  ulimit -v 900000
  try "$rdmalloc" doctor
  promise_status 1
  name=$(sed -n 's/^problem  \(.............\).*/\1/p' "$work/out" | sed -n '1s/ *$//p')
  cure=$(sed -n 's/^ *> //p' "$work/out" | sed -n 1p)
  line=$(sed -n 1p "$work/out")
  echo "$line" | grep -qE "^[0-9]+ problems?, ([0-9]+|no) notes? in [0-9]+ checks; begin with " ||
    fail "the first line does not sum up"
  [ "${line#*; begin with }" = "$name: $cure" ] || fail "the first line does not name $name: $cure"
  order=$(sed -n 's/^\(problem\|note\|ok\)  .*/\1/p' "$work/out" | uniq | tr '\n' ' ')
  [ "$order" = "problem note ok " ] || [ "$order" = "problem ok " ] || fail "in the order $order"
}

doctor_json() {
  try "$rdmalloc" doctor --json
  cp "$work/out" "$work/doctor"
  promise_json doctor "report['problems'] == (1 if $status else 0) or report['problems'] > 1"
  promise_json doctor 'all(c["status"] in ("ok", "note", "problem") for c in report["checks"])'
  promise_json doctor 'all(c["name"] and c["found"] for c in report["checks"])'
  promise_json doctor \
    'all(c["meaning"] and c["to_change"] for c in report["checks"] if c["status"] != "ok")'
}

# Each finding is explained by indented lines below it.
explains_all() {
  for words in doctor "doctor --all"; do
    # shellcheck disable=SC2086  # words
    try "$rdmalloc" $words
    awk '/^ok / { ok = 1; next } /^[a-z]/ { ok = 0 } ok && /^ / { ++said } END { print said + 0 }' \
      "$work/out" >>"$work/explained"
  done
  [ "$(sed -n 1p "$work/explained")" = 0 ] || fail "doctor explains what is ok, unasked"
  [ "$(sed -n 2p "$work/explained")" -gt 0 ] || fail "doctor --all explains nothing that is ok"
}

monitors() {
  try "$rdmalloc" doctor --all
  grep -qE "^(ok|note) +monitor +(userfaultfd|interposed|none): " "$work/out" ||
    fail "doctor does not name the monitor in force"
  promise_printed "vm.unprivileged_userfaultfd=1"
  try env RDMALLOC_MONITOR=interposed "$rdmalloc" doctor
  grep -qE "^note +monitor +interposed: calls come through our functions" "$work/out" ||
    fail "doctor does not obey RDMALLOC_MONITOR, or interposed is not in force"
  promise_printed "unset RDMALLOC_MONITOR   (it is interposed)"
  try env RDMALLOC_MONITOR=none "$rdmalloc" doctor
  grep -qE "^note +monitor +none: .*RDMALLOC_MONITOR is none" "$work/out" ||
    fail "doctor does not say why there is no monitor"
}
verbs() {
  try "$rdmalloc" doctor --all
  grep -qE "^(ok|note) +rdma devices +" "$work/out" || fail "doctor does not name devices"
  promise_printed "dlsym or dlvsym"
  promise_printed "librdmalloc-verbs.so"
  cp "$work/lib/librdmalloc.so.0" "$work/lib/librdmalloc-verbs.so"
  try "$rdmalloc" doctor
  grep -qE "^(ok|note) +verbs +(run --verbs interposes|libibverbs.so.1 is not)" "$work/out" ||
    fail "doctor does not say which libibverbs there is"
}

without_kernel_files() {
  need_root "hide /sys"
  need unshare
  unshare -m true 2>/dev/null || skip "mount namespaces are not allowed here"
  hide_and_run='for f in $1; do mount -t tmpfs none "$f" || exit 9; done; shift; exec "$@"'
  for hide in "/sys /proc/sys" "/proc"; do
    for what in info doctor; do
      try unshare -m sh -c "$hide_and_run" sh "$hide" "$rdmalloc" "$what"
      [ "$status" -le 1 ] || fail "$what ended with $status without $hide"
      [ -s "$work/out" ] || fail "$what printed nothing without $hide"
    done
  done
}

run_case "$@"
