// The CUDA backend over a fake driver: what it requests, and how it interprets the answers.
#include "regcache/backends/cuda/backend.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "allocator/os/memory.h"
#include "tests/support/catch.h"
#include "tests/support/child.h"
#include "tests/support/cuda_driver.h"
#include "tests/support/fake_cuda.h"
#include "tests/support/kernel_abilities.h"

namespace rdmalloc {
namespace {

constexpr size_t kBytes = size_t{1} << 20;

struct Pages {
  explicit Pages(size_t size = kBytes, int rights = PROT_READ | PROT_WRITE) : bytes(size) {
    base = static_cast<char*>(mmap(nullptr, bytes, rights, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    REQUIRE(base != MAP_FAILED);
  }
  ~Pages() { munmap(base, bytes); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  const size_t bytes;
  char* base;
};

// A freshly loaded driver, a context of the program's, and a domain's backend.
struct Device {
  Device() {
    fake_cuda_reset();
    REQUIRE(test::cuda().init(0) == kCudaSuccess);
    REQUIRE(test::cuda().create_context(&context, 0, 0) == kCudaSuccess);
  }
  // As a domain does, whatever the test did to the driver.
  ~Device() {
    if (backend == nullptr) return;
    fake_cuda_reset();
    for (const rdm_backend_key& each : added) {
      (void)CudaBackend::kOperations.deregister_memory(backend, &each);
    }
    CudaBackend::kOperations.closed(backend, 0);
  }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  int open(CudaContext in = nullptr) {
    CudaLibrary library;
    REQUIRE(find_cuda_library(&library, why, sizeof why) == RDM_OK);
    return CudaBackend::create(library, in, &backend, why, sizeof why);
  }
  int add(void* base, size_t length, bool foreign = false, unsigned access = RDM_LOCAL_WRITE) {
    rdm_backend_request request{};
    request.base = base;
    request.length = length;
    request.page_size = os::page_size();
    request.access = access;
    request.pinned = foreign ? 0 : 1;
    request.foreign = foreign ? 1 : 0;
    why[0] = '\0';
    const int status =
        CudaBackend::kOperations.register_memory(backend, &request, &key, why, sizeof why);
    // Every failure has a complete message, and no context stays behind.
    CHECK((status == RDM_OK) == (why[0] == '\0'));
    CHECK(strlen(why) < sizeof why - 1);
    CHECK(fake_cuda_depth() == depth);
    if (status == RDM_OK) added.push_back(key);
    return status;
  }
  int add(const Pages& pages) { return add(pages.base, pages.bytes); }
  int add_foreign(const Pages& pages) { return add(pages.base, pages.bytes, true); }
  int remove() { return remove(key); }
  int remove(const rdm_backend_key& of) {
    const auto is_it = [&](const rdm_backend_key& each) {
      return each.lkey == of.lkey && each.rkey == of.rkey;
    };
    const auto at = std::find_if(added.begin(), added.end(), is_it);
    if (at != added.end()) added.erase(at);
    return CudaBackend::kOperations.deregister_memory(backend, &of);
  }
  bool said(const std::string& words) const {
    return std::string(why).find(words) != std::string::npos;
  }

  test::FakeCuda& fake = *fake_cuda();
  CudaContext context = nullptr;
  CudaBackend* backend = nullptr;
  rdm_backend_key key{};  // of the last one
  std::vector<rdm_backend_key> added;
  size_t depth = 1;  // of contexts that the program made
  char why[320] = {};
};

CudaLibrary library() {
  CudaLibrary found;
  char why[320];
  REQUIRE(find_cuda_library(&found, why, sizeof why) == RDM_OK);
  return found;
}

}  // namespace

TEST_CASE("a registration makes copies direct until it is undone, and nothing is left") {
  Device device;
  const Pages pages;
  REQUIRE(device.open() == RDM_OK);
  CHECK_FALSE(fake_cuda_covers(pages.base, pages.bytes));
  REQUIRE(device.add(pages) == RDM_OK);
  CHECK(fake_cuda_covers(pages.base, pages.bytes));
  CHECK(device.key.handle == pages.base);
  CHECK(device.fake.registered_bytes == kBytes);
  CHECK(device.remove() == RDM_OK);
  CHECK_FALSE(fake_cuda_covers(pages.base, 1));
  CHECK(device.fake.registered == 0);
}

TEST_CASE("the handle is where the device sees the memory, wherever the host does") {
  Device device;
  device.fake.same_addresses = false;
  const Pages pages;
  REQUIRE(device.open() == RDM_OK);
  REQUIRE(device.add(pages) == RDM_OK);
  CudaAddress seen = 0;
  REQUIRE(library().get_device_pointer(&seen, pages.base, 0) == kCudaSuccess);
  CHECK(device.key.handle == reinterpret_cast<void*>(seen));
  CHECK(device.key.handle != pages.base);
  CHECK(device.remove() == RDM_OK);
  CHECK(device.fake.registered == 0);
}

TEST_CASE("memory is registered for all contexts, and for reading only where nothing writes it") {
  Device device;
  const Pages pages;
  REQUIRE(device.open() == RDM_OK);
  REQUIRE(device.add(pages) == RDM_OK);
  CHECK((device.fake.last_flags & kCudaRegisterPortable) != 0);
  CHECK((device.fake.last_flags & kCudaRegisterReadOnly) == 0);
  const Pages constants(kBytes, PROT_READ);
  REQUIRE(device.add(constants.base, kBytes, true, 0) == RDM_OK);
  CHECK((device.fake.last_flags & kCudaRegisterReadOnly) != 0);
}

TEST_CASE("a device that cannot be told that it only reads registers what may be written") {
  if (!test::can_populate()) return;  // the fake driver does
  Device device;
  device.fake.registers_read_only = false;
  const Pages pages;
  const Pages constants(kBytes, PROT_READ);
  REQUIRE(device.open() == RDM_OK);
  CHECK(device.add(pages.base, kBytes, true, 0) == RDM_OK);
  CHECK(device.add(constants.base, kBytes, true, 0) == RDM_SYSTEM);
  CHECK(device.said("may not be written from offset 0"));
}

TEST_CASE(
    "nothing runs inside malloc, nothing is charged, and no piece is too long for the driver") {
  Device device;
  REQUIRE(device.open() == RDM_OK);
  rdm_backend_limits limits{};
  REQUIRE(CudaBackend::kOperations.limits(device.backend, &limits) == RDM_OK);
  CHECK(limits.abilities == RDM_BACKEND_ONCE);
  CHECK(limits.charges == RDM_CHARGES_NOTHING);
  CHECK(limits.max_length > 0);
  CHECK(limits.max_length < size_t{512} << 30);
}

TEST_CASE(
    "the current context is taken when none is given, and a given one when another is current") {
  Device device;
  const Pages pages;
  CudaContext other = nullptr;
  REQUIRE(test::cuda().create_context(&other, 0, 0) == kCudaSuccess);
  device.depth = 2;
  REQUIRE(device.open(device.context) == RDM_OK);
  CHECK(fake_cuda_depth() == 2);
  REQUIRE(test::cuda().destroy_context(other) == kCudaSuccess);
  device.depth = 1;
  CHECK(device.add(pages) == RDM_OK);
}

TEST_CASE("another thread, in which no context is current, registers and deregisters") {
  Device device;
  const Pages pages;
  REQUIRE(device.open() == RDM_OK);
  std::thread([&] {
    device.depth = 0;
    CHECK(device.add(pages) == RDM_OK);
    CHECK(device.remove() == RDM_OK);
    device.depth = 1;
  }).join();
  CHECK(device.fake.registered == 0);
}

TEST_CASE("without a context there is no domain, and the sentence says how to make one") {
  Device device;
  REQUIRE(test::cuda().destroy_context(device.context) == kCudaSuccess);
  CHECK(device.open() == RDM_INVALID);
  CHECK(device.said("cuCtxSetCurrent"));
  CHECK(device.open(device.context) == RDM_SYSTEM);
  CHECK(device.said("destroyed"));
}

TEST_CASE("no device, and one that registers no host memory, are told apart") {
  Device device;
  device.fake.registers_host_memory = false;
  CHECK(device.open() == RDM_UNSUPPORTED);
  CHECK(device.said("cuMemHostAlloc"));
  device.fake.devices = 0;
  CHECK(device.open() == RDM_UNSUPPORTED);
  CHECK(device.said("CUDA_VISIBLE_DEVICES"));
  device.fake.devices = 1;
  device.fake.start_status = 804;
  CHECK(device.open() == RDM_UNSUPPORTED);
  CHECK(device.said("(804)"));
  CHECK(device.said("nvidia-smi"));
}

TEST_CASE("memory that is registered already is an overlap to be given up, or a domain too many") {
  Device device;
  const Pages pages(64 << 10);
  REQUIRE(device.open() == RDM_OK);
  REQUIRE(device.add(pages.base, 32 << 10, true) == RDM_OK);
  CHECK(device.add_foreign(pages) == RDM_BACKEND_OVERLAPS);
  CHECK(device.said("registered with CUDA already"));
  CHECK(device.remove() == RDM_OK);
  REQUIRE(library().host_register(pages.base, 4096, 0) == kCudaSuccess);
  CHECK(device.add(pages) == RDM_BUSY);
  CHECK(device.said("RDM_DOMAIN_PARTIAL"));
  CHECK(device.add(pages) == RDM_BUSY);
}

TEST_CASE("domains share the heap's regions, and the last one deregisters them") {
  Device device;
  const Pages pages;
  REQUIRE(device.open() == RDM_OK);
  CudaBackend* other = nullptr;
  REQUIRE(CudaBackend::create(library(), device.context, &other, device.why, sizeof device.why) ==
          RDM_OK);
  REQUIRE(device.add(pages) == RDM_OK);
  const rdm_backend_key first = device.key;
  std::swap(device.backend, other);
  REQUIRE(device.add(pages) == RDM_OK);
  CHECK(device.key.handle == first.handle);
  CHECK(device.fake.registered == 1);
  CHECK(CudaBackend::kOperations.deregister_memory(other, &first) == RDM_OK);
  CHECK(device.fake.registered == 1);
  CHECK(device.remove() == RDM_OK);
  CHECK(device.fake.registered == 0);
  CudaBackend::kOperations.closed(other, 0);
}

TEST_CASE("a region that went with another domain's context is registered anew, not believed in") {
  Device device;
  const Pages pages;
  CudaContext context = nullptr;
  REQUIRE(test::cuda().create_context(&context, 0, 0) == kCudaSuccess);
  CudaBackend* other = nullptr;
  REQUIRE(CudaBackend::create(library(), context, &other, device.why, sizeof device.why) == RDM_OK);
  REQUIRE(device.open(device.context) == RDM_OK);
  std::swap(device.backend, other);
  device.depth = 2;
  REQUIRE(device.add(pages) == RDM_OK);
  const rdm_backend_key first = device.key;
  REQUIRE(test::cuda().destroy_context(context) == kCudaSuccess);
  device.depth = 1;
  std::swap(device.backend, other);
  REQUIRE(device.add(pages) == RDM_OK);
  CHECK(fake_cuda_covers(pages.base, pages.bytes));
  CHECK(CudaBackend::kOperations.deregister_memory(other, &first) == RDM_OK);
  CHECK(fake_cuda_covers(pages.base, pages.bytes));
  CHECK(device.remove() == RDM_OK);
  CHECK(device.fake.registered == 0);
  CudaBackend::kOperations.closed(other, 0);
}

TEST_CASE("a region that is registered for reading only is not shared with one that writes") {
  Device device;
  const Pages pages;
  REQUIRE(device.open() == RDM_OK);
  REQUIRE(device.add(pages.base, kBytes, false, 0) == RDM_OK);
  const rdm_backend_key first = device.key;
  CHECK(device.add(pages) == RDM_BUSY);
  REQUIRE(device.add(pages.base, kBytes, false, 0) == RDM_OK);
  CHECK(device.remove() == RDM_OK);
  device.key = first;
  CHECK(device.remove() == RDM_OK);
  CHECK(device.add(pages) == RDM_OK);
  CHECK(device.remove() == RDM_OK);
}

TEST_CASE("threads of several domains share one region, or are told to come later") {
  Device device;
  const Pages pages;
  REQUIRE(device.open() == RDM_OK);
  rdm_backend_request request{};
  request.base = pages.base;
  request.length = kBytes;
  request.access = RDM_LOCAL_WRITE;
  request.pinned = 1;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      char why[320];
      for (int i = 0; i < 500; ++i) {
        rdm_backend_key key{};
        const int status = CudaBackend::kOperations.register_memory(device.backend, &request, &key,
                                                                    why, sizeof why);
        if (status == RDM_BACKEND_LATER) continue;
        if (status != RDM_OK || !fake_cuda_covers(pages.base, kBytes) ||
            CudaBackend::kOperations.deregister_memory(device.backend, &key) != RDM_OK) {
          ++wrong;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(device.fake.registered == 0);
}

TEST_CASE("same base, larger size: unmapped memory stays registered, and the address overlaps") {
  Device device;
  REQUIRE(device.open() == RDM_OK);
  Pages pages(64 << 10);
  REQUIRE(device.add(pages.base, 32 << 10, true) == RDM_OK);
  REQUIRE(mmap(pages.base, 64 << 10, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == pages.base);
  CHECK(device.add_foreign(pages) == RDM_BACKEND_OVERLAPS);
  CHECK(device.fake.refused_as_registered == 1);
  CHECK(device.remove() == RDM_OK);
  CHECK(device.add_foreign(pages) == RDM_OK);
}

TEST_CASE("a limit of the process or of the driver is a budget, and the sentence has the numbers") {
  Device device;
  const Pages one;
  const Pages two;
  REQUIRE(device.open() == RDM_OK);
  device.fake.most_registrations = 1;
  REQUIRE(device.add(one) == RDM_OK);
  CHECK(device.add(two) == RDM_OUT_OF_BUDGET);
  CHECK(device.said("1024 KiB"));
  CHECK(device.said("has 1 registrations"));
  CHECK(device.said("RDMALLOC_FOREIGN_BYTES"));
  device.fake.most_registrations = 2;
  device.fake.most_bytes = kBytes;
  CHECK(device.add(two) == RDM_OUT_OF_BUDGET);
  CHECK(device.remove() == RDM_OK);
  CHECK(device.add(two) == RDM_OK);
}

TEST_CASE("the k-th registration that fails leaves the others, for every k") {
  for (uint64_t k = 1; k <= 4; ++k) {
    Device device;
    REQUIRE(device.open() == RDM_OK);
    const Pages pages(4 * os::page_size());
    device.fake.fail_at = k;
    std::vector<rdm_backend_key> keys;
    for (size_t i = 0; i < 4; ++i) {
      const int status = device.add(pages.base + i * os::page_size(), os::page_size());
      CHECK(status == (i + 1 == k ? RDM_OUT_OF_BUDGET : RDM_OK));
      if (status == RDM_OK) keys.push_back(device.key);
    }
    CHECK(device.fake.registered == 3);
    for (const rdm_backend_key& key : keys) {
      CHECK(device.remove(key) == RDM_OK);
    }
    CHECK(device.fake.registered == 0);
  }
}

TEST_CASE("memory that cannot be pinned is described, and where") {
  if (!test::can_populate()) return;  // the fake driver does
  Device device;
  REQUIRE(device.open() == RDM_OK);
  const Pages pages(4 * os::page_size());
  REQUIRE(mprotect(pages.base + 2 * os::page_size(), os::page_size(), PROT_READ) == 0);
  CHECK(device.add_foreign(pages) == RDM_SYSTEM);
  CHECK(device.said("may not be written from offset " + std::to_string(2 * os::page_size())));
  REQUIRE(mprotect(pages.base + os::page_size(), os::page_size(), PROT_NONE) == 0);
  CHECK(device.add_foreign(pages) == RDM_SYSTEM);
  CHECK(device.said("may not be read from offset " + std::to_string(os::page_size())));
  REQUIRE(munmap(pages.base, os::page_size()) == 0);
  CHECK(device.add_foreign(pages) == RDM_SYSTEM);
  CHECK(device.said("is not mapped from offset 0"));
  CHECK(device.fake.registered == 0);
}

TEST_CASE("a context that was destroyed is noticed, and what went with it counts as deregistered") {
  Device device;
  const Pages pages;
  REQUIRE(device.open() == RDM_OK);
  REQUIRE(device.add(pages) == RDM_OK);
  REQUIRE(test::cuda().destroy_context(device.context) == kCudaSuccess);
  device.depth = 0;
  CHECK(device.remove() == RDM_OK);
  CHECK(device.add(pages) == RDM_SYSTEM);
  CHECK(device.said("destroyed"));
}

TEST_CASE("a context that an error broke is noticed, and keeps what is registered") {
  Device device;
  const Pages pages;
  REQUIRE(device.open() == RDM_OK);
  REQUIRE(device.add(pages) == RDM_OK);
  for (const int error : {int{kCudaIllegalAddress}, int{kCudaAssert}, int{kCudaEccUncorrectable},
                          int{kCudaLaunchTimeout}, int{kCudaLaunchFailed}}) {
    device.fake.broken = error;
    CHECK(device.remove() == RDM_SYSTEM);
    rdm_backend_key kept = device.key;
    CHECK(device.add(pages) == RDM_SYSTEM);
    CHECK(device.said("broke the context"));
    device.key = kept;
  }
  device.fake.broken = kCudaIllegalAddress;
  CHECK(device.add(pages) == RDM_SYSTEM);
  CHECK(device.said("CUDA_ERROR_ILLEGAL_ADDRESS (700)"));
  CudaBackend* other = nullptr;
  CHECK(CudaBackend::create(library(), device.context, &other, device.why, sizeof device.why) ==
        RDM_SYSTEM);
  CHECK(device.said("broke the context"));
  CHECK(fake_cuda_depth() == 1);
}

TEST_CASE(
    "a driver that has shut down at the end of the process is asked in vain, and harmlessly") {
  Device device;
  const Pages pages;
  REQUIRE(device.open() == RDM_OK);
  REQUIRE(device.add(pages) == RDM_OK);
  device.fake.shut_down = true;
  CHECK(device.remove() == RDM_OK);
  CHECK(device.add(pages) == RDM_SYSTEM);
  CHECK(device.said("shut down"));
}

TEST_CASE("what the driver does not let go of is said; what it does not have is gone") {
  Device device;
  const Pages pages;
  REQUIRE(device.open() == RDM_OK);
  REQUIRE(device.add(pages) == RDM_OK);
  device.fake.unregister_status = kCudaInvalidValue;
  CHECK(device.remove() == RDM_SYSTEM);
  device.fake.unregister_status = kCudaSuccess;
  REQUIRE(library().host_unregister(pages.base) == kCudaSuccess);
  CHECK(device.remove() == RDM_OK);
}

TEST_CASE("an unknown error is given by its number") {
  Device device;
  const Pages pages;
  REQUIRE(device.open() == RDM_OK);
  device.fake.fail_status = 999;
  device.fake.fail_at = 1;
  CHECK(device.add(pages) == RDM_SYSTEM);
  CHECK(device.said("an error without a name (999)"));
  device.fake.fail_status = kCudaNotSupported;
  device.fake.fail_at = 1;
  CHECK(device.add(pages) == RDM_UNSUPPORTED);
  device.fake.fail_status = kCudaNotPermitted;
  device.fake.fail_at = 1;
  CHECK(device.add(pages) == RDM_SYSTEM);
}

TEST_CASE("a child of fork never calls the driver for its parent's domain") {
  Device device;
  const Pages pages;
  const Pages more;
  REQUIRE(device.open() == RDM_OK);
  REQUIRE(device.add(pages) == RDM_OK);
  const rdm_backend_key kept = device.key;
  CHECK(test::run_child([&] {
          const uint64_t before = device.fake.calls;
          const bool refused = device.add(more) == RDM_SYSTEM && device.said("child of fork");
          device.key = kept;
          const bool forgotten = device.remove() == RDM_OK;
          CudaBackend::kOperations.closed(device.backend, 1);
          return refused && forgotten && device.fake.calls == before;
        }).exited_well());
  CHECK(device.fake.registered == 1);
  device.key = kept;
  CHECK(device.remove() == RDM_OK);
}

TEST_CASE("a child of fork cannot open a domain where its parent used CUDA, and is told why") {
  Device device;
  CHECK(test::run_child([&] {
          return device.open() == RDM_UNSUPPORTED && device.said("child of fork");
        }).exited_well());
}

TEST_CASE("threads register and deregister at the same time, and nothing is left") {
  Device device;
  REQUIRE(device.open() == RDM_OK);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      void* base =
          mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      rdm_backend_request request{};
      request.base = base;
      request.length = kBytes;
      request.access = RDM_LOCAL_WRITE;
      request.foreign = 1;
      char why[320];
      for (int i = 0; i < 200; ++i) {
        rdm_backend_key key{};
        if (CudaBackend::kOperations.register_memory(device.backend, &request, &key, why,
                                                     sizeof why) != RDM_OK ||
            CudaBackend::kOperations.deregister_memory(device.backend, &key) != RDM_OK ||
            fake_cuda_depth() != 0) {
          ++wrong;
        }
      }
      munmap(base, kBytes);
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(device.fake.registered == 0);
  CHECK(device.fake.registrations == 800);
}

TEST_CASE("a driver that is missing, or too old, is said, with what to install") {
  CudaLibrary found;
  char why[320] = {};
  CHECK(find_cuda_library(&found, why, sizeof why, "libcuda_that_is_not_there.so.1") ==
        RDM_UNSUPPORTED);
  CHECK(std::string(why).find("libcuda1") != std::string::npos);
  CHECK(found.init == nullptr);
  CHECK(find_cuda_library(&found, why, sizeof why, OLD_CUDA_DRIVER) == RDM_UNSUPPORTED);
  INFO(why);
  CHECK(std::string(why).find("lacks cuMemHostRegister_v2") != std::string::npos);
  CHECK(std::string(why).find("CUDA 4.0") != std::string::npos);
  CHECK(found.init == nullptr);
}

TEST_CASE("a place for the sentence that is short, or missing, cuts it and nothing else") {
  CudaAttempt attempt;
  attempt.status = kCudaNoDevice;
  char why[8] = "0123456";
  CHECK(explain_cuda_failure(library(), attempt, why, 4) == RDM_UNSUPPORTED);
  CHECK(why[3] == '\0');
  CHECK(why[4] == '4');
  CHECK(explain_cuda_failure(library(), attempt, nullptr, 0) == RDM_UNSUPPORTED);
}

TEST_CASE("opening a domain without a place for it is refused") {
  CHECK(rdm_domain_open_cuda(nullptr, nullptr, nullptr) == RDM_INVALID);
}

}  // namespace rdmalloc
