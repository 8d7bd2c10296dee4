#include "allocator/limits/launcher.h"

#include <string>
#include <vector>

#include "allocator/os/process.h"
#include "tests/support/catch.h"
#include "tests/support/fake_os.h"

namespace rdmalloc {
namespace {

uint64_t ranks(std::vector<std::string> environment) {
  fake::reset();
  fake::environment() = std::move(environment);
  const uint64_t found = ranks_on_machine();
  fake::reset();
  return found;
}

bool start_of(const std::string& stat, uint64_t* start) {
  return os::parse_start({stat.data(), stat.size()}, start);
}

const std::string kAfterState = " 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 ";

}  // namespace

TEST_CASE("without a launcher a process is alone") { CHECK(ranks({"PATH=/bin"}) == 1); }

TEST_CASE("each launcher's number of ranks on the machine is known") {
  CHECK(ranks({"OMPI_COMM_WORLD_LOCAL_SIZE=4"}) == 4);
  CHECK(ranks({"MPI_LOCALNRANKS=3"}) == 3);
  CHECK(ranks({"MV2_COMM_WORLD_LOCAL_SIZE=2"}) == 2);
  CHECK(ranks({"PMI_LOCAL_SIZE=16"}) == 16);
  CHECK(ranks({"SLURM_TASKS_PER_NODE=5"}) == 5);
}

TEST_CASE("Slurm's list is read for this machine") {
  const std::string list = "SLURM_TASKS_PER_NODE=4(x2),3,2(x10)";
  CHECK(ranks({list, "SLURM_NODEID=0"}) == 4);
  CHECK(ranks({list, "SLURM_NODEID=1"}) == 4);
  CHECK(ranks({list, "SLURM_NODEID=2"}) == 3);
  CHECK(ranks({list, "SLURM_NODEID=12"}) == 2);
  CHECK(ranks({list, "SLURM_NODEID=13"}) == 1);
  CHECK(ranks({list, "SLURM_STEP_TASKS_PER_NODE=7"}) == 7);
}

TEST_CASE("the launcher that started the process goes before the batch system around it") {
  CHECK(ranks({"SLURM_TASKS_PER_NODE=64", "OMPI_COMM_WORLD_LOCAL_SIZE=2"}) == 2);
}

TEST_CASE("what is no number is as if it were not there") {
  for (const char* value : {"", "0", "-1", "x", "4x", "99999999999999999999", " 4"}) {
    CHECK(ranks({std::string("OMPI_COMM_WORLD_LOCAL_SIZE=") + value}) == 1);
  }
  for (const char* value : {"", ",", "4(", "4(x", "4(x2", "(x2)", "4(x2)3", "4;3"}) {
    CHECK(ranks({std::string("SLURM_TASKS_PER_NODE=") + value, "SLURM_NODEID=2"}) == 1);
  }
}

TEST_CASE("a process's start is found whatever its name is") {
  uint64_t start = 0;
  for (const char* name : {"cat", "a b", ") Z 1", "((", ""}) {
    CHECK(start_of("12 (" + std::string(name) + ") S" + kAfterState + "1 18 777 20 21", &start));
    CHECK(start == 777);
  }
}

TEST_CASE("a zombie has no start, but a process whose main thread ended has one") {
  uint64_t start = 0;
  CHECK_FALSE(start_of("12 (cat) Z" + kAfterState + "1 18 777 20", &start));
  CHECK(start_of("12 (cat) Z" + kAfterState + "2 18 777 20", &start));
}

TEST_CASE("what the kernel would not write has no start") {
  uint64_t start = 0;
  for (const char* text : {"", "12", "12 (cat", "12 (cat)", "12 (cat) S", "12 (cat) S 1 2 3"}) {
    CHECK_FALSE(start_of(text, &start));
  }
}

TEST_CASE("this process lives, and none with its number and another start") {
  os::Process self = os::this_process();
  CHECK(self.start != 0);
  CHECK(os::is_alive(self));
  ++self.start;
  CHECK_FALSE(os::is_alive(self));
}

}  // namespace rdmalloc
