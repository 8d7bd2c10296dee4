// A page as text for a terminal, as roff for man, the option table as Markdown, and the
// completion for bash.
#pragma once

#include <string>

#include "allocator/tools/manual_page.h"

namespace rdmalloc::cli {

std::string as_plain_text(const ManualPage& page);
std::string as_roff(const ManualPage& page);

// The options: variable, flag, default, meaning; and the same for a terminal.
std::string options_as_markdown();
std::string options_as_text();

// What bash needs to complete a line of the command: made from the command line's own tables, so
// that no flag can be forgotten.
std::string bash_completion(const CLI::App& app);

}  // namespace rdmalloc::cli
