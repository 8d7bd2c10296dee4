// Who holds too much, the order of the rows, and what fits on the screen; with a /proc of the
// test's own.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "allocator/os/limits.h"
#include "allocator/tools/refusal.h"
#include "allocator/tools/top/json.h"
#include "allocator/tools/top/table.h"
#include "tests/support/catch.h"

namespace rdmalloc::cli {
namespace {

constexpr uint64_t kMib = uint64_t{1} << 20;

class Proc {
 public:
  Proc() {
    char name[] = "/tmp/rdmalloc-top-XXXXXX";
    folder_ = mkdtemp(name);
  }
  ~Proc() { std::filesystem::remove_all(folder_); }
  Proc(const Proc&) = delete;
  Proc& operator=(const Proc&) = delete;

  void add(int process, const std::string& name, int user, int locked, int pinned,
           const std::string& groups = "") const {
    std::ofstream(file(process, "status"))
        << "Name:\t" << name << "\nUid:\t" << user << "\t" << user << "\nGroups:\t" << groups
        << "\nVmLck:\t  " << locked << " kB\nVmPin:\t     " << pinned
        << " kB\nVmRSS:\t 100 kB\nCapEff:\t0\n";
    std::ofstream(file(process, "limits")) << "Max locked memory    65536   65536   bytes\n";
  }
  void add_kernel_thread(int process) const {
    std::ofstream(file(process, "status")) << "Name:\tkthreadd\nUid:\t0\t0\n";
  }
  void add_half(int process) const { (void)file(process, ""); }

  MachineScan scan(const ProcessFilter& filter) const {
    const auto is_known = [](pid_t number) { return number == 77; };
    const auto read = [](pid_t number) -> std::optional<ProcessCounters> {
      if (number != 30) return std::nullopt;
      ProcessCounters counters;
      counters.held = kMib;
      counters.overflow = kMib / 2;
      return counters;
    };
    return scan_processes(folder_, filter, is_known, read);
  }

 private:
  std::string file(int process, const char* name) const {
    const std::string folder = folder_ + "/" + std::to_string(process);
    std::filesystem::create_directory(folder);
    return folder + "/" + name;
  }

  std::string folder_;
};

std::vector<pid_t> numbers(const MachineScan& scan) {
  std::vector<pid_t> numbers;
  for (const MachineProcess& one : scan.processes) numbers.push_back(one.number);
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

TEST_CASE("processes that pin, lock, run under rdmalloc or are in the ledger are shown") {
  const Proc proc;
  proc.add(10, "locks", 0, 4, 0);
  proc.add(20, "pins", 1234567, 0, 4);
  proc.add(30, "ours", 1, 0, 0);
  proc.add(40, "neither", 1, 0, 0);
  proc.add(77, "granted", 1, 0, 0);
  proc.add_kernel_thread(2);
  proc.add_half(50);  // has ended meanwhile
  const MachineScan scan = proc.scan({});
  CHECK(numbers(scan) == std::vector<pid_t>{10, 20, 30, 77});
  CHECK(scan.seen == 6);
  CHECK(numbers(proc.scan({true, {}, {}})) == std::vector<pid_t>{2, 10, 20, 30, 40, 77});
  CHECK(numbers(proc.scan({false, {40, 50, 99}, {}})) == std::vector<pid_t>{40});
  CHECK(numbers(proc.scan({true, {}, 1})) == std::vector<pid_t>{30, 40, 77});
  // A user without a name; and details are read only of the processes that are shown.
  const MachineScan one = proc.scan({false, {20}, {}});
  CHECK(one.processes[0].user == "1234567");
  CHECK(one.processes[0].memlock == 65536);
}

TEST_CASE("a user may be in so many groups that the status is long") {
  const Proc proc;
  proc.add(10, "grouped", 0, 4, 8, std::string(100'000, '7'));
  const MachineScan scan = proc.scan({});
  REQUIRE(scan.processes.size() == 1);
  CHECK(scan.processes[0].status.pinned == 8 * 1024);
}

TEST_CASE("without a folder of processes there is a refusal") {
  CHECK_THROWS_AS(scan_processes(
                      "/nowhere", {}, [](pid_t) { return false; }, read_counters),
                  Refusal);
}

MachineProcess process(pid_t number, uint64_t locked, uint64_t pinned) {
  MachineProcess one;
  one.number = number;
  one.status.name = "name" + std::to_string(number);
  one.status.locked = locked;
  one.status.pinned = pinned;
  one.memlock = 8 * kMib;
  return one;
}

using Words = std::vector<std::string>;

TEST_CASE("a process that has locked or pinned more than its limit is over memlock") {
  CHECK(over(process(1, 8 * kMib, 8 * kMib), {}) == Words{});
  CHECK(over(process(1, 8 * kMib + 1, 0), {}) == Words{"over memlock"});
  MachineProcess one = process(1, 0, 9 * kMib);
  CHECK(over(one, {}) == Words{"over memlock"});
  one.status.may_lock_all = true;
  CHECK(over(one, {}) == Words{"over memlock by right"});
  one.memlock = os::kNoLimit;
  CHECK(over(one, {}) == Words{});
  one.memlock = std::nullopt;
  CHECK(over(one, {}) == Words{});
}

TEST_CASE("overflow is memory that could not be pinned") {
  MachineProcess one = process(1, 0, 0);
  one.counters = ProcessCounters();
  CHECK(over(one, {}) == Words{});
  one.counters->overflow = 1;
  CHECK(over(one, {}) == Words{"overflow"});
}

TEST_CASE("a process with more than an even share, while less is left to others, is over share") {
  LedgerView ledger;
  ledger.is_kept = true;
  ledger.cap = 64 * kMib;
  ledger.granted = {{1, 40 * kMib}, {2, 4 * kMib}};
  MachineProcess one = process(1, 0, 0);
  one.granted = 40 * kMib;
  CHECK(ledger.left() == 20 * kMib);
  CHECK(over(one, ledger) == Words{"over share"});
  one.granted = 4 * kMib;
  CHECK(over(one, ledger) == Words{});
  // With room for another even share, nobody is short.
  ledger.granted = {{1, 20 * kMib}, {2, kMib}, {3, kMib}, {4, kMib}};
  one.granted = 20 * kMib;
  CHECK(over(one, ledger) == Words{});
  one.granted = std::nullopt;
  CHECK(over(one, ledger) == Words{});
  // Forged figures in a ledger.
  ledger.granted = {{1, UINT64_MAX}, {2, UINT64_MAX}};
  CHECK(ledger.sum() == UINT64_MAX);
  CHECK(ledger.left() == 0);
  CHECK(LedgerView().even_share() == 0);
}

std::vector<pid_t> sorted(std::vector<MachineProcess> processes, Order order) {
  sort_processes(&processes, order);
  std::vector<pid_t> numbers;
  for (const MachineProcess& one : processes) numbers.push_back(one.number);
  return numbers;
}

TEST_CASE("the largest come first, unknown ones last") {
  std::vector<MachineProcess> all = {process(3, 5, 5), process(1, 20, 0), process(2, 0, 30)};
  all[0].granted = 7;
  all[2].granted = 0;
  using Numbers = std::vector<pid_t>;
  CHECK(sorted(all, {}) == Numbers{2, 1, 3});
  CHECK(sorted(all, {'p', true}) == Numbers{3, 1, 2});
  CHECK(sorted(all, {'k', false}) == Numbers{1, 3, 2});
  CHECK(sorted(all, {'g', false}) == Numbers{3, 2, 1});
  CHECK(sorted(all, {'n', false}) == Numbers{1, 2, 3});
  CHECK(sorted(all, {'i', false}) == Numbers{3, 2, 1});
}

TEST_CASE("sizes are short") {
  CHECK(short_size(0) == "0");
  CHECK(short_size(1023) == "1023");
  CHECK(short_size(1024) == "1.0K");
  CHECK(short_size(10 * kMib) == "10M");
  CHECK(short_size(1023 * kMib + 900 * 1024) == "1.0G");
  CHECK(short_size(os::kNoLimit) == "unlim");
  for (uint64_t bytes = 1; bytes < uint64_t{1} << 62; bytes += bytes / 3 + 1) {
    CHECK(short_size(bytes).size() <= 5);
  }
  CHECK(short_size(UINT64_MAX - 1) == "16E");
}

TEST_CASE("a narrow screen keeps what matters, and the widest has all") {
  for (size_t width = 1; width < 300; ++width) {
    const auto columns = columns_within(width);
    REQUIRE(columns.size() >= 5);
    CHECK(columns.front().title == std::string("PID"));
    CHECK(columns.back().title == std::string("OVER"));
  }
  CHECK(columns_within(300).size() == all_columns().size());
  CHECK(columns_within(80).size() > columns_within(60).size());
}

TEST_CASE("a line of 40 columns and more fits, with what is over in short") {
  MachineProcess one = process(4'194'303, UINT64_MAX - 1, UINT64_MAX - 1);
  one.status.name = "fifteen-letters";
  for (size_t width = 40; width < 300; ++width) {
    const auto columns = columns_within(width);
    one.over = {"overflow", "over memlock by right", "over share"};
    CHECK(line_of(one, columns).size() <= width);
    CHECK(title_line(columns).size() <= width);
    one.over = {"over share"};
    CHECK(line_of(one, columns).ends_with("share"));
  }
  CHECK(line_of(one, columns_within(40)).ends_with("16E share"));
  one.over = {"over memlock by right", "over share"};
  CHECK(line_of(one, columns_within(40)).ends_with("16E share"));
  one.over = {"overflow", "over memlock by right"};
  CHECK(line_of(one, columns_within(40)).ends_with("16E overflow"));
  one.over = {"over memlock by right"};
  CHECK(line_of(one, columns_within(40)).ends_with("16E by right"));
  one.over = {"over memlock by right", "over share"};
  CHECK(line_of(one, all_columns()).ends_with("over memlock by right, over share"));
}

TEST_CASE("what is not known is a dash, and null in JSON") {
  MachineProcess one = process(9, 0, 0);
  one.status.name = "\x1b[31mr\xc3\xa9";
  one.status.resident = std::nullopt;
  one.memlock = std::nullopt;
  const auto cell_of = [&one](const std::string& title) {
    return cell(one, *std::ranges::find(all_columns(), title, &ColumnInfo::title));
  };
  CHECK(cell_of("HELD") == "-");
  CHECK(cell_of("RSS") == "-");
  CHECK(cell_of("NAME") == "?[31mr??");
  TopView view;
  view.scan.processes = {one};
  view.scan.processes.push_back(one);
  view.scan.processes[1].status.name = "\xff\xfe";
  const auto json = as_json(view);
  CHECK(json["processes"][0]["held_bytes"].is_null());
  CHECK(json["processes"][0]["memlock_unlimited"].is_null());
  const std::string text = as_text(json, 2);
  for (const char c : text) CHECK(((c >= ' ' && c <= '~') || c == '\n'));
  CHECK(nlohmann::json::parse(text)["processes"][0]["name"] == "\x1b[31mr\xc3\xa9");
}

}  // namespace
}  // namespace rdmalloc::cli
