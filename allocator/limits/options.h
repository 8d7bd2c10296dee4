// The options of a process: one table (options.def), parsed from RDMALLOC_* at the first malloc.
// Parsing allocates nothing and runs before libc is initialised. Afterwards the values are read
// only, from any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "allocator/os/file.h"
#include "allocator/os/processor.h"

namespace rdmalloc {

enum class OptionType : uint8_t {
  kAmount,
  kSwitch,
  kStats,
  kHuge,
  kNuma,
  kNumber,
  kMonitor,
  kPath,
  kPopulate,
  kGather,
  kSeconds,
  kSandbox,
  kSparse,
  kCpus
};

enum class OptionId : uint8_t {
#define OPTION(name, type, fallback, help) name,
#include "allocator/limits/options.def"
#undef OPTION
  kCount
};

struct OptionInfo {
  const char* name;    // as in the table: lower case, underscores
  const char* prefix;  // the variable is this and the upper-case name
  OptionType type;
  const char* fallback;
  const char* help;
};

// The table, in order; kOptionCount entries.
inline constexpr size_t kOptionCount = static_cast<size_t>(OptionId::kCount);
extern const OptionInfo kOptions[kOptionCount];

// Bytes, or a share of something that is known only at run time.
struct Amount {
  enum class Unit : uint8_t { kBytes, kPercentOfMemory, kPercentOfMemlock };
  uint64_t value = 0;
  Unit unit = Unit::kBytes;

  // In bytes, saturating. A share of no limit is no limit.
  uint64_t resolve(uint64_t memory, uint64_t memlock) const;
};

class Options {
 public:
  static constexpr size_t kLongestPath = 1024;
  static constexpr size_t kLongestWarning = 1024;

  constexpr Options() = default;

  // Loads the defaults, then the environment. An unknown or malformed option keeps its default and
  // is named in warning(): one line, empty when all is well.
  void load();

  // Sets one option from text; false, and nothing changed, when it is malformed.
  bool set(OptionId id, os::Text value);

  Amount amount(OptionId id) const { return amounts_[static_cast<size_t>(id)]; }
  bool on(OptionId id) const { return amounts_[static_cast<size_t>(id)].value != 0; }
  // For kHuge, kNuma, kMonitor, kPopulate, kGather, kSandbox and kSparse: the position of the value
  // among the choices, as written in the table. For kNumber and kSeconds: itself.
  uint64_t choice(OptionId id) const { return amounts_[static_cast<size_t>(id)].value; }
  // The environment has a value for it, so the user chose it.
  bool is_given(OptionId id) const { return is_given_[static_cast<size_t>(id)]; }
  // The value of thread_cpus; none: a thread may run where the thread that starts it may.
  const os::Processors& processors() const { return processors_; }
  const char* path(OptionId id) const { return paths_[path_index(id)]; }
  const char* warning() const { return warning_; }

 private:
  static size_t path_index(OptionId id) { return id == OptionId::report ? 0 : 1; }
  void load_entry(os::Text entry);
  void complain(os::Text entry, const char* why);

  Amount amounts_[kOptionCount] = {};
  bool is_given_[kOptionCount] = {};
  char paths_[2][kLongestPath] = {};
  os::Processors processors_;
  char warning_[kLongestWarning] = {};
  size_t warning_size_ = 0;
};

inline constexpr uint64_t kHugeAuto = 0;
inline constexpr uint64_t kHugeOff = 1;
inline constexpr uint64_t kHugeThp = 2;
inline constexpr uint64_t kHugeHugetlb = 3;
inline constexpr uint64_t kNumaFirstTouch = 0;
inline constexpr uint64_t kNumaLocal = 1;
inline constexpr uint64_t kNumaOff = 2;
inline constexpr uint64_t kPopulateAuto = 0;
inline constexpr uint64_t kPopulateTouch = 1;
inline constexpr uint64_t kPopulateNow = 2;
inline constexpr uint64_t kGatherAuto = 0;
inline constexpr uint64_t kGatherOff = 1;
inline constexpr uint64_t kGatherAlways = 2;
inline constexpr uint64_t kStatsFull = 2;

inline constexpr uint64_t kSparseCalloc = 0;
inline constexpr uint64_t kSparseMalloc = 1;
inline constexpr uint64_t kSandboxAuto = 0;
inline constexpr uint64_t kSandboxOn = 1;
inline constexpr uint64_t kSandboxOff = 2;

// The values that an option of that type may have, if the type lists them.
struct Choices {
  const char* const* names = nullptr;
  size_t count = 0;  // 0: it lists none
};
Choices choices_of(OptionType type);

// True when the text is a valid value of that type. For the command, which must report errors
// early.
bool is_valid(OptionType type, os::Text value);

// What is wrong with an invalid file name.
const char* objection_to_path(os::Text value);

// Parses "inherit" (none), "all", or a list such as "0-3,8". On failure `*processors` is
// unspecified.
bool parse_processors(os::Text from, os::Processors* processors);

// Parses bytes ("64K", "4G") or a share ("50%", "25%memlock").
bool parse_amount(os::Text from, Amount* amount);

}  // namespace rdmalloc
