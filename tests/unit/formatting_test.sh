#!/bin/sh
# All sources are as .clang-format wants them. Skipped (77) where clang-format is missing or so old
# or new that it lays out differently: the file is written for version 14.
# usage: formatting_test.sh SOURCE_FOLDER
cd "$1" || exit 2
command -v clang-format >/dev/null || { echo "SKIPPED: no clang-format"; exit 77; }
version=$(clang-format --version | sed 's/.*version \([0-9]*\).*/\1/')
[ "$version" = 14 ] || { echo "SKIPPED: clang-format $version, and the layout is 14's"; exit 77; }
# The C headers under include/ are laid out by hand: their comments are tables.
for folder in allocator regcache tests bench include; do
  [ ! -d "$folder" ] || find "$folder" -name '*.cpp' -o -name '*.hpp' -o \
    -name '*.h' ! -path 'include/*'
done | xargs clang-format --dry-run -Werror
