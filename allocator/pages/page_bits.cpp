#include "allocator/pages/page_bits.h"

namespace rdmalloc {
namespace {

constexpr size_t kWordBits = 64;

// Calls visit(word, its bits in [page, end)).
template <typename Visit>
void for_each_mask(size_t page, size_t end, Visit visit) {
  while (page < end) {
    const size_t bit = page % kWordBits;
    const size_t count = end - page < kWordBits - bit ? end - page : kWordBits - bit;
    visit(page / kWordBits,
          count == kWordBits ? ~uint64_t{0} : ((uint64_t{1} << count) - 1) << bit);
    page += count;
  }
}

}  // namespace

size_t PageBits::words(const Window& window) {
  return os::page_ceil((window.size() / os::page_size() / kWordBits + 1) * sizeof(Word)) /
         sizeof(Word);
}

void PageBits::set(uintptr_t address, size_t size) {
  was_set_.store(true, std::memory_order_release);
  for_each_mask(page_of(address), page_of(address + size), [&](size_t word, uint64_t mask) {
    words_[word].fetch_or(mask, std::memory_order_release);
  });
}

void PageBits::clear(uintptr_t address, size_t size) {
  if (!was_set_.load(std::memory_order_relaxed)) return;
  for_each_mask(page_of(address), page_of(address + size), [&](size_t word, uint64_t mask) {
    words_[word].fetch_and(~mask, std::memory_order_release);
  });
}

void PageBits::forget(uintptr_t address, size_t size) {
  if (!was_set_.load(std::memory_order_relaxed)) return;
  clear(address, size);
  os::drop_zeros(&words_[page_of(address) / kWordBits],
                 &words_[page_of(address + size - 1) / kWordBits + 1]);
}

size_t PageBits::find(size_t from, size_t to, bool inverted) const {
  if (!was_set_.load(std::memory_order_acquire)) return inverted && from < to ? from : kNone;
  for (size_t page = from; page < to;) {
    uint64_t word = words_[page / kWordBits].load(std::memory_order_acquire);
    if (inverted) word = ~word;
    word >>= page % kWordBits;
    if (word != 0) {
      page += static_cast<size_t>(__builtin_ctzll(word));
      return page < to ? page : kNone;
    }
    page += kWordBits - page % kWordBits;
  }
  return kNone;
}

uintptr_t PageBits::first(uintptr_t address, uintptr_t end, bool inverted) const {
  const size_t page = find(page_of(address), page_of(end), inverted);
  return page == kNone ? end : window_.base() + page * os::page_size();
}

}  // namespace rdmalloc
