// The text of a message: a long one uses a shared buffer, and if all are taken it is truncated.
#include "allocator/message.h"

#include <string>

#include "tests/support/catch.h"

namespace rdmalloc {
namespace {

std::string text_of(const Message& message) {
  char text[4096];
  message.copy_to(text, sizeof text);
  return text;
}

const std::string kLong(1000, 'a');

TEST_CASE("several threads' messages at once are whole, and one too many is cut") {
  const std::string too_long(10'000, 'b');
  {
    Message first;
    Message second;
    Message third;
    Message fourth;
    Message fifth;
    for (Message* message : {&first, &second, &third, &fourth, &fifth}) message->add(kLong.c_str());
    CHECK(text_of(fourth) == kLong);
    CHECK(text_of(fifth) == kLong.substr(0, 127));
    CHECK(text_of(first) == kLong);
    first.add(too_long.c_str());
    CHECK(text_of(first).size() == 1535);
    CHECK(text_of(second) == kLong);
  }
  Message next;
  next.add(kLong.c_str());
  CHECK(text_of(next) == kLong);
}

TEST_CASE("sizes and addresses are written as people read them") {
  Message message;
  message.add_size(uint64_t{64} << 10).add(", ").add_size(1000).add(", ").add_size(UINT64_MAX);
  message.add(", ").add_address(reinterpret_cast<void*>(0xab12)).add(", ").add_number(7);
  CHECK(text_of(message) == "64 KiB, 1000 B, unlimited, 0xab12, 7");
}

}  // namespace
}  // namespace rdmalloc
