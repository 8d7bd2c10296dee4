#!/bin/sh
# Nothing installed contains a breakage; the sources, breakages.cmake and tests/README.md name the
# same breakages.
#
#   breakages_test.sh SOURCE_FOLDER BROKEN_PROGRAM LIBRARY BREAKAGE...
set -u
cd "$1" || exit 2
program=$2
library=$3
shift 3
failed=0

broken() {
  echo "BROKEN: $1"
  failed=1
}
sorted() { tr ' ' '\n' | sed '/^$/d' | sort -u; }

tested=$(echo "$@" | sorted)
in_sources=$(grep -rho 'RDM_BROKEN([a-z_]*)' allocator regcache --include='*.cpp' |
  sed 's/.*(\(.*\))/\1/' | sorted)
in_readme=$(sed -n 's/^| `\([a-z_]*\)` | .*/\1/p' tests/README.md | sorted)
[ "$(echo "$tested" | wc -l)" -ge 10 ] || broken "there are fewer than ten breakages: $tested"
[ "$in_sources" = "$tested" ] || broken "breakages in the sources: $in_sources; tested: $tested"
[ "$in_readme" = "$tested" ] || broken "breakages in tests/README.md: $in_readme; tested: $tested"

# A header may be compiled into programs of both kinds.
! grep -rl 'RDM_BROKEN(' allocator regcache include --include='*.h' --include='*.hpp' |
  grep -v '^allocator/breakage\.h$' || broken "a header has a breakage"

# Run on the program that has them first, to prove that the search works.
nm "$program" | grep -q is_broken || broken "nm does not find the switch in $program"
! nm "$library" | grep is_broken || broken "$library has the switch"
for breakage in RDM_BREAK $tested; do
  ! grep -q "$breakage" "$library" || broken "$library knows $breakage"
done
grep -q RDM_BREAK "$program" || broken "$program does not look for RDM_BREAK"
exit $failed
