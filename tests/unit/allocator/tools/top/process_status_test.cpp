// What /proc says of a process, including the name, which the process can choose.
#include "allocator/tools/top/process_status.h"

#include <random>
#include <string>

#include "allocator/os/limits.h"
#include "allocator/tools/text.h"
#include "tests/support/catch.h"

namespace rdmalloc::cli {
namespace {

constexpr uint64_t kKib = 1024;

const std::string kText =
    "Name:\tpython3\nUmask:\t0022\nState:\tS (sleeping)\nTgid:\t10\nUid:\t1000\t1001\t0\t0\n"
    "FDSize:\t256\nVmPeak:\t   99999 kB\nVmLck:\t      64 kB\nVmPin:\t     128 kB\n"
    "VmRSS:\t    4096 kB\nThreads:\t1\nCapInh:\t0000000000000000\nCapEff:\t0000000000004000\n";

std::string with_name(const std::string& name) {
  return "Name:\t" + name + kText.substr(kText.find('\n'));
}

TEST_CASE("a process's status is read") {
  const auto status = parse_status(kText);
  REQUIRE(status);
  CHECK(status->name == "python3");
  CHECK(status->user == 1000);
  CHECK(status->effective_user == 1001);
  CHECK(status->locked == 64 * kKib);
  CHECK(status->pinned == 128 * kKib);
  CHECK(status->resident == 4096 * kKib);
  CHECK(status->may_lock_all);
  CHECK_FALSE(status->has_ended);
}

TEST_CASE("a thread of the kernel has no memory to tell of") {
  const auto status = parse_status("Name:\tkthreadd\nState:\tS (sleeping)\nUid:\t0\t0\t0\t0\n");
  REQUIRE(status);
  CHECK_FALSE(status->resident);
  CHECK_FALSE(status->locked);
  CHECK_FALSE(status->pinned);
  CHECK_FALSE(status->may_lock_all);
}

TEST_CASE("a zombie has ended") {
  CHECK(parse_status("Name:\tx\nState:\tZ (zombie)\nUid:\t0\t0\t0\t0\n")->has_ended);
}

TEST_CASE("what a process calls itself changes nothing but its name") {
  // The kernel escapes a newline as two characters, so a name is always one line.
  const auto status = parse_status(with_name("x\\nVmPin:\t 999 kB\\nUid:\t0\t0"));
  REQUIRE(status);
  CHECK(status->name == "x\nVmPin:\t 999 kB\nUid:\t0\t0");
  CHECK(status->user == 1000);
  CHECK(status->pinned == 128 * kKib);
  CHECK(parse_status(with_name("a\\\\nb"))->name == "a\\nb");
  CHECK(parse_status(with_name("end\\"))->name == "end\\");
  CHECK(parse_status(with_name(""))->name.empty());
}

TEST_CASE("what is no status, or half of one, is not taken for one") {
  CHECK_FALSE(parse_status(""));
  CHECK_FALSE(parse_status("Name:"));
  CHECK_FALSE(parse_status("VmPin:\t 1 kB\nUid:\t0\t0\n"));
  CHECK_FALSE(parse_status("Name:\tcut short\nState:\tS"));
  const auto odd = parse_status(
      "Name:\tx\nUid:\nVmLck:\t-1 kB\nVmPin:\t99999999999999999999 kB\nVmRSS:\t18014398509481984 "
      "kB\nCapEff:\tzz\n::::\n");
  REQUIRE(odd);
  CHECK_FALSE(odd->locked);
  CHECK_FALSE(odd->pinned);
  CHECK_FALSE(odd->resident);
  CHECK_FALSE(odd->may_lock_all);
}

TEST_CASE("whatever bytes there are, reading them ends well") {
  std::mt19937_64 random(1);
  for (int round = 0; round < 20'000; ++round) {
    std::string text = kText;
    for (int change = 0; change < 4; ++change) {
      text[random() % text.size()] = static_cast<char>(random());
    }
    text.resize(random() % (text.size() + 1));
    (void)parse_status(text);
    (void)parse_memlock(text);
    for (const char c : printable(text)) REQUIRE((c >= ' ' && c <= '~'));
  }
}

TEST_CASE("the limit on locked memory is read") {
  const std::string before =
      "Limit                     Soft Limit           Hard Limit     Units\n";
  CHECK(parse_memlock(before +
                      "Max locked memory         8388608              unlimited      bytes\n") ==
        8388608);
  CHECK(parse_memlock(before +
                      "Max locked memory         unlimited            unlimited      bytes") ==
        os::kNoLimit);
  CHECK(parse_memlock("Max locked memory 0 0 bytes") == 0);
  CHECK_FALSE(parse_memlock(before));
  CHECK_FALSE(parse_memlock(""));
  CHECK_FALSE(parse_memlock("Max locked memory"));
  CHECK_FALSE(parse_memlock("Max locked memory  -5 x"));
}

TEST_CASE("what a terminal would obey does not reach it") {
  CHECK(printable("\x1b[2J\x07ok\x7f") == "?[2J?ok?");
  CHECK(printable("caf\xc3\xa9\xff") == "caf???");
  CHECK(printable("\xc2\x9b"
                  "31m") == "??31m");
}

}  // namespace
}  // namespace rdmalloc::cli
