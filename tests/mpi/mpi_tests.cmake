# The promises, each under every MPI.
set(openmpi "Open MPI")
set(mpich "MPICH")
foreach(mpi ${mpis})
  set(name ${${mpi}})
  mpi_test("under ${name}, buffers freed right after the wait arrive intact"
    forms_test ARGS ${mpi} 0 messages isend)
  mpi_test("under ${name}, persistent requests carry the right bytes"
    forms_test ARGS ${mpi} 0 messages persistent)
  mpi_test("under ${name}, windows over malloc'd memory carry the right bytes"
    forms_test ARGS ${mpi} 0 messages onesided)
  mpi_test("under ${name}, MPI_THREAD_MULTIPLE programs may malloc and free each message"
    forms_test ARGS ${mpi} 0 messages threads)
  mpi_test("under ${name}, a program that forks goes on sending the right bytes"
    forms_test ARGS ${mpi} 0 lives fork)
  mpi_test("under ${name}, MPI_Finalize may come before free"
    forms_test ARGS ${mpi} 0 lives early)
  mpi_test("under ${name}, memory may be freed and allocated after MPI_Finalize"
    forms_test ARGS ${mpi} 0 lives late)
  mpi_test("under ${name}, MPI_Abort ends the job with its status and leaves nothing behind"
    forms_test ARGS ${mpi} 7 lives abort)
endforeach()

# Whose hooks into munmap and similar calls are active.
set(patcher "Open MPI's patched functions")
set(bistro "UCX's bistro hooks")
set(libfabric "libfabric's patches")
foreach(hooks patcher bistro libfabric)
  mpi_test("${${hooks}} have nothing to hear of a program that mallocs each message"
    steady_test ARGS ${hooks})
  mpi_test("control: without us ${${hooks}} hear of the messages' memory"
    steady_test ARGS --control ${hooks})
endforeach()

foreach(mpi ${mpis})
  mpi_test("each line that the READMEs give for ${${mpi}} works as written"
    recipes_test ARGS ${mpi} ${PROJECT_SOURCE_DIR}/README.md:any ${PROJECT_SOURCE_DIR}/regcache/MPI.md:${mpi})
endforeach()

foreach(mpi ${mpis})
  mpi_test("under ${${mpi}}, four ranks of an ordinary user each pin within their own memlock limit"
    user_test ARGS ${mpi} LABELS root)
endforeach()

foreach(mpi ${mpis})
  mpi_test("under ${${mpi}}, ranks share the machine's limit evenly" node_cap_test ARGS ${mpi} LABELS memlock)
endforeach()

foreach(mpi ${mpis})
  set(name ${${mpi}})
  mpi_test("under ${name}, ranks that are killed leave reports with the names of machine, job and rank"
    reports_test ARGS ${mpi} killed)
  mpi_test("control: under ${name}, a rank that is killed leaves no report by itself"
    reports_test ARGS ${mpi} control)
  mpi_test("under ${name}, one rank of a machine says that memory is not pinned, and who it is"
    reports_test ARGS ${mpi} once)
endforeach()

# The library's base memory cost per process of a job.
set(most_openmpi 1.25)
set(most_mpich 1.10)
foreach(mpi ${mpis})
  mpi_test("under ${${mpi}}, 16 ranks take at most ${most_${mpi}} of what they take of their machine with glibc"
    hello_test ARGS ${mpi} ${most_${mpi}} LABELS long)
  set(sentence "control: under ${${mpi}}, 16 ranks that have 16 MiB pinned each take more of their machine")
  mpi_test("${sentence}"
    hello_test ARGS ${mpi} ${most_${mpi}} RDMALLOC_RESERVE=16M LABELS long)
  set_tests_properties("${sentence}" PROPERTIES
    PASS_REGULAR_EXPRESSION "times what they take of their machine with glibc")
endforeach()
