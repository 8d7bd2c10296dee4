#include "allocator/cli/doctor.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "allocator/cli/check.h"
#include "allocator/cli/refusal.h"
#include "allocator/cli/render.h"

namespace rdmalloc::cli {
namespace {

using nlohmann::ordered_json;

constexpr size_t kVerdictWidth = 9;
constexpr size_t kNameWidth = 14;

const char* name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kOk:
      return "ok";
    case Verdict::kNote:
      return "note";
    case Verdict::kProblem:
      return "problem";
  }
  return "?";
}

std::vector<Check> all_checks() {
  std::vector<Check> all;
  for (const auto checks :
       {preload_checks, limit_checks, memory_checks, ability_checks, verbs_checks}) {
    std::ranges::move(checks(), std::back_inserter(all));
  }
  return all;
}

long count(const std::vector<Check>& checks, Verdict verdict) {
  return std::ranges::count(checks, verdict, &Check::verdict);
}

void print_json(const std::vector<Check>& checks) {
  ordered_json list = ordered_json::array();
  for (const Check& check : checks) {
    list.push_back({{"name", check.name},
                    {"status", name(check.verdict)},
                    {"found", check.found},
                    {"meaning", check.meaning},
                    {"to_change", check.cures}});
  }
  const ordered_json out = {{"problems", count(checks, Verdict::kProblem)},
                            {"notes", count(checks, Verdict::kNote)},
                            {"checks", list}};
  puts(out.dump(2).c_str());
}

void print_check(const Check& check, bool explain) {
  printf("%-*s%-*s%s\n", static_cast<int>(kVerdictWidth), name(check.verdict),
         static_cast<int>(kNameWidth), check.name.c_str(), check.found.c_str());
  if (!explain) return;
  if (!check.meaning.empty()) fputs(wrap(check.meaning, kVerdictWidth).c_str(), stdout);
  for (const std::string& cure : check.cures) {
    printf("%*s> %s\n", static_cast<int>(kVerdictWidth), "", cure.c_str());
  }
}

void print_text(const std::vector<Check>& checks, bool explain_all) {
  for (const Check& check : checks)
    print_check(check, explain_all || check.verdict != Verdict::kOk);
  const long problems = count(checks, Verdict::kProblem);
  const long notes = count(checks, Verdict::kNote);
  printf("\n%ld problem%s, %ld note%s in %zu checks\n", problems, problems == 1 ? "" : "s", notes,
         notes == 1 ? "" : "s", checks.size());
}

}  // namespace

int doctor(bool json, bool explain_all) {
  const std::vector<Check> checks = all_checks();
  if (json) {
    print_json(checks);
  } else {
    print_text(checks, explain_all);
  }
  return count(checks, Verdict::kProblem) == 0 ? kExitOk : kExitProblem;
}

}  // namespace rdmalloc::cli
