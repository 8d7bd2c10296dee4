# Domains in whole processes, with io_uring as the device: the peer receives the current bytes,
# whatever is freed, dropped, forked or closed meanwhile.
if(NOT LIBURING)
  rdmalloc_not_built("the tests of domains with a device" integration,io_uring "${no_liburing}")
  return()
endif()

rdm_program(classic ${LIBURING})
# glibc's default threshold, fixed: otherwise the first large free() makes it keep such memory.
set(stock MALLOC_MMAP_THRESHOLD_=131072 --expect 1)
rdm_case("a hundred thousand times the peer gets the new buffer's bytes, by the key of its address"
  PROGRAM classic ARGUMENTS 100000 1 LABELS memlock
  CONTROL "with stock malloc and a cache keyed by address the peer gets the old buffer's bytes"
  CONTROL_LIMITS ${stock} SAYS "the peer got the freed buffer's bytes")
rdm_case("the peer gets the new buffer's bytes in 3 threads with a domain each"
  PROGRAM classic ARGUMENTS 60000 3 LABELS memlock
  CONTROL "with stock malloc the peer gets old bytes in 3 threads"
  CONTROL_LIMITS ${stock} SAYS "the peer got the freed buffer's bytes")

foreach(program books descriptors fork limits rings stability steady traffic)
  rdm_program(domain_${program} ${LIBURING})
endforeach()

rdm_case("each failure has its sentence: of opening, of lookups, of statistics" PROGRAM sentences LABELS memlock_8M)
rdm_case("no page of a registered heap moves or goes, whatever is advised and compacted"
  PROGRAM domain_stability ARGUMENTS advice LABELS root ALONE
  CONTROL "with stock malloc advice drops registered pages, and the device keeps the old ones"
  SAYS "after MADV_DONTNEED: the peer does not get what the program wrote")
rdm_case("a registered heap that is sealed cannot be unmapped, moved or protected"
  PROGRAM domain_stability ARGUMENTS sealed LIMITS RDMALLOC_SEAL=on LABELS root ALONE)

rdm_case("the books equal the kernel's with 0, 1 and 2 domains"
  PROGRAM domain_books ARGUMENTS 64 LIMITS --at-once LABELS memlock)
rdm_case("the books equal the kernel's when a buffer beyond 1 GiB is registered in pieces"
  PROGRAM domain_books ARGUMENTS 1100 LIMITS --at-once LABELS memlock)
rdm_case("the books equal the kernel's with huge pages"
  PROGRAM domain_books ARGUMENTS 64 LIMITS --at-once RDMALLOC_HUGE=thp LABELS memlock)

foreach(way ${page_ways})
  rdm_case("no page of a registered heap moves or goes with ${way}"
    PROGRAM domain_stability ARGUMENTS advice LIMITS ${way} LABELS root ALONE)
  rdm_case("the books equal the kernel's with 0, 1 and 2 domains with ${way}"
    PROGRAM domain_books ARGUMENTS 64 LIMITS --at-once ${way} LABELS memlock)
  rdm_case("the peer gets the new buffer's bytes in 3 threads with ${way}"
    PROGRAM classic ARGUMENTS 20000 3 LIMITS ${way} LABELS memlock)
  rdm_case("a forked child owns no registration with ${way}"
    PROGRAM domain_fork ARGUMENTS child LIMITS ${way} LABELS memlock)
  rdm_case("domains may be opened and closed while threads malloc, with ${way}"
    PROGRAM domain_traffic ARGUMENTS 2 LIMITS ${way} LABELS memlock)
endforeach()

rdm_case("closefrom() does not close a ring of our own"
  PROGRAM domain_descriptors ARGUMENTS own LIMITS --at-once RDMALLOC_COUNTERS_FROM=0 LABELS memlock)
rdm_case("control: closefrom() closes a ring of the caller's"
  PROGRAM domain_descriptors ARGUMENTS caller
  LIMITS --expect 1 --says "memory acquired after closefrom.. has no key" RDMALLOC_COUNTERS_FROM=0)

# Stock malloc has no domains to open.
rdm_case("a ring for a single issuer, one with a table of its own, and no ring are each told apart"
  PROGRAM domain_rings LABELS memlock)

rdm_case("an ordinary user's heap beyond the memlock limit works, and lookups tell what is registered"
  PROGRAM domain_limits LIMITS --user --memlock 8192 LABELS root ALONE)
foreach(seconds 5 60)
  set(labels root)
  if(seconds GREATER 5)
    list(APPEND labels long)
  endif()
  rdm_case("an idle process whose memory cannot all be registered wakes nobody in ${seconds} seconds"
    PROGRAM domain_limits ARGUMENTS idle ${seconds} LIMITS --user --memlock 8192
    LABELS ${labels} TIMEOUT 120 ALONE)
endforeach()
rdm_case("control: where its heap grows meanwhile a thread of ours wakes up"
  PROGRAM domain_limits ARGUMENTS idle 1 grows LIMITS --at-once --expect 1 --says "threads of ours woke up" LABELS memlock)
rdm_case("control: where no memlock limit applies everything is registered"
  PROGRAM domain_limits LIMITS --expect 1 --says "the limit was not reached" LABELS memlock ALONE)

rdm_case("a forked child is told that it owns no registration, and the parent's device stays right"
  PROGRAM domain_fork ARGUMENTS child LABELS memlock)
rdm_case("a domain that releases at fork has nothing for the kernel to copy, and every byte is right at once"
  PROGRAM domain_fork ARGUMENTS released LABELS memlock)
rdm_test("control: a domain that does not release at fork is registered while one is made"
  COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/case.sh --library $<TARGET_FILE:rdmalloc> --expect 1 --says "the heap is registered during fork"
    -- $<TARGET_FILE:integration_domain_fork> kept)
rdm_case("forks while registered heaps grow neither hang nor change a byte"
  PROGRAM domain_fork ARGUMENTS storm 5 LABELS memlock)

rdm_case("domains may be opened and closed while threads malloc, look up and send"
  PROGRAM domain_traffic ARGUMENTS 5 LABELS memlock)

rdm_case("after warm-up nothing is registered"
  PROGRAM domain_steady LIMITS RDMALLOC_SANDBOX=off LABELS memlock
  CONTROL "with stock malloc and a cache that is told of every free registering never ends"
  SAYS "^after warm-up a buffer of .* has no key")

rdm_program(domain_manners rdmalloc)
rdm_case("a process ends with the program's last thread, whatever threads of ours run"
  PROGRAM domain_manners ARGUMENTS last_thread)
rdm_case("a process ends with the program's last thread, though another than main opened the domain"
  PROGRAM domain_manners ARGUMENTS last_thread_of_another)
rdm_case("threads of ours run where the thread that starts them does"
  PROGRAM domain_manners ARGUMENTS bound)
rdm_case("threads of ours run anywhere when asked to, and the program's where it bound them"
  PROGRAM domain_manners ARGUMENTS unbound LIMITS RDMALLOC_THREAD_CPUS=all)
rdm_case("control: unless asked to, threads of ours do not leave those processors"
  PROGRAM domain_manners ARGUMENTS unbound LIMITS --expect 1 --says "the registrar may run on")
rdm_case("threads of ours stay where they are when the processors asked for are not available"
  PROGRAM domain_manners ARGUMENTS bound LIMITS RDMALLOC_THREAD_CPUS=1023)
rdm_case("control: a process does not end while another thread lives on"
  PROGRAM domain_manners ARGUMENTS other_thread LIMITS --expect 142)
rdm_case("a process ends when main does by pthread_exit, once a ring of our own is closed"
  PROGRAM domain_manners ARGUMENTS ring_closed)
rdm_case("control: while a ring of our own is open the process does not end"
  PROGRAM domain_manners ARGUMENTS ring_open LIMITS --expect 1 --says "it lives on")
rdm_case("a process without a domain may have a user namespace of its own"
  PROGRAM domain_manners ARGUMENTS namespace)
foreach(kind driver ring)
  rdm_case("control: with a domain on a ${kind} it may not"
    PROGRAM domain_manners ARGUMENTS namespace ${kind}
    LIMITS --expect 1 --says "unshare: Invalid argument")
endforeach()
rdm_case("a thread that is cancelled as it opens, looks up and closes leaves no lock behind"
  PROGRAM domain_manners ARGUMENTS cancelled)
rdm_case("a malloc that succeeds keeps errno, whatever a backend does to it"
  PROGRAM domain_manners ARGUMENTS errno LIMITS --at-once LABELS memlock)
rdm_case("a malloc that succeeds keeps errno in a control group, one of whose processes has ended"
  PROGRAM domain_manners ARGUMENTS errno
  LIMITS --cgroup 2048 --at-once RDMALLOC_POPULATE=now LABELS root memlock)
