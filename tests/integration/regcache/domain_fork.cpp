// fork with a registered heap: the child owns no registration, is told so, and works; the parent's
// device keeps seeing the parent's pages, though both write to shared pages.
//
//   domain_fork child
//   domain_fork storm SECONDS
//   domain_fork released     nothing is registered during a fork, and everything works after it
//   domain_fork kept         the control: without the flag it stays registered
#include <time.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tests/integration/regcache/uring_device.h"

namespace {

constexpr size_t kSize = size_t{128} << 10;
constexpr size_t kCount = 32;

probe::Verdict verdict;
void* buffers[kCount];

void send_all(probe::Device& device, rdm_domain* domain, uint64_t seed, const char* who) {
  for (void* buffer : buffers) {
    const probe::Pattern pattern(++seed);
    pattern.fill(buffer, kSize);
    rdm_mr found{};
    if (probe::domains().lookup(domain, buffer, kSize, &found) != RDM_OK) {
      verdict.broken("%s: a buffer has no key", who);
    } else if (device.send(found.lkey, buffer, kSize) != 0 ||
               pattern.mismatch(device.peer(), kSize) != kSize) {
      verdict.broken("%s: the peer got other bytes", who);
    }
  }
}

void receive_all(probe::Device& device, rdm_domain* domain, uint64_t seed, const char* who) {
  for (void* buffer : buffers) {
    const probe::Pattern pattern(++seed);
    pattern.fill(device.peer(), kSize);
    rdm_mr found{};
    if (probe::domains().lookup(domain, buffer, kSize, &found) != RDM_OK) {
      verdict.broken("%s: a buffer has no key", who);
    } else if (device.receive(found.lkey, buffer, kSize) != 0 ||
               pattern.mismatch(buffer, kSize) != kSize) {
      verdict.broken("%s: the program does not see what the peer sent", who);
    }
  }
}

void expect_disowned(rdm_domain* inherited, const void* buffer, const char* what) {
  rdm_mr found{};
  const int status = probe::domains().lookup(inherited, buffer, kSize, &found);
  if (status != RDM_NOT_REGISTERED) verdict.broken("the child is told %d of %s", status, what);
}

int be_child(rdm_domain* inherited) {
  if (probe::stats().registered_bytes != 0) verdict.broken("the child's books say registered");
  for (void* buffer : buffers) {
    expect_disowned(inherited, buffer, "what it inherited");
    memset(buffer, 0xC1, kSize);
  }
  void* fresh = probe::grow(kSize);
  expect_disowned(inherited, fresh, "what it allocated");
  {
    probe::Device device(kSize);
    rdm_domain* domain = probe::open_domain(device.ring_fd(), verdict);
    probe::grow(size_t{16} << 20);
    for (void*& buffer : buffers) buffer = probe::grow(kSize);
    send_all(device, domain, 5000, "the child");
    receive_all(device, domain, 6000, "the child");
    rdm_domain* own = probe::open_domain(-1, verdict);
    probe::grow(size_t{32} << 20);
    expect_disowned(inherited, buffers[0], "what it registered itself");
    // The parent's domain is inherited: closing it must not affect the parent.
    if (probe::domains().close(inherited) != RDM_OK) verdict.broken("the child cannot forget");
    send_all(device, domain, 7000, "the child, having forgotten");
    if (probe::domains().close(domain) != RDM_OK) verdict.broken("the child cannot close");
    if (probe::domains().close(own) != RDM_OK) verdict.broken("the child cannot close its own");
  }
  if (!probe::comes_to(0, probe::pinned_by_kernel)) verdict.broken("the child's pins stay");
  return verdict.status();
}

uint64_t beside_the_books() {
  return probe::pinned_by_kernel() - probe::stats().registered_pinned_bytes;
}

void check_child(int ring_fd, probe::Device& device, const char* kind) {
  rdm_domain* domain = probe::open_domain(ring_fd, verdict);
  rdm_domain* sending = ring_fd == -1 ? probe::open_domain(device.ring_fd(), verdict) : domain;
  if (domain == nullptr || sending == nullptr) return;
  send_all(device, sending, 1000, "the parent before fork");
  const pid_t child = probe::start_child([domain] { return be_child(domain); });
  // Both write to shared pages, in any order.
  for (int i = 0; i < 20; ++i) {
    send_all(device, sending, 2000 + static_cast<uint64_t>(i), kind);
    receive_all(device, sending, 3000 + static_cast<uint64_t>(i), kind);
  }
  verdict.expect_good_end("the child", probe::end_of(child));
  send_all(device, sending, 4000, "the parent after its child's end");
  receive_all(device, sending, 4500, "the parent after its child's end");
  probe::grow(size_t{8} << 20);
  // Linux 6.1 unpins with a delay.
  if (!probe::comes_to(0, beside_the_books)) {
    verdict.broken("registrations pin %lu bytes by the parent's books, %lu by the kernel",
                   probe::stats().registered_pinned_bytes, probe::pinned_by_kernel());
  }
  if (sending != domain) probe::domains().close(sending);
  if (probe::domains().close(domain) != RDM_OK) verdict.broken("the parent cannot close");
}

// Checks the bytes in the child right after fork, before anyone writes; then in the parent, whose
// device still has the same pages, under keys that are looked up anew. Repeated, because each fork
// starts with what was registered since the last.
void check_release(unsigned flags) {
  probe::Device device(kSize);
  rdm_domain* domain = probe::open_domain(device.ring_fd(), verdict, flags);
  if (domain == nullptr) return;
  for (uint64_t round = 0; round < 5 && verdict.count() == 0; ++round) {
    send_all(device, domain, round * 1000, "the parent before fork");
    for (size_t i = 0; i < kCount; ++i) probe::Pattern(round * 100 + i).fill(buffers[i], kSize);
    const pid_t child = probe::start_child([=] {
      for (size_t i = 0; i < kCount; ++i) {
        if (probe::Pattern(round * 100 + i).mismatch(buffers[i], kSize) != kSize) {
          verdict.broken("the child has other bytes");
        }
        memset(buffers[i], 0xC1, kSize);
      }
      expect_disowned(domain, buffers[0], "what it inherited");
      return verdict.status();
    });
    if (probe::stats().registered_bytes != 0) verdict.broken("the heap is registered during fork");
    for (size_t i = 0; i < kCount; ++i) {
      if (probe::Pattern(round * 100 + i).mismatch(buffers[i], kSize) != kSize) {
        verdict.broken("the parent has other bytes");
      }
    }
    send_all(device, domain, round * 1000 + 200, "the parent after fork");
    receive_all(device, domain, round * 1000 + 300, "the parent after fork");
    verdict.expect_good_end("the child", probe::end_of(child));
    probe::grow(size_t{4} << 20);
  }
  if (probe::domains().close(domain) != RDM_OK) verdict.broken("the parent cannot close");
}

std::atomic<bool> done{false};
std::atomic<uint64_t> children{0};
std::atomic<uint64_t> sends{0};

void send_and_grow(uint64_t seed) {
  probe::KeyedDevice keyed(kSize, verdict);
  probe::Random random(seed);
  void* objects[32] = {};
  for (uint64_t i = 0; !done && verdict.count() == 0; ++i) {
    void*& object = objects[random.below(32)];
    free(object);
    const size_t size = random.size_between(64, kSize);
    object = malloc(size);
    const probe::Pattern pattern(random.next());
    pattern.fill(object, size);
    const int key = keyed.key_of(object, size);
    if (key < 0 || keyed.device().send(static_cast<uint32_t>(key), object, size) != 0 ||
        pattern.mismatch(keyed.device().peer(), size) != size) {
      verdict.broken("the peer got other bytes, or none, of %zu bytes", size);
    }
    if (i % 512 == 0) probe::grow(size_t{64} << 10);
    ++sends;
  }
  for (void* object : objects) free(object);
}

void fork_children(rdm_domain* inherited) {
  while (!done && verdict.count() == 0) {
    const probe::ChildEnd end = probe::run_child([inherited] {
      for (size_t size = 64; size <= size_t{1} << 20; size *= 2) {
        void* object = malloc(size);
        memset(object, 1, size);
        rdm_mr found{};
        if (probe::domains().lookup(inherited, object, size, &found) != RDM_NOT_REGISTERED) {
          return probe::kBroken;
        }
        free(object);
      }
      rdm_domain* own = children % 4 == 0 ? probe::open_domain(-1, verdict) : nullptr;
      if (own != nullptr) probe::domains().close(own);
      return verdict.status();
    });
    verdict.expect_good_end("a child", end);
    ++children;
  }
}

void storm(uint64_t seconds) {
  alarm(static_cast<unsigned>(seconds) + 200);
  rdm_domain* own = probe::open_domain(-1, verdict);
  if (own == nullptr) return;
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < 2; ++i) {
    threads.emplace_back(send_and_grow, i + 1);
    threads.emplace_back(fork_children, own);
  }
  const time_t end = time(nullptr) + static_cast<time_t>(seconds);
  while (time(nullptr) < end && verdict.count() == 0) usleep(20000);
  done = true;
  for (std::thread& thread : threads) thread.join();
  if (probe::domains().close(own) != RDM_OK) verdict.broken("closing the domain failed");
  printf("%lu children, %lu messages\n", children.load(), sends.load());
  if (children == 0 || sends == 0) verdict.broken("nothing happened");
}

}  // namespace

int main(int argc, char** argv) {
  if (!probe::library().loaded()) probe::skip("needs the library");
  for (void*& buffer : buffers) buffer = probe::grow(kSize);
  if (argc > 1 && strcmp(argv[1], "storm") == 0) {
    storm(probe::argument(argc, argv, 2, 5));
  } else if (argc > 1 && strcmp(argv[1], "released") == 0) {
    check_release(RDM_DOMAIN_RELEASE_AT_FORK);
  } else if (argc > 1 && strcmp(argv[1], "kept") == 0) {
    check_release(0);
  } else {
    probe::Device device(kSize);
    check_child(device.ring_fd(), device, "the parent, on its ring");
    check_child(-1, device, "the parent, with a ring that only pins");
  }
  if (!probe::comes_to(0, probe::pinned_by_kernel)) verdict.broken("pages stay pinned");
  return verdict.status();
}
