#include "allocator/tools/top/process_status.h"

#include <dirent.h>
#include <linux/capability.h>
#include <unistd.h>

#include <algorithm>

#include "allocator/os/limits.h"
#include "allocator/tools/text.h"

namespace rdmalloc::cli {
namespace {

uint64_t take_number(std::string_view* text, int base = 10) {
  return parse_number<uint64_t>(take_word(text), base).value_or(0);
}

// In a name the kernel writes a newline as \n and doubles backslashes.
std::string unescaped(std::string_view name) {
  std::string out;
  for (size_t i = 0; i < name.size(); ++i) {
    const bool is_escape = name[i] == '\\' && i + 1 < name.size();
    if (is_escape) ++i;
    out += is_escape && name[i] == 'n' ? '\n' : name[i];
  }
  return out;
}

// Fields of /proc/PID/stat after the name; the state is 0 (proc(5) counts it as 3).
constexpr int kParent = 1;
constexpr int kMinorFaults = 7;
constexpr int kMajorFaults = 9;
constexpr int kStart = 19;
constexpr int kStartOfStack = 25;

}  // namespace

std::string_view take_word(std::string_view* text) {
  const size_t start = text->find_first_not_of(" \t\n");
  if (start == std::string_view::npos) return *text = {};
  const size_t end = std::min(text->find_first_of(" \t\n", start), text->size());
  const std::string_view word = text->substr(start, end - start);
  text->remove_prefix(end);
  return word;
}

std::optional<std::string_view> line_after(std::string_view text, std::string_view key) {
  for (size_t at = text.find(key); at != std::string_view::npos; at = text.find(key, at + 1)) {
    if (at != 0 && text[at - 1] != '\n') continue;
    text.remove_prefix(at + key.size());
    return text.substr(0, text.find('\n'));
  }
  return std::nullopt;
}

std::optional<uint64_t> parse_kib_line(std::string_view text, std::string_view key) {
  auto line = line_after(text, key);
  const auto kib = line ? parse_number<uint64_t>(take_word(&*line)) : std::nullopt;
  if (!kib || *kib > UINT64_MAX >> 10) return std::nullopt;
  return *kib << 10;
}

std::optional<pid_t> parse_process(std::string_view text) {
  const auto number = parse_number<pid_t>(text);
  return number && *number > 0 ? number : std::nullopt;
}

std::optional<std::vector<pid_t>> process_numbers(const std::string& proc) {
  DIR* const folder = opendir(proc.c_str());
  if (folder == nullptr) return std::nullopt;
  std::vector<pid_t> numbers;
  while (const dirent* entry = readdir(folder)) {
    if (const auto number = parse_process(entry->d_name)) numbers.push_back(*number);
  }
  closedir(folder);
  return numbers;
}

std::optional<ProcessStatus> parse_status(std::string_view text) {
  constexpr std::string_view kName = "Name:\t";
  auto users = line_after(text, "Uid:");
  if (!text.starts_with(kName) || !users) return std::nullopt;
  ProcessStatus status;
  status.name = unescaped(*line_after(text, kName));
  status.user = take_number(&*users);
  status.effective_user = parse_number<uint64_t>(take_word(&*users)).value_or(status.user);
  status.resident = parse_kib_line(text, "VmRSS:");
  status.locked = parse_kib_line(text, "VmLck:");
  status.pinned = parse_kib_line(text, "VmPin:");
  auto state = line_after(text, "State:").value_or("");
  const std::string_view letter = take_word(&state);
  status.has_ended = letter == "Z" || letter == "X";
  auto capabilities = line_after(text, "CapEff:").value_or("");
  status.may_lock_all = (take_number(&capabilities, 16) >> CAP_IPC_LOCK & 1) != 0;
  return status;
}

ProcMemory parse_memory(std::string_view statm) {
  static const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  ProcMemory memory;
  memory.mapped = take_number(&statm);
  memory.resident = take_number(&statm) * page;
  return memory;
}

std::optional<ProcStat> parse_stat(std::string_view stat) {
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string_view::npos) return std::nullopt;
  stat.remove_prefix(name_end + 1);
  ProcStat result;
  const std::string_view state = take_word(&stat);
  if (state.size() != 1) return std::nullopt;
  result.state = state[0];
  for (int i = 1; i <= kStartOfStack; ++i) {
    const std::string_view word = take_word(&stat);
    if (word.empty()) return std::nullopt;
    const uint64_t number = parse_number<uint64_t>(word).value_or(0);
    if (i == kParent) result.parent = static_cast<pid_t>(number);
    if (i == kMinorFaults) result.minor_faults = number;
    if (i == kMajorFaults) result.major_faults = number;
    if (i == kStart) result.start = number;
    if (i == kStartOfStack) result.image = number;
  }
  return result;
}

uint64_t parse_last_number(std::string_view loadavg) {
  for (int i = 0; i < 4; ++i) (void)take_word(&loadavg);
  return take_number(&loadavg);
}

std::optional<uint64_t> parse_memlock(std::string_view limits) {
  auto line = line_after(limits, "Max locked memory");
  const std::string_view soft = line ? take_word(&*line) : "";
  return soft == "unlimited" ? os::kNoLimit : parse_number<uint64_t>(soft);
}

}  // namespace rdmalloc::cli
