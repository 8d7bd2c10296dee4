// A page as text for a terminal, as roff for man, and the option table as Markdown.
#pragma once

#include <string>

#include "allocator/tools/manual_page.h"

namespace rdmalloc::cli {

// `text` broken at blanks into lines of at most `width` columns, each indented, newline at the end.
inline constexpr size_t kTextWidth = 79;
std::string wrap(const std::string& text, size_t indent, size_t width = kTextWidth);

std::string as_plain_text(const ManualPage& page);
std::string as_roff(const ManualPage& page);

// The options: variable, flag, default, meaning; and the same for a terminal.
std::string options_as_markdown();
std::string options_as_text();

}  // namespace rdmalloc::cli
