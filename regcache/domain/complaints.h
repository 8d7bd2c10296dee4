// Why a domain's last registration failed, and the warning of it: once per domain, because later
// failures mostly have the same cause; while the domain is being opened none, because its opener is
// told.
//
// Takes no lock that anybody waits for, except in end_opening(). Any thread, also inside malloc.
#pragma once

#include <atomic>
#include <cstddef>

#include "regcache/domain/region_source.h"

namespace rdmalloc {

class Complaints {
 public:
  static constexpr size_t kLongest = 320;

  constexpr Complaints() = default;
  Complaints(const Complaints&) = delete;
  Complaints& operator=(const Complaints&) = delete;

  // The domain of a device of that name is being opened.
  void begin_opening(const RegionSource* source, const char* device);
  // Opening succeeded. From now on the user is warned, also of a failure that opening tolerated.
  void end_opening();

  void say(const char* why);
  // A sentence, or empty.
  const char* why() const { return why_; }

  // A thread that was setting the message exists only in the parent.
  void note_fork_child() { saying_ = false; }

 private:
  void warn();

  const RegionSource* source_ = nullptr;  // knows whether warnings are wanted
  const char* device_ = nullptr;
  std::atomic<bool> opening_{false};
  std::atomic<bool> warned_{false};
  std::atomic<bool> saying_{false};
  char why_[kLongest] = {};
};

}  // namespace rdmalloc
