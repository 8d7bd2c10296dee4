// Several threads at one cache, one step at a time: who waits for whom, and who does not.
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/foreign_fixture.h"

namespace rdmalloc {
namespace {

using fake::Pages;
using fake::Registration;
using Fixture = fake::ForeignFixture;
using Clock = std::chrono::steady_clock;

constexpr size_t kPage = Pages::kSize;

// A get on a thread of its own.
class Getter {
 public:
  Getter(Fixture& f, size_t page, size_t pages)
      : thread_([this, &f, page, pages] {
          status_ = f.get_pages(page, pages, &mr_);
          done_ = true;
        }) {}
  Getter(const Getter&) = delete;
  Getter& operator=(const Getter&) = delete;
  ~Getter() {
    if (thread_.joinable()) thread_.join();
  }

  rdm_mr result() {
    thread_.join();
    REQUIRE(status_ == RDM_OK);
    return mr_;
  }
  int status() {
    thread_.join();
    return status_;
  }
  // Long enough for a get that does not wait to finish.
  bool waits() const {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return !done_;
  }

 private:
  rdm_mr mr_{};
  int status_ = -1;
  std::atomic<bool> done_{false};
  std::thread thread_;
};

// The registrar deregisters what nobody uses any more, and is held in the device meanwhile.
class HeldRegistrar {
 public:
  explicit HeldRegistrar(Fixture& f) : device_(f.device) {
    device_.deregistering.shut();
    thread_ = std::thread([&f] { f.cache->idle().deregister(); });
    device_.deregistering.wait_until_held(1);
  }
  HeldRegistrar(const HeldRegistrar&) = delete;
  HeldRegistrar& operator=(const HeldRegistrar&) = delete;
  ~HeldRegistrar() {
    if (thread_.joinable()) go_on();
  }

  void go_on() {
    device_.deregistering.open();
    thread_.join();
  }

 private:
  decltype(Fixture::device)& device_;
  std::thread thread_;
};

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

}  // namespace

TEST_CASE("threads that want the same memory at the same time register it once") {
  Fixture f;
  f.device.registering.shut();
  Getter first(f, 0, 8);
  f.device.registering.wait_until_held(1);
  Getter inside(f, 2, 2);
  Getter same(f, 0, 8);
  Getter overlapping(f, 6, 4);
  CHECK(inside.waits());
  CHECK(overlapping.waits());
  CHECK(f.device.calls() == 1);
  // A get of adjacent memory does not wait.
  f.device.registering.open();
  const rdm_mr mr = first.result();
  CHECK(Registration::of(inside.result()).covers(Pages::number(2), Pages::number(4)));
  (void)same.result();
  (void)overlapping.result();
  CHECK(f.device.calls() == 2);
  CHECK(f.device.count() <= 2);
  CHECK(f.is_registered(mr));
}

TEST_CASE("a get of other memory does not wait for a registration in progress") {
  Fixture f;
  f.device.registering.shut();
  Getter slow(f, 0, 4);
  f.device.registering.wait_until_held(1);
  Getter beside(f, 4, 4);
  f.device.registering.wait_until_held(2);
  f.device.registering.open();
  (void)slow.result();
  (void)beside.result();
  CHECK(f.device.count() == 2);
}

TEST_CASE("a change while another thread registers the memory dooms what that thread gets") {
  Fixture f;
  f.device.registered.shut();
  Getter slow(f, 0, 4);
  f.device.registered.wait_until_held(1);
  Getter waiting(f, 1, 1);
  CHECK(waiting.waits());
  f.pages.change(1, 1);
  f.device.registered.open();
  const rdm_mr stale = slow.result();
  const rdm_mr fresh = waiting.result();
  CHECK(Registration::of(stale).seen[1] == 0);
  CHECK(Registration::of(fresh).seen[1] == 1);
  CHECK(f.put(stale) == RDM_OK);
  CHECK(!f.is_registered(stale));
}

TEST_CASE("a thread that waited for a failed registration tries itself") {
  Fixture f;
  f.device.registering.shut();
  Getter failing(f, 0, 4);
  f.device.registering.wait_until_held(1);
  Getter waiting(f, 0, 4);
  CHECK(waiting.waits());
  f.device.before = nullptr;
  f.device.fail_in = 1;
  f.device.registering.open();
  CHECK(failing.status() == RDM_SYSTEM);
  (void)waiting.result();
}

TEST_CASE("with foreign_wait_ms a get waits for a put of any kind, and not longer than that") {
  Fixture f;
  f.settings.limits.count = 1;
  f.settings.wait_ms = 10'000;
  SECTION("of what stays registered") {}
  SECTION("of what does not") { f.settings.limits.leave_pinned = false; }
  f.open();
  rdm_mr held{};
  REQUIRE(f.get_pages(0, 1, &held) == RDM_OK);
  const auto start = Clock::now();
  Getter waiting(f, 4, 1);
  CHECK(waiting.waits());
  CHECK(f.put(held) == RDM_OK);
  const rdm_mr mr = waiting.result();
  CHECK(ms_since(start) < 5'000);
  CHECK(f.put(mr) == RDM_OK);
  CHECK(f.device.violations().empty());
}

TEST_CASE("a thread that waits for room in vain is told after foreign_wait_ms") {
  Fixture f;
  f.settings.limits.count = 1;
  f.settings.wait_ms = 50;
  f.open();
  rdm_mr held{};
  REQUIRE(f.get_pages(0, 1, &held) == RDM_OK);
  const auto start = Clock::now();
  rdm_mr mr{};
  CHECK(f.get_pages(4, 1, &mr) == RDM_OUT_OF_BUDGET);
  CHECK(ms_since(start) >= 50);
  CHECK(ms_since(start) < 5'000);
}

TEST_CASE("no thread waits for a union when its own range has room") {
  Fixture f;
  f.settings.wait_ms = 3'000;
  f.open();
  rdm_mr held{};
  rdm_mr mr{};
  REQUIRE(f.get_pages(0, 4, &held) == RDM_OK);
  SECTION("for the device's budget") { f.device.room_bytes = 9 * kPage; }
  SECTION("for the device's count") {
    f.device.room_bytes = 8 * kPage;
    REQUIRE(f.put(held) == RDM_OK);
    REQUIRE(f.get_pages(0, 4, &held) == RDM_OK);
  }
  const auto start = Clock::now();
  REQUIRE(f.get_pages(2, 4, &mr) == RDM_OK);
  CHECK(ms_since(start) < 1'000);
}

TEST_CASE("a union that the device has no room for ends no other idle registration") {
  Fixture f;
  f.device.room_bytes = 10 * kPage;
  rdm_mr held{};
  rdm_mr mr{};
  REQUIRE(f.get_pages(0, 4, &held) == RDM_OK);
  REQUIRE(f.get_pages(20, 2, &mr) == RDM_OK);
  REQUIRE(f.put(mr) == RDM_OK);
  rdm_mr alone{};
  REQUIRE(f.get_pages(2, 4, &alone) == RDM_OK);
  CHECK(f.is_registered(mr));
}

TEST_CASE("a thread waits for room that another is just making") {
  Fixture f;
  f.settings.limits.count = 1;
  f.device.runs_in_malloc = false;
  f.open();
  rdm_mr mr{};
  REQUIRE(f.get_pages(0, 1, &mr) == RDM_OK);
  REQUIRE(f.put(mr) == RDM_OK);
  f.pages.change(0, 1);
  HeldRegistrar registrar(f);
  Getter waiting(f, 4, 1);
  CHECK(waiting.waits());
  registrar.go_on();
  // Nothing is in use, and nobody asked to wait.
  CHECK(waiting.status() == RDM_OK);
  CHECK(f.device.violations().empty());
}

TEST_CASE("what a device registers once only is waited for while it is being deregistered") {
  Fixture f;
  f.device.refuses_overlaps = true;
  f.device.runs_in_malloc = false;
  rdm_mr mr{};
  REQUIRE(f.get_pages(0, 4, &mr) == RDM_OK);
  REQUIRE(f.put(mr) == RDM_OK);
  f.pages.change(0, 1);
  HeldRegistrar registrar(f);
  Getter waiting(f, 0, 4);
  CHECK(waiting.waits());
  registrar.go_on();
  CHECK(waiting.status() == RDM_OK);
}

TEST_CASE("a put on another thread counts, and the last one ends what is doomed") {
  Fixture f;
  rdm_mr first{};
  rdm_mr second{};
  REQUIRE(f.get_pages(0, 4, &first) == RDM_OK);
  REQUIRE(f.get_pages(0, 4, &second) == RDM_OK);
  f.pages.change(0, 1);
  int status = -1;
  std::thread([&] { status = f.put(first); }).join();
  CHECK(status == RDM_OK);
  CHECK(f.is_registered(second));
  std::thread([&] { status = f.put(second); }).join();
  CHECK(status == RDM_OK);
  CHECK(!f.is_registered(second));
  std::thread([&] { status = f.put(second); }).join();
  CHECK(status == RDM_INVALID);
}

TEST_CASE("a cache does not close under a thread that registers") {
  Fixture f;
  f.device.registering.shut();
  Getter slow(f, 0, 4);
  f.device.registering.wait_until_held(1);
  CHECK(f.close() == RDM_BUSY);
  CHECK(f.users == 1);
  f.device.registering.open();
  const rdm_mr mr = slow.result();
  CHECK(f.close() == RDM_BUSY);
  CHECK(f.put(mr) == RDM_OK);
  CHECK(f.close() == RDM_OK);
}

TEST_CASE("closing waits for threads that are still deregistering") {
  Fixture f;
  f.device.runs_in_malloc = false;
  rdm_mr mr{};
  REQUIRE(f.get_pages(0, 4, &mr) == RDM_OK);
  REQUIRE(f.put(mr) == RDM_OK);
  f.pages.change(0, 1);
  HeldRegistrar registrar(f);
  std::atomic<bool> closed{false};
  int status = -1;
  std::thread closer([&] {
    status = f.close();
    closed = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(!closed);
  registrar.go_on();
  closer.join();
  CHECK(status == RDM_OK);
  CHECK(f.device.count() == 0);
}

TEST_CASE("a thread that waits for room is told when the cache is closed") {
  Fixture f;
  f.settings.limits.count = 1;
  f.settings.wait_ms = 10'000;
  f.open();
  rdm_mr mr{};
  REQUIRE(f.get_pages(0, 1, &mr) == RDM_OK);
  Getter waiting(f, 4, 1);
  CHECK(waiting.waits());
  // Put and close at once: in either order, nobody hangs.
  CHECK(f.put(mr) == RDM_OK);
  const int closed = f.close();
  const int status = waiting.status();
  CHECK(((closed == RDM_OK && status == RDM_INVALID) || (closed == RDM_OK && status == RDM_OK) ||
         (closed == RDM_BUSY && status == RDM_OK)));
}

}  // namespace rdmalloc
