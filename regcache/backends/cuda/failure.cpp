#include <stdio.h>

#include "allocator/failure.h"
#include "include/rdmalloc/backend.h"
#include "regcache/backends/cuda/library.h"
#include "regcache/domain/memory_hole.h"

namespace rdmalloc {
namespace {

using Step = CudaAttempt::Step;

const char* doing(Step step) {
  switch (step) {
    case Step::kStart:
      return "starting CUDA";
    case Step::kRegister:
      return "registering memory";
    case Step::kExport:
      return "exporting device memory";
    case Step::kOpen:
      return "opening a handle";
  }
  return "";
}

int explain_out_of_memory(const CudaAttempt& attempt, char* why, size_t size) {
  if (attempt.step != Step::kRegister) {
    snprintf(why, size,
             "the CUDA driver has no memory or address space left for %s: free device memory, or "
             "keep fewer handles open (rdm_remote_options)",
             doing(attempt.step));
    return RDM_OUT_OF_BUDGET;
  }
  snprintf(why, size,
           "the CUDA driver may not pin %zu KiB more (this domain has %zu registrations): limit "
           "the heap (RDMALLOC_CAP) or foreign memory (RDMALLOC_FOREIGN_BYTES, "
           "RDMALLOC_FOREIGN_COUNT), or raise the machine's limit (vm.max_map_count, the "
           "container's memory): see dmesg",
           attempt.length >> 10, attempt.count);
  return RDM_OUT_OF_BUDGET;
}

int explain_overlap(const CudaAttempt& attempt, char* why, size_t size) {
  if (attempt.foreign) {
    (void)fail(0,
               "part of this memory is registered with CUDA already, by the program or by another "
               "domain, and CUDA registers memory once: cuMemHostUnregister() it, or get exactly "
               "what is registered through the domain that has it",
               why, size);
    return RDM_BACKEND_OVERLAPS;
  }
  return fail(
      RDM_BUSY,
      "part of the heap is registered with CUDA already, by the program or, for reading "
      "only, by another domain, and CUDA registers memory once: leave cudaHostRegister() of "
      "malloc'd memory away, or open the domain with RDM_DOMAIN_PARTIAL",
      why, size);
}

int explain_invalid_value(const CudaAttempt& attempt, char* why, size_t size) {
  if (attempt.step == Step::kExport) {
    return fail(RDM_INVALID,
                "this is no device memory of CUDA's: export what cuMemAlloc() or cudaMalloc() "
                "returned",
                why, size);
  }
  if (attempt.step != Step::kRegister) {
    return fail(RDM_SYSTEM,
                "the CUDA driver refused the handle: its memory was freed, its process has ended, "
                "or it is of another machine or container",
                why, size);
  }
  const MemoryHole hole = find_memory_hole(attempt.base, attempt.length, attempt.writes);
  if (hole.what == nullptr) {
    snprintf(
        why, size,
        "the CUDA driver cannot pin the memory at %p, %zu bytes, although all of it is mapped: "
        "a file beyond its end, or memory of a device",
        attempt.base, attempt.length);
  } else {
    snprintf(why, size,
             "the memory at %p, %zu bytes, %s from offset %zu on: unmapped or re-protected",
             attempt.base, attempt.length, hole.what, hole.offset);
  }
  return RDM_SYSTEM;
}

int explain_gone(const CudaAttempt& attempt, char* why, size_t size) {
  switch (attempt.status) {
    case kCudaNotInitialized:
      return fail(attempt.step == Step::kStart ? RDM_UNSUPPORTED : RDM_SYSTEM,
                  "CUDA cannot be used here: this is a child of fork whose parent used it (start "
                  "the child with exec, or use CUDA in the child alone)",
                  why, size);
    case kCudaDeinitialized:
      return fail(RDM_SYSTEM, "the CUDA driver has shut down: the process is ending", why, size);
    default:
      return fail(
          RDM_SYSTEM,
          "the CUDA context was destroyed (cuCtxDestroy(), cudaDeviceReset()), and what was "
          "registered there with it: close this before, and open it again in another "
          "context",
          why, size);
  }
}

int explain_by_name(const CudaLibrary& library, const CudaAttempt& attempt, const char* advice,
                    int status, char* why, size_t size) {
  const char* name = nullptr;
  if (library.get_error_name(attempt.status, &name) != kCudaSuccess || name == nullptr) {
    name = "an error without a name";
  }
  snprintf(why, size, "%s: the CUDA driver says %s (%d)%s", doing(attempt.step), name,
           int{attempt.status}, advice);
  return status;
}

int explain_unsupported(const CudaLibrary& library, const CudaAttempt& attempt, char* why,
                        size_t size) {
  const bool exports = attempt.step == Step::kExport;
  return explain_by_name(
      library, attempt,
      exports ? ": memory of cudaMallocAsync(), cudaMallocManaged() or cuMemCreate() has no such "
                "handle; use cudaMalloc()"
              : ": this device, platform or container does not support it",
      RDM_UNSUPPORTED, why, size);
}

}  // namespace

int explain_cuda_failure(const CudaLibrary& library, const CudaAttempt& attempt, char* why,
                         size_t size) {
  if (is_cuda_gone(attempt.status)) return explain_gone(attempt, why, size);
  if (is_cuda_broken(attempt.status)) {
    return explain_by_name(library, attempt,
                           ": an earlier error of a kernel or of the device broke the context for "
                           "good; see what it was, and start the process anew",
                           RDM_SYSTEM, why, size);
  }
  switch (attempt.status) {
    case kCudaOutOfMemory:
      return explain_out_of_memory(attempt, why, size);
    case kCudaHostMemoryAlreadyRegistered:
      return explain_overlap(attempt, why, size);
    case kCudaAlreadyMapped:
      (void)fail(0, "memory that overlaps it is open here already, and CUDA opens memory once", why,
                 size);
      return RDM_BACKEND_OVERLAPS;
    case kCudaNoDevice:
      return fail(RDM_UNSUPPORTED,
                  "the CUDA driver sees no device: is there one (nvidia-smi), and does "
                  "CUDA_VISIBLE_DEVICES leave it visible?",
                  why, size);
    case kCudaInvalidValue:
    case kCudaInvalidHandle:
    case kCudaMapFailed:
    case kCudaNotFound:
      return explain_invalid_value(attempt, why, size);
    case kCudaNotSupported:
    case kCudaPeerAccessUnsupported:
      return explain_unsupported(library, attempt, why, size);
    case kCudaTooManyPeers:
      return explain_by_name(library, attempt, ": close handles of other devices first", RDM_SYSTEM,
                             why, size);
    case kCudaNotPermitted:
      return explain_by_name(library, attempt, ": ask for the right, or run as root", RDM_SYSTEM,
                             why, size);
    default:
      if (attempt.step != Step::kStart) {
        return explain_by_name(library, attempt, "", RDM_SYSTEM, why, size);
      }
      return explain_by_name(
          library, attempt,
          ": look whether nvidia-smi works, and whether this libcuda.so.1 is that "
          "of the kernel's module and no stub",
          RDM_UNSUPPORTED, why, size);
  }
}

}  // namespace rdmalloc
