#include "allocator/launcher.h"

#include <initializer_list>

#include "allocator/os/environment.h"

namespace rdmalloc {
namespace {

using os::Text;
using os::text;

// The value of a variable, by a parser; 0 where it is missing.
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

// A number, all of it; 0: none.
uint64_t parse_number(Text value, uint64_t) {
  uint64_t number = 0;
  Text rest;
  return parse_decimal(value, &number, &rest) && rest.size == 0 ? number : 0;
}

// Slurm's "4(x2),3": four on each of the first two nodes, three on the next.
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
  // 0 where it is missing, too.
  const uint64_t node = ask("SLURM_NODEID=", parse_number);
  const uint64_t of_step = ask("SLURM_STEP_TASKS_PER_NODE=", parse_slurm, node);
  return of_step != 0 ? of_step : ask("SLURM_TASKS_PER_NODE=", parse_slurm, node);
}

}  // namespace

// The launcher's own before Slurm's: mpirun inside a Slurm job starts what it was told to.
uint64_t ranks_on_node() {
  for (const char* name : {"OMPI_COMM_WORLD_LOCAL_SIZE=", "MPI_LOCALNRANKS=",
                           "MV2_COMM_WORLD_LOCAL_SIZE=", "PMI_LOCAL_SIZE=", "PMIX_LOCAL_SIZE="}) {
    const uint64_t ranks = ask(name, parse_number);
    if (ranks != 0) return ranks;
  }
  const uint64_t ranks = from_slurm();
  return ranks != 0 ? ranks : 1;
}

}  // namespace rdmalloc
