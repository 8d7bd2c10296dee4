#!/bin/sh
# Runs one program under one set of limits and compares its end with what was promised.
#
#   case.sh [options] -- PROGRAM ARGUMENTS
#
#   --library FILES    preload these, separated by colons; without it the program runs with the
#                      stock malloc (a control)
#   --expect STATUS    the promised exit status (default 0), or `killed` for SIGKILL; 1 is a broken
#                      promise, so --says or --lines must tell which
#   --user             run as an ordinary user without capabilities
#   --memlock KIB      RLIMIT_MEMLOCK
#   --address-space KIB  RLIMIT_AS
#   --cgroup MIB       inside its own memory control group with this limit, of either version; the
#                      program finds in the file $CASE_GROUP_BYTES how much of it is used
#   --high MIB         in version 2, also with this memory.high, which must not slow the program
#                      down
#   --lines N REGEX    standard error has exactly N lines that match (may be repeated)
#   --only-lines N     standard error has exactly N lines
#   --says REGEX       standard output has a line that matches: the reason for a control's failure
#   --at-once          a region is registered when it is acquired. By default it is registered when
#                      it is looked up on a machine with several NUMA nodes, and in a control group
#                      that limits memory from a sixteenth of the limit on
#   NAME=VALUE         environment of the program
#
# Exit status: 0 as promised, 1 not, 77 skipped (the reason is printed).
set -eu
. "$(dirname "$0")/../support/verdict.sh"
library=
expect=0
user=no
memlock=
address_space=
cgroup=
high=
environment=
lines=
only_lines=
says=
at_once=no

# Whether a control group limits the memory of this process, and its subgroups with it.
is_memory_limited() {
  groups=/sys/fs/cgroup/memory
  if [ -d $groups ]; then
    own=$groups$(sed -n 's/^[0-9]*:memory://p' /proc/self/cgroup)
    [ -d "$own" ] || own=$groups
    [ "$(sed -n 's/^hierarchical_memory_limit //p' "$own/memory.stat")" -lt "$(sed -n 's/^MemTotal: *\([0-9]*\) kB$/\1/p' /proc/meminfo)000" ]
    return
  fi
  groups=/sys/fs/cgroup
  own=$groups$(sed -n 's/^0:://p' /proc/self/cgroup)
  while [ "$own" != $groups ] && [ "$own" != / ]; do
    ! grep -qs '[0-9]' "$own/memory.max" || return 0
    own=$(dirname "$own")
  done
  grep -qs '[0-9]' $groups/memory.max  # in a container
}

while [ "$1" != -- ]; do
  case $1 in
    --library) library=$2; shift ;;
    --expect) expect=$2; shift ;;
    --user) user=yes ;;
    --memlock) memlock=$2; shift ;;
    --address-space) address_space=$2; shift ;;
    --cgroup) cgroup=$2; shift ;;
    --high) high=$2; shift ;;
    --lines) lines="$lines$2 $3
"; shift 2 ;;
    --only-lines) only_lines=$2; shift ;;
    --says) says=$2; shift ;;
    --at-once) at_once=yes ;;
    *=*) environment="$environment $1" ;;
    *) echo "case.sh: unknown option $1" >&2; exit 2 ;;
  esac
  shift
done
shift

if [ $at_once = yes ]; then
  if is_memory_limited; then
    case $environment in
      *RDMALLOC_POPULATE=touch*) skip "a control group limits memory: its last pages are registered when they are touched" ;;
      *) environment=" RDMALLOC_POPULATE=now$environment" ;;
    esac
  fi
  environment=" RDMALLOC_NUMA=local$environment"
fi

if [ "$expect" = 1 ] && [ -z "$says$lines" ]; then
  echo "case.sh: a control fails of what it is there for: add --says or --lines" >&2
  exit 2
fi

work=$(mktemp -d)
group=
finish() {
  for _ in 1 2 3 4 5; do
    [ -z "$group" ] || rmdir "$group" 2>/dev/null || { sleep 0.2; continue; }
    break
  done
  rm -rf "$work"
}
trap finish EXIT
errors=$work/stderr

if [ "$user" = yes ]; then
  need_root "become another user"
  need setpriv
  # That user may be unable to reach the build folder.
  chmod 755 "$work"
  cp "$1" "$work/program"
  chmod 755 "$work/program"
  shift
  set -- "$work/program" "$@"
  copies=
  for file in $(echo "$library" | tr : ' '); do
    cp "$file" "$work/"
    copies=$copies${copies:+:}$work/$(basename "$file")
  done
  library=$copies
  set -- $as_user env $environment ${library:+LD_PRELOAD=$library} "$@"
else
  set -- env $environment ${library:+LD_PRELOAD=$library} "$@"
fi

if [ -n "$cgroup" ]; then
  # Below this process's group, or below the mount if that group is not visible from here.
  root=/sys/fs/cgroup/memory
  limit=memory.limit_in_bytes
  used=memory.usage_in_bytes
  own=$root$(sed -n 's/^[0-9]*:memory://p' /proc/self/cgroup)
  if [ ! -d "$root" ]; then
    root=/sys/fs/cgroup
    limit=memory.max
    used=memory.current
    grep -qw memory "$root/cgroup.controllers" 2>/dev/null || skip "no memory control group at $root"
    # Except for the root, a group with processes cannot have subgroups with limits.
    own=$root
    echo +memory >"$root/cgroup.subtree_control" || skip "cannot limit memory below $root"
  fi
  [ -d "$own" ] || own=$root
  group=$own/rdm_case_$$
  mkdir "$group" 2>/dev/null || { group=; skip "cannot make a control group in $own"; }
  echo $((cgroup << 20)) >"$group/$limit" || skip "cannot limit the control group"
  export CASE_GROUP_BYTES="$group/$used"
  if [ -n "$high" ]; then
    [ -f "$group/memory.high" ] || skip "version 1 of control groups has no memory.high"
    echo $((high << 20)) >"$group/memory.high"
  fi
fi

status=0
(
  [ -z "$memlock" ] || ulimit -l "$memlock" 2>/dev/null || skip "the memlock limit cannot be $memlock KiB"
  [ -z "$group" ] || sh -c 'echo $PPID >"$1"' sh "$group/cgroup.procs"
  [ -z "$address_space" ] || ulimit -v "$address_space"
  [ -z "$says" ] || exec >"$work/stdout"
  exec "$@"
) 2>"$errors" || status=$?
[ -z "$says" ] || cat "$work/stdout"
cat "$errors" >&2

# The shell itself prints "Killed"; that line is not the program's.
sed -i '/^Killed$/d; /case.sh: .*Killed/d' "$errors"
[ "$status" = 77 ] && exit 77
if [ -n "$high" ]; then
  slowed=$(sed -n 's/^high //p' "$group/memory.events")
  [ "$slowed" = 0 ] || { echo "slowed down $slowed times"; status=1; }
fi
[ "$expect" = killed ] && expect=137
if [ "$status" != "$expect" ]; then
  echo "ended with $status, promised was $expect"
  exit 1
fi
if [ -n "$says" ] && ! grep -qE -- "$says" "$work/stdout"; then
  echo "no line of standard output matches '$says': it ended so for another reason"
  exit 1
fi
if [ -n "$only_lines" ] && [ "$(wc -l <"$errors")" != "$only_lines" ]; then
  echo "standard error has $(wc -l <"$errors") lines, promised were $only_lines"
  exit 1
fi
printf %s "$lines" | while read -r count pattern; do
  found=$(grep -cE -- "$pattern" "$errors" || true)
  [ "$found" = "$count" ] || {
    echo "$found lines match '$pattern', promised were $count"
    exit 1
  }
done
