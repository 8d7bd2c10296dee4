// Which NUMA node memory lies on, over fake system calls: touch() simulates where pages appear.
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/test_heap.h"

namespace rdmalloc {

using fake::Call;
using fake::kMiB;
using fake::kPage;
using fake::TestHeap;

namespace {

// Four nodes; at the end the calling thread is on node 0 again.
struct Nodes {
  explicit Nodes(std::initializer_list<const char*> options = {}) : heap(options) {
    fake::machine().nodes = 4;
    heap.boot();
  }
  ~Nodes() { fake::set_node(0); }

  void* malloc(int node, size_t size) {
    fake::set_node(node);
    return heap.malloc(size);
  }
  void free(int node, void* block) {
    fake::set_node(node);
    REQUIRE(heap.free(block));
  }
  TestHeap heap;
};

}  // namespace

TEST_CASE("a large block is bound to no node, and what jemalloc takes is bound to its thread's") {
  Nodes four;
  void* const block = four.malloc(2, kMiB);
  CHECK(fake::range_of(block).node == -1);
  fake::set_node(2);
  CHECK(fake::range_of(four.heap.take(kPage)).node == 2);
  CHECK(four.heap.unsound() == "");
}

TEST_CASE("with local placement a large block is bound to its thread's node") {
  Nodes four({"NUMA=local"});
  CHECK(fake::range_of(four.malloc(2, kMiB)).node == 2);
}

TEST_CASE("a memory policy that a program starts with is left alone") {
  TestHeap tested({GENERATE("NUMA=first-touch", "NUMA=local")});
  fake::machine().nodes = 4;
  fake::machine().has_policy = true;
  tested.boot();
  for (const int node : {0, 1, 2, 3}) {
    fake::set_node(node);
    REQUIRE(tested.take(kPage) != nullptr);
    REQUIRE(tested.malloc(kMiB) != nullptr);
  }
  fake::set_node(0);
  CHECK(fake::calls(Call::kPreferNode) == 0);
  // Extents and blocks have one each; the first of extents holds two pages of 64 KiB.
  CHECK(tested->regions().size() == (kPage < (size_t{64} << 10) ? 2 : 3));
}

TEST_CASE("a memory policy that a thread sets later is left alone") {
  Nodes four({"NUMA=local"});
  fake::machine().has_policy = true;
  REQUIRE(four.malloc(1, kMiB) != nullptr);
  REQUIRE(four.heap.take(kPage) != nullptr);
  CHECK(fake::calls(Call::kPreferNode) == 0);
}

TEST_CASE("a freed block is reused on the node that it lies on, not where it was freed") {
  Nodes four;
  void* const block = four.malloc(0, kMiB);
  fake::touch(block, kMiB, 1);
  const int freed_by = GENERATE(0, 1, 3);
  four.free(freed_by, block);
  four.heap->blocks().freed().drain(true);  // the test's nodes share one set of processors
  CHECK(four.malloc(0, kMiB) != block);
  CHECK(four.malloc(1, kMiB) == block);
  CHECK(validate(*four.heap));
}

TEST_CASE("with local placement a freed block is reused on the node that it was bound to") {
  Nodes four({"NUMA=local"});
  void* const block = four.malloc(0, kMiB);
  fake::touch(block, kMiB, 1);
  four.free(1, block);
  CHECK(four.malloc(1, kMiB) != block);
  CHECK(four.malloc(0, kMiB) == block);
}

TEST_CASE("a block that lies on several nodes is reused by the thread that freed it") {
  Nodes four;
  void* const block = four.malloc(0, 4 * kMiB);
  for (int node = 0; node < 4; ++node) {
    fake::touch(static_cast<char*>(block) + static_cast<size_t>(node) * kMiB, kMiB, node);
  }
  four.free(2, block);
  CHECK(four.malloc(2, 4 * kMiB) == block);
}

TEST_CASE("where a block lies is asked again once it was free in a depot") {
  Nodes four;
  void* block = four.malloc(0, kMiB);
  fake::touch(block, kMiB, 1);
  four.free(1, block);  // cached there
  four.heap->blocks().freed().drain(true);
  block = four.malloc(1, kMiB / 2);
  REQUIRE(block != nullptr);
  four.free(1, block);
  CHECK(four.malloc(1, kMiB / 2) == block);
  CHECK(validate(*four.heap));
}

TEST_CASE("what several nodes' threads need one after the other is held once, and a quarter more") {
  Nodes four;
  size_t most = 0;
  for (int round = 0; round < 3; ++round) {
    for (int node = 0; node < 4; ++node) {
      void* const block = four.malloc(node, 300 * kMiB);
      REQUIRE(block != nullptr);
      fake::touch(block, 300 * kMiB, node);
      most = std::max(most, four.heap->budget().charges().held());
      four.free(node, block);
    }
  }
  CHECK(most <= 300 * kMiB + 300 * kMiB / 4);
  CHECK(validate(*four.heap));
}

TEST_CASE("so is what lies in pieces that have to be gathered") {
  Nodes four;
  std::vector<void*> blocks;
  for (int i = 0; i < 300; ++i) {
    blocks.push_back(four.malloc(0, kMiB));
    fake::touch(blocks.back(), kMiB, 0);
  }
  for (size_t i = 0; i < blocks.size(); i += 2) four.free(0, blocks[i]);
  REQUIRE(four.malloc(3, 140 * kMiB) != nullptr);
  CHECK(four.heap->budget().charges().held() <= 300 * kMiB + 300 * kMiB / 4);
  CHECK(four.heap.unsound() == "");
  CHECK(validate(*four.heap));
}

TEST_CASE("a block grows in place into what lies on another node") {
  Nodes four;
  void* const first = four.malloc(0, 2 * kMiB);
  REQUIRE(four.heap.resize(first, kMiB));
  auto* const end = static_cast<char*>(first) + kMiB;
  void* const second = four.malloc(0, kMiB);
  REQUIRE(second == end);
  fake::touch(second, kMiB, 3);
  four.free(0, second);  // into node 3's depot
  CHECK(four.heap.resize(first, 2 * kMiB));
  CHECK(validate(*four.heap));
}

TEST_CASE("a block that shrinks to a page leaves the words of those behind it alone") {
  Nodes four;
  void* const first = four.malloc(0, kMiB);
  fake::touch(first, kMiB, 1);
  REQUIRE(four.heap.resize(first, kPage));
  fake::set_node(1);
  auto* const behind = static_cast<char*>(first) + kPage;
  std::vector<void*> others;
  for (int i = 0; i < 8; ++i) others.push_back(four.malloc(1, kMiB / 8));
  four.free(0, first);
  CHECK(four.heap->blocks().size_of(first) == 0);
  for (void* other : others) {
    if (other == behind) CHECK(four.heap->blocks().size_of(other) == kMiB / 8);
    four.free(1, other);
  }
  CHECK(validate(*four.heap));
}

}  // namespace rdmalloc
