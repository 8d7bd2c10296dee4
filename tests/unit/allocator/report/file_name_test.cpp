#include "allocator/report/file_name.h"

#include <string.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/fake_os.h"

namespace rdmalloc {
namespace {

Place somewhere() {
  Place place;
  strcpy(place.rank, "3");
  strcpy(place.job, "77");
  strcpy(place.machine, "node12");
  return place;
}

std::string expanded(const char* pattern, const Place& place) {
  char out[128];
  REQUIRE(expand_file_name(pattern, place, out, sizeof out));
  return out;
}

Place found(std::vector<std::string> environment) {
  fake::reset();
  fake::environment() = std::move(environment);
  const Place place = find_place();
  fake::reset();
  return place;
}

bool is_good(const std::string& pattern) { return is_file_name({pattern.data(), pattern.size()}); }

}  // namespace

TEST_CASE("each letter stands for what it says") {
  const std::string process = std::to_string(getpid());
  CHECK(expanded("/a/%h/%j-%r.json", somewhere()) == "/a/node12/77-3.json");
  CHECK(expanded("%p%p", somewhere()) == process + process);
  CHECK(expanded("100%%p", somewhere()) == "100%p");
  CHECK(expanded("%%%r", somewhere()) == "%3");
  CHECK(expanded("", somewhere()).empty());
}

TEST_CASE("without a rank or a job the process id stands for it") {
  const std::string process = std::to_string(getpid());
  CHECK(expanded("%r.%j.%h", Place()) == process + "." + process + ".");
}

TEST_CASE("an unknown letter is none, nor is a percent sign at the end") {
  CHECK(is_good("/a/%p%r%j%h%%"));
  CHECK(is_good(""));
  for (const char* pattern : {"%", "a%", "%d", "%P", "%%%", "%p%", "% p", "%%%x"}) {
    INFO(pattern);
    CHECK_FALSE(is_good(pattern));
  }
  CHECK_FALSE(is_good(std::string("%\0", 2)));
}

TEST_CASE("a name that does not fit is cut and said not to") {
  char out[8];
  CHECK(expand_file_name("1234567", somewhere(), out, sizeof out));
  CHECK_FALSE(expand_file_name("12345678", somewhere(), out, sizeof out));
  CHECK(strlen(out) < sizeof out);
  CHECK_FALSE(expand_file_name("1%h%h", somewhere(), out, sizeof out));
  CHECK(strlen(out) < sizeof out);
}

TEST_CASE("only %p makes the names of a process and its children differ") {
  CHECK(names_process("a%p"));
  CHECK(names_process("%%%p"));
  CHECK_FALSE(names_process("%%p"));
  CHECK_FALSE(names_process("%r%j"));
  CHECK_FALSE(names_process("%"));
}

TEST_CASE("each launcher's rank is known") {
  for (const char* name : {"OMPI_COMM_WORLD_RANK=", "PMIX_RANK=", "PMI_RANK=",
                           "MV2_COMM_WORLD_RANK=", "PALS_RANKID=", "SLURM_PROCID="}) {
    CHECK(std::string(found({name + std::string("12")}).rank) == "12");
    for (const char* bad : {"", "-1", "x", "../5", "5 ", "99999999999999999999999999"}) {
      CHECK_FALSE(found({name + std::string(bad)}).has_rank());
    }
  }
  CHECK(std::string(found({"SLURM_PROCID=0", "PMI_RANK=5"}).rank) == "5");
}

TEST_CASE("each batch system's job is known, and goes before the launcher's") {
  for (const char* name :
       {"SLURM_JOB_ID=", "SLURM_JOBID=", "PBS_JOBID=", "LSB_JOBID=", "PALS_APID=", "PMI_JOBID=",
        "PMIX_NAMESPACE=", "OMPI_MCA_ess_base_jobid="}) {
    CHECK(std::string(found({name + std::string("4711[3].pbs")}).job) == "4711[3].pbs");
  }
  CHECK(std::string(found({"PMIX_NAMESPACE=9", "SLURM_JOB_ID=8"}).job) == "8");
  CHECK_FALSE(found({"PATH=/bin"}).has_job());
}

TEST_CASE("what a job is called leads into no other folder, and into no sentence of its own") {
  CHECK(std::string(found({"PBS_JOBID=../x %p\n\x1b[1m"}).job) == ".._x__p__[1m");
  const Place place = found({"PBS_JOBID=" + std::string(500, 'x')});
  CHECK(std::string(place.job) == std::string(sizeof place.job - 1, 'x'));
}

TEST_CASE("the machine's name is the kernel's") {
  char name[256];
  REQUIRE(gethostname(name, sizeof name) == 0);
  CHECK(std::string(found({}).machine) == std::string(name).substr(0, sizeof(Place::machine) - 1));
}

}  // namespace rdmalloc
