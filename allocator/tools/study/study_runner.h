// Carries out a study: runs every configuration in turn, as often as requested, and writes the
// results.
#pragma once

#include "allocator/tools/study/study.h"

namespace rdmalloc::cli::study {

// The request has been checked. Returns the exit status; throws Refusal if nothing was run.
int carry_out(const StudyRequest& request);

}  // namespace rdmalloc::cli::study
