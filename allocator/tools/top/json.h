// Counter pages, and the whole look at the machine, as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "allocator/tools/top/view.h"

namespace rdmalloc::cli {

// The statistics (rdm_stats) that a process's counter page has, with the names of the report.
nlohmann::ordered_json counters_json(const ProcessCounters& counters);
nlohmann::ordered_json phases_json(const ProcessCounters& counters);

// What is not known is null. Bytes are named so.
nlohmann::ordered_json as_json(const TopView& view);

// ASCII alone, whatever the names are: what is no UTF-8 in them becomes U+FFFD.
std::string as_text(const nlohmann::ordered_json& json, int indent);

}  // namespace rdmalloc::cli
