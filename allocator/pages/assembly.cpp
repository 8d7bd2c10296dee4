#include "allocator/pages/assembly.h"

#include <string.h>

#include <algorithm>

namespace rdmalloc {
namespace {

constexpr int kOpeningTries = 100;

}  // namespace

// Does everything that can fail before the first page moves: records, addresses, new pages.
Region Assembly::prepare(const Request& request, const RegionPlan& plan, const Block* block) {
  Region region = gathering_.model();
  region.use = request.use;
  region.node = static_cast<int16_t>(request.node);
  region.by_touch = maker_.is_by_touch(request.use);
  region.exposed = request.use == RegionUse::kExposed;
  const size_t fresh = ask_fresh(region, request, plan);
  if (fresh == kRefused) return {};
  region.length = gathering_.pieces().bytes() + fresh;
  return lay_out(&region, request, plan.kind, block) ? region : Region{};
}

// Asks for new pages to add to the gathered ones. kRefused: fewer were granted than are needed.
size_t Assembly::ask_fresh(const Region& region, const Request& request, const RegionPlan& plan) {
  const size_t collected = gathering_.pieces().bytes();
  if (request.size + plan.room <= collected) return 0;
  const size_t needed = os::less(request.size, collected);
  const size_t wanted = plan.bytes - collected;
  const Grant grant = region.locked ? store_.budget.ask_pinned(needed, wanted)
                                    : store_.budget.ask_overflow(needed, wanted);
  return grant.bytes < needed ? kRefused : grant.bytes;
}

// A block keeps its offset within a huge page, so that the kernel can move whole page tables.
bool Assembly::lay_out(Region* region, const Request& request, os::PageKind kind,
                       const Block* block) {
  const size_t shift = block == nullptr ? 0 : block->address % Window::kGranule;
  const size_t alignment =
      kind != os::PageKind::kBase && block == nullptr ? os::page_size_of(kind) : 0;
  void* const carved =
      maker_.carve(request.use, shift + region->length, std::max(request.alignment, alignment));
  if (carved == nullptr) return false;
  const size_t collected = gathering_.pieces().bytes();
  void* const base = static_cast<char*>(carved) + shift;
  region->base = reinterpret_cast<uintptr_t>(base);
  // If the kernel refuses to move part of a program's block, the bytes are copied to these pages.
  const bool has_places = block == nullptr || ok(os::open(base, collected, os::PageKind::kBase));
  if (has_places && store_.make_room(*region) && maker_.extend(region, collected, kind))
    return true;
  os::close(base, region->length);
  give_back_addresses(*region);
  return false;
}

void Assembly::give_back_addresses(const Region& region) {
  const size_t shift = region.base % Window::kGranule;
  store_.window.give_back(pointer(region.base - shift), shift + region.length);
}

// Settles the region's state once `moved` bytes of it have been moved.
void Assembly::finish(Result* result, size_t moved, size_t collected, const Block* block) {
  Region& region = result->region;
  if (mover_.lost_locks()) {
    os::unlock(pointer(region.base), region.length);
    region.locked = false;
    store_.budget.charges().note_unlocked(moved);
  }
  if (moved < collected && block != nullptr && moved != 0) {
    mend_block(region, *block, moved, collected);
    result->charged += collected - moved;
  } else if (moved < collected) {
    os::close(pointer(region.base + moved), region.length - moved);
    if (moved == 0) give_back_addresses(region);
    region.length = moved;
    result->charged = result->fresh = 0;
  }
  region.fresh_to = region.end();
  region.fresh_from = region.end() - result->fresh;
  if (moved == collected) region.fresh_from -= gathering_.pieces().clean();
}

// The kernel refused to move part of the program's block: copies the rest into new pages, which
// were not charged to any budget.
void Assembly::mend_block(const Region& region, const Block& block, size_t moved,
                          size_t collected) {
  void* const rest = pointer(region.base + moved);
  // These pages were opened before; the refusal may have taken them away. Retried, because the
  // kernel may be short of memory for a moment and the program's bytes have nowhere else to go.
  for (int i = 0; i < kOpeningTries && !ok(os::open(rest, collected - moved, os::PageKind::kBase));
       ++i) {
  }
  if (region.locked) (void)os::lock_on_fault(rest, collected - moved);
  if (moved >= block.size) return;
  memcpy(rest, pointer(block.address + moved), block.size - moved);
  const Region& left = *store_.regions.find(pointer(block.address + moved));
  (void)store_.depots.of(left).give_back(pointer(block.address + moved), block.size - moved);
}

}  // namespace rdmalloc
