#include "tests/support/foreign_model.h"

#include <algorithm>

#include "allocator/os/memory.h"

namespace rdmalloc::fake {
namespace {

constexpr size_t kMostHeld = 12;
constexpr size_t kPage = Pages::kSize;

}  // namespace

ForeignModel::ForeignModel(Choose choose) : choose_(std::move(choose)) {
  f_.device.before = [this](uintptr_t base, size_t length) { note_before(base, length); };
  f_.device.after = [this](Registration& made) { note_made(made); };
  f_.device.gone = [this](Registration& one) { note_gone(one); };
  f_.device.kept = [this](Registration& one) {
    const auto found = known_.find(&one);
    if (found == known_.end()) return;
    if (found->second.can_be_found) note_looked_at();
    found->second.is_stuck = true;
    found->second.can_be_found = false;
  };
  open_anew();
}

void ForeignModel::break_promise(const char* what) {
  if (broken_.empty()) broken_ = what;
}

// Picks one of the four modes, and device properties at random.
void ForeignModel::open_anew() {
  f_.device.unit = kPage << (choose_(4) == 0 ? choose_(3) : 0);
  f_.device.longest = choose_(4) == 0 ? (8 + 4 * choose_(8)) * kPage : SIZE_MAX;
  f_.device.refuses_overlaps = choose_(3) == 0;
  f_.device.runs_in_malloc = choose_(2) == 0;
  f_.device.room_count = choose_(4) == 0 ? 1 + choose_(6) : SIZE_MAX;
  f_.device.room_bytes = choose_(4) == 0 ? (4 + choose_(60)) * kPage : SIZE_MAX;
  f_.settings.limits.leave_pinned = choose_(3) != 0;
  f_.settings.limits.count = choose_(2) == 0 ? 1 + choose_(8) : 0;
  f_.settings.limits.bytes = choose_(2) == 0 ? (4 + choose_(60)) * kPage : UINT64_MAX;
  f_.open();
}

void ForeignModel::step() {
  was_faulted_ = false;
  const uint32_t what = choose_(100);
  if (what < 42) {
    get();
  } else if (what < 72) {
    put();
  } else if (what < 80) {
    change();
  } else if (what < 84) {
    put_again();
  } else if (what < 86) {
    (void)f_.cache->idle().give_up((1 + choose_(16)) * kPage);
    note_looked_at();
  } else if (what < 88) {
    f_.cache->idle().deregister();
  } else if (what < 91) {
    f_.device.fail_status = choose_(2) == 0 ? RDM_SYSTEM : RDM_OUT_OF_BUDGET;
    f_.device.fail_in = 1;
    was_faulted_ = true;
    get();
    f_.device.fail_in = 0;
  } else if (what < 94) {
    (choose_(2) == 0 ? change_before_ : change_after_) = true;
    get();
    change_before_ = change_after_ = false;
  } else if (what < 95) {
    monitor.can_watch = choose_(3) != 0;
  } else if (what < 96) {
    f_.device.keep = choose_(2) == 0 ? 1 : 0;
  } else if (what < 99) {
    close();
  } else {
    fork();
  }
  check_books();
}

ForeignModel::Request ForeignModel::choose_range() {
  const size_t first = choose_(Pages::kCount);
  const size_t most = std::min<size_t>(Pages::kCount - first, choose_(8) == 0 ? 64 : 8);
  const size_t pages = 1 + choose_(static_cast<uint32_t>(most));
  Request request{};
  request.at = Pages::number(first) + (choose_(2) == 0 ? 0 : choose_(kPage));
  request.end = Pages::number(first + pages) - (choose_(2) == 0 ? 0 : choose_(kPage));
  if (request.end <= request.at) request.end = request.at + 1;
  request.base = os::align_down(request.at, f_.device.unit);
  request.top = os::align_up(request.end, f_.device.unit);
  return request;
}

Registration* ForeignModel::find(const Request& request) {
  for (auto& [one, its] : known_) {
    if (its.can_be_found && one->covers(request.at, request.end)) return one;
  }
  return nullptr;
}

std::pair<uintptr_t, uintptr_t> ForeignModel::united(const Request& request) {
  std::pair<uintptr_t, uintptr_t> range{request.base, request.top};
  if (!f_.settings.limits.leave_pinned) return range;
  for (auto& [one, its] : known_) {
    if (!its.can_be_found || !one->overlaps(request.base, request.top)) continue;
    range = {std::min(range.first, one->base), std::max(range.second, one->end())};
  }
  return range;
}

bool ForeignModel::is_unlimited() const {
  const ForeignDevice& device = f_.device;
  return f_.settings.limits.count == 0 && f_.settings.limits.bytes == UINT64_MAX &&
         device.room_count == SIZE_MAX && device.room_bytes == SIZE_MAX &&
         device.longest == SIZE_MAX && !device.refuses_overlaps;
}

void ForeignModel::get() {
  if (held_.size() >= kMostHeld) return put();
  const Request request = choose_range();
  request_ = request;
  has_ticked_ = false;
  building_ = building_end_ = 0;
  for (size_t page = 0; page < Pages::kCount; ++page) versions_[page] = f_.pages.version(page);
  Registration* const expected = find(request);
  const auto [base, end] = united(request);
  const bool changes_meanwhile = change_before_ || change_after_;
  const uint64_t calls = f_.device.calls();
  uint64_t last = 0;
  for (const auto& [one, its] : known_) last = std::max(last, one->number);
  made_from_ = last + 1;
  rdm_mr mr{};
  new_last_error()[0] = '\0';
  const int status = f_.get(reinterpret_cast<void*>(request.at), request.end - request.at, &mr);
  request_ = {};
  if (status != RDM_OK) {
    if (expected != nullptr) break_promise("what was there to be found was refused");
    return check_refused(request, status);
  }
  check_got(request, mr, expected, calls);
  const Registration& got = Registration::of(mr);
  if (expected == nullptr && is_unlimited() && !was_faulted_ && !changes_meanwhile &&
      (got.base != base || got.end() != end)) {
    break_promise("ranges that overlap did not become one, or others did");
  }
  seen_.unions += got.base != request.base || got.end() != request.top ? 1 : 0;
}

void ForeignModel::check_got(const Request& request, const rdm_mr& mr, Registration* expected,
                             uint64_t calls) {
  Registration* const got = &Registration::of(mr);
  const auto found = known_.find(got);
  if (found == known_.end() || !got->is_registered) {
    return break_promise("what was given out is not registered");
  }
  if (reinterpret_cast<uintptr_t>(mr.base) != got->base || mr.length != got->length ||
      mr.lkey != got->number) {
    break_promise("what was given out is not what was registered");
  }
  if (!got->covers(request.at, request.end)) break_promise("what was asked for is not covered");
  for (size_t page = 0; page < Pages::kCount; ++page) {
    if (got->covers(Pages::number(page), Pages::number(page + 1)) &&
        got->seen[page] < versions_[page]) {
      break_promise("given out again after its memory changed");
    }
  }
  if (expected != nullptr && (got != expected || calls != f_.device.calls())) {
    break_promise("registered what was registered");
  }
  if (expected == nullptr && got->number < made_from_) break_promise("found what cannot be found");
  Known& its = found->second;
  if (expected != nullptr) {
    ++seen_.hits;
    seen_.shared += its.users != 0 ? 1 : 0;
    ++its.users;
    its.used_from = its.used_to = clock_;
  }
  held_.push_back(mr);
}

// Checks that a refusal was justified: the range could not be had.
void ForeignModel::check_refused(const Request& request, int status) {
  ++seen_.refused;
  note_looked_at();
  if (last_error()[0] == '\0') break_promise("refused without a sentence");
  if (was_faulted_) return;
  const size_t length = request.top - request.base;
  if (status == RDM_UNSUPPORTED) {
    if (length <= f_.device.longest) break_promise("unsupported though short enough");
    return;
  }
  size_t in_the_way = 0;
  size_t count = 0;
  size_t bytes = 0;
  for (const auto& [one, its] : known_) {
    if (its.users == 0 && !its.is_stuck && length <= f_.settings.limits.bytes &&
        (status == RDM_OUT_OF_BUDGET || one->overlaps(request.base, request.top))) {
      break_promise("refused though something could be given up for it");
    }
    in_the_way += one->overlaps(request.base, request.top) ? 1 : 0;
    ++count;
    bytes += one->length;
  }
  const CacheLimits& limits = f_.settings.limits;
  if (status == RDM_BUSY) {
    if (!f_.device.refuses_overlaps || in_the_way == 0) break_promise("busy though nothing is");
  } else if (status == RDM_OUT_OF_BUDGET) {
    const size_t most =
        std::min<size_t>(limits.count == 0 ? SIZE_MAX : limits.count, f_.device.room_count);
    const size_t most_bytes = std::min<size_t>(limits.bytes, f_.device.room_bytes);
    if (count < most && bytes + length <= most_bytes) break_promise("refused though there is room");
  } else {
    break_promise("refused for no reason");
  }
}

void ForeignModel::put() {
  if (held_.empty()) return;
  const size_t which = choose_(static_cast<uint32_t>(held_.size()));
  const rdm_mr mr = held_[which];
  held_[which] = held_.back();
  held_.pop_back();
  Registration* const one = &Registration::of(mr);
  Known& its = known_[one];
  const bool is_last = --its.users == 0;
  const bool stays = its.can_be_found && f_.settings.limits.leave_pinned;
  if (f_.put(mr) != RDM_OK) break_promise("a put was refused");
  if (!is_last) return;
  past_.push_back(mr);
  if (past_.size() > 32) past_.erase(past_.begin());
  const auto found = known_.find(one);
  if (stays && found == known_.end()) break_promise("what is left pinned ended with its last put");
  if (!stays && found != known_.end() && !found->second.is_stuck) {
    break_promise("what is not kept outlived its last put");
  }
}

void ForeignModel::put_again() {
  if (past_.empty()) return;
  const rdm_mr mr = past_[choose_(static_cast<uint32_t>(past_.size()))];
  const auto found = known_.find(&Registration::of(mr));
  if (found != known_.end() && found->second.users != 0) return;
  if (f_.put(mr) != RDM_INVALID) break_promise("what is not out was taken back");
}

void ForeignModel::change() {
  const size_t first = choose_(Pages::kCount);
  const size_t count = 1 + choose_(static_cast<uint32_t>(Pages::kCount - first));
  std::function<void()> meanwhile;
  if (choose_(4) == 0) meanwhile = [this] { get(); };
  change_pages(first, choose_(2) == 0 ? 1 : count, meanwhile);
}

void ForeignModel::change_pages(size_t first, size_t count,
                                const std::function<void()>& meanwhile) {
  const uintptr_t base = Pages::number(first);
  const uintptr_t end = Pages::number(first + count);
  note_changed(base, end);
  f_.pages.change(first, count, [&] {
    // The cache was told of the change: its idle registrations must be gone, unless the device may
    // only be called elsewhere.
    for (auto& [one, its] : known_) {
      if (one->overlaps(base, end) && its.users == 0 && !its.is_stuck && f_.device.runs_in_malloc) {
        break_promise("idle, changed and registered still");
      }
    }
    announced_ = base;
    announced_end_ = end;
    if (meanwhile) meanwhile();
    announced_ = announced_end_ = 0;
  });
}

void ForeignModel::note_changed(uintptr_t base, uintptr_t end) {
  for (auto& [one, its] : known_) {
    if (!one->overlaps(base, end)) continue;
    seen_.changed += its.can_be_found ? 1 : 0;
    its.can_be_found = false;
  }
  if (building_ < end && base < building_end_) build_changed_ = true;
}

void ForeignModel::note_before(uintptr_t base, size_t length) {
  if (!has_ticked_) ++clock_;
  has_ticked_ = true;
  if (base != building_ || base + length != building_end_) {
    building_ = base;
    building_end_ = base + length;
    build_changed_ = announced_ < building_end_ && building_ < announced_end_;
  }
  if (!change_before_) return;
  change_before_ = false;
  change_pages(choose_(Pages::kCount), 1, {});
}

void ForeignModel::note_made(Registration& made) {
  ++seen_.built;
  if (change_after_) {
    change_after_ = false;
    change_pages(choose_(Pages::kCount), 1, {});
  }
  bool fits = true;
  for (auto& [one, its] : known_) {
    if (!its.can_be_found || !one->overlaps(made.base, made.end())) continue;
    fits = fits && f_.settings.limits.leave_pinned && made.covers(one->base, one->end());
  }
  const bool can_be_found = fits && !build_changed_ && monitor.can_watch;
  if (can_be_found) {
    for (auto& [one, its] : known_) {
      if (one->overlaps(made.base, made.end())) its.can_be_found = false;
    }
  }
  Known its;
  its.can_be_found = can_be_found;
  its.used_from = its.used_to = clock_;
  known_[&made] = its;
}

void ForeignModel::note_gone(Registration& one) {
  const auto found = known_.find(&one);
  if (found == known_.end()) return break_promise("deregistered what nobody knows");
  if (found->second.users != 0) break_promise("deregistered in use");
  // A registration in the way of a get goes first, however recently it was used.
  const bool in_the_way = request_.top != 0 && one.overlaps(request_.base, request_.top);
  if (in_the_way) {
    // It may also have been its turn.
    note_looked_at();
  } else if (found->second.can_be_found && f_.settings.limits.leave_pinned) {
    check_order(one, found->second);
  }
  known_.erase(found);
}

// Eviction is least recently used first; a registration in use counts as used whenever the cache
// looks at it.
void ForeignModel::check_order(const Registration& victim, const Known& its) {
  ++seen_.evicted;
  for (auto& [other, others] : known_) {
    if (other == &victim || !others.can_be_found) continue;
    if (others.users == 0) {
      if (others.used_to < its.used_from) break_promise("not the least recently used was given up");
    } else {
      if (others.used_to < its.used_from) others.used_from = clock_;
      others.used_to = clock_;
    }
  }
}

// The cache looked for a victim: registrations in use may now count as used.
void ForeignModel::note_looked_at() {
  for (auto& [one, its] : known_) {
    if (its.users != 0) its.used_to = clock_;
  }
}

void ForeignModel::close() {
  uint32_t in_use = 0;
  for (auto& [one, its] : known_) {
    in_use += its.users != 0 ? 1 : 0;
    // Closing releases them in any order.
    if (its.users == 0) its.can_be_found = false;
  }
  const int status = f_.close();
  if ((status == RDM_BUSY) != (in_use != 0)) break_promise("busy or not: close() is wrong");
  if (status == RDM_BUSY) {
    if (f_.users != in_use) break_promise("close() counts users wrongly");
    return;
  }
  if ((status == RDM_SYSTEM) != (f_.device.count() != 0)) {
    break_promise("lost or not: close() is wrong");
  }
  if (f_.cache->count() != 0 || f_.cache->bytes() != 0) break_promise("closed, and counts on");
  if (changes.counts().may_have(Pages::number(0), Pages::number(Pages::kCount))) {
    break_promise("closed, and changes are told still");
  }
  rdm_mr mr{};
  if (f_.get_pages(0, 1, &mr) != RDM_INVALID) break_promise("closed, and gives out");
  f_.device.forget_all();
  known_.clear();
  open_anew();
}

void ForeignModel::fork() {
  f_.device.forget_all();
  changes.note_fork_child();
  f_.cache->note_fork_child();
  known_.clear();
  past_.insert(past_.end(), held_.begin(), held_.end());
  held_.clear();
  rdm_mr mr{};
  if (f_.get_pages(0, 1, &mr) != RDM_INVALID) break_promise("a child gives out the parent's");
  open_anew();
}

void ForeignModel::check_books() {
  if (f_.cache->count() != f_.device.count()) break_promise("counts another number than there are");
  if (f_.cache->bytes() != f_.device.bytes()) break_promise("counts other bytes than there are");
  if (!f_.cache->validate()) break_promise("the cache does not validate");
  const auto violations = f_.device.violations();
  if (!violations.empty()) break_promise(violations.front().c_str());
}

void ForeignModel::finish() {
  while (!held_.empty()) put();
  f_.device.keep = 0;
  close();
  check_books();
}

}  // namespace rdmalloc::fake
