# Pools of buffers, and the adapters for other libraries' pools, in whole processes.
rdm_program(pool_misuse rdmalloc)
rdm_case("a pool's calls say in a sentence what they cannot do"
  PROGRAM pool_misuse)

add_executable(integration_adapter_c ${CMAKE_CURRENT_LIST_DIR}/adapter_c.c)
target_compile_options(integration_adapter_c PRIVATE -Wall -Wextra -Werror)
target_link_libraries(integration_adapter_c PRIVATE rdmalloc)
set_target_properties(integration_adapter_c PROPERTIES C_STANDARD 11
  RUNTIME_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
if(TARGET rdmalloc_mpool)
  target_include_directories(integration_adapter_c SYSTEM PRIVATE
    $<TARGET_PROPERTY:rdmalloc_mpool,INCLUDE_DIRECTORIES>)
  target_compile_definitions(integration_adapter_c PRIVATE HAVE_OPENMPI)
endif()
find_path(UCS_MPOOL_HEADERS ucs/datastruct/mpool.h)
find_library(LIBUCS ucs)
if(UCS_MPOOL_HEADERS)
  target_compile_definitions(integration_adapter_c PRIVATE HAVE_UCX)
endif()
rdm_case("the adapters have the signatures of the pools they are for, and work through them"
  PROGRAM adapter_c LABELS memlock)

if(NOT LIBURING)
  rdmalloc_not_built("the tests of pools with a device" integration,io_uring "${no_liburing}")
  return()
endif()

foreach(program traffic reserve fork holes)
  rdm_program(pool_${program} rdmalloc ${LIBURING})
endforeach()

rdm_case("the device gets the bytes of a pool's buffer by the key that came with it"
  PROGRAM pool_traffic ARGUMENTS keys 20000 LABELS memlock)
rdm_case("control: by another key it gets none"
  PROGRAM pool_traffic ARGUMENTS keys 20000 wrong LIMITS --expect 1 --says "other bytes, or none, by key")
rdm_case("a million gets and puts in threads that die register nothing and hold no more"
  PROGRAM pool_traffic ARGUMENTS steady 1000000 LABELS memlock)
rdm_case("control: a pool whose buffers are not put back grows"
  PROGRAM pool_traffic ARGUMENTS steady 100000 kept LIMITS --expect 1 --says "the pool grew from")

rdm_case("no buffer of a pool is stale however the program unmaps, replaces and protects them"
  PROGRAM pool_holes ARGUMENTS 20000 LIMITS --lines 1 "has unmapped or replaced" LABELS memlock)
rdm_case("control: a pool that keeps the keys that it once had sends other bytes"
  PROGRAM pool_holes ARGUMENTS 20000 naive
  LIMITS --expect 1 --says "the peer gets other bytes than the program wrote" LABELS memlock)

rdm_case("a reserve beyond the memlock limit is refused with a sentence that says who holds memory"
  PROGRAM pool_reserve LIMITS --user --memlock 8192 LABELS root ALONE)
rdm_case("control: where no memlock limit applies the reserve is pinned"
  PROGRAM pool_reserve LIMITS --expect 1 --says "buffers were had, whatever the limit")

rdm_case("a forked child owns no buffer of its parent's pool, and the parent's device stays right"
  PROGRAM pool_fork ARGUMENTS child LABELS memlock)
rdm_case("forks among threads that get and put neither hang nor lose a buffer"
  PROGRAM pool_fork ARGUMENTS storm 3 LABELS memlock)

if(UCS_MPOOL_HEADERS AND LIBUCS)
  rdm_program(adapter_ucs rdmalloc ${LIBURING} ${LIBUCS})
  target_include_directories(integration_adapter_ucs SYSTEM PRIVATE ${UCS_MPOOL_HEADERS})
  foreach(way ours exposed)
    rdm_case("every element of a pool of libucs with our chunks is registered: ${way}"
      PROGRAM adapter_ucs ARGUMENTS ${way} LABELS memlock)
  endforeach()
  rdm_case("control: with UCX's own chunks none is"
    PROGRAM adapter_ucs ARGUMENTS mmap LIMITS --expect 1 --says "not memory of the window")
endif()
