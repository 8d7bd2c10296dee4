// The data that the page's script draws: a separate document, smaller than the study's.
#pragma once

#include "allocator/tools/study/report/data.h"

namespace rdmalloc::cli::report {

// {"configurations": [{label, allocator, light, dark, dash, symbol, hollow, pinned, cap}],
//  "measures": [{key, light, dark, dash, symbol, hollow}],
//  "series": [{configuration, repeat, shown, samples, seconds: [...], resident: [KiB or null] or
//  null, ...}], "runs": [{configuration, repeat, ok, seconds, peak, overflow, phases: [{name, live,
//  held, pinned}]}], "medians": [{configuration, seconds, peak, overflow, pareto}], "smallest_cap":
//  bytes or null}
// Configurations are indices; bytes are numbers or null.
Json chart_document(const Json& study);

}  // namespace rdmalloc::cli::report
