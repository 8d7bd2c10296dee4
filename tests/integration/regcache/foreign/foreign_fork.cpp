// fork with foreign memory registered: the child owns no registration, is told so, cannot harm its
// parent's, and may make its own; the parent's device keeps seeing the parent's pages.
//
//   foreign_fork child
//   foreign_fork storm SECONDS [raw]     raw: system calls that no function intercepts

#include <atomic>
#include <thread>
#include <vector>

#include "tests/integration/regcache/foreign/foreign.h"
#include "tests/integration/regcache/foreign/monitor/memory_calls.h"

namespace {

constexpr size_t kLength = size_t{64} << 10;
constexpr size_t kCount = 16;

probe::Staleness staleness;
char* buffers[kCount];
std::atomic<uint64_t> seeds{1};

void use(probe::ForeignDevice& device, char* buffer, const char* after) {
  const uint64_t seed = seeds.fetch_add(1);
  const probe::Content content(seed);
  if (seed % 2 == 0) {
    content.fill(buffer, kLength);
    staleness.check(device.send(buffer, kLength, content), after, buffer, kLength, seed);
  } else {
    staleness.check(device.receive(buffer, kLength, content), after, buffer, kLength, seed);
  }
}

void use_all(probe::ForeignDevice& device, const char* after) {
  for (char* buffer : buffers) use(device, buffer, after);
}

unsigned raw = probe::MemoryCalls::kNone;

void renew(char*& buffer) {
  const probe::MemoryCalls calls(raw);
  calls.unmap(buffer, kLength);
  void* const mapped = calls.map(nullptr, kLength, MAP_PRIVATE | MAP_ANONYMOUS);
  if (mapped == MAP_FAILED) probe::skip("out of memory");
  buffer = static_cast<char*>(mapped);
}

void expect_disowned(const probe::ForeignDevice& inherited, const rdm_mr& mr) {
  for (const char* buffer : buffers) {
    rdm_mr got{};
    const int status = inherited.get(buffer, kLength, &got);
    if (status != RDM_NOT_REGISTERED || *probe::foreign().last_error() == '\0') {
      staleness.verdict().broken("the child is told %d: '%s'", status,
                                 probe::foreign().last_error());
      return;
    }
  }
  // Any status is right, as long as nothing happens.
  const int status = inherited.put(mr);
  printf("a put in the child of what its parent has: %s\n", probe::foreign().strerror(status));
}

// In its own domains the child's cache works as well as its parent's.
void use_own(const char* who) {
  const uint64_t before = probe::pinned_by_kernel();
  {
    probe::ForeignDevice own(kLength, {}, staleness.verdict());
    for (int round = 0; round < 20; ++round) {
      use_all(own, who);
      for (size_t i = 0; i < kCount; i += 3) renew(buffers[i]);
      use_all(own, "unmapping in the child");
    }
    if (own.close() != RDM_OK) {
      staleness.verdict().broken("the child cannot close: %s", probe::foreign().last_error());
    }
  }
  if (!probe::comes_to(before, probe::pinned_by_kernel)) {
    staleness.verdict().broken("the child's pins stay");
  }
}

int be_child(probe::ForeignDevice& inherited, const rdm_mr& mr) {
  const rdm_stats books = probe::stats();
  if (books.foreign_regions != 0 || books.foreign_bytes != 0) {
    staleness.verdict().broken("the child's books say registered");
  }
  expect_disowned(inherited, mr);
  for (char* buffer : buffers) memset(buffer, 0xC1, kLength);
  use_own("fork, in the child");
  expect_disowned(inherited, mr);
  // The reference is the parent's, not the child's.
  if (inherited.close() != RDM_OK) staleness.verdict().broken("the child cannot forget");
  use_own("forgetting the parent's domain");
  fflush(stdout);
  return staleness.status();
}

void check_child() {
  probe::ForeignDevice device(kLength, {}, staleness.verdict());
  use_all(device, "mapping");
  rdm_mr held{};
  if (device.get(buffers[0], kLength, &held) != RDM_OK) {
    return staleness.verdict().broken("holding one: %s", probe::foreign().last_error());
  }
  fflush(stdout);
  const pid_t child = probe::start_child([&] { return be_child(device, held); });
  // Both write to shared pages, in any order.
  for (int i = 0; i < 50; ++i) use_all(device, "fork");
  staleness.verdict().expect_good_end("the child", probe::end_of(child));
  use_all(device, "the child's end");
  for (char*& buffer : buffers) {
    if (buffer != buffers[0]) renew(buffer);
  }
  use_all(device, "unmapping after the child's end");
  const probe::Content last(7);
  last.fill(buffers[0], kLength);
  staleness.check(device.send(held, buffers[0], kLength, last), "holding it all the time",
                  buffers[0], kLength, 7);
  if (device.put(held) != RDM_OK || device.close() != RDM_OK) {
    staleness.verdict().broken("at the end: %s", probe::foreign().last_error());
  }
}

std::atomic<bool> done{false};
std::atomic<uint64_t> children{0};
std::atomic<uint64_t> uses{0};

void use_and_renew(probe::ForeignDevice& device, size_t first) {
  while (!done && staleness.verdict().count() == 0) {
    for (size_t i = first; i < kCount; i += 2) {
      use(device, buffers[i], "forks of other threads");
      if (uses++ % 4 == 0) renew(buffers[i]);
      use(device, buffers[i], "unmapping, among forks of other threads");
    }
  }
}

void fork_children(probe::ForeignDevice& inherited) {
  while (!done && staleness.verdict().count() == 0) {
    const probe::ChildEnd end = probe::run_child([&inherited] {
      static char memory[kLength];
      rdm_mr mr{};
      if (inherited.get(memory, kLength, &mr) != RDM_NOT_REGISTERED) return 2;
      if (children % 4 == 0) {
        probe::ForeignDevice own(kLength, {}, staleness.verdict());
        use(own, memory, "fork, in the child");
        use(own, memory, "nothing, in the child");
      }
      return staleness.status();
    });
    staleness.verdict().expect_good_end("a child", end);
    ++children;
  }
}

void storm(uint64_t seconds) {
  alarm(static_cast<unsigned>(seconds) + 60);
  probe::ForeignDevice device(kLength, {}, staleness.verdict());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < 2; ++i) {
    threads.emplace_back([&device, i] { use_and_renew(device, i); });
    threads.emplace_back([&device] { fork_children(device); });
  }
  const uint64_t end = probe::now_ns() + seconds * 1'000'000'000;
  while (probe::now_ns() < end && staleness.verdict().count() == 0) usleep(20000);
  done = true;
  for (std::thread& thread : threads) thread.join();
  if (device.close() != RDM_OK) {
    staleness.verdict().broken("closing: %s", probe::foreign().last_error());
  }
  printf("%lu children, %lu messages\n", children.load(), uses.load());
  if (children == 0 || uses == 0) staleness.verdict().broken("nothing happened");
}

}  // namespace

int main(int argc, char** argv) {
  (void)probe::foreign();
  const uint64_t before = probe::pinned_by_kernel();
  for (char*& buffer : buffers) buffer = probe::map_pages(kLength);
  if (argc > 3 && strcmp(argv[3], "raw") == 0) raw = probe::MemoryCalls::kAll;
  if (argc > 1 && strcmp(argv[1], "storm") == 0) {
    storm(probe::argument(argc, argv, 2, 5));
  } else {
    check_child();
  }
  if (!probe::comes_to(before, probe::pinned_by_kernel)) {
    staleness.verdict().broken("pages stay pinned");
  }
  return staleness.status();
}
