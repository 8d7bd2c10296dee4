// Everything at once, for some seconds: threads that malloc, free and realloc, make holes and guard
// pages, and register memory with ibv_reg_mr, libfabric and rdm_get, the latter two over drivers
// that call ibv_reg_mr by name; a constructor under dlopen that registers; forks; domains,
// protection domains and fabrics that open and close; temporary limits. No thread may hang, and
// every byte and every key is checked against a naive record (buffers.h).
//
//   together SECONDS SEED PLUGIN [behind|hang|limited]
//
// behind: holes are made by calls that the library cannot see. hang: a thread holds a driver's lock
// forever. limited: the memlock limit counts, and can be raised. PLUGIN: a shared object whose
// constructor calls constructor_of_plugin(). Exits with 1 if the device has other pages than the
// program, with 2 on any other error, by SIGABRT if a thread hangs.
#include <dlfcn.h>
#include <sys/resource.h>

#include <functional>
#include <memory>
#include <thread>

#include "tests/integration/regcache/preload/verbs/buffers.h"

namespace together {
namespace {

constexpr uint64_t kWorkers = 3;
constexpr int kLeast = 3;  // rounds of everything, however slow the machine
constexpr uint64_t kLeastSteps = 300;
constexpr unsigned kPatienceS = 60;      // on a busy machine
constexpr unsigned kPatienceToSeeS = 5;  // for a thread known to hang
constexpr size_t kLittleRoom = size_t{4} << 20;
constexpr rlim_t kLittleLocked = rlim_t{1} << 20;

struct Shared {
  uint64_t seed = 1;
  uint64_t end_ns = 0;
  const char* plugin = nullptr;
  bool behind = false;
  bool hang = false;
  ibv_context* context = nullptr;
  std::unique_ptr<Driver> driver;  // libfabric's
  std::unique_ptr<Verbs> verbs;
  std::unique_ptr<Nested> nested;
  std::unique_ptr<Fabric> fabric;
  std::atomic<uint64_t> at_work{0};
  std::function<void()> constructor;
};
Shared shared;

using Doing = probe::Watchdog::Doing;

using probe::now_ns;

void nap() { usleep(20'000); }

// True that many times, and then until time is up or something is broken.
bool goes_on(uint64_t done, uint64_t least) {
  return probe::verdict.status() == 0 && (done < least || now_ns() < shared.end_ns);
}

void work(uint64_t number, Doing& doing) {
  Buffers buffers(shared.seed * 1000 + number, shared.behind, doing);
  const std::vector<Way*> ways{shared.verbs.get(), shared.nested.get(), shared.fabric.get()};
  for (uint64_t i = 0; goes_on(i, kLeastSteps); ++i) {
    if (shared.hang && number == 0 && i == kLeastSteps - 1) {
      const std::lock_guard hold(shared.driver->lock);
      doing.say("waiting for nobody, with the driver's lock");
      for (;;) pause();
    }
    buffers.step(ways, shared.nested.get());
  }
}

// The linker holds its lock while the constructor runs. A constructor does not register with a
// libfabric that other threads also register with: see regcache/README.md.
void load(Doing& doing) {
  Buffers buffers(shared.seed * 1000 + 100, shared.behind, doing);
  shared.constructor = [&] {
    for (int i = 0; i < 4; ++i) {
      buffers.use(shared.verbs.get());
      buffers.use(shared.nested.get());
    }
  };
  for (uint64_t i = 0; goes_on(i, kLeast); ++i) {
    doing.say("dlopen");
    void* const library = dlopen(shared.plugin, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return probe::verdict.broken("loading: %s", dlerror());
    doing.say("dlclose");
    dlclose(library);
    ++counts.loads;
    usleep(2000);
  }
}

void open_and_close(Doing& doing) {
  Buffers buffers(shared.seed * 1000 + 200, shared.behind, doing);
  const auto use = [&](auto make) {
    doing.say("opening");
    const auto way = make();
    for (int i = 0; i < 8; ++i) buffers.step({way.get()}, nullptr);
    doing.say("closing");
  };
  for (uint64_t i = 0; goes_on(i, kLeast); ++i) {
    use([] { return std::make_unique<Verbs>(shared.context); });
    use([] { return std::make_unique<Nested>(shared.context); });
    use([] { return std::make_unique<Fabric>(); });
    ++counts.opens;
  }
}

// A child has its heap, and no registration.
bool live_as_child(const Buffers& buffers) {
  bool is_good = buffers.are_as_known();
  for (size_t size = 64; size < size_t{4} << 20; size *= 3) {
    auto* const got = static_cast<char*>(malloc(size));
    memset(got, 1, size);
    is_good = is_good && shared.nested->look_up(got, size) == nullptr;
    free(got);
  }
  return is_good;
}

void fork_often(Doing& doing) {
  Buffers buffers(shared.seed * 1000 + 300, shared.behind, doing);
  const std::vector<Way*> ways{shared.verbs.get(), shared.nested.get(), shared.fabric.get()};
  for (uint64_t i = 0; goes_on(i, kLeast); ++i) {
    for (int j = 0; j < 5; ++j) buffers.step(ways, shared.nested.get());
    doing.say("fork");
    const pid_t child = probe::start_child([&] { return live_as_child(buffers); });
    for (int j = 0; j < 5; ++j) buffers.step(ways, shared.nested.get());
    doing.say("waiting for a child");
    probe::verdict.expect_good_end("a child", probe::end_of(child));
    ++counts.forks;
    nap();
  }
}

// Until all others are done; leaves the limits high.
void limit(Doing& doing) {
  rlimit locked{};
  getrlimit(RLIMIT_MEMLOCK, &locked);
  while (shared.at_work != 0) {
    doing.say("high limits");
    nap();
    nap();
    ++limit_epoch;
    device().set_most(kLittleRoom);
    const rlimit little{std::min(kLittleLocked, locked.rlim_max), locked.rlim_max};
    setrlimit(RLIMIT_MEMLOCK, &little);
    doing.say("low limits");
    nap();
    setrlimit(RLIMIT_MEMLOCK, &locked);
    device().set_most(SIZE_MAX);
    ++limit_epoch;
  }
}

void run_all() {
  static probe::Watchdog watchdog(shared.hang ? kPatienceToSeeS : kPatienceS, shared.seed);
  std::vector<std::function<void()>> all;
  const auto add = [&](const char* who, const std::function<void(Doing&)>& what) {
    Doing& doing = watchdog.add(who);
    ++shared.at_work;
    all.emplace_back([&doing, what] {
      what(doing);
      doing.end();
      --shared.at_work;
    });
  };
  for (uint64_t i = 0; i < kWorkers; ++i) {
    add(i == 0 ? "the first worker" : "a worker", [i](Doing& doing) { work(i, doing); });
  }
  add("who loads", load);
  add("who opens and closes", open_and_close);
  add("who forks", fork_often);
  Doing& limiter = watchdog.add("who limits");
  std::vector<std::thread> threads;
  threads.reserve(all.size() + 1);
  for (const auto& each : all) threads.emplace_back(each);
  threads.emplace_back([&] {
    limit(limiter);
    limiter.end();
  });
  watchdog.start();
  for (std::thread& thread : threads) thread.join();
}

// What a library's first call needs of the dynamic linker is resolved before there are threads.
void use_each() {
  probe::Watchdog::Doing doing;
  Buffers buffers(shared.seed, false, doing);
  buffers.use(shared.verbs.get());
  buffers.use(shared.nested.get());
  buffers.use(shared.fabric.get());
}

// Nothing stays registered when nobody uses it, and the books match the kernel's.
void close_all() {
  shared.fabric.reset();
  shared.driver.reset();
  shared.nested.reset();
  shared.verbs.reset();
  if (device().registrations() != 0) {
    probe::verdict.broken("%zu registrations stay", device().registrations());
  }
  const uint64_t pinned = probe::stats().pinned_bytes;
  if (pinned != probe::locked_bytes()) {
    probe::verdict.broken("%lu bytes are locked by our books, %lu by the kernel's", pinned,
                          probe::locked_bytes());
  }
}

void judge() {
  printf(
      "seed %lu: %lu looks, %lu refusals, %lu holes, %lu guard pages, %lu forks, %lu loads, "
      "%lu rounds of opening\n",
      shared.seed, counts.looks.load(), counts.refusals.load(), counts.holes.load(),
      counts.guards.load(), counts.forks.load(), counts.loads.load(), counts.opens.load());
  if (probe::verdict.status() != 0) return;
  if (counts.holes == 0 || counts.guards == 0) probe::verdict.broken("nothing was tried");
}

}  // namespace
}  // namespace together

// Called by the plug-in's constructor.
extern "C" __attribute__((visibility("default"))) void constructor_of_plugin() {
  together::shared.constructor();
}

int main(int argc, char** argv) {
  using namespace together;  // NOLINT(google-build-using-namespace)
  if (argc < 4) return 2;
  if (!probe::library().loaded()) probe::skip("needs the library");
  setvbuf(stdout, nullptr, _IOLBF, 0);
  static constexpr FakeDevice kDevice = {
      [](const void* address, size_t length) { return device().add(address, length); },
      [](void* pages) { device().remove(pages); }};
  fake_set_device(&kDevice);
  const rlimit unlimited{RLIM_INFINITY, RLIM_INFINITY};
  const bool is_raised = setrlimit(RLIMIT_MEMLOCK, &unlimited) == 0;
  if (!is_raised && argc > 4 && strcmp(argv[4], "limited") == 0) {
    probe::skip("cannot raise the memlock limit");
  }
  shared.seed = strtoul(argv[2], nullptr, 10);
  shared.end_ns = now_ns() + strtoul(argv[1], nullptr, 10) * 1'000'000'000;
  shared.plugin = argv[3];
  shared.behind = argc > 4 && strcmp(argv[4], "behind") == 0;
  shared.hang = argc > 4 && strcmp(argv[4], "hang") == 0;
  printf("seed %lu\n", shared.seed);
  shared.context = fake_open_device();
  shared.driver = std::make_unique<Driver>(shared.context);
  Fabric::set_up(shared.driver.get());
  shared.verbs = std::make_unique<Verbs>(shared.context);
  shared.nested = std::make_unique<Nested>(shared.context);
  shared.fabric = std::make_unique<Fabric>();
  use_each();
  run_all();
  close_all();
  judge();
  if (probe::verdict.status() != 0 && counts.stale == 0) return 2;
  return probe::verdict.status();
}
