// A lookup's claim to register an early part, so that others which want the same part do not
// register it, too: they wait for the claim's end, then find the part.
//
// No lock: nobody waits for a claim to another part, and after a second, because a driver may hang,
// the part is registered a second time after all. Any thread that has entered the domain, not
// inside malloc.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "allocator/os/futex.h"
#include "allocator/os/memory.h"
#include "regcache/domain/early_parts.h"
#include "regcache/domain/in_backend.h"

namespace rdmalloc {

// Of one domain: a few words, which parts share. If two parts want the same word at once, which is
// rare, the second goes unclaimed.
class EarlyClaims {
 public:
  constexpr EarlyClaims() = default;
  EarlyClaims(const EarlyClaims&) = delete;
  EarlyClaims& operator=(const EarlyClaims&) = delete;

  // 0, or the number of the claimed part.
  std::atomic<uint32_t>& word_for(uintptr_t base) {
    return words_[base / EarlyParts::kUnit % kWords];
  }

  // In the child of a fork: the threads that claimed are gone.
  void clear() {
    for (std::atomic<uint32_t>& word : words_) word = 0;
  }

 private:
  static constexpr size_t kWords = 16;
  std::atomic<uint32_t> words_[kWords] = {};
};

class [[nodiscard]] EarlyClaim {
 public:
  // For the part that begins at `base`. Look for the part again afterwards: another thread may have
  // registered it meanwhile.
  EarlyClaim(EarlyClaims& claims, uintptr_t base) : word_(claims.word_for(base)) {
    if (InBackend::is_here) return;  // the claim may be this thread's
    const auto number = static_cast<uint32_t>(base / os::page_size()) | 1;  // 0 would be no claim
    os::wait_a_second(word_, [&](uint32_t seen) {
      is_mine_ = seen == 0 && word_.compare_exchange_strong(seen, number);
      return is_mine_ || (seen != 0 && seen != number);
    });
  }
  ~EarlyClaim() {
    if (!is_mine_) return;
    word_ = 0;
    os::wake_all(word_);
  }
  EarlyClaim(const EarlyClaim&) = delete;
  EarlyClaim& operator=(const EarlyClaim&) = delete;

 private:
  std::atomic<uint32_t>& word_;
  bool is_mine_ = false;
};

}  // namespace rdmalloc
