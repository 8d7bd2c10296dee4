// One look at the system, as doctor reports it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rdmalloc::cli {

// With less memory than this, pinned or left, any program that moves data is in trouble.
inline constexpr uint64_t kTooLittle = uint64_t{64} << 20;

enum class Verdict {
  kOk,
  kNote,     // less good than it could be
  kProblem,  // the heap, or a good part of it, would not be pinned
};

struct Check {
  std::string name;
  Verdict verdict = Verdict::kOk;
  std::string found = {};               // what there is, with numbers
  std::string meaning = {};             // what that does to a program under rdmalloc
  std::vector<std::string> cures = {};  // what to type; several are alternatives
};

// Each reads the system when called, never throws because of what it finds, and needs no
// privileges.
std::vector<Check> limit_checks();    // what this process may have
std::vector<Check> memory_checks();   // how the kernel manages memory
std::vector<Check> ability_checks();  // what the kernel can do, by trying
std::vector<Check> preload_checks();  // whether the library takes a program's heap over
std::vector<Check> verbs_checks();    // whether run --verbs can take RDMA registrations over

}  // namespace rdmalloc::cli
