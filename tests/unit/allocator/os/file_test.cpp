#include "allocator/os/file.h"

#include <stdlib.h>

#include <string>
#include <vector>

#include "tests/support/catch.h"

namespace rdmalloc::os {
namespace {

class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& content) {
    const int fd = mkstemp(path_);
    REQUIRE(fd >= 0);
    REQUIRE(write_all(fd, content.data(), content.size()));
    ::close(fd);
  }
  ~TemporaryFile() { unlink(path_); }
  const char* path() const { return path_; }

 private:
  char path_[32] = "/tmp/rdmalloc_file_XXXXXX";
};

std::vector<std::string> lines_of(const std::string& content, size_t most = SIZE_MAX) {
  const TemporaryFile file(content);
  std::vector<std::string> lines;
  REQUIRE(for_each_line(file.path(), [&](Text line) {
    lines.emplace_back(line.data, line.size);
    return lines.size() < most;
  }));
  return lines;
}

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("decimal digits are read up to the largest number and not beyond") {
  uint64_t value = 1;
  Text rest;
  REQUIRE(parse_decimal(text("18446744073709551615x"), &value, &rest));
  CHECK(value == UINT64_MAX);
  CHECK(rest == text("x"));
  CHECK_FALSE(parse_decimal(text("18446744073709551616"), &value, &rest));
  CHECK_FALSE(parse_decimal(text("99999999999999999999"), &value, &rest));
  CHECK_FALSE(parse_decimal(text(""), &value, &rest));
  CHECK_FALSE(parse_decimal(text("-1"), &value, &rest));
  REQUIRE(parse_decimal(text("0007"), &value, &rest));
  CHECK(value == 7);
}

TEST_CASE("a field is read by its whole name") {
  uint64_t value = 0;
  REQUIRE(parse_field(text("MemTotal:       24576 kB"), "MemTotal:", &value));
  CHECK(value == 24576);
  REQUIRE(parse_field(text("VmLck:\t     128 kB"), "VmLck:", &value));
  CHECK(value == 128);
  CHECK_FALSE(parse_field(text("MemTotal:  none"), "MemTotal:", &value));
  CHECK_FALSE(parse_field(text("MemTot"), "MemTotal:", &value));
  CHECK_FALSE(parse_field(text(""), "MemTotal:", &value));
}

TEST_CASE("an address range is read as /proc/self/maps writes it, and nothing else is") {
  uint64_t low = 0;
  uint64_t high = 0;
  REQUIRE(parse_range(text("7f00a000-ffffffffffffffff rw-p 0 00:00 0"), &low, &high));
  CHECK(low == 0x7f00a000);
  CHECK(high == UINT64_MAX);
  for (const char* bad : {"", "-", "7f00", "7f00-", "7f00-7f10", "7f00 7f10 ", "g0-7f10 ",
                          "11111111111111111-2 ", "AnonHugePages: 0 kB"}) {
    INFO(bad);
    CHECK_FALSE(parse_range(text(bad), &low, &high));
  }
}

TEST_CASE("every line is visited once, the last one without a newline too") {
  CHECK(lines_of("a\n\nbc\n") == Lines{"a", "", "bc"});
  CHECK(lines_of("a\nb") == Lines{"a", "b"});
  CHECK(lines_of("").empty());
  CHECK(lines_of("a\nb\nc", 2) == Lines{"a", "b"});
}

TEST_CASE("of a line longer than the buffer only the beginning is seen, and no other is harmed") {
  for (const size_t length : {4095, 4096, 4097, 8192, 9000}) {
    const Lines lines = lines_of("first\n" + std::string(length, 'x') + "\nlast\n");
    INFO(length);
    REQUIRE(lines.size() == 3);
    CHECK(lines[0] == "first");
    CHECK(lines[1] == std::string(std::min<size_t>(length, 4096), 'x'));
    CHECK(lines[2] == "last");
  }
  CHECK(lines_of(std::string(5000, 'y')) == Lines{std::string(4096, 'y')});
}

TEST_CASE("lines across the reader's buffer come out whole") {
  std::string content;
  Lines expected;
  for (int i = 0; i < 3000; ++i) {
    expected.push_back(std::string(i % 17, 'z') + std::to_string(i));
    content += expected.back() + "\n";
  }
  CHECK(lines_of(content) == expected);
}

TEST_CASE("a number file is a number, max, or no number") {
  uint64_t value = 0;
  REQUIRE(read_number(TemporaryFile("1234\n").path(), &value));
  CHECK(value == 1234);
  REQUIRE(read_number(TemporaryFile("max\n").path(), &value));
  CHECK(value == UINT64_MAX);
  CHECK_FALSE(read_number(TemporaryFile("many\n").path(), &value));
  CHECK_FALSE(read_number(TemporaryFile("").path(), &value));
  CHECK_FALSE(read_number("/nowhere/at/all", &value));
}

TEST_CASE("a missing file has no lines and no bytes") {
  char buffer[8];
  CHECK(read_file("/nowhere/at/all", buffer, sizeof buffer) == -1);
  CHECK_FALSE(for_each_line("/nowhere/at/all", [](Text) { return true; }));
  CHECK(read_file(TemporaryFile("0123456789").path(), buffer, sizeof buffer) == 8);
}

TEST_CASE("writing to nowhere fails") {
  CHECK_FALSE(write_all(-1, "x", 1));
  CHECK(write_all(-1, "x", 0));
}

}  // namespace rdmalloc::os
