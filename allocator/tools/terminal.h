// What may be written to a terminal and not to a pipe or a file: colour, a line that is rewritten,
// lines of the terminal's width.
#pragma once

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

namespace rdmalloc::cli {

enum class Colour { kRed = 31, kGreen = 32, kYellow = 33 };  // as terminals number them

// A terminal that obeys escape sequences.
inline bool is_screen(int descriptor) {
  const char* const type = getenv("TERM");
  const std::string_view name = type == nullptr ? "" : type;
  return isatty(descriptor) == 1 && !name.empty() && name != "dumb";
}

// NO_COLOR: see no-color.org.
inline bool has_colour(int descriptor) {
  const char* const refused = getenv("NO_COLOR");
  return is_screen(descriptor) && (refused == nullptr || *refused == '\0');
}

// `text` unchanged where there is no colour.
inline std::string coloured(const std::string& text, Colour colour, int descriptor) {
  if (!has_colour(descriptor)) return text;
  return "\033[" + std::to_string(static_cast<int>(colour)) + "m" + text + "\033[m";
}

// SIZE_MAX: no terminal, or one that does not tell.
inline size_t columns_of(int descriptor) {
  winsize size{};
  const bool is_told = isatty(descriptor) == 1 && ioctl(descriptor, TIOCGWINSZ, &size) == 0;
  return is_told && size.ws_col != 0 ? size.ws_col : SIZE_MAX;
}

}  // namespace rdmalloc::cli
