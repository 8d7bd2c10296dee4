#!/bin/sh
# Programs built for the stored interface run with this library; a missing function or a moved field
# is detected.
#
#   abi_test.sh SOURCE LIBRARY
set -eu
. "$(dirname "$0")/../../support/verdict.sh"
folder=$1/cmake/packaging/abi
library=$2
status=0
sh "$folder/abi.sh" check "$library" || status=$?
[ $status = 0 ] || exit $status
echo "- the interface is what is stored, or more"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# changed SENTENCE SED_EXPRESSION: pretends that another interface was stored.
changed() {
  sed "$2" "$folder/librdmalloc.$(uname -m).abi" > "$work/changed.abi"
  cmp -s "$folder/librdmalloc.$(uname -m).abi" "$work/changed.abi" &&
    fail "nothing could be changed for: $1"
  if RDMALLOC_ABI=$work/changed.abi sh "$folder/abi.sh" check "$library" > /dev/null 2>&1; then
    fail "it is not found that $1"
  fi
  echo "- it is found that $1"
}
changed "a function is gone" "s/'rdm_lookup'/'rdm_looked_up'/g"
changed "a field lies elsewhere" "/<class-decl name='rdm_mr'/,/<.class-decl>/s/layout-offset-in-bits='64'/layout-offset-in-bits='96'/"
