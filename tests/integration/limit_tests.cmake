# Every limit that a process can be under: the program ends by its own decision, the books match the
# kernel's to the page, and what cannot be pinned is reported once.
set(said "rdmalloc: .*is not pinned")

function(rdm_limit sentence)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "HOARD;LIMITS;LABELS")
  rdm_case("${sentence}" PROGRAM hoard ARGUMENTS ${arg_HOARD} LIMITS ${arg_LIMITS}
    LABELS ${arg_LABELS} TIMEOUT 60)
endfunction()

foreach(memlock 0 64 8192)
  rdm_limit("an ordinary user with ${memlock} KiB of memlock gets all it asks for, and one warning"
    LIMITS --user --memlock ${memlock} --lines 1 "${said}" --only-lines 1 HOARD 64 64 all
    LABELS root)
endforeach()
rdm_limit("memlock is used to the last page when no headroom is asked for"
  LIMITS --user --memlock 8192 RDMALLOC_HEADROOM=0 --lines 1 "${said}" HOARD 64 3 all LABELS root)
rdm_limit("RDMALLOC_WARN=off says nothing"
  LIMITS --user --memlock 8192 RDMALLOC_WARN=off --only-lines 0 HOARD 64 3 all LABELS root)
rdm_limit("strict: an ordinary user with 8 MiB of memlock meets ENOMEM"
  LIMITS --user --memlock 8192 RDMALLOC_STRICT=on HOARD 64 64 some LABELS root)
rdm_limit("strict: without memlock the very first malloc meets ENOMEM"
  LIMITS --user --memlock 0 RDMALLOC_STRICT=on HOARD 64 64 none LABELS root)

rdm_limit("an address space of 512 MiB ends in ENOMEM"
  LIMITS --address-space 524288 HOARD 1024 256 some)
rdm_limit("an address space of 64 MiB ends in ENOMEM"
  LIMITS --address-space 65536 HOARD 1024 16 some)
rdm_limit("an ordinary user with 8 MiB of memlock and 512 MiB of addresses meets ENOMEM"
  LIMITS --user --memlock 8192 --address-space 524288 --lines 1 "${said}" HOARD 1024 16 some
  LABELS root)

rdm_limit("a cap of 0 pins nothing and says nothing"
  LIMITS RDMALLOC_CAP=0 --only-lines 0 HOARD 64 64 all)
rdm_limit("a cap above RAM is no error"
  LIMITS RDMALLOC_CAP=900T HOARD 64 64 all)
rdm_limit("a small cap is reported once, and malloc still succeeds"
  LIMITS RDMALLOC_CAP=4M --lines 1 "${said}" HOARD 64 64 all)
rdm_limit("strict: a small cap ends in ENOMEM"
  LIMITS RDMALLOC_CAP=4M RDMALLOC_STRICT=on HOARD 64 64 some LABELS memlock_8M)
foreach(cap 16M 2M)
  rdm_limit("a memory cap of ${cap} ends in ENOMEM"
    LIMITS RDMALLOC_MEMORY_CAP=${cap} HOARD 64 64 some)
endforeach()
rdm_limit("a memory cap of 0 ends in ENOMEM at once"
  LIMITS RDMALLOC_MEMORY_CAP=0 HOARD 64 64 none)
# The window counts against a limit that the program sets itself; memory in the window does not.
rdm_case("a program that limits its addresses has room for its own with a small RDMALLOC_WINDOW"
  PROGRAM own_limit ARGUMENTS mappings LIMITS RDMALLOC_WINDOW=256M)
rdm_case("control: by default the window alone is more than a program's limit on its addresses"
  PROGRAM own_limit ARGUMENTS mappings LIMITS --expect 1 --says "own mapping finds no room")
rdm_case("a limit on addresses that a program sets itself does not bound the heap"
  PROGRAM own_limit ARGUMENTS heap
  CONTROL "with stock malloc it bounds the heap" SAYS "the heap is limited")
rdm_case("control: RDMALLOC_MEMORY_CAP bounds the heap of such a program"
  PROGRAM own_limit ARGUMENTS heap
  LIMITS RDMALLOC_MEMORY_CAP=64M --expect 1 --says "the heap is limited")

rdm_case("the window's tables count as little memory, however large the window is"
  PROGRAM counted_memory)
rdm_case("control: a mapping that nobody touches counts"
  PROGRAM counted_memory ARGUMENTS 128 LIMITS --expect 1 --says "MiB are counted")

# The memlock limit may change while the program runs.
rdm_program(limit_changes rdmalloc)
rdm_case("what a raised memlock limit allows is pinned, by a running program"
  PROGRAM limit_changes ARGUMENTS raised LIMITS --user --memlock 8192 LABELS root)
rdm_case("control: without a raised limit no more is pinned"
  PROGRAM limit_changes ARGUMENTS raised never LIMITS --user --memlock 8192 --expect 1
  --says "below the raised limit .* KiB are pinned, not" LABELS root)
rdm_case("a running program keeps to a lowered memlock limit, and loses no byte"
  PROGRAM limit_changes ARGUMENTS lowered LIMITS --user --memlock 8192 LABELS root)
rdm_case("a program that gives up CAP_IPC_LOCK pins and registers what its limit allows"
  PROGRAM limit_changes ARGUMENTS dropped LABELS root)

# What the library reports about itself.
rdm_case("a region says whether it is pinned, overflow or sparse, and the books count it as that"
  PROGRAM kinds ARGUMENTS regions LIMITS RDMALLOC_CAP=8M RDMALLOC_SPARSE_FROM=64M
  LABELS memlock_8M)
rdm_case("the statistics say that the cap limits the budget"
  PROGRAM kinds ARGUMENTS limit cap LIMITS RDMALLOC_CAP=4M LABELS memlock_8M)
rdm_case("the statistics say that the memlock limit limits the budget"
  PROGRAM kinds ARGUMENTS limit memlock LIMITS --user --memlock 8192 LABELS root)
rdm_case("the statistics say that the memory that is left limits the budget"
  PROGRAM kinds ARGUMENTS limit available LIMITS --cgroup 64 RDMALLOC_CAP=1G LABELS root)
rdm_case("the statistics say that the machine's limit limits the budget"
  PROGRAM kinds ARGUMENTS limit node
  LIMITS RDMALLOC_NODE_CAP=4M RDMALLOC_LEDGER=${CMAKE_CURRENT_BINARY_DIR}/kinds-ledger
  LABELS memlock_8M)
rdm_case("statistics fill as much of a struct as the caller has, whatever header it was built with"
  PROGRAM kinds ARGUMENTS sizes)
rdm_case("rdm_stats_json writes what rdm_stats_get says" PROGRAM kinds ARGUMENTS json)
foreach(monitor none interposed)
  rdm_case("rdm_monitor names the monitor that was chosen, and why: ${monitor}"
    PROGRAM kinds ARGUMENTS monitor ${monitor} LIMITS RDMALLOC_MONITOR=${monitor})
endforeach()

rdm_case("threads that start when memory has run out meet ENOMEM and live"
  PROGRAM exhausted LIMITS RDMALLOC_MEMORY_CAP=16M)
rdm_case("a block grows by a page when memory has run out for a copy"
  PROGRAM grown_last LIMITS RDMALLOC_MEMORY_CAP=32M)
rdm_case("control: where pages do not move it does not grow"
  PROGRAM grown_last
  LIMITS RDMALLOC_MEMORY_CAP=32M RDMALLOC_GATHER=off --expect 1 --says "the block did not grow by a page")
rdm_limit("options that are unknown or malformed are named in one line"
  LIMITS RDMALLOC_BANANA=1 RDMALLOC_CAP=lots --only-lines 1 --lines 1 "BANANA.*RDMALLOC_CAP"
  HOARD 1 4 all LABELS memlock_8M)

foreach(cgroup 16 32 256)
  foreach(block 4 256)
    rdm_limit("a control group of ${cgroup} MiB ends in ENOMEM, in blocks of ${block} KiB"
      LIMITS --cgroup ${cgroup} HOARD 1024 ${block} some LABELS root)
  endforeach()
endforeach()
rdm_limit("a control group of 256 MiB ends in ENOMEM without pinning"
  LIMITS --cgroup 256 RDMALLOC_CAP=0 HOARD 1024 64 some LABELS root)
rdm_limit("a control group of 256 MiB and 8 MiB of memlock end in ENOMEM"
  LIMITS --cgroup 256 --user --memlock 8192 HOARD 1024 64 some LABELS root)
rdm_limit("a control group of 256 MiB ends in ENOMEM with huge pages"
  LIMITS --cgroup 256 RDMALLOC_HUGE=thp HOARD 1024 256 some LABELS root)
foreach(way ${page_ways})
  rdm_limit("a small cap is reported once, and malloc still succeeds with ${way}"
    LIMITS ${way} RDMALLOC_CAP=4M --lines 1 "${said}" HOARD 64 64 all)
  rdm_limit("a control group of 256 MiB ends in ENOMEM with ${way}"
    LIMITS ${way} --cgroup 256 HOARD 1024 256 some LABELS root)
endforeach()
rdm_test("control: with stock malloc the control group's limit kills" LABELS root TIMEOUT 60
  COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/case.sh --cgroup 256 --expect killed
          -- $<TARGET_FILE:integration_hoard> 1024 256 some)

# File pages charged to a control group count as available, recently used or not.
rdm_case("beside the page cache of a file read twice malloc gets as much as glibc's"
  PROGRAM page_cache ARGUMENTS 180 150 LIMITS --cgroup 256 LABELS root TIMEOUT 60)
rdm_test("glibc's malloc gets as much beside the page cache of a file read twice" LABELS root TIMEOUT 60
  COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/case.sh --cgroup 256
          -- $<TARGET_FILE:integration_page_cache> 180 150)

# Processes of one 512 MiB group, each allocating more than its share and touching less: any number
# of them, and any way of obtaining pages. The long forms run 200 rounds.
function(rdm_shared sentence rounds)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "LIMITS;LABELS")
  # number of processes, MiB of each, MiB that it touches, KiB of a block
  foreach(wish "2 300 220 307200" "4 150 110 51200" "16 60 28 256")
    separate_arguments(wish)
    list(GET wish 0 count)
    rdm_case("${count} ${sentence}" PROGRAM shared_group ARGUMENTS ${wish} ${rounds}
      LIMITS --cgroup 512 ${arg_LIMITS} LABELS root ${arg_LABELS} TIMEOUT 1500)
  endforeach()
endfunction()
rdm_shared("processes share a control group, and none is killed or refused" 3)
rdm_shared("processes share a control group, all pages come at once, and none is killed or refused" 3
  LIMITS RDMALLOC_POPULATE=now)
rdm_shared("processes share a control group without pinning, and none is killed or refused" 3
  LIMITS RDMALLOC_CAP=0)
rdm_shared("processes share a control group 200 times" 200 LABELS long)
rdm_shared("processes share a control group 200 times, all pages come at once" 200
  LIMITS RDMALLOC_POPULATE=now LABELS long)
foreach(wish "2 300 220 307200" "4 150 110 51200" "16 60 28 256")
  separate_arguments(wish)
  list(GET wish 0 count)
  rdm_case("${count} processes share a control group, each with a domain, and none is killed or refused"
    PROGRAM shared_group ARGUMENTS ${wish} 3 domain LIMITS --cgroup 512 LABELS root TIMEOUT 60)
  rdm_case("${count} processes share a control group 200 times, each with a domain"
    PROGRAM shared_group ARGUMENTS ${wish} 200 domain LIMITS --cgroup 512 LABELS root long
    TIMEOUT 1500)
  rdm_case("${count} processes start one after the other in a control group, and none is killed or refused"
    PROGRAM shared_group ARGUMENTS ${wish} 3 domain in-turn LIMITS --cgroup 512 LABELS root TIMEOUT 60)
  rdm_case("${count} ranks start one after the other in a control group, and none is killed or refused"
    PROGRAM shared_group ARGUMENTS ${wish} 3 domain in-turn
    LIMITS --cgroup 512 OMPI_COMM_WORLD_LOCAL_SIZE=${count} LABELS root TIMEOUT 60)
  rdm_test("control: ${count} processes that want as much live on glibc's malloc" LABELS root
    COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/case.sh --cgroup 512
            -- $<TARGET_FILE:integration_shared_group> ${wish} 3)
endforeach()
rdm_case("what is malloc'd beyond a control group's limit is given, and costs what is touched"
  PROGRAM shared_group ARGUMENTS 2 600 200 614400 3 LIMITS --cgroup 512 LABELS root)
rdm_case("control: a memory cap that the user set counts what is not touched, too"
  PROGRAM shared_group ARGUMENTS 2 600 200 614400
  LIMITS --cgroup 512 RDMALLOC_MEMORY_CAP=95% --expect 1 --says "^0 got all that they wanted" LABELS root)
# Within 5 % of what glibc's malloc gets there, which is 30 MiB for each of 16.
rdm_case("16 processes share a control group to its last twentieth, and none is killed or refused"
  PROGRAM shared_group ARGUMENTS 16 29 29 256 3 LIMITS --cgroup 512 LABELS root)
rdm_case("pages that come at once stop short of memory.high"
  PROGRAM shared_group ARGUMENTS 1 400 100 409600
  LIMITS --cgroup 512 --high 256 RDMALLOC_POPULATE=now LABELS root)

# The bar is 5 %; the bug it guards against took four times as long.
rdm_case("malloc-heavy work takes no more CPU time where nothing can be pinned"
  PROGRAM overflow_cpu ARGUMENTS 15 ALONE)
rdm_case("malloc-heavy work takes at most a twentieth more CPU time where nothing can be pinned"
  PROGRAM overflow_cpu ARGUMENTS 5 LABELS root long ALONE)

# 200 threads, each of which moves between processors while it holds large blocks.
rdm_case("200 threads keep every byte of large blocks that change hands and processors"
  PROGRAM migrants ARGUMENTS 4 512 all TIMEOUT 60)
rdm_case("200 threads keep every byte beyond 8 MiB of memlock"
  PROGRAM migrants ARGUMENTS 4 512 all overflow
  LIMITS --user --memlock 8192 --lines 1 "${said}" LABELS root TIMEOUT 60)
rdm_case("200 threads keep every byte in an address space of 2 GiB"
  PROGRAM migrants ARGUMENTS 4 512 all LIMITS --address-space 2097152 TIMEOUT 60)
rdm_case("200 threads that meet ENOMEM now and then lose nothing and go on"
  PROGRAM migrants ARGUMENTS 4 512 some LIMITS RDMALLOC_MEMORY_CAP=100M TIMEOUT 60)
rdm_case("control: without a cap malloc refuses 200 threads nothing"
  PROGRAM migrants ARGUMENTS 2 512 some LIMITS --expect 1 --says "malloc never failed: nothing was tried" TIMEOUT 60)
rdm_case("control: where all is pinned nothing is beyond the pins"
  PROGRAM migrants ARGUMENTS 2 512 all overflow LIMITS --expect 1 --says "no memory was beyond the pins" TIMEOUT 60 LABELS memlock)
rdm_case("control: a byte that another thread changes is noticed"
  PROGRAM migrants ARGUMENTS 2 512 all spoil LIMITS --expect 1 --says "words of a block of .* are wrong" TIMEOUT 60)
