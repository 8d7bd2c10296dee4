#include "allocator/pages/free_pages.h"

#include "allocator/os/memory.h"

namespace rdmalloc {
namespace {

// How many long-enough runs to try that may happen to be aligned, before searching only for runs so
// long that an aligned part always fits.
constexpr int kAlignedTries = 8;

}  // namespace

RunTree::Run* FreePages::find(size_t size, size_t alignment) const {
  Run* run = tree_.first(size);
  if (alignment <= os::page_size()) return run;
  for (int i = 0; run != nullptr && i < kAlignedTries; ++i, run = tree_.next(run, size)) {
    const uintptr_t start = os::align_up(run->address, alignment);
    if (start >= run->address && start <= run->end() && run->end() - start >= size) return run;
  }
  const size_t enough = size + alignment - os::page_size();
  return run == nullptr || enough < size ? nullptr : tree_.first(enough);
}

void FreePages::insert(Run* run) {
  tree_.insert(run);
  free_bytes_ += run->size;
  ++runs_;
}

// The run's record is free again.
void FreePages::remove(Run* run) {
  tree_.remove(run);
  free_bytes_ -= run->size;
  --runs_;
  records_.put(run);
}

void FreePages::resize(Run* run, uintptr_t address, size_t size) {
  free_bytes_ += size - run->size;
  tree_.resize(run, address, size);
}

bool FreePages::carve(Run* from, uintptr_t address, size_t size) {
  const size_t before = address - from->address;
  const uintptr_t end = address + size;
  const size_t after = from->end() - end;
  if (before > 0 && after > 0) {
    Run* tail = records_.get();  // the step that can fail comes first
    if (tail == nullptr) return false;
    tail->address = end;
    tail->size = after;
    resize(from, from->address, before);
    insert(tail);
  } else if (before > 0) {
    resize(from, from->address, before);
  } else if (after > 0) {
    resize(from, end, after);
  } else {
    remove(from);
  }
  return true;
}

void* FreePages::take(size_t size, size_t alignment) {
  Run* const found = find(size, alignment);
  if (found == nullptr) return nullptr;
  const uintptr_t start = os::align_up(found->address, alignment);
  return carve(found, start, size) ? reinterpret_cast<void*>(start) : nullptr;
}

void* FreePages::take_largest(size_t least, size_t most, size_t* size) {
  if (largest() < least || largest() == 0) return nullptr;
  Run* const found = tree_.first(largest());
  const uintptr_t start = found->address;
  *size = found->size < most ? found->size : most;
  return carve(found, start, *size) ? reinterpret_cast<void*>(start) : nullptr;
}

bool FreePages::take_at(void* address, size_t size) {
  const auto start = reinterpret_cast<uintptr_t>(address);
  Run* holder = nullptr;
  Run* ignored = nullptr;
  tree_.neighbours(start, &holder, &ignored);
  if (holder == nullptr || holder->end() < start || holder->end() - start < size) return false;
  return carve(holder, start, size);
}

Status FreePages::give(void* address, size_t size) {
  const auto start = reinterpret_cast<uintptr_t>(address);
  Run* lower = nullptr;
  Run* upper = nullptr;
  tree_.neighbours(start, &lower, &upper);
  const bool joins_lower = lower != nullptr && lower->end() == start;
  const bool joins_upper = upper != nullptr && start + size == upper->address;
  if (joins_lower && joins_upper) {
    const size_t joined = lower->size + size + upper->size;
    remove(upper);
    resize(lower, lower->address, joined);
  } else if (joins_lower) {
    resize(lower, lower->address, lower->size + size);
  } else if (joins_upper) {
    resize(upper, start, upper->size + size);
  } else {
    Run* run = records_.get();
    if (run == nullptr) return Status::kNoMemory;
    run->address = start;
    run->size = size;
    insert(run);
  }
  return Status::kOk;
}

void* FreePages::take_run_at(uintptr_t address, size_t* size) {
  Run* lower = nullptr;
  Run* upper = nullptr;
  tree_.neighbours(address, &lower, &upper);
  if (lower == nullptr || lower->address != address) return nullptr;
  *size = lower->size;
  remove(lower);
  return reinterpret_cast<void*>(address);
}

bool FreePages::prepare() {
  if (spare_ == nullptr) spare_ = records_.get();
  return spare_ != nullptr;
}

void FreePages::add(void* address, size_t size) {
  spare_->address = reinterpret_cast<uintptr_t>(address);
  spare_->size = size;
  insert(spare_);
  spare_ = nullptr;
}

void FreePages::clear() {
  while (Run* const run = tree_.any()) remove(run);
}

bool FreePages::validate() const {
  size_t bytes = 0;
  size_t runs = 0;
  tree_.for_each([&](const Run& run) {
    bytes += run.size;
    ++runs;
  });
  return tree_.validate() && bytes == free_bytes_ && runs == runs_;
}

}  // namespace rdmalloc
