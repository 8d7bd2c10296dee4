// Rings, inboxes, fast boxes and free lists between threads, in plain memory so that the thread
// sanitizer sees both sides: nothing is lost or delivered twice, each sender's order is kept, and a
// message's data is visible when it arrives.
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "regcache/shm/fast_box.h"
#include "regcache/shm/free_list.h"
#include "regcache/shm/inbox.h"
#include "regcache/shm/ring.h"
#include "tests/support/catch.h"

using namespace rdmalloc::shm;

namespace {

constexpr uint64_t kStride = 128;
constexpr uint32_t kMessages = 60'000;
constexpr uint32_t kLeast = 500;
constexpr std::chrono::seconds kLongest{2};

// Fragments with a free list, at offsets from kStride up.
struct Fragments {
  explicit Fragments(uint32_t count) : memory(new Line[2 * (count + 1)]()) {
    for (uint32_t i = 0; i < count; ++i) {
      table.push_back(at((i + 1) * kStride));
      table[i]->index = i;
    }
    list = FreeList(&head, table.data(), count);
    for (Fragment* fragment : table) list.put(fragment);
  }
  Fragment* at(uint64_t offset) const { return reinterpret_cast<Fragment*>(base() + offset); }
  uint64_t offset(const Fragment* fragment) const {
    return static_cast<uint64_t>(reinterpret_cast<const unsigned char*>(fragment) - base());
  }
  unsigned char* base() const { return reinterpret_cast<unsigned char*>(memory.get()); }
  struct alignas(64) Line {
    unsigned char bytes[64];
  };
  std::unique_ptr<Line[]> memory;
  std::vector<Fragment*> table;
  FreeList::Word head{0};
  FreeList list;
};

// Waits for a free fragment and fills it with a message.
Fragment* filled(Fragments& fragments, uint32_t sender, uint64_t number) {
  Fragment* fragment = nullptr;
  while ((fragment = fragments.list.get()) == nullptr) std::this_thread::yield();
  fragment->owner = sender;
  fragment->tag = number;
  memset(fragment->bytes(), static_cast<int>(number), 64);
  return fragment;
}

// The receiver's record of each sender's messages.
struct Account {
  explicit Account(uint32_t senders) : next(senders) {}
  // False if it is not what that sender sent next.
  bool take(uint32_t sender, uint64_t number, const unsigned char* bytes, size_t length) {
    if (sender >= next.size() || next[sender] != number) return false;
    ++next[sender];
    ++taken;
    for (size_t i = 0; i < length; ++i) {
      if (bytes[i] != static_cast<unsigned char>(number)) return false;
    }
    return true;
  }
  std::vector<uint64_t> next;
  uint64_t taken = 0;
};

// Runs `send(sender, number)` for each message of each sender, and `receive(account)`, which
// returns false if there was nothing, until all messages have arrived. Each message may take a
// change of threads, and on a busy machine that takes milliseconds: after kLongest a sender stops
// early.
template <typename Send, typename Receive>
void run(uint32_t senders, uint32_t messages, Send send, Receive receive) {
  const auto end = std::chrono::steady_clock::now() + kLongest;
  std::atomic<uint64_t> due{uint64_t{senders} * messages};
  std::vector<std::thread> threads;
  for (uint32_t sender = 0; sender < senders; ++sender) {
    threads.emplace_back([=, &due] {
      uint64_t number = 0;
      while (number < messages && (number < kLeast || std::chrono::steady_clock::now() < end)) {
        send(sender, number++);
      }
      due -= messages - number;
    });
  }
  Account account(senders);
  while (account.taken < due) {
    if (!receive(account)) std::this_thread::yield();
  }
  for (std::thread& thread : threads) thread.join();
  REQUIRE(account.taken == due);
  REQUIRE_FALSE(receive(account));
}

struct SharedRing {
  explicit SharedRing(uint32_t entries) : queue(entries) {
    ring = Ring(queue.data(), entries, &head, &tail);
  }
  std::vector<Ring::Word> queue;
  Ring::Position head{0}, tail{0};
  Ring ring;
};

}  // namespace

TEST_CASE("a ring of fragments between threads loses nothing, with one sender and with several") {
  const auto senders = GENERATE(1U, 4U);
  const auto entries = GENERATE(2U, 128U);
  Fragments fragments(senders == 1 ? 3 : 32);
  SharedRing shared(entries);
  run(
      senders, kMessages / senders,
      [&](uint32_t sender, uint64_t number) {
        const uint64_t offset = fragments.offset(filled(fragments, sender, number));
        Ring ring = shared.ring;
        while (!(senders == 1 ? ring.push(offset) : ring.push_shared(offset))) {
          std::this_thread::yield();
        }
      },
      [&](Account& account) {
        uint64_t offset = 0;
        if (!shared.ring.pop(&offset)) return false;
        Fragment* fragment = fragments.at(offset);
        REQUIRE(account.take(fragment->owner, fragment->tag, fragment->bytes(), 64));
        fragments.list.put(fragment);
        return true;
      });
}

TEST_CASE("an inbox of many senders loses nothing") {
  const auto senders = GENERATE(1U, 4U);
  // Few, so that the list is often empty and a fragment is reused at once.
  const auto count = GENERATE(1U, 2U, 16U);
  Fragments all(senders * count);  // one array, and a free list per sender
  for (uint32_t i = 0; i < all.table.size(); ++i) all.list.get();
  struct Owner {
    std::vector<Fragment*> table;
    FreeList::Word head{0};
    FreeList list;
  };
  std::vector<std::unique_ptr<Owner>> owners;
  for (uint32_t sender = 0; sender < senders; ++sender) {
    owners.push_back(std::make_unique<Owner>());
    Owner& owner = *owners.back();
    for (uint32_t i = 0; i < count; ++i) {
      owner.table.push_back(all.table[sender * count + i]);
      owner.table[i]->index = i;
      owner.table[i]->owner = sender;
    }
    owner.list = FreeList(&owner.head, owner.table.data(), count);
    for (Fragment* fragment : owner.table) owner.list.put(fragment);
  }
  alignas(64) Inbox::Word last{0};
  alignas(64) Inbox::Word first{0};
  run(
      senders, kMessages / senders,
      [&](uint32_t sender, uint64_t number) {
        Fragment* fragment = nullptr;
        while ((fragment = owners[sender]->list.get()) == nullptr) std::this_thread::yield();
        fragment->tag = number;
        memset(fragment->bytes(), static_cast<int>(number), 64);
        Inbox(all.base(), &last, &first).push(all.offset(fragment));
      },
      [&](Account& account) {
        uint64_t offset = 0;
        if (!Inbox(all.base(), &last, &first).pop(&offset)) return false;
        Fragment* fragment = all.at(offset);
        REQUIRE(account.take(fragment->owner, fragment->tag, fragment->bytes(), 64));
        owners[fragment->owner]->list.put(fragment);
        return true;
      });
}

TEST_CASE("a fast box between threads loses nothing, whole messages and fragments in one order") {
  constexpr uint32_t kSlots = 4, kLine = 128;
  struct alignas(64) Line {
    unsigned char bytes[64];
  };
  std::unique_ptr<Line[]> memory(new Line[2 * (kSlots + 1)]());
  auto* box = reinterpret_cast<unsigned char*>(memory.get());
  FastBox sender(box, kSlots, kLine), receiver(box, kSlots, kLine);
  REQUIRE(sender.claim(0, 0));
  Fragments fragments(3);
  run(
      1, 2 * kMessages,
      [&](uint32_t, uint64_t number) {
        if (number % 3 == 0) {
          const uint64_t offset = fragments.offset(filled(fragments, 0, number));
          while (!sender.push_fragment(offset)) std::this_thread::yield();
        } else {
          const std::string text(number % (sender.most() + 1), static_cast<char>(number));
          while (!sender.push(number, text.data(), static_cast<uint32_t>(text.size()))) {
            std::this_thread::yield();
          }
        }
      },
      [&](Account& account) {
        Slot* slot = receiver.peek();
        if (slot == nullptr) return false;
        receiver.advance();
        if (FastBox::is_whole(slot)) {
          const uint32_t length = FastBox::length(slot);
          REQUIRE(length == slot->tag % (receiver.most() + 1));
          REQUIRE(account.take(0, slot->tag, slot->bytes(), length));
          FastBox::done(slot);
        } else {
          Fragment* fragment = fragments.at(FastBox::fragment(slot));
          FastBox::done(slot);
          REQUIRE(account.take(0, fragment->tag, fragment->bytes(), 64));
          fragments.list.put(fragment);
        }
        return true;
      });
}

TEST_CASE("threads that take from and put to a free list never hold the same fragment") {
  Fragments fragments(5);
  std::vector<std::atomic<int>> holders(5);
  std::atomic<bool> is_shared{false};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (uint32_t i = 0; i < kMessages; ++i) {
        Fragment* first = fragments.list.get();
        Fragment* second = fragments.list.get();
        for (Fragment* fragment : {first, second}) {
          if (fragment == nullptr) continue;
          if (holders[fragment->index].fetch_add(1, std::memory_order_relaxed) != 0) {
            is_shared = true;
          }
          ++fragment->tag;  // a race that the sanitizer reports if two threads hold it
        }
        for (Fragment* fragment : {first, second}) {
          if (fragment == nullptr) continue;
          holders[fragment->index].fetch_sub(1, std::memory_order_relaxed);
          fragments.list.put(fragment);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  REQUIRE_FALSE(is_shared);
  int left = 0;
  while (fragments.list.get() != nullptr) ++left;
  REQUIRE(left == 5);
}
