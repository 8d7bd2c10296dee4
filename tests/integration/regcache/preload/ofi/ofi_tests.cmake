# The libfabric backend and its monitor over the real libfabric, by providers that need no device.
if(NOT RDMALLOC_OFI_HEADERS)
  rdmalloc_not_built("the tests with libfabric" integration,libfabric
    "no libfabric-dev: type: sh cmake/bootstrap.sh test")
  return()
endif()
find_library(LIBFABRIC fabric)
if(LIBFABRIC)
  rdm_program(ofi_real ${LIBFABRIC})
  rdm_program(ofi_stale ${LIBFABRIC})  # for the guest, too
  foreach(provider "sockets 127.0.0.1" "shm -" "tcp 127.0.0.1")
    separate_arguments(provider)
    list(GET provider 0 name)
    rdm_case("ofi: peers write by the key of a lookup, and only where they may, over ${name}"
      PROGRAM ofi_real ARGUMENTS ${provider} LABELS memlock)
  endforeach()
  rdm_case("ofi: where the domain's callers choose keys, a lookup's are right"
    PROGRAM ofi_real ARGUMENTS tcp 127.0.0.1 keys
    CONTROL "ofi: without the library nobody registers the heap"
    SAYS "nobody registers the heap" LABELS memlock)
  rdm_case("ofi: an ordinary user's heap is registered where nothing is pinned for it"
    PROGRAM ofi_real ARGUMENTS tcp 127.0.0.1 heap LIMITS --user --memlock 8192 LABELS root)
endif()
rdm_program(ofi_monitor)
rdm_case("ofi: our memory monitor is imported once, and no other after it"
  PROGRAM ofi_monitor ARGUMENTS first
  CONTROL "ofi: without the library there is no monitor to import"
  SAYS "there is no monitor to import")
rdm_case("ofi: a memory monitor that was imported before ours is told"
  PROGRAM ofi_monitor ARGUMENTS second)
rdm_case("ofi: the user's choice of a memory monitor counts, and is told"
  PROGRAM ofi_monitor ARGUMENTS chosen LIMITS FI_MR_CACHE_MONITOR=memhooks)

# The shim, over a fake libfabric that caches registrations as the real one does for devices.
add_library(fake_libfabric SHARED ${CMAKE_CURRENT_LIST_DIR}/ofi_fake_libfabric.cpp)
target_link_libraries(fake_libfabric PRIVATE rdmalloc_flags)
set_target_properties(fake_libfabric PROPERTIES
  OUTPUT_NAME fabric VERSION 1 SOVERSION 1
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/fake_ofi
  LINK_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/ofi_fake_libfabric.map)
target_link_options(fake_libfabric PRIVATE
  -Wl,--version-script=${CMAKE_CURRENT_LIST_DIR}/ofi_fake_libfabric.map)
rdmalloc_found_first(fake_libfabric)
foreach(program ofi_shim ofi_lives)
  rdm_program(${program} fake_libfabric)
  add_dependencies(integration_${program} rdmalloc_ofi)
endforeach()

# ofi_case(PROGRAM CASE "sentence" [CONTROL "regex"] [OPTIONS ...] [LABELS ...]): the control is the
# same program under the library alone; it must exit with status 1 and print a match.
function(ofi_case program name sentence)
  cmake_parse_arguments(PARSE_ARGV 3 arg "" "CONTROL" "OPTIONS;LABELS")
  set(case sh ${CMAKE_CURRENT_SOURCE_DIR}/case.sh)
  set(run -- $<TARGET_FILE:integration_${program}> ${name})
  rdm_test("ofi: ${sentence}" LABELS ${arg_LABELS} COMMAND ${case}
    --library "$<TARGET_FILE:rdmalloc>:$<TARGET_FILE:rdmalloc_ofi>" ${arg_OPTIONS} ${run})
  if(arg_CONTROL)
    rdm_test("control: ofi, without the shim not: ${sentence}" LABELS ${arg_LABELS} COMMAND ${case}
      --library $<TARGET_FILE:rdmalloc> --expect 1 --says "${arg_CONTROL}" ${run})
  endif()
endfunction()

ofi_case(ofi_shim steady "thousands of messages cost a few registrations under the shim"
  CONTROL "^20000 registrations" OPTIONS --only-lines 0 LABELS memlock)
ofi_case(ofi_shim retired
  "a region that lost pages serves messages without another registration, and none where those pages were"
  CONTROL "lost pages were registered" LABELS memlock)
ofi_case(ofi_shim replaced "what the program maps over pages of a block is registered anew" LABELS memlock)
ofi_case(ofi_shim foreign "other memory is registered once under the shim, and anew when it changed"
  CONTROL "^1000 registrations of unchanged memory" LABELS memlock_8M)
ofi_case(ofi_shim economy "neither a trial nor a provider's own pools cost a registration more")
foreach(monitor interposed userfaultfd)
  ofi_case(ofi_shim foreign "other memory is registered anew when it changed, monitor ${monitor}"
    OPTIONS RDMALLOC_MONITOR=${monitor} LABELS memlock_8M)
endforeach()
ofi_case(ofi_shim unwatched "other memory is registered for each use where no monitor watches"
  OPTIONS RDMALLOC_MONITOR=none)
ofi_case(ofi_shim two_caches "of two caches that know the same memory none is stale"
  CONTROL "^2 registrations in the long run" LABELS memlock_8M)
foreach(case foreign two_caches)
  ofi_case(ofi_shim ${case} "a libfabric that does not unsubscribe is served as well: ${case}"
    OPTIONS FAKE_OFI_OLD=1 LABELS memlock_8M)
endforeach()
ofi_case(ofi_shim threads "threads register, change memory and open domains at the same time")
foreach(model domain completion)
  string(TOUPPER ${model} name)
  ofi_case(ofi_shim thread_${model}
    "a domain of FI_THREAD_${name} is called in the threads that the program calls it in, not in ours" LABELS memlock)
endforeach()
ofi_case(ofi_lives domains_end "domains end as they would, and leave nothing registered")
ofi_case(ofi_lives busy "a domain that is in use is busy, and works on")
ofi_case(ofi_lives by_hand "a domain of libfabric may be attached by hand as well, and closed too early" LABELS memlock)
ofi_case(ofi_lives another_monitor "a memory monitor of the program's own comes second"
  CONTROL "there was none before" LABELS memlock_8M)
ofi_case(ofi_shim copying "providers that copy are left alone")
ofi_case(ofi_lives forks "children may close what their parent opened, which goes on" LABELS memlock_8M)
ofi_case(ofi_lives old_interface "callers of the older interface reach it")
ofi_case(ofi_lives domains_end "where the user chose a memory monitor, all is left to libfabric, and told once"
  OPTIONS FI_MR_CACHE_MONITOR=memhooks --lines 1 "FI_MR_CACHE_MONITOR=memhooks" --only-lines 1 LABELS memlock)
