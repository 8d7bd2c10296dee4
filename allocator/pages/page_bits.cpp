#include "allocator/pages/page_bits.h"

namespace rdmalloc {

size_t PageBits::table_bytes(const Window& window) {
  return (window.size() / os::page_size() / kWordPages + 1) * kKinds * sizeof(Word);
}

// Calls visit(word, its bits in [page, end)).
template <typename Visit>
void PageBits::for_each_mask(size_t page, size_t end, Visit visit) {
  while (page < end) {
    const size_t bit = page % kWordPages;
    const size_t count = end - page < kWordPages - bit ? end - page : kWordPages - bit;
    visit(words_[word_of(page)],
          count == kWordPages ? ~uint64_t{0} : ((uint64_t{1} << count) - 1) << bit);
    page += count;
  }
}

void PageBits::set(uintptr_t address, size_t size) {
  was_set_.store(true, std::memory_order_release);
  for_each_mask(page_of(address), page_of(address + size),
                [](Word& word, uint64_t mask) { word.fetch_or(mask, std::memory_order_release); });
}

void PageBits::clear(uintptr_t address, size_t size) {
  if (!was_set_.load(std::memory_order_relaxed)) return;
  for_each_mask(page_of(address), page_of(address + size), [](Word& word, uint64_t mask) {
    word.fetch_and(~mask, std::memory_order_release);
  });
}

void PageBits::forget(uintptr_t address, size_t size) {
  if (!was_set_.load(std::memory_order_relaxed)) return;
  clear(address, size);
  os::drop_zeros(&words_[word_of(page_of(address))],
                 &words_[word_of(page_of(address + size - 1)) + 1]);
}

size_t PageBits::find(size_t from, size_t to, bool inverted) const {
  if (!was_set_.load(std::memory_order_acquire)) return inverted && from < to ? from : kNone;
  for (size_t page = from; page < to;) {
    uint64_t word = words_[word_of(page)].load(std::memory_order_acquire);
    if (inverted) word = ~word;
    word >>= page % kWordPages;
    if (word != 0) {
      page += static_cast<size_t>(__builtin_ctzll(word));
      return page < to ? page : kNone;
    }
    page += kWordPages - page % kWordPages;
  }
  return kNone;
}

uintptr_t PageBits::first(uintptr_t address, uintptr_t end, bool inverted) const {
  const size_t page = find(page_of(address), page_of(end), inverted);
  return page == kNone ? end : window_.base() + page * os::page_size();
}

}  // namespace rdmalloc
