#include "allocator/tools/study/process_tree.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>

#include "allocator/tools/top/process_status.h"

namespace rdmalloc::cli::study {

ProcessTree::ProcessTree() : self_(getpid()), last_number_(0, "loadavg") {
  prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  update();
}

bool ProcessTree::may_have_grown() const {
  const uint64_t number = parse_last_number(last_number_.read());
  return number == 0 || number != seen_number_;
}

// As long as process numbers grow, a parent is seen before its children. After they wrap around, a
// child may come first, and is found through its ancestors.
bool ProcessTree::is_new_member(pid_t pid) {
  if (const auto found = known_.find(pid); found != known_.end()) return false;
  std::vector<pid_t> line{pid};
  bool ours = false;
  while (line.size() < 64) {
    const std::optional<ProcStat> stat = parse_stat(ProcFile(line.back(), "stat").read());
    if (!stat || stat->parent <= 1) {
      ours = stat && stat->parent == self_;
      break;
    }
    const auto parent = known_.find(stat->parent);
    if (stat->parent == self_ || parent != known_.end()) {
      ours = stat->parent == self_ || parent->second;
      break;
    }
    line.push_back(stat->parent);
  }
  known_[pid] = ours;
  return ours;
}

std::vector<pid_t> ProcessTree::update() {
  seen_number_ = parse_last_number(last_number_.read());
  std::vector<pid_t> all = process_numbers("/proc").value_or(std::vector<pid_t>());
  std::ranges::sort(all);
  std::erase_if(known_,
                [&](const auto& entry) { return !std::ranges::binary_search(all, entry.first); });
  std::vector<pid_t> fresh;
  for (const pid_t pid : all) {
    if (pid != self_ && is_new_member(pid)) fresh.push_back(pid);
  }
  return fresh;
}

std::vector<pid_t> ProcessTree::members() const {
  std::vector<pid_t> members;
  for (const auto& [pid, ours] : known_) {
    if (ours) members.push_back(pid);
  }
  return members;
}

}  // namespace rdmalloc::cli::study
