// A page as text for a terminal, as roff for man, and the option table as Markdown.
#pragma once

#include <string>

#include "allocator/tools/manual_page.h"

namespace rdmalloc::cli {

std::string as_plain_text(const ManualPage& page);
std::string as_roff(const ManualPage& page);

// The options: variable, flag, default, meaning; and the same for a terminal.
std::string options_as_markdown();
std::string options_as_text();

}  // namespace rdmalloc::cli
