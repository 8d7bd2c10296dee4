// What bash needs to complete a line of the command: made from the command line's own tables, so
// that no flag can be forgotten.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace rdmalloc::cli {

std::string bash_completion(const CLI::App& app);

}  // namespace rdmalloc::cli
