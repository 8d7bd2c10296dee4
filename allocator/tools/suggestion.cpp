#include "allocator/tools/suggestion.h"

#include <algorithm>
#include <numeric>

namespace rdmalloc::cli {
namespace {

// The fewest insertions, deletions, replacements, and swaps of neighbours that turn one word into
// the other (optimal string alignment).
size_t distance(const std::string& from, const std::string& to) {
  std::vector<size_t> before_last(to.size() + 1);
  std::vector<size_t> last(to.size() + 1);
  std::vector<size_t> now(to.size() + 1);
  std::iota(last.begin(), last.end(), 0);
  for (size_t i = 1; i <= from.size(); ++i) {
    now[0] = i;
    for (size_t j = 1; j <= to.size(); ++j) {
      const bool same = from[i - 1] == to[j - 1];
      now[j] = std::min({last[j] + 1, now[j - 1] + 1, last[j - 1] + (same ? 0 : 1)});
      if (i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1]) {
        now[j] = std::min(now[j], before_last[j - 2] + 1);
      }
    }
    std::swap(before_last, last);
    std::swap(last, now);
  }
  return last[to.size()];
}

}  // namespace

std::string nearest_word(const std::string& word, const std::vector<std::string>& known) {
  // Two typos in a long word, one in a short one; or an abbreviation.
  size_t least = word.size() > 5 ? 3 : 2;
  std::string nearest;
  for (const std::string& one : known) {
    const bool is_begun = word.size() > 3 && one.starts_with(word);
    const size_t slips = is_begun ? 1 : distance(word, one);
    if (slips >= least) continue;
    least = slips;
    nearest = one;
  }
  return nearest;
}

}  // namespace rdmalloc::cli
