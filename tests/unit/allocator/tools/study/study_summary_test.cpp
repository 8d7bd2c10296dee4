#include "allocator/tools/study/summary.h"

#include <algorithm>

#include "tests/support/catch.h"

namespace rdmalloc::cli::study {
namespace {

Row row_of(const std::string& name, double seconds, double peak) {
  Row row;
  row.configuration.name = name;
  row.runs_ok = 1;
  row.seconds = Spread{seconds, seconds, seconds};
  row.peak_resident = Spread{peak, peak, peak};
  return row;
}

std::string pareto_of(std::vector<Row> rows) {
  mark_pareto(rows);
  std::string names;
  for (const Row& row : rows) names += row.on_pareto ? row.configuration.name : "";
  return names;
}

}  // namespace

TEST_CASE("the median of an even number of repeats lies between the middle ones") {
  CHECK(!spread_of({}));
  CHECK(spread_of({3})->median == 3);
  const Spread spread = *spread_of({4, 1, 2, 9});
  CHECK(spread.median == 3);
  CHECK(spread.low == 1);
  CHECK(spread.width() == 8);
}

TEST_CASE("the Pareto line has what no other beats in both") {
  CHECK(pareto_of({}).empty());
  CHECK(pareto_of({row_of("a", 1, 5), row_of("b", 2, 4), row_of("c", 3, 4), row_of("d", 3, 6)}) ==
        "ab");
  CHECK(pareto_of({row_of("a", 1, 1), row_of("b", 1, 1)}) == "ab");
  std::vector<Row> unknown{row_of("a", 1, 1), row_of("b", 1, 1)};
  unknown[0].peak_resident.reset();
  CHECK(pareto_of(unknown) == "b");
}

TEST_CASE("the mean is that of the time, not that of the samples") {
  CHECK(!mean_resident({}));
  CHECK(mean_resident({{0, 7}}) == 7);
  // Many samples at first, then a long stretch.
  CHECK(mean_resident({{0, 0}, {0.001, 0}, {0.002, 0}, {1, 0}, {1, 100}, {4, 100}}) == 75);
}

TEST_CASE("thinning out keeps both ends and every peak of every figure") {
  std::vector<Sample> series(50'000);
  for (size_t i = 0; i < series.size(); ++i) {
    series[i] = {.seconds = static_cast<double>(i), .resident = 5, .live = 4};
  }
  series[33'333].resident = 900;
  series[20'001].live = 1;
  const std::vector<Sample> few = thinned(series, 500);
  CHECK(few.size() <= 500);
  CHECK(std::ranges::is_sorted(few, {}, &Sample::seconds));
  for (const double kept : {0.0, 20'001.0, 33'333.0, 49'999.0}) {
    CHECK(std::ranges::count(few, kept, &Sample::seconds) == 1);
  }
  CHECK(thinned(few, 500).size() == few.size());
  CHECK(thinned({}, 2).empty());
}

TEST_CASE("figures of failed runs and of other configurations are left out") {
  const std::vector<Configuration> configurations =
      configurations_of({{"glibc", "", false}, {"jemalloc", "/x", false}});
  std::vector<Run> runs(3);
  runs[0].configuration = runs[1].configuration = "glibc";
  runs[0].ok = true;
  runs[0].seconds = 2;
  runs[1].seconds = 50;
  runs[2] = runs[0];
  runs[2].configuration = "jemalloc";
  runs[2].seconds = 3;
  const std::vector<Row> rows = summarize(configurations, runs);
  CHECK(rows[0].runs_ok == 1);
  CHECK(rows[0].seconds->median == 2);
  CHECK(rows[1].time_against_glibc == 1.5);
  CHECK(!rows[1].peak_resident);
  CHECK(!rows[1].held_to_live);
}

}  // namespace rdmalloc::cli::study
