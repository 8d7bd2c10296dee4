// Carries a study out: every configuration in turn, as often as asked, and what there is to write.
#pragma once

#include "allocator/cli/study/study.h"

namespace rdmalloc::cli::study {

// The request has been checked. Returns the exit status; throws Refusal when nothing was run.
int carry_out(const StudyRequest& request);

}  // namespace rdmalloc::cli::study
