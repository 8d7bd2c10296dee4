// `rdmalloc top`: who on this machine has pinned how much, and who has more than it should.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace rdmalloc::cli {

struct TopRequest {
  bool all = false;
  std::vector<int> processes;
  std::string user;
  bool is_watched = false;
  double seconds = 1;  // between two looks
};

// `request` must outlive the App. A malformed value is a parse error that says what is well-formed.
void add_top_flags(CLI::App& command, TopRequest& request);

// Prints what there is, or shows it until it is told to stop. Throws Refusal when nothing can be
// seen.
int top(const TopRequest& request, bool json);

}  // namespace rdmalloc::cli
