// The promises of the cache of foreign memory, under random operations on so few pages that
// everything overlaps.
#include <cstdlib>
#include <random>

#include "tests/support/catch.h"
#include "tests/support/foreign_model.h"

namespace rdmalloc {
namespace {

constexpr unsigned kSeeds = 50;
constexpr int kSteps = 2000;

}  // namespace

TEST_CASE("what the cache of foreign memory promises holds after any operations") {
  fake::ForeignModel::Seen seen;
  for (unsigned seed = 1; seed <= kSeeds; ++seed) {
    std::mt19937 random(seed);
    fake::ForeignModel model([&](uint32_t below) { return random() % below; });
    int step = 0;
    for (; step < kSteps && model.broken().empty(); ++step) model.step();
    if (model.broken().empty()) model.finish();
    CAPTURE(seed, step);
    REQUIRE(model.broken() == "");
    seen.hits += model.seen().hits;
    seen.built += model.seen().built;
    seen.refused += model.seen().refused;
    seen.unions += model.seen().unions;
    seen.evicted += model.seen().evicted;
    seen.changed += model.seen().changed;
    seen.shared += model.seen().shared;
  }
  // The operations covered everything that the promises are about.
  INFO("hits " << seen.hits << ", built " << seen.built << ", refused " << seen.refused
               << ", unions " << seen.unions << ", evicted " << seen.evicted << ", changed "
               << seen.changed << ", shared " << seen.shared);
  const uint64_t steps = uint64_t{kSeeds} * kSteps;
  CHECK(seen.hits > steps / 50);
  CHECK(seen.built > steps / 10);
  CHECK(seen.refused > steps / 100);
  CHECK(seen.unions > steps / 100);
  CHECK(seen.evicted > steps / 100);
  CHECK(seen.changed > steps / 100);
  CHECK(seen.shared > steps / 100);
}

}  // namespace rdmalloc
