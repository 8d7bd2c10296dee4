#!/bin/sh
# The C interface of librdmalloc.so, as programs were built for it.
#
#   abi.sh check LIBRARY    fails where a program that was built for what is stored would break
#   abi.sh store LIBRARY    stores what LIBRARY has: with a release, and with each new soname
#
# RDMALLOC_ABI names another stored file. LIBRARY has its debug information. Status 77: it cannot be looked at here.
set -eu
folder=$(cd "$(dirname "$0")" && pwd)
task=$1
library=$2
stored=${RDMALLOC_ABI:-$folder/librdmalloc.$(uname -m).abi}
command -v abidw > /dev/null || {
  echo "SKIPPED: no abidw: type: sh cmake/bootstrap.sh test"
  exit 77
}
describe() {
  abidw --exported-interfaces-only --drop-private-types --headers-dir "$folder/../../../include/rdmalloc" \
    --suppressions "$folder/public.ini" --no-show-locs --no-corpus-path --no-comp-dir-path --out-file "$1" "$library"
}
case $task in
  store) describe "$stored" ;;
  check)
    [ -e "$stored" ] || {
      echo "SKIPPED: no description is stored for $(uname -m): type: sh cmake/packaging/abi/abi.sh store $library"
      exit 77
    }
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    describe "$work/now.abi"
    status=0
    abidiff --no-added-syms --suppressions "$folder/growth.ini" "$stored" "$work/now.abi" || status=$?
    [ $status = 0 ] || {
      echo "FAILED: programs built for the stored interface may break. Keep it; or raise the soname and the version, and"
      echo "type: sh cmake/packaging/abi/abi.sh store $library"
      exit 1
    }
    ;;
  *) exit 2 ;;
esac
