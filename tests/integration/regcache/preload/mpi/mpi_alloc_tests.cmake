# MPI_Alloc_mem from window memory, under each installed MPI: through the shim, and through Open
# MPI's component. Singletons, except where a window takes two ranks.
set(mpi_programs)

# mpi_build(MPI OUTPUT WRAPPER ARGUMENTS ...): from sources of this folder, and objects made before,
# by the MPI's own compiler.
function(mpi_build mpi output wrapper)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/${mpi})
  file(MAKE_DIRECTORY ${folder})
  set(arguments ${ARGN})
  list(TRANSFORM arguments PREPEND ${CMAKE_CURRENT_LIST_DIR}/ REGEX "[.](cpp|f90)$")
  list(TRANSFORM arguments PREPEND ${folder}/ REGEX "[.]o$")
  set(inputs ${arguments})
  list(FILTER inputs INCLUDE REGEX "[.](cpp|f90|o)$")
  add_custom_command(OUTPUT ${folder}/${output}
    COMMAND ${wrapper} -g -O1 -o ${folder}/${output} ${arguments}
    WORKING_DIRECTORY ${folder} VERBATIM
    DEPENDS ${inputs} ${CMAKE_CURRENT_SOURCE_DIR}/probe.h
            ${CMAKE_CURRENT_LIST_DIR}/mpi_alloc_memory.h)
  set(mpi_programs ${mpi_programs} ${folder}/${output} PARENT_SCOPE)
endfunction()

set(case sh ${CMAKE_CURRENT_SOURCE_DIR}/case.sh)
set(preloaded "$<TARGET_FILE:rdmalloc>:$<TARGET_FILE:rdmalloc_mpi>")
set(shim --library "${preloaded}")
set(cxx_flags -std=c++20 -Wall -Wextra -Werror -fno-builtin -I${PROJECT_SOURCE_DIR}
  -DOMPI_SKIP_MPICXX -DMPICH_SKIP_MPICXX)

# mpi_case(CASE "sentence" [MPI name] [CONTROL "sentence" SAYS "regex"] [RANKS n] [OPTIONS ...]
#          [CONTROL_OPTIONS ...]): one case of mpi_alloc.cpp, under one MPI or all.
function(mpi_case name sentence)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "MPI;CONTROL;SAYS;RANKS" "OPTIONS;CONTROL_OPTIONS;LABELS")
  if(NOT arg_CONTROL_OPTIONS)
    set(arg_CONTROL_OPTIONS --expect 1)
  endif()
  if(arg_SAYS)
    list(APPEND arg_CONTROL_OPTIONS --says "${arg_SAYS}")
  endif()
  foreach(mpi ${mpis})
    if(arg_MPI AND NOT arg_MPI STREQUAL mpi)
      continue()
    endif()
    set(run -- ${CMAKE_CURRENT_BINARY_DIR}/${mpi}/mpi_alloc ${name})
    set(start)
    if(arg_RANKS)
      set(start ${mpirun_${mpi}} -n ${arg_RANKS})
    endif()
    rdm_test("${mpi}: ${sentence}" LABELS mpi ${arg_LABELS}
      COMMAND ${start} ${case} ${shim} ${arg_OPTIONS} ${run})
    if(arg_CONTROL)
      rdm_test("control: ${mpi}: ${arg_CONTROL}" LABELS mpi ${arg_LABELS}
        COMMAND ${start} ${case} ${arg_CONTROL_OPTIONS} ${run})
    endif()
  endforeach()
endfunction()

set(mpis)
foreach(mpi openmpi mpich)
  rdmalloc_find_mpi(${mpi})
  if(why_no_${mpi})
    rdmalloc_not_built("the tests of MPI_Alloc_mem under ${mpi}" integration,mpi "${why_no_${mpi}}")
    continue()
  endif()
  list(APPEND mpis ${mpi})
  set(mpirun_${mpi} ${MPIRUN_${mpi}})
  mpi_build(${mpi} mpi_alloc ${MPICXX_${mpi}} ${cxx_flags} -rdynamic
    mpi_alloc.cpp mpi_alloc_count.cpp -ldl -lpthread)
  mpi_build(${mpi} mpi_alloc_plugin.so ${MPICXX_${mpi}} ${cxx_flags} -shared -fPIC -DPLUGIN
    mpi_alloc.cpp)
endforeach()
list(APPEND mpirun_openmpi --allow-run-as-root --oversubscribe)
add_executable(integration_mpi_alloc_host ${CMAKE_CURRENT_LIST_DIR}/mpi_alloc_host.cpp ${CMAKE_CURRENT_LIST_DIR}/mpi_alloc_count.cpp)
target_link_libraries(integration_mpi_alloc_host PRIVATE rdmalloc_flags ${CMAKE_DL_LIBS})
set_target_properties(integration_mpi_alloc_host PROPERTIES ENABLE_EXPORTS ON
  RUNTIME_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})

mpi_case(flat "MPI_Alloc_mem in a loop needs no more memory than one round"
  CONTROL "without the shim MPI_Alloc_mem does not come to rdmalloc"
  SAYS "no memory came from rdmalloc")
mpi_case(leaky "control: a loop that keeps some of its memory is noticed"
  OPTIONS --expect 1 --says "resident memory grew by")
mpi_case(registered "what MPI_Alloc_mem gives is looked up registered"
  CONTROL "without us it is registered nowhere" SAYS "there is no domain" LABELS memlock)
mpi_case(hints "MPI_Alloc_mem keeps alignment, exposes on demand and ignores unknown keys"
  CONTROL "without the shim nothing is exposed" SAYS "^not exposed"
  CONTROL_OPTIONS --library $<TARGET_FILE:rdmalloc> --expect 1 LABELS memlock)
mpi_case(nonsense "an alignment that is none is ignored")
mpi_case(exposed_by_default "MPI_Alloc_mem's memory is exposed by a setting"
  OPTIONS RDMALLOC_MPI_EXPOSED=on --only-lines 0 LABELS memlock)
mpi_case(unexposed "what cannot be exposed is ordinary memory, and that is said once"
  OPTIONS RDMALLOC_MPI_EXPOSED=on RDMALLOC_CAP=0 --lines 1 "that was to be exposed is ordinary")
mpi_case(mixed "each block goes back to its allocator, whatever the call's name")
mpi_case(errors "a failed allocation is an error of the right class")
mpi_case(errors "control: without us MPICH reports success without memory" MPI mpich
  OPTIONS --library $<TARGET_FILE:rdmalloc> --expect 1 --says "bytes: error class 0")
mpi_case(fatal "a failed allocation ends a program that handles no errors" MPI openmpi
  OPTIONS --expect 39 --lines 1 "MPI_ERR_NO_MEM")
mpi_case(fatal "a failed allocation ends a program that handles no errors" MPI mpich
  OPTIONS --expect 34 --lines 1 "Unable to allocate memory")
mpi_case(threads "threads allocate and free at the same time")
mpi_case(callback "memory may be freed and allocated while MPI_Finalize runs")
mpi_case(window_ours "MPI_Win_allocate takes memory of the window on demand" RANKS 2
  OPTIONS RDMALLOC_MPI_WIN_ALLOCATE=on)
mpi_case(window_theirs "MPI_Win_allocate is left alone unless asked for" RANKS 2)
mpi_case(window_alone "a window of one rank has memory of the window, on demand"
  OPTIONS RDMALLOC_MPI_WIN_ALLOCATE=on CONTROL "without us its memory is elsewhere"
  SAYS "memory from elsewhere")
mpi_case(window_refused "a rank without memory for a window stops all ranks' windows" RANKS 2
  OPTIONS RDMALLOC_MPI_WIN_ALLOCATE=on)

# Misuse is reported as the MPI itself reports it.
foreach(when before_init after_finalize)
  string(REPLACE "_i" " MPI_I" sentence ${when})
  string(REPLACE "_f" " MPI_F" sentence ${sentence})
  set(status_openmpi_before_init 1)
  set(status_openmpi_after_finalize 0)
  set(status_mpich_before_init 1)
  set(status_mpich_after_finalize 1)
  set(said_openmpi_before_init --lines 1 "was called before MPI_INIT")
  set(said_openmpi_after_finalize)
  set(said_mpich_before_init --lines 1 "before initializing or after finalizing")
  set(said_mpich_after_finalize ${said_mpich_before_init})
  foreach(mpi ${mpis})
    set(end --expect ${status_${mpi}_${when}} ${said_${mpi}_${when}})
    mpi_case(${when} "a call ${sentence} ends as it does without us" MPI ${mpi} OPTIONS ${end}
      CONTROL "what a call ${sentence} ends as" CONTROL_OPTIONS ${end})
  endforeach()
endforeach()

# A tool whose functions come after the shim's.
add_library(integration_mpi_tool MODULE ${CMAKE_CURRENT_LIST_DIR}/mpi_alloc_tool.cpp)
target_link_libraries(integration_mpi_tool PRIVATE rdmalloc_flags)
set_target_properties(integration_mpi_tool PROPERTIES
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
foreach(mpi ${mpis})
  rdm_test("${mpi}: rdmalloc run --mpi serves MPI_Alloc_mem" LABELS mpi memlock
    COMMAND $<TARGET_FILE:rdmalloc_cli> run --mpi
            -- ${CMAKE_CURRENT_BINARY_DIR}/${mpi}/mpi_alloc hints)
  rdm_test("${mpi}: a profiling tool sees every call" LABELS mpi
    COMMAND ${case}
      --library "${preloaded}:$<TARGET_FILE:integration_mpi_tool>"
      -- ${CMAKE_CURRENT_BINARY_DIR}/${mpi}/mpi_alloc tool)
endforeach()

foreach(mpi ${mpis})
  foreach(name flat mixed)
    rdm_test("${mpi}: a plug-in that brings MPI with it is served, ${name}" LABELS mpi
      COMMAND ${case} ${shim} -- $<TARGET_FILE:integration_mpi_alloc_host>
              ${CMAKE_CURRENT_BINARY_DIR}/${mpi}/mpi_alloc_plugin.so ${name})
  endforeach()
  # The wrapper may be installed without a compiler.
  set(no_fortran 1)
  set(why_no_fortran "no gfortran: type: sh cmake/bootstrap.sh test")
  if(CMAKE_CROSSCOMPILING)
    set(why_no_fortran "a build for another machine takes C and C++ only")
  endif()
  if(MPIFORT_${mpi})
    execute_process(COMMAND ${MPIFORT_${mpi}} --version
      OUTPUT_QUIET ERROR_QUIET RESULT_VARIABLE no_fortran)
  endif()
  if(no_fortran)
    rdmalloc_not_built("the Fortran programs under ${mpi}" integration,mpi
      "${why_no_fortran}")
    continue()
  endif()
  mpi_build(${mpi} mpi_alloc_count.o ${MPICXX_${mpi}} ${cxx_flags} -c mpi_alloc_count.cpp)
  foreach(module plain cptr f08)
    mpi_build(${mpi} mpi_alloc_${module} ${MPIFORT_${mpi}} -fcray-pointer -rdynamic
      mpi_alloc_${module}.f90 mpi_alloc_count.o -ldl)
    rdm_test("${mpi}: a Fortran program is served, ${module}" LABELS mpi
      COMMAND ${case} ${shim} -- ${CMAKE_CURRENT_BINARY_DIR}/${mpi}/mpi_alloc_${module})
    rdm_test("control: ${mpi}: without the shim a Fortran program is not served, ${module}"
      LABELS mpi COMMAND ${case} --expect 1 --says " 0 of +1000 served"
              -- ${CMAKE_CURRENT_BINARY_DIR}/${mpi}/mpi_alloc_${module})
  endforeach()
endforeach()

rdm_test("the MPI shim exports what it says and needs no libstdc++" LABELS mpi
  COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/exports.sh $<TARGET_FILE:rdmalloc_mpi>
          ${PROJECT_SOURCE_DIR}/regcache/preload/mpi/exports.map)
rdm_test("a program without MPI runs unharmed under the MPI shim" LABELS mpi memlock_8M
  COMMAND ${case} ${shim} --only-lines 0 -- /bin/sh -c "exit 0")

# Open MPI's component.
find_program(OMPI_INFO ompi_info)
if(TARGET rdmalloc_mpool AND OMPI_INFO AND "openmpi" IN_LIST mpis)
  execute_process(COMMAND ${OMPI_INFO} --path pkglibdir --parsable
    OUTPUT_VARIABLE openmpi_components OUTPUT_STRIP_TRAILING_WHITESPACE)
  string(REGEX REPLACE "^path:pkglibdir:([^\n]*).*" "\\1" openmpi_components
    "${openmpi_components}")
  mpi_build(openmpi mpool_component ${MPICXX_openmpi} ${cxx_flags} -rdynamic
    mpool_component.cpp mpi_alloc_count.cpp -ldl)
  set(component OMPI_MCA_mpool_base_verbose=100
    OMPI_MCA_mca_base_component_path=$<TARGET_FILE_DIR:rdmalloc_mpool>:${openmpi_components})
  set(library --library $<TARGET_FILE:rdmalloc>)
  set(run -- ${CMAKE_CURRENT_BINARY_DIR}/openmpi/mpool_component)
  rdm_test("openmpi: the component serves callers that name it, and callers that name no pool" LABELS mpi
    COMMAND ${case} ${library} ${component} --lines 1 "rdmalloc mpool matches hints: none given"
      --lines 1 "matches hints: mpool=rdmalloc" --lines 1 "does not match hints: mpool=hugepage"
      ${run} served 3)
  rdm_test("openmpi: with a low priority the component serves callers that name it" LABELS mpi
    COMMAND ${case} ${library} ${component} OMPI_MCA_mpool_rdmalloc_priority=10 ${run} served 1)
  rdm_test("openmpi: the component exposes on demand" LABELS mpi memlock
    COMMAND ${case} ${library} ${component} ${run} exposed)
  rdm_test("control: openmpi: without the component nothing is exposed" LABELS mpi
    COMMAND ${case} ${library} --expect 1 --says "^not exposed" ${run} exposed)
  rdm_test("openmpi: the component withdraws without rdmalloc" LABELS mpi
    COMMAND ${case} ${component} --lines 1 "rdmalloc mpool withdraws: rdmalloc is not in"
      ${run} served 0)
endif()

add_custom_target(integration_mpi_programs ALL DEPENDS ${mpi_programs})
add_dependencies(integration_mpi_programs rdmalloc rdmalloc_cli rdmalloc_mpi)
if(TARGET rdmalloc_mpool)
  add_dependencies(integration_mpi_programs rdmalloc_mpool)
endif()
