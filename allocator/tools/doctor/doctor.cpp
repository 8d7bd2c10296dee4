#include "allocator/tools/doctor/doctor.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "allocator/tools/doctor/check.h"
#include "allocator/tools/refusal.h"
#include "allocator/tools/terminal.h"
#include "allocator/tools/text.h"

namespace rdmalloc::cli {
namespace {

using nlohmann::ordered_json;

constexpr size_t kVerdictWidth = 9;
constexpr size_t kNameWidth = 13;
constexpr size_t kLeastWidth = 30;

constexpr Verdict kGravestFirst[] = {Verdict::kProblem, Verdict::kNote, Verdict::kOk};

struct VerdictLook {
  const char* name;
  Colour colour;
};

VerdictLook look_of(Verdict verdict) {
  constexpr VerdictLook kLooks[] = {
      {"ok", Colour::kGreen}, {"note", Colour::kYellow}, {"problem", Colour::kRed}};
  return kLooks[static_cast<size_t>(verdict)];
}

// What hinders most comes first among those of the same verdict.
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
                    {"status", look_of(check.verdict).name},
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
  const std::string verdict = look_of(check.verdict).name;
  const size_t width = std::max(columns_of(STDOUT_FILENO), kLeastWidth);
  std::vector<std::string> words = words_of(check.found);
  words.insert(words.begin(), check.name);
  words.front().resize(std::max(check.name.size(), kNameWidth), ' ');
  std::string before = coloured(verdict, look_of(check.verdict).colour, STDOUT_FILENO) +
                       std::string(kVerdictWidth - verdict.size(), ' ');
  for (const std::string& line : fill(words, " ", width - kVerdictWidth)) {
    printf("%s%s\n", before.c_str(), line.c_str());
    before.assign(kVerdictWidth, ' ');
  }
  if (!explain) return;
  if (!check.meaning.empty()) {
    fputs(wrap(check.meaning, kVerdictWidth, std::min(width, kTextWidth)).c_str(), stdout);
  }
  for (const std::string& cure : check.cures) {
    printf("%*s> %s\n", static_cast<int>(kVerdictWidth), "", cure.c_str());
  }
}

std::string count_verdicts(const std::vector<Check>& checks, Verdict verdict) {
  const auto found = static_cast<uint64_t>(count(checks, verdict));
  const char* const name = look_of(verdict).name;
  return found == 0 ? std::string("no ") + name + "s" : count_text(found, name);
}

std::string summary(const std::vector<Check>& checks) {
  const auto first = std::ranges::find(checks, Verdict::kProblem, &Check::verdict);
  std::string text = count_verdicts(checks, Verdict::kProblem) + ", " +
                     count_verdicts(checks, Verdict::kNote) + " in " +
                     std::to_string(checks.size()) + " checks";
  if (first == checks.end()) return text;
  text += "; begin with " + first->name;
  return first->cures.empty() ? text : text + ": " + first->cures.front();
}

void print_text(const std::vector<Check>& checks, bool explain_all) {
  const std::string sum = summary(checks);
  printf("%s\n\n", sum.c_str());
  for (const Verdict verdict : kGravestFirst) {
    for (const Check& check : checks) {
      if (check.verdict == verdict) print_check(check, explain_all || verdict != Verdict::kOk);
    }
  }
  // Where a terminal has scrolled the first line away.
  if (is_screen(STDOUT_FILENO)) printf("\n%s\n", sum.c_str());
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
