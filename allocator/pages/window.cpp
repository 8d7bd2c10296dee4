#include "allocator/pages/window.h"

#include "allocator/os/limits.h"
#include "allocator/os/memory.h"

namespace rdmalloc {
namespace {

// More than a program maps besides its heap.
constexpr size_t kBeside = size_t{1} << 40;

// What is skipped for an alignment is never carved: no pages are that large.
constexpr size_t kMostAlignment = size_t{1} << 36;

constexpr uint64_t kScarce = uint64_t{256} << 20;

}  // namespace

Status Window::reserve(size_t wanted) {
  // Under RLIMIT_AS the rest of the process needs address space too: stacks, libraries, files, and
  // jemalloc's metadata (2 MiB or more at a time).
  const uint64_t left = os::address_space_left();
  const uint64_t share = left < kScarce ? left / 2 : left / 4 * 3;
  size_t bytes = wanted;
  if (left != os::kNoLimit && share < bytes) bytes = share;
  bytes = os::align_down(bytes, kGranule);
  while (bytes >= kSmallest) {
    if (void* base = os::reserve(bytes, kGranule, left == os::kNoLimit ? kBeside : 0)) {
      base_ = reinterpret_cast<uintptr_t>(base);
      size_ = top_ = bytes;
      return Status::kOk;
    }
    bytes = os::align_down(bytes / 2, kGranule);
  }
  return Status::kNoMemory;
}

void* Window::carve(size_t bytes, size_t alignment, End end) {
  if (alignment > kMostAlignment || bytes > left() || left() - bytes < os::page_size())
    return nullptr;
  if (end == End::kHigh) {
    const uintptr_t address = os::align_down(base_ + top_ - os::page_size() - bytes, alignment);
    if (address < base_ + carved_) return nullptr;
    top_ = address - base_;
    return reinterpret_cast<void*>(address);
  }
  const uintptr_t address = os::align_up(base_ + carved_, alignment);
  const size_t start = address - base_;
  if (start > top_ || bytes > top_ - start || top_ - start - bytes < os::page_size())
    return nullptr;
  carved_ = os::align_up(start + bytes + os::page_size(), kGranule);
  return reinterpret_cast<void*>(address);
}

void Window::give_back(void* address, size_t bytes) {
  const size_t start = reinterpret_cast<uintptr_t>(address) - base_;
  if (start >= top_) {
    top_ = os::align_up(start + bytes + os::page_size(), kGranule);
  } else {
    carved_ = start;
  }
}

}  // namespace rdmalloc
