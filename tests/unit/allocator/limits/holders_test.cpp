// Who holds pinned memory, with a /proc of the test's own.
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "allocator/limits/holders.h"
#include "tests/support/catch.h"
#include "tests/support/fake_os.h"

namespace rdmalloc {
namespace {

class Proc {
 public:
  Proc() {
    char name[] = "/tmp/rdmalloc-proc-XXXXXX";
    folder_ = mkdtemp(name);
  }
  ~Proc() { std::filesystem::remove_all(folder_); }
  Proc(const Proc&) = delete;
  Proc& operator=(const Proc&) = delete;

  const char* path() const { return folder_.c_str(); }
  void add(const std::string& process, const std::string& name, int user, int locked, int pinned) {
    std::filesystem::create_directory(folder_ + "/" + process);
    std::ofstream(folder_ + "/" + process + "/status")
        << "Name:\t" << name << "\nUmask:\t0022\nUid:\t" << user << "\t" << user << "\nVmLck:\t  "
        << locked << " kB\nVmPin:\t     " << pinned << " kB\nThreads:\t1\n";
  }

 private:
  std::string folder_;
};

TEST_CASE("the greatest holders come first, of the user's other processes alone") {
  Proc proc;
  proc.add("10", "little", 1000, 1, 0);
  proc.add("20", "most", 1000, 100, 200);
  proc.add("30", "middle", 1000, 0, 50);
  proc.add("40", "somebody's", 1001, 999, 999);
  proc.add("50", "self", 1000, 999, 999);
  proc.add("60", "nothing", 1000, 0, 0);
  proc.add("self", "a link", 1000, 999, 999);
  std::filesystem::create_directory(std::string(proc.path()) + "/70");  // has ended meanwhile
  Holder found[3];
  REQUIRE(find_holders(proc.path(), 1000, 50, found, 3) == 3);
  REQUIRE((found[0].process == 20 && found[0].pinned == 200 << 10 && found[0].locked == 100 << 10));
  REQUIRE(std::string(found[0].name) == "most");
  REQUIRE(found[1].process == 30);
  REQUIRE(found[2].process == 10);
  REQUIRE(find_holders(proc.path(), 1000, 50, found, 1) == 1);
  REQUIRE(found[0].process == 20);
  REQUIRE(find_holders(proc.path(), 7, 50, found, 3) == 0);
  REQUIRE(find_holders("/nowhere", 1000, 50, found, 3) == 0);
}

TEST_CASE("a process with a bad name for itself is warned of in one line") {
  Proc proc;
  proc.add("11", "a\tb\x1b[1m\xff and longer than any", 1000, 1, 1);
  Holder found[1];
  REQUIRE(find_holders(proc.path(), 1000, 1, found, 1) == 1);
  REQUIRE(std::string(found[0].name) == "a?b?[1m? and lo");
}

TEST_CASE("the clause names the limit, the budget, and what this process has") {
  fake::reset();
  fake::machine().lock = {8 << 20, 8 << 20, false};
  rdm_stats books{};
  books.held_bytes = 20 << 20;
  books.pinned_bytes = 7 << 20;
  books.overflow_bytes = 13 << 20;
  books.registered_bytes = 7 << 20;
  books.domains = 1;
  books.budget_bytes = 7 << 20;
  books.budget_limited_by = RDM_LIMITED_BY_MEMLOCK;
  Message message;
  say_who_holds_memory(books, &message);
  char text[1500];
  message.copy_to(text, sizeof text);
  INFO(text);
  const std::string said = text;
  for (const char* part :
       {"the memlock limit is 8 MiB", "the budget 7 MiB (by the memlock limit)",
        "this process holds 20 MiB, 7 MiB of it pinned and 13 MiB beyond the budget",
        "7 MiB registered in 1 domain;", "ulimit -l"}) {
    REQUIRE(said.find(part) != std::string::npos);
  }
  fake::reset();
}

}  // namespace
}  // namespace rdmalloc
