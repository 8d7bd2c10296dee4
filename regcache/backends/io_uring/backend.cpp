#include "regcache/backends/io_uring/backend.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>

#include <new>

#include "allocator/failure.h"
#include "allocator/os/page_size.h"
#include "regcache/backend_table.h"
#include "regcache/domain/open_domain.h"
#include "regcache/domain/pinned_memory.h"

namespace rdmalloc {
namespace {

constexpr unsigned kTableSlots = 1024;              // for a table that we register
constexpr size_t kLongestBuffer = size_t{1} << 30;  // the kernel's limit
constexpr uint64_t kLongestWaitNs = 60'000'000;     // for memory that other threads are giving back
constexpr long kWaitStepNs = 2'000'000;

}  // namespace

int IoUringSlots::take() {
  for (unsigned word = 0; word * kBits < count_; ++word) {
    uint64_t taken = taken_[word].load(std::memory_order_relaxed);
    while (~taken != 0) {
      const auto bit = static_cast<unsigned>(__builtin_ctzll(~taken));
      if (word * kBits + bit >= count_) return -1;
      if (taken_[word].compare_exchange_weak(taken, taken | uint64_t{1} << bit,
                                             std::memory_order_acquire)) {
        return static_cast<int>(word * kBits + bit);
      }
    }
  }
  return -1;
}

void IoUringSlots::put_back(unsigned slot) {
  taken_[slot / kBits].fetch_and(~(uint64_t{1} << slot % kBits), std::memory_order_release);
}

int IoUringBackend::create(int ring_fd, unsigned first_slot, unsigned slots, IoUringBackend** out,
                           char* why, size_t why_size) {
  void* memory = malloc(sizeof(IoUringBackend));
  if (memory == nullptr) return fail(RDM_SYSTEM, "no memory for the domain", why, why_size);
  auto* backend = new (memory) IoUringBackend;
  const int status = backend->open(ring_fd, first_slot, slots, why, why_size);
  if (status == RDM_OK) {
    backend->try_unpinning();
    *out = backend;
  } else {
    destroy(backend, false);
  }
  return status;
}

void IoUringBackend::destroy(IoUringBackend* backend, bool forked) {
  if (!forked) {
    // Unregistering the table also frees at once what some kernels would free later.
    if (backend->owns_table_)
      (void)backend->ring_.call(os::IoUringOperation::kUnregisterBuffers, nullptr, 0);
    backend->ring_.release();
  }
  free(backend);
}

int IoUringBackend::open(int ring_fd, unsigned first_slot, unsigned slots, char* why,
                         size_t why_size) {
  if (first_slot > IoUringSlots::kMost || slots > IoUringSlots::kMost - first_slot) {
    return fail(RDM_INVALID,
                "first_slot and slots reach beyond the largest table the kernel has, 16384 slots",
                why, why_size);
  }
  if (ring_fd < -1) return fail(RDM_INVALID, "the ring's descriptor is negative", why, why_size);
  if (slots == 0 && first_slot != 0) {
    return fail(RDM_INVALID,
                "first_slot is set and slots is 0: set slots to the number that the domain may use",
                why, why_size);
  }
  if (ring_fd == -1) {
    if (slots == 0) return open_own(why, why_size);
    return fail(RDM_INVALID, "slots applies only to a ring of the caller's, and none was given",
                why, why_size);
  }
  ring_.borrow(ring_fd);
  if (slots == 0) return register_table(why, why_size);
  first_slot_ = first_slot;
  slots_.set_count(slots);
  return check_slots(why, why_size);
}

int IoUringBackend::open_own(char* why, size_t why_size) {
  for (;;) {
    const int error = ring_.create();
    if (error == 0) return register_table(why, why_size);
    if (error == ENOMEM && wait_for_memory()) continue;
    return explain_io_uring_failure(IoUringStep::kSetup, error, 0, why, why_size);
  }
}

int IoUringBackend::register_table(char* why, size_t why_size) {
  os::IoUringTable table{};
  table.slots = kTableSlots;
  const int result = ring_.call(os::IoUringOperation::kRegisterBuffers2, &table, sizeof table);
  if (result < 0) {
    return explain_io_uring_failure(IoUringStep::kTable, -result, 0, why, why_size);
  }
  slots_.set_count(kTableSlots);
  owns_table_ = true;
  return RDM_OK;
}

// Probes the last slot to see whether the table has them all; this empties it.
int IoUringBackend::check_slots(char* why, size_t why_size) {
  const int result = update(first_slot_ + slots_.count() - 1, nullptr, 0);
  if (result == 0) return RDM_OK;
  return explain_io_uring_failure(IoUringStep::kSlots, -result, 0, why, why_size);
}

// Linux before 6.5 unpins what a slot held up to a second after the slot was emptied. Tried with
// the page that this object begins in.
void IoUringBackend::try_unpinning() {
  const unsigned slot = first_slot_ + slots_.count() - 1;
  const uint64_t before = pinned_by_registrations();
  void* const page = reinterpret_cast<void*>(os::page_floor(reinterpret_cast<uintptr_t>(this)));
  if (update(slot, page, os::page_size()) != 0) return;
  (void)update(slot, nullptr, 0);
  unpins_late_ = pinned_by_registrations() > before;
}

// Returns 0 or -errno. A length of 0 empties the slot.
int IoUringBackend::update(unsigned slot, void* base, size_t length) {
  iovec buffer{base, length};
  os::IoUringUpdate change{};
  change.first_slot = slot;
  change.data = reinterpret_cast<uintptr_t>(&buffer);
  change.slots = 1;
  const int result =
      ring_.call(os::IoUringOperation::kRegisterBuffersUpdate, &change, sizeof change);
  if (result == 1) return 0;
  return result < 0 ? result : -EAGAIN;
}

bool IoUringBackend::wait_for_memory() {
  if (!opening_.load(std::memory_order_relaxed) || pthread_equal(opener_, pthread_self()) == 0) {
    return false;
  }
  if (waited_ns_ >= kLongestWaitNs) return false;
  waited_ns_ += kWaitStepNs;
  const timespec step{0, kWaitStepNs};
  (void)nanosleep(&step, nullptr);
  return true;
}

void IoUringBackend::limits(rdm_backend_limits* out) const {
  out->max_length = kLongestBuffer;
  out->max_count = slots_.count();
  out->charges = RDM_CHARGES_USER;
  out->abilities = RDM_BACKEND_IN_MALLOC | (unpins_late_ ? RDM_BACKEND_UNPINS_LATE : 0);
}

int IoUringBackend::register_memory(const rdm_backend_request& request, rdm_backend_key* out,
                                    char* why, size_t why_size) {
  const int slot = slots_.take();
  if (slot < 0) return fail(RDM_SYSTEM, "the ring's table of buffers is full", why, why_size);
  const unsigned index = first_slot_ + static_cast<unsigned>(slot);
  int error = -update(index, request.base, request.length);
  while (error == ENOMEM && wait_for_memory()) {
    error = -update(index, request.base, request.length);
  }
  if (error != 0) {
    slots_.put_back(static_cast<unsigned>(slot));
    return explain_io_uring_failure(IoUringStep::kBuffer, error, request.length, why, why_size);
  }
  *out = {index, 0, nullptr};
  return RDM_OK;
}

// A slot that could not be emptied is never reused.
int IoUringBackend::deregister_memory(const rdm_backend_key& key) {
  const int error = -update(key.lkey, nullptr, 0);
  // The ring is set up for a single issuer, which is another thread.
  if (error == EEXIST) return RDM_BACKEND_LATER;
  if (error != 0) return RDM_SYSTEM;
  slots_.put_back(key.lkey - first_slot_);
  return RDM_OK;
}

const rdm_backend IoUringBackend::kOperations = backend_table<IoUringBackend>("io_uring");

}  // namespace rdmalloc

extern "C" int rdm_domain_open_io_uring(int ring_fd, const rdm_domain_options* given,
                                        rdm_domain** out) {
  using rdmalloc::IoUringBackend;
  return rdmalloc::open_domain(given, out, [&](rdm_domain_options& options) {
    IoUringBackend* backend = nullptr;
    int status = IoUringBackend::create(ring_fd, options.first_slot, options.slots, &backend,
                                        options.error, options.error_size);
    if (status != RDM_OK) return status;
    status = rdm_domain_open(&IoUringBackend::kOperations, backend, &options, out);
    if (status == RDM_OK) {
      backend->end_opening();
    } else {
      IoUringBackend::destroy(backend, false);
    }
    return status;
  });
}
