// What becomes of blocks that have no owner any more: their pages go back to the depot of the node
// they lie on, in parts where the program made holes in them. Empties the processors' caches in the
// same way.
//
// Called inside malloc, with no lock held but jemalloc's, by any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "allocator/pages/growth.h"
#include "allocator/pages/page_store.h"
#include "allocator/pages/program_holes.h"

namespace rdmalloc {

class FreedBlocks {
 public:
  constexpr FreedBlocks(PageStore& store, Growth& growth, ProgramHoles& holes)
      : store_(store), growth_(growth), holes_(holes) {}
  FreedBlocks(const FreedBlocks&) = delete;
  FreedBlocks& operator=(const FreedBlocks&) = delete;

  // The node that the pages of a block lie on. Asks the kernel once per block, however often a
  // cache takes it and gives it back.
  int node_of(uintptr_t start, size_t pages);

  // Gives back a block, or the end of one.
  void give_back(uintptr_t start, size_t size) { give_back(start, size, nullptr, nullptr); }
  void give_back(CpuCaches::Block block) {
    give_back(store_.blocks.address_of(block.page), block.pages * os::page_size());
  }
  // Gives back a cached block, and takes pages for the request, if there are such then.
  Taken exchange(CpuCaches::Block block, const Request& request);
  // The same for one that the program may have made holes in: the remaining runs, one by one.
  void give_back_apart(uintptr_t start, size_t size);

  // Gives back what the processors' caches keep. `patient`: all of it.
  void drain(bool patient);
  // Gives back what they keep until that is enough for the request; `keeps_untouched`: or until a
  // block was not touched.
  Taken drain_for(const Request& request, bool keeps_untouched);

  // True when nobody has touched a cached block, judged by its first page. Where the last one asked
  // about was touched, most are taken for touched, because asking costs as much as some mallocs.
  bool is_untouched(CpuCaches::Block block);

 private:
  void give_back(uintptr_t start, size_t size, const Request* request, Taken* taken);

  PageStore& store_;
  Growth& growth_;
  ProgramHoles& holes_;
  std::atomic<uint32_t> not_to_ask_about_{0};  // so many more blocks
};

}  // namespace rdmalloc
