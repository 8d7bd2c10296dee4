// The warnings of growth, each printed once: memory is not pinned from here on, the window is used
// up, the machine's ledger does not work.
//
// Runs inside malloc: a message is one write.
#pragma once

#include <cstdint>

#include "allocator/limits/budget.h"
#include "allocator/limits/options.h"
#include "allocator/mutex.h"
#include "allocator/pages/window.h"

namespace rdmalloc {

class GrowthWarnings {
 public:
  constexpr GrowthWarnings(const Options& options, const Budget& budget, const Window& window)
      : options_(options), budget_(budget), window_(window) {}
  GrowthWarnings(const GrowthWarnings&) = delete;
  GrowthWarnings& operator=(const GrowthWarnings&) = delete;

  // Warns if the ledger has failed: it is not used from then on.
  void warn_of_ledger() REQUIRES(growth_lock);
  // Warns if the window has no room for `wanted` more bytes.
  void warn_of_window(size_t wanted) REQUIRES(growth_lock);
  void warn_of_overflow() REQUIRES(growth_lock);

 private:
  enum Warning : uint32_t { kOfOverflow = 1, kOfLedger = 2, kOfWindow = 4 };

  bool may_warn(Warning of) REQUIRES(growth_lock);

  const Options& options_;
  const Budget& budget_;
  const Window& window_;
  uint32_t warned_ GUARDED_BY(growth_lock) = 0;  // of what, by bit
};

}  // namespace rdmalloc
