# The CUDA backend in whole processes: on the fake driver, found by the real one's name, and on a
# real one if there is a device (label gpu).
foreach(program domain foreign real)
  rdm_program(cuda_${program})
  add_dependencies(integration_cuda_${program} fake_libcuda)
endforeach()
set(fake LD_LIBRARY_PATH=${RDMALLOC_FAKE_CUDA_FOLDER} --at-once)

# cuda_case(PROGRAM MODE "sentence" [CONTROL "sentence" SAYS "regex"] [OPTIONS ...]
#   [LABELS ...]): one mode of cuda_PROGRAM.
function(cuda_case program mode sentence)
  cmake_parse_arguments(PARSE_ARGV 3 arg "" "CONTROL;SAYS" "OPTIONS;LABELS")
  set(control)
  if(arg_CONTROL)
    set(control CONTROL "cuda: ${arg_CONTROL}" SAYS "${arg_SAYS}" CONTROL_LIMITS ${fake} --expect 1)
  endif()
  rdm_case("cuda: ${sentence}" PROGRAM cuda_${program} ARGUMENTS ${mode}
    LIMITS ${fake} ${arg_OPTIONS} ${control} LABELS ${arg_LABELS})
endfunction()

cuda_case(domain heap "copies of a growing heap are direct"
  CONTROL "stock malloc's copies are staged" SAYS "copies were staged" LABELS memlock)
cuda_case(foreign kept "foreign memory is registered once, and let go of when it is unmapped" LABELS memlock_8M)
cuda_case(foreign larger "a larger buffer at a freed address is registered, and nobody notices"
  CONTROL "a cache that gives nothing up is refused the larger buffer"
  SAYS "at the same address: CUDA error 712" LABELS memlock_8M)
cuda_case(foreign named "a domain of named memory copies named memory directly, and stages all else" LABELS memlock_8M)
cuda_case(foreign all "control: all copies of a heap that is registered are direct"
  OPTIONS --expect 1 --says "a buffer that was put: a copy was direct")
foreach(monitor interposed userfaultfd none)
  cuda_case(foreign larger "a larger buffer at a freed address is registered, monitor ${monitor}"
    OPTIONS RDMALLOC_MONITOR=${monitor} LABELS memlock_8M)
endforeach()
cuda_case(foreign wider "what overlaps is given up when it is idle, and only then" LABELS memlock_8M)
cuda_case(foreign limits "limits, ours and the driver's, are kept and told" LABELS memlock)
cuda_case(foreign leave_nothing "foreign memory stays registered for its users alone, on demand" LABELS memlock_8M)
cuda_case(domain fork "a child of fork works, and never calls the driver" LABELS memlock_8M)
cuda_case(domain lost "a context that is lost costs a status, and malloc goes on" LABELS memlock_8M)
cuda_case(domain exit "a domain may be closed when the driver has shut down already")
cuda_case(domain open_at_exit "a domain may stay open at the end of the process")
cuda_case(domain second "domains share the heap's registrations" LABELS memlock)
cuda_case(domain own "what the program registered of its heap is told, and may be left out" LABELS memlock)
rdm_case("cuda: where there is no driver, the sentence says what to install"
  PROGRAM cuda_domain ARGUMENTS absent)

# On a real device, and the same on the fake one, which has no old pages to send.
rdm_case("cuda: copies of a growing heap arrive on a device" PROGRAM cuda_real ARGUMENTS heap
  LABELS gpu CONTROL "cuda: the device's driver knows nothing of stock malloc's memory"
  SAYS "the driver has not registered")
rdm_case("cuda: no stale byte of foreign memory arrives on a device" PROGRAM cuda_real
  ARGUMENTS foreign LABELS gpu
  CONTROL "cuda: with a cache that is not told of unmapped memory, old bytes arrive on a device"
  SAYS "foreign memory: byte 0 of .* is not what was sent")
rdm_case("cuda: copies of a growing heap arrive" PROGRAM cuda_real ARGUMENTS heap LIMITS ${fake}
  CONTROL "cuda: the driver knows nothing of stock malloc's memory"
  SAYS "the driver has not registered"
  CONTROL_LIMITS ${fake} --expect 1 LABELS memlock)
rdm_case("cuda: copies of foreign memory arrive" PROGRAM cuda_real ARGUMENTS foreign LIMITS ${fake} LABELS memlock_8M)
rdm_case("cuda: a peer's device memory is opened once, and replaced when it is freed"
  PROGRAM cuda_real ARGUMENTS ipc LIMITS ${fake})
rdm_case("cuda: a peer's device memory is opened once on a device"
  PROGRAM cuda_real ARGUMENTS ipc_told LABELS gpu)
