#!/bin/bash
# Traces made from text, and shown as text.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/trace_common.sh"

round_trip() {
  for trace in "$source_folder"/bench/study/traces/{git,sqlite3}.rdtrace; do
    "$rdmalloc" trace text "$trace" >text
    try "$rdmalloc" trace import text again.rdtrace
    promise_status 0
    cmp "$trace" again.rdtrace || fail "$trace is another after text and import"
  done
}

format() {
  cat >text <<'END'
# what people write

program  a 'program' of words
a first 100
a 0x7f00 4K 64 thread 7 at 1000
z third 1M at 5000
r first 3
f third thread 0
f 0x7f00
a third 0 at 9000
END
  cat >expected <<'END'
program a 'program' of words
a 0 100
a 1 4096 64 thread 1 at 1000
z 2 1048576 at 5000
r 0 3
f 2 thread 0
f 1
a 1 0 at 9000
END
  try "$rdmalloc" trace import - out.rdtrace <text
  promise_status 0
  promise_printed "7 events of 2 threads"
  "$rdmalloc" trace text out.rdtrace >shown
  cmp expected shown || fail "it is shown as $(cat shown)"
  try "$rdmalloc" trace info --json out.rdtrace
  promise_json "$work/out" "report['events'] == 7 and report['peak_bytes'] == 1052772 and \
report['alive_at_end'] == 2 and report['threads'] == 2 and not report['truncated'] and \
report['sizes'][0] == {'at_most_bytes': 1, 'count': 1}"
}

# One wrong line after three good ones is named; nothing new is left, and an older file is kept.
wrong_lines() {
  echo before >kept.rdtrace
  while IFS='|' read -r line expected; do
    printf 'a x 100\n# fine\na y 4K\n%b\n' "$line" >text
    for file in new.rdtrace kept.rdtrace; do
      try "$rdmalloc" trace import text "$file"
      promise_status 2
      promise_said "line 4: $expected"
    done
    [ ! -e new.rdtrace ] || fail "a half-made trace is left after: $line"
    [ "$(cat kept.rdtrace)" = before ] || fail "what was there is gone after: $line"
  done <<'END'
b z 100|expected a, z, r, f, program
alloc z 100|expected a, z, r, f, program
a|expected an object, and the line ends
a z|expected a size in bytes, such as 24 or 4K, and the line ends
a z 12q|expected a size in bytes
a z -1|expected a size in bytes
a z 1e3|expected a size in bytes
a z 99999999999999999999|expected a size in bytes
a z 1000T|the size '1000T' is larger than any machine has
a z 100 3|the alignment '3' is not a power of two
a z 100 0|the alignment '0' is not a power of two
a z 100 8 8|expected 'thread', 'at' or the end
a z 100 thread|expected the number of a thread, and the line ends
a z 100 thread 99999999999|the number of a thread is too large
a z 100 at soon|expected a time in nanoseconds, not 'soon'
a z 100 at 5 thread 1|expected 'thread', 'at' or the end of the line, not 'thread'
a x 100|the object 'x' is alive
r z 100|the object 'z' is not alive
r x 100 64|expected 'thread', 'at' or the end
f z|the object 'z' is not alive
f x 100|expected 'thread', 'at' or the end
program late|the program is to be named before
\0001\0002 x|expected a, z, r, f, program or a # comment, not '??'
a z 1 at 9 # later|expected 'thread', 'at' or the end of the line, not '#'
@ place ? 0x1 0x2|expected +, -, <, > or !
@ place + here 0x2|expected an address
END
  printf 'a z 1 at 9\na w 1 at 8\n' >text
  try "$rdmalloc" trace import text new.rdtrace
  promise_status 2
  promise_said "line 2: the time 8 is before that of an earlier line, 9"
  [ -z "$(ls | grep partial)" ] || fail "left behind: $(ls)"
}

mtrace() {
  cat >text <<'END'
= Start
@ ./a.out:[0x401136] + 0x4052a0 0x64
@ ./a.out:[0x401140] + 0x405310 0x10
@ /lib/libc.so.6:(fopen+0x1)[0x1] - 0x999999
@ ./a.out:[0x401150] < 0x4052a0
@ ./a.out:[0x401150] > 0x405330 0x1000
@ ./a.out:[0x401160] - 0x405310
@ ./a.out:[0x401150] < 0x405330
@ ./a.out:[0x401150] > 0x405330 0x2000
@ ./a.out:[0x401170] ! 0x405330 0xffffffffffff
= End
END
  try "$rdmalloc" trace import text out.rdtrace
  promise_status 0
  promise_printed "1 free of what was allocated before"
  "$rdmalloc" trace text out.rdtrace >shown
  printf 'a 0 100\na 1 16\nr 0 4096\nf 1\nr 0 8192\n' | cmp - shown || fail "$(cat shown)"
}

import_files() {
  echo 'a x 1' >text
  try "$rdmalloc" trace import absent out.rdtrace
  promise_status 2
  promise_said "No such file"
  try "$rdmalloc" trace import / out.rdtrace
  promise_status 2
  promise_said "is a folder"
  try "$rdmalloc" trace import text /nowhere/out.rdtrace
  promise_status 2
  promise_said "No such file"
  try "$rdmalloc" trace import text /dev/null
  promise_status 2
  promise_said "not a regular file"
  [ -c /dev/null ] || fail "/dev/null is gone"
  try "$rdmalloc" trace import text
  promise_status 2
  : >nothing
  try "$rdmalloc" trace import nothing out.rdtrace
  promise_status 0
  try "$rdmalloc" trace info out.rdtrace
  promise_status 0
}

import_as_user() {
  echo 'a x 1' >text
  mkdir closed
  try_as_user "$rdmalloc" trace import text closed/out.rdtrace
  promise_status 2
  promise_said "Permission denied"
  [ -z "$(ls closed)" ] || fail "something is left"
}

take_programs "$@"
run_case "$@"
