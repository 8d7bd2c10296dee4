// fork and the verbs backend: libibverbs hides registered memory from children, but the heap must
// stay.
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

#include <chrono>
#include <thread>

#include "allocator/os/memory.h"
#include "regcache/domain/fork_gate.h"
#include "tests/support/catch.h"
#include "tests/support/child.h"
#include "tests/support/fake_verbs.h"

namespace rdmalloc {
namespace {

using test::FakeVerbs;

constexpr size_t kBytes = size_t{1} << 20;

struct Heap {
  Heap()
      : base(static_cast<char*>(
            mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    base[0] = 'x';
  }
  ~Heap() { munmap(base, kBytes); }

  bool reaches_child() const {
    return test::run_child([this] {
             signal(SIGSEGV, SIG_DFL);  // the control's death is not a crash to report
             return *static_cast<volatile char*>(base) == 'x';
           })
        .exited_well();
  }

  char* const base;
};

// An emulator (qemu-user) may accept the call without performing it. If so, says so.
bool can_hide_from_children() {
  const Heap memory;
  const bool hides = madvise(memory.base, kBytes, MADV_DONTFORK) == 0 && !memory.reaches_child();
  if (!hides) printf("SKIPPED: this kernel does not hide memory from children (MADV_DONTFORK)\n");
  return hides;
}

int add(VerbsBackend* backend, const Heap& heap, rdm_backend_key* key) {
  rdm_backend_request request{};
  request.base = heap.base;
  request.length = kBytes;
  request.page_size = os::page_size();
  request.access = RDM_LOCAL_WRITE;
  request.pinned = 1;
  char why[320];
  return VerbsBackend::kOperations.register_memory(backend, &request, key, why, sizeof why);
}

VerbsBackend* open(FakeVerbs& fake, const VerbsLibrary& library = test::fake_verbs_library()) {
  VerbsBackend* backend = nullptr;
  char why[320];
  REQUIRE(VerbsBackend::create(library, &fake.pd, IBV_ACCESS_LOCAL_WRITE, &backend, why,
                               sizeof why) == RDM_OK);
  return backend;
}

// Before rdma-core 35: it may hide memory though the kernel copies what is pinned.
VerbsLibrary old_library() {
  VerbsLibrary library = test::fake_verbs_library();
  library.is_fork_initialized = nullptr;
  return library;
}

// Called during a fork, behind the backend's own handler, because it was registered earlier.
void (*during_fork)() = nullptr;

}  // namespace

TEST_CASE(
    "a registered heap reaches children though libibverbs hides it; the bare call's does not") {
  const bool ours = GENERATE(true, false);
  if (!ours && !can_hide_from_children()) return;
  FakeVerbs& fake = test::reset_fake_verbs();
  fake.hides_from_children = true;
  const Heap heap;
  rdm_backend_key key{};
  VerbsBackend* backend = open(fake, old_library());
  if (ours) {
    REQUIRE(add(backend, heap, &key) == RDM_OK);
  } else {
    REQUIRE(test::fake_verbs_library().reg_mr(&fake.pd, heap.base, kBytes, 1) != nullptr);
  }
  CHECK(heap.reaches_child() == ours);
  VerbsBackend::destroy(backend);
}

TEST_CASE("foreign memory that the program keeps from its children stays hidden from them") {
  if (!can_hide_from_children()) return;
  FakeVerbs& fake = test::reset_fake_verbs();
  const Heap memory;
  REQUIRE(madvise(memory.base, kBytes, MADV_DONTFORK) == 0);
  rdm_backend_request request{};
  request.base = memory.base;
  request.length = kBytes;
  request.access = RDM_LOCAL_WRITE;
  request.foreign = 1;
  char why[320];
  rdm_backend_key key{};
  VerbsBackend* backend = open(fake);
  REQUIRE(VerbsBackend::kOperations.register_memory(backend, &request, &key, why, sizeof why) ==
          RDM_OK);
  CHECK_FALSE(memory.reaches_child());
  VerbsBackend::destroy(backend);
}

TEST_CASE("a fork waits for the registration under way, and so the heap reaches the child") {
  FakeVerbs& fake = test::reset_fake_verbs();
  fake.hides_from_children = true;
  std::atomic<bool> hidden{false};
  fake.refuse = [&hidden](const FakeVerbs::Call&) {
    hidden = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    return 0;
  };
  const Heap heap;
  VerbsBackend* backend = open(fake, old_library());
  std::thread registering([&] {
    rdm_backend_key key{};
    (void)add(backend, heap, &key);
  });
  while (!hidden) std::this_thread::yield();
  CHECK(heap.reaches_child());
  registering.join();
  VerbsBackend::destroy(backend);
}

TEST_CASE("a fork waits for no registration that hides nothing, unless forks deregister") {
  const bool deregisters = GENERATE(false, true);
  FakeVerbs& fake = test::reset_fake_verbs();
  std::atomic<bool> is_registering{false};
  std::atomic<bool> has_forked{false};
  std::atomic<bool> forked_meanwhile{false};
  fake.refuse = [&](const FakeVerbs::Call&) {
    is_registering = true;
    for (int i = 0; i < (deregisters ? 50 : 2000) && !has_forked; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    forked_meanwhile = has_forked.load();
    return 0;
  };
  const Heap heap;
  VerbsBackend* backend = open(fake);
  if (deregisters) fork_gate.set_release([](void*) {}, nullptr);
  std::thread registering([&] {
    rdm_backend_key key{};
    (void)add(backend, heap, &key);
  });
  while (!is_registering) std::this_thread::yield();
  CHECK(heap.reaches_child());
  has_forked = true;
  registering.join();
  CHECK(forked_meanwhile != deregisters);
  fork_gate.set_release(nullptr, nullptr);
  VerbsBackend::destroy(backend);
}

TEST_CASE("a registration that would start during a fork is postponed") {
  static constinit FakeVerbs* fake = nullptr;
  static constinit VerbsBackend* backend = nullptr;
  static constinit const Heap* memory = nullptr;
  static constinit int status = RDM_OK;
  const Heap heap;
  memory = &heap;
  fake = &test::reset_fake_verbs();
  backend = open(*fake, old_library());
  during_fork = [] {
    rdm_backend_key key{};
    status = add(backend, *memory, &key);
  };
  CHECK(heap.reaches_child());
  during_fork = nullptr;
  CHECK(status == RDM_BACKEND_LATER);
  CHECK(fake->calls.empty());
  rdm_backend_key key{};
  CHECK(add(backend, heap, &key) == RDM_OK);
  VerbsBackend::destroy(backend);
}

TEST_CASE("children may register again") {
  FakeVerbs& fake = test::reset_fake_verbs();
  const Heap heap;
  VerbsBackend* backend = open(fake);
  const test::ChildEnd end = test::run_child([&] {
    rdm_backend_key key{};
    return add(backend, heap, &key);
  });
  CHECK(end.status() == 0);
  VerbsBackend::destroy(backend);
}

TEST_CASE("where fork safety was asked for and the kernel does not copy, a domain is refused") {
  FakeVerbs& fake = test::reset_fake_verbs();
  VerbsBackend* backend = nullptr;
  char why[320];
  for (const ForkStatus status :
       {ForkStatus::kEnabled, ForkStatus::kDisabled, ForkStatus::kUnneeded}) {
    fake.fork_status = status;
    const int got = VerbsBackend::create(test::fake_verbs_library(), &fake.pd,
                                         IBV_ACCESS_LOCAL_WRITE, &backend, why, sizeof why);
    CHECK(got == (status == ForkStatus::kEnabled ? RDM_UNSUPPORTED : RDM_OK));
    if (got == RDM_OK) VerbsBackend::destroy(backend);
  }
  CHECK(strstr(why, "RDMAV_FORK_SAFE") != nullptr);
}

TEST_CASE("before rdma-core 35 a page tells whether fork safety was asked for") {
  FakeVerbs& fake = test::reset_fake_verbs();
  VerbsLibrary library = test::fake_verbs_library();
  library.is_fork_initialized = nullptr;
  library.kernel_copies_at_fork = GENERATE(false, true);
  fake.hides_from_children = GENERATE(false, true);
  if (fake.hides_from_children && !can_hide_from_children()) return;
  const unsigned access = GENERATE(as<unsigned>{}, IBV_ACCESS_LOCAL_WRITE,
                                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND);
  const bool pages_on_demand = (access & IBV_ACCESS_ON_DEMAND) != 0;
  fake.odp.general_caps = IBV_ODP_SUPPORT;
  const bool is_refused =
      fake.hides_from_children && !library.kernel_copies_at_fork && !pages_on_demand;
  VerbsBackend* backend = nullptr;
  char why[320] = {};
  const int got = VerbsBackend::create(library, &fake.pd, access, &backend, why, sizeof why);
  CHECK(got == (is_refused ? RDM_UNSUPPORTED : RDM_OK));
  CHECK((strstr(why, "ibv_fork_init()") != nullptr) == is_refused);
  CHECK(fake.live.empty());
  CHECK(fake.calls.size() == (library.kernel_copies_at_fork || pages_on_demand ? 0 : 1));
  if (got == RDM_OK) VerbsBackend::destroy(backend);
}

namespace {
const int registered = pthread_atfork(
    [] {
      if (during_fork != nullptr) during_fork();
    },
    nullptr, nullptr);
}  // namespace

TEST_CASE("what a driver registers by name is not postponed by a fork that waits for the driver") {
  fork_gate.register_handlers();
  REQUIRE(fork_gate.enter());
  std::thread forks([] { (void)test::run_child([] {}); });
  // Others are held off as soon as it waits.
  std::thread others([] {
    while (fork_gate.enter()) {
      fork_gate.leave();
      std::this_thread::yield();
    }
  });
  others.join();
  const bool may_register = fork_gate.enter();
  CHECK(may_register);
  if (may_register) fork_gate.leave();
  fork_gate.leave();
  forks.join();
}

}  // namespace rdmalloc
