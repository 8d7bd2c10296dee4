// The classic bug: a message is sent from a buffer, the buffer is freed, another is allocated at
// its address, filled, and sent with the key remembered for that address. A peer that receives the
// first buffer's bytes has hit a stale registration. Random sizes, many rounds, every byte
// compared; also in the other direction, from the peer into memory.
//
//   classic ROUNDS THREADS
#include <atomic>
#include <thread>
#include <vector>

#include "tests/integration/regcache/uring_device.h"

namespace {

constexpr size_t kSmallest = 64;
constexpr size_t kMedium = size_t{16} << 10;
constexpr size_t kLargest = size_t{1} << 20;
constexpr uint64_t kReceiveEvery = 8;

probe::Verdict verdict;
std::atomic<uint64_t> reused{0};
std::atomic<uint64_t> freed{0};  // how often the peer received the freed buffer's bytes

// Nine in ten are small.
size_t any_size(probe::Random& random) {
  const size_t size = random.below(10) != 0 ? random.size_between(kSmallest, kMedium)
                                            : random.size_between(kMedium, kLargest);
  return size - random.below(8);
}

// `before`: what the freed buffer at this address held, if there was one.
void send(probe::KeyedDevice& keyed, void* buffer, size_t size, const probe::Pattern& pattern,
          const probe::Pattern* before) {
  const char* which = before == nullptr ? "the first buffer" : "the second buffer";
  pattern.fill(buffer, size);
  const int key = keyed.key_of(buffer, size);
  if (key < 0) return verdict.broken("%s has no key: %s", which, keyed.why());
  const int error = keyed.device().send(static_cast<uint32_t>(key), buffer, size);
  if (error != 0) return verdict.broken("%s was not sent: %s", which, strerror(error));
  const size_t wrong = pattern.mismatch(keyed.device().peer(), size);
  if (wrong == size) return;
  const bool old = before != nullptr && before->is_at(keyed.device().peer(), wrong);
  if (old) ++freed;
  verdict.broken("%s of %zu bytes at %p: the peer got %s, from byte %zu", which, size, buffer,
                 old ? "the freed buffer's bytes" : "other bytes", wrong);
}

void receive(probe::KeyedDevice& keyed, void* buffer, size_t size, uint64_t seed) {
  const probe::Pattern pattern(seed);
  pattern.fill(keyed.device().peer(), size);
  const int key = keyed.key_of(buffer, size);
  if (key < 0) return verdict.broken("the buffer has no key: %s", keyed.why());
  const int error = keyed.device().receive(static_cast<uint32_t>(key), buffer, size);
  if (error != 0) return verdict.broken("nothing was received: %s", strerror(error));
  const size_t wrong = pattern.mismatch(buffer, size);
  if (wrong == size) return;
  verdict.broken("%zu bytes at %p: the program sees other bytes than the peer sent, from byte %zu",
                 size, buffer, wrong);
}

void work(uint64_t rounds, uint64_t seed) {
  probe::KeyedDevice keyed(kLargest, verdict);
  if (verdict.count() != 0) return;
  probe::Random random(seed);
  void* bystanders[16] = {};
  for (uint64_t i = 0; i < rounds; ++i) {
    const size_t size = any_size(random);
    void* first = malloc(size);
    const probe::Pattern before(random.next());
    send(keyed, first, size, before, nullptr);
    const auto address = reinterpret_cast<uintptr_t>(first);
    free(first);
    void* second = malloc(size);
    const bool again = reinterpret_cast<uintptr_t>(second) == address;
    if (again) ++reused;
    send(keyed, second, size, probe::Pattern(random.next()), again ? &before : nullptr);
    if (i % kReceiveEvery == 0) receive(keyed, second, size, random.next());
    // Blocks that stay for a while keep the heap from being empty after each round.
    void*& bystander = bystanders[random.below(16)];
    free(bystander);
    bystander = second;
  }
  for (void* bystander : bystanders) free(bystander);
}

}  // namespace

int main(int argc, char** argv) {
  const uint64_t rounds = probe::argument(argc, argv, 1, 100000);
  const uint64_t threads = probe::argument(argc, argv, 2, 1);
  std::vector<std::thread> workers;
  for (uint64_t i = 1; i < threads; ++i) {
    workers.emplace_back([=] { work(rounds / threads, i + 1); });
  }
  work(rounds / threads, 1);
  for (std::thread& worker : workers) worker.join();
  printf(
      "%lu rounds, %lu at the same address, %lu broken, %lu with the freed buffer's bytes, %lu "
      "registrations\n",
      rounds, reused.load(), verdict.count(), freed.load(), probe::stats().registrations);
  if (reused < rounds / 4) verdict.broken("addresses were seldom used again: nothing was tried");
  return verdict.status();
}
