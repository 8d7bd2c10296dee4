# What memory consists of, where it lies, and that it stays there.

rdm_case("every object from every allocation function lies in one region of the window"
  PROGRAM coverage ARGUMENTS 1024
  CONTROL "with stock malloc every object lies outside" SAYS "^malloc of .* lies outside")
rdm_case("objects of exact size keep their contents through every call"
  PROGRAM storm ARGUMENTS 4 1500 11 16384 8388608 TIMEOUT 300)
rdm_case("objects of all sizes keep their contents through every call"
  PROGRAM storm ARGUMENTS 8 3000 12 1 4194304 TIMEOUT 300)
rdm_case("objects of all sizes keep their contents through every call, long"
  PROGRAM storm ARGUMENTS 8 30000 13 1 8388608 LABELS long TIMEOUT 1500)
rdm_case("objects of 4 to 64 KiB, which threads keep, have their contents through every call"
  PROGRAM storm ARGUMENTS 4 20000 15 2048 81920 TIMEOUT 300)
foreach(way ${page_ways})
  rdm_case("objects of 4 to 64 KiB have their contents through every call with ${way}"
    PROGRAM storm ARGUMENTS 3 5000 16 2048 81920 LIMITS ${way} TIMEOUT 300)
endforeach()
foreach(way twice realloc dallocx xallocx usable)
  foreach(size 7000 40000 200000)
    rdm_case("an object of ${size} bytes that is used after it was freed (${way}) ends the program with a sentence"
      PROGRAM front ARGUMENTS misuse ${way} ${size} LIMITS --expect 134 --only-lines 1
      --lines 1 "^rdmalloc: .* of 0x[0-9a-f]+: no live block starts there; it was freed before" TIMEOUT 60)
  endforeach()
endforeach()
rdm_case("what a thread keeps for its next mallocs goes back when it ends"
  PROGRAM front ARGUMENTS threads LIMITS RDMALLOC_MEMORY_CAP=128M TIMEOUT 120)
rdm_case("a thread that has freed all it had leaves most of it to others"
  PROGRAM front ARGUMENTS left LIMITS RDMALLOC_MEMORY_CAP=128M TIMEOUT 60)
rdm_case("a thread that only frees keeps little"
  PROGRAM front ARGUMENTS handed TIMEOUT 60)
rdm_case("jemalloc's figures for a thread count what the thread keeps for its next mallocs"
  PROGRAM front ARGUMENTS figures TIMEOUT 60)
rdm_case("an arena's objects may be dropped, and others lie where they lay"
  PROGRAM front ARGUMENTS reset TIMEOUT 60)
foreach(size 49152 200000)
  rdm_case("what a program unmaps of objects of ${size} bytes, of which threads keep some, is never handed out"
    PROGRAM front ARGUMENTS holes ${size} TIMEOUT 60)
endforeach()
rdm_case("objects that come and go too fast to be written keep their ends, in several threads and between them"
  PROGRAM front ARGUMENTS contents TIMEOUT 120)
foreach(way ${page_ways})
  rdm_case("objects that come and go too fast to be written keep their ends with ${way}"
    PROGRAM front ARGUMENTS contents LIMITS ${way} TIMEOUT 300)
endforeach()
rdm_case("what the engine allocates for itself in an aligned call keeps its size"
  PROGRAM nested
  LIMITS MALLOC_CONF=tcache_nslots_small_min:2047,tcache_nslots_small_max:2047)
rdm_case("a profiled aligned call keeps its sizes"
  PROGRAM nested ARGUMENTS 2 LIMITS MALLOC_CONF=prof:true,prof_active:true,lg_prof_sample:0)
rdm_case("blocks of drifting sizes leave few mappings, few regions, and little memory idle"
  PROGRAM churn ARGUMENTS 2 400000 150 LABELS memlock TIMEOUT 300)
rdm_case("control: without gathering twice as much is resident as is live"
  PROGRAM churn ARGUMENTS 2 400000 150
  LIMITS RDMALLOC_GATHER=off --expect 1 --says "of what was live" LABELS memlock TIMEOUT 300)
rdm_case("in ten million operations such blocks leave no more mappings, and no more memory idle"
  PROGRAM churn ARGUMENTS 2 10000000 140 LABELS memlock long TIMEOUT 3600)
foreach(conf
    tcache:false zero:true junk:true prof:true,prof_active:true,lg_prof_sample:12
    percpu_arena:percpu narenas:1 dirty_decay_ms:1000 dirty_decay_ms:-1,muzzy_decay_ms:-1
    muzzy_decay_ms:1000 background_thread:true lg_tcache_max:20 tcache_max:1048576
    oversize_threshold:1048576 retain:true hpa:true thp:always dss:primary metadata_thp:always
    san_guard_large:1,san_guard_small:1 trust_madvise:true)
  rdm_case("objects keep their contents with MALLOC_CONF=${conf}"
    PROGRAM storm ARGUMENTS 3 700 14 LIMITS MALLOC_CONF=${conf})
  rdm_case("every object lies in the window with MALLOC_CONF=${conf}"
    PROGRAM coverage ARGUMENTS 4 LIMITS MALLOC_CONF=${conf})
endforeach()

if(LIBURING)
  rdm_program(stale ${LIBURING})
  rdm_program(frames ${LIBURING})
  rdm_case("a device sends what the program wrote into a reused address"
    PROGRAM stale LABELS root
    CONTROL "with stock malloc the device sends the freed buffer's bytes"
    SAYS "the program wrote 'B' and the device sent 'A'")
  foreach(way ${page_ways})
    rdm_case("a device sends what the program wrote into a reused address with ${way}"
      PROGRAM stale LIMITS ${way} LABELS root)
    rdm_case("operations in 4 threads move no page and stale no registration with ${way}"
      PROGRAM frames ARGUMENTS 4 25000 LIMITS ${way} LABELS root ALONE)
  endforeach()
  rdm_case("a million operations in 8 threads move no page and stale no registration"
    PROGRAM frames ARGUMENTS 8 125000 LABELS root ALONE
    CONTROL "with stock malloc pages move and registrations go stale"
    SAYS "^page .*: frame .*, was ")
  rdm_case("ten million operations in 8 threads move no page and stale no registration"
    PROGRAM frames ARGUMENTS 8 1250000 LABELS root long ALONE TIMEOUT 1500)

  rdm_program(retired ${LIBURING})
  rdm_case("an address that lost its page faults, and every lookup refuses it"
    PROGRAM retired ARGUMENTS faults LIMITS RDMALLOC_GATHER=always LABELS memlock)
  rdm_case("an address that a block left as it grew faults by default, too"
    PROGRAM retired ARGUMENTS faults LABELS memlock)
  rdm_case("control: without gathering no address is left, and none faults"
    PROGRAM retired ARGUMENTS faults LIMITS RDMALLOC_GATHER=off --expect 1 --says "moved: 0x.* is owned still")
  rdm_case("in a million operations no address that lost its page is handed out again"
    PROGRAM retired ARGUMENTS never 2 500000 LIMITS RDMALLOC_GATHER=always TIMEOUT 300
    CONTROL "stock malloc hands out again what it gave back"
    SAYS "lost what was there, and is handed out again" LABELS memlock)
  rdm_case("what is known of 16 GiB of retired addresses takes no memory"
    PROGRAM retired ARGUMENTS many 16 LIMITS RDMALLOC_GATHER=always TIMEOUT 300)
  rdm_case("in a hundred million operations no address that lost its page is handed out again"
    PROGRAM retired ARGUMENTS never 4 25000000 LIMITS RDMALLOC_GATHER=always LABELS long TIMEOUT 7200)
else()
  rdmalloc_not_built("the tests of memory with a device" integration,io_uring "${no_liburing}")
endif()

# Stock jemalloc is the control for tests of jemalloc's own interface.
rdm_case("no option or mallctl of the engine drops a page"
  PROGRAM engine_fuzz ARGUMENTS 20000 1 LABELS root ALONE)
foreach(conf retain:true dirty_decay_ms:100 background_thread:true hpa:true,thp:always)
  rdm_case("no mallctl drops a page with MALLOC_CONF=${conf}"
    PROGRAM engine_fuzz ARGUMENTS 5000 2 LIMITS MALLOC_CONF=${conf} LABELS root ALONE)
endforeach()
if(STOCK_JEMALLOC)
  rdm_test("control: stock jemalloc drops pages" LABELS root ALONE
    COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/case.sh --library ${STOCK_JEMALLOC} --expect 1
            --says "page 0x.*: frame .*, was 0x"
            -- $<TARGET_FILE:integration_engine_fuzz> 20000 1)
else()
  rdmalloc_not_built("the controls with stock jemalloc" integration
    "no libjemalloc2: type: sh cmake/bootstrap.sh test")
endif()

set(quiet ${CMAKE_CURRENT_SOURCE_DIR}/quiet.sh)
rdm_test("after warm-up no system call gives memory back"
  COMMAND sh ${quiet} $<TARGET_FILE:integration_quiet> $<TARGET_FILE:rdmalloc>)
rdm_test("control: stock malloc gives memory back all the time"
  COMMAND sh ${quiet} --expect-some $<TARGET_FILE:integration_quiet>)

set(files_of_proc ${CMAKE_CURRENT_SOURCE_DIR}/files_of_proc.sh)
rdm_test("a process that never calls malloc opens no file of /proc or /sys"
  COMMAND sh ${files_of_proc} $<TARGET_FILE:rdmalloc> /bin/true)
rdm_test("control: one that fills megabytes opens some"
  COMMAND sh ${files_of_proc} --expect-some $<TARGET_FILE:rdmalloc>
          /usr/bin/python3 -c "bytearray(8 << 20)")

rdm_case("a gigabyte of zeroes costs what is touched of it"
  PROGRAM sparse)
rdm_case("control: populated, a gigabyte of zeroes costs a gigabyte"
  PROGRAM sparse LIMITS RDMALLOC_SPARSE_FROM=0 --expect 1 --says "KiB resident with 1 % touched")

rdm_case("a large block that grows by moving keeps its page frames"
  PROGRAM growing ARGUMENTS realloc LABELS root)
rdm_case("control: without gathering it is copied to other frames"
  PROGRAM growing ARGUMENTS realloc LIMITS RDMALLOC_GATHER=off --expect 1 --says "page 0 of .* is another one"
  LABELS root)
foreach(limits "" RDMALLOC_GATHER=off RDMALLOC_GATHER=always RDMALLOC_POPULATE=now RDMALLOC_CAP=0)
  string(REPLACE "RDMALLOC_" " with " with "${limits}")
  rdm_case("blocks that grow side by side page by page move seldom${with}"
    PROGRAM growing ARGUMENTS steps LIMITS ${limits})
endforeach()
rdm_case("calloc of fresh pages touches none"
  PROGRAM growing ARGUMENTS calloc)
rdm_case("10,000 growing callocs do not slow down, and leave nothing when freed"
  PROGRAM growing ARGUMENTS pairs calloc)
rdm_case("10,000 growing mallocs do not slow down, and leave nothing when freed, if asked"
  PROGRAM growing ARGUMENTS pairs malloc LIMITS RDMALLOC_SPARSE=malloc)
rdm_case("control: unless asked, what was malloc'd last is held"
  PROGRAM growing ARGUMENTS pairs malloc
  LIMITS RDMALLOC_WINDOW=64G --expect 1 --says "[0-9] MiB were refused")
rdm_case("control: populated, calloc of fresh pages costs all of them"
  PROGRAM growing ARGUMENTS calloc LIMITS RDMALLOC_POPULATE=now --expect 1 --says "untouched blocks cost" LABELS memlock)

# On a stack of 8 KiB.
rdm_case("growing the heap by large blocks takes less than 2 KiB of stack"
  PROGRAM little_stack ARGUMENTS 2048 LABELS memlock)
rdm_case("growing the heap takes as little stack when it gathers at each growth"
  PROGRAM little_stack ARGUMENTS 2048 LIMITS RDMALLOC_GATHER=always LABELS memlock)
rdm_case("growing the heap takes as little stack under a small memlock limit, and says so"
  PROGRAM little_stack ARGUMENTS 2048 LIMITS --user --memlock 8192 --lines 1 "memory is not pinned"
  LABELS root)
rdm_case("growing the heap takes as little stack in a control group, whose processes share its limit"
  PROGRAM little_stack ARGUMENTS 2048 LIMITS --cgroup 4096 LABELS root memlock)
rdm_case("control: a frame of 3 KiB is noticed"
  PROGRAM little_stack ARGUMENTS 2048 3072 LIMITS --expect 1 --says "malloc uses .* bytes of stack")

rdm_case("a sealed region cannot be unmapped, moved or protected"
  PROGRAM pages ARGUMENTS sealed LIMITS RDMALLOC_SEAL=on)
rdm_case("control: a region that is not sealed can be unmapped"
  PROGRAM pages ARGUMENTS sealed LIMITS --expect 1 --says "not all are sealed")
rdm_case("transparent huge pages are used, and counted as the kernel counts them"
  PROGRAM pages ARGUMENTS thp LIMITS RDMALLOC_HUGE=thp)
rdm_case("control: by default no page is huge"
  PROGRAM pages ARGUMENTS thp LIMITS --expect 1 --says "not transparent huge pages")
set(case sh ${CMAKE_CURRENT_SOURCE_DIR}/case.sh --library $<TARGET_FILE:rdmalloc>
  RDMALLOC_HUGE=hugetlb)
set(pool sh ${CMAKE_CURRENT_SOURCE_DIR}/huge_pool.sh)
set(pages -- $<TARGET_FILE:integration_pages>)
rdm_test("a pool of huge pages is used" LABELS root ALONE
  COMMAND ${pool} 40 ${case} ${pages} hugetlb)
rdm_test("an empty pool of huge pages is no error" LABELS root ALONE
  COMMAND ${pool} 0 ${case} ${pages} base)
rdm_test("a pool of huge pages that is too small is no error" LABELS root ALONE
  COMMAND ${pool} 8 ${case} -- $<TARGET_FILE:integration_hoard> 64 64 all)

rdm_program(exposed_apart)
rdm_case("exposed and ordinary memory never share a region, in 8 threads"
  PROGRAM exposed_apart ARGUMENTS storm 8 50000 1 1 TIMEOUT 60 LABELS memlock)
rdm_case("exposed and ordinary memory never share a region, without thread caches"
  PROGRAM exposed_apart ARGUMENTS storm 4 5000 1 2 LIMITS MALLOC_CONF=tcache:false TIMEOUT 60 LABELS memlock)
rdm_case("exposed and ordinary memory never share a region, with transparent huge pages and seals"
  PROGRAM exposed_apart ARGUMENTS storm 4 5000 1 3 LIMITS RDMALLOC_HUGE=thp RDMALLOC_SEAL=on
  TIMEOUT 60 LABELS memlock)
rdm_case("control: memory that is not exposed shares regions with all other"
  PROGRAM exposed_apart ARGUMENTS storm 8 10000 0 1 LIMITS --expect 1 --says "exposed 1, lie in a region with exposed 0" TIMEOUT 60)
rdm_case("a peer that overwrites every exposed region damages nothing of the allocator's"
  PROGRAM exposed_apart ARGUMENTS overwritten 1 TIMEOUT 60 LABELS memlock)
rdm_case("control: overwriting an ordinary region ends the process"
  PROGRAM exposed_apart ARGUMENTS overwritten 0 LIMITS RDMALLOC_GATHER=off --expect 1 --says "whose regions were written exited with 1" TIMEOUT 60)

rdm_program(exposed)
rdm_case("exposed memory has its sizes, alignments and errors, and takes every call"
  PROGRAM exposed ARGUMENTS calls TIMEOUT 60 LABELS memlock)
rdm_case("exposed memory is pinned or refused, for an ordinary user with 8 MiB of memlock"
  PROGRAM exposed ARGUMENTS until-refused 1 LIMITS --user --memlock 8192 LABELS root TIMEOUT 60)
rdm_case("control: memory that is not exposed is not refused there"
  PROGRAM exposed ARGUMENTS until-refused 0 LIMITS --user --memlock 8192 --expect 1 --says "256 blocks of 256 were given" LABELS root
  TIMEOUT 60)
rdm_case("exposed memory is pinned or refused, under a cap"
  PROGRAM exposed ARGUMENTS until-refused 1 LIMITS RDMALLOC_CAP=8M TIMEOUT 60 LABELS memlock_8M)
rdm_case("the child of a fork keeps its exposed memory, and gets none that is not pinned"
  PROGRAM exposed ARGUMENTS child TIMEOUT 60 LABELS memlock_8M)
foreach(way twice inside unaligned realloc usable)
  rdm_case("exposed memory that is misused (${way}) ends the program with a sentence"
    PROGRAM exposed ARGUMENTS misuse ${way} LIMITS --expect 134 --only-lines 1
    --lines 1 "^rdmalloc: .* of 0x[0-9a-f]+: no live block starts there; it was freed before" TIMEOUT 60 LABELS memlock_8M)
endforeach()

rdm_program(cxx_interface rdmalloc)
rdm_case("the C++ interface: domains that close themselves, exposed memory as an allocator"
  PROGRAM cxx_interface LABELS memlock)
