// libm's log, exp and round, for jemalloc's heap profiler: see profiler_math.cpp.
#pragma once

namespace rdmalloc::engine {

double natural_log(double x);
double natural_exponential(double x);
double nearest_whole(double x);

}  // namespace rdmalloc::engine
