// Words, figures and lines, as the command prints them.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rdmalloc::cli {

// As printf prints it; for figures and short sentences.
[[gnu::format(printf, 1, 2)]] std::string format(const char* pattern, ...);

// "a, b, c", or with `last` " or ", "a, b or c".
std::string joined(const std::vector<std::string>& words, const std::string& between = ", ",
                   const std::string& last = {});

// "1 event", "2 processes".
std::string count_text(uint64_t count, const std::string& thing);

// "64 MiB", "49.1 MiB", "1.18 GiB"; "unlimited" (os::kNoLimit).
std::string size_text(uint64_t bytes);

// The current time, as 2026-11-21T18:00:00Z.
std::string time_text();

// With a question mark for each byte that is not printable ASCII: a terminal would obey escape
// sequences in a name, and what UTF-8 it shows, and how wide, nobody can know.
std::string printable(std::string_view text);

// `text` with some characters written as others.
inline std::string escaped_by(
    const std::string& text,
    std::initializer_list<std::pair<char, std::string_view>> replacements) {
  std::string out;
  for (const char c : text) {
    const auto found =
        std::ranges::find(replacements, c, [](const auto& one) { return one.first; });
    out += found == replacements.end() ? std::string_view(&c, 1) : found->second;
  }
  return out;
}

std::vector<std::string> words_of(const std::string& text);

// The parts of a list such as "a,b".
std::vector<std::string> parts_of(const std::string& list, char separator);

// Lines of at most `width` columns from whole words, unless a word alone is longer.
std::vector<std::string> fill(const std::vector<std::string>& words, const std::string& gap,
                              size_t width);

// `text` broken at blanks into lines of at most `width` columns, each indented, newline at the end.
inline constexpr size_t kTextWidth = 79;
std::string wrap(const std::string& text, size_t indent, size_t width = kTextWidth);

// The number that is all of `text`, or nothing.
template <typename Number>
std::optional<Number> parse_number(std::string_view text, auto... base) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number, base...);
  return error == std::errc() && stop == end ? std::optional(number) : std::nullopt;
}

// The known word that is nearest to it, or "" where none is near.
std::string nearest_word(const std::string& word, const std::vector<std::string>& known);

}  // namespace rdmalloc::cli
