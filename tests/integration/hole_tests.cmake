# A program destroys malloc'd pages that a device has registered, or revokes its access to them.
if(NOT LIBURING)
  rdmalloc_not_built("the tests of holes in the heap" integration,io_uring "${no_liburing}")
  return()
endif()

rdm_program(holes ${LIBURING})
set(sentence "rdmalloc: the program's .* has unmapped or replaced")
foreach(way anonymous file munmap mremap shm number)
  rdm_case("no lookup finds malloc'd pages that the program destroyed by ${way}, and all others stay"
    PROGRAM holes ARGUMENTS ${way} LIMITS --lines 1 ${sentence} LABELS memlock
    CONTROL "a cache beside stock malloc answers with pages that were destroyed by ${way}"
    SAYS "of pages that are gone|with unmapped pages have a key")
  rdm_case("pages destroyed by ${way} are never gathered"
    PROGRAM holes ARGUMENTS ${way} LIMITS RDMALLOC_GATHER=always LABELS memlock)
endforeach()
rdm_case("RDMALLOC_WARN=off silences the warning about destroyed pages"
  PROGRAM holes ARGUMENTS munmap LIMITS RDMALLOC_WARN=off --only-lines 0 LABELS memlock)
foreach(when before after)
  rdm_case("all but guard pages is registered with a domain opened ${when} them, and they are freed shut"
    PROGRAM holes ARGUMENTS stacks ${when} LABELS memlock
    CONTROL "stock malloc returns guard pages that were freed shut, ${when} the domain"
    SAYS "malloc returned memory that may not be written to")
endforeach()
foreach(way RDMALLOC_GATHER=auto RDMALLOC_GATHER=always RDMALLOC_POPULATE=touch)
  rdm_case("no byte is stale however threads unmap, replace and protect malloc'd memory, with ${way}"
    PROGRAM holes ARGUMENTS churn 20000 LIMITS ${way} LABELS memlock)
endforeach()
rdm_test("control: beside stock malloc threads that replace malloc'd memory see stale bytes"
  COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/case.sh --expect 1 --says "the peer gets other bytes than the program wrote"
    -- $<TARGET_FILE:integration_holes> churn 20000)
rdm_case("calls that change nothing of malloc'd pages lose nothing"
  PROGRAM holes ARGUMENTS nothing LIMITS --only-lines 0 LABELS memlock)
