#!/bin/sh
# Runs a program in environments found in containers and small images.
#
#   contained.sh SURROUNDINGS COMMAND ARGUMENTS
#
#   no-proc       /proc is not mounted
#   no-sys        neither /proc nor /sys
#   read-only     nothing may be written, not even /dev/shm and /tmp
#   no-shm        no /dev/shm
#   rootless      root of a user namespace, whose rights end there
#   nobody        in a user namespace that maps no user
#   own-processes in its own PID namespace, with its own /proc
#   empty-root    only the program, what it is linked to, and the library
#
# Exit status: the command's; 77 if the environment cannot be set up (the reason is printed).
set -eu
. "$(dirname "$0")/../support/verdict.sh"
what=$1
shift
need unshare

may() {
  unshare "$@" true 2> /dev/null || skip "unshare $* is refused"
}
# $1: what to do first; then the command.
in_mounts() {
  may --mount
  exec unshare --mount --propagation private sh -c 'set -e; eval "$1"; shift; exec "$@"' sh "$@"
}
make_root() {
  root=$(mktemp -d)
  trap 'rm -rf "$root"' EXIT
  for file in "$1" $(echo "${LD_PRELOAD:-}" | tr : ' ') $(ldd "$1" | grep -o '/[^ ]*'); do
    mkdir -p "$root/$(dirname "$file")"
    cp -L "$file" "$root/$file"
  done
}

case $what in
  no-proc) in_mounts "umount -l /proc" "$@" ;;
  no-sys) in_mounts "umount -l /sys; umount -l /proc" "$@" ;;
  read-only)
    in_mounts "mount -o remount,bind,ro /; mount -t tmpfs -o ro none /dev/shm" "$@" ;;
  no-shm) in_mounts "mount -t tmpfs -o ro none /dev" "$@" ;;
  rootless)
    may --user --map-root-user
    exec unshare --user --map-root-user --mount "$@" ;;
  nobody)
    may --user
    exec unshare --user "$@" ;;
  own-processes)
    may --pid --fork --mount-proc
    exec unshare --pid --fork --mount-proc "$@" ;;
  empty-root)
    # Not in the shell's own environment: chroot itself must run without it.
    preload=${RDM_PRELOAD:-}
    LD_PRELOAD=$preload make_root "$1"
    status=0
    chroot "$root" "$1" true 2> /dev/null || status=$?
    [ "$status" -lt 125 ] || skip "chroot is refused"
    shift_program=$1
    shift
    status=0
    LD_PRELOAD=$preload chroot "$root" "$shift_program" "$@" || status=$?
    exit "$status" ;;
  *)
    echo "contained.sh: unknown surroundings $what" >&2
    exit 2 ;;
esac
