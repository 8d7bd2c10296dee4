// The pools' C functions reject misuse with a message and without side effects.
#include <errno.h>

#include <initializer_list>

#include "include/rdmalloc/pool.h"
#include "tests/integration/probe.h"

namespace {

probe::Verdict verdict;

rdm_pool_options sound() {
  rdm_pool_options options{};
  options.size = sizeof options;
  options.buffer_bytes = 4096;
  return options;
}

void refused(const rdm_pool_options& options, const char* part) {
  rdm_pool* pool = nullptr;
  char why[1024] = {};
  rdm_pool_options asked = options;
  asked.error = why;
  asked.error_size = sizeof why;
  const int status = rdm_pool_create(nullptr, &asked, &pool);
  if (status != RDM_INVALID || pool != nullptr) verdict.broken("%s: status %d", part, status);
  if (strstr(why, part) == nullptr) verdict.broken("\"%s\" is not in: %s", part, why);
  if (strcmp(why, rdm_last_error()) != 0) verdict.broken("the last error is another: %s", part);
}

void check_options() {
  rdm_pool* pool = nullptr;
  if (rdm_pool_create(nullptr, nullptr, &pool) != RDM_INVALID) verdict.broken("null options");
  rdm_pool_options options = sound();
  if (rdm_pool_create(nullptr, &options, nullptr) != RDM_INVALID) verdict.broken("no place");
  options.size = 0;
  if (rdm_pool_create(nullptr, &options, &pool) != RDM_INVALID) verdict.broken("no size");
  options = sound();
  options.buffer_bytes = 0;
  refused(options, "buffer_bytes is 0");
  options.buffer_bytes = (size_t{1} << 30) + 1;
  refused(options, "above 1 GiB");
  options.buffer_bytes = SIZE_MAX;
  refused(options, "above 1 GiB");
  options = sound();
  options.alignment = 48;
  refused(options, "no power of two");
  options.alignment = size_t{4} << 20;
  refused(options, "above 2 MiB");
  options = sound();
  options.flags = 2;
  refused(options, "not known");
  options = sound();
  options.reserve = 5;
  options.most = 4;
  refused(options, "reserve is above most");
  options = sound();
  options.reserve = SIZE_MAX;
  refused(options, "address space");
  options = sound();
  options.grow_by = SIZE_MAX / 2;
  refused(options, "address space");
}

// The message is truncated in a short error buffer, and nothing is written without one.
void check_error_place() {
  rdm_pool* pool = nullptr;
  char why[8] = "1234567";
  rdm_pool_options options = sound();
  options.buffer_bytes = 0;
  options.error = why;
  options.error_size = 5;
  (void)rdm_pool_create(nullptr, &options, &pool);
  if (strcmp(why, "buff") != 0 || why[5] != '6') verdict.broken("the sentence is \"%s\"", why);
  options.error = nullptr;
  options.error_size = 100;
  (void)rdm_pool_create(nullptr, &options, &pool);
}

void check_calls() {
  rdm_pool* pool = nullptr;
  rdm_pool_options options = sound();
  options.reserve = 4;
  options.most = 4;
  if (rdm_pool_create(nullptr, &options, &pool) != RDM_OK) return verdict.broken("no pool");
  void* all[4];
  for (void*& one : all) one = rdm_pool_get_address(pool);
  errno = 0;
  if (rdm_pool_get_address(pool) != nullptr || errno != ENOMEM) verdict.broken("a fifth of four");
  if (rdm_pool_get_address(nullptr) != nullptr || errno != EINVAL) verdict.broken("of null");
  rdm_pool_counts counts;
  memset(&counts, 0xFF, sizeof counts);
  if (rdm_pool_stats(pool, &counts, 2 * sizeof(uint64_t)) != RDM_OK || counts.out != 4 ||
      counts.free != 0 || counts.held != UINT64_MAX) {
    verdict.broken("a shorter struct is not filled as far as it goes");
  }
  if (rdm_pool_stats(pool, nullptr, 8) != RDM_INVALID) verdict.broken("counts to null");
  if (rdm_pool_stats(nullptr, &counts, sizeof counts) != RDM_INVALID) verdict.broken("of null");
  char byte = 0;
  void* const block = malloc(100000);
  for (void* wrong : {static_cast<void*>(&byte), block, static_cast<void*>(nullptr),
                      static_cast<void*>(static_cast<char*>(all[1]) + 8)}) {
    if (rdm_pool_put(pool, wrong) != RDM_INVALID) verdict.broken("%p was taken", wrong);
  }
  free(block);
  if (rdm_pool_close(pool) != RDM_BUSY) verdict.broken("closed in use");
  if (strstr(rdm_last_error(), "4 buffers") == nullptr) verdict.broken("%s", rdm_last_error());
  for (void* one : all) {
    if (rdm_pool_put(pool, one) != RDM_OK) verdict.broken("no put");
    if (rdm_pool_put(pool, one) != RDM_INVALID) verdict.broken("put twice");
  }
  if (rdm_pool_close(pool) != RDM_OK) verdict.broken("not closed");
  if (rdm_pool_close(pool) != RDM_INVALID) verdict.broken("closed twice");
  if (rdm_pool_close(nullptr) != RDM_INVALID) verdict.broken("closed null");
  if (rdm_pool_put(pool, all[0]) != RDM_INVALID) verdict.broken("put after the end");
  if (rdm_pool_get_address(pool) != nullptr) verdict.broken("get after the end");
}

}  // namespace

int main() {
  if (!probe::library().loaded()) probe::skip("needs the library");
  check_options();
  check_error_place();
  check_calls();
  return verdict.status();
}
