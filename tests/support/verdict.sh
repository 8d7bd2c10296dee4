# shellcheck shell=sh disable=SC2034
# How shell tests report what they found. Source this before changing folders.

# Prefix that runs a command as an ordinary user without capabilities.
as_user="setpriv --reuid 65534 --regid 65534 --clear-groups --bounding-set -all --inh-caps -all"

skip() {
  echo "SKIPPED: $1"
  exit 77
}

fail() {
  echo "FAILED: $1"
  exit 1
}

# need PROGRAM...
need() {
  for needed; do
    command -v "$needed" > /dev/null || skip "no $needed: type: sh cmake/bootstrap.sh test"
  done
}

need_root() { [ "$(id -u)" = 0 ] || skip "only root can $1"; }
