// What was probably meant by a word that is not known.
#pragma once

#include <string>
#include <vector>

namespace rdmalloc::cli {

// The known word that is nearest to it, or "" where none is near.
std::string nearest_word(const std::string& word, const std::vector<std::string>& known);

}  // namespace rdmalloc::cli
