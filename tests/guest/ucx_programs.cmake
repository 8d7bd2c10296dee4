# The MPI program of tests/ucx.sh, once per MPI library.
if(MPI_C_FOUND)
  add_executable(guest_ucx_loop ucx_loop.c)
  target_compile_options(guest_ucx_loop PRIVATE -fno-builtin)
  target_link_libraries(guest_ucx_loop PRIVATE rdmalloc_flags MPI::MPI_C)
  set_target_properties(guest_ucx_loop PROPERTIES OUTPUT_NAME ucx_loop
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
endif()

# Built with MPICH's own compiler: CMake finds only one MPI library per build, and that is Open MPI.
rdmalloc_find_mpi(mpich)
if(NOT why_no_mpich)
  set(mpich_program ${CMAKE_CURRENT_BINARY_DIR}/ucx_loop_mpich)
  add_custom_command(OUTPUT ${mpich_program}
    COMMAND ${MPICC_mpich} -O2 -fno-builtin -o ${mpich_program}
      ${CMAKE_CURRENT_SOURCE_DIR}/ucx_loop.c
    DEPENDS ucx_loop.c VERBATIM)
  add_custom_target(guest_ucx_loop_mpich ALL DEPENDS ${mpich_program})
else()
  rdmalloc_not_built("the guest's programs of MPICH" guest,mpi "${why_no_mpich}")
endif()
