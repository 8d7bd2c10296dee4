#include "allocator/tools/study/comparison.h"

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>

namespace rdmalloc::cli::study {
namespace {

constexpr double kOneSided = 0.975;  // for an interval of 95 %

struct Logarithms {
  double mean = 0;
  double variance_of_mean = 0;
  double freedom = 0;
};

std::optional<Logarithms> logarithms_of(const std::vector<double>& values) {
  const auto is_good = [](double value) { return value > 0 && std::isfinite(value); };
  if (values.size() < kFewestRepeats || !std::ranges::all_of(values, is_good)) return std::nullopt;
  const auto count = static_cast<double>(values.size());
  Logarithms all;
  for (const double value : values) all.mean += std::log(value) / count;
  double squares = 0;
  for (const double value : values) squares += std::pow(std::log(value) - all.mean, 2);
  all.freedom = count - 1;
  all.variance_of_mean = squares / all.freedom / count;
  return all;
}

// The degrees of freedom by Welch and Satterthwaite.
double freedom_of(const Logarithms& one, const Logarithms& other) {
  const double a = one.variance_of_mean;
  const double b = other.variance_of_mean;
  return (a + b) * (a + b) / (a * a / one.freedom + b * b / other.freedom);
}

// Half the length of the interval.
double margin_of(const Logarithms& one, const Logarithms& other) {
  const double variance = one.variance_of_mean + other.variance_of_mean;
  if (variance <= 0) return 0;
  const boost::math::students_t distribution(freedom_of(one, other));
  return boost::math::quantile(distribution, kOneSided) * std::sqrt(variance);
}

}  // namespace

std::optional<Comparison> compare(const std::vector<double>& one,
                                  const std::vector<double>& other) {
  const std::optional<Logarithms> ours = logarithms_of(one);
  const std::optional<Logarithms> theirs = logarithms_of(other);
  if (!ours || !theirs) return std::nullopt;
  const double difference = ours->mean - theirs->mean;
  const double margin = margin_of(*ours, *theirs);
  Comparison found;
  found.ratio = std::exp(difference);
  found.low = std::exp(difference - margin);
  found.high = std::exp(difference + margin);
  if (difference - margin > 0) found.outcome = Comparison::Outcome::kMore;
  if (difference + margin < 0) found.outcome = Comparison::Outcome::kLess;
  if (found.outcome == Comparison::Outcome::kCannotTell) {
    const double of_interest = std::max(std::abs(difference), std::log1p(kLeastOfInterest));
    const auto repeats = static_cast<double>(std::min(one.size(), other.size()));
    found.repeats_to_tell = std::ceil(repeats * std::pow(margin / of_interest, 2));
  }
  return found;
}

}  // namespace rdmalloc::cli::study
