// A program that uses UCX and knows nothing of rdmalloc, except that it reads our books. Under the
// shim its contexts have the heap mapped.
//
//   ucx_contexts steady|many|own|asks|threads|shared|unclean|fork|refused|uring
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tests/integration/regcache/preload/ucx/ucx_peer.h"
#include "tests/integration/regcache/with_reason.h"

namespace {

constexpr size_t kMiB = size_t{1} << 20;

probe::Verdict verdict;

// Memory that stays allocated, so that there are new regions.
void grow(size_t bytes) {
  void* got = malloc(bytes);
  if (got == nullptr) probe::refused("out of memory");
  memset(got, 1, bytes);
}

// Every region must be registered once in each domain; late ones are soon mapped by another thread.
// After one failure it does not wait again.
void check_books(const char* when, uint64_t domains) {
  rdm_stats books = probe::stats();
  for (int i = 0; i < 200 && verdict.count() == 0; ++i) {
    if (probe::registers_all(books, domains)) break;
    usleep(10'000);
    books = probe::stats();
  }
  if (books.domains != domains || !probe::registers_all(books, domains)) {
    verdict.broken("%s: %lu bytes mapped in %lu domains; %lu domains and %lu bytes pinned", when,
                   books.registered_bytes, books.domains, domains, books.pinned_bytes);
  }
}

void exchange(probe::Peers& peers, size_t length, char fill) {
  auto* from = static_cast<char*>(malloc(length));
  auto* to = static_cast<char*>(malloc(length));
  memset(from, fill, length);
  memset(to, 0, length);
  const ucs_status_t status = peers.send(from, nullptr, to, nullptr, length);
  if (status != UCS_OK || memcmp(from, to, length) != 0) {
    verdict.broken("%zu bytes sent: %s", length, ucs_status_string(status));
  }
  free(from);
  free(to);
}

// Sends messages in a context while the heap grows; every region is mapped once.
void steady() {
  ucp_context_h context = probe::make_context(false);
  check_books("after ucp_init", 1);
  {
    probe::Peers peers(context);
    for (int i = 0; i < 200; ++i) {
      exchange(peers, (size_t{1} << (6 + i % 15)), static_cast<char>(i + 1));
      if (i % 50 == 0) grow(3 * kMiB);
    }
  }
  check_books("after the messages", 1);
  const rdm_stats books = probe::stats();
  // Regions beyond the budget are neither pinned nor mapped; a region that lost all its pages was
  // mapped, and is a region no more.
  const bool are_fewer = books.registrations < books.regions;
  const bool are_more = books.retired_bytes == 0 && books.registrations > books.regions;
  if (books.overflow_bytes == 0 && (are_fewer || are_more)) {
    verdict.broken("%lu regions were mapped %lu times", books.regions, books.registrations);
  }
  ucp_cleanup(context);
  check_books("after ucp_cleanup", 0);
}

// Several contexts at once, destroyed in another order than created.
void many() {
  ucp_context_h contexts[4] = {};
  for (uint64_t i = 0; i < 4; ++i) {
    contexts[i] = probe::make_context(i % 2 == 0);
    grow(2 * kMiB);
    check_books("one more context", i + 1);
  }
  for (const size_t i : {1, 3, 0, 2}) {
    ucp_cleanup(contexts[i]);
    grow(2 * kMiB);
  }
  check_books("no context", 0);
}

ucp_mem_h map(ucp_context_h context, void* buffer, size_t length) {
  ucp_mem_map_params_t parameters{};
  parameters.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
  parameters.address = buffer;
  parameters.length = length;
  ucp_mem_h handle = nullptr;
  probe::need(ucp_mem_map(context, &parameters, &handle), "ucp_mem_map");
  return handle;
}

// The program itself maps and unmaps memory that it malloc'd.
void own() {
  ucp_context_h context = probe::make_context(false);
  {
    probe::Peers peers(context);
    for (int i = 0; i < 50; ++i) {
      const size_t length = kMiB + static_cast<size_t>(i) * 4096;
      void* buffer = malloc(length);
      memset(buffer, i, length);
      ucp_mem_h handle = map(context, buffer, length);
      void* to = malloc(length);
      if (peers.send(buffer, handle, to, nullptr, length) != UCS_OK ||
          memcmp(buffer, to, length) != 0) {
        verdict.broken("message %d by the program's own mapping is wrong", i);
      }
      free(to);
      probe::need(ucp_mem_unmap(context, handle), "ucp_mem_unmap");
      exchange(peers, length, static_cast<char>(i + 1));
      free(buffer);
    }
  }
  check_books("after its own mappings", 1);
  ucp_cleanup(context);
  check_books("after ucp_cleanup", 0);
}

// UCX reports of a handle what was mapped.
void ask(ucp_mem_h handle, const void* buffer, size_t length) {
  ucp_mem_attr_t whole{};
  whole.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS | UCP_MEM_ATTR_FIELD_LENGTH;
  ucp_mem_attr_t half{};
  half.field_mask = UCP_MEM_ATTR_FIELD_LENGTH;
  half.address = &half;
  probe::need(ucp_mem_query(handle, &whole), "ucp_mem_query");
  probe::need(ucp_mem_query(handle, &half), "ucp_mem_query");
  if (whole.address != buffer || whole.length != length || half.length != length) {
    verdict.broken("%zu bytes at %p are said to be %zu at %p, and %zu", length, buffer,
                   whole.length, whole.address, half.length);
  }
  if (half.address != &half) verdict.broken("an address that nobody asked for");
}

// The program maps malloc'd memory and queries its location, as MPICH does for its windows: several
// buffers of a region, in several threads. It also queries memory that UCX allocates.
void asks() {
  ucp_context_h context = probe::make_context(false);
  std::vector<std::thread> running;
  for (int i = 0; i < 2; ++i) {
    running.emplace_back([context] {
      for (size_t length = 4096; length <= kMiB; length += 4096) {
        void* buffer = malloc(length);
        ucp_mem_h handle = map(context, buffer, length);
        ask(handle, buffer, length);
        probe::need(ucp_mem_unmap(context, handle), "ucp_mem_unmap");
        free(buffer);
      }
    });
  }
  for (std::thread& thread : running) thread.join();
  void* first = malloc(kMiB);
  void* second = malloc(kMiB);
  ucp_mem_h handles[] = {map(context, first, kMiB), map(context, second, kMiB / 2)};
  ask(handles[1], second, kMiB / 2);
  if (handles[0] != handles[1]) ask(handles[0], first, kMiB);
  // From another thread than mapped.
  std::thread([&] { ask(handles[1], second, kMiB / 2); }).join();
  for (ucp_mem_h handle : handles) probe::need(ucp_mem_unmap(context, handle), "ucp_mem_unmap");
  free(first);
  free(second);
  ucp_cleanup(context);
  check_books("after ucp_cleanup", 0);
}

// Contexts come and go while other threads malloc.
void threads() {
  std::atomic<bool> done{false};
  std::vector<std::thread> running;
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    running.emplace_back([&done, seed] {
      probe::Random random(seed);
      while (!done) free(memset(malloc(random.size_between(64, 8 * kMiB)), 1, 64));
    });
    running.emplace_back([seed] {
      for (int i = 0; i < 10; ++i) {
        ucp_context_h context = probe::make_context(i % 2 == 0);
        {
          probe::Peers peers(context);
          for (size_t length = 64; length <= kMiB; length *= 8) {
            exchange(peers, length, static_cast<char>(seed));
          }
        }
        ucp_cleanup(context);
      }
    });
  }
  running[1].join();
  running[3].join();
  done = true;
  running[0].join();
  running[2].join();
  check_books("after all", 0);
}

// Threads with their own workers in one context, while the heap grows under all of them.
void shared() {
  ucp_context_h context = probe::make_context(true);
  std::vector<std::thread> running;
  for (char fill = 1; fill <= 4; ++fill) {
    running.emplace_back([context, fill] {
      probe::Peers peers(context);
      for (int i = 0; i < 40; ++i) {
        exchange(peers, size_t{1} << (8 + i % 13), fill);
        if (i % 8 == 0) grow(2 * kMiB);
      }
    });
  }
  for (std::thread& thread : running) thread.join();
  check_books("after all threads", 1);
  ucp_cleanup(context);
  check_books("after ucp_cleanup", 0);
}

// The program ends with its context open and a thread still growing the heap.
void unclean() {
  (void)probe::make_context(false);
  std::thread([] {
    for (;;) grow(kMiB / 4);
  }).detach();
  usleep(20'000);
}

// A child has its heap and no mapping, and may end in any way; the parent's mappings stay.
void forks() {
  ucp_context_h context = probe::make_context(false);
  auto* kept = static_cast<char*>(malloc(kMiB));
  memset(kept, 'p', kMiB);
  {
    probe::Peers peers(context);
    for (int i = 0; i < 10; ++i) {
      const probe::ChildEnd end = probe::run_child([&] {
        const rdm_stats books = probe::stats();
        for (size_t j = 0; j < kMiB; ++j) {
          if (kept[j] != 'p') return 2;
        }
        grow(5 * kMiB);
        return books.registered_bytes == 0 ? 0 : 3;
      });
      verdict.expect_good_end("a child", end);
      exchange(peers, kMiB, static_cast<char>(i + 1));
    }
  }
  ucp_cleanup(context);
  check_books("after the children", 0);
}

// Its parameters have an unknown field: the context stays the program's own.
void refused() {
  ucp_context_h context = probe::make_context(false, uint64_t{1} << 40);
  {
    probe::Peers peers(context);
    exchange(peers, kMiB, 'r');
  }
  check_books("a context that is not ours", 0);
  ucp_cleanup(context);
}

// A ring and a context at once: each region is registered once with each.
void uring() {
  const auto open = probe::symbol<decltype(rdm_domain_open_io_uring)>("rdm_domain_open_io_uring");
  const auto close_domain = probe::symbol<decltype(rdm_domain_close)>("rdm_domain_close");
  ucp_context_h context = probe::make_context(false);
  rdm_domain* ring = nullptr;
  probe::DomainOptions options;
  if (open == nullptr) probe::refused("the library lacks rdm_domain_open_io_uring");
  probe::need_domain(open(-1, &options, &ring), options.why);
  {
    probe::Peers peers(context);
    for (int i = 0; i < 40; ++i) {
      exchange(peers, kMiB, static_cast<char>(i + 1));
      if (i % 10 == 0) grow(4 * kMiB);
    }
  }
  check_books("a ring and a context", 2);
  const rdm_stats books = probe::stats();
  // A region that lost all its pages was registered too, and is a region no more.
  if (books.registrations < 2 * books.regions ||
      (books.retired_bytes == 0 && books.registrations != 2 * books.regions)) {
    verdict.broken("%lu regions were registered %lu times", books.regions, books.registrations);
  }
  if (close_domain(ring) != RDM_OK) verdict.broken("closing the ring's failed");
  check_books("a context", 1);
  ucp_cleanup(context);
  check_books("none", 0);
}

}  // namespace

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "";
  if (strcmp(what, "steady") == 0) steady();
  if (strcmp(what, "many") == 0) many();
  if (strcmp(what, "own") == 0) own();
  if (strcmp(what, "asks") == 0) asks();
  if (strcmp(what, "threads") == 0) threads();
  if (strcmp(what, "shared") == 0) shared();
  if (strcmp(what, "unclean") == 0) unclean();
  if (strcmp(what, "fork") == 0) forks();
  if (strcmp(what, "refused") == 0) refused();
  if (strcmp(what, "uring") == 0) uring();
  return verdict.status();
}
