// The parts of a shared-memory segment, each alone in plain memory: rings, inboxes, fast boxes,
// free lists, against models, with one thread. tests/stress/shm_stress.cpp has the threads.
#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "regcache/shm/fast_box.h"
#include "regcache/shm/free_list.h"
#include "regcache/shm/inbox.h"
#include "regcache/shm/ring.h"
#include "tests/support/catch.h"
#include "tests/support/rounds.h"

using namespace rdmalloc::shm;

namespace {

// A ring in zeroed memory, as in a new segment, or one that has wrapped around.
struct TestRing {
  explicit TestRing(uint32_t entries, uint32_t start = 0) : queue(entries) {
    const auto shift = static_cast<unsigned>(__builtin_ctz(entries));
    for (uint32_t i = 0; i < entries; ++i) {
      const uint32_t position = start + i;
      queue[position & (entries - 1)] = entry::make(entry::turn_of(position, shift), 0);
    }
    head = tail = start;
    ring = Ring(queue.data(), entries, &head, &tail);
  }
  std::vector<Ring::Word> queue;
  Ring::Position head{0}, tail{0};
  Ring ring;
};

void follow_model(TestRing& test, uint32_t entries, bool shared, unsigned seed, int steps) {
  std::mt19937 random(seed);
  std::deque<uint64_t> model;
  uint64_t next = 1;
  for (int step = 0; step < steps; ++step) {
    // Long phases of mostly pushing or mostly popping, so that full and empty are reached.
    const bool pushing = (static_cast<uint32_t>(step) / (3 * entries)) % 2 == 0;
    if ((random() % 8 < 6) == pushing) {
      const bool pushed = shared ? test.ring.push_shared(next) : test.ring.push(next);
      REQUIRE(pushed == (model.size() < entries));
      if (pushed) model.push_back(next++);
    } else {
      uint64_t value = 0;
      REQUIRE(test.ring.has_next() == !model.empty());
      REQUIRE(test.ring.pop(&value) == !model.empty());
      if (value == 0) continue;
      REQUIRE(value == model.front());
      model.pop_front();
    }
  }
}

constexpr uint64_t kStride = 128;

// Fragments at kStride, the first at offset kStride, because 0 is not a valid offset.
struct Fragments {
  explicit Fragments(uint32_t number) : count(number) {
    memory.reset(static_cast<unsigned char*>(aligned_alloc(64, (count + 1) * kStride)));
    memset(memory.get(), 0, (count + 1) * kStride);
    for (uint32_t i = 0; i < count; ++i) {
      table.push_back(reinterpret_cast<Fragment*>(memory.get() + (i + 1) * kStride));
      table[i]->index = i;
    }
    list = FreeList(&head, table.data(), count);
    for (Fragment* fragment : table) list.put(fragment);
  }
  uint64_t offset(const Fragment* fragment) const {
    return static_cast<uint64_t>(reinterpret_cast<const unsigned char*>(fragment) - memory.get());
  }
  struct Free {
    void operator()(unsigned char* pointer) const { free(pointer); }
  };
  uint32_t count;
  std::unique_ptr<unsigned char, Free> memory;
  std::vector<Fragment*> table;
  FreeList::Word head{0};
  FreeList list;
};

struct Box {
  Box(uint32_t slots, uint32_t line) {
    memory.reset(static_cast<unsigned char*>(aligned_alloc(64, (slots + 1) * line)));
    memset(memory.get(), 0, (slots + 1) * line);
    sender = receiver = FastBox(memory.get(), slots, line);
  }
  std::unique_ptr<unsigned char, Fragments::Free> memory;
  FastBox sender, receiver;
};

}  // namespace

TEST_CASE("a ring gives back what was put in, in order, and refuses exactly when it is full") {
  const auto entries = GENERATE(2U, 4U, 128U);
  const auto shared = GENERATE(false, true);
  TestRing test(entries);
  follow_model(test, entries, shared, entries, 30000);
}

TEST_CASE("a ring goes on when its turns begin again, and when its positions do") {
  const auto shared = GENERATE(false, true);
  {
    TestRing test(2);
    follow_model(test, 2, shared, 1, 600'000);  // 65536 turns of 2 are 131072 messages
    REQUIRE(test.head > 2U * 65536);
  }
  const auto entries = GENERATE(2U, 128U, Ring::kMostEntries);
  TestRing test(entries, 0U - 100U);
  follow_model(test, entries, shared, 2, entries > 1000 ? 400'000 : 5000);
}

TEST_CASE("a ring carries offsets up to the widest") {
  TestRing test(4);
  uint64_t value = 0;
  REQUIRE(test.ring.push(entry::kValueMask));
  REQUIRE(test.ring.pop(&value));
  REQUIRE(value == entry::kValueMask);
}

TEST_CASE("a sender that took a place and stopped there is not overtaken in it") {
  TestRing test(4);
  // Taken but not filled: the state when another thread is interrupted in push_shared().
  test.head = 1;
  uint64_t value = 0;
  for (uint64_t i = 1; i <= 3; ++i) REQUIRE(test.ring.push_shared(i));
  REQUIRE_FALSE(test.ring.push_shared(9));
  REQUIRE_FALSE(test.ring.pop(&value));
  test.queue[0] = entry::make(0, 7);  // the interrupted thread continues
  for (const uint64_t expected : {7, 1, 2, 3}) {
    REQUIRE(test.ring.pop(&value));
    REQUIRE(value == expected);
  }
  REQUIRE(test.ring.push_shared(9));
}

TEST_CASE("a free list gives each fragment once, the last one put first") {
  Fragments fragments(100);
  std::set<Fragment*> held;
  while (Fragment* fragment = fragments.list.get()) REQUIRE(held.insert(fragment).second);
  REQUIRE(held.size() == 100);
  for (Fragment* fragment : held) fragments.list.put(fragment);
  REQUIRE(fragments.list.get() == *held.rbegin());
}

TEST_CASE("a free list that was damaged gives nothing rather than a wrong address") {
  Fragments fragments(4);
  fragments.head = 5;
  REQUIRE(fragments.list.get() == nullptr);
  fragments.head = 0xffffffff;
  REQUIRE(fragments.list.get() == nullptr);
}

TEST_CASE("an inbox gives fragments in the order they came in, through empty and back") {
  Fragments fragments(8);
  Inbox::Word last{0}, first{0};
  Inbox inbox(fragments.memory.get(), &last, &first);
  std::deque<uint64_t> model;
  std::mt19937 random(3);
  for (size_t step = 0; step < rdmalloc::test::rounds(20000); ++step) {
    if (random() % 2 == 0) {
      Fragment* fragment = fragments.list.get();
      REQUIRE((fragment == nullptr) == (model.size() == 8));
      if (fragment == nullptr) continue;
      model.push_back(fragments.offset(fragment));
      inbox.push(model.back());
    } else {
      uint64_t offset = 0;
      REQUIRE(inbox.has_next() == !model.empty());
      REQUIRE(inbox.pop(&offset) == !model.empty());
      if (offset == 0) continue;
      REQUIRE(offset == model.front());
      model.pop_front();
      fragments.list.put(reinterpret_cast<Fragment*>(fragments.memory.get() + offset));
    }
  }
}

TEST_CASE("an inbox whose second fragment is not linked yet keeps the first, and loses none") {
  Fragments fragments(2);
  Inbox::Word last{0}, first{0};
  Inbox inbox(fragments.memory.get(), &last, &first);
  const uint64_t one = fragments.offset(fragments.list.get());
  const uint64_t two = fragments.offset(fragments.list.get());
  inbox.push(one);
  last = two;  // the state when another sender is interrupted in push()
  uint64_t offset = 0;
  REQUIRE_FALSE(inbox.pop(&offset));
  reinterpret_cast<Fragment*>(fragments.memory.get() + one)->next = two;
  REQUIRE(inbox.pop(&offset));
  REQUIRE(offset == one);
  REQUIRE(inbox.pop(&offset));
  REQUIRE(offset == two);
  REQUIRE_FALSE(inbox.pop(&offset));
}

TEST_CASE("a fast box is one sender's, and gives its messages in order, whole or by offset") {
  const auto line = GENERATE(64U, 128U);
  Box box(4, line);
  REQUIRE(box.sender.claim(6, 11));
  REQUIRE_FALSE(FastBox(box.memory.get(), 4, line).claim(7, 0));
  REQUIRE(box.receiver.sender() == 6);
  REQUIRE(box.receiver.after() == 11);
  std::deque<uint64_t> model;
  std::mt19937 random(4);
  for (uint64_t step = 1; step < rdmalloc::test::rounds(300'000); ++step) {
    if (random() % 2 == 0) {
      std::string text(random() % (box.sender.most() + 1), static_cast<char>(step));
      const bool whole = random() % 3 != 0;
      const bool pushed =
          whole ? box.sender.push(step, text.data(), static_cast<uint32_t>(text.size()))
                : box.sender.push_fragment(step);
      REQUIRE(pushed == (model.size() < 4));
      if (pushed) model.push_back(step << 32 | (whole ? text.size() : 0xffff));
    } else {
      Slot* slot = box.receiver.peek();
      REQUIRE((slot == nullptr) == model.empty());
      if (slot == nullptr) continue;
      box.receiver.advance();
      const uint64_t sent = model.front() >> 32;
      const uint64_t length = model.front() & 0xffff;
      model.pop_front();
      REQUIRE(FastBox::is_whole(slot) == (length != 0xffff));
      if (length == 0xffff) {
        REQUIRE(FastBox::fragment(slot) == sent);
      } else {
        REQUIRE(slot->tag == sent);
        REQUIRE(FastBox::length(slot) == length);
        const auto is_sent = [&](unsigned char byte) { return byte == (sent & 0xff); };
        REQUIRE(std::all_of(slot->bytes(), slot->bytes() + length, is_sent));
      }
      FastBox::done(slot);
    }
  }
}

TEST_CASE("a slot of a fast box stays the receiver's until it is done, in any order") {
  Box box(4, 64);
  REQUIRE(box.sender.claim(0, 0));
  Slot* slots[4];
  for (uint64_t i = 0; i < 4; ++i) {
    REQUIRE(box.sender.push(i, "x", 1));
    slots[i] = box.receiver.peek();
    REQUIRE(slots[i] != nullptr);
    box.receiver.advance();
  }
  REQUIRE(box.receiver.peek() == nullptr);
  FastBox::done(slots[2]);
  REQUIRE_FALSE(box.sender.push(4, "x", 1));
  FastBox::done(slots[0]);
  REQUIRE(box.sender.push(4, "x", 1));
  REQUIRE(slots[1]->tag == 1);
  REQUIRE_FALSE(box.sender.push(5, "x", 1));
}
