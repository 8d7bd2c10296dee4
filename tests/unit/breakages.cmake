# A test of the tests: the library is broken on purpose in one way at a time, and a named test must
# then fail, at a named check. allocator/breakage.h has the switch, tests/README.md the table.

# Links NAME_test.cpp's program again, with the core's breakable files.
function(rdmalloc_broken_program name)
  add_executable(broken_${name} $<TARGET_OBJECTS:unit_${name}>
    $<FILTER:$<TARGET_OBJECTS:rdmalloc_core_for_tests>,EXCLUDE,${RDMALLOC_BREAKABLE_OBJECTS}>)
  target_link_libraries(broken_${name} PRIVATE rdmalloc_broken_for_tests rdmalloc_fake_os
    Threads::Threads rdmalloc_catch)
  add_dependencies(unit_tests broken_${name})
endfunction()

# rdmalloc_breakage(NAME "what is broken" PROGRAM name TEST "name of the test" CHECK "what fails"):
# CHECK is part of what Catch prints on the failure, or "died" if the process dies.
set(breakages)
function(rdmalloc_breakage name what)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "PROGRAM;TEST;CHECK" "")
  if(NOT TARGET broken_${arg_PROGRAM})
    rdmalloc_broken_program(${arg_PROGRAM})
  endif()
  rdmalloc_test("a test fails when ${what}" LABELS unit
    COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/breakage_test.sh
      $<TARGET_FILE:broken_${arg_PROGRAM}> ${name} ${arg_TEST} ${arg_CHECK})
  set(breakages ${breakages} ${name} PARENT_SCOPE)
endfunction()

rdmalloc_breakage(handed_out_twice "an address is handed out twice"
  PROGRAM large_blocks_test TEST "a block is freed once, by its start"
  CHECK "validate() failed")
rdmalloc_breakage(block_is_short "a block has a page less than was asked for"
  PROGRAM large_blocks_test TEST "what is zeroed is zero, from the cache, from a depot, and partly new"
  CHECK "fake::reads_zero(block, size)")
rdmalloc_breakage(reused_is_not_zeroed "memory that is used again passes for zero"
  PROGRAM heap_test TEST "reused memory is not reported as zero, and is zeroed when asked"
  CHECK "CHECK_FALSE( zero )")
rdmalloc_breakage(pin_is_skipped "a pinned region is not locked"
  PROGRAM heap_test TEST "the first region is small, and pinned in full"
  CHECK "fake::locked() == 128 * kKiB")
rdmalloc_breakage(budget_is_not_charged "what is pinned is not charged to the budget"
  PROGRAM budget_test TEST "what must be pinned is refused where other memory overflows"
  CHECK "budget.ask_pinned(kPage, kPage).bytes == 0")
rdmalloc_breakage(freed_block_is_known "an exposed block is still known when it is freed"
  PROGRAM exposed_test
  TEST "an exposed extent is released once, by its start, and through its own door"
  CHECK "CHECK_FALSE( tested->blocks().release(got) )")
rdmalloc_breakage(retired_page_is_found "a page that moved away is not retired"
  PROGRAM large_blocks_test
  TEST "a block that grows by moving has its bytes, and its old addresses are retired"
  CHECK "f.tested.is_retired(f.block, f.old_size)")
rdmalloc_breakage(fork_handler_is_missed "the child of a fork tells no observer"
  PROGRAM observer_test TEST "observers hear of a fork in the child, and not in the parent"
  CHECK "observer.forks == 1")
rdmalloc_breakage(first_region_is_not_replayed "a late observer is not told of the first region"
  PROGRAM observer_test
  TEST "a late observer is told of every region there is, in order, and then of new ones"
  CHECK "late.seen == all_regions(tested)")
rdmalloc_breakage(stale_entry_stays "changed memory stays in the foreign cache"
  PROGRAM foreign_cache_test TEST "a change ends what is registered of it, and of nothing else"
  CHECK "!f.is_registered(before)")
rdmalloc_breakage(deregistration_is_lost "a deregistration does not come to the device"
  PROGRAM domain_test TEST "several domains register each region once"
  CHECK "backends[1].registered().empty()")
rdmalloc_breakage(lookup_answers_beyond "a lookup answers for a byte beyond the registration"
  PROGRAM domain_test TEST "an alignment above a page leaves a region's tail out"
  CHECK "domain->lookup(at(large), kMiB + 1, &mr) == RDM_NOT_REGISTERED")
rdmalloc_breakage(used_key_is_given_back "a key is given back that somebody uses"
  PROGRAM domain_idle_test TEST "registrations whose key nobody has are given back, and the rest stays"
  CHECK "is_good(of_first)")
rdmalloc_breakage(destroyed_buffer_has_key "a pool does not notice a destroyed buffer"
  PROGRAM pool_holes_test
  TEST "a buffer that the program destroyed has no key, and all others have"
  CHECK "has_key(pool, all[i]) == (i != 5 && i != 9)")

# Nothing installed contains a breakage, and README.md's table is complete.
list(JOIN breakages " " breakages)
rdmalloc_test("an installed build has no breakage, and each breakage has its test"
  LABELS unit TIMEOUT 60
  COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/breakages_test.sh ${PROJECT_SOURCE_DIR}
    $<TARGET_FILE:broken_domain_test> $<TARGET_FILE:rdmalloc> ${breakages})
