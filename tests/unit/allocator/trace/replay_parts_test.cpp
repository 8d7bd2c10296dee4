// The parts of a replay: patterns in blocks, the table of objects, and traces as text.
#include <cstring>
#include <string>
#include <vector>

#include "allocator/os/page_size.h"
#include "allocator/trace/block_pattern.h"
#include "allocator/trace/object_table.h"
#include "allocator/trace/text_format.h"
#include "tests/support/containing.h"

namespace rdmalloc::trace {

TEST_CASE("a pattern is found where it was written, wherever the block lies") {
  std::vector<char> memory(300);
  for (size_t offset = 0; offset < 9; ++offset) {
    for (uint64_t size = 0; size < 70; ++size) {
      char* block = memory.data() + offset;
      write_pattern(block, 0, size, 5);
      char* moved = memory.data() + 150;
      memcpy(moved, block, size);
      REQUIRE(has_pattern(moved, size, 5));
      // After growth the pattern is continued from any byte, and the whole matches.
      for (uint64_t from = 0; from <= size; ++from) {
        memset(moved + from, 0, size - from);
        write_pattern(moved, from, size, 5);
        REQUIRE(has_pattern(moved, size, 5));
      }
    }
  }
}

TEST_CASE("a pattern is missed when any bit of it is other, and with another seed") {
  char block[43];
  write_pattern(block, 0, sizeof block, 77);
  for (size_t bit = 0; bit < sizeof block * 8; ++bit) {
    block[bit / 8] = static_cast<char>(block[bit / 8] ^ 1 << bit % 8);
    REQUIRE(!has_pattern(block, sizeof block, 77));
    block[bit / 8] = static_cast<char>(block[bit / 8] ^ 1 << bit % 8);
  }
  REQUIRE(has_pattern(block, sizeof block, 77));
  REQUIRE(!has_pattern(block, sizeof block, 78));
  REQUIRE(!is_zero(block, sizeof block));
}

TEST_CASE("a pattern stays within its block, and touching writes to each page once") {
  const size_t unit = os::page_size();
  std::vector<char> memory(5 * unit);
  write_pattern(memory.data() + 3, 2, 21, 1);
  for (size_t i = 0; i < memory.size(); ++i) {
    if (i < 5 || i >= 24) REQUIRE(memory[i] == 0);
  }
  std::fill(memory.begin(), memory.end(), 0);
  REQUIRE(is_zero(memory.data(), memory.size()));
  char* page = memory.data() + unit - reinterpret_cast<uintptr_t>(memory.data()) % unit;
  touch_pages(page, 100, 2 * unit + 1);
  REQUIRE(page[100] == 1);
  REQUIRE(page[unit] == 1);
  REQUIRE(page[2 * unit] == 1);
  REQUIRE(page[0] + page[101] + page[3 * unit] == 0);
}

TEST_CASE("the table of objects keeps what it knows when it grows") {
  ObjectTable table;
  for (uint64_t i = 0; i < 200000; i += 7) {
    REQUIRE(table.reach(i));
    table[i].size = i + 1;
  }
  for (uint64_t i = 0; i < 200000; ++i) {
    if (table[i].size != (i % 7 == 0 ? i + 1 : 0)) FAIL("object " << i);
  }
  table.clear();
  REQUIRE(table.size() == 0);
  REQUIRE(table.reach(0));
  REQUIRE(table[0].size == 0);
}

TEST_CASE("an event as text is read as the same event") {
  Event event;
  event.kind = EventKind::kAllocateZeroed;
  event.thread = 3;
  event.time_ns = 1000;
  event.size = 1 << 20;
  event.alignment_log2 = 6;
  REQUIRE(to_text(event, Event{}) == "z 0 1048576 64 thread 3 at 1000");
  REQUIRE(to_text(event, event) == "z 0 1048576 64");
  TextParser parser;
  Event read;
  REQUIRE(parser.parse(to_text(event, Event{}), &read));
  REQUIRE(to_text(read, Event{}) == to_text(event, Event{}));
  REQUIRE(!parser.parse("  # a comment", &read));
  REQUIRE(!parser.parse("", &read));
  REQUIRE_THROWS_WITH(parser.parse("f 1", &read), test::containing("'1' is not alive"));
  REQUIRE(parser.parse("f 0\r", &read));
  REQUIRE(read.kind == EventKind::kFree);
  REQUIRE(read.thread == 3);
  REQUIRE(read.time_ns == 1000);
}

}  // namespace rdmalloc::trace
