# UCX itself over shared memory and TCP on one machine: contexts under the shim, and attached
# explicitly.
find_library(RDMALLOC_UCP ucp)
find_library(RDMALLOC_UCS ucs)
if(NOT RDMALLOC_UCX_HEADERS OR NOT RDMALLOC_UCP OR NOT RDMALLOC_UCS)
  rdmalloc_not_built("the tests with UCX" integration,ucx "no libucx-dev: type: sh cmake/bootstrap.sh test")
  return()
endif()

rdm_program(ucx_contexts ${RDMALLOC_UCP} ${RDMALLOC_UCS})
rdm_program(ucx_handles ${RDMALLOC_UCP} ${RDMALLOC_UCS})
add_dependencies(integration_ucx_contexts rdmalloc_ucx)
set(ucx_case sh ${CMAKE_CURRENT_SOURCE_DIR}/case.sh)
set(ucx_shared_memory UCX_TLS=posix,cma,self)
set(ucx_tcp UCX_TLS=tcp,self UCX_NET_DEVICES=lo)
set(ucx_libraries "$<TARGET_FILE:rdmalloc>:$<TARGET_FILE:rdmalloc_ucx>")

# ucx_case(ARGUMENT "sentence" [CONTROL "regex"] [OPTIONS ...] [LABELS ...]): under the shim; the
# control, under the library alone, must exit with status 1 and print a match.
function(ucx_case name sentence)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "CONTROL" "OPTIONS;LABELS")
  set(run -- $<TARGET_FILE:integration_ucx_contexts> ${name})
  rdm_test("ucx: ${sentence}" LABELS ucx ${arg_LABELS}
    COMMAND ${ucx_case} --library ${ucx_libraries} ${arg_OPTIONS} ${run})
  if(arg_CONTROL)
    rdm_test("control: ucx, without the shim not: ${sentence}" LABELS ucx ${arg_LABELS}
      COMMAND ${ucx_case} --library $<TARGET_FILE:rdmalloc> --expect 1 --says "${arg_CONTROL}" ${arg_OPTIONS} ${run})
  endif()
endfunction()

ucx_case(steady "each region is mapped once, and messages are right over shared memory"
  CONTROL "regions were mapped 0 times" OPTIONS --at-once ${ucx_shared_memory} --only-lines 0 LABELS memlock)
ucx_case(steady "each region is mapped once, and messages are right over TCP"
  OPTIONS --at-once ${ucx_tcp} --only-lines 0 LABELS memlock)
ucx_case(steady "each region is mapped once with UCX's newer protocols"
  OPTIONS --at-once ${ucx_shared_memory} UCX_PROTO_ENABLE=y --only-lines 0 LABELS memlock)
ucx_case(steady "of an ordinary user's heap beyond the memlock limit what is pinned is mapped"
  OPTIONS --at-once ${ucx_shared_memory} --user --memlock 8192)
ucx_case(many "several contexts each have the heap, and end in any order"
  CONTROL "one more context: 0 bytes mapped" OPTIONS --at-once ${ucx_shared_memory} --only-lines 0 LABELS memlock)
ucx_case(own "a program may map what it malloc'd itself, too"
  CONTROL "after its own mappings: 0 bytes mapped" OPTIONS --at-once ${ucx_shared_memory} --only-lines 0 LABELS memlock)
ucx_case(asks "a program that asks UCX where its own mapping lies hears what it mapped"
  OPTIONS ${ucx_shared_memory} --only-lines 0 LABELS memlock)
ucx_case(threads "contexts come and go while threads malloc"
  OPTIONS ${ucx_shared_memory} --only-lines 0 LABELS memlock)
ucx_case(shared "threads with workers in one context send while the heap grows"
  OPTIONS --at-once ${ucx_shared_memory} --only-lines 0 LABELS memlock)
ucx_case(unclean "a program may end without ucp_cleanup, with a thread at work"
  OPTIONS ${ucx_shared_memory} --only-lines 0 LABELS memlock)
ucx_case(fork "children have their heap and own no mapping"
  OPTIONS ${ucx_shared_memory} --only-lines 0 LABELS memlock)
ucx_case(refused "a context that cannot be shared by threads is left alone, with one warning"
  OPTIONS ${ucx_shared_memory} --lines 1 "mt_workers_shared" --only-lines 1 LABELS memlock)
ucx_case(uring "a ring and a context have each region registered once, both"
  CONTROL "a context: 0 bytes mapped" OPTIONS --at-once ${ucx_shared_memory} --only-lines 0 LABELS memlock)

# Attached explicitly, without the shim.
function(ucx_handles_case name sentence)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "LABELS")
  rdm_test("ucx: ${sentence}" LABELS ucx ${arg_LABELS}
    COMMAND ${ucx_case} --library $<TARGET_FILE:rdmalloc> ${arg_UNPARSED_ARGUMENTS}
      -- $<TARGET_FILE:integration_ucx_handles> ${name})
endfunction()
ucx_handles_case(handles "UCX takes the handles of lookups, and keys packed of them, over shared memory"
  ${ucx_shared_memory} LABELS memlock)
ucx_handles_case(handles "UCX takes the handles of lookups, and keys packed of them, over TCP"
  ${ucx_tcp} LABELS memlock)
ucx_handles_case(foreign "foreign memory has a handle while it is held" ${ucx_shared_memory} LABELS memlock_8M)
ucx_handles_case(alone "a context for one thread is refused by hand, with what to set"
  ${ucx_shared_memory})

add_library(integration_ucx_plugin MODULE ${CMAKE_CURRENT_LIST_DIR}/ucx_plugin.cpp)
target_link_libraries(integration_ucx_plugin PRIVATE rdmalloc_flags ${RDMALLOC_UCP}
  ${RDMALLOC_UCS})
set_target_properties(integration_ucx_plugin PROPERTIES
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
rdm_program(ucx_host)
add_dependencies(integration_ucx_host integration_ucx_plugin rdmalloc_ucx)
set(run -- $<TARGET_FILE:integration_ucx_host> $<TARGET_FILE:integration_ucx_plugin>)
rdm_test("ucx: a plug-in that brings libucp with it is served" LABELS ucx
  COMMAND ${ucx_case} --library ${ucx_libraries} ${ucx_shared_memory} ${run})
rdm_test("ucx: a plug-in that brings libucp into the global scope is served, and may go" LABELS ucx
  COMMAND ${ucx_case} --library ${ucx_libraries} ${ucx_shared_memory} ${run} global)
rdm_test("control: ucx, without the shim a plug-in is not served" LABELS ucx
  COMMAND ${ucx_case} --library $<TARGET_FILE:rdmalloc> --expect 1 --says "^0 domains while" ${ucx_shared_memory} ${run})

rdm_test("the UCX shim exports what it says and needs no libstdc++" LABELS ucx
  COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/exports.sh $<TARGET_FILE:rdmalloc_ucx>
          ${PROJECT_SOURCE_DIR}/regcache/preload/ucx/exports.map)
rdm_test("a program without UCX runs unharmed under the UCX shim" LABELS ucx memlock_8M
  COMMAND ${ucx_case} --library ${ucx_libraries} --only-lines 0 -- /bin/sh -c "exit 0")

# With libfabric at the same time.
find_path(LIBFABRIC_HEADERS rdma/fi_domain.h)
find_library(LIBFABRIC fabric)
if(LIBFABRIC_HEADERS AND LIBFABRIC)
  rdm_program(ucx_ofi ${RDMALLOC_UCP} ${RDMALLOC_UCS} ${LIBFABRIC})
  set(run -- $<TARGET_FILE:integration_ucx_ofi>)
  rdm_test("ucx: a UCP context and libfabric have each region registered once, both" LABELS ucx memlock
    COMMAND ${ucx_case} --library ${ucx_libraries} --at-once ${ucx_shared_memory} ${run})
  rdm_test("control: ucx, without the shim libfabric alone has it" LABELS ucx
    COMMAND ${ucx_case} --library $<TARGET_FILE:rdmalloc> --expect 1 --says "both: .* in 1 domains" ${ucx_shared_memory} ${run})
endif()
