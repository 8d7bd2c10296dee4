// libFuzzer: bytes are operations on the cache of foreign memory, checked against its model.
#include <cstdio>
#include <cstdlib>

#include "tests/support/foreign_model.h"

namespace {

class Bytes {
 public:
  Bytes(const uint8_t* next, size_t count) : next_(next), end_(next + count) {}

  bool are_left() const { return next_ != end_; }
  uint32_t below(uint32_t limit) {
    uint32_t number = take();
    if (limit > 256) number = number << 8 | take();
    return number % limit;
  }

 private:
  uint32_t take() { return are_left() ? *next_++ : 0; }

  const uint8_t* next_;
  const uint8_t* end_;
};

void require_unbroken(const rdmalloc::fake::ForeignModel& model) {
  if (model.broken().empty()) return;
  fprintf(stderr, "broken promise: %s\n", model.broken().c_str());
  abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Bytes bytes(data, size);
  rdmalloc::fake::ForeignModel model([&](uint32_t limit) { return bytes.below(limit); });
  while (bytes.are_left()) {
    model.step();
    require_unbroken(model);
  }
  model.finish();
  require_unbroken(model);
  return 0;
}
