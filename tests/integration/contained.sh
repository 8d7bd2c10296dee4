#!/bin/sh
# Runs a program in surroundings that containers and small images have.
#
#   contained.sh SURROUNDINGS COMMAND ARGUMENTS
#
#   no-proc       /proc is not mounted
#   no-sys        neither /proc nor /sys
#   read-only     nothing may be written: /dev/shm and /tmp neither
#   no-shm        no /dev/shm
#   rootless      root of a user namespace, whose rights do not count outside
#   nobody        in a user namespace that knows no user
#   own-processes in a namespace of processes of its own, with its own /proc
#   empty-root    nothing but the program, what it is linked to, and the library
#
# Exit status: the command's; 77 where such surroundings cannot be made (the reason is printed).
set -eu
what=$1
shift

skip() {
  echo "SKIPPED: $1"
  exit 77
}
command -v unshare > /dev/null || skip "no unshare"

may() {
  unshare "$@" true 2> /dev/null || skip "unshare $* is refused"
}
# The rest of the arguments: what to do first, as $1; then the command.
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
    # Not in the shell's own environment: chroot itself shall run as ever.
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
