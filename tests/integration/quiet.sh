#!/bin/sh
# Counts, between the marks of quiet.cpp, the system calls that would give memory back, and how often
# the heap grows or gathers free pages, each time into a new region. More than one region per
# thousand mallocs is too many: threads that interleave differently from before may leave other
# holes, but no more. (That gathering ends: unit.gathering_test.)
#
#   quiet.sh [--expect-some] PROGRAM [LIBRARY]
#
# Exit status: 0 there were none (with --expect-some: some), 1 otherwise, 77 skipped.
set -eu
. "$(dirname "$0")/../support/verdict.sh"
promised=0
[ "$1" != --expect-some ] || { promised=1; shift; }
need strace
strace -o /dev/null true || skip "strace cannot trace here"
trace=$(mktemp)
trap 'rm -f "$trace"' EXIT
strace -f -qq -e trace=munmap,mremap,madvise,brk,mmap,mprotect -o "$trace" \
  env ${2:+LD_PRELOAD=$2} "$1" || fail "the program, or strace, ended with $?"

status=0
# 4 threads, 20 rounds, 200 objects, each malloc'd and realloc'd: see quiet.cpp.
awk -v calls=32000 '
  function number(hex,   i, value) {
    for (i = 3; i <= length(hex); i++) value = 16 * value + index("0123456789abcdef", substr(hex, i, 1)) - 1
    return value
  }
  # The window is the first range that is only reserved. Tables of what its addresses hold lie outside.
  size == 0 && / mmap\(.* PROT_NONE, MAP_PRIVATE\|MAP_ANONYMOUS\|MAP_NORESERVE, -1, 0\) = / {
    base = number($NF)
    split($0, part, ", ")
    size = part[2]
  }
  # "Unfinished" if another thread made a call meanwhile.
  / munmap\(NULL, 0[ )]/ { marks++; next }
  marks != 1 || /<\.\.\. / { next }
  # Growth: populating is an madvise too (23 in an strace that does not know it). Free pages may be
  # moved to an address of our choice (MREMAP_FIXED is 2), and the range they leave is reserved.
  # Before, we try to make that range grow where it lies, which the kernel refuses. Stock malloc lets
  # the kernel choose the address. Each new region is to be in core dumps.
  /MADV_DODUMP/ { regions++ }
  /MADV_POPULATE_WRITE|0x17 |, 23\)|MADV_DODUMP|MADV_DONTDUMP|MADV_(NO)?HUGEPAGE/ { grown++; next }
  / mprotect\(/ || / mmap\(/ || / mremap\(.*(MREMAP_FIXED|0x3|, 0\) = -1 )/ { grown++; next }
  size != 0 && / madvise\(.*MADV_DONTNEED/ {
    match($0, /0x[0-9a-f]+/)
    address = number(substr($0, RSTART, RLENGTH))
    if (address < base || address >= base + size) next
  }
  { match($0, /[a-z]+\(/); given_back[substr($0, RSTART, RLENGTH - 1)]++; bad++ }
  END {
    if (marks != 2) { print "the marks are missing"; exit 2 }
    for (name in given_back) print given_back[name], name
    print regions + 0, "new regions,", grown + 0, "calls to grow"
    exit bad > 0 || regions > calls / 1000
  }' "$trace" || status=$?
[ $status = $promised ]
