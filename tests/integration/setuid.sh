#!/bin/sh
# A setuid program ignores its caller's environment variables: the one that would write a file as
# root, and all others. The control is the same program without the bit.
#
#   setuid.sh COMPILER SOURCE INCLUDE_FOLDER LIBRARY [--control]
set -eu
. "$(dirname "$0")/../support/verdict.sh"
need_root "own a program that is setuid"
need setpriv "$1"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The other user must be able to reach all of it, and the loader ignores $ORIGIN here, so it is
# linked with this path.
chmod 755 "$work"
cp "$4" "$work/librdmalloc.so.0"
"$1" -I "$3" -fno-builtin "$2" "$work/librdmalloc.so.0" -Wl,-rpath,"$work" -o "$work/program"
echo untouched >"$work/file_of_root"
chmod 755 "$work/librdmalloc.so.0" "$work/program"
chmod 600 "$work/file_of_root"
user=
must=
if [ "${5:-}" != --control ]; then
  chmod 4755 "$work/program"
  user="setpriv --reuid 65534 --regid 65534 --clear-groups"
  must=must
fi
status=0
$user env RDMALLOC_REPORT="$work/file_of_root" RDMALLOC_BANANA=1 RDMALLOC_STATS=on \
  "$work/program" $must 2>"$work/stderr" || status=$?
cat "$work/stderr" >&2
[ "$status" = 0 ] || exit "$status"
[ "$(cat "$work/file_of_root")" = untouched ] || { echo "a file of root was overwritten"; status=1; }
[ ! -s "$work/stderr" ] || { echo "a variable of the caller was heeded"; status=1; }
[ "${5:-}" != --control ] || { [ "$status" = 1 ] && status=0 || status=1; }
exit "$status"
