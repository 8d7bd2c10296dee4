// What a process's counter page tells, by the names that the report has for it.
#pragma once

#include <nlohmann/json.hpp>

#include "allocator/cli/counter_reader.h"

namespace rdmalloc::cli {

// Those of the statistics (rdm_stats) that the page has.
nlohmann::ordered_json counters_json(const ProcessCounters& counters);

nlohmann::ordered_json phases_json(const ProcessCounters& counters);

}  // namespace rdmalloc::cli
