// The heap profiler's logarithm and exponential, compared with libm's.
#include "allocator/engine/profiler_math.h"

#include <cfloat>
#include <cmath>
#include <random>

#include "tests/support/catch.h"

namespace rdmalloc::engine {
namespace {

constexpr double kError = 1e-14;

bool agrees(double mine, double theirs) {
  if (std::isnan(theirs)) return std::isnan(mine);
  if (std::isinf(theirs)) return mine == theirs;
  return std::abs(mine - theirs) <= kError * std::max(1.0, std::abs(theirs));
}

}  // namespace

TEST_CASE("the profiler's logarithm is libm's to 1e-14") {
  for (const double x : {0.0, -1.0, 1.0, 0.5, 2.0, DBL_MIN, DBL_MAX, DBL_TRUE_MIN, HUGE_VAL,
                         std::nan(""), std::sqrt(2.0), 1 - 0x1p-53, 1 + 0x1p-52, 1 - 0x1p-19}) {
    INFO(x);
    CHECK(agrees(natural_log(x), std::log(x)));
  }
  std::mt19937_64 random(1);
  for (int i = 0; i < 1'000'000; ++i) {
    const double x = std::exp(std::uniform_real_distribution<>(-700, 700)(random));
    if (!agrees(natural_log(x), std::log(x))) FAIL(x);
    const double u = std::uniform_real_distribution<>(0, 1)(random);
    if (!agrees(natural_log(u), std::log(u))) FAIL(u);
  }
}

TEST_CASE("the profiler's exponential is libm's to 1e-14 of itself") {
  for (const double x :
       {0.0, 1.0, -1.0, 0.3465, 0.3466, 709.7, 800.0, -800.0, -HUGE_VAL, HUGE_VAL, std::nan("")}) {
    INFO(x);
    CHECK(agrees(natural_exponential(x), std::exp(x)));
  }
  std::mt19937_64 random(2);
  for (int i = 0; i < 1'000'000; ++i) {
    const double x = std::uniform_real_distribution<>(-700, 700)(random);
    const double wanted = std::exp(x);
    if (std::abs(natural_exponential(x) - wanted) > kError * wanted) FAIL(x);
  }
}

TEST_CASE("the profiler's rounding is libm's") {
  for (const double x : {0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 0.49999999999999994, 0x1p52 + 1, 1e300,
                         -1e300, HUGE_VAL, std::nan("")}) {
    INFO(x);
    CHECK(agrees(nearest_whole(x), std::round(x)));
  }
  std::mt19937_64 random(3);
  for (int i = 0; i < 1'000'000; ++i) {
    const double x = std::uniform_real_distribution<>(-1e6, 1e6)(random);
    if (nearest_whole(x) != std::round(x)) FAIL(x);
  }
}

}  // namespace rdmalloc::engine
