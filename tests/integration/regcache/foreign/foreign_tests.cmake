# Foreign memory in whole processes: a device with a buffer's key gets the current bytes whatever
# happens to the memory, and registrations stay within their limits.
if(NOT LIBURING)
  rdmalloc_not_built("the tests of foreign memory with a device" integration,io_uring
    "${no_liburing}")
  return()
endif()

foreach(program budget churn race ways million bad_input pieces fork told)
  rdm_program(foreign_${program} ${LIBURING})
endforeach()
add_library(integration_foreign_plugin MODULE ${CMAKE_CURRENT_LIST_DIR}/foreign_plugin.c)
add_dependencies(integration_foreign_churn integration_foreign_plugin)

# An ordinary user's registrations count against the memlock limit.
set(user --user --memlock 1048576)

# rounds, seconds at most, seed, threads
set(churn 100000 8 1 3 $<TARGET_FILE:integration_foreign_plugin>)
rdm_case("no byte is stale, however threads change memory that others register"
  PROGRAM foreign_churn ARGUMENTS libc any ${churn})
rdm_case("no byte is stale under userfaultfd, however threads change memory that others register"
  PROGRAM foreign_churn ARGUMENTS libc userfaultfd ${churn}
  LIMITS RDMALLOC_MONITOR=userfaultfd)
rdm_case("no byte is stale under userfaultfd for an ordinary user"
  PROGRAM foreign_churn ARGUMENTS libc userfaultfd ${churn} LABELS root
  LIMITS RDMALLOC_MONITOR=userfaultfd ${user})
rdm_case("no byte is stale under userfaultfd when no function sees the program unmap and drop memory"
  PROGRAM foreign_churn ARGUMENTS raw_ends userfaultfd ${churn}
  LIMITS RDMALLOC_MONITOR=userfaultfd)
rdm_case("no byte is stale with the interposed monitor, however threads change memory"
  PROGRAM foreign_churn ARGUMENTS libc interposed ${churn}
  LIMITS RDMALLOC_MONITOR=interposed)
rdm_case("no byte is stale with the interposed monitor for an ordinary user"
  PROGRAM foreign_churn ARGUMENTS libc interposed ${churn} LABELS root
  LIMITS RDMALLOC_MONITOR=interposed ${user})
rdm_case("no byte is stale without a monitor, as nothing is kept"
  PROGRAM foreign_churn ARGUMENTS raw none ${churn} LIMITS RDMALLOC_MONITOR=none)
rdm_case("control: what the interposed monitor cannot see makes bytes stale"
  PROGRAM foreign_churn ARGUMENTS raw interposed 100000 2 1 3
  LIMITS RDMALLOC_MONITOR=interposed --expect 1 --says "stale bytes in")
set(long_churn 100000000 120 2 4 $<TARGET_FILE:integration_foreign_plugin>)
foreach(monitor userfaultfd interposed)
  rdm_case("no byte is stale in two minutes of change with ${monitor}"
    PROGRAM foreign_churn ARGUMENTS libc ${monitor} ${long_churn} LABELS root long
    LIMITS RDMALLOC_MONITOR=${monitor} TIMEOUT 240)
endforeach()

rdm_case("no byte is stale at an address taken before the one who left it has returned: interposed"
  PROGRAM foreign_race ARGUMENTS libc interposed 2000
  LIMITS RDMALLOC_MONITOR=interposed)
rdm_case("no byte is stale at an address taken before the one who left it has returned: userfaultfd"
  PROGRAM foreign_race ARGUMENTS libc userfaultfd 2000
  LIMITS RDMALLOC_MONITOR=userfaultfd)
rdm_case("no byte is stale at an address taken early when only the kernel tells of its unmapping"
  PROGRAM foreign_race ARGUMENTS raw userfaultfd 2000
  LIMITS RDMALLOC_MONITOR=userfaultfd)
rdm_case("control: addresses are taken before the kernel has told of their unmapping"
  PROGRAM foreign_race ARGUMENTS raw_taker userfaultfd 1000
  LIMITS RDMALLOC_MONITOR=userfaultfd --expect 1 --says "stale bytes in")
rdm_case("control: at an address taken early bytes are stale without a monitor"
  PROGRAM foreign_race ARGUMENTS raw_taker interposed 300
  LIMITS RDMALLOC_MONITOR=interposed --expect 1 --says "stale bytes in")

rdm_case("not left pinned, no limit: registered while in use, and no longer"
  PROGRAM foreign_ways ARGUMENTS used)
rdm_case("RDMALLOC_LEAVE_PINNED=off leaves nothing pinned"
  PROGRAM foreign_ways ARGUMENTS used env LIMITS RDMALLOC_LEAVE_PINNED=off)
rdm_case("control: by default what was used is left pinned"
  PROGRAM foreign_ways ARGUMENTS used env LIMITS --expect 1 --says "after its use: 1 registrations")
rdm_case("not left pinned, limited: beyond the limit a get is refused, or waits for a put"
  PROGRAM foreign_ways ARGUMENTS used_limited)
rdm_case("left pinned, no limit: registered once"
  PROGRAM foreign_ways ARGUMENTS left)
rdm_case("control: without a monitor nothing is left pinned"
  PROGRAM foreign_ways ARGUMENTS left LIMITS RDMALLOC_MONITOR=none --expect 1 --says "left: 0 registrations")
rdm_case("left pinned, limited: the least recently used goes, never one in use"
  PROGRAM foreign_ways ARGUMENTS left_limited)
set(limit_case PROGRAM foreign_ways ARGUMENTS left_limited env)
rdm_case("RDMALLOC_FOREIGN_COUNT limits how many registrations of foreign memory there are"
  ${limit_case} LIMITS RDMALLOC_FOREIGN_COUNT=4)
rdm_case("RDMALLOC_FOREIGN_BYTES limits how much foreign memory is registered"
  ${limit_case} LIMITS RDMALLOC_FOREIGN_BYTES=256K)
rdm_case("control: by default more foreign memory is registered"
  ${limit_case} LIMITS --expect 1 --says "registrations of .* bytes, and not 4")

rdm_case("what rdm_invalidate names is not used again, and all else is kept"
  PROGRAM foreign_told ARGUMENTS told)
rdm_case("control: of a hole in a file that is mapped no monitor tells"
  PROGRAM foreign_told ARGUMENTS untold LIMITS --expect 1 --says "stale bytes")

rdm_case("a million buffers never have more registrations than the limit, and leave none behind"
  PROGRAM foreign_million ARGUMENTS 1000000 64 64 interposed LABELS memlock
  LIMITS RDMALLOC_MONITOR=interposed)
# There a registration costs a few more system calls and two thread switches.
rdm_case("a hundred thousand buffers do so under userfaultfd"
  PROGRAM foreign_million ARGUMENTS 100000 64 64 userfaultfd LABELS memlock
  LIMITS RDMALLOC_MONITOR=userfaultfd)
rdm_case("control: with twice the limit there are more registrations"
  PROGRAM foreign_million ARGUMENTS 10000 128 64 LIMITS --expect 1 --says "after buffer 1024: 127 registrations")

rdm_case("rdm_get and rdm_put say in a sentence what they cannot do"
  PROGRAM foreign_bad_input ARGUMENTS arguments)
rdm_case("memory that cannot be registered is refused in a sentence"
  PROGRAM foreign_bad_input ARGUMENTS memory)
rdm_case("heap memory beyond the budget is registered when asked for, and never stale"
  PROGRAM foreign_bad_input ARGUMENTS overflow LIMITS RDMALLOC_CAP=0)
rdm_case("sparse heap memory is registered when asked for, and never stale"
  PROGRAM foreign_bad_input ARGUMENTS sparse LIMITS RDMALLOC_SPARSE_FROM=1M)

rdm_case("a message longer than all that may be registered goes through in pieces"
  PROGRAM foreign_pieces ARGUMENTS 64)
rdm_case("a message goes through in pieces for an ordinary user with little memlock"
  PROGRAM foreign_pieces ARGUMENTS 16 LABELS root LIMITS --user --memlock 32768 RDMALLOC_CAP=8M)

rdm_case("a forked child is told that it owns no foreign registration, and may make its own"
  PROGRAM foreign_fork ARGUMENTS child)
rdm_case("no byte is stale among forks of other threads"
  PROGRAM foreign_fork ARGUMENTS storm 5)
rdm_case("control: among forks bytes are stale when changes go unnoticed"
  PROGRAM foreign_fork ARGUMENTS storm 5 raw
  LIMITS RDMALLOC_MONITOR=interposed --expect 1 --says "stale bytes in")

# Other processes of this user count against the same limit.
rdm_case("buffers used one by one are never refused within an ordinary user's memlock limit"
  PROGRAM foreign_budget LIMITS --user --memlock 8192 LABELS root ALONE)
rdm_test("root of a user namespace is limited as an ordinary user, and refused nothing either" ALONE
  COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/contained.sh rootless
          sh ${CMAKE_CURRENT_SOURCE_DIR}/case.sh --library $<TARGET_FILE:rdmalloc> --memlock 8192
          -- $<TARGET_FILE:integration_foreign_budget>)
