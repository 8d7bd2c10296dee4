// Compares two measurements, each repeated: which is larger, and how sure that is.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace rdmalloc::cli::study {

// Nothing is concluded from fewer repeats: one or two do not show how widely they scatter.
inline constexpr size_t kFewestRepeats = 3;
// Differences below this share are of no interest.
inline constexpr double kLeastOfInterest = 0.01;

// The ratio of one's geometric mean to the other's, and its 95 % confidence interval (Welch's
// t-interval of the logarithms). Both series consist of positive numbers.
struct Comparison {
  enum class Outcome { kLess, kMore, kCannotTell };

  Outcome outcome = Outcome::kCannotTell;
  double ratio = 1;
  double low = 1, high = 1;
  // If the outcome is open: about how many repeats of each would settle it, if they differ as much
  // as these do. For a difference of less than 1 %: how many would exclude one of 1 %.
  double repeats_to_tell = 0;
};

// Nothing if either has fewer than kFewestRepeats, or has a number that is not positive.
std::optional<Comparison> compare(const std::vector<double>& one, const std::vector<double>& other);

}  // namespace rdmalloc::cli::study
