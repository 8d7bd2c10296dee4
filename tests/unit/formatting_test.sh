#!/bin/sh
# All sources conform to .clang-format. Skipped (77) if clang-format is missing or its version
# formats differently: the file is written for version 14.
# usage: formatting_test.sh SOURCE_FOLDER
. "$(dirname "$0")/../support/verdict.sh"
cd "$1" || exit 2
need clang-format
version=$(clang-format --version | sed 's/.*version \([0-9]*\).*/\1/')
[ "$version" = 14 ] || skip "clang-format $version, and the layout is 14's"
# The C headers under include/ are formatted by hand: their comments are tables.
for folder in allocator regcache tests bench include; do
  [ ! -d "$folder" ] || find "$folder" -name '*.cpp' -o -name '*.hpp' -o \
    -name '*.h' ! -path 'include/*'
done | xargs clang-format --dry-run -Werror
