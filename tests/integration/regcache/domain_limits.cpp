// The memlock limit runs out while a domain is open: malloc goes on, registered memory stays
// correct, lookups report the rest, and nothing leaks. Then another process of the same user pins
// what the limit has left, since io_uring charges per user.
//
//   domain_limits
//   domain_limits idle SECONDS         the program then does nothing; no thread of ours wakes up
//   domain_limits idle SECONDS grows   the control: no limit, and the heap grows meanwhile
#include "tests/integration/regcache/uring_device.h"
#include "tests/integration/regcache/with_reason.h"
#include "tests/support/wake_ups.h"

namespace {

constexpr size_t kBlock = size_t{256} << 10;
constexpr size_t kBlocks = 128;

probe::Verdict verdict;
unsigned char* blocks[kBlocks];

struct Answers {
  size_t registered = 0;
  size_t refused = 0;
};

// Looks up every block, and sends those that have a key.
Answers ask(rdm_domain* domain, probe::Device* device) {
  Answers answers;
  for (size_t i = 0; i < kBlocks; ++i) {
    rdm_mr found{};
    const int status = probe::domains().lookup(domain, blocks[i], kBlock, &found);
    if (status == RDM_NOT_REGISTERED) ++answers.refused;
    if (status != RDM_OK && status != RDM_NOT_REGISTERED) {
      verdict.broken("a lookup says %d", status);
    }
    if (status != RDM_OK) continue;
    ++answers.registered;
    if (device == nullptr) continue;
    const probe::Pattern pattern(i);
    if (device->send(found.lkey, blocks[i], kBlock) != 0 ||
        pattern.mismatch(device->peer(), kBlock) != kBlock) {
      verdict.broken("the peer got other bytes of block %zu", i);
    }
  }
  return answers;
}

void check_books(const char* when, uint64_t before) {
  const rdm_stats books = probe::stats();
  if (books.pinned_bytes != probe::locked_bytes()) {
    verdict.broken("%s: VmLck differs from the books", when);
  }
  if (!probe::comes_to(before + books.registered_pinned_bytes, probe::pinned_by_kernel)) {
    verdict.broken("%s: VmPin is %lu, the books say %lu", when, probe::pinned_by_kernel() - before,
                   books.registered_pinned_bytes);
  }
}

int try_to_open(int ring_fd, unsigned flags, rdm_domain** out) {
  probe::DomainOptions options(flags);
  const int status = probe::domains().open(ring_fd, &options, out);
  if (status == RDM_OUT_OF_BUDGET && strstr(options.why, "memlock") == nullptr) {
    verdict.broken("the reason names no limit: %s", options.why);
  }
  if (status != RDM_OK) printf("refused: %s\n", options.why);
  return status;
}

// A second domain costs the same again: either refused as a whole, or partially opened.
void check_second_domain(const Answers& first, uint64_t before) {
  rdm_domain* second = nullptr;
  if (try_to_open(-1, 0, &second) != RDM_OUT_OF_BUDGET) {
    verdict.broken("a second domain is not refused for the limit");
  }
  check_books("after a domain was refused", before);
  if (try_to_open(-1, RDM_DOMAIN_PARTIAL, &second) != RDM_OK) {
    return verdict.broken("a partial domain is refused");
  }
  const Answers answers = ask(second, nullptr);
  if (answers.registered >= first.registered) verdict.broken("the second domain has it all");
  check_books("with a partial domain", before);
  if (probe::domains().close(second) != RDM_OK) verdict.broken("closing the partial one failed");
  check_books("after the partial domain", before);
}

// In a child, without the library: pins as much as the limit allows and waits to be killed.
[[noreturn]] void pin_all(int told) {
  io_uring ring{};
  if (io_uring_queue_init(1, &ring, 0) != 0) _exit(1);
  if (io_uring_register_buffers_sparse(&ring, 64) != 0) _exit(1);
  unsigned slot = 0;
  for (size_t size = size_t{8} << 20; size >= probe::kPage && slot < 64;) {
    void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    iovec buffer{memory, size};
    __u64 tag = 0;
    if (io_uring_register_buffers_update_tag(&ring, slot, &buffer, &tag, 1) == 1) {
      ++slot;
    } else {
      size /= 2;
    }
  }
  (void)!write(told, "x", 1);
  for (;;) pause();
}

void check_neighbour(uint64_t before) {
  int told[2];
  if (pipe(told) != 0) probe::skip("no pipe");
  const pid_t neighbour = fork();
  if (neighbour == 0) pin_all(told[1]);
  close(told[1]);
  char byte = 0;
  if (read(told[0], &byte, 1) != 1) return verdict.broken("the neighbour has pinned nothing");
  rdm_domain* domain = nullptr;
  const int status = try_to_open(-1, 0, &domain);
  if (status != RDM_OUT_OF_BUDGET) verdict.broken("beside a full neighbour: status %d", status);
  check_books("beside a full neighbour", before);
  probe::kill_child(neighbour);
  // Its pins are released some time after its end; opening waits briefly for that.
  if (try_to_open(-1, RDM_DOMAIN_PARTIAL, &domain) != RDM_OK) {
    return verdict.broken("after the neighbour's end a domain cannot be opened");
  }
  if (ask(domain, nullptr).registered == 0) {
    verdict.broken("after the neighbour's end nothing can be registered");
  }
  if (probe::domains().close(domain) != RDM_OK) verdict.broken("closing the last failed");
}

// What has begun comes to its end, which takes a while in an emulator.
rdm_stats wait_until_settled() {
  constexpr int kMostSeconds = 30;
  rdm_stats books = probe::stats();
  for (int i = 0; i < kMostSeconds; ++i) {
    sleep(1);
    const rdm_stats now = probe::stats();
    const bool is_settled = now.registration_ns == books.registration_ns &&
                            now.registered_bytes == books.registered_bytes;
    books = now;
    if (is_settled) break;
  }
  return books;
}

void check_idle(unsigned seconds, bool grows) {
  const rdm_stats books = wait_until_settled();
  const rdmalloc::test::WakeUps before = rdmalloc::test::wake_ups();
  if (before.count == 0) return verdict.broken("no thread of ours was ever awake");
  void* const grown = grows ? probe::grow(size_t{16} << 20) : nullptr;
  for (unsigned left = seconds; left != 0;) left = sleep(left);
  if (grows) (void)wait_until_settled();  // a thread's sleep is counted, not its waking
  const rdmalloc::test::WakeUps after = rdmalloc::test::wake_ups();
  printf("%lu wake-ups in %u seconds\n", after.count - before.count, seconds);
  if (after != before) verdict.broken("threads of ours woke up");
  // This time is counted for what fails, too.
  if (probe::stats().registration_ns != books.registration_ns) {
    verdict.broken("the device was asked to register");
  }
  if (probe::stats().registered_bytes != books.registered_bytes) {
    verdict.broken("something was registered, or given back");
  }
  free(grown);
}

}  // namespace

int main(int argc, char** argv) {
  if (!probe::library().loaded()) probe::skip("needs the library");
  const bool is_idle = argc > 2 && strcmp(argv[1], "idle") == 0;
  const bool grows = argc > 3;
  static probe::Device device(kBlock);
  const uint64_t before = probe::pinned_by_kernel();
  // A ring of our own has threads of ours. The device's has a kernel's thread once it has sent.
  rdm_domain* domain = probe::open_domain(is_idle ? -1 : device.ring_fd(), verdict);
  if (domain == nullptr) return verdict.status();
  for (size_t i = 0; i < kBlocks; ++i) {
    blocks[i] = static_cast<unsigned char*>(probe::grow(kBlock));
    probe::Pattern(i).fill(blocks[i], kBlock);
  }
  const Answers answers = ask(domain, is_idle ? nullptr : &device);
  printf("%zu blocks registered, %zu not\n", answers.registered, answers.refused);
  if (answers.registered == 0) verdict.broken("nothing is registered");
  if (answers.refused == 0 && !grows) {
    verdict.broken("the limit was not reached");
    return verdict.status();
  }
  check_books("beyond the limit", before);
  if (is_idle) {
    check_idle(static_cast<unsigned>(probe::argument(argc, argv, 2, 5)), grows);
    return verdict.status();
  }
  check_second_domain(answers, before);
  const Answers again = ask(domain, &device);
  if (again.registered != answers.registered) verdict.broken("lookups changed their answers");
  if (probe::domains().close(domain) != RDM_OK) verdict.broken("closing the domain failed");
  check_books("after closing", before);
  check_neighbour(before);
  check_books("at the end", before);
  return verdict.status();
}
