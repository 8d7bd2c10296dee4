#include "allocator/window.h"

#include "allocator/os/limits.h"
#include "allocator/os/memory.h"

namespace rdmalloc {
namespace {

constexpr uint64_t kScarce = uint64_t{256} << 20;

constexpr size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

Status Window::reserve(size_t wanted) {
  // Under RLIMIT_AS the rest of the process needs address space too: stacks, libraries, files, and
  // jemalloc's metadata, 2 MiB or more at a time.
  const uint64_t left = os::address_space_left();
  const uint64_t share = left < kScarce ? left / 2 : left / 4 * 3;
  size_t bytes = wanted;
  if (left != os::kNoLimit && share < bytes) bytes = share;
  bytes = bytes / kGranule * kGranule;
  while (bytes >= kSmallest) {
    if (void* base = os::reserve(bytes, kGranule)) {
      base_ = reinterpret_cast<uintptr_t>(base);
      size_ = bytes;
      return Status::kOk;
    }
    bytes = bytes / 2 / kGranule * kGranule;
  }
  return Status::kNoMemory;
}

void* Window::carve(size_t bytes, size_t alignment) {
  const uintptr_t aligned = (base_ + carved_ + alignment - 1) & ~(alignment - 1);
  const size_t start = aligned - base_;
  if (start > size_ || bytes > size_ - start || size_ - start - bytes < os::kPageSize) {
    return nullptr;
  }
  carved_ = round_up(start + bytes + os::kPageSize, kGranule);
  if (carved_ > size_) carved_ = size_;
  return reinterpret_cast<void*>(aligned);
}

void Window::give_back(void* address) { carved_ = reinterpret_cast<uintptr_t>(address) - base_; }

}  // namespace rdmalloc
