# Segments of shared memory between real processes: more ranks than processors, killed ranks, a full
# /dev/shm. They run with the stock malloc, because librdmalloc-shm.so needs nothing else of ours;
# one test also runs under the library.
foreach(program ranks deaths space hwloc)
  rdm_program(shm_${program} rdmalloc_shm)
endforeach()
find_package(PkgConfig REQUIRED)
pkg_check_modules(HWLOC REQUIRED IMPORTED_TARGET hwloc)
target_link_libraries(integration_shm_hwloc PRIVATE PkgConfig::HWLOC)

# shm_case(PROGRAM "sentence" [LABELS ...] [OPTIONS of case.sh ...] ARGUMENTS ...)
function(shm_case program sentence)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "ARGUMENTS;LABELS;OPTIONS")
  rdm_test("shm: ${sentence}" LABELS ${arg_LABELS} COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/case.sh
    ${arg_OPTIONS} -- $<TARGET_FILE:integration_shm_${program}> ${arg_ARGUMENTS})
endfunction()

# layout, ranks, messages from each to each, threads per rank
foreach(layout page cacheline aggregated mpsc)
  foreach(ranks 2 3 16)
    shm_case(ranks "${ranks} ranks send to all others, over ${layout}"
      ARGUMENTS ${layout} ${ranks} 1000 1)
  endforeach()
  shm_case(ranks "5 ranks of 3 threads send to all others, over ${layout}"
    ARGUMENTS ${layout} 5 1000 3)
  shm_case(ranks "16 ranks of 3 threads send to all others for long, over ${layout}" LABELS long
    ARGUMENTS ${layout} 16 20000 3)
  # ... and a seed: the smallest queues, lists and boxes, and odd limits
  foreach(seed 1 2)
    shm_case(ranks "5 ranks send through next to no room, over ${layout}, seed ${seed}"
      ARGUMENTS ${layout} 5 500 ${seed} ${seed})
  endforeach()
  foreach(seed RANGE 3 14)
    math(EXPR threads "1 + ${seed} % 3")
    math(EXPR ranks "2 + ${seed} % 7")
    set(sentence "${ranks} ranks send through next to no room for long, over ${layout}")
    shm_case(ranks "${sentence}, seed ${seed}" LABELS long
      ARGUMENTS ${layout} ${ranks} 5000 ${threads} ${seed})
  endforeach()
  # ranks, rounds, seed
  shm_case(deaths "when any rank is killed, the others are told and nothing stays, over ${layout}"
    ARGUMENTS killed ${layout} 4 4 1)
  shm_case(deaths "of many that are killed, the others are always told, over ${layout}" LABELS long
    ARGUMENTS killed ${layout} 6 60 2)
  shm_case(deaths "a sleeping rank is told of a death, over ${layout}" ARGUMENTS asleep ${layout})
  shm_case(deaths "a rank that sends and never waits is told of a death, over ${layout}"
    ARGUMENTS pushing ${layout})
  shm_case(deaths "control: where no rank is killed, none is told, over ${layout}"
    ARGUMENTS nobody ${layout})
endforeach()
shm_case(deaths "the name of a creator that died alone can be removed, or taken over"
  ARGUMENTS alone)
shm_case(ranks "an ordinary user's ranks send to all others" LABELS root OPTIONS --user
  ARGUMENTS aggregated 4 1000 1)
shm_case(ranks "ranks send to all others with the library preloaded"
  OPTIONS --library $<TARGET_FILE:rdmalloc> ARGUMENTS mpsc 4 1000 1)
shm_case(space "a segment that cannot fit is refused, with what to do" LABELS root ARGUMENTS small)
shm_case(space "space that is gone when one rank needs it makes all fail, and none dies"
  LABELS root ARGUMENTS late)
shm_case(space "nobody attaches to another user's segment" LABELS root ARGUMENTS owner)

shm_case(space "one rank that cannot map a segment makes all ranks fail" ARGUMENTS mapping)
shm_case(space "one rank whose malloc fails makes all ranks fail" ARGUMENTS memory)
shm_case(space "a limit of file sizes is a status, not a signal" ARGUMENTS file_size)
shm_case(hwloc "a rank's part is bound to its node, through hwloc" ARGUMENTS bound)
shm_case(hwloc "control: a rank that asks not to be bound is not" ARGUMENTS unbound)
shm_case(hwloc "nothing is bound where there is one node" ARGUMENTS one_node)
shm_case(hwloc "ranks are told of a creator that was killed before its part was there"
  ARGUMENTS unfinished)

# The same ranks, started by the MPIs' launchers.
set(openmpi_options --allow-run-as-root --oversubscribe)
foreach(mpi openmpi mpich)
  rdmalloc_find_mpi(${mpi})
  if(why_no_${mpi})
    rdmalloc_not_built("the tests of shared memory under ${mpi}" integration,mpi "${why_no_${mpi}}")
    continue()
  endif()
  foreach(layout aggregated mpsc)
    string(JOIN " " command exec ${MPIRUN_${mpi}} ${${mpi}_options} -n 4
      $<TARGET_FILE:integration_shm_ranks> mpi rdmalloc-test-$$ ${layout} 1000)
    rdm_test("shm: ranks that mpirun.${mpi} starts send to all others, over ${layout}" LABELS mpi
      COMMAND sh -c ${command})
  endforeach()
endforeach()
