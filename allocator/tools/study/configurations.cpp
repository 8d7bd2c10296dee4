#include "allocator/tools/study/configurations.h"

#include <unistd.h>

#include "allocator/limits/options.h"
#include "allocator/tools/refusal.h"
#include "allocator/tools/run/option_flags.h"
#include "allocator/tools/text.h"

namespace rdmalloc::cli::study {
namespace {

constexpr const char* kCapVariable = "RDMALLOC_CAP";

Cap parse_cap(const std::string& text) {
  Amount amount;
  if (!parse_amount(os_text(text), &amount) || amount.unit == Amount::Unit::kPercentOfMemlock ||
      amount.value == 0) {
    throw Refusal("--caps: '" + text +
                  "' is no cap: give a share of the most that the program holds (50%) or bytes "
                  "with K, M, G or T (64M)");
  }
  return {text, amount.value, amount.unit == Amount::Unit::kPercentOfMemory};
}

const OptionInfo& find_option(const std::string& name, const std::string& assignment) {
  for (const OptionInfo& option : kOptions) {
    if (name == option.name || name == variable_name(option)) return option;
  }
  throw Refusal("--set " + assignment + ": there is no option '" + name +
                "': see rdmalloc options");
}

}  // namespace

uint64_t Cap::bytes_of(uint64_t peak_held) const {
  if (!is_share) return value;
  const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const auto share =
      static_cast<uint64_t>(static_cast<double>(peak_held) * static_cast<double>(value) / 100.0);
  return (share + page - 1) / page * page;
}

std::vector<Cap> parse_caps(const std::string& list) {
  std::vector<Cap> caps;
  if (list == "none") return caps;
  for (const std::string& word : parts_of(list, ',')) caps.push_back(parse_cap(word));
  return caps;
}

std::vector<Configuration> configurations_of(const std::vector<Allocator>& allocators) {
  std::vector<Configuration> all;
  for (const Allocator& allocator : allocators) {
    if (!allocator.ours) {
      all.push_back({allocator.name, allocator.name, allocator, false, {}, {}});
      continue;
    }
    all.push_back(
        {kUnpinnedName, "rdmalloc, not pinned", allocator, false, {}, {{kCapVariable, "0"}}});
    all.push_back({kPinnedName, "rdmalloc, pinned", allocator, true, {}, {}});
  }
  return all;
}

Configuration capped(const Allocator& ours, const Cap& cap, uint64_t peak_held) {
  const uint64_t bytes = cap.bytes_of(peak_held);
  std::string label = "rdmalloc, cap " + size_text(bytes);
  if (cap.is_share) label += " (" + std::to_string(cap.value) + " % of its peak)";
  return {std::string(kPinnedName) + "-" + cap.text, label, ours, true, bytes,
          {{kCapVariable, std::to_string(bytes)}}};
}

Configuration with_option(const Allocator& ours, const std::string& assignment) {
  const size_t equals = assignment.find('=');
  if (equals == std::string::npos) {
    throw Refusal("--set " + assignment + ": give NAME=VALUE, such as huge=thp");
  }
  const std::string name = assignment.substr(0, equals);
  const OptionInfo& option = find_option(name, assignment);
  const std::string value = assignment.substr(equals + 1);
  if (!is_valid(option.type, os_text(value))) {
    throw Refusal("--set " + assignment + ": invalid value '" + value + "': " + flag_usage(option));
  }
  const std::string setting = std::string(option.name) + "=" + value;
  return {std::string(kPinnedName) + "-" + setting, "rdmalloc, pinned, " + setting, ours, true, {},
          {{variable_name(option), value}}};
}

}  // namespace rdmalloc::cli::study
