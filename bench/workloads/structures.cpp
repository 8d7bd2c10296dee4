// Small objects through operator new, as C++ programs use it: containers, trees, lists.
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "bench/workloads/meter.h"

namespace rdmalloc::bench {
namespace {

struct Tree {
  std::unique_ptr<Tree> left;
  std::unique_ptr<Tree> right;
};

std::unique_ptr<Tree> grow(int depth) {
  auto tree = std::make_unique<Tree>();
  if (depth > 0) {
    tree->left = grow(depth - 1);
    tree->right = grow(depth - 1);
  }
  return tree;
}

struct Link {
  Link* next;
  char payload[40];
};

std::string word(Random& random) {
  return std::string(random.between(4, 60), static_cast<char>('a' + random.below(26))) +
         std::to_string(random.below(100'000));
}

}  // namespace

void run_containers(const Arguments& arguments, Meter& meter) {
  Random random(2);
  const size_t rounds = arguments.repeat(12);
  meter.start();
  for (size_t round = 0; round < rounds; ++round) {
    std::map<std::string, std::vector<int>> index;
    std::unordered_map<uint64_t, std::string> names;
    for (size_t i = 0; i < 40'000; ++i) {
      index[word(random)].push_back(static_cast<int>(i));
      names[random.below(60'000)] = word(random);
      if (i % 3 == 0) names.erase(random.below(60'000));
    }
    for (auto& [key, lines] : index) lines.resize(lines.size() + key.size() % 8);
    keep(&index);
    keep(&names);
  }
  meter.stop();
}

// The binary-trees benchmark: a long-lived tree, and short-lived ones of every depth up to its own.
void run_trees(const Arguments& arguments, Meter& meter) {
  const int deepest = arguments.short_form ? 12 : 18;
  meter.start();
  const auto kept = grow(deepest);
  for (int depth = 4; depth <= deepest; depth += 2) {
    for (int count = 1 << (deepest - depth); count > 0; --count) keep(grow(depth).get());
  }
  keep(kept.get());
  meter.stop();
}

// Lists that are built and torn down as a whole: every slab fills, and every slab empties.
void run_lists(const Arguments& arguments, Meter& meter) {
  constexpr size_t kLinks = 200'000;
  const size_t rounds = arguments.repeat(60);
  meter.start();
  for (size_t round = 0; round < rounds; ++round) {
    Link* head = nullptr;
    for (size_t i = 0; i < kLinks; ++i) head = new Link{head, {}};
    while (head != nullptr) {
      Link* next = head->next;
      delete head;
      head = next;
    }
  }
  meter.stop();
}

}  // namespace rdmalloc::bench
