#include "allocator/pages/page_marks.h"

#include "allocator/breakage.h"

namespace rdmalloc {
namespace {

constexpr size_t kWordBits = 64;

uint64_t bit_of(size_t page) { return uint64_t{1} << (page % kWordBits); }

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

size_t PageMarks::words() const { return window_.size() / os::page_size() / kWordBits + 1; }

size_t PageMarks::table_bytes() const { return 3 * words() * sizeof(Word); }

Status PageMarks::boot() {
  auto* memory = static_cast<Word*>(os::map_table(table_bytes()));
  if (memory == nullptr) return Status::kNoMemory;
  retired_ = memory;
  seams_ = memory + words();
  changed_ = memory + 2 * words();
  return Status::kOk;
}

size_t PageMarks::find(const Word* bits, size_t from, size_t to, bool inverted) const {
  if (!is_marked_.load(std::memory_order_acquire)) return inverted && from < to ? from : kNone;
  for (size_t page = from; page < to;) {
    uint64_t word = bits[page / kWordBits].load(std::memory_order_acquire);
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

void PageMarks::retire(uintptr_t address, size_t size) {
  set_retired(address, size, !RDM_BROKEN(retired_page_is_found));
  for_each_mask(page_of(address), page_of(address + size), [&](size_t word, uint64_t mask) {
    seams_[word].fetch_and(~mask, std::memory_order_release);
  });
}

void PageMarks::set_retired(uintptr_t address, size_t size, bool retired) {
  set(retired_, address, size, retired);
}

void PageMarks::set_changed(uintptr_t address, size_t size, bool changed) {
  set(changed_, address, size, changed);
  changes_.fetch_add(1, std::memory_order_release);
}

void PageMarks::set(Word* bits, uintptr_t address, size_t size, bool value) {
  is_marked_.store(true, std::memory_order_release);
  for_each_mask(page_of(address), page_of(address + size), [&](size_t word, uint64_t mask) {
    if (value) {
      bits[word].fetch_or(mask, std::memory_order_release);
    } else {
      bits[word].fetch_and(~mask, std::memory_order_release);
    }
  });
}

uintptr_t PageMarks::first_hole(uintptr_t address, uintptr_t end) const {
  const size_t page = find(changed_, page_of(address), page_of(end));
  return first_retired(address, page == kNone ? end : address_of(page));
}

uintptr_t PageMarks::first_whole(uintptr_t address, uintptr_t end) const {
  for (uintptr_t at = address; at < end;) {
    const uintptr_t kept = first_kept(at, end);
    const size_t page = find(changed_, page_of(kept), page_of(end), true);
    at = page == kNone ? end : address_of(page);
    if (at == kept) return at;
  }
  return end;
}

uintptr_t PageMarks::first_retired(uintptr_t address, uintptr_t end) const {
  const size_t page = find(retired_, page_of(address), page_of(end));
  return page == kNone ? end : address_of(page);
}

uintptr_t PageMarks::first_kept(uintptr_t address, uintptr_t end) const {
  const size_t page = find(retired_, page_of(address), page_of(end), true);
  return page == kNone ? end : address_of(page);
}

void PageMarks::mark_seam(uintptr_t address) {
  is_marked_.store(true, std::memory_order_release);
  const size_t page = page_of(address);
  seams_[page / kWordBits].fetch_or(bit_of(page), std::memory_order_release);
}

uintptr_t PageMarks::first_seam(uintptr_t address, uintptr_t end) const {
  const size_t page = find(seams_, page_of(address), page_of(end));
  return page == kNone ? end : address_of(page);
}

}  // namespace rdmalloc
