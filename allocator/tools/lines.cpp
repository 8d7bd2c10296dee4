#include "allocator/tools/lines.h"

#include <iterator>
#include <sstream>

namespace rdmalloc::cli {

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream words(text);
  return {std::istream_iterator<std::string>(words), {}};
}

std::vector<std::string> fill(const std::vector<std::string>& words, const std::string& gap,
                              size_t width) {
  std::vector<std::string> lines(1);
  for (const std::string& word : words) {
    const bool is_first = lines.back().empty();
    if (!is_first && lines.back().size() + gap.size() + word.size() > width) {
      lines.push_back(word);
    } else {
      lines.back() += is_first ? word : gap + word;
    }
  }
  return lines;
}

}  // namespace rdmalloc::cli
