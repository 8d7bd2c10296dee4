#include "allocator/tools/text.h"

#include <array>
#include <cstdarg>
#include <cstdio>
#include <ctime>
#include <iterator>
#include <numeric>
#include <sstream>

#include "allocator/os/limits.h"

namespace rdmalloc::cli {
namespace {

// The fewest insertions, deletions, replacements, and swaps of neighbours that turn one word into
// the other (optimal string alignment).
size_t distance(const std::string& from, const std::string& to) {
  std::vector slips(from.size() + 1, std::vector<size_t>(to.size() + 1));
  for (size_t i = 0; i <= from.size(); ++i) slips[i][0] = i;
  std::iota(slips[0].begin(), slips[0].end(), 0);
  for (size_t i = 1; i <= from.size(); ++i) {
    for (size_t j = 1; j <= to.size(); ++j) {
      const size_t replaced = slips[i - 1][j - 1] + (from[i - 1] == to[j - 1] ? 0 : 1);
      slips[i][j] = std::min({slips[i - 1][j] + 1, slips[i][j - 1] + 1, replaced});
      if (i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1]) {
        slips[i][j] = std::min(slips[i][j], slips[i - 2][j - 2] + 1);
      }
    }
  }
  return slips.back().back();
}

}  // namespace

std::string format(const char* pattern, ...) {
  std::array<char, 512> text{};
  va_list arguments;
  va_start(arguments, pattern);
  // NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): clang 14 does not know va_start here
  vsnprintf(text.data(), text.size(), pattern, arguments);
  va_end(arguments);
  return text.data();
}

std::string joined(const std::vector<std::string>& words, const std::string& between,
                   const std::string& last) {
  std::string all;
  for (const std::string& word : words) {
    const bool is_last = &word == &words.back() && !last.empty();
    if (&word != &words.front()) all += is_last ? last : between;
    all += word;
  }
  return all;
}

std::string count_text(uint64_t count, const std::string& thing) {
  const char* const ending = count == 1 ? "" : thing.ends_with('s') ? "es" : "s";
  return std::to_string(count) + " " + thing + ending;
}

std::string size_text(uint64_t bytes) {
  if (bytes == os::kNoLimit) return "unlimited";
  constexpr std::array kUnits{"bytes", "KiB", "MiB", "GiB", "TiB", "PiB"};
  auto amount = static_cast<double>(bytes);
  size_t unit = 0;
  for (; amount >= 1024 && unit + 1 < kUnits.size(); ++unit) amount /= 1024;
  const bool is_whole = amount == static_cast<double>(static_cast<uint64_t>(amount));
  const int digits = is_whole || amount >= 100 ? 0 : amount >= 10 ? 1 : 2;
  return format("%.*f %s", digits, amount, kUnits.at(unit));
}

std::string time_text() {
  const time_t now = time(nullptr);
  tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

std::string printable(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c < ' ' || c > '~') c = '?';
  }
  return out;
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream words(text);
  return {std::istream_iterator<std::string>(words), {}};
}

std::vector<std::string> parts_of(const std::string& list, char separator) {
  std::vector<std::string> parts;
  std::istringstream text(list);
  for (std::string part; std::getline(text, part, separator);) parts.push_back(part);
  return parts;
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

std::string wrap(const std::string& text, size_t indent, size_t width) {
  std::string out;
  for (const std::string& line : fill(words_of(text), " ", width - indent)) {
    out += std::string(indent, ' ') + line + "\n";
  }
  return out;
}

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
