#include "allocator/pages/program_holes.h"

#include <algorithm>

#include "allocator/message.h"

namespace rdmalloc {

// Calls visit(region, from, to) for the part of the range in each region.
template <typename Visit>
void ProgramHoles::for_each_part(uintptr_t from, uintptr_t to, Visit visit) {
  Region* const one = store_.regions.find(pointer(from));
  if (one != nullptr && to <= one->end()) {
    if (!one->is_empty()) visit(one, from, to);
    return;
  }
  for (size_t i = 0; i < store_.regions.size(); ++i) {
    Region& region = store_.regions[i];
    if (region.is_empty()) continue;
    const uintptr_t low = std::max(from, region.base);
    const uintptr_t high = std::min(to, region.end());
    if (low < high) visit(&region, low, high);
  }
}

ProgramHoles::Hole ProgramHoles::begin(uintptr_t base, size_t length) {
  const uintptr_t end = length > UINTPTR_MAX - base ? UINTPTR_MAX : base + os::page_ceil(length);
  const uintptr_t window = store_.window.base();
  Hole hole;
  hole.from = std::max(os::page_floor(base), window);
  hole.to = std::min(end, window + store_.window.size());
  if (hole.from >= hole.to) return {};
  Locked hold(store_.mutex());
  for_each_part(hole.from, hole.to,
                [&](Region* region, uintptr_t from, uintptr_t to)
                    REQUIRES(growth_lock) { lose(region, from, to, &hole); });
  store_.budget.shared().record_pinned();
  hole.is_pending = hole.lost != 0;
  pending_ += hole.is_pending ? 1 : 0;
  return hole;
}

// Shut pages stay marked as shut: lookups refuse them anyway, and it is not known yet whether the
// program's call will succeed.
void ProgramHoles::lose(Region* region, uintptr_t from, uintptr_t to, Hole* hole) {
  store_.marks.for_each_kept(from, to, [&](uintptr_t low, uintptr_t high) {
    hole->lost += high - low;
    hole->has_shut = hole->has_shut || store_.marks.is_changed(low, high - low);
  });
  store_.marks.for_each_whole(
      from, to, [&](uintptr_t low, uintptr_t high) REQUIRES(growth_lock) EXCLUDES(depot_lock) {
        const bool is_used = take_away(region, low, high) == 0;
        if (is_used && hole->runs < Hole::kMostRuns) hole->taken[hole->runs++] = {low, high};
      });
  store_.regions.note_hole(from, to - from);
  note(*region);
}

// Returns how many bytes of it were free.
size_t ProgramHoles::take_away(Region* region, uintptr_t from, uintptr_t to) {
  const size_t size = to - from;
  const size_t free = claim(*region, from, to);
  store_.marks.set_changed(from, size, true);
  store_.marks.announce(from, size);
  region->set_retired(region->retired() + size);
  store_.live.remove(region->use, size);
  store_.budget.charges().release(region->charged_as(), size);
  publisher_.note_lost(*region, size);
  return free;
}

void ProgramHoles::note(const Region& region) {
  any_.store(true, std::memory_order_relaxed);
  store_.observers.for_each([&](RegionObserver& observer)
                                REQUIRES(growth_lock) { observer.on_hole(region); });
}

// Marks blocks in the range so that they are given back in parts when freed, and takes the free
// pages. Returns how many bytes were free.
size_t ProgramHoles::claim(const Region& region, uintptr_t from, uintptr_t to) {
  if (region.use == RegionUse::kExtents) return take_free(from, to);
  size_t taken = 0;
  for (uintptr_t at = first_block(region, from); at < to;) {
    const BlockTable::Word word = store_.blocks.get(at);
    const size_t pages = BlockTable::pages_of(word);
    if (pages != 0) {
      store_.blocks.at(at).fetch_or(BlockTable::kApart, std::memory_order_relaxed);
      at += pages * os::page_size();
      continue;
    }
    const uintptr_t free_from = std::max(at, from);
    while (at < to && BlockTable::pages_of(store_.blocks.get(at)) == 0) at += os::page_size();
    if (free_from < at) taken += take_free(free_from, at);
  }
  return taken;
}

// The block that contains the address, or the address itself if no block does.
uintptr_t ProgramHoles::first_block(const Region& region, uintptr_t from) const {
  for (uintptr_t at = from;; at -= os::page_size()) {
    const size_t pages = BlockTable::pages_of(store_.blocks.get(at));
    if (pages != 0) return from - at < pages * os::page_size() ? at : from;
    if (at == region.base) return from;
  }
}

size_t ProgramHoles::take_free(uintptr_t from, uintptr_t to) {
  size_t taken = 0;
  size_t step = to - from;
  for (uintptr_t at = from; at < to;) {
    step = std::min(step, to - at);
    if (store_.depots.take_at(pointer(at), step)) {
      taken += step;
    } else if (step > os::page_size()) {
      step = os::page_ceil(step / 2);
      continue;
    }
    at += step;
    step = to - at;
  }
  return taken;
}

void ProgramHoles::end(const Hole& hole, const char* call) {
  if (!hole.is_pending) return;
  {
    Locked hold(store_.mutex());
    if (hole.has_shut) {
      for_each_part(hole.from, hole.to,
                    [&](Region* region, uintptr_t from, uintptr_t to) REQUIRES(growth_lock) {
                      store_.marks.for_each_kept(
                          from, to,
                          [&](uintptr_t low, uintptr_t high) REQUIRES(growth_lock)
                              EXCLUDES(depot_lock) { (void)take_away(region, low, high); });
                    });
      store_.budget.shared().record_pinned();
    }
    end_call();
  }
  lost_.fetch_add(hole.lost, std::memory_order_relaxed);
  tell(hole, call);
}

void ProgramHoles::undo(const Hole& hole) {
  if (!hole.is_pending) return;
  Locked hold(store_.mutex());
  for (size_t i = 0; i < hole.runs; ++i) regain(hole.taken[i]);
  end_call();
}

// One more call has ended or was undone. A region without pages is dropped only when no pending
// call can give it any back.
void ProgramHoles::end_call() {
  if (--pending_ != 0) return;
  for (size_t i = 0; i < store_.regions.size(); ++i) {
    Region& region = store_.regions[i];
    const bool is_there = store_.regions.find(pointer(region.base)) == &region;
    if (region.is_empty() && is_there) publisher_.note_destroyed(&region);
  }
}

void ProgramHoles::regain(const Run& run) {
  Region* const region = store_.regions.find(pointer(run.from));
  if (region == nullptr) return;  // its other pages were all gathered meanwhile
  const size_t size = run.to - run.from;
  store_.marks.recall(run.from, size);
  store_.marks.set_changed(run.from, size, false);
  region->set_retired(region->retired() - size);
  store_.live.add(region->use, size);
  store_.budget.charges().charge(region->charged_as(), size);
  publisher_.note_regained(*region, size);
}

// CPU caches do not keep blocks that are shut; shut small objects are looked at when they are
// freed.
void ProgramHoles::shut(uintptr_t base, size_t length) {
  const uintptr_t end = base + os::page_ceil(length);
  Locked hold(store_.mutex());
  for_each_part(base, end, [&](Region* region, uintptr_t from, uintptr_t to) REQUIRES(growth_lock) {
    store_.marks.for_each_kept(from, to, [&](uintptr_t low, uintptr_t high) REQUIRES(growth_lock) {
      if (region->use != RegionUse::kExtents) {
        for (uintptr_t block = first_block(*region, low); block < high;) {
          const size_t pages = BlockTable::pages_of(store_.blocks.get(block));
          if (pages != 0) {
            store_.blocks.at(block).fetch_or(BlockTable::kApart, std::memory_order_relaxed);
          }
          block += std::max<size_t>(pages, 1) * os::page_size();
        }
      }
      store_.marks.set_changed(low, high - low, true);
    });
    note(*region);
  });
}

void ProgramHoles::open(uintptr_t base, size_t length) {
  if (!has(pointer(base), length)) return;
  const uintptr_t end = base + os::page_ceil(length);
  Locked hold(store_.mutex());
  for_each_part(base, end, [&](Region*, uintptr_t from, uintptr_t to) REQUIRES(growth_lock) {
    store_.marks.for_each_kept(from, to, [&](uintptr_t low, uintptr_t high) REQUIRES(growth_lock) {
      store_.marks.set_changed(low, high - low, false);
    });
  });
}

void ProgramHoles::reopen(uintptr_t base, size_t length) {
  store_.marks.for_each_kept(base, base + length, [&](uintptr_t from, uintptr_t to) {
    if (!store_.marks.is_changed(from, to - from)) return;
    if (os::make_accessible(pointer(from), to - from)) {
      open(from, to - from);
    } else {
      end(begin(from, to - from), "mprotect");
    }
  });
}

void ProgramHoles::tell(const Hole& hole, const char* call) {
  if (!store_.options.on(OptionId::warn) || has_told_.exchange(true)) return;
  Message message;
  message.add("rdmalloc: the program's ").add(call).add(" at ").add_address(pointer(hole.from));
  message.add(" has unmapped or replaced ").add_size(hole.lost);
  message.add(" of what malloc returned: these pages are not registered any more, lookups refuse ");
  message.add("them, and malloc never returns them again (RDMALLOC_WARN=off silences this)");
  message.send();
}

}  // namespace rdmalloc
