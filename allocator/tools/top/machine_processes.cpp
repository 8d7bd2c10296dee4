#include "allocator/tools/top/machine_processes.h"

#include <errno.h>
#include <pwd.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <map>

#include "allocator/tools/child.h"
#include "allocator/tools/refusal.h"
#include "allocator/tools/text.h"

namespace rdmalloc::cli {
namespace {

// Looks each name up only once: a lookup may query a directory service.
class UserNames {
 public:
  const std::string& of(uint64_t user) {
    const auto [place, is_new] = names_.try_emplace(user);
    if (is_new) place->second = look_up(user);
    return place->second;
  }

 private:
  static std::string look_up(uint64_t user) {
    const passwd* entry = getpwuid(static_cast<uid_t>(user));
    return entry == nullptr ? std::to_string(user) : printable(entry->pw_name);
  }

  std::map<uint64_t, std::string> names_;
};

class Scanner {
 public:
  Scanner(const std::string& proc, const ProcessFilter& filter,
          const std::function<bool(pid_t)>& is_known, const ReadCounters& read)
      : proc_(proc), filter_(filter), is_known_(is_known), read_(read) {}

  MachineScan scan() {
    const auto all = process_numbers(proc_);
    if (!all) throw Refusal("cannot read " + proc_ + ": " + strerror(errno));
    for (const pid_t number : filter_.numbers.empty() ? *all : filter_.numbers) look_at(number);
    return std::move(found_);
  }

 private:
  void look_at(pid_t number) {
    const auto text = read_file(number, "status");
    if (!text) return;
    ++found_.seen;
    auto status = text->empty() ? std::nullopt : parse_status(*text);
    if (!status) {
      ++found_.unreadable;
      return;
    }
    if (filter_.user && *filter_.user != status->user && *filter_.user != status->effective_user) {
      return;
    }
    add({number, std::move(*status), {}, {}, {}, {}, {}});
  }

  void add(MachineProcess one) {
    // Kernel threads have no memory, and so no counters.
    if (one.status.resident) one.counters = read_(one.number);
    const bool is_asked_for = filter_.all || !filter_.numbers.empty();
    const bool is_of_note = one.weight() != 0 || one.counters || is_known_(one.number);
    if (!is_asked_for && !is_of_note) return;
    one.user = users_.of(one.status.effective_user);
    if (const auto limits = read_file(one.number, "limits")) one.memlock = parse_memlock(*limits);
    found_.processes.push_back(std::move(one));
  }

  // Empty: the file exists but we may not read it. Nothing: the process does not exist (any more).
  std::optional<std::string> read_file(pid_t number, const char* name) const {
    errno = 0;
    std::string text = cli::read_file(proc_ + "/" + std::to_string(number) + "/" + name);
    const bool is_forbidden = errno == EACCES || errno == EPERM;
    return text.empty() && !is_forbidden ? std::nullopt : std::optional(std::move(text));
  }

  const std::string& proc_;
  const ProcessFilter& filter_;
  const std::function<bool(pid_t)>& is_known_;
  const ReadCounters& read_;
  UserNames users_;
  MachineScan found_;
};

}  // namespace

std::string objection_to_process(const std::string& text) {
  if (parse_process(text)) return {};
  return "invalid value '" + printable(text) + "': use a process id";
}

std::optional<ProcessCounters> read_counters(pid_t process) {
  const auto reader = CounterReader::open(process);
  if (!reader) return std::nullopt;
  return reader->read();
}

MachineScan scan_processes(const std::string& proc, const ProcessFilter& filter,
                           const std::function<bool(pid_t)>& is_known, const ReadCounters& read) {
  return Scanner(proc, filter, is_known, read).scan();
}

bool hides_processes() {
  if (geteuid() == 0) return false;
  return std::ranges::any_of(parts_of(read_file("/proc/self/mountinfo"), '\n'),
                             [](const std::string& mount) {
                               return mount.find(" /proc ") != std::string::npos &&
                                      mount.find("hidepid=") != std::string::npos;
                             });
}

}  // namespace rdmalloc::cli
