// A cache of foreign memory under random operations, and a naive model of what it promises: which
// registrations exist, who uses them, when they were last used, and which may be found again. The
// caller supplies the randomness, so a generator or a fuzzer can drive it. One thread.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/support/foreign_fixture.h"

namespace rdmalloc::fake {

class ForeignModel {
 public:
  // A number below the given one, which must not be zero.
  using Choose = std::function<uint32_t(uint32_t below)>;

  explicit ForeignModel(Choose choose);
  ForeignModel(const ForeignModel&) = delete;
  ForeignModel& operator=(const ForeignModel&) = delete;

  // Performs one operation and checks everything after it.
  void step();
  // Returns everything and closes: nothing may remain.
  void finish();

  // The first broken promise, or empty.
  const std::string& broken() const { return broken_; }

  // How often the cases that a run is meant to reach occurred.
  struct Seen {
    uint64_t hits = 0, built = 0, refused = 0, unions = 0, evicted = 0, changed = 0, shared = 0;
  };
  const Seen& seen() const { return seen_; }

 private:
  // What the model knows of a registration that the device has.
  struct Known {
    uint32_t users = 1;  // a registration is made for one user
    bool can_be_found = false;
    bool is_stuck = false;                // deregistering it failed
    uint64_t used_from = 0, used_to = 0;  // last use, bracketed in ticks of clock_
  };
  // The bytes requested, and the whole units that hold them.
  struct Request {
    uintptr_t at, end;
    uintptr_t base, top;
  };

  void break_promise(const char* what);
  void open_anew();
  Request choose_range();
  void get();
  void put();
  void put_again();
  void change();
  void close();
  void fork();
  void change_pages(size_t first, size_t count, const std::function<void()>& meanwhile);
  void note_before(uintptr_t base, size_t length);
  void note_made(Registration& made);
  void note_gone(Registration& one);
  void note_changed(uintptr_t base, uintptr_t end);
  void note_looked_at();
  void check_order(const Registration& victim, const Known& its);
  void check_got(const Request& request, const rdm_mr& mr, Registration* expected, uint64_t calls);
  void check_refused(const Request& request, int status);
  void check_books();
  Registration* find(const Request& request);
  std::pair<uintptr_t, uintptr_t> united(const Request& request);
  bool is_unlimited() const;

  Choose choose_;
  ForeignFixture f_;
  std::map<Registration*, Known> known_;
  std::vector<rdm_mr> held_;
  std::vector<rdm_mr> past_;
  uint64_t clock_ = 1;  // gets that reached the device

  // The get in progress.
  Request request_{};
  bool has_ticked_ = false;
  uint64_t made_from_ = 0;  // the first number that it may give a registration
  std::array<uint32_t, Pages::kCount> versions_{};
  uintptr_t building_ = 0, building_end_ = 0;
  bool build_changed_ = false;
  bool was_faulted_ = false;

  // Pending faults, and an announced change.
  bool change_before_ = false, change_after_ = false;
  uintptr_t announced_ = 0, announced_end_ = 0;

  std::string broken_;
  Seen seen_;
};

}  // namespace rdmalloc::fake
