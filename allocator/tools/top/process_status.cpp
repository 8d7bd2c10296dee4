#include "allocator/tools/top/process_status.h"

#include <linux/capability.h>

#include <charconv>

#include "allocator/os/limits.h"

namespace rdmalloc::cli {
namespace {

// Cuts off the first line. After the last one, nothing is left.
std::string_view take_line(std::string_view* text) {
  const size_t end = text->find('\n');
  const std::string_view line = text->substr(0, end);
  text->remove_prefix(end == std::string_view::npos ? text->size() : end + 1);
  return line;
}

// Cuts off the first word and the blanks before it.
std::string_view take_word(std::string_view* line) {
  const size_t start = line->find_first_not_of(" \t");
  if (start == std::string_view::npos) return *line = {};
  const size_t end = line->find_first_of(" \t", start);
  const std::string_view word = line->substr(start, end - start);
  line->remove_prefix(end == std::string_view::npos ? line->size() : end);
  return word;
}

std::optional<uint64_t> parse_number(std::string_view word, int base = 10) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number, base);
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return number;
}

// "   1234 kB", in bytes.
std::optional<uint64_t> parse_kib(std::string_view value) {
  const auto kib = parse_number(take_word(&value));
  if (!kib || *kib > UINT64_MAX >> 10) return std::nullopt;
  return *kib << 10;
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

void parse_line(std::string_view key, std::string_view value, ProcessStatus* out) {
  if (key == "State") {
    const std::string_view state = take_word(&value);
    out->has_ended = state == "Z" || state == "X";
  } else if (key == "Uid") {
    out->user = parse_number(take_word(&value)).value_or(0);
    out->effective_user = parse_number(take_word(&value)).value_or(out->user);
  } else if (key == "VmRSS") {
    out->resident = parse_kib(value);
  } else if (key == "VmLck") {
    out->locked = parse_kib(value);
  } else if (key == "VmPin") {
    out->pinned = parse_kib(value);
  } else if (key == "CapEff") {
    const uint64_t set = parse_number(take_word(&value), 16).value_or(0);
    out->may_lock_all = (set >> CAP_IPC_LOCK & 1) != 0;
  }
}

}  // namespace

std::optional<ProcessStatus> parse_status(std::string_view text) {
  constexpr std::string_view kName = "Name:\t";
  const std::string_view name = take_line(&text);
  if (!name.starts_with(kName)) return std::nullopt;
  ProcessStatus status;
  status.name = unescaped(name.substr(kName.size()));
  bool has_user = false;
  while (!text.empty()) {
    const std::string_view line = take_line(&text);
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const std::string_view key = line.substr(0, colon);
    has_user = has_user || key == "Uid";
    parse_line(key, line.substr(colon + 1), &status);
  }
  if (!has_user) return std::nullopt;
  return status;
}

std::optional<uint64_t> parse_memlock(std::string_view limits) {
  constexpr std::string_view kTitle = "Max locked memory";
  while (!limits.empty()) {
    std::string_view line = take_line(&limits);
    if (!line.starts_with(kTitle)) continue;
    line.remove_prefix(kTitle.size());
    const std::string_view soft = take_word(&line);
    if (soft == "unlimited") return os::kNoLimit;
    return parse_number(soft);
  }
  return std::nullopt;
}

}  // namespace rdmalloc::cli
