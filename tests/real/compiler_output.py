#!/usr/bin/env python3
"""g++: the assembly, the object file and the linked program are the same to the byte."""

from side_by_side import check_books, check_same, run_both
from verdict import check, need, test_in_folder

SOURCE = r"""
#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>
template <int N> struct Tree {
  std::map<std::string, std::variant<int, std::string, std::vector<Tree<N - 1>>>> children;
  int depth() const { return 1 + Tree<N - 1>{}.depth(); }
};
template <> struct Tree<0> { int depth() const { return 1; } };
int main() {
  Tree<8> tree;
  std::unordered_map<std::string, std::vector<int>> index;
  std::istringstream words("the quick brown fox jumps over the lazy dog and the fox runs");
  std::string word;
  for (int i = 0; words >> word; ++i) index[word].push_back(i);
  std::map<std::string, std::function<int(int)>> run{{"the", [](int x) { return x + 1; }}};
  std::vector<std::string> found;
  for (const auto& [key, where] : index)
    if (key.front() == 'f' || key.front() == 'q') found.push_back(key);
  std::sort(found.begin(), found.end());
  for (const auto& key : found) std::cout << key << ' ' << index[key].size() << '\n';
  std::cout << tree.depth() << ' ' << run["the"](1) << std::endl;
}
"""

SCRIPT = r"""
set -eu
g++ -std=c++17 -O2 -S -o program.s program.cpp
g++ -std=c++17 -O1 -g -c -o program.o program.cpp
g++ -o program program.o
g++ -std=c++17 -O0 -pipe -o quick program.cpp
./program
./quick
sha256sum program.s program.o program quick
! g++ -std=c++17 -fsyntax-only -D'main()=main(' program.cpp 2> errors
wc -l < errors
"""


def prepare(folder):
    (folder / "program.cpp").write_text(SOURCE)


def compiler(folder):
    need("g++")
    plain, other = run_both([need("dash"), "-c", SCRIPT], folder, prepare=prepare)
    check_same(plain, other)
    check(plain.status == 0, f"g++ failed: {plain.errors.decode()}")
    names = {note["name"] for note in other.processes.values()}
    check({"cc1plus", "as", "ld"} <= {name.removeprefix("x86_64-linux-gnu-") for name in names}
          or not names, f"not all of the compiler's processes were seen: {names}")
    check_books(other, least_held=8 << 20)


test_in_folder(compiler)
