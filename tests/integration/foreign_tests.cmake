# Foreign memory in whole processes: the device that has a buffer's key gets the bytes that are there,
# whatever becomes of the memory meanwhile, and no more is registered than may be.
if(NOT LIBURING)
  rdmalloc_not_built("the tests of foreign memory with a device" integration,io_uring
    "${no_liburing}")
  return()
endif()

foreach(program budget churn race ways million bad_input pieces fork)
  rdm_program(foreign_${program} ${LIBURING})
endforeach()
add_library(integration_foreign_plugin MODULE foreign_plugin.c)
add_dependencies(integration_foreign_churn integration_foreign_plugin)

# An ordinary user's registrations count against the memlock limit.
set(user --user --memlock 1048576)

# rounds, seconds at most, seed, threads
set(churn 100000 8 1 3 $<TARGET_FILE:integration_foreign_plugin>)
rdm_case("no byte is stale, however threads change memory that others register"
  PROGRAM foreign_churn ARGUMENTS libc any ${churn} LABELS root)
rdm_case("no byte is stale under userfaultfd, however threads change memory that others register"
  PROGRAM foreign_churn ARGUMENTS libc userfaultfd ${churn} LABELS root
  LIMITS RDMALLOC_MONITOR=userfaultfd)
rdm_case("no byte is stale under userfaultfd for an ordinary user"
  PROGRAM foreign_churn ARGUMENTS libc userfaultfd ${churn} LABELS root
  LIMITS RDMALLOC_MONITOR=userfaultfd ${user})
rdm_case("no byte is stale under userfaultfd when no function sees the program unmap and drop memory"
  PROGRAM foreign_churn ARGUMENTS raw_ends userfaultfd ${churn} LABELS root
  LIMITS RDMALLOC_MONITOR=userfaultfd)
rdm_case("no byte is stale with the interposed monitor, however threads change memory"
  PROGRAM foreign_churn ARGUMENTS libc interposed ${churn} LABELS root
  LIMITS RDMALLOC_MONITOR=interposed)
rdm_case("no byte is stale with the interposed monitor for an ordinary user"
  PROGRAM foreign_churn ARGUMENTS libc interposed ${churn} LABELS root
  LIMITS RDMALLOC_MONITOR=interposed ${user})
rdm_case("no byte is stale without a monitor, as nothing is kept"
  PROGRAM foreign_churn ARGUMENTS raw none ${churn} LABELS root LIMITS RDMALLOC_MONITOR=none)
rdm_case("control: what the interposed monitor cannot see makes bytes stale"
  PROGRAM foreign_churn ARGUMENTS raw interposed ${churn} LABELS root
  LIMITS RDMALLOC_MONITOR=interposed --expect 1)
set(long_churn 100000000 120 2 4 $<TARGET_FILE:integration_foreign_plugin>)
foreach(monitor userfaultfd interposed)
  rdm_case("no byte is stale in two minutes of change with ${monitor}"
    PROGRAM foreign_churn ARGUMENTS libc ${monitor} ${long_churn} LABELS root long
    LIMITS RDMALLOC_MONITOR=${monitor} TIMEOUT 240)
endforeach()

rdm_case("no byte is stale at an address taken before the one who left it has returned: interposed"
  PROGRAM foreign_race ARGUMENTS libc interposed 2000 LABELS root
  LIMITS RDMALLOC_MONITOR=interposed)
rdm_case("no byte is stale at an address taken before the one who left it has returned: userfaultfd"
  PROGRAM foreign_race ARGUMENTS libc userfaultfd 2000 LABELS root
  LIMITS RDMALLOC_MONITOR=userfaultfd)
rdm_case("no byte is stale at an address taken early when only the kernel tells of its unmapping"
  PROGRAM foreign_race ARGUMENTS raw userfaultfd 2000 LABELS root
  LIMITS RDMALLOC_MONITOR=userfaultfd)
rdm_case("control: addresses are taken before the kernel has told of their unmapping"
  PROGRAM foreign_race ARGUMENTS raw_taker userfaultfd 1000 LABELS root
  LIMITS RDMALLOC_MONITOR=userfaultfd --expect 1)
rdm_case("control: at an address taken early bytes are stale when nobody tells"
  PROGRAM foreign_race ARGUMENTS raw_taker interposed 300 LABELS root
  LIMITS RDMALLOC_MONITOR=interposed --expect 1)

rdm_case("not left pinned, no limit: registered while in use, and no longer"
  PROGRAM foreign_ways ARGUMENTS used LABELS root)
rdm_case("RDMALLOC_LEAVE_PINNED=off leaves nothing pinned"
  PROGRAM foreign_ways ARGUMENTS used env LABELS root LIMITS RDMALLOC_LEAVE_PINNED=off)
rdm_case("control: by default what was used is left pinned"
  PROGRAM foreign_ways ARGUMENTS used env LABELS root LIMITS --expect 1)
rdm_case("not left pinned, limited: beyond the limit a get is refused, or waits for a put"
  PROGRAM foreign_ways ARGUMENTS used_limited LABELS root)
rdm_case("left pinned, no limit: registered once"
  PROGRAM foreign_ways ARGUMENTS left LABELS root)
rdm_case("control: without a monitor nothing is left pinned"
  PROGRAM foreign_ways ARGUMENTS left LABELS root LIMITS RDMALLOC_MONITOR=none --expect 1)
rdm_case("left pinned, limited: the least recently used goes, never one in use"
  PROGRAM foreign_ways ARGUMENTS left_limited LABELS root)

rdm_case("a million buffers never have more registrations than the limit, and leave none behind"
  PROGRAM foreign_million ARGUMENTS 1000000 64 64 interposed LABELS root
  LIMITS RDMALLOC_MONITOR=interposed)
# There a registration costs some system calls more, and two changes of threads.
rdm_case("a hundred thousand buffers do so under userfaultfd"
  PROGRAM foreign_million ARGUMENTS 100000 64 64 userfaultfd LABELS root
  LIMITS RDMALLOC_MONITOR=userfaultfd)
rdm_case("control: with twice the limit there are more registrations"
  PROGRAM foreign_million ARGUMENTS 10000 128 64 LABELS root LIMITS --expect 1)

rdm_case("what rdm_get and rdm_put cannot do they say in a sentence"
  PROGRAM foreign_bad_input ARGUMENTS arguments LABELS root)
rdm_case("memory that cannot be registered is refused in a sentence"
  PROGRAM foreign_bad_input ARGUMENTS memory LABELS root)
rdm_case("heap memory beyond the budget is registered when asked for, and never stale"
  PROGRAM foreign_bad_input ARGUMENTS overflow LABELS root LIMITS RDMALLOC_CAP=0)
rdm_case("sparse heap memory is registered when asked for, and never stale"
  PROGRAM foreign_bad_input ARGUMENTS sparse LABELS root LIMITS RDMALLOC_SPARSE_FROM=1M)

rdm_case("a message longer than all that may be registered goes through in pieces"
  PROGRAM foreign_pieces ARGUMENTS 64 LABELS root)
rdm_case("a message goes through in pieces for an ordinary user with little memlock"
  PROGRAM foreign_pieces ARGUMENTS 16 LABELS root LIMITS --user --memlock 32768 RDMALLOC_CAP=8M)

rdm_case("a forked child is told that it owns no foreign registration, and may make its own"
  PROGRAM foreign_fork ARGUMENTS child LABELS root)
rdm_case("no byte is stale among forks of other threads"
  PROGRAM foreign_fork ARGUMENTS storm 5 LABELS root)
rdm_case("control: among forks bytes are stale when nobody tells what changed"
  PROGRAM foreign_fork ARGUMENTS storm 5 raw LABELS root
  LIMITS RDMALLOC_MONITOR=interposed --expect 1)

# Other processes of this user count against the same limit.
rdm_case("buffers used one by one are never refused within an ordinary user's memlock limit"
  PROGRAM foreign_budget LIMITS --user --memlock 8192 LABELS root ALONE)
rdm_test("root of a user namespace is limited as an ordinary user, and refused nothing either"
  LABELS root ALONE
  COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/contained.sh rootless
          sh ${CMAKE_CURRENT_SOURCE_DIR}/case.sh --library $<TARGET_FILE:rdmalloc> --memlock 8192
          -- $<TARGET_FILE:integration_foreign_budget>)
