#include "allocator/limits/launcher.h"

#include <initializer_list>
#include <span>

#include "allocator/os/environment.h"
#include "allocator/os/process.h"

namespace rdmalloc {
namespace {

using os::Text;
using os::text;

// The value of an environment variable, parsed; 0 if the variable is missing.
struct Question {
  Text prefix;  // its name and '='
  uint64_t (*parse)(Text value, uint64_t context);
  uint64_t context = 0;
  uint64_t answer = 0;
};

uint64_t ask(const char* prefix, uint64_t (*parse)(Text, uint64_t), uint64_t context = 0) {
  Question question{text(prefix), parse, context};
  os::for_each_environment(
      prefix,
      [](void* of, Text entry) {
        auto* asked = static_cast<Question*>(of);
        asked->answer = asked->parse(entry.drop(asked->prefix.size), asked->context);
      },
      &question);
  return question.answer;
}

// Parses the whole value as a number; 0 if it is not one.
uint64_t parse_number(Text value, uint64_t) {
  uint64_t number = 0;
  Text rest;
  return parse_decimal(value, &number, &rest) && rest.size == 0 ? number : 0;
}

// Slurm's "4(x2),3": four on each of the first two machines, three on the next.
uint64_t parse_slurm(Text value, uint64_t node) {
  while (value.size > 0) {
    uint64_t ranks = 0;
    uint64_t nodes = 1;
    if (!parse_decimal(value, &ranks, &value)) return 0;
    if (value.starts_with(text("(x"))) {
      if (!parse_decimal(value.drop(2), &nodes, &value)) return 0;
      if (!value.starts_with(text(")"))) return 0;
      value = value.drop(1);
    }
    if (node < nodes) return ranks;
    node -= nodes;
    if (value.size > 0 && value.data[0] != ',') return 0;
    if (value.size > 0) value = value.drop(1);
  }
  return 0;
}

uint64_t from_slurm() {
  // Also 0 if the variable is missing.
  const uint64_t node = ask("SLURM_NODEID=", parse_number);
  const uint64_t of_step = ask("SLURM_STEP_TASKS_PER_NODE=", parse_slurm, node);
  return of_step != 0 ? of_step : ask("SLURM_TASKS_PER_NODE=", parse_slurm, node);
}

// An environment variable whose value is to be copied to `out`.
struct Wanted {
  Text prefix;
  bool is_number;
  std::span<char> out;
};

// Replaces characters that a file name or a message should not contain.
char printable(char c) { return c <= ' ' || c > '~' || c == '/' || c == '%' ? '_' : c; }

void keep(Text value, const Wanted& wanted) {
  if (wanted.is_number) {
    uint64_t number = 0;
    Text rest;
    if (!parse_decimal(value, &number, &rest) || rest.size != 0) return;
  }
  if (wanted.is_number && value.size >= wanted.out.size()) return;
  size_t length = 0;
  for (; length < value.size && length + 1 < wanted.out.size(); ++length) {
    wanted.out[length] = printable(value.data[length]);
  }
  wanted.out[length] = '\0';
}

void find(std::initializer_list<const char*> names, bool is_number, std::span<char> out) {
  for (const char* name : names) {
    Wanted wanted{text(name), is_number, out};
    os::for_each_environment(
        name,
        [](void* of, Text entry) {
          const auto* asked = static_cast<const Wanted*>(of);
          keep(entry.drop(asked->prefix.size), *asked);
        },
        &wanted);
    if (out[0] != '\0') return;
  }
}

}  // namespace

// The launcher's variables come before Slurm's: mpirun in a Slurm job may start fewer ranks.
uint64_t ranks_on_machine() {
  for (const char* name : {"OMPI_COMM_WORLD_LOCAL_SIZE=", "MPI_LOCALNRANKS=",
                           "MV2_COMM_WORLD_LOCAL_SIZE=", "PMI_LOCAL_SIZE=", "PMIX_LOCAL_SIZE="}) {
    const uint64_t ranks = ask(name, parse_number);
    if (ranks != 0) return ranks;
  }
  const uint64_t ranks = from_slurm();
  return ranks != 0 ? ranks : 1;
}

// The batch system's job number comes before a launcher's: users know their job by it.
Place find_place() {
  Place place;
  find({"OMPI_COMM_WORLD_RANK=", "PMIX_RANK=", "PMI_RANK=", "MV2_COMM_WORLD_RANK=", "PALS_RANKID=",
        "SLURM_PROCID="},
       true, place.rank);
  find({"SLURM_JOB_ID=", "SLURM_JOBID=", "PBS_JOBID=", "LSB_JOBID=", "PALS_APID=", "PMI_JOBID=",
        "PMIX_NAMESPACE=", "OMPI_MCA_ess_base_jobid="},
       false, place.job);
  os::machine_name(place.machine, sizeof place.machine);
  for (char* c = place.machine; *c != '\0'; ++c) *c = printable(*c);
  return place;
}

}  // namespace rdmalloc
