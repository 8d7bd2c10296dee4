// The three libm functions that only jemalloc's heap profiler (MALLOC_CONF=prof:true) calls. With
// these the library does not pull in libm, which costs a quarter of a MiB and one more library at
// start. Accurate to 1e-14, where a sampler would do with two digits.
#include "allocator/engine/profiler_math.h"

#include <cstdint>

namespace rdmalloc::engine {
namespace {

// log(2) in two parts: products of the first with whole numbers are exact.
constexpr double kLn2High = 0x1.62e42fefa3800p-1;
constexpr double kLn2Low = 0x1.ef35793c76730p-45;
constexpr double kSqrt2 = 1.41421356237309504880;
constexpr double kInfinity = __builtin_huge_val();
constexpr int kMantissaBits = 52;
constexpr int kBias = 1023;

double power_of_two(int exponent) {
  return __builtin_bit_cast(double, static_cast<uint64_t>(kBias + exponent) << kMantissaBits);
}

}  // namespace

// x = m * 2^e with m near 1, and log(m) = 2 * artanh((m - 1) / (m + 1)), as a series.
double natural_log(double x) {
  if (x == 0) return -kInfinity;
  if (!(x > 0)) return __builtin_nan("");
  if (x == kInfinity) return x;
  int exponent = 0;
  if (x < power_of_two(1 - kBias)) {  // subnormal
    x *= power_of_two(kMantissaBits);
    exponent = -kMantissaBits;
  }
  const auto bits = __builtin_bit_cast(uint64_t, x);
  exponent += static_cast<int>(bits >> kMantissaBits) - kBias;
  constexpr uint64_t kMantissa = (uint64_t{1} << kMantissaBits) - 1;
  double m = __builtin_bit_cast(double, (bits & kMantissa) | uint64_t{kBias} << kMantissaBits);
  if (m > kSqrt2) {
    m /= 2;
    ++exponent;
  }
  const double s = (m - 1) / (m + 1);
  double sum = 0;
  for (int n = 23; n >= 1; n -= 2) sum = sum * s * s + 1.0 / n;
  return exponent * kLn2High + (2 * s * sum + exponent * kLn2Low);
}

// exp(x) = 2^k * exp(r), |r| at most half of log(2), and exp(r) as a series.
double natural_exponential(double x) {
  constexpr double kMost = 709.78;
  constexpr double kLeast = -708.39;
  if (x != x) return x;
  if (x > kMost) return kInfinity;
  if (x < kLeast) return 0;
  const int k = static_cast<int>(x / kLn2High + (x < 0 ? -0.5 : 0.5));
  const double r = x - k * kLn2High - k * kLn2Low;
  double sum = 1;
  for (int n = 17; n >= 1; --n) sum = 1 + sum * r / n;
  // Two steps, because 2^1024 is not a double although half of it is.
  return sum * power_of_two(k / 2) * power_of_two(k - k / 2);
}

// Rounds to nearest; ties away from zero.
double nearest_whole(double x) {
  constexpr double kWholeFrom = 0x1p52;
  if (!(x > -kWholeFrom && x < kWholeFrom)) return x;
  const double whole = static_cast<double>(static_cast<int64_t>(x));
  if (x - whole >= 0.5) return whole + 1;
  return x - whole <= -0.5 ? whole - 1 : whole;
}

}  // namespace rdmalloc::engine

// Named as prepare_engine.sh renamed jemalloc's references.
extern "C" {
double rdmalloc_log(double x) { return rdmalloc::engine::natural_log(x); }
double rdmalloc_exp(double x) { return rdmalloc::engine::natural_exponential(x); }
double rdmalloc_round(double x) { return rdmalloc::engine::nearest_whole(x); }
}
