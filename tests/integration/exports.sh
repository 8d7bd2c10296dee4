#!/bin/sh
# The library exports exactly what its version script lists, and needs only libc and the compiler's
# runtime (a shim also librdmalloc): above all no libstdc++.
#
#   exports.sh LIBRARY VERSION_SCRIPT
set -eu
list=$(mktemp)
trap 'rm -f "$list"' EXIT
sed -n '/global:/,/local:/p' "$2" | grep -o '[A-Za-z_][A-Za-z0-9_]*\*\{0,1\};' | tr -d ';' >"$list"
status=0
for symbol in $(nm -D --defined-only "$1" | awk '{ print $3 }' | sed 's/@.*//'); do
  case $symbol in
    rdm_*) ;;
    *) grep -qx "$symbol" "$list" || { echo "exports $symbol"; status=1; } ;;
  esac
done
while read -r symbol; do
  [ "$symbol" = 'rdm_*' ] && continue
  nm -D --defined-only "$1" | grep -q " $symbol\$" || { echo "lacks $symbol"; status=1; }
done <"$list"
for needed in $(LC_ALL=C readelf -d "$1" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p'); do
  case $needed in
    libc.so.* | ld-linux* | librdmalloc.so.*) ;;
    *) echo "needs $needed"; status=1 ;;
  esac
done
exit $status
