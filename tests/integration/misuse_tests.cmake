# Things that programs do to an allocator unexpectedly: they cancel its threads, destroy its arenas,
# take its descriptors and locks, and set temporary limits.
#
# There is a control only where stock malloc fails the same check. Most of these promises say that
# we do no worse than stock malloc, which keeps no books, pins nothing and prints nothing.

# Stock malloc is not a cancellation point either, and passes all of this.
rdm_case("a pending cancellation neither kills a thread inside malloc nor leaves a lock held"
  PROGRAM cancelled TIMEOUT 60)
rdm_case("a pending cancellation waits while malloc warns"
  PROGRAM cancelled LIMITS RDMALLOC_CAP=8M --lines 1 "${said}" TIMEOUT 60)

# Stock malloc has no arenas to destroy.
rdm_case("arenas may be destroyed while other threads exhaust the memory cap"
  PROGRAM arenas ARGUMENTS destroyed LIMITS RDMALLOC_MEMORY_CAP=48M TIMEOUT 60)
rdm_case("extent hooks of the program's own are called from no call but their arena's"
  PROGRAM arenas ARGUMENTS hooked LIMITS RDMALLOC_MEMORY_CAP=40M TIMEOUT 60)
rdm_case("extent hooks of the program's own are called so from several threads"
  PROGRAM arenas ARGUMENTS several-hooked LIMITS RDMALLOC_MEMORY_CAP=40M TIMEOUT 60)
rdm_case("threads whose first malloc was refused once leave statistics that work"
  PROGRAM refused_once TIMEOUT 60
  LIMITS MALLOC_CONF=narenas:2,dirty_decay_ms:-1 RDMALLOC_MEMORY_CAP=40M)

set(setuid sh ${CMAKE_CURRENT_SOURCE_DIR}/setuid.sh ${CMAKE_C_COMPILER}
  ${CMAKE_CURRENT_SOURCE_DIR}/setuid.c ${PROJECT_SOURCE_DIR}/include $<TARGET_FILE:rdmalloc>)
rdm_test("a setuid program heeds no variable of its caller and writes no report as root"
  COMMAND ${setuid} LABELS root TIMEOUT 60)
rdm_test("control: without the bit the same program obeys its caller"
  COMMAND ${setuid} --control LABELS root TIMEOUT 60)

# These hold for stock malloc too: programs rely on them.
rdm_case("what is too large is NULL and ENOMEM, and what succeeds leaves errno and alignment right"
  PROGRAM calls TIMEOUT 60)
rdm_case("calls beyond the budget, one of which warns, leave errno and alignment right"
  PROGRAM calls LIMITS RDMALLOC_CAP=8M --lines 1 "${said}" TIMEOUT 60)
rdm_case("calls of an ordinary user with 8 MiB of memlock leave errno and alignment right"
  PROGRAM calls LIMITS --user --memlock 8192 LABELS root TIMEOUT 60)
rdm_case("after 300 failures under a limit a small window still has room when it is lifted"
  PROGRAM lifted LIMITS RDMALLOC_WINDOW=64M TIMEOUT 60)
rdm_case("after 300 failures under a limit a small address space still has room when it is lifted"
  PROGRAM lifted LIMITS --address-space 131072 TIMEOUT 60)

rdm_case("a page that is aligned to a gigabyte pins no gigabyte"
  PROGRAM locks ARGUMENTS alignment LIMITS RDMALLOC_MEMORY_CAP=2G TIMEOUT 60)
rdm_case("memory is pinned again when the program has unlocked what it locked itself"
  PROGRAM locks ARGUMENTS own-lock LIMITS --user --memlock 8192 LABELS root TIMEOUT 60)
rdm_case("after munlockall the books say what the kernel says"
  PROGRAM locks ARGUMENTS munlockall TIMEOUT 60)
rdm_case("a forked child pins nothing of its parent's, and its books hold as it gets more"
  PROGRAM locks ARGUMENTS child TIMEOUT 60)
foreach(way ${page_ways})
  rdm_case("a forked child's books hold as it gets more with ${way}"
    PROGRAM locks ARGUMENTS child LIMITS ${way} TIMEOUT 60)
endforeach()
rdm_case("a forked child's books hold as it gets more beyond 8 MiB of memlock"
  PROGRAM locks ARGUMENTS child LIMITS --user --memlock 8192 LABELS root TIMEOUT 60)

# Stock malloc prints nothing and writes no report.
rdm_case("no message goes into a file that took over descriptor 2"
  PROGRAM last_words ARGUMENTS taken LIMITS RDMALLOC_CAP=8M TIMEOUT 60)
rdm_case("no message goes into a file that got descriptor 2 because it was closed at the start"
  PROGRAM last_words ARGUMENTS taken-at-start LIMITS RDMALLOC_CAP=8M TIMEOUT 60)
rdm_case("a message that nobody reads does not kill the program"
  PROGRAM last_words ARGUMENTS closed-pipe LIMITS RDMALLOC_CAP=8M TIMEOUT 60)
rdm_case("a report as text that nobody reads does not kill the program"
  PROGRAM last_words ARGUMENTS closed-pipe LIMITS RDMALLOC_CAP=8M RDMALLOC_STATS=on TIMEOUT 60)

rdm_program(late_child)
rdm_program(no_window)
rdm_test("a forked child that exits later does not write over its parent's report"
  COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/late_child.sh $<TARGET_FILE:integration_late_child>
          $<TARGET_FILE:rdmalloc> TIMEOUT 60)
foreach(kib 16384 18432 20480)
  rdm_case("an address space of ${kib} KiB without room for a window is reported in one sentence"
    PROGRAM no_window LIMITS --address-space ${kib} --only-lines 1 --lines 1 "^rdmalloc: "
    TIMEOUT 60)
endforeach()
