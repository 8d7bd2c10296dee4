// The function of include/rdmalloc/shm_plan.h.
#include <string.h>

#include "regcache/shm/plan.h"

namespace rdmalloc::shm {
namespace {

bool has_error(const rdm_shm_plan_options* options) {
  return options != nullptr &&
         options->size >= offsetof(rdm_shm_plan_options, error_size) + sizeof options->error_size &&
         options->error != nullptr;
}

int plan_rows(const rdm_shm_plan_options* options, rdm_shm_plan* out) {
  char* const why = has_error(options) ? options->error : nullptr;
  const size_t why_size = why == nullptr ? 0 : options->error_size;
  if (out == nullptr || out->size < offsetof(rdm_shm_plan, wrappers)) {
    return invalid(why, why_size, "there is no place for the plan, or it lacks its size");
  }
  Shape shape;
  Plan plan;
  if (const int status = read_options(options, &shape, why, why_size); status != RDM_OK) {
    return status;
  }
  if (const int status = Plan::make(shape, &plan, why, why_size); status != RDM_OK) return status;
  const size_t known = out->size < sizeof *out ? out->size : sizeof *out;
  memcpy(out, &plan.rows(), known);
  out->size = known;
  return RDM_OK;
}

}  // namespace
}  // namespace rdmalloc::shm

extern "C" int rdm_shm_plan_get(const rdm_shm_plan_options* options, rdm_shm_plan* out) {
  return rdmalloc::shm::plan_rows(options, out);
}
