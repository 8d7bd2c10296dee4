// A program that speaks libfabric and nothing else: what its registrations cost. Over a made-up
// libfabric, with and without the shim. Its name of a case is the first argument.
#include <rdma/fi_errno.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <thread>
#include <vector>

#include "tests/integration/ofi_fake_libfabric.h"
#include "tests/integration/probe.h"

namespace {

constexpr size_t kMessages = 20'000;
constexpr size_t kFewRegistrations = 64;
constexpr size_t kLargest = size_t{1} << 20;
constexpr size_t kBytes = size_t{64} << 10;

probe::Verdict verdict;

class Speaker {
 public:
  explicit Speaker(const char* provider = "verbs;ofi_rxm") {
    fi_fabric_attr attributes{};
    attributes.prov_name = name_;
    snprintf(name_, sizeof name_, "%s", provider);
    info_.fabric_attr = &attributes;
    if (fi_fabric(&attributes, &fabric_, nullptr) != 0 ||
        fi_domain(fabric_, &info_, &domain_, nullptr) != 0) {
      probe::skip("the made-up libfabric has no domain");
    }
  }
  ~Speaker() { close(); }
  Speaker(const Speaker&) = delete;
  Speaker& operator=(const Speaker&) = delete;

  fid_domain* domain() const { return domain_; }

  void close() {
    if (fabric_ == nullptr) return;
    if (const int status = fi_close(&domain_->fid)) verdict.broken("the domain: error %d", -status);
    fi_close(&fabric_->fid);
    fabric_ = nullptr;
  }

  // Registers and gives back, as a message would.
  void use(void* address, size_t length, int how = 0) {
    fid_mr* mr = nullptr;
    const iovec piece{address, length};
    fi_mr_attr attributes{};
    attributes.mr_iov = &piece;
    attributes.iov_count = 1;
    attributes.access = FI_SEND;
    int status = 0;
    switch (how % 3) {
      case 0:
        status = fi_mr_reg(domain_, address, length, FI_SEND, 0, 0, 0, &mr, nullptr);
        break;
      case 1:
        status = fi_mr_regv(domain_, &piece, 1, FI_SEND, 0, 0, 0, &mr, nullptr);
        break;
      default:
        status = fi_mr_regattr(domain_, &attributes, 0, &mr);
        break;
    }
    if (status != 0) return verdict.broken("registering: error %d", -status);
    if (fi_mr_key(mr) == 0 || fi_mr_desc(mr) == nullptr) verdict.broken("no key, no descriptor");
    if (fi_close(&mr->fid) != 0) verdict.broken("a memory region does not close");
  }

  // Registrations with the device that this makes.
  template <typename Do>
  uint64_t cost(Do act) {
    const uint64_t before = fake_ofi_books().registered;
    act();
    return fake_ofi_books().registered - before;
  }

 private:
  char name_[32];
  fi_info info_{};
  fid_fabric* fabric_ = nullptr;
  fid_domain* domain_ = nullptr;
};

void steady() {
  Speaker speaker;
  probe::Random random(3);
  const uint64_t cost = speaker.cost([&] {
    for (size_t i = 0; i < kMessages; ++i) {
      const size_t size = random.size_between(16, kLargest);
      void* bytes = malloc(size);
      memset(bytes, 1, size < 64 ? size : 64);
      speaker.use(bytes, size, static_cast<int>(i));
      free(bytes);
    }
  });
  if (cost > kFewRegistrations) verdict.broken("%lu registrations", cost);
}

void* map(void* at = nullptr) {
  void* memory = mmap(at, kBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | (at != nullptr ? MAP_FIXED : 0), -1, 0);
  if (memory == MAP_FAILED) probe::skip("no memory");
  memset(memory, 1, kBytes);
  return memory;
}

// Memory of the program's own is registered once, and anew when it has changed.
void foreign() {
  Speaker speaker;
  void* memory = map();
  const auto use_often = [&] {
    for (int i = 0; i < 1000; ++i) speaker.use(memory, kBytes);
  };
  uint64_t cost = speaker.cost(use_often);
  if (cost != 1) verdict.broken("%lu registrations of unchanged memory", cost);
  munmap(memory, kBytes);
  (void)map(memory);
  cost = speaker.cost(use_often);
  if (cost != 1) verdict.broken("%lu registrations after it was mapped anew", cost);
  madvise(memory, kBytes, MADV_DONTNEED);
  memset(memory, 1, kBytes);
  cost = speaker.cost(use_often);
  if (cost != 1) verdict.broken("%lu registrations after its pages were dropped", cost);
  munmap(memory, kBytes);
}

// Threads that register what is malloc'd and what is mapped, while others grow the heap, and a
// domain that comes and goes.
void threads() {
  Speaker speaker;
  const auto work = [&](uint64_t seed) {
    probe::Random random(seed);
    void* memory = map();
    for (size_t i = 0; i < kMessages / 10; ++i) {
      void* bytes = malloc(random.size_between(64, kLargest));
      speaker.use(bytes, 64, static_cast<int>(i));
      speaker.use(memory, kBytes);
      if (i % 100 == 0) madvise(memory, kBytes, MADV_DONTNEED);
      if (i % 200 == 0) Speaker("verbs").use(bytes, 64);
      free(bytes);
    }
    munmap(memory, kBytes);
  };
  std::vector<std::thread> all;
  for (uint64_t seed = 1; seed <= 4; ++seed) all.emplace_back(work, seed);
  for (std::thread& each : all) each.join();
}

// Two caches that know the same memory: of each its own registration counts.
void two_caches() {
  Speaker first;
  Speaker second("verbs");
  void* memory = map();
  first.use(memory, kBytes);
  second.use(memory, kBytes);
  madvise(memory, kBytes, MADV_DONTNEED);
  memset(memory, 1, kBytes);
  if (second.cost([&] { second.use(memory, kBytes); }) != 1) verdict.broken("the second is stale");
  if (first.cost([&] { first.use(memory, kBytes); }) != 1) verdict.broken("the first is stale");
  for (int i = 0; i < 3; ++i) {
    first.use(memory, kBytes);
    second.use(memory, kBytes);
  }
  const uint64_t cost = first.cost([&] {
    first.use(memory, kBytes);
    second.use(memory, kBytes);
  });
  if (cost != 0) verdict.broken("%lu registrations in the long run", cost);
  munmap(memory, kBytes);
}

// Nothing stays registered, also of what was acquired last; malloc goes on.
void domains_end() {
  std::vector<void*> kept;
  for (int round = 0; round < 20; ++round) {
    Speaker speaker(round % 2 == 0 ? "verbs;ofi_rxm" : "verbs");
    void* bytes = malloc(kLargest << (round % 5));
    kept.push_back(bytes);
    speaker.use(bytes, kLargest);
    speaker.close();
    if (fake_ofi_books().live != 0) verdict.broken("%lu are registered", fake_ofi_books().live);
  }
  for (void* bytes : kept) free(bytes);
}

// The domain is busy as long as a memory region of the program's is open, and is right after it.
void busy() {
  Speaker speaker;
  void* bytes = malloc(kBytes);
  fid_mr* mr = nullptr;
  if (fi_mr_reg(speaker.domain(), bytes, kBytes, FI_SEND, 0, 0, 0, &mr, nullptr) != 0) {
    verdict.broken("registering");
  }
  if (fi_close(&speaker.domain()->fid) != -FI_EBUSY) verdict.broken("the domain is not busy");
  if (fi_close(&mr->fid) != 0) verdict.broken("the memory region does not close");
  speaker.use(bytes, kBytes);
  free(bytes);
}

// Who brings a monitor comes second, as Open MPI does, and is told so.
void another_monitor() {
  static fi_ops_mem_monitor operations = {
      sizeof operations,
      [](fid_mem_monitor*) { return 0; },
      [](fid_mem_monitor*) {},
      [](fid_mem_monitor*, const void*, size_t) { return 0; },
      [](fid_mem_monitor*, const void*, size_t) {},
      [](fid_mem_monitor*, const void*, size_t) { return false; }};
  static fid_mem_monitor monitor = {{FI_CLASS_MEM_MONITOR, nullptr, nullptr}, &operations, nullptr};
  fid* cache = nullptr;
  if (fi_open(FI_VERSION(1, 13), "mr_cache", nullptr, 0, 0, &cache, nullptr) != 0) {
    return verdict.broken("no cache");
  }
  if (fi_import_fid(cache, &monitor.fid, 0) != -FI_EBUSY) verdict.broken("there was none before");
  fi_close(cache);
  steady();
}

// A provider that copies gains nothing, and is left alone.
void copying() {
  Speaker speaker("tcp");
  const uint64_t cost = speaker.cost([&] {
    for (int i = 0; i < 6; ++i) free(malloc(kLargest << i));
  });
  if (cost != 0) verdict.broken("%lu registrations that nobody asked for", cost);
  speaker.use(&verdict, sizeof verdict);
}

// A child has its heap, and may close what it inherited; that changes nothing for its parent.
void forks() {
  Speaker speaker;
  void* bytes = malloc(kBytes);
  speaker.use(bytes, kBytes);
  for (int i = 0; i < 20; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      free(malloc(kLargest));
      (void)fi_close(&speaker.domain()->fid);  // busy: the registrations are the parent's
      memset(bytes, 2, kBytes);
      free(bytes);
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (status != 0) verdict.broken("a child ended with %d", status);
  }
  if (speaker.cost([&] { speaker.use(bytes, kBytes); }) != 0) verdict.broken("registered again");
  free(bytes);
}

// fi_fabric of the oldest interface is libfabric's, which knows its structs.
void old_interface() {
  const auto old =
      reinterpret_cast<decltype(&fi_fabric)>(dlvsym(RTLD_DEFAULT, "fi_fabric", "FABRIC_1.0"));
  fi_fabric_attr attributes{};
  char name[] = "verbs";
  attributes.prov_name = name;
  fid_fabric* fabric = nullptr;
  if (old == nullptr || old(&attributes, &fabric, nullptr) != 0) return verdict.broken("not found");
  if (fake_ofi_books().old_interface != 1) verdict.broken("another interface was reached");
  fi_close(&fabric->fid);
}

struct Case {
  const char* name;
  void (*run)();
};
constexpr Case kCases[] = {{"steady", steady},
                           {"foreign", foreign},
                           {"threads", threads},
                           {"two_caches", two_caches},
                           {"domains_end", domains_end},
                           {"busy", busy},
                           {"another_monitor", another_monitor},
                           {"copying", copying},
                           {"forks", forks},
                           {"old_interface", old_interface}};

}  // namespace

int main(int argc, char** argv) {
  for (const Case& each : kCases) {
    if (argc < 2 || strcmp(argv[1], each.name) != 0) continue;
    each.run();
    return verdict.status();
  }
  printf("no such case\n");
  return 2;
}
