// jemalloc updates a thread's peak after each 64 KiB that it allocates or frees; with objects of 16
// KiB that is every fourth call. `thread.peak.read` updates it itself when called, so a coarser
// interval will do.
#include <cstddef>
#include <cstdint>

namespace {

constexpr uint64_t kBytesBetweenLooks = uint64_t{4} << 20;

}  // namespace

extern "C" {

uint64_t __wrap_je_peak_alloc_new_event_wait(void* tsd);
uint64_t __wrap_je_peak_alloc_new_event_wait(void*) { return kBytesBetweenLooks; }

uint64_t __wrap_je_peak_dalloc_new_event_wait(void* tsd);
uint64_t __wrap_je_peak_dalloc_new_event_wait(void*) { return kBytesBetweenLooks; }

}  // extern "C"
