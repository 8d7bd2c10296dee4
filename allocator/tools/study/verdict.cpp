#include "allocator/tools/study/verdict.h"

#include <algorithm>
#include <cmath>

#include "allocator/tools/study/comparison.h"
#include "allocator/tools/text.h"

namespace rdmalloc::cli::study {
namespace {

constexpr double kPercent = 100;
// Ratios nearer to 1 than this are reported as equal: figures are rounded to whole percents.
constexpr double kRounding = 0.005;
constexpr double kShortestSeconds = 0.1;
constexpr double kMostRepeats = 1000;
// The kernel counts pages per processor, and a small program's are within the error.
constexpr double kLeastBytes = 4 << 20;
constexpr uint64_t kMiB = 1 << 20;

std::string bytes(double value) { return size_text(static_cast<uint64_t>(std::llround(value))); }

std::string percent(double ratio) {
  const double value = std::abs(ratio - 1) * kPercent;
  return format(value < 10 ? "%.1f %%" : "%.0f %%", value);
}

bool is_one(double ratio) { return std::abs(ratio - 1) < kRounding; }

// "12 % more", "3.0 % less", "as much".
std::string more_or_less(double ratio) {
  if (is_one(ratio)) return "as much";
  return percent(ratio) + (ratio > 1 ? " more" : " less");
}

std::string interval(const Comparison& found) {
  const bool is_point = found.high - found.low < kRounding;
  return is_point ? ""
                  : ", between " + more_or_less(found.low) + " and " + more_or_less(found.high);
}

std::string measured(const Comparison& found) {
  return "measured " + more_or_less(found.ratio) + interval(found);
}

using Figure = std::optional<Spread> Row::*;

bool is_time(Figure figure) { return figure == &Row::seconds || figure == &Row::cpu_seconds; }

// Says what would settle the comparison.
std::string settling(const Comparison& found, Figure figure) {
  const double repeats = found.repeats_to_tell;
  if (found.low > 1 - kLeastOfInterest && found.high < 1 + kLeastOfInterest) {
    return "the difference is below 1 %";
  }
  return (repeats > kMostRepeats
              ? "more than " + format("%.0f", kMostRepeats)
              : "about " + format("%.0f", std::max(repeats, kFewestRepeats + 1.0))) +
         " repeats would tell (--repeats)" +
         (is_time(figure) ? ", or fewer on a quieter machine" : "");
}

constexpr const char* kNoPeak = "No peak was seen: the program is over too soon.";

// What a comparison allows to be said. Equal: nothing is left to tell apart.
enum class Told { kNothing, kEqual, kLess, kMore };

struct Judged {
  Told told = Told::kNothing;
  std::optional<Comparison> found;  // nothing: too few runs, too little memory or time
  std::string untold;               // of kNothing: what follows "cannot be told"
};

Judged compare(const Row& one, const Row& other, Figure figure) {
  const Spread& ours = *(one.*figure);
  const Spread& theirs = *(other.*figure);
  const double least = std::min(ours.median, theirs.median);
  if (!is_time(figure) && least < kLeastBytes) return {{}, {}, " of less than 4 MiB"};
  if (std::min(ours.values.size(), theirs.values.size()) < kFewestRepeats) {
    return {{}, {}, " from fewer than three runs (--repeats)"};
  }
  // A shorter run is mostly start-up, and its time is chance.
  if (figure == &Row::seconds && least < kShortestSeconds) {
    return {{}, {}, " of runs below 0.1 s: give the program more to do"};
  }
  const auto found = study::compare(ours.values, theirs.values);
  if (!found) return {};
  if (is_one(found->low) && is_one(found->high)) return {Told::kEqual, found, ""};
  if (found->outcome == Comparison::Outcome::kCannotTell) {
    return {Told::kNothing, found, ": " + measured(*found) + "; " + settling(*found, figure)};
  }
  const bool is_more = found->outcome == Comparison::Outcome::kMore;
  return {is_more ? Told::kMore : Told::kLess, found, ""};
}

// Our row that shows the cost of never returning memory: pinned, or unpinned if pinned did not run.
const Row* our_row(const std::vector<Row>& rows) {
  const Row* pinned = find_row(rows, kPinnedName);
  return pinned != nullptr ? pinned : find_row(rows, kUnpinnedName);
}

const Row* best_other(const std::vector<Row>& rows) {
  const Row* best = nullptr;
  for (const Row& row : rows) {
    if (row.configuration.allocator.ours || row.runs_ok == 0 || !row.peak_resident) continue;
    if (best == nullptr || row.peak_resident->median < best->peak_resident->median) best = &row;
  }
  return best;
}

std::string text_of(const Row& row, Figure figure) {
  const double median = (row.*figure)->median;
  if (!is_time(figure)) return bytes(median);
  return format(median < 1 ? "%.3f s" : "%.2f s", median);
}

// " (12.3 MiB against 11.2 MiB)", " (1.20 s, 1.10 s)".
std::string both(const Row& ours, const Row& other, Figure figure) {
  return " (" + text_of(ours, figure) + (is_time(figure) ? ", " : " against ") +
         text_of(other, figure) + ")";
}

std::string peak_answer(const Row& ours, const Row& other) {
  const Figure figure = &Row::peak_resident;
  const std::string& name = other.configuration.name;
  const std::string figures = both(ours, other, figure) + ".";
  const auto [told, found, untold] = compare(ours, other, figure);
  switch (told) {
    case Told::kNothing:
      return "Whether never returning memory costs this program more at its peak than " + name +
             " cannot be told" + untold + figures;
    case Told::kEqual:
      return "Never returning memory costs this program nothing at its peak against " + name +
             figures;
    case Told::kLess:
      return "This program's peak is " + percent(found->ratio) + " lower than under " + name +
             ", though memory is never returned" + figures;
    default:
      return "Never returning memory costs this program " + percent(found->ratio) +
             " more memory at its peak than " + name + figures;
  }
}

std::string mean_answer(const Row& ours, const Row& other) {
  const Figure figure = &Row::mean_resident;
  const std::string& name = other.configuration.name;
  const std::string figures = both(ours, other, figure) + ".";
  const auto [told, found, untold] = compare(ours, other, figure);
  if (told == Told::kNothing) {
    return "Whether it has more resident on average over its time than under " + name +
           " cannot be told" + untold + figures;
  }
  return "On average over its time it has " + more_or_less(found->ratio) + " resident than under " +
         name + figures;
}

std::string held_answer(const Row& ours) {
  return "At its peak it holds " + format("%.2f", *ours.held_to_live) + " times what is live (" +
         bytes(*ours.peak_held) + " for " + bytes(*ours.peak_live) + ").";
}

void answer_about_returning(const std::vector<Row>& rows, Verdict& verdict) {
  const Row* ours = our_row(rows);
  if (ours == nullptr) return;
  const Row* glibc = find_row(rows, "glibc");
  if (!ours->peak_resident || (glibc != nullptr && !glibc->peak_resident)) {
    verdict.answers.push_back(kNoPeak);
  }
  if (!ours->peak_resident) return;
  std::vector<const Row*> others;  // glibc, and the best of them if it is another one
  if (glibc != nullptr && glibc->peak_resident) others.push_back(glibc);
  if (const Row* best = best_other(rows); best != nullptr && !std::ranges::count(others, best)) {
    others.push_back(best);
  }
  for (const Row* other : others) {
    verdict.answers.push_back(peak_answer(*ours, *other));
    if (other != others.front())
      verdict.answers.back() += " No other is lower than " + other->configuration.name + ".";
    if (ours->mean_resident && other->mean_resident) {
      verdict.answers.back() += " " + mean_answer(*ours, *other);
    }
  }
  if (ours->held_to_live) verdict.answers.push_back(held_answer(*ours));
}

// " CPU time: 20 % more, between ... and ...": for programs that wait, wall time says little.
std::string cpu_answer(const Row& row, const Row& base) {
  if (!row.cpu_seconds || !base.cpu_seconds) return "";
  const auto [told, found, untold] = compare(row, base, &Row::cpu_seconds);
  if (!found) return "";
  const std::string figures = both(row, base, &Row::cpu_seconds);
  if (told == Told::kNothing) {
    return " Nor can it be told of CPU time" + figures + ": " + measured(*found) + ".";
  }
  return " CPU time: " + more_or_less(found->ratio) + interval(*found) + figures + ".";
}

std::string time_answer(const std::string& what, const Row& row, const Row& base) {
  const std::string whom = " against " + base.configuration.label + both(row, base, &Row::seconds);
  const auto [told, found, untold] = compare(row, base, &Row::seconds);
  const std::string cpu = found ? cpu_answer(row, base) : "";
  if (told == Told::kNothing) {
    return "Time: what " + what + " costs" + whom + " cannot be told" + untold + "." + cpu;
  }
  if (told == Told::kEqual) return "Time: " + what + " costs nothing" + whom + "." + cpu;
  return "Time: " + what + (told == Told::kMore ? " costs " : " saves ") + percent(found->ratio) +
         interval(*found) + "," + whom + "." + cpu;
}

void answer_about_pinning(const std::vector<Row>& rows, Verdict& verdict) {
  const Row* pinned = find_row(rows, kPinnedName);
  if (pinned == nullptr) return;
  if (pinned->peak_pinned.value_or(0) == 0) {
    verdict.answers.push_back(
        "Nothing was pinned: what pinning costs cannot be told here "
        "(see rdmalloc doctor).");
  } else if (const Row* unpinned = find_row(rows, kUnpinnedName)) {
    verdict.answers.push_back(time_answer("pinning", *pinned, *unpinned));
  }
  if (const Row* glibc = find_row(rows, "glibc")) {
    verdict.answers.push_back(time_answer("rdmalloc", *pinned, *glibc));
  }
  if (pinned->peak_overflow.value_or(0) > 0) {
    verdict.answers.push_back("Without a cap of ours " + bytes(*pinned->peak_overflow) +
                              " could not be pinned: a limit of this machine or user is lower than "
                              "what the program holds (see rdmalloc doctor).");
  }
}

// "; no time is lost.", or how much is, or that this cannot be told.
std::string time_of_cap(const Row& row, const Row& pinned) {
  const auto [told, found, untold] = compare(row, pinned, &Row::seconds);
  if (!found) return "; whether that costs time cannot be told.";
  if (told == Told::kMore) return ", and the program takes " + percent(found->ratio) + " longer.";
  if (told == Told::kNothing) return "; no loss of time can be told (" + measured(*found) + ").";
  return "; no time is lost.";
}

bool is_cap(const Row& row) { return row.configuration.cap_bytes && row.runs_ok != 0; }

bool loses_nothing(const Row& row, const Row& pinned) {
  return row.peak_overflow && *row.peak_overflow == 0 &&
         compare(row, pinned, &Row::seconds).told != Told::kMore;
}

std::string a_cap(const Row& row) {
  return "A cap of " + bytes(static_cast<double>(*row.configuration.cap_bytes));
}

std::string smaller_cap_answer(const Row& row, const Row& pinned) {
  std::string answer = a_cap(row);
  if (!row.peak_overflow) {
    answer += ": what could not be pinned is not known";
  } else if (*row.peak_overflow > 0) {
    answer += " leaves " + bytes(*row.peak_overflow) + " not pinned";
  } else {
    answer += " has room for all";
  }
  return answer + time_of_cap(row, pinned);
}

// Smallest first.
std::vector<const Row*> caps_of(const std::vector<Row>& rows) {
  std::vector<const Row*> caps;
  for (const Row& row : rows) {
    if (is_cap(row)) caps.push_back(&row);
  }
  std::ranges::sort(caps, {}, [](const Row* row) { return *row->configuration.cap_bytes; });
  return caps;
}

void answer_about_caps(const std::vector<Row>& rows, Verdict& verdict) {
  const Row* pinned = find_row(rows, kPinnedName);
  const std::vector<const Row*> caps = caps_of(rows);
  verdict.cap = {"none", "No runs with a cap to judge by (--caps)."};
  if (pinned == nullptr || caps.empty()) return;
  const auto best =
      std::ranges::find_if(caps, [&](const Row* row) { return loses_nothing(*row, *pinned); });
  if (best == caps.end()) {
    verdict.cap.figures = "No cap that was tried is enough.";
    verdict.answers.push_back(verdict.cap.figures);
  } else {
    const uint64_t cap = *(*best)->configuration.cap_bytes;
    const std::string time = time_of_cap(**best, *pinned);
    verdict.smallest_cap_without_loss = cap;
    verdict.cap = {"RDMALLOC_CAP=" + std::to_string((cap + kMiB - 1) / kMiB) + "M",
                   "All stays pinned" + time};
    verdict.answers.push_back(a_cap(**best) + " is enough: all stays pinned" + time);
  }
  for (auto smaller = caps.begin(); smaller != best; ++smaller) {
    verdict.answers.push_back(smaller_cap_answer(**smaller, *pinned));
  }
}

// "12 % more than glibc", as much, or that it cannot be told; with the figures.
Tile tile_of(const Row& ours, const Row& base, Figure figure, const std::string& what) {
  const std::string& name = base.configuration.name;
  const auto [told, found, untold] = compare(ours, base, figure);
  Tile tile{"cannot be told", what + text_of(ours, figure) + " (" + ours.configuration.label +
                                  ") against " + text_of(base, figure) + " (" +
                                  base.configuration.label + ")."};
  if (told == Told::kNothing) {
    tile.figures += " Nothing can be told" + untold + ".";
  } else if (told == Told::kEqual) {
    tile.verdict = "as much as " + name;
  } else {
    tile.verdict =
        percent(found->ratio) + (told == Told::kMore ? " more than " : " less than ") + name;
    if (!interval(*found).empty()) tile.figures += " Measured" + interval(*found).substr(1) + ".";
  }
  return tile;
}

void fill_tiles(const std::vector<Row>& rows, Verdict& verdict) {
  const Row* ours = our_row(rows);
  const Row* base = find_row(rows, "glibc");
  if (base == nullptr) base = best_other(rows);
  if (ours == nullptr || base == nullptr) {
    const char* alone = "There are no runs of rdmalloc and another allocator to compare.";
    verdict.memory = verdict.time = {"cannot be told", alone};
    return;
  }
  const bool has_peaks = ours->peak_resident && base->peak_resident;
  verdict.memory = has_peaks ? tile_of(*ours, *base, &Row::peak_resident, "Peak ")
                             : Tile{"cannot be told", kNoPeak};
  verdict.time = tile_of(*ours, *base, &Row::seconds, "");
}

void answer_about_tradeoff(const std::vector<Row>& rows, Verdict& verdict) {
  std::vector<std::string> best;
  size_t measured = 0;
  for (const Row& row : rows) {
    if (row.runs_ok != 0) ++measured;
    if (row.on_pareto) best.push_back(row.configuration.label);
  }
  if (measured < 2 || best.empty()) return;
  verdict.answers.push_back(
      "Beaten by none in both peak and time, by their medians: " + joined(best, "; ") + ".");
}

void answer_about_machine(const std::vector<Row>& rows, const Machine& machine, Verdict& verdict) {
  const auto was_measured = [](const Row& row) { return row.runs_ok != 0; };
  if (!machine.load || std::ranges::none_of(rows, was_measured)) return;
  std::string answer = "Before the study the machine's load was " + format("%.1f", *machine.load) +
                       " on " + std::to_string(machine.cores) + " processors";
  if (*machine.load > machine.cores / 2.0) {
    answer += ": other work used some of them, so trust the times less";
  }
  verdict.answers.push_back(answer + ".");
}

void answer_about_failures(const std::vector<Row>& rows, Verdict& verdict) {
  std::vector<std::string> failed;
  for (const Row& row : rows) {
    if (row.runs_ok == 0) failed.push_back(row.configuration.label);
  }
  if (failed.empty()) return;
  verdict.answers.push_back("No run succeeded under: " + joined(failed, "; ") + ".");
}

}  // namespace

Verdict judge(const std::vector<Row>& rows, const Machine& machine) {
  Verdict verdict;
  fill_tiles(rows, verdict);
  answer_about_returning(rows, verdict);
  answer_about_pinning(rows, verdict);
  answer_about_caps(rows, verdict);
  answer_about_tradeoff(rows, verdict);
  answer_about_machine(rows, machine, verdict);
  answer_about_failures(rows, verdict);
  return verdict;
}

}  // namespace rdmalloc::cli::study
