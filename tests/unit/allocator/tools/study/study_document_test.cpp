#include "allocator/tools/study/document.h"

#include <unistd.h>

#include <algorithm>

#include "allocator/tools/refusal.h"
#include "allocator/tools/study/allowance.h"
#include "allocator/tools/text.h"
#include "allocator/tools/top/process_status.h"
#include "tests/support/catch.h"

namespace rdmalloc::cli::study {
namespace {

const auto kPage = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));

constexpr const char* kStat =
    "42 (a) b (c)) S 7 42 42 0 -1 4194560 1234 0 56 0 1 2 0 0 20 0 1 0 987654 1000 200 "
    "18446744073709551615 1 2 140737488347000 0 0 0";

}  // namespace

TEST_CASE("fields of a table are quoted when they must be") {
  CHECK(csv_field("plain words") == "plain words");
  CHECK(csv_field("a,b") == "\"a,b\"");
  CHECK(csv_field("say \"x\"") == "\"say \"\"x\"\"\"");
  CHECK(csv_field("two\nlines") == "\"two\nlines\"");
  CHECK(csv_field("").empty());
}

TEST_CASE("a line has as many fields as the header") {
  const auto commas = [](const std::string& line) { return std::ranges::count(line, ','); };
  Run run;
  run.configuration = "glibc";
  run.outcome = "exited with 0";
  run.samples.series.resize(1);
  CHECK(commas(runs_line(run)) == commas(runs_header()));
  CHECK(commas(samples_lines(run)) == commas(samples_header()));
  run.samples.has_counters = true;
  CHECK(commas(runs_line(run)) == commas(runs_header()));
  CHECK(commas(samples_lines(run)) == commas(samples_header()));
}

TEST_CASE("what is not known of an allocator is null in the document") {
  Study study;
  study.command = {"p", "<script>\"\xff"};
  study.configurations = configurations_of({{"glibc", "", false}, {"rdmalloc", "/x", true}});
  study.runs.resize(2);
  study.runs[0].configuration = "glibc";
  study.runs[1].configuration = "rdmalloc";
  study.runs[1].samples.has_counters = true;
  study.runs[1].samples.series.resize(3);
  const nlohmann::json document = as_document(study);
  CHECK(document["runs"][0]["peak_held_bytes"].is_null());
  CHECK(document["runs"][0]["mean_resident_bytes"].is_null());
  CHECK(document["series"][0]["held_bytes"].is_null());
  CHECK(document["series"][1]["held_bytes"].size() == 3);
  CHECK(document["summary"]["table"].size() == 3);
  CHECK(document["summary"]["table"][0]["seconds"].is_null());
  CHECK(document["machine"]["memlock_bytes"].is_null());
  CHECK(document["summary"]["tiles"]["time"]["verdict"] == "cannot be told");
  CHECK(document["summary"]["tiles"]["cap"]["figures"] ==
        "No runs with a cap to judge by (--caps).");
  const std::string text = document.dump(1, ' ', false, nlohmann::json::error_handler_t::replace);
  CHECK(nlohmann::json::parse(text)["command"][0] == "p");
}

TEST_CASE("caps are shares of the peak or bytes, and nothing else") {
  const std::vector<Cap> caps = parse_caps("25%,64M");
  REQUIRE(caps.size() == 2);
  CHECK(caps[0].bytes_of(1000 * kPage) == 250 * kPage);
  CHECK(caps[0].bytes_of(kPage + 1) == kPage);
  CHECK(caps[1].bytes_of(1) == 64U << 20U);
  CHECK(parse_caps("none").empty());
  for (const char* bad : {"0", "0%", "x", "50%memlock", ",5", "-1", "1,,2"}) {
    CAPTURE(bad);
    CHECK_THROWS_AS(parse_caps(bad), Refusal);
  }
}

TEST_CASE("allocators are known by name, each is taken once") {
  CHECK(parse_allocators("rdmalloc,glibc,rdmalloc") ==
        std::vector<std::string>{"rdmalloc", "glibc"});
  CHECK_THROWS_AS(parse_allocators("glibc,dlmalloc"), Refusal);
  CHECK_THROWS_AS(parse_allocators(""), Refusal);
}

TEST_CASE("what is preloaded is kept, but for other allocators") {
  const Allocator jemalloc{"jemalloc", "/lib/libjemalloc.so.2", false};
  CHECK(preload_for(jemalloc, "") == "/lib/libjemalloc.so.2");
  CHECK(preload_for(jemalloc, "/x/librdmalloc.so.0:/y/libfoo.so") ==
        "/lib/libjemalloc.so.2:/y/libfoo.so");
  CHECK(preload_for({"glibc", "", false}, "libtcmalloc_minimal.so.4 /y/libfoo.so") ==
        "/y/libfoo.so");
}

TEST_CASE("an option makes one more configuration, a malformed one none") {
  const Allocator ours{"rdmalloc", "/x", true};
  const Configuration made = with_option(ours, "huge=thp");
  CHECK(made.name == "rdmalloc-huge=thp");
  CHECK(made.variables.front() == std::pair<std::string, std::string>{"RDMALLOC_HUGE", "thp"});
  for (const char* bad : {"huge", "huge=big", "size=1", "=1"}) {
    CAPTURE(bad);
    CHECK_THROWS_AS(with_option(ours, bad), Refusal);
  }
}

TEST_CASE("a process is read whatever its name is") {
  const std::optional<ProcStat> stat = parse_stat(kStat);
  REQUIRE(stat);
  CHECK(stat->state == 'S');
  CHECK(stat->parent == 7);
  CHECK(stat->minor_faults == 1234);
  CHECK(stat->major_faults == 56);
  CHECK(stat->start == 987654);
  CHECK(stat->image == 140737488347000);
  CHECK(!parse_stat(""));
  CHECK(!parse_stat("42 (cut) S 1 2"));
  CHECK(parse_memory("").mapped == 0);
  CHECK(parse_memory("10 2 1 1 0 1 0\n").resident == 2 * kPage);
  CHECK(parse_kib_line("VmPeak:\t 9 kB\nVmHWM:\t      12 kB\n", "VmHWM:") == 12 * 1024);
  CHECK(parse_kib_line("Pss_Dirty: 5 kB\nPss:  7 kB\n", "Pss:") == 7 * 1024);
  CHECK(!parse_kib_line("VmHWM: x", "VmHWM:"));
  CHECK(!parse_kib_line("", "Pss:"));
  CHECK(parse_last_number("0.1 0.2 0.3 1/234 5678\n") == 5678);
  CHECK(parse_last_number("") == 0);
}

TEST_CASE("samples are at multiples of the period, after a few early ones") {
  CHECK(sample_moment_ns(0, 100) == 0);
  CHECK(sample_moment_ns(3, 100) == 5'000'000);
  CHECK(sample_moment_ns(4, 100) == 10'000'000);
  CHECK(sample_moment_ns(104, 100) == 1'010'000'000);
  // If the period is equally short, no sample is early.
  CHECK(sample_moment_ns(1, 1000) == 1'000'000);
  CHECK(sample_moment_ns(2, 1000) == 2'000'000);
}

TEST_CASE("an allowance is a share of the time that has passed") {
  Allowance allowance(0.01, 1000);
  CHECK(allowance.allows(0));
  allowance.spend(1000);
  CHECK(!allowance.allows(0));
  CHECK(!allowance.allows(99'999));
  CHECK(allowance.allows(100'000));
  CHECK(!allowance.allows(100'000, 1001));
  CHECK(allowance.allowed_from() == 0);
  allowance.set_spent(3000);
  CHECK(allowance.allowed_from() == 200'000);
}

TEST_CASE("sizes have three digits") {
  CHECK(size_text(0) == "0 bytes");
  CHECK(size_text(64U << 20U) == "64 MiB");
  CHECK(size_text(1234567) == "1.18 MiB");
  CHECK(size_text(123456789) == "118 MiB");
}

}  // namespace rdmalloc::cli::study
