# What a process does besides allocating: fork, exec, C++, and what an allocator must leave alone.

rdm_case("a forked child has its heap, the parent its pins, and both books are right"
  PROGRAM fork_heap)
rdm_case("a forked child's books are right for an ordinary user"
  PROGRAM fork_heap LIMITS --user --memlock 8192 LABELS root)
foreach(way ${page_ways})
  rdm_case("a forked child has its heap, the parent its pins, with ${way}"
    PROGRAM fork_heap LIMITS ${way})
  rdm_case("forks neither hang nor crash with ${way}"
    PROGRAM fork_storm ARGUMENTS 2 LIMITS ${way})
endforeach()
rdm_case("fork, system, popen, posix_spawn and vfork from 8 threads neither hang nor crash"
  PROGRAM fork_storm ARGUMENTS 5)
rdm_case("forks neither hang nor crash with the engine's background threads"
  PROGRAM fork_storm ARGUMENTS 3 LIMITS MALLOC_CONF=background_thread:true)
rdm_case("forks neither hang nor crash beyond the budget"
  PROGRAM fork_storm ARGUMENTS 3 LIMITS --user --memlock 64 LABELS root)
# The program plays an old or new kernel (personality), without RDMA drivers, whose answer would count.
set(fork_sentence "fork takes registered memory from this process")
rdm_case("where a fork takes registered pages from their process, the first domain says so, once"
  PROGRAM fork_warning ARGUMENTS old LIMITS --lines 1 ${fork_sentence})
rdm_case("control: where a fork copies registered pages there is no warning"
  PROGRAM fork_warning ARGUMENTS new LIMITS --lines 0 ${fork_sentence})
foreach(how released on-demand)
  rdm_case("where a fork takes pages a domain that does not suffer by it gives no warning: ${how}"
    PROGRAM fork_warning ARGUMENTS ${how} LIMITS --lines 0 ${fork_sentence})
endforeach()
rdm_case("where a fork takes registered pages RDMALLOC_WARN=off silences the warning"
  PROGRAM fork_warning ARGUMENTS old LIMITS RDMALLOC_WARN=off --lines 0 ${fork_sentence})
if(RDMALLOC_SYSTEM_PYTHON)
  rdm_test("Python's multiprocessing works"
    COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/case.sh --library $<TARGET_FILE:rdmalloc>
            -- ${RDMALLOC_SYSTEM_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/multiprocessing_test.py)
endif()

rdm_case("operator new throws, and calls the handler, as the standard says"
  PROGRAM bad_alloc)
add_library(integration_plugin MODULE plugin.cpp)
target_link_libraries(integration_plugin PRIVATE rdmalloc_flags dl)
target_compile_options(integration_plugin PRIVATE -fno-builtin)
add_executable(integration_plugin_host plugin_host.c)
target_link_libraries(integration_plugin_host PRIVATE rdmalloc_flags dl)
rdm_test("operator new throws in a C++ plugin of a C program"
  COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/case.sh --library $<TARGET_FILE:rdmalloc>
          -- $<TARGET_FILE:integration_plugin_host> $<TARGET_FILE:integration_plugin>)
# Before glibc 2.34. bad_alloc looks functions up at its end, too.
add_library(integration_old_dlsym MODULE old_dlsym.c)
target_link_libraries(integration_old_dlsym PRIVATE rdmalloc_flags)
target_compile_options(integration_old_dlsym PRIVATE -fno-builtin)
rdm_case("malloc starts, and operator new throws, where dlsym() mallocs"
  PROGRAM bad_alloc LIMITS --library $<TARGET_FILE:rdmalloc>:$<TARGET_FILE:integration_old_dlsym> TIMEOUT 60)

rdm_case("libc's code stays as its file has it"
  PROGRAM hygiene ARGUMENTS libc)
rdm_case("control: changed code of libc is noticed"
  PROGRAM hygiene ARGUMENTS patched LIMITS --expect 1 --says "code differs")
rdm_case("kernel mappings grow with regions, not with buffers"
  PROGRAM hygiene ARGUMENTS vmas
  CONTROL "with stock malloc every large buffer is a mapping" SAYS "^2000 new mappings$")
rdm_case("what another malloc gave may be freed, resized and measured"
  PROGRAM hygiene ARGUMENTS foreign)
rdm_case("a process that holds a gigabyte exits without delay"
  PROGRAM hygiene ARGUMENTS exit)
rdm_case("dlopen finds the library where it has been from the start"
  PROGRAM hygiene ARGUMENTS late $<TARGET_FILE:rdmalloc>)
rdm_test("control: dlopen of the library fails where it has not, for want of static TLS"
  COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/case.sh --expect 1 --says "static TLS"
    -- $<TARGET_FILE:integration_hygiene> late $<TARGET_FILE:rdmalloc>)
rdm_test("the library exports what it says and needs no libstdc++"
  COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/exports.sh $<TARGET_FILE:rdmalloc>
          ${CMAKE_CURRENT_SOURCE_DIR}/../../allocator/exports.map)

# Programs that share the machine's limit.
function(node_case script name sentence)
  rdm_test("${sentence}" LABELS ${ARGN} COMMAND ${RDMALLOC_SYSTEM_PYTHON} -B
    ${CMAKE_CURRENT_SOURCE_DIR}/${script}_test.py $<TARGET_FILE:rdmalloc_cli> ${name})
endfunction()
if(RDMALLOC_SYSTEM_PYTHON)
  node_case(node_cap sum
    "programs together lock no more than the machine's limit, and are told who holds it" memlock)
  node_case(node_cap control "control: without a limit for the machine the same programs exceed it" memlock)
  node_case(node_cap killed "the share of a program that was killed goes to the next" memlock)
  node_case(node_cap damaged "a damaged ledger gives a sentence, and the program runs on" memlock)
  node_case(node_cap foreign "another user's ledger gives a sentence, and the program runs on" root)
  node_case(reserve had "a program has its reserve pinned before main" memlock)
  node_case(reserve control "control: without a reserve it has less")
  node_case(reserve refused "a reserve beyond the memlock limit ends the program with a sentence" root)
  node_case(reserve node "a reserve that another process has already names that process" memlock)
  node_case(counters phases "a program's phases are in its report, each with its own peaks")
  node_case(counters children "a forked child and an executed program have counter pages of their own")
  node_case(counters descriptors
    "the counter page's descriptor is out of the program's way, and the program may close it")
  node_case(counters small "a small process without a phase has no descriptor of ours")
  node_case(counters off "where no counters are wanted there is no descriptor")
  node_case(counters control "control: without us there is no counter page")
endif()

rdm_case("while a thread mallocs and touches a gigabyte, mmap, malloc and fork of others finish"
  PROGRAM stalls ARGUMENTS 1024 3)
rdm_case("while a thread mallocs and touches a gigabyte beyond the memlock limit, others finish"
  PROGRAM stalls ARGUMENTS 1024 3 LIMITS --user --memlock 8192 LABELS root)
rdm_case("control: others that wait for the gigabyte are noticed"
  PROGRAM stalls ARGUMENTS 1024 1 stall LIMITS --expect 1 --says "mmap took .* s while the block grew")

# What debuggers write of a process: people dump hanging ranks.
function(core_case sentence how)
  rdm_test("${sentence}" COMMAND ${RDMALLOC_SYSTEM_PYTHON} -B
    ${CMAKE_CURRENT_SOURCE_DIR}/core_test.py ${how} $<TARGET_FILE:integration_dumped> ${ARGN})
endfunction()
if(RDMALLOC_SYSTEM_PYTHON)
  core_case("gdb writes a small core of a process, with all that is live"
    gdb --library $<TARGET_FILE:rdmalloc>)
  core_case("gcore writes a small core of a process that pins nothing, with all that is live"
    gcore --library $<TARGET_FILE:rdmalloc> RDMALLOC_CAP=0 RDMALLOC_WARN=off)
  core_case("control: with stock malloc the core is small" gdb)
  core_case("control: reserved addresses that debuggers are told to leave out are not in the core"
    gdb excluded)
  set(sentence "control: reserved addresses as they come are in the core")
  core_case("${sentence}" gdb reserve)
  set_tests_properties("${sentence}" PROPERTIES PASS_REGULAR_EXPRESSION "the core is above")
  set(sentence "control: live memory that debuggers are told to leave out is missed")
  core_case("${sentence}" gdb lost)
  set_tests_properties("${sentence}" PROPERTIES PASS_REGULAR_EXPRESSION "and the process 'marker of aligned")
endif()
