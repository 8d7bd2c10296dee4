# Programs that give up rights, and machines that grant none: system-call filters, containers,
# limits on locked memory.

# killed by SIGSYS, as a shell reports it
set(bad_system_call 159)
foreach(way prctl syscall)
  rdm_case("a program that filters its system calls by ${way} mallocs and frees blocks of all sizes"
    PROGRAM confined ARGUMENTS ${way} TIMEOUT 60)
endforeach()
rdm_case("what a program gets behind a filter of system calls is pinned as before"
  PROGRAM confined ARGUMENTS prctl pinned LIMITS RDMALLOC_GATHER=off TIMEOUT 60 LABELS memlock)
foreach(way prctl late child threads)
  rdm_case("a program in a control group goes on behind a filter of system calls: ${way}"
    PROGRAM confined ARGUMENTS ${way} LIMITS --cgroup 2048 LABELS root TIMEOUT 60)
endforeach()
rdm_case("what a program in a control group gets behind a filter of system calls is pinned as before"
  PROGRAM confined ARGUMENTS prctl pinned LIMITS --cgroup 2048 RDMALLOC_GATHER=off LABELS root memlock TIMEOUT 60)
rdm_case("a program that holds 200 MiB goes on behind a filter of system calls"
  PROGRAM confined ARGUMENTS late TIMEOUT 60)
foreach(what child threads)
  rdm_case("a program behind a filter of system calls starts ${what} that malloc"
    PROGRAM confined ARGUMENTS ${what} TIMEOUT 60)
endforeach()
foreach(way RDMALLOC_GATHER=always RDMALLOC_POPULATE=now RDMALLOC_HUGE=thp RDMALLOC_CAP=8M RDMALLOC_SEAL=on
    RDMALLOC_NODE_CAP=64M)
  rdm_case("a program goes on behind a filter of system calls with ${way}"
    PROGRAM confined ARGUMENTS late LIMITS ${way} TIMEOUT 60)
endforeach()
rdm_case("a program goes on behind a filter of system calls in an address space of 2 GiB"
  PROGRAM confined ARGUMENTS late LIMITS --address-space 2097152 TIMEOUT 60)
rdm_case("an ordinary user with 8 MiB of memlock goes on behind a filter of system calls"
  PROGRAM confined ARGUMENTS prctl LIMITS --user --memlock 8192 LABELS root TIMEOUT 60)
rdm_case("RDMALLOC_SANDBOX=on suffices where the filter is installed unseen"
  PROGRAM confined ARGUMENTS unheard LIMITS RDMALLOC_SANDBOX=on TIMEOUT 60)
rdm_case("control: a filter installed unseen kills"
  PROGRAM confined ARGUMENTS unheard LIMITS --expect ${bad_system_call} TIMEOUT 60)
rdm_case("control: with RDMALLOC_SANDBOX=off a filter kills"
  PROGRAM confined ARGUMENTS prctl LIMITS RDMALLOC_SANDBOX=off --expect ${bad_system_call} TIMEOUT 60)

rdm_case("mlockall locks what there is, and counts nothing that is only reserved"
  PROGRAM lock_all ARGUMENTS by-right LABELS memlock TIMEOUT 60)
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

# Refusals by a kernel or a container engine change only what is pinned and where it lies.
function(rdm_refused sentence)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "REFUSED;PROGRAM;LIMITS;LABELS")
  list(GET arg_PROGRAM 0 program)
  list(REMOVE_AT arg_PROGRAM 0)
  rdm_case("${sentence}" PROGRAM refusing TIMEOUT 60 LIMITS ${arg_LIMITS} LABELS ${arg_LABELS}
    ARGUMENTS ${arg_REFUSED} -- $<TARGET_FILE:integration_${program}> ${arg_PROGRAM})
endfunction()
foreach(version 4.18 5.4 5.10 5.14 6.1)
  set(on "on a kernel that knows what ${version} knows")
  rdm_refused("blocks of all sizes keep their bytes ${on}" REFUSED ${version} PROGRAM confined not)
  foreach(way ${page_ways} RDMALLOC_HUGE=thp RDMALLOC_SEAL=on)
    rdm_refused("blocks of all sizes keep their bytes ${on}, with ${way}"
      REFUSED ${version} PROGRAM confined not LIMITS ${way})
  endforeach()
  rdm_refused("a forked child has its heap, the parent its pins, and both books are right ${on}"
    REFUSED ${version} PROGRAM fork_heap)
  rdm_refused("after munlockall the books say what the kernel says ${on}"
    REFUSED ${version} PROGRAM locks munlockall)
  rdm_refused("in a small address space blocks keep their bytes ${on}"
    REFUSED ${version} PROGRAM confined not LIMITS --address-space 2097152)
endforeach()
rdm_refused("what container engines forbid changes nothing" REFUSED container PROGRAM confined not)
rdm_refused("a forked child's books are right where container engines forbid calls"
  REFUSED container PROGRAM fork_heap)
foreach(call mlock2 mincore madvise mremap memfd_create getrusage prlimit64 capget getcpu membarrier
    sched_getaffinity sched_yield fstat rt_sigprocmask rseq flock)
  foreach(error EPERM ENOSYS)
    rdm_refused("where ${call} is refused with ${error} malloc works"
      REFUSED ${call}=${error} PROGRAM confined not LIMITS RDMALLOC_NODE_CAP=64M)
  endforeach()
endforeach()
rdm_refused("where nothing can be locked the books say so"
  REFUSED mlock=EPERM mlock2=EPERM PROGRAM hoard 64 64 all LIMITS --lines 1 "${said}")
foreach(error EPERM ENOSYS EINVAL EAGAIN)
  rdm_refused("where mlock2 is refused with ${error} freed memory is used again, and why it is not pinned is said"
    REFUSED mlock2=${error} PROGRAM front handed
    LIMITS --only-lines 1 --lines 1 "^rdmalloc: .* from here on memory is not pinned: the kernel, or a sandbox, refuses mlock2")
endforeach()

# Environments found in containers, without a filter and with one.
set(contained sh ${CMAKE_CURRENT_SOURCE_DIR}/contained.sh)
set(preload env LD_PRELOAD=$<TARGET_FILE:rdmalloc>)
foreach(what no-proc no-sys read-only no-shm rootless nobody own-processes)
  foreach(way not prctl)
    rdm_test("in surroundings with ${what} malloc works: confined ${way}" LABELS root TIMEOUT 60
      COMMAND ${contained} ${what} ${preload} $<TARGET_FILE:integration_confined> ${way})
    rdm_test("in surroundings with ${what} the machine's limit is kept: confined ${way}"
      LABELS root TIMEOUT 60
      COMMAND ${contained} ${what} ${preload} RDMALLOC_NODE_CAP=64M
              $<TARGET_FILE:integration_confined> ${way})
  endforeach()
endforeach()
foreach(way not prctl)
  rdm_test("in a root that is empty but for the program malloc works: confined ${way}"
    LABELS root TIMEOUT 60
    COMMAND env RDM_PRELOAD=$<TARGET_FILE:rdmalloc> ${contained} empty-root
            $<TARGET_FILE:integration_confined> ${way})
endforeach()

# What info reports about a kernel is how it behaves, whatever its version number.
function(rdm_lacks sentence refused what)
  rdm_test("${sentence}" TIMEOUT 60
    COMMAND sh -c "$<TARGET_FILE:integration_refusing> ${refused} -- \\
$<TARGET_FILE:rdmalloc_cli> info | grep -E '^  lacks .*${what}'")
endfunction()
rdm_lacks("info names what a kernel of 5.10 lacks" 5.10 "populate .Linux 5.14.*mseal .Linux 6.10")
rdm_lacks("info names what a kernel of 4.18 lacks" 4.18 "populate.*mseal.*io_uring .Linux 5.1:")
rdm_lacks("info names what container engines forbid" container "placement.*io_uring.*userfaultfd")
rdm_test("doctor notes that pages come one by one on a kernel of 5.10" TIMEOUT 60
  COMMAND sh -c "$<TARGET_FILE:integration_refusing> 5.10 -- \\
$<TARGET_FILE:rdmalloc_cli> doctor | grep -E '^note +populate'")
