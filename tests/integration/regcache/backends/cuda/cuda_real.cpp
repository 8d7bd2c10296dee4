// A CUDA domain with whatever driver is present: copies of malloc'd and foreign memory arrive byte
// by byte, and another process opens device memory. Runs the same way on a real device and on the
// fake driver.
//
//   cuda_real heap|foreign|ipc|ipc_told
//
// `ipc_told`: the importing process is told before the exporting one frees memory, as CUDA demands.
// In `ipc` it learns this as MPI libraries do, from a new handle for the same address.
//
// Without the library `heap` and `foreign` are controls: the driver does not know stock malloc's
// memory, and a cache that is not told of unmapping sends the old contents.
#include <signal.h>
#include <time.h>

#include <vector>

#include "tests/integration/regcache/backends/cuda/cuda_probe.h"

namespace {

using namespace probe;

constexpr size_t kMiB = size_t{1} << 20;
constexpr uint64_t kPeer = 1;  // the importing process's name for the exporting one

Verdict verdict;

// Whether the driver has pinned it, so that copies need no staging.
bool is_known(const void* address) {
  unsigned type = 0;
  return cuda().get_pointer_attribute(&type, rdmalloc::kCudaPointerMemoryType,
                                      reinterpret_cast<CudaAddress>(address)) == kCudaSuccess;
}

void check_buffer(rdm_domain* domain, char* buffer, size_t size, const char* what) {
  rdm_mr mr{};
  if (domain != nullptr && domains().lookup(domain, buffer, size, &mr) != RDM_OK) {
    verdict.broken("%s: %zu bytes have no key", what, size);
  }
  if (!is_known(buffer) || !is_known(buffer + size - 1)) {
    verdict.broken("%s: the driver has not registered %zu bytes", what, size);
  }
  copy_there_and_back(buffer, size, size, what, verdict);
  if (mr.handle == nullptr) return;
  // The device sees the same bytes.
  std::vector<char> seen(size);
  const auto offset = static_cast<size_t>(buffer - static_cast<char*>(mr.base));
  const CudaAddress on_device = reinterpret_cast<CudaAddress>(mr.handle) + offset;
  if (cuda().copy_to_host(seen.data(), on_device, size) != kCudaSuccess ||
      memcmp(seen.data(), buffer, size) != 0) {
    verdict.broken("%s: the device sees other bytes through the handle", what);
  }
}

void check_heap() {
  auto* early = static_cast<char*>(malloc(3 * kMiB));
  rdm_domain* domain = domains().open != nullptr ? open_domain(verdict) : nullptr;
  check_buffer(domain, early, 3 * kMiB, "a buffer from before the domain");
  for (size_t size = 100; size <= 64 * kMiB; size *= 3) {
    check_buffer(domain, static_cast<char*>(malloc(size)), size, "a buffer of a grown heap");
  }
  // Freeing and reallocating it changes nothing.
  for (int i = 0; i < 50; ++i) {
    auto* again = static_cast<char*>(malloc(kMiB));
    check_buffer(domain, again, kMiB, "a buffer given out again");
    free(again);
  }
  close_domain(domain, verdict);
  if (domain != nullptr && is_known(early))
    verdict.broken("the heap is registered after the close");
}

// What a cache without a monitor does: registers once, for good.
void register_once(char* memory, size_t length) {
  static bool done = false;
  if (!done && cuda().host_register(memory, length, 1) != kCudaSuccess) skip("cannot register");
  done = true;
}

// New pages appear at a registered address: the device must not see the old ones.
void check_foreign() {
  rdm_domain* domain = domains().open != nullptr ? open_domain(verdict) : nullptr;
  char* place = map_pages(kMiB);
  for (uint64_t i = 0; i < 50; ++i) {
    if (map_pages(kMiB, place) == nullptr) skip("out of memory");
    rdm_mr mr{};
    if (domain == nullptr) {
      register_once(place, kMiB);
    } else if (domains().get(domain, place, kMiB, &mr) != RDM_OK) {
      verdict.broken("rdm_get: %s", domains().last_error());
      break;
    }
    copy_there_and_back(place, kMiB, i, "foreign memory", verdict);
    if (domain != nullptr && domains().put(domain, &mr) != RDM_OK) verdict.broken("rdm_put failed");
    munmap(place, kMiB);
  }
  close_domain(domain, verdict);
}

// What goes from the exporting process to the importing one.
struct Message {
  rdm_remote_memory memory;
  char handle[RDM_REMOTE_MAX_HANDLE];
  uint64_t seed;
};

bool send_all(int to, const void* data, size_t size) {
  return write(to, data, size) == static_cast<ssize_t>(size);
}
bool receive_all(int from, void* data, size_t size) {
  return read(from, data, size) == static_cast<ssize_t>(size);
}

// For each answer, exports a run of device memory, each time of another size and often at the same
// address; the last one twice.
[[noreturn]] void be_exporter(int to, int from, const std::vector<size_t>& sizes) {
  (void)use_device();
  for (size_t i = 0; i < sizes.size(); ++i) {
    CudaAddress memory = 0;
    if (cuda().allocate(&memory, sizes[i]) != kCudaSuccess) _exit(kSkipped);
    std::vector<char> bytes(sizes[i]);
    fill(bytes.data(), sizes[i], i);
    if (cuda().copy_to_device(memory, bytes.data(), sizes[i]) != kCudaSuccess) _exit(2);
    Message message{};
    message.seed = i;
    const int status =
        domains().export_memory(reinterpret_cast<void*>(memory), &message.memory, message.handle);
    if (status == RDM_UNSUPPORTED) _exit(kSkipped);
    if (status != RDM_OK) _exit(3);
    char done = 0;
    if (!send_all(to, &message, sizeof message) || !receive_all(from, &done, 1)) _exit(4);
    if (cuda().deallocate(memory) != kCudaSuccess) _exit(5);
  }
  _exit(0);
}

void import(rdm_remote_cache* cache, Message& message, uint64_t times) {
  rdm_remote_memory memory = message.memory;
  memory.peer = kPeer;
  memory.handle = message.handle;
  for (uint64_t i = 0; i < times; ++i) {
    rdm_remote_mapping mapping{};
    if (domains().remote_get(cache, &memory, &mapping) != RDM_OK) {
      verdict.broken("rdm_remote_get: %s", domains().last_error());
      return;
    }
    std::vector<char> bytes(memory.length);
    const auto address = reinterpret_cast<CudaAddress>(mapping.address);
    const int status = cuda().copy_to_host(bytes.data(), address, bytes.size());
    const size_t at = mismatch(bytes.data(), bytes.size(), message.seed);
    if (status != kCudaSuccess || at != bytes.size()) {
      verdict.broken("byte %zu of %zu is not the peer's (CUDA error %d)", at, bytes.size(), status);
    }
    if (domains().remote_put(cache, &mapping) != RDM_OK) verdict.broken("rdm_remote_put failed");
  }
}

void be_importer(int to, int from, size_t messages, bool is_told) {
  (void)use_device();
  rdm_remote_cache* cache = nullptr;
  const int status = domains().remote_open(nullptr, nullptr, &cache);
  if (status != RDM_OK) {
    verdict.broken("opening a cache: status %d: %s", status, domains().last_error());
    return;
  }
  constexpr uint64_t kTimes = 20;
  for (size_t i = 0; i < messages; ++i) {
    Message message{};
    if (!receive_all(from, &message, sizeof message)) break;
    import(cache, message, kTimes);
    rdm_remote_counts counts{};
    if (domains().remote_counts(cache, &counts) != RDM_OK || counts.misses != i + 1 ||
        counts.hits != (i + 1) * (kTimes - 1)) {
      verdict.broken("%lu hits and %lu misses after %zu handles", counts.hits, counts.misses,
                     i + 1);
    }
    if (is_told) domains().remote_forget(cache, kPeer, message.memory.base, message.memory.length);
    const char done = 1;
    if (!send_all(to, &done, 1)) break;
  }
  if (domains().remote_close(cache) != RDM_OK) verdict.broken("the cache does not close");
}

void check_ipc(bool is_told) {
  if (domains().remote_open == nullptr) skip("needs the library");
  signal(SIGPIPE, SIG_IGN);
  int orders[2];
  int answers[2];
  if (pipe(orders) != 0 || pipe(answers) != 0) skip("no pipes");
  const std::vector<size_t> sizes = {32 << 10, 64 << 10, kMiB, 16 << 10, 3 * kMiB};
  // Before either starts the driver, which does not work in a forked child.
  const pid_t exporter = fork();
  if (exporter == 0) {
    close(orders[1]);
    close(answers[0]);
    be_exporter(answers[1], orders[0], sizes);
  }
  close(orders[0]);
  close(answers[1]);
  be_importer(orders[1], answers[0], sizes.size(), is_told);
  close(orders[1]);
  close(answers[0]);
  const ChildEnd end = end_of(exporter);
  if (end.status() == kSkipped) skip("this device exports no memory");
  verdict.expect_good_end("the exporting process", end);
}

}  // namespace

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "";
  const bool is_told = strcmp(what, "ipc_told") == 0;
  if (is_told || strcmp(what, "ipc") == 0) {
    if (!cuda().is_there()) skip("there is no CUDA driver: libcuda.so.1 cannot be loaded");
    check_ipc(is_told);
    return verdict.status();
  }
  (void)use_device();
  if (strcmp(what, "heap") == 0) check_heap();
  if (strcmp(what, "foreign") == 0) check_foreign();
  return verdict.status();
}
