// What a get finds and creates, and what a put ends: one cache over an obedient device.
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/foreign_fixture.h"

namespace rdmalloc {
namespace {

using fake::Pages;
using fake::Registration;
using Fixture = fake::ForeignFixture;

constexpr size_t kPage = Pages::kSize;

// Nothing is left in the cache, on the device, or counted in for changes.
void check_closes_clean(Fixture& f) {
  CHECK(f.close() == RDM_OK);
  CHECK(f.device.count() == 0);
  CHECK(f.cache->count() == 0);
  CHECK(f.cache->bytes() == 0);
  CHECK(!changes.counts().may_have(Pages::number(0), Pages::number(Pages::kCount)));
  CHECK(f.device.violations() == std::vector<std::string>{});
  CHECK(f.cache->validate());
}

rdm_mr got(Fixture& f, size_t page, size_t pages) {
  rdm_mr mr{};
  REQUIRE(f.get_pages(page, pages, &mr) == RDM_OK);
  REQUIRE(f.is_registered(mr));
  REQUIRE(Registration::of(mr).covers(Pages::number(page), Pages::number(page + pages)));
  return mr;
}

// Gets, then puts.
rdm_mr used(Fixture& f, size_t page, size_t pages) {
  const rdm_mr mr = got(f, page, pages);
  REQUIRE(f.put(mr) == RDM_OK);
  return mr;
}

bool is(const Registration& one, size_t page, size_t pages) {
  return one.base == Pages::number(page) && one.length == pages * kPage;
}

}  // namespace

TEST_CASE("any part of what is registered is found, byte by byte at its ends") {
  Fixture f;
  const rdm_mr whole = used(f, 8, 4);
  rdm_mr mr{};
  for (const size_t page : {8, 9, 11}) {
    for (const size_t offset : {size_t{0}, size_t{1}, kPage - 1}) {
      CHECK(f.get(Pages::at(page, offset), 1, &mr) == RDM_OK);
      CHECK(mr.lkey == whole.lkey);
      CHECK(f.put(mr) == RDM_OK);
    }
  }
  CHECK(f.get(Pages::at(8, 5), 4 * kPage - 5, &mr) == RDM_OK);
  CHECK(f.put(mr) == RDM_OK);
  CHECK(f.device.calls() == 1);
  CHECK(f.cache->counters().misses == 1);
  // One byte before, one after.
  CHECK(f.get(Pages::at(7, kPage - 1), 1, &mr) == RDM_OK);
  CHECK(f.put(mr) == RDM_OK);
  CHECK(f.get(Pages::at(12), 1, &mr) == RDM_OK);
  CHECK(f.put(mr) == RDM_OK);
  CHECK(f.device.calls() == 3);
  check_closes_clean(f);
}

TEST_CASE("a memory region covers whole units of the device's alignment") {
  Fixture f;
  f.device.unit = 4 * kPage;
  rdm_mr mr{};
  REQUIRE(f.get(Pages::at(7, 100), kPage, &mr) == RDM_OK);  // across a unit boundary
  CHECK(is(Registration::of(mr), 4, 8));
  CHECK(mr.base == Pages::at(4));
  CHECK(mr.length == 8 * kPage);
  CHECK(f.put(mr) == RDM_OK);
  check_closes_clean(f);
}

TEST_CASE("no bytes, and ranges that wrap around, are refused with a sentence") {
  Fixture f;
  rdm_mr mr{};
  const auto refused = [&](uintptr_t at, size_t length) {
    new_last_error()[0] = '\0';
    return f.get(reinterpret_cast<void*>(at), length, &mr) == RDM_INVALID &&
           last_error()[0] != '\0';
  };
  CHECK(refused(Pages::number(0), 0));
  CHECK(refused(Pages::number(0), SIZE_MAX));
  CHECK(refused(Pages::number(0), SIZE_MAX - Pages::number(0) + 1));
  CHECK(refused(UINTPTR_MAX, 1));
  CHECK(refused(UINTPTR_MAX - 10, 4));
  CHECK(refused(UINTPTR_MAX - 10, 4000));
  CHECK(refused(UINTPTR_MAX - kPage + 1, kPage));
  CHECK(f.device.calls() == 0);
  used(f, 0, 1);
  CHECK(refused(Pages::number(0), 0));
  CHECK(refused(Pages::number(0), SIZE_MAX));
  check_closes_clean(f);
}

TEST_CASE("ranges that overlap become one; ranges that touch do not") {
  Fixture f;
  used(f, 0, 4);
  used(f, 4, 4);
  CHECK(f.device.count() == 2);
  const rdm_mr joined = used(f, 3, 2);
  CHECK(is(Registration::of(joined), 0, 8));
  CHECK(f.device.count() == 1);
  used(f, 10, 2);
  CHECK(f.device.count() == 2);
  CHECK(is(Registration::of(used(f, 6, 5)), 0, 12));
  CHECK(f.device.count() == 1);
  check_closes_clean(f);
}

TEST_CASE("a range in use that became part of another one stays registered until it is put") {
  Fixture f;
  const rdm_mr part = got(f, 2, 2);
  const rdm_mr joined = got(f, 0, 8);
  CHECK(f.device.count() == 2);
  CHECK(used(f, 2, 2).lkey == joined.lkey);
  CHECK(f.put(part) == RDM_OK);
  CHECK(!f.is_registered(part));
  CHECK(f.is_registered(joined));
  CHECK(f.put(joined) == RDM_OK);
  check_closes_clean(f);
}

TEST_CASE("when ranges cannot become one, what is asked for is registered alone") {
  Fixture f;
  SECTION("because one would be longer than the device registers") { f.device.longest = 5 * kPage; }
  SECTION("because one would be more than foreign_bytes") {
    f.settings.limits.bytes = 9 * kPage;
    f.open();
  }
  SECTION("because some of what it would cover is gone") {
    f.device.before = [&](uintptr_t base, size_t) {
      if (base == Pages::number(0) && f.device.calls() > 1) f.device.fail_in = 1;
    };
  }
  used(f, 0, 4);
  const rdm_mr alone = got(f, 2, 4);
  CHECK(is(Registration::of(alone), 2, 4));
  CHECK(f.put(alone) == RDM_OK);
  check_closes_clean(f);
}

TEST_CASE("a failure of the union only is not the caller's") {
  Fixture f;
  used(f, 0, 4);
  f.device.fail_in = 1;
  CHECK(is(Registration::of(used(f, 2, 4)), 2, 4));
  f.device.before = [&](uintptr_t, size_t) { f.device.fail_in = 1; };
  rdm_mr mr{};
  CHECK(f.get_pages(2, 5, &mr) == RDM_SYSTEM);
  CHECK(std::string(last_error()) == "this call was to fail");
  f.device.before = nullptr;
  check_closes_clean(f);
}

TEST_CASE("a device that registers memory once only gives up what lies in the way") {
  Fixture f;
  f.device.refuses_overlaps = true;
  // The control: this device refuses the same base with a larger size.
  rdm_backend_key first{};
  rdm_backend_key second{};
  char why[100];
  REQUIRE(f.device.register_foreign(Pages::number(0), kPage, 0, &first, why, sizeof why) == RDM_OK);
  REQUIRE(f.device.register_foreign(Pages::number(0), 2 * kPage, 0, &second, why, sizeof why) ==
          RDM_BACKEND_OVERLAPS);
  REQUIRE(f.device.deregister_foreign(kPage, first, false) == RDM_OK);

  used(f, 0, 1);
  CHECK(is(Registration::of(used(f, 0, 2)), 0, 2));
  CHECK(is(Registration::of(used(f, 1, 2)), 0, 3));
  CHECK(f.device.count() == 1);
  SECTION("unless it is in use") {
    const rdm_mr held = got(f, 0, 3);
    rdm_mr mr{};
    CHECK(f.get_pages(2, 2, &mr) == RDM_BUSY);
    CHECK(std::string(last_error()).find("in use") != std::string::npos);
    CHECK(f.is_registered(held));
    CHECK(f.put(held) == RDM_OK);
    CHECK(f.get_pages(2, 2, &mr) == RDM_OK);
    CHECK(f.put(mr) == RDM_OK);
  }
  check_closes_clean(f);
}

TEST_CASE("memory that cannot be watched is registered for its user alone") {
  Fixture f;
  fake::monitor.can_watch = false;
  const rdm_mr first = got(f, 0, 4);
  const rdm_mr second = got(f, 0, 4);
  CHECK(first.lkey != second.lkey);
  CHECK(f.device.count() == 2);
  CHECK(f.put(first) == RDM_OK);
  CHECK(!f.is_registered(first));
  CHECK(f.is_registered(second));
  CHECK(f.put(second) == RDM_OK);
  CHECK(f.device.count() == 0);
  check_closes_clean(f);
}

TEST_CASE("what is watched is no longer watched once it is registered no more") {
  Fixture f;
  const uint64_t watched = fake::monitor.watched;
  const uint64_t unwatched = fake::monitor.unwatched;
  used(f, 0, 4);
  f.device.fail_in = 1;
  rdm_mr mr{};
  CHECK(f.get_pages(8, 1, &mr) == RDM_SYSTEM);
  CHECK(fake::monitor.unwatched - unwatched == 1);
  check_closes_clean(f);
  CHECK(fake::monitor.watched - watched == 2);
  CHECK(fake::monitor.unwatched - unwatched == 2);
}

TEST_CASE("without leave_pinned users share a registration that ends with the last of them") {
  Fixture f;
  f.settings.limits.leave_pinned = false;
  f.open();
  const rdm_mr first = got(f, 0, 4);
  const rdm_mr second = got(f, 1, 2);
  CHECK(first.lkey == second.lkey);
  const rdm_mr other = got(f, 2, 4);  // it overlaps, and gets its own
  CHECK(other.lkey != first.lkey);
  CHECK(f.put(first) == RDM_OK);
  CHECK(f.is_registered(second));
  CHECK(f.put(second) == RDM_OK);
  CHECK(!f.is_registered(second));
  CHECK(f.put(other) == RDM_OK);
  CHECK(f.device.count() == 0);
  CHECK(got(f, 0, 4).lkey != first.lkey);
  CHECK(f.put(got(f, 0, 4)) == RDM_OK);
  CHECK(f.close() == RDM_BUSY);
}

TEST_CASE("a change ends what is registered of it, and of nothing else") {
  Fixture f;
  const rdm_mr before = used(f, 0, 4);
  const rdm_mr beside = used(f, 4, 4);
  f.pages.change(3, 1);
  CHECK(!f.is_registered(before));
  CHECK(f.is_registered(beside));
  CHECK(f.cache->counters().invalidations == 1);
  CHECK(used(f, 4, 4).lkey == beside.lkey);
  CHECK(Registration::of(used(f, 0, 4)).seen[3] == 1);
  check_closes_clean(f);
}

TEST_CASE("what is in use while it changes belongs to its users, and is not found again") {
  Fixture f;
  const rdm_mr first = got(f, 0, 4);
  const rdm_mr second = got(f, 0, 4);
  f.pages.change(0, 1);
  const rdm_mr anew = got(f, 0, 4);
  CHECK(anew.lkey != first.lkey);
  CHECK(f.put(first) == RDM_OK);
  CHECK(f.is_registered(second));
  CHECK(used(f, 1, 1).lkey == anew.lkey);
  CHECK(f.put(second) == RDM_OK);
  CHECK(!f.is_registered(second));
  CHECK(f.put(anew) == RDM_OK);
  check_closes_clean(f);
}

TEST_CASE("what changes while it is being registered is not kept") {
  Fixture f;
  SECTION("before the device looks at the memory") {
    f.device.before = [&](uintptr_t, size_t) { f.pages.change(1, 1); };
  }
  SECTION("after that") {
    f.device.after = [&](Registration&) { f.pages.change(1, 1); };
  }
  const rdm_mr mr = got(f, 0, 4);
  f.device.before = nullptr;
  f.device.after = nullptr;
  CHECK(got(f, 0, 4).lkey != mr.lkey);
  CHECK(f.put(mr) == RDM_OK);
  CHECK(!f.is_registered(mr));
  CHECK(f.put(got(f, 0, 4)) == RDM_OK);
  CHECK(f.cache->validate());
}

TEST_CASE("what is registered between the announcement of a change and its end is not kept") {
  Fixture f;
  rdm_mr early{};
  f.pages.change(2, 1, [&] { early = used(f, 0, 4); });
  CHECK(!f.is_registered(early));
  CHECK(Registration::of(early).seen[2] == 0);
  CHECK(Registration::of(used(f, 0, 4)).seen[2] == 1);
  check_closes_clean(f);
}

TEST_CASE("a change of memory beside what is being registered ends nothing") {
  Fixture f;
  f.device.after = [&](Registration&) {
    f.pages.change(4, 1);
    f.pages.change(0, 1);
  };
  const rdm_mr mr = used(f, 1, 3);
  CHECK(used(f, 1, 3).lkey == mr.lkey);
  check_closes_clean(f);
}

TEST_CASE("idle registrations make room, least recently used first") {
  Fixture f;
  f.settings.limits.count = 3;
  f.open();
  const rdm_mr a = used(f, 0, 1);
  const rdm_mr b = used(f, 2, 1);
  const rdm_mr c = used(f, 4, 1);
  used(f, 6, 1);
  CHECK(!f.is_registered(a));
  CHECK(used(f, 2, 1).lkey == b.lkey);
  used(f, 8, 1);
  CHECK(!f.is_registered(c));
  CHECK(f.is_registered(b));
  CHECK(f.cache->counters().evictions == 2);
  check_closes_clean(f);
}

TEST_CASE("what makes room, and cannot be deregistered now, makes it a moment later") {
  Fixture f;
  f.settings.limits.count = 2;
  f.open();
  const rdm_mr a = used(f, 0, 1);
  const rdm_mr b = used(f, 2, 1);
  f.device.deregister_later = 1;
  used(f, 4, 1);
  CHECK(!f.is_registered(a));
  CHECK(f.is_registered(b));
  CHECK(f.device.count() == 2);
  f.device.deregister_later = 2;
  used(f, 6, 1);
  CHECK(f.device.count() <= 2);
  check_closes_clean(f);
}

TEST_CASE(
    "what makes room, and cannot be deregistered, counts until closing, and another makes it") {
  Fixture f;
  f.settings.limits.count = 2;
  f.settings.limits.bytes = 4 * kPage;
  f.open();
  const rdm_mr a = used(f, 0, 1);
  const rdm_mr b = used(f, 2, 1);
  f.device.keep = 1;
  const rdm_mr c = used(f, 4, 3);
  CHECK(f.is_registered(a));
  CHECK(!f.is_registered(b));
  CHECK(f.is_registered(c));
  CHECK(f.cache->count() == 2);
  CHECK(f.cache->bytes() == 4 * kPage);
  CHECK(f.cache->validate());
  CHECK(f.close() == RDM_SYSTEM);
  f.device.forget_all();
  f.open();
  used(f, 0, 1);
  check_closes_clean(f);
}

TEST_CASE("one registration is given up, and none lost, for what the device then refuses") {
  Fixture f;
  f.settings.limits.count = 2;
  f.open();
  used(f, 0, 1);
  const rdm_mr b = used(f, 2, 1);
  f.device.fail_in = 1;
  rdm_mr mr{};
  CHECK(f.get_pages(4, 1, &mr) == RDM_SYSTEM);
  CHECK(f.is_registered(b));
  CHECK(f.device.count() == 1);
  CHECK(f.cache->count() == 1);
  used(f, 4, 1);
  CHECK(f.is_registered(b));
  check_closes_clean(f);
}

TEST_CASE("a limit of bytes is kept at each moment, whatever is given up for it") {
  Fixture f;
  f.settings.limits.bytes = 8 * kPage;
  f.open();
  used(f, 0, 3);
  used(f, 10, 3);
  const rdm_mr large = used(f, 20, 8);
  CHECK(f.device.bytes() == 8 * kPage);
  used(f, 30, 1);
  CHECK(!f.is_registered(large));
  rdm_mr mr{};
  CHECK(f.get_pages(0, 9, &mr) == RDM_OUT_OF_BUDGET);
  CHECK(std::string(last_error()).find("foreign_bytes") != std::string::npos);
  check_closes_clean(f);
}

TEST_CASE("when all that may be registered is in use, a get says so") {
  Fixture f;
  f.settings.limits.count = 2;
  f.open();
  const rdm_mr held[] = {got(f, 0, 1), got(f, 2, 1)};
  rdm_mr mr{};
  CHECK(f.get_pages(4, 1, &mr) == RDM_OUT_OF_BUDGET);
  CHECK(std::string(last_error()).find("in use") != std::string::npos);
  CHECK(f.put(held[1]) == RDM_OK);
  CHECK(f.get_pages(4, 1, &mr) == RDM_OK);
  CHECK(f.is_registered(held[0]));
  CHECK(f.put(mr) == RDM_OK);
  CHECK(f.put(held[0]) == RDM_OK);
  check_closes_clean(f);
}

TEST_CASE("what the device has no room for makes room, too") {
  Fixture f;
  SECTION("no more memory regions") { f.device.room_count = 2; }
  SECTION("no more bytes") { f.device.room_bytes = 2 * kPage; }
  const rdm_mr a = used(f, 0, 1);
  const rdm_mr b = got(f, 2, 1);
  const rdm_mr c = got(f, 4, 1);
  CHECK(!f.is_registered(a));
  rdm_mr mr{};
  new_last_error()[0] = '\0';
  CHECK(f.get_pages(6, 1, &mr) == RDM_OUT_OF_BUDGET);
  CHECK(last_error()[0] != '\0');
  CHECK(f.put(b) == RDM_OK);
  CHECK(f.put(c) == RDM_OK);
  check_closes_clean(f);
}

TEST_CASE("a get waits for room that its device gives back late, and for nothing else") {
  constexpr int kNever = -1;
  Fixture f;
  f.device.room_bytes = 2 * kPage;
  int given_back_at = 5;
  int status = RDM_OK;
  SECTION("a device that gives it back late") { f.device.is_late = true; }
  SECTION("one that would give it back at once, and has none") { status = RDM_OUT_OF_BUDGET; }
  SECTION("room that others took meanwhile") {
    f.device.is_late = true;
    given_back_at = kNever;
    status = RDM_OUT_OF_BUDGET;
  }
  f.open();
  const rdm_mr held = got(f, 0, 1);
  (void)used(f, 2, 1);
  int asked = 0;
  f.device.gone = [&](Registration&) {
    f.device.room_bytes = kPage;
    asked = 0;
  };
  f.device.before = [&](uintptr_t, size_t) {
    if (++asked == given_back_at) f.device.room_bytes = 2 * kPage;
  };
  rdm_mr mr{};
  CHECK(f.get_pages(4, 1, &mr) == status);
  CHECK((asked > 1) == f.device.is_late);
  f.device.gone = nullptr;
  f.device.before = nullptr;
  if (status == RDM_OK) CHECK(f.put(mr) == RDM_OK);
  CHECK(f.put(held) == RDM_OK);
  check_closes_clean(f);
}

TEST_CASE("when the budget is used up by others, they give up something") {
  Fixture f;
  f.device.room_bytes = 2 * kPage;
  std::vector<size_t> reclaimed;
  f.device.reclaimer = [&](size_t bytes) {
    reclaimed.push_back(bytes);
    f.device.room_bytes = 8 * kPage;
    return reclaimed.size() == 1;
  };
  const rdm_mr idle = used(f, 0, 2);
  const rdm_mr held = got(f, 4, 2);
  CHECK(!f.is_registered(idle));
  CHECK(reclaimed.empty());
  const rdm_mr more = got(f, 8, 4);
  CHECK(reclaimed == std::vector<size_t>{4 * kPage});
  rdm_mr mr{};
  CHECK(f.get_pages(16, 4, &mr) == RDM_OUT_OF_BUDGET);
  CHECK(f.put(held) == RDM_OK);
  CHECK(f.put(more) == RDM_OK);
  check_closes_clean(f);
}

TEST_CASE("longer than the device's largest memory region is unsupported") {
  Fixture f;
  f.device.longest = 4 * kPage;
  rdm_mr mr{};
  CHECK(f.get_pages(0, 5, &mr) == RDM_UNSUPPORTED);
  CHECK(std::string(last_error()).find("rdm_pieces") != std::string::npos);
  CHECK(f.get(Pages::at(0, 1), 4 * kPage, &mr) == RDM_UNSUPPORTED);
  used(f, 0, 4);
  check_closes_clean(f);
}

TEST_CASE("a device that asks to come later is asked again, and in the end said to have failed") {
  Fixture f;
  f.device.runs_in_malloc = false;
  f.device.later = 3;
  used(f, 0, 1);
  CHECK(f.device.calls() == 4);
  f.device.later = INT32_MAX;
  rdm_mr mr{};
  new_last_error()[0] = '\0';
  CHECK(f.get_pages(2, 1, &mr) == RDM_SYSTEM);
  CHECK(last_error()[0] != '\0');
  check_closes_clean(f);
}

TEST_CASE("each failing call leaves nothing behind") {
  for (int k = 1; k <= 3; ++k) {
    Fixture f;
    used(f, 0, 2);
    f.device.fail_in = k;
    rdm_mr mr{};
    int failures = 0;
    for (const size_t page : {10, 20, 1, 30}) {
      if (f.get_pages(page, 4, &mr) != RDM_OK) {
        ++failures;
        continue;
      }
      CHECK(f.put(mr) == RDM_OK);
    }
    CHECK(failures == (k == 3 ? 0 : 1));  // the third is for a union
    check_closes_clean(f);
  }
}

TEST_CASE("a put without its get is refused") {
  Fixture f;
  const rdm_mr mr = got(f, 0, 4);
  rdm_mr altered = mr;
  altered.rkey ^= 1;
  CHECK(f.put(altered) == RDM_INVALID);
  altered = mr;
  altered.length -= kPage;
  CHECK(f.put(altered) == RDM_INVALID);
  CHECK(f.put(rdm_mr{}) == RDM_INVALID);
  CHECK(f.put(mr) == RDM_OK);
  for (int i = 0; i < 3; ++i) {
    new_last_error()[0] = '\0';
    CHECK(f.put(mr) == RDM_INVALID);
    CHECK(last_error()[0] != '\0');
  }
  CHECK(got(f, 0, 4).lkey == mr.lkey);
  CHECK(f.close() == RDM_BUSY);
  f.pages.change(0, 1);
  CHECK(f.put(mr) == RDM_OK);
  CHECK(f.put(mr) == RDM_INVALID);
  check_closes_clean(f);
}

TEST_CASE("a cache with users says how many, and works on") {
  Fixture f;
  const rdm_mr kept = got(f, 0, 4);
  const rdm_mr doomed = got(f, 8, 4);
  f.pages.change(8, 1);
  CHECK(f.close() == RDM_BUSY);
  CHECK(f.users == 2);
  CHECK(used(f, 1, 1).lkey == kept.lkey);
  CHECK(f.put(doomed) == RDM_OK);
  CHECK(f.close() == RDM_BUSY);
  CHECK(f.users == 1);
  CHECK(f.put(kept) == RDM_OK);
  check_closes_clean(f);
}

TEST_CASE("a closed cache gives nothing and takes nothing, and one opened again starts empty") {
  Fixture f;
  const rdm_mr old = used(f, 0, 4);
  REQUIRE(f.close() == RDM_OK);
  rdm_mr mr{};
  CHECK(f.get_pages(0, 4, &mr) == RDM_INVALID);
  CHECK(std::string(last_error()).find("closed") != std::string::npos);
  CHECK(f.put(old) == RDM_INVALID);
  CHECK(!f.cache->idle().give_up(1));
  f.cache->idle().deregister();
  f.pages.change(0, 4);
  f.settings.limits.count = 1;
  f.open();
  CHECK(used(f, 0, 4).lkey != old.lkey);
  used(f, 8, 4);
  CHECK(f.device.count() == 1);
  check_closes_clean(f);
}

TEST_CASE("what cannot be deregistered is lost, told at closing, and forgotten with it") {
  Fixture f;
  f.settings.limits.count = 2;
  f.open();
  used(f, 0, 1);
  f.device.keep = 1;
  f.pages.change(0, 1);
  f.cache->idle().deregister();
  used(f, 2, 1);
  f.device.keep = 1;
  CHECK(f.close() == RDM_SYSTEM);
  // Stands for another domain on another device.
  f.device.forget_all();
  f.open();
  used(f, 0, 1);
  used(f, 2, 1);
  CHECK(f.device.count() == 2);
  check_closes_clean(f);
}

TEST_CASE("idle registrations are given up for those that need the budget more") {
  Fixture f;
  const rdm_mr a = used(f, 0, 2);
  const rdm_mr b = used(f, 4, 2);
  const rdm_mr c = got(f, 8, 2);
  CHECK(f.cache->idle().give_up(kPage));
  CHECK(!f.is_registered(a));
  CHECK(f.is_registered(b));
  CHECK(f.cache->idle().give_up(100 * kPage));
  CHECK(!f.is_registered(b));
  CHECK(f.is_registered(c));
  CHECK(!f.cache->idle().give_up(1));
  CHECK(f.put(c) == RDM_OK);
  check_closes_clean(f);
}

TEST_CASE("a device that may not run in malloc is told that something is left to do") {
  Fixture f;
  f.device.runs_in_malloc = false;
  const rdm_mr mr = used(f, 0, 4);
  const uint64_t before = f.device.put_off_count();
  f.pages.change(0, 1);
  CHECK(f.device.put_off_count() == before + 1);
  CHECK(f.is_registered(mr));
  SECTION("and does it when it comes") {
    f.cache->idle().deregister();
    CHECK(!f.is_registered(mr));
  }
  SECTION("or has it done by who needs the room") {
    f.settings.limits.count = 1;
    f.open();
    used(f, 8, 1);
    CHECK(!f.is_registered(mr));
  }
  SECTION("or by who needs the budget") {
    CHECK(f.cache->idle().give_up(kPage));
    CHECK(!f.is_registered(mr));
  }
  SECTION("or at closing") {}
  CHECK(f.cache->validate());
  check_closes_clean(f);
}

TEST_CASE("what the budget is needed for comes from what changed before what is kept") {
  Fixture f;
  f.device.runs_in_malloc = false;
  const rdm_mr kept = used(f, 0, 4);
  const rdm_mr changed = used(f, 8, 4);
  f.pages.change(8, 1);
  CHECK(f.cache->idle().give_up(4 * kPage));
  CHECK(!f.is_registered(changed));
  CHECK(f.is_registered(kept));
  check_closes_clean(f);
}

TEST_CASE("is_cached says what may still be handed out") {
  Fixture f;
  const auto cached = [&](size_t page) {
    return f.cache->is_cached(Pages::number(page), Pages::number(page + 1));
  };
  CHECK(!cached(1));
  f.device.before = [&](uintptr_t, size_t) { CHECK(cached(1)); };
  const rdm_mr mr = got(f, 1, 1);
  f.device.before = nullptr;
  CHECK(cached(1));
  CHECK(!cached(0));
  CHECK(!cached(2));
  f.pages.change(1, 1);
  CHECK(!cached(1));
  CHECK(f.put(mr) == RDM_OK);
  check_closes_clean(f);
}

TEST_CASE("the child of a fork has nothing, and can begin anew") {
  Fixture f;
  const rdm_mr held = got(f, 0, 4);
  used(f, 8, 4);
  const uint64_t calls = f.device.calls();
  // As in a child: its device knows none of the parent's registrations.
  f.device.forget_all();
  changes.note_fork_child();
  f.cache->note_fork_child();
  rdm_mr mr{};
  CHECK(f.get_pages(0, 4, &mr) == RDM_INVALID);
  CHECK(f.put(held) == RDM_INVALID);
  f.pages.change(0, 64);
  CHECK(f.device.calls() == calls);
  CHECK(f.cache->count() == 0);
  CHECK(f.cache->validate());
  f.open();
  CHECK(f.put(held) == RDM_INVALID);
  CHECK(used(f, 0, 4).lkey != held.lkey);
  check_closes_clean(f);
}

TEST_CASE("without memory for its books a get says so, and the next one tries again") {
  Fixture f;
  rdm_mr mr{};
  for (size_t k : {1, 2}) {
    fake::fail(fake::Call::kMapMetadata, k);
    CHECK(f.get_pages(0, 1, &mr) == RDM_SYSTEM);
    fake::fail_nothing();
  }
  used(f, 0, 1);
  check_closes_clean(f);
}

}  // namespace rdmalloc
