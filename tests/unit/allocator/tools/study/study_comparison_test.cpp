#include "allocator/tools/study/comparison.h"

#include <cmath>
#include <random>

#include "tests/support/catch.h"

namespace rdmalloc::cli::study {
namespace {

using Outcome = Comparison::Outcome;

constexpr int kStudies = 2000;

// Repeated measurements of this duration, with random deviations of this size.
std::vector<double> repeats_of(double seconds, double noise, size_t count, std::mt19937& random) {
  std::lognormal_distribution<double> times(std::log(seconds), noise);
  std::vector<double> values(count);
  for (double& value : values) value = times(random);
  return values;
}

// The share of simulated studies with that outcome.
double share_of(Outcome outcome, double one, double other, double noise, size_t repeats) {
  std::mt19937 random(7);
  int count = 0;
  for (int i = 0; i < kStudies; ++i) {
    const auto found =
        compare(repeats_of(one, noise, repeats, random), repeats_of(other, noise, repeats, random));
    count += found->outcome == outcome ? 1 : 0;
  }
  return static_cast<double>(count) / kStudies;
}

}  // namespace

TEST_CASE("equal programs are called different in at most one study of twenty") {
  for (const size_t repeats : {3, 10}) {
    for (const double noise : {0.001, 0.05, 0.3}) {
      CAPTURE(repeats, noise);
      CHECK(share_of(Outcome::kMore, 2, 2, noise, repeats) < 0.03);
      CHECK(share_of(Outcome::kLess, 2, 2, noise, repeats) < 0.03);
    }
  }
}

TEST_CASE("what takes longer is found out, and what takes less, where noise is smaller than that") {
  CHECK(share_of(Outcome::kMore, 1.2, 1, 0.02, 3) > 0.95);
  CHECK(share_of(Outcome::kLess, 1, 1.2, 0.02, 3) > 0.95);
  CHECK(share_of(Outcome::kMore, 1.05, 1, 0.02, 10) > 0.95);
  CHECK(share_of(Outcome::kLess, 1.2, 1, 0.02, 3) == 0);
}

TEST_CASE("the interval holds the true ratio in nineteen studies of twenty") {
  std::mt19937 random(11);
  int inside = 0;
  for (int i = 0; i < kStudies; ++i) {
    const auto found = compare(repeats_of(3, 0.1, 5, random), repeats_of(2, 0.1, 5, random));
    inside += found->low <= 1.5 && 1.5 <= found->high ? 1 : 0;
  }
  CHECK(inside > kStudies * 93 / 100);
  CHECK(inside < kStudies * 98 / 100);
}

TEST_CASE("as many repeats as are said to be enough are enough, mostly") {
  std::mt19937 random(3);
  const auto first = compare(repeats_of(1.1, 0.1, 3, random), repeats_of(1, 0.1, 3, random));
  REQUIRE(first->outcome == Outcome::kCannotTell);
  REQUIRE(first->repeats_to_tell > 3);
  CHECK(share_of(Outcome::kMore, 1.1, 1, 0.1, 4 * 17) > 0.9);
}

TEST_CASE("nothing is compared of fewer than three repeats, nor of none that takes time") {
  CHECK(!compare({1, 2}, {1, 2, 3}));
  CHECK(!compare({1, 2, 3}, {}));
  CHECK(!compare({1, 2, 0}, {1, 2, 3}));
  const auto same = compare({2, 2, 2}, {1, 1, 1});
  CHECK(same->outcome == Outcome::kMore);
  CHECK_THAT(same->ratio, Catch::Matchers::WithinRel(2.0));
  CHECK_THAT(same->low, Catch::Matchers::WithinRel(same->high));
}

}  // namespace rdmalloc::cli::study
