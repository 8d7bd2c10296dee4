// CUDA IPC over a fake driver: a child of this test, started before the driver, is the peer whose
// memory is opened.
#include "regcache/backends/cuda/ipc.h"

#include <string.h>
#include <unistd.h>

#include <string>

#include "allocator/last_error.h"
#include "include/rdmalloc/backend.h"
#include "tests/support/catch.h"
#include "tests/support/child.h"
#include "tests/support/cuda_driver.h"
#include "tests/support/fake_cuda.h"

namespace rdmalloc {
namespace {

constexpr size_t kSmall = size_t{32} << 10;
constexpr size_t kLarge = size_t{64} << 10;

// What the peer is told to do: free what it has, then allocate and export this many bytes, filled
// with a letter; without bytes, only free.
struct Order {
  size_t length;
  char letter;
};
struct Answer {
  int status;
  rdm_remote_memory memory;
  CudaIpcHandle handle;
};

[[noreturn]] void be_peer(int orders, int answers) {
  CudaContext context = nullptr;
  (void)test::cuda().init(0);
  (void)test::cuda().create_context(&context, 0, 0);
  CudaAddress held = 0;
  Order order{};
  while (read(orders, &order, sizeof order) == sizeof order) {
    if (held != 0) (void)test::cuda().deallocate(held);
    held = 0;
    Answer answer{};
    if (order.length != 0) {
      (void)test::cuda().allocate(&held, order.length);
      const std::string bytes(order.length, order.letter);
      (void)test::cuda().copy_to_device(held, bytes.data(), bytes.size());
      char handle[RDM_REMOTE_MAX_HANDLE];
      const auto* inside = reinterpret_cast<const void*>(held + order.length / 2);
      answer.status = rdm_cuda_export(inside, &answer.memory, handle);
      memcpy(&answer.handle, handle, sizeof answer.handle);
    }
    if (write(answers, &answer, sizeof answer) != sizeof answer) break;
  }
  test::leave(0);
}

// The peer's process, and an importer with a context in this one.
struct Pair {
  Pair() {
    fake_cuda_reset();
    int orders[2];
    int answers[2];
    REQUIRE(pipe(orders) == 0);
    REQUIRE(pipe(answers) == 0);
    peer = test::fork_bound();
    if (peer == 0) {
      close(orders[1]);
      close(answers[0]);
      be_peer(orders[0], answers[1]);
    }
    close(orders[0]);
    close(answers[1]);
    to_peer = orders[1];
    from_peer = answers[0];
    REQUIRE(test::cuda().init(0) == kCudaSuccess);
    REQUIRE(test::cuda().create_context(&context, 0, 0) == kCudaSuccess);
    CudaLibrary library;
    REQUIRE(find_cuda_library(&library, why, sizeof why) == RDM_OK);
    REQUIRE(CudaIpc::create(library, nullptr, &ipc, why, sizeof why) == RDM_OK);
  }
  ~Pair() {
    CudaIpc::kOperations.closed(ipc, 0);
    end_peer();
    close(to_peer);
    close(from_peer);
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  rdm_remote_memory& ask(size_t length, char letter = 'a') {
    const Order order{length, letter};
    REQUIRE(write(to_peer, &order, sizeof order) == sizeof order);
    REQUIRE(read(from_peer, &answer, sizeof answer) == sizeof answer);
    REQUIRE(answer.status == RDM_OK);
    answer.memory.handle = &answer.handle;
    return answer.memory;
  }
  int open(const rdm_remote_memory& memory, void** address) {
    why[0] = '\0';
    const int status = CudaIpc::kOperations.open(ipc, &memory, address, why, sizeof why);
    CHECK((status == RDM_OK) == (why[0] == '\0'));
    CHECK(fake_cuda_depth() == 1);
    return status;
  }
  int shut(void* address) { return CudaIpc::kOperations.close(ipc, address, 0); }
  void end_peer() {
    if (peer <= 0) return;
    test::kill_child(peer);
    peer = -1;
  }
  bool said(const char* words) const { return std::string(why).find(words) != std::string::npos; }

  test::FakeCuda& fake = *fake_cuda();
  pid_t peer = -1;
  int to_peer = -1;
  int from_peer = -1;
  CudaContext context = nullptr;
  CudaIpc* ipc = nullptr;
  Answer answer{};
  char why[320] = {};
};

bool holds(void* address, size_t length, char letter) {
  std::string bytes(length, '\0');
  return test::cuda().copy_to_host(bytes.data(), reinterpret_cast<CudaAddress>(address), length) ==
             kCudaSuccess &&
         bytes == std::string(length, letter);
}

bool last_said(const char* words) {
  return std::string(last_error()).find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("a handle names all of the allocation, and another process sees its bytes") {
  Pair pair;
  const rdm_remote_memory& memory = pair.ask(kSmall, 'x');
  CHECK(memory.length == kSmall);
  void* address = nullptr;
  REQUIRE(pair.open(memory, &address) == RDM_OK);
  CHECK(holds(address, kSmall, 'x'));
  CHECK(pair.fake.open == 1);
  CHECK(pair.shut(address) == RDM_OK);
  CHECK(pair.fake.open == 0);
}

TEST_CASE("same base, larger size: what is open at the peer's base overlaps until it is closed") {
  Pair pair;
  const uint64_t base = pair.ask(kSmall).base;
  void* small = nullptr;
  void* large = nullptr;
  REQUIRE(pair.open(pair.answer.memory, &small) == RDM_OK);
  REQUIRE(pair.ask(kLarge, 'z').base == base);
  CHECK(pair.open(pair.answer.memory, &large) == RDM_BACKEND_OVERLAPS);
  CHECK(pair.said("open here already"));
  CHECK(pair.shut(small) == RDM_OK);
  REQUIRE(pair.open(pair.answer.memory, &large) == RDM_OK);
  CHECK(holds(large, kLarge, 'z'));
  CHECK(pair.shut(large) == RDM_OK);
}

TEST_CASE("a handle of memory that was freed, or of a process that ended, is refused") {
  Pair pair;
  rdm_remote_memory memory = pair.ask(kSmall);
  const CudaIpcHandle handle = pair.answer.handle;
  memory.handle = &handle;
  void* address = nullptr;
  pair.ask(0);
  CHECK(pair.open(memory, &address) == RDM_SYSTEM);
  CHECK(pair.said("was freed"));
  pair.ask(kSmall);
  pair.end_peer();
  CHECK(pair.open(pair.answer.memory, &address) == RDM_SYSTEM);
  CHECK(pair.said("has ended"));
  CHECK(address == nullptr);
}

TEST_CASE("a process cannot open its own memory, and is told to use the address") {
  Pair pair;
  CudaAddress own = 0;
  REQUIRE(test::cuda().allocate(&own, kSmall) == kCudaSuccess);
  rdm_remote_memory memory{};
  char handle[RDM_REMOTE_MAX_HANDLE];
  REQUIRE(rdm_cuda_export(reinterpret_cast<void*>(own), &memory, handle) == RDM_OK);
  void* address = nullptr;
  CHECK(pair.open(memory, &address) == RDM_INVALID);
  CHECK(pair.said("use the address itself"));
  REQUIRE(test::cuda().destroy_context(pair.context) == kCudaSuccess);
  char why[320] = {};
  CHECK(CudaIpc::kOperations.open(pair.ipc, &memory, &address, why, sizeof why) == RDM_SYSTEM);
  CHECK(std::string(why).find("destroyed") != std::string::npos);
}

TEST_CASE("a handle of another size is refused before the driver sees it") {
  Pair pair;
  rdm_remote_memory memory = pair.ask(kSmall);
  void* address = nullptr;
  const uint64_t before = pair.fake.calls;
  memory.handle_size = sizeof(CudaIpcHandle) - 1;
  CHECK(pair.open(memory, &address) == RDM_INVALID);
  memory.handle_size = 0;
  memory.handle = nullptr;
  CHECK(pair.open(memory, &address) == RDM_INVALID);
  CHECK(pair.fake.calls == before);
}

TEST_CASE("each cause for which a handle cannot be opened has its status and sentence") {
  Pair pair;
  const rdm_remote_memory& memory = pair.ask(kSmall);
  void* address = nullptr;
  const auto opening = [&](CudaStatus status) {
    pair.fake.open_status = status;
    return pair.open(memory, &address);
  };
  CHECK(opening(kCudaOutOfMemory) == RDM_OUT_OF_BUDGET);
  CHECK(pair.said("rdm_remote_options"));
  CHECK(opening(kCudaTooManyPeers) == RDM_SYSTEM);
  CHECK(pair.said("CUDA_ERROR_TOO_MANY_PEERS"));
  CHECK(opening(kCudaNotSupported) == RDM_UNSUPPORTED);
  CHECK(opening(kCudaPeerAccessUnsupported) == RDM_UNSUPPORTED);
  CHECK(opening(kCudaInvalidHandle) == RDM_SYSTEM);
  CHECK(opening(kCudaSuccess) == RDM_OK);
  pair.fake.broken = kCudaIllegalAddress;
  CHECK(pair.shut(address) == RDM_SYSTEM);
  CHECK(pair.open(memory, &address) == RDM_SYSTEM);
  CHECK(pair.said("broke the context"));
}

TEST_CASE("what went with its context is closed") {
  Pair pair;
  void* address = nullptr;
  REQUIRE(pair.open(pair.ask(kSmall), &address) == RDM_OK);
  REQUIRE(test::cuda().destroy_context(pair.context) == kCudaSuccess);
  CHECK(pair.shut(address) == RDM_OK);
}

TEST_CASE("what is not open is not closed") {
  Pair pair;
  char here = 0;
  CHECK(pair.shut(&here) == RDM_SYSTEM);
}

TEST_CASE("a child of fork neither opens nor closes through the driver") {
  Pair pair;
  void* address = nullptr;
  REQUIRE(pair.open(pair.ask(kSmall), &address) == RDM_OK);
  const test::ChildEnd end = test::run_child([&] {
    const uint64_t before = pair.fake.calls;
    void* other = nullptr;
    const bool refused = pair.open(pair.answer.memory, &other) == RDM_SYSTEM;
    const bool forgotten = pair.shut(address) == RDM_OK;
    CudaIpc::kOperations.closed(pair.ipc, 1);
    return refused && forgotten && pair.fake.calls == before;
  });
  CHECK(end.exited_well());
  CHECK(pair.shut(address) == RDM_OK);
}

TEST_CASE("only device memory that has a handle is exported") {
  Pair pair;
  rdm_remote_memory memory{};
  char handle[RDM_REMOTE_MAX_HANDLE];
  alignas(65536) static char host[65536];  // whole pages of any size
  CHECK(rdm_cuda_export(host, &memory, handle) == RDM_INVALID);
  CHECK(last_said("no device memory"));
  REQUIRE(test::cuda().host_register(host, sizeof host, 0) == kCudaSuccess);
  CHECK(rdm_cuda_export(host, &memory, handle) == RDM_INVALID);
  CHECK(rdm_cuda_export(nullptr, &memory, handle) == RDM_INVALID);
  CHECK(rdm_cuda_export(host, nullptr, handle) == RDM_INVALID);
  CHECK(rdm_cuda_export(host, &memory, nullptr) == RDM_INVALID);
  CudaAddress own = 0;
  REQUIRE(test::cuda().allocate(&own, kSmall) == kCudaSuccess);
  pair.fake.export_status = kCudaInvalidValue;
  CHECK(rdm_cuda_export(reinterpret_cast<void*>(own), &memory, handle) == RDM_UNSUPPORTED);
  CHECK(last_said("cudaMallocAsync"));
  CHECK(memory.length == 0);
  CHECK(fake_cuda_depth() == 1);
}

TEST_CASE("a cache is opened in a context only, and the sentence goes where the caller wants it") {
  fake_cuda_reset();
  char why[320] = {};
  rdm_remote_options options{};
  options.size = sizeof options;
  options.error = why;
  options.error_size = sizeof why;
  rdm_remote_cache* cache = nullptr;
  CHECK(rdm_remote_cache_open_cuda(nullptr, &options, &cache) == RDM_INVALID);
  CHECK(std::string(why).find("cuCtxSetCurrent") != std::string::npos);
  CHECK(std::string(last_error()) == why);
  CHECK(rdm_remote_cache_open_cuda(nullptr, nullptr, &cache) == RDM_INVALID);
  CHECK(rdm_remote_cache_open_cuda(nullptr, nullptr, nullptr) == RDM_INVALID);
  fake_cuda()->devices = 0;
  CHECK(rdm_remote_cache_open_cuda(nullptr, &options, &cache) == RDM_UNSUPPORTED);
  CHECK(cache == nullptr);
}

}  // namespace rdmalloc
