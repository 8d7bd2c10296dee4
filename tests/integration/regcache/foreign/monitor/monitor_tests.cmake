# Monitors of foreign memory in whole processes: what they notice, and which of their effects are
# visible.
rdm_program(monitor_loader)
set_target_properties(integration_monitor_loader PROPERTIES ENABLE_EXPORTS ON)
add_library(integration_loader_plugin MODULE ${CMAKE_CURRENT_LIST_DIR}/loader_plugin.c)
add_dependencies(integration_monitor_loader integration_loader_plugin)
set(loader PROGRAM monitor_loader LIMITS RDMALLOC_MONITOR=interposed)
rdm_case("a constructor may register memory while another thread's look at calls waits for dlopen"
  ARGUMENTS looking $<TARGET_FILE:integration_loader_plugin> ${loader})
rdm_case("... the same memory that the other thread registers"
  ARGUMENTS same $<TARGET_FILE:integration_loader_plugin> ${loader})
rdm_case("... import our monitor into libfabric while another thread does"
  ARGUMENTS importing $<TARGET_FILE:integration_loader_plugin> ${loader})
rdm_case("... while the other thread chooses the monitor"
  ARGUMENTS choosing $<TARGET_FILE:integration_loader_plugin> ${loader})

if(NOT LIBURING)
  rdmalloc_not_built("the tests of monitors with a device" integration,io_uring "${no_liburing}")
  return()
endif()

rdm_program(monitor_early)
rdm_case("interposed functions work before libc is initialised" PROGRAM monitor_early)

foreach(program calls heard patched)
  rdm_program(monitor_${program} ${LIBURING})
endforeach()
add_library(integration_monitor_plugin MODULE ${CMAKE_CURRENT_LIST_DIR}/monitor_plugin.c)
add_dependencies(integration_monitor_heard integration_monitor_plugin)

foreach(monitor interposed userfaultfd)
  rdm_case("every interposed call has libc's results and errno: ${monitor}"
    PROGRAM monitor_calls ARGUMENTS ${monitor} LABELS memlock_8M LIMITS RDMALLOC_MONITOR=${monitor})
  rdm_case("every way to change memory is noticed, even a thread's end and dlclose: ${monitor}"
    PROGRAM monitor_heard ARGUMENTS ${monitor} $<TARGET_FILE:integration_monitor_plugin>
    LABELS memlock_8M LIMITS RDMALLOC_MONITOR=${monitor})
endforeach()
rdm_case("control: without a monitor no change is noticed"
  PROGRAM monitor_heard ARGUMENTS none LIMITS RDMALLOC_MONITOR=none --expect 1 --says "^munmap was not heard of")

set(interposed LIMITS RDMALLOC_MONITOR=interposed)
rdm_case("where the code of our munmap is overwritten nothing is kept any more"
  PROGRAM monitor_patched ARGUMENTS lost ${interposed})
rdm_case("... and where it is overwritten unseen nothing new is"
  PROGRAM monitor_patched ARGUMENTS sly ${interposed})
rdm_case("nothing is kept while our code is writable"
  PROGRAM monitor_patched ARGUMENTS writable ${interposed})
rdm_case("code that was overwritten so that calls reach us by syscall() does no harm"
  PROGRAM monitor_patched ARGUMENTS forwarded ${interposed})
rdm_case("where brk alone is lost memory above the program break is kept"
  PROGRAM monitor_patched ARGUMENTS break ${interposed})
rdm_case("UCX, which patches libc's code, and the interposed monitor both notice a change"
  PROGRAM monitor_patched ARGUMENTS ucx ${interposed} UCX_MEM_MMAP_HOOK_MODE=bistro LABELS memlock)
rdm_case("where UCX changes what symbols are bound to nothing is kept any more"
  PROGRAM monitor_patched ARGUMENTS bound ${interposed} UCX_MEM_MMAP_HOOK_MODE=reloc LABELS memlock)
# Its calls then bypass our functions: only the kernel reports them.
rdm_case("UCX, which changes what symbols are bound to, and userfaultfd both notice a change"
  PROGRAM monitor_patched ARGUMENTS ucx userfaultfd LABELS memlock
  LIMITS RDMALLOC_MONITOR=userfaultfd UCX_MEM_MMAP_HOOK_MODE=reloc)
