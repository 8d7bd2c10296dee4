// Each status other than RDM_OK has a message, available as soon as it is returned, that says what
// was wrong.
#include <string>

#include "include/rdmalloc/backend.h"
#include "tests/integration/probe.h"

namespace {

probe::Verdict verdict;

struct {
  decltype(rdm_last_error)* last_error = probe::symbol<decltype(rdm_last_error)>("rdm_last_error");
  decltype(rdm_strerror)* strerror = probe::symbol<decltype(rdm_strerror)>("rdm_strerror");
  decltype(rdm_domain_open)* open = probe::symbol<decltype(rdm_domain_open)>("rdm_domain_open");
  decltype(rdm_domain_open_io_uring)* open_ring =
      probe::symbol<decltype(rdm_domain_open_io_uring)>("rdm_domain_open_io_uring");
  decltype(rdm_domain_close)* close = probe::symbol<decltype(rdm_domain_close)>("rdm_domain_close");
  decltype(rdm_lookup)* lookup = probe::symbol<decltype(rdm_lookup)>("rdm_lookup");
  decltype(rdm_stats_get)* stats = probe::symbol<decltype(rdm_stats_get)>("rdm_stats_get");
  decltype(rdm_stats_json)* json = probe::symbol<decltype(rdm_stats_json)>("rdm_stats_json");
  decltype(rdm_region_get)* region = probe::symbol<decltype(rdm_region_get)>("rdm_region_get");
  decltype(rdm_region_of)* region_of = probe::symbol<decltype(rdm_region_of)>("rdm_region_of");
} call;

void expect(int status, int wanted, const char* part, const char* what) {
  const std::string said = call.last_error();
  if (status != wanted) verdict.broken("%s: status %d, not %d", what, status, wanted);
  if (said.find(part) == std::string::npos) verdict.broken("%s: \"%s\"", what, said.c_str());
}

// A device that accepts everything or, when told so, nothing.
bool is_refusing = false;

int limits(void*, rdm_backend_limits*) { return RDM_OK; }

int register_memory(void*, const rdm_backend_request*, rdm_backend_key*, char* why, size_t size) {
  if (!is_refusing) return RDM_OK;
  snprintf(why, size, "the card is on fire");
  return RDM_SYSTEM;
}

int deregister_memory(void*, const rdm_backend_key*) { return RDM_OK; }

rdm_backend table() {
  rdm_backend made{};
  made.size = sizeof made;
  made.name = "fake";
  made.limits = limits;
  made.register_memory = register_memory;
  made.deregister_memory = deregister_memory;
  return made;
}

// No two statuses have the same message, and an invalid status has its own.
void check_statuses() {
  const std::string unknown = "unknown status";
  for (int status = RDM_OK; status <= RDM_PEER_DIED; ++status) {
    const std::string said = call.strerror(status);
    if (said.empty() || said == unknown) verdict.broken("status %d has no sentence", status);
    for (int other = RDM_OK; other < status; ++other) {
      if (said == call.strerror(other))
        verdict.broken("%d and %d: %s", status, other, said.c_str());
    }
  }
  for (const int none : {-1, RDM_PEER_DIED + 1, 1 << 30}) {
    if (call.strerror(none) != unknown) verdict.broken("%d is %s", none, call.strerror(none));
  }
}

void check_opening() {
  rdm_domain* domain = nullptr;
  const rdm_backend good = table();
  expect(call.open(&good, nullptr, nullptr, nullptr), RDM_INVALID, "no place", "nowhere to");
  rdm_domain_options options{};
  expect(call.open(&good, nullptr, &options, &domain), RDM_INVALID, "sizeof(rdm_domain_options)",
         "options without a size");
  expect(call.open_ring(-1, &options, &domain), RDM_INVALID, "sizeof(rdm_domain_options)",
         "a ring's options without a size");
  options.size = sizeof options;
  options.flags = 1U << 31;
  expect(call.open(&good, nullptr, &options, &domain), RDM_INVALID, "bits", "unknown flags");
  rdm_backend bad = table();
  bad.size = 0;
  expect(call.open(&bad, nullptr, nullptr, &domain), RDM_INVALID, "sizeof(rdm_backend)",
         "a table without a size");
  bad = table();
  bad.limits = nullptr;
  expect(call.open(&bad, nullptr, nullptr, &domain), RDM_INVALID, "operation", "a lacking table");
  is_refusing = true;
  char said[100] = {};
  options = {};
  options.size = sizeof options;
  options.error = said;
  options.error_size = sizeof said;
  expect(call.open(&good, nullptr, &options, &domain), RDM_SYSTEM, "on fire", "a device's reason");
  if (strstr(said, "on fire") == nullptr) verdict.broken("not where it was asked for: %s", said);
  expect(call.open(&good, nullptr, nullptr, &domain), RDM_SYSTEM, "on fire", "without a place");
  is_refusing = false;
}

void check_lookups() {
  const rdm_backend good = table();
  rdm_domain* domain = nullptr;
  if (call.open(&good, nullptr, nullptr, &domain) != RDM_OK) {
    return verdict.broken("no domain: %s", call.last_error());
  }
  char* const object = static_cast<char*>(malloc(size_t{1} << 20));
  if (object == nullptr) probe::refused("out of memory");
  memset(object, 1, size_t{1} << 20);
  char foreign = 0;
  rdm_mr found{};
  expect(call.lookup(domain, &foreign, 1, &found), RDM_NOT_OWNED, "rdm_get", "foreign memory");
  expect(call.lookup(domain, object, 0, &found), RDM_INVALID, "no bytes", "nothing");
  expect(call.lookup(domain, object, size_t{1} << 60, &found), RDM_NOT_OWNED, "region", "too much");
  expect(call.lookup(nullptr, object, 1, &found), RDM_INVALID, "null", "no domain");
  if (call.lookup(domain, object, 1, &found) != RDM_OK) verdict.broken("what is good has no key");
  // Still the last failure's.
  expect(RDM_OK, RDM_OK, "null", "a hit");
  if (call.close(domain) != RDM_OK) verdict.broken("not closed");
  expect(call.close(domain), RDM_INVALID, "no open domain", "closed again");
  expect(call.lookup(domain, object, 1, &found), RDM_INVALID, "closed", "after closing");
}

void check_memory() {
  rdm_stats stats{};
  rdm_region region{};
  expect(call.stats(nullptr, sizeof stats), RDM_INVALID, "statistics", "no place for statistics");
  expect(call.region(SIZE_MAX, &region), RDM_INVALID, "regions", "a region too many");
  expect(call.region(0, nullptr), RDM_INVALID, "no place", "no place for a region");
  expect(call.region_of(&region, &region), RDM_NOT_OWNED, "in no region", "the stack's region");
  expect(call.region_of(&region, nullptr), RDM_INVALID, "no place",
         "no place for an address's region");
  expect(call.json(-1), RDM_SYSTEM, "statistics", "no file");
  expect(call.json(1 << 20), RDM_SYSTEM, "statistics", "a file that is not open");
}

}  // namespace

int main() {
  if (!probe::library().loaded()) probe::skip("needs the library");
  if (*call.last_error() != '\0') verdict.broken("there is a sentence before any failure");
  check_statuses();
  check_opening();
  check_lookups();
  check_memory();
  return verdict.status();
}
