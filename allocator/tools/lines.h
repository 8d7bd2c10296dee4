// Text broken into lines.
#pragma once

#include <string>
#include <vector>

namespace rdmalloc::cli {

std::vector<std::string> words_of(const std::string& text);

// Lines of at most `width` columns from whole words, unless a word alone is longer.
std::vector<std::string> fill(const std::vector<std::string>& words, const std::string& gap,
                              size_t width);

}  // namespace rdmalloc::cli
