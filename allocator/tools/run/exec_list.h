#pragma once

#include <string>
#include <vector>

namespace rdmalloc::cli {

// The words as exec takes them, a null pointer behind; they live as long as `words`.
inline std::vector<char*> exec_list(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  // exec's type says that it may write to them: it does not.
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace rdmalloc::cli
