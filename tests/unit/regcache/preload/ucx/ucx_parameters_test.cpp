// What ucp_init receives under the shim: the caller's parameters, except for the context's own
// lock.
#include "regcache/preload/ucx/parameters.h"

#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include "allocator/os/page_size.h"
#include "tests/support/catch.h"

namespace rdmalloc {
namespace {

const size_t kPage = os::page_size();

}  // namespace

TEST_CASE("every field that is set is passed on, and the context is shared by threads") {
  ucp_params_t given{};
  given.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_REQUEST_SIZE;
  given.features = UCP_FEATURE_TAG;
  given.request_size = 24;
  const shim::SharedParameters shared(&given);
  CHECK(shared.get()->field_mask == (given.field_mask | UCP_PARAM_FIELD_MT_WORKERS_SHARED));
  CHECK(shared.get()->mt_workers_shared == 1);
  CHECK(shared.get()->features == UCP_FEATURE_TAG);
  CHECK(shared.get()->request_size == 24);
  CHECK(given.mt_workers_shared == 0);
}

#if UCP_API_VERSION >= UCP_VERSION(1, 12)
TEST_CASE("a context keeps the name that the caller gives it") {
  ucp_params_t given{};
  given.field_mask = UCP_PARAM_FIELD_NAME;
  given.name = "some name";
  const shim::SharedParameters shared(&given);
  CHECK(shared.get()->field_mask == (UCP_PARAM_FIELD_NAME | UCP_PARAM_FIELD_MT_WORKERS_SHARED));
  CHECK(shared.get()->name == given.name);
}
#endif

TEST_CASE("a caller that says the context is for one thread gets one that is shared") {
  ucp_params_t given{};
  given.field_mask = UCP_PARAM_FIELD_MT_WORKERS_SHARED;
  const shim::SharedParameters shared(&given);
  CHECK(shared.get()->mt_workers_shared == 1);
}

TEST_CASE("of a shorter struct, of an older UCX, no byte beyond its end is read") {
  auto* pages = static_cast<char*>(
      mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  REQUIRE(pages != MAP_FAILED);
  REQUIRE(mprotect(pages + kPage, kPage, PROT_NONE) == 0);
  const size_t length = offsetof(ucp_params_t, features) + sizeof(ucp_params_t::features);
  ucp_params_t older{};
  older.field_mask = UCP_PARAM_FIELD_FEATURES;
  older.features = UCP_FEATURE_RMA;
  char* end = pages + kPage;
  memcpy(end - length, &older, length);
  const shim::SharedParameters shared(reinterpret_cast<const ucp_params_t*>(end - length));
  CHECK(shared.get()->features == UCP_FEATURE_RMA);
  CHECK(shared.get()->mt_workers_shared == 1);
  munmap(pages, 2 * kPage);
}

TEST_CASE("what cannot be copied whole is passed on as it came") {
  ucp_params_t given{};
  given.field_mask = UCP_PARAM_FIELD_FEATURES | uint64_t{1} << 40;
  const shim::SharedParameters newer(&given);
  CHECK(newer.get() == &given);
  const shim::SharedParameters none(nullptr);
  CHECK(none.get() == nullptr);
}

}  // namespace rdmalloc
