#include "allocator/cli/study/verdict.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace rdmalloc::cli::study {
namespace {

constexpr double kPercent = 100;
// Ratios nearer to 1 than this are told as equal: figures are rounded to whole percents.
constexpr double kRounding = 0.005;

std::string bytes(double value) { return human_bytes(static_cast<uint64_t>(std::llround(value))); }

std::string percent(double ratio) {
  std::array<char, 32> text{};
  const double value = std::abs(ratio - 1) * kPercent;
  snprintf(text.data(), text.size(), value < 10 ? "%.1f %%" : "%.0f %%", value);
  return text.data();
}

std::string number(double value, const char* format) {
  std::array<char, 32> text{};
  snprintf(text.data(), text.size(), format, value);
  return text.data();
}

std::string seconds(const Spread& value) {
  return number(value.median, value.median < 1 ? "%.3f s" : "%.2f s");
}

// "12 % more", "3.0 % less", "as much".
std::string more_or_less(double ratio) {
  if (std::abs(ratio - 1) < kRounding) return "as much";
  return percent(ratio) + (ratio > 1 ? " more" : " less");
}

// One measurement alone says nothing of how far it lies from the next: it counts as this much of
// itself to either side.
constexpr double kGuess = 0.025;

Spread widened(const Row& row, const Spread& spread) {
  if (row.runs_ok > 1) return spread;
  return {spread.median, spread.low * (1 - kGuess), spread.high * (1 + kGuess)};
}

bool differ(const Row& one, const Row& other, std::optional<Spread> Row::*figure) {
  return !widened(one, *(one.*figure)).overlaps(widened(other, *(other.*figure)));
}

// Our row that shows what never returning costs: pinned; where that did not run, not pinned.
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

std::string peaks(const Row& ours, const Row& other) {
  return "(" + bytes(ours.peak_resident->median) + " against " +
         bytes(other.peak_resident->median) + ")";
}

std::string peak_answer(const Row& ours, const Row& other) {
  const double ratio = ours.peak_resident->median / other.peak_resident->median;
  const std::string name = other.configuration.name;
  if (!differ(ours, other, &Row::peak_resident)) {
    return "Never returning memory costs this program nothing that can be seen at its peak "
           "against " +
           name + " " + peaks(ours, other) + ".";
  }
  std::string answer = "Never returning memory costs this program ";
  if (std::abs(ratio - 1) < kRounding) {
    answer += "nothing at its peak against " + name;
  } else if (ratio < 1) {
    answer = "This program's peak is " + percent(ratio) + " lower than under " + name +
             ", though memory is never returned";
  } else {
    answer += percent(ratio) + " more memory at its peak than " + name;
  }
  return answer + " " + peaks(ours, other) + ".";
}

std::string mean_answer(const Row& ours, const Row& other) {
  const double ratio = ours.mean_resident->median / other.mean_resident->median;
  const std::string figures = " (" + bytes(ours.mean_resident->median) + " against " +
                              bytes(other.mean_resident->median) + ")";
  const std::string what = "On average over its time";
  if (!differ(ours, other, &Row::mean_resident)) {
    return what + " no difference to " + other.configuration.name + " can be seen" + figures + ".";
  }
  return what + " it has " + more_or_less(ratio) + " resident than under " +
         other.configuration.name + figures + ".";
}

std::string held_answer(const Row& ours) {
  return "At its peak it holds " + number(*ours.held_to_live, "%.2f") + " times what is live (" +
         bytes(*ours.peak_held) + " for " + bytes(*ours.peak_live) + ").";
}

void answer_about_returning(const std::vector<Row>& rows, Verdict& verdict) {
  const Row* ours = our_row(rows);
  if (ours == nullptr || !ours->peak_resident) return;
  std::vector<const Row*> others;  // glibc, and the best of them if that is another
  if (const Row* glibc = find_row(rows, "glibc"); glibc != nullptr && glibc->peak_resident) {
    others.push_back(glibc);
  }
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

std::string time_answer(const std::string& what, const Row& row, const Row& base) {
  const std::string against = " against " + base.configuration.label + " (" +
                              seconds(*row.seconds) + ", " + seconds(*base.seconds) + ")";
  if (!differ(row, base, &Row::seconds)) {
    return what + " costs no time that can be seen" + against + ": the runs of both overlap.";
  }
  const double ratio = row.seconds->median / base.seconds->median;
  if (std::abs(ratio - 1) < kRounding) return what + " costs no time" + against + ".";
  return what + (ratio > 1 ? " costs " : " saves ") + percent(ratio) + " time" + against + ".";
}

void answer_about_pinning(const std::vector<Row>& rows, Verdict& verdict) {
  const Row* pinned = find_row(rows, kPinnedName);
  if (pinned == nullptr) return;
  if (const Row* unpinned = find_row(rows, kUnpinnedName)) {
    verdict.answers.push_back(time_answer("Pinning", *pinned, *unpinned));
  }
  if (const Row* glibc = find_row(rows, "glibc")) {
    verdict.answers.push_back(time_answer("rdmalloc, pinned,", *pinned, *glibc));
  }
  if (pinned->peak_overflow.value_or(0) > 0) {
    verdict.answers.push_back("Without a cap of ours " + bytes(*pinned->peak_overflow) +
                              " could not be pinned: a limit of this machine or user is lower than "
                              "what the program holds (see rdmalloc doctor).");
  }
}

bool is_slower(const Row& row, const Row& base) {
  return row.seconds->median > base.seconds->median && differ(row, base, &Row::seconds);
}

bool is_cap(const Row& row) { return row.configuration.cap_bytes && row.runs_ok != 0; }

bool loses_nothing(const Row& row, const Row& pinned) {
  return row.peak_overflow && *row.peak_overflow == 0 && !is_slower(row, pinned);
}

std::string smaller_cap_answer(const Row& row, const Row& pinned) {
  const std::string cap = "A cap of " + bytes(static_cast<double>(*row.configuration.cap_bytes));
  std::string answer = cap;
  if (!row.peak_overflow) {
    answer += ": what could not be pinned is not known";
  } else if (*row.peak_overflow > 0) {
    answer += " leaves " + bytes(*row.peak_overflow) + " not pinned";
  } else {
    answer += " has room for all";
  }
  if (is_slower(row, pinned)) {
    return answer + ", and the program takes " +
           percent(row.seconds->median / pinned.seconds->median) + " longer.";
  }
  return answer + "; no loss of time can be seen.";
}

void answer_about_caps(const std::vector<Row>& rows, Verdict& verdict) {
  const Row* pinned = find_row(rows, kPinnedName);
  std::vector<const Row*> caps;
  for (const Row& row : rows) {
    if (is_cap(row)) caps.push_back(&row);
  }
  if (pinned == nullptr || caps.empty()) return;
  std::ranges::sort(caps, {}, [](const Row* row) { return *row->configuration.cap_bytes; });
  const auto best =
      std::ranges::find_if(caps, [&](const Row* row) { return loses_nothing(*row, *pinned); });
  if (best == caps.end()) {
    verdict.answers.push_back("No cap that was tried loses nothing.");
  } else {
    verdict.smallest_cap_without_loss = (*best)->configuration.cap_bytes;
    verdict.answers.push_back("A cap of " +
                              bytes(static_cast<double>(*verdict.smallest_cap_without_loss)) +
                              " loses nothing: all stays pinned, and no loss of time can be seen.");
  }
  for (auto smaller = caps.begin(); smaller != best; ++smaller) {
    verdict.answers.push_back(smaller_cap_answer(**smaller, *pinned));
  }
}

void answer_about_tradeoff(const std::vector<Row>& rows, Verdict& verdict) {
  std::string best;
  size_t measured = 0;
  for (const Row& row : rows) {
    if (row.runs_ok != 0) ++measured;
    if (row.on_pareto) best += (best.empty() ? "" : "; ") + row.configuration.label;
  }
  if (measured < 2 || best.empty()) return;
  verdict.answers.push_back("Beaten by none in both peak and time, by their medians: " + best +
                            ".");
}

void answer_about_repeats(const std::vector<Row>& rows, Verdict& verdict) {
  const auto once = std::ranges::count(rows, 1U, &Row::runs_ok);
  if (once == 0) return;
  verdict.answers.push_back(
      std::string(once == std::ssize(rows) ? "Everything" : "Some of this") +
      " was measured once: how much of a difference is chance is not known, and one below " +
      number(2 * kGuess * kPercent, "%.0f") + " % is taken for chance (see --repeats).");
}

void answer_about_failures(const std::vector<Row>& rows, Verdict& verdict) {
  std::string failed;
  for (const Row& row : rows) {
    if (row.runs_ok == 0) failed += (failed.empty() ? "" : "; ") + row.configuration.label;
  }
  if (!failed.empty()) verdict.answers.push_back("No run succeeded under: " + failed + ".");
}

}  // namespace

Verdict judge(const std::vector<Row>& rows) {
  Verdict verdict;
  answer_about_returning(rows, verdict);
  answer_about_pinning(rows, verdict);
  answer_about_caps(rows, verdict);
  answer_about_tradeoff(rows, verdict);
  answer_about_repeats(rows, verdict);
  answer_about_failures(rows, verdict);
  return verdict;
}

}  // namespace rdmalloc::cli::study
