# Compares what `rdmalloc trace record` leaves of a program with the program's own account.
rdm_program(trace_witness)
rdm_test("the recorder exports what it says and needs no libstdc++"
  COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/exports.sh $<TARGET_FILE:rdmalloc_trace_recorder>
          ${PROJECT_SOURCE_DIR}/allocator/trace/trace.map)
rdm_test("operator new throws in a C++ plugin of a C program that is recorded"
  COMMAND $<TARGET_FILE:rdmalloc_cli> trace record -o ${CMAKE_CURRENT_BINARY_DIR}/plugin.rdtrace
          -- $<TARGET_FILE:integration_plugin_host> $<TARGET_FILE:integration_plugin>)
function(record_case name sentence)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "UNDER" "LABELS")
  rdm_test("${sentence}" LABELS ${arg_LABELS} COMMAND ${RDMALLOC_SYSTEM_PYTHON} -B
    ${CMAKE_CURRENT_LIST_DIR}/trace_record_test.py $<TARGET_FILE:rdmalloc_cli>
    $<TARGET_FILE:integration_trace_witness> ${name} ${arg_UNDER})
endfunction()
if(RDMALLOC_SYSTEM_PYTHON)
  foreach(allocator glibc jemalloc mimalloc tcmalloc rdmalloc)
    record_case(storm "every call of four threads over ${allocator} is in the trace, in a possible order"
      UNDER ${allocator})
  endforeach()
  foreach(allocator glibc rdmalloc)
    record_case(one_thread "every call of one thread over ${allocator} is in the trace" UNDER ${allocator})
    record_case(threads "what short threads over ${allocator} allocate is in the trace" UNDER ${allocator})
    record_case(odd "empty, refused and vanishing allocations over ${allocator} are recorded as what they are"
      UNDER ${allocator})
    record_case(late "what destructors do after main over ${allocator} is in the trace" UNDER ${allocator})
    record_case(struck "nothing is missing of a program over ${allocator} that a signal ends" UNDER ${allocator})
    record_case(forked "a child of fork over ${allocator} has a trace of its own" UNDER ${allocator})
    record_case(execed "a program over ${allocator} that execs another leaves both traces" UNDER ${allocator})
  endforeach()
  record_case(foreign "control: frees of what was never allocated are counted and left out")
  record_case(unsteady "what short threads allocate is in the trace where the processor's counter is not steady")
  record_case(limit "recording stops at its limit, and the program goes on")
  record_case(full_disk "recording stops when the disk is full, and the program goes on" LABELS root)
  record_case(file_limit "recording stops at the limit on the size of files, and no signal comes")
  record_case(address_space "a small address space is enough to be recorded in")
  record_case(refused "trace record refuses with a sentence what it cannot do")
  record_case(named "trace record packs the process of the name that it is given")
  record_case(overhead "trace record says what recording cost")
  record_case(real "python3, sqlite3, a compiler and redis-server do the same when recorded" LABELS real)
endif()
