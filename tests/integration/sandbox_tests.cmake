# Programs that take rights from themselves, and machines that give none: filters of system calls,
# containers, limits on locked memory.

# killed: by SIGSYS, as a shell says it
set(bad_system_call 159)
foreach(way prctl syscall)
  rdm_case("a program that filters its system calls by ${way} mallocs and frees blocks of all sizes"
    PROGRAM confined ARGUMENTS ${way} TIMEOUT 60)
endforeach()
rdm_case("what a program gets behind a filter of system calls is pinned as before"
  PROGRAM confined ARGUMENTS prctl pinned LIMITS RDMALLOC_GATHER=off TIMEOUT 60)
rdm_case("a program that holds 200 MiB goes on behind a filter of system calls"
  PROGRAM confined ARGUMENTS late TIMEOUT 60)
foreach(way RDMALLOC_GATHER=always RDMALLOC_POPULATE=now RDMALLOC_HUGE=thp RDMALLOC_CAP=8M RDMALLOC_SEAL=on
    RDMALLOC_NODE_CAP=64M)
  rdm_case("a program goes on behind a filter of system calls with ${way}"
    PROGRAM confined ARGUMENTS late LIMITS ${way} TIMEOUT 60)
endforeach()
rdm_case("a program goes on behind a filter of system calls in an address space of 2 GiB"
  PROGRAM confined ARGUMENTS late LIMITS --address-space 2097152 TIMEOUT 60)
rdm_case("an ordinary user with 8 MiB of memlock goes on behind a filter of system calls"
  PROGRAM confined ARGUMENTS prctl LIMITS --user --memlock 8192 LABELS root TIMEOUT 60)
rdm_case("RDMALLOC_SANDBOX=on is enough where nobody hears of the filter"
  PROGRAM confined ARGUMENTS unheard LIMITS RDMALLOC_SANDBOX=on TIMEOUT 60)
rdm_case("control: a filter that nobody hears of kills"
  PROGRAM confined ARGUMENTS unheard LIMITS --expect ${bad_system_call} TIMEOUT 60)
rdm_case("control: with RDMALLOC_SANDBOX=off a filter kills"
  PROGRAM confined ARGUMENTS prctl LIMITS RDMALLOC_SANDBOX=off --expect ${bad_system_call} TIMEOUT 60)

rdm_case("mlockall locks what there is, and counts nothing that is only reserved"
  PROGRAM lock_all ARGUMENTS by-right LABELS root TIMEOUT 60)
foreach(limit 32768:now 32768:later 8192:too-much)
  string(REPLACE : ";" limit ${limit})
  list(GET limit 0 memlock)
  list(GET limit 1 what)
  rdm_case("mlockall under a finite limit does what it does without us: ${what}"
    PROGRAM lock_all ARGUMENTS ${what} LIMITS --user --memlock ${memlock} LABELS root TIMEOUT 60)
  rdm_test("mlockall with stock malloc: ${what}" LABELS root TIMEOUT 60
    COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/case.sh --user --memlock ${memlock}
            -- $<TARGET_FILE:integration_lock_all> ${what})
endforeach()
