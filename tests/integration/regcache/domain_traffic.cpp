// Domains open and close while threads malloc, look up and send: no wrong byte, no crash, and
// nothing stays pinned at the end.
//
//   domain_traffic SECONDS
#include <time.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tests/integration/regcache/uring_device.h"

namespace {

constexpr int kWorkers = 3;
constexpr size_t kLargest = size_t{256} << 10;

probe::Verdict verdict;
std::atomic<bool> done{false};
std::atomic<uint64_t> sent{0};
std::atomic<uint64_t> refused{0};

struct Worker {
  probe::Device device{kLargest};
  std::atomic<rdm_domain*> domain{nullptr};
};

// A key may die between lookup and send. Then the device refuses, even if another memory region now
// has the key, because the buffer is not in it.
void send(Worker& worker, void* buffer, size_t size, uint64_t seed) {
  rdm_domain* domain = worker.domain.load();
  rdm_mr found{};
  if (domain == nullptr || probe::domains().lookup(domain, buffer, size, &found) != RDM_OK) {
    ++refused;
    usleep(100);
    return;
  }
  const probe::Pattern pattern(seed);
  pattern.fill(buffer, size);
  const int error = worker.device.send(found.lkey, buffer, size);
  if (error == EFAULT || error == EINVAL || error == ENXIO) {
    ++refused;
  } else if (error != 0) {
    verdict.broken("sending: %s", strerror(error));
  } else if (pattern.mismatch(worker.device.peer(), size) != size) {
    verdict.broken("the peer got other bytes");
  } else {
    ++sent;
  }
}

void work(Worker& worker, uint64_t seed) {
  probe::Random random(seed);
  void* objects[64] = {};
  while (!done) {
    void*& object = objects[random.below(64)];
    free(object);
    const size_t size = random.size_between(64, kLargest);
    object = malloc(size);
    send(worker, object, size, random.next());
  }
  for (void* object : objects) free(object);
}

// Opens and closes a domain on the worker's ring, and one on our own.
void open_and_close(Worker& worker, probe::Random& random) {
  rdm_domain* own = random.below(4) == 0 ? probe::open_domain(-1, verdict) : nullptr;
  rdm_domain* domain = probe::open_domain(worker.device.ring_fd(), verdict);
  worker.domain = domain;
  usleep(static_cast<unsigned>(random.below(20000)));
  worker.domain = nullptr;
  if (domain != nullptr && probe::domains().close(domain) != RDM_OK) {
    verdict.broken("closing a domain failed");
  }
  if (own != nullptr && probe::domains().close(own) != RDM_OK) {
    verdict.broken("closing a domain on our own ring failed");
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (!probe::library().loaded()) probe::skip("needs the library");
  const uint64_t seconds = probe::argument(argc, argv, 1, 5);
  alarm(static_cast<unsigned>(seconds) + 200);
  static Worker workers[kWorkers];
  const uint64_t before = probe::pinned_by_kernel();
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < kWorkers; ++i) {
    threads.emplace_back([i] { work(workers[i], i + 1); });
    threads.emplace_back([i] {
      probe::Random random(100 + i);
      while (!done) open_and_close(workers[i], random);
    });
  }
  std::vector<void*> grown;  // regions are acquired meanwhile
  const time_t end = time(nullptr) + static_cast<time_t>(seconds);
  while (time(nullptr) < end && verdict.count() == 0) {
    if (grown.size() < 40) grown.push_back(probe::grow(size_t{1} << 20));
    usleep(20000);
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
  const rdm_stats books = probe::stats();
  printf("%lu sent, %lu refused, %lu registrations\n", sent.load(), refused.load(),
         books.registrations);
  if (sent == 0) verdict.broken("nothing was sent");
  if (books.domains != 0 || books.registered_bytes != 0 || books.registered_pinned_bytes != 0) {
    verdict.broken("the books say that something is registered still");
  }
  if (!probe::comes_to(before, probe::pinned_by_kernel)) {
    verdict.broken("%lu bytes stay pinned", probe::pinned_by_kernel() - before);
  }
  for (void* object : grown) free(object);
  return verdict.status();
}
