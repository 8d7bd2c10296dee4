#!/bin/sh
# Counts the system calls by which memory would be given back, between the marks of quiet.cpp.
#
#   quiet.sh [--expect-some] PROGRAM [LIBRARY]
#
# Exit status: 0 there were none (with --expect-some: some), 1 otherwise, 77 skipped.
set -eu
promised=0
[ "$1" != --expect-some ] || { promised=1; shift; }
command -v strace >/dev/null || { echo "SKIPPED: no strace"; exit 77; }
strace -o /dev/null true || { echo "SKIPPED: strace cannot trace here"; exit 77; }
trace=$(mktemp)
trap 'rm -f "$trace"' EXIT
strace -f -qq -e trace=munmap,mremap,madvise,brk,mmap,mprotect -o "$trace" \
  env ${2:+LD_PRELOAD=$2} "$1" || { echo "the program, or strace, ended with $?"; exit 1; }

status=0
awk '
  # Unfinished where another thread made a call meanwhile.
  / munmap\(NULL, 0[ )]/ { marks++; next }
  marks != 1 || /<\.\.\. / { next }
  # Growth: populating is an madvise, too (23 to a strace that does not know it), and free pages may be
  # moved to an address of our choice (MREMAP_FIXED is 2) and what they leave reserved. Stock malloc
  # lets the kernel choose.
  /MADV_POPULATE_WRITE|0x17 |, 23\)|MADV_DODUMP|MADV_DONTDUMP|MADV_(NO)?HUGEPAGE/ { grown++; next }
  / mprotect\(/ || / mmap\(/ || / mremap\(.*(MREMAP_FIXED|0x3)/ { grown++; next }
  { match($0, /[a-z]+\(/); given_back[substr($0, RSTART, RLENGTH - 1)]++; bad++ }
  END {
    if (marks != 2) { print "the marks are missing"; exit 2 }
    for (name in given_back) print given_back[name], name
    print grown + 0, "calls to grow"
    exit bad > 0 || grown > 60
  }' "$trace" || status=$?
[ $status = $promised ]
