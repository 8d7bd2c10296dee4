#!/bin/sh
# Runs the README's first command in a clean clone: it builds only the library and the command, and
# shows its two programs.
#
#   demo.sh SOURCE_FOLDER MOST_OBJECTS
set -eu
. "$(dirname "$0")/../support/verdict.sh"
source=$1
most=$2
git -C "$source" rev-parse HEAD > /dev/null 2>&1 || skip "$source is no clone of git"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# Includes uncommitted changes, which are under test too.
git clone -q --no-local --depth 1 "file://$source" "$folder/clone"
(cd "$source" && git ls-files -z --cached --others --exclude-standard |
  xargs -0 sh -c 'for file; do [ ! -e "$file" ] || printf "%s\0" "$file"; done' sh |
  tar -c --null -T -) | tar -x -C "$folder/clone"
cd "$folder/clone"
status=0
# A little behind the tests beside it; further behind, a loaded machine would never come to it.
nice -n 3 sh cmake/bootstrap.sh --no-packages demo > "$folder/shown" 2>&1 || status=$?
cat "$folder/shown"
[ $status = 0 ] || fail "it ended with $status"

objects=$(find build -name '*.o' | wc -l)
echo "- $objects objects were built, of at most $most"
[ "$objects" -gt 0 ] && [ "$objects" -le "$most" ] || fail "it builds more than it needs"
for program in sqlite3 g++; do
  grep -q "^[12]\. $program" "$folder/shown" || fail "it does not show $program"
done
[ "$(grep -c 'the kernel confirms: VmLck [1-9]' "$folder/shown")" = 2 ] ||
  fail "the kernel does not confirm both"
git status --porcelain --ignored | grep -v '^!! build/$' | grep '^!!' && fail "it leaves files beside build/"
echo "- both programs were shown, and nothing is left beside build/"
