# shellcheck shell=sh
# Shared by the tests that work in a root file system of their own. Source it first, with all
# arguments: what follows runs as root in mount and PID namespaces of its own, with verdict.sh.
#
# Leaves $work, a folder, and $root, the root file system below it; both go away with the script. If
# RDMALLOC_ROOT_TAR names a file, it keeps the bare root file system for the next time.
. "$(dirname "$0")/../../support/verdict.sh"
need_root "make a root file system"
need mmdebstrap

# What is mounted or running there ends with the script.
[ -n "${IN_NAMESPACES:-}" ] ||
  exec unshare --mount --pid --fork --kill-child env IN_NAMESPACES=yes sh "$0" "$@"
work=$(mktemp -d "${TMPDIR:-/tmp}/rdmalloc-root.XXXXXX")
chmod 755 "$work"  # apt reads keys there as another user
# Lazily: what stayed mounted would be emptied with it.
trap 'umount --recursive --lazy "$work"/root/* "$work"/root/old/proc 2> /dev/null || :; rm -rf --one-file-system "$work"' EXIT
root=$work/root

# make_root SUITE ARGUMENTS...: those of mmdebstrap.
make_root() {
  suite=$1
  shift
  tar=${RDMALLOC_ROOT_TAR:-$work/root.tar}
  if [ ! -s "$tar" ]; then
    timeout 1800 mmdebstrap --quiet --variant=minbase --include=apt "$@" "$suite" "$tar" \
      > "$work/log" 2>&1 || {
      tail -5 "$work/log"
      skip "the mirror of $suite could not be had"
    }
  fi
  mkdir "$root"
  tar -x -C "$root" --exclude='./dev/*' -f "$tar"
  cp -L /etc/resolv.conf "$root/etc/resolv.conf" 2> /dev/null || :
  echo force-unsafe-io > "$root/etc/dpkg/dpkg.cfg.d/quick"  # dpkg would wait for the disk after each file
  mount -t proc proc "$root/proc"
  mount -t sysfs sys "$root/sys"
  mount --rbind /dev "$root/dev"
}

# inside SCRIPT [NAME=value...]: runs it there.
inside() {
  script=$1
  shift
  chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
    DEBIAN_FRONTEND=noninteractive "$@" sh -euc "$script"
}
