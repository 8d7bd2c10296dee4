#include "allocator/limits/options.h"

#include <string>

#include "tests/support/catch.h"
#include "tests/support/fake_os.h"

namespace rdmalloc {
namespace {

os::Text text(const std::string& string) { return {string.data(), string.size()}; }

struct Fixture {
  Fixture() { fake::reset(); }
  ~Fixture() { fake::reset(); }

  std::string load(std::initializer_list<const char*> entries) {
    fake::environment().assign(entries.begin(), entries.end());
    options.load();
    return options.warning();
  }
  uint64_t bytes(OptionId id) const { return options.amount(id).value; }

  Options options;
};

bool parses(const char* from, uint64_t value, Amount::Unit unit = Amount::Unit::kBytes) {
  Amount amount;
  return parse_amount(text(from), &amount) && amount.value == value && amount.unit == unit;
}

bool parses(const std::string& from) {
  Amount amount;
  return parse_amount(text(from), &amount);
}

}  // namespace

TEST_CASE("every default in the table is a valid value of its type") {
  for (const OptionInfo& option : kOptions) {
    INFO(option.name);
    CHECK(is_valid(option.type, text(option.fallback)));
    CHECK(std::string(option.prefix) == "RDMALLOC_");
    CHECK(std::string(option.help).size() > 20);
  }
}

TEST_CASE("every suffix of an amount is understood, in either case") {
  CHECK(parses("0", 0));
  CHECK(parses("4096", 4096));
  CHECK(parses("1K", uint64_t{1} << 10));
  CHECK(parses("1k", uint64_t{1} << 10));
  CHECK(parses("3M", uint64_t{3} << 20));
  CHECK(parses("3MB", uint64_t{3} << 20));
  CHECK(parses("3MiB", uint64_t{3} << 20));
  CHECK(parses("5g", uint64_t{5} << 30));
  CHECK(parses("7T", uint64_t{7} << 40));
  CHECK(parses("50%", 50, Amount::Unit::kPercentOfMemory));
  CHECK(parses("0%", 0, Amount::Unit::kPercentOfMemory));
  CHECK(parses("100%memlock", 100, Amount::Unit::kPercentOfMemlock));
  CHECK(parses("18446744073709551615", UINT64_MAX));
}

TEST_CASE("an amount that is none is refused") {
  const std::string bad =
      GENERATE("", "K", "-1", "+1", " 1", "1 ", "1 K", "1KK", "1KiBs", "1X", "1.5G", "0x10", "1e9",
               "101%", "50%%", "50%mem", "50%memlocks", "%", "12B", "18446744073709551616",
               "99999999999999999999999", "18014398509481984K", "16777216T");
  INFO(bad);
  CHECK_FALSE(parses(bad));
}

TEST_CASE("an amount may end where its memory ends") {
  const std::string longer = "12K3";
  Amount amount;
  REQUIRE(parse_amount({longer.data(), 3}, &amount));
  CHECK(amount.value == 12 * 1024);
}

TEST_CASE("shares are of what they name, and a share of no limit is no limit") {
  const Amount memory{50, Amount::Unit::kPercentOfMemory};
  const Amount memlock{10, Amount::Unit::kPercentOfMemlock};
  CHECK(memory.resolve(1000, 200) == 500);
  CHECK(memlock.resolve(1000, 200) == 20);
  CHECK(memlock.resolve(1000, UINT64_MAX) == UINT64_MAX);
  CHECK(memory.resolve(UINT64_MAX - 1, 0) == (UINT64_MAX - 1) / 2);
  CHECK(Amount{7, Amount::Unit::kBytes}.resolve(0, 0) == 7);
}

TEST_CASE_METHOD(Fixture, "an empty environment leaves the defaults") {
  CHECK(load({}).empty());
  CHECK(bytes(OptionId::window) == 0);  // derived from the RAM
  CHECK(options.choice(OptionId::populate) == kPopulateAuto);
  CHECK(options.choice(OptionId::gather) == kGatherAuto);
  CHECK(bytes(OptionId::cap) == 80);
  CHECK(options.amount(OptionId::cap).unit == Amount::Unit::kPercentOfMemory);
  CHECK_FALSE(options.on(OptionId::strict));
  CHECK(options.on(OptionId::warn));
  CHECK(options.choice(OptionId::huge) == kHugeAuto);
  CHECK(options.choice(OptionId::numa) == kNumaFirstTouch);
  CHECK(std::string(options.path(OptionId::report)).empty());
}

TEST_CASE_METHOD(Fixture, "each variable sets its option") {
  CHECK(load({"RDMALLOC_WINDOW=1G", "RDMALLOC_CAP=0", "RDMALLOC_HEADROOM=1M",
              "RDMALLOC_MEMORY_CAP=50%", "RDMALLOC_STRICT=on", "RDMALLOC_SPARSE_FROM=2M",
              "RDMALLOC_HUGE=hugetlb", "RDMALLOC_NUMA=off", "RDMALLOC_SEAL=yes",
              "RDMALLOC_REPORT=/tmp/report.%p", "RDMALLOC_STATS=1", "RDMALLOC_WARN=false",
              "PATH=/bin", "RDMALLOCX=1", "rdmalloc_cap=7"})
            .empty());
  CHECK(bytes(OptionId::window) == uint64_t{1} << 30);
  CHECK(bytes(OptionId::cap) == 0);
  CHECK(bytes(OptionId::headroom) == uint64_t{1} << 20);
  CHECK(bytes(OptionId::memory_cap) == 50);
  CHECK(options.on(OptionId::strict));
  CHECK(bytes(OptionId::sparse_from) == uint64_t{2} << 20);
  CHECK(options.choice(OptionId::huge) == kHugeHugetlb);
  CHECK(options.choice(OptionId::numa) == kNumaOff);
  CHECK(options.on(OptionId::seal));
  CHECK(std::string(options.path(OptionId::report)) == "/tmp/report.%p");
  CHECK(options.on(OptionId::stats));
  CHECK_FALSE(options.on(OptionId::warn));
}

TEST_CASE_METHOD(Fixture, "every word for on and for off is understood, and no other") {
  for (const char* word : {"on", "1", "yes", "true"}) {
    REQUIRE(options.set(OptionId::strict, text(word)));
    CHECK(options.on(OptionId::strict));
  }
  for (const char* word : {"off", "0", "no", "false"}) {
    REQUIRE(options.set(OptionId::strict, text(word)));
    CHECK_FALSE(options.on(OptionId::strict));
  }
  for (const char* word : {"", "ON", "2", "y", "enabled"}) {
    CHECK_FALSE(options.set(OptionId::strict, text(word)));
  }
}

TEST_CASE_METHOD(Fixture, "every page kind is understood, and no other") {
  CHECK(options.set(OptionId::huge, text("off")));
  CHECK(options.choice(OptionId::huge) == kHugeOff);
  CHECK(options.set(OptionId::huge, text("thp")));
  CHECK(options.choice(OptionId::huge) == kHugeThp);
  CHECK_FALSE(options.set(OptionId::huge, text("thps")));
  CHECK_FALSE(options.set(OptionId::numa, text("remote")));
  CHECK(options.choice(OptionId::huge) == kHugeThp);
}

TEST_CASE_METHOD(Fixture, "what is malformed keeps the default and is named") {
  const std::string warning = load({"RDMALLOC_CAP=lots", "RDMALLOC_STRICT=maybe"});
  CHECK(warning.find("RDMALLOC_CAP=lots (malformed, default kept)") != std::string::npos);
  CHECK(warning.find("RDMALLOC_STRICT=maybe (malformed") != std::string::npos);
  CHECK(warning.find('\n') == std::string::npos);
  CHECK(bytes(OptionId::cap) == 80);
}

TEST_CASE_METHOD(Fixture, "seconds may be none, and are a number") {
  CHECK(options.set(OptionId::report_every, text("0")));
  CHECK(options.set(OptionId::report_every, text("600")));
  CHECK(options.choice(OptionId::report_every) == 600);
  for (const char* bad : {"", "-1", "1s", "65536", "soon"}) {
    CHECK_FALSE(options.set(OptionId::report_every, text(bad)));
  }
  CHECK_FALSE(options.set(OptionId::foreign_count, text("0")));
  CHECK_FALSE(options.set(OptionId::foreign_count, text("")));
}

TEST_CASE_METHOD(Fixture,
                 "a file name with an unknown letter is named, with those that are known") {
  const std::string warning = load({"RDMALLOC_REPORT=/tmp/%d", "RDMALLOC_LEDGER=/tmp/%h-%j"});
  CHECK(warning.find("RDMALLOC_REPORT=/tmp/%d (%p, %r, %j, %h and %% may be in a file name; ") !=
        std::string::npos);
  CHECK(warning.find("LEDGER") == std::string::npos);
  CHECK(std::string(options.path(OptionId::report)).empty());
}

TEST_CASE_METHOD(Fixture, "what is unknown is named, whatever its shape") {
  const std::string warning =
      load({"RDMALLOC_CAPS=1", "RDMALLOC_=2", "RDMALLOC_cap=3", "RDMALLOC_CAP=1M"});
  CHECK(warning.find("RDMALLOC_CAPS=1 (unknown option)") != std::string::npos);
  CHECK(warning.find("RDMALLOC_=2 (unknown option)") != std::string::npos);
  CHECK(warning.find("RDMALLOC_cap=3 (unknown option)") != std::string::npos);
  CHECK(warning.find("RDMALLOC_CAP=1M") == std::string::npos);
  CHECK(bytes(OptionId::cap) == uint64_t{1} << 20);
}

TEST_CASE_METHOD(Fixture, "a flood of bad variables is cut, not overrun") {
  const std::string bad = "RDMALLOC_NO=" + std::string(500, 'x');
  fake::environment().assign(40, bad);
  options.load();
  CHECK(std::string(options.warning()).size() < Options::kLongestWarning);
}

TEST_CASE_METHOD(Fixture, "a path too long to keep is refused") {
  CHECK(options.set(OptionId::report, text(std::string(Options::kLongestPath - 1, 'p'))));
  CHECK_FALSE(options.set(OptionId::report, text(std::string(Options::kLongestPath, 'q'))));
  CHECK(options.path(OptionId::report)[0] == 'p');
}

TEST_CASE(
    "threads of ours run where their starter does, anywhere, or on the processors of a list") {
  Fixture f;
  CHECK(f.load({}).empty());
  CHECK_FALSE(f.options.processors().has_any());
  CHECK(f.load({"RDMALLOC_THREAD_CPUS=all"}).empty());
  for (const size_t i : {size_t{0}, size_t{70}, os::kMostProcessors - 1}) {
    CHECK(f.options.processors().has(i));
  }
  CHECK(f.load({"RDMALLOC_THREAD_CPUS=1-3,64,1023"}).empty());
  size_t count = 0;
  for (size_t i = 0; i < os::kMostProcessors; ++i) count += f.options.processors().has(i) ? 1 : 0;
  CHECK(count == 5);
  for (const size_t i : {1, 2, 3, 64, 1023}) CHECK(f.options.processors().has(i));
  for (const char* wrong : {"", "some", "1-", "-1", "3-1", "1,", ",1", "1024", "1 2", "1-2-3"}) {
    INFO(wrong);
    CHECK(!f.load({(std::string("RDMALLOC_THREAD_CPUS=") + wrong).c_str()}).empty());
    CHECK_FALSE(f.options.processors().has_any());
  }
}

}  // namespace rdmalloc
