// A process's counter page as JSON, with the names of the report.
#pragma once

#include <nlohmann/json.hpp>

#include "allocator/tools/top/counter_reader.h"

namespace rdmalloc::cli {

// The statistics (rdm_stats) that the page has.
nlohmann::ordered_json counters_json(const ProcessCounters& counters);

nlohmann::ordered_json phases_json(const ProcessCounters& counters);

}  // namespace rdmalloc::cli
