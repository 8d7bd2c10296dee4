#include "allocator/limits/options.h"

#include "allocator/os/environment.h"
#include "allocator/report/file_name.h"

namespace rdmalloc {
namespace {

using os::Text;
using os::text;

constexpr char kPrefix[] = "RDMALLOC_";

bool parse_choice(Text value, const char* const* choices, size_t count, uint64_t* position) {
  for (size_t i = 0; i < count; ++i) {
    if (value == text(choices[i])) {
      *position = i;
      return true;
    }
  }
  return false;
}

bool parse_switch(Text value, uint64_t* on) {
  static constexpr const char* kWords[] = {"off", "on", "0", "1", "no", "yes", "false", "true"};
  if (!parse_choice(value, kWords, 8, on)) return false;
  *on %= 2;
  return true;
}

bool parse_full(Text value, uint64_t* choice) {
  static constexpr const char* kWord[] = {"full"};
  if (!parse_choice(value, kWord, 1, choice)) return false;
  *choice = kStatsFull;
  return true;
}

bool parse_number(Text value, uint64_t least, uint64_t* number) {
  constexpr uint64_t kMost = 65535;
  uint64_t sum = 0;
  if (value.size == 0) return false;
  for (size_t i = 0; i < value.size && sum <= kMost; ++i) {
    if (value.data[i] < '0' || value.data[i] > '9') return false;
    sum = sum * 10 + static_cast<uint64_t>(value.data[i] - '0');
  }
  if (sum < least || sum > kMost) return false;
  *number = sum;
  return true;
}

char upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }

bool is_variable(Text name, const char* option) {
  const Text lower = text(option);
  if (name.size != lower.size) return false;
  for (size_t i = 0; i < name.size; ++i) {
    if (name.data[i] != upper(lower.data[i])) return false;
  }
  return true;
}

bool parse_value(OptionType type, Text value, Amount* amount) {
  if (const Choices choices = choices_of(type); choices.count != 0) {
    return parse_choice(value, choices.names, choices.count, &amount->value);
  }
  switch (type) {
    case OptionType::kAmount:
      return parse_amount(value, amount);
    case OptionType::kSwitch:
      return parse_switch(value, &amount->value);
    case OptionType::kStats:
      return parse_switch(value, &amount->value) || parse_full(value, &amount->value);
    case OptionType::kNumber:
      return parse_number(value, 1, &amount->value);
    case OptionType::kSeconds:
      return parse_number(value, 0, &amount->value);
    case OptionType::kCpus: {
      os::Processors ignored;
      return parse_processors(value, &ignored);
    }
    case OptionType::kPath:
      return value.size < Options::kLongestPath && is_file_name(value);
    default:
      return false;
  }
}

}  // namespace

const OptionInfo kOptions[kOptionCount] = {
#define OPTION(name, type, fallback, help) {#name, kPrefix, OptionType::type, fallback, help},
#include "allocator/limits/options.def"
#undef OPTION
};

uint64_t Amount::resolve(uint64_t memory, uint64_t memlock) const {
  if (unit == Unit::kBytes) return value;
  const uint64_t whole = unit == Unit::kPercentOfMemory ? memory : memlock;
  if (whole == UINT64_MAX) return whole;
  return static_cast<uint64_t>(static_cast<unsigned __int128>(whole) * value / 100);
}

bool parse_amount(Text from, Amount* amount) {
  uint64_t number = 0;
  Text rest;
  if (!parse_decimal(from, &number, &rest)) return false;
  if (rest.size > 0 && rest.data[0] == '%') {
    const Text of = rest.drop(1);
    const bool memlock = of == text("memlock");
    if (number > 100 || (of.size > 0 && !memlock)) return false;
    *amount = {number, memlock ? Amount::Unit::kPercentOfMemlock : Amount::Unit::kPercentOfMemory};
    return true;
  }
  unsigned shift = 0;
  if (rest.size > 0) {
    static constexpr char kUnits[] = "KMGT";
    const void* unit = memchr(kUnits, upper(rest.data[0]), sizeof kUnits - 1);
    if (unit == nullptr) return false;
    shift = 10 * static_cast<unsigned>(static_cast<const char*>(unit) - kUnits + 1);
    rest = rest.drop(1);
    if (!(rest.size == 0 || rest == text("B") || rest == text("iB"))) return false;
  }
  if (number > (UINT64_MAX >> shift)) return false;
  *amount = {number << shift, Amount::Unit::kBytes};
  return true;
}

bool parse_processors(Text from, os::Processors* processors) {
  *processors = {};
  if (from == text("inherit")) return true;
  if (from == text("all")) {
    for (uint64_t& word : processors->bits) word = ~uint64_t{0};
    return true;
  }
  for (;;) {
    uint64_t first = 0;
    if (!os::parse_decimal(from, &first, &from)) return false;
    uint64_t last = first;
    if (from.size > 0 && from.data[0] == '-' && !os::parse_decimal(from.drop(1), &last, &from)) {
      return false;
    }
    if (first > last || last >= os::kMostProcessors) return false;
    for (uint64_t i = first; i <= last; ++i) processors->add(i);
    if (from.size == 0) return true;
    if (from.data[0] != ',') return false;
    from = from.drop(1);
  }
}

Choices choices_of(OptionType type) {
  static constexpr const char* kHuge[] = {"auto", "off", "thp", "hugetlb"};
  static constexpr const char* kNuma[] = {"first-touch", "local", "off"};
  static constexpr const char* kMonitor[] = {"auto", "userfaultfd", "interposed", "none"};
  static constexpr const char* kPopulate[] = {"auto", "touch", "now"};
  static constexpr const char* kGather[] = {"auto", "off", "always"};
  static constexpr const char* kSparse[] = {"calloc", "malloc"};
  static constexpr const char* kSandbox[] = {"auto", "on", "off"};
  const auto all = []<size_t kCount>(const char* const(&names)[kCount]) {
    return Choices{names, kCount};
  };
  switch (type) {
    case OptionType::kHuge:
      return all(kHuge);
    case OptionType::kNuma:
      return all(kNuma);
    case OptionType::kMonitor:
      return all(kMonitor);
    case OptionType::kPopulate:
      return all(kPopulate);
    case OptionType::kGather:
      return all(kGather);
    case OptionType::kSparse:
      return all(kSparse);
    case OptionType::kSandbox:
      return all(kSandbox);
    default:
      return {};
  }
}

bool is_valid(OptionType type, Text value) {
  Amount ignored;
  return parse_value(type, value, &ignored);
}

const char* objection_to_path(Text value) {
  return is_file_name(value) ? "a shorter path is needed" : kFileNameHelp;
}

bool Options::set(OptionId id, Text value) {
  const auto index = static_cast<size_t>(id);
  Amount amount;
  if (!parse_value(kOptions[index].type, value, &amount)) return false;
  amounts_[index] = amount;
  if (kOptions[index].type == OptionType::kCpus) (void)parse_processors(value, &processors_);
  if (kOptions[index].type == OptionType::kPath) {
    char* path = paths_[path_index(id)];
    memcpy(path, value.data, value.size);
    path[value.size] = '\0';
  }
  return true;
}

void Options::complain(Text entry, const char* why) {
  const auto append = [this](Text piece) {
    const size_t room = sizeof warning_ - 1 - warning_size_;
    const size_t taken = piece.size < room ? piece.size : room;
    memcpy(warning_ + warning_size_, piece.data, taken);
    warning_size_ += taken;
  };
  append(text(warning_size_ == 0 ? "rdmalloc: ignored " : ", "));
  append({entry.data, entry.size < 80 ? entry.size : 80});
  append(text(" ("));
  append(text(why));
  append(text(")"));
}

void Options::load_entry(Text entry) {
  const void* equals = memchr(entry.data, '=', entry.size);
  if (equals == nullptr) return;
  constexpr size_t kSkip = sizeof kPrefix - 1;
  const auto name_size = static_cast<size_t>(static_cast<const char*>(equals) - entry.data);
  const Text name{entry.data + kSkip, name_size - kSkip};
  for (size_t i = 0; i < kOptionCount; ++i) {
    if (!is_variable(name, kOptions[i].name)) continue;
    const Text value = entry.drop(name_size + 1);
    is_given_[i] = set(static_cast<OptionId>(i), value);
    if (is_given_[i]) return;
    const bool is_path = kOptions[i].type == OptionType::kPath;
    complain(entry, is_path ? objection_to_path(value) : "malformed, default kept");
    return;
  }
  complain(entry, "unknown option");
}

void Options::load() {
  for (size_t i = 0; i < kOptionCount; ++i) {
    (void)set(static_cast<OptionId>(i), text(kOptions[i].fallback));
  }
  os::for_each_environment(
      kPrefix, [](void* self, Text entry) { static_cast<Options*>(self)->load_entry(entry); },
      this);
}

}  // namespace rdmalloc
