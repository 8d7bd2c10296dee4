#!/bin/sh
# A setuid program heeds no variable of its caller: not the one that writes a file as root, nor any
# other. The control is the same program without the bit.
#
#   setuid.sh COMPILER SOURCE INCLUDE_FOLDER LIBRARY [--control]
set -eu
skip() {
  echo "SKIPPED: $1"
  exit 77
}
[ "$(id -u)" = 0 ] || skip "a program owned by root needs root"
command -v setpriv >/dev/null || skip "no setpriv"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The other user must reach all of it, and the loader heeds no $ORIGIN here: linked with this path.
chmod 755 "$work"
cp "$4" "$work/librdmalloc.so.0"
"$1" -I "$3" -fno-builtin "$2" "$work/librdmalloc.so.0" -Wl,-rpath,"$work" -o "$work/program"
echo untouched >"$work/file_of_root"
chmod 755 "$work/librdmalloc.so.0" "$work/program"
chmod 600 "$work/file_of_root"
as_user=
must=
if [ "${5:-}" != --control ]; then
  chmod 4755 "$work/program"
  as_user="setpriv --reuid 65534 --regid 65534 --clear-groups"
  must=must
fi
status=0
$as_user env RDMALLOC_REPORT="$work/file_of_root" RDMALLOC_BANANA=1 RDMALLOC_STATS=on \
  "$work/program" $must 2>"$work/stderr" || status=$?
cat "$work/stderr" >&2
[ "$status" = 0 ] || exit "$status"
[ "$(cat "$work/file_of_root")" = untouched ] || { echo "a file of root was overwritten"; status=1; }
[ ! -s "$work/stderr" ] || { echo "a variable of the caller was heeded"; status=1; }
[ "${5:-}" != --control ] || { [ "$status" = 1 ] && status=0 || status=1; }
exit "$status"
