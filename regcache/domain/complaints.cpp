#include "regcache/domain/complaints.h"

#include <string.h>

#include "allocator/message.h"

namespace rdmalloc {

void Complaints::begin_opening(const RegionSource* source, const char* device) {
  source_ = source;
  device_ = device;
  why_[0] = '\0';
  opening_ = true;
  warned_ = false;
}

void Complaints::end_opening() {
  opening_ = false;
  // Another thread is setting the message, which does not take long.
  while (saying_.exchange(true, std::memory_order_acquire)) {
  }
  if (why_[0] != '\0') warn();
  saying_.store(false, std::memory_order_release);
}

void Complaints::say(const char* why) {
  if (saying_.exchange(true, std::memory_order_acquire)) return;
  strncpy(why_, why, sizeof why_ - 1);
  if (!opening_) warn();
  saying_.store(false, std::memory_order_release);
}

// Call with saying_ held.
void Complaints::warn() {
  if (!source_->warns() || warned_.exchange(true)) return;
  Message()
      .add("rdmalloc: memory could not be registered with ")
      .add(device_)
      .add(": ")
      .add(why_)
      .add(" (RDMALLOC_WARN=off silences this)")
      .send();
}

}  // namespace rdmalloc
