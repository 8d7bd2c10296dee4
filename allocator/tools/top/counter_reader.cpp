#include "allocator/tools/top/counter_reader.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "allocator/limits/pin_limit.h"
#include "allocator/os/clock.h"
#include "allocator/os/memory.h"
#include "allocator/tools/child.h"
#include "allocator/tools/text.h"
#include "allocator/tools/top/process_status.h"

namespace rdmalloc::cli {
namespace {

// The link of a memfd, as the kernel writes it.
const std::string& link_text() {
  static const std::string text = std::string("/memfd:") + kCounterPageName + " (deleted)";
  return text;
}

bool is_page_link(int folder, const char* name) {
  char target[64];
  const ssize_t length = readlinkat(folder, name, target, sizeof target);
  return length >= 0 && std::string(target, static_cast<size_t>(length)) == link_text();
}

// The name of the page's descriptor in the process's descriptor directory; empty: there is none.
std::string find_descriptor(int folder) {
  std::string usual = std::to_string(kCounterPageDescriptor);
  if (is_page_link(folder, usual.c_str())) return usual;
  DIR* const listing = fdopendir(dup(folder));
  if (listing == nullptr) return "";
  std::string found;
  while (const dirent* entry = readdir(listing)) {
    if (entry->d_name[0] == '.' || !is_page_link(folder, entry->d_name)) continue;
    found = entry->d_name;
    break;
  }
  closedir(listing);
  return found;
}

// The process's number in its own namespace, the innermost one. 0: not known.
uint64_t own_number(pid_t process) {
  const std::string status = read_file("/proc/" + std::to_string(process) + "/status");
  const std::string_view numbers = line_after(status, "NSpid:").value_or("");
  return parse_number<uint64_t>(numbers.substr(numbers.find_last_of(" \t") + 1)).value_or(0);
}

// A page that can be truncated could crash its reader.
bool is_sealed_page(int fd) {
  struct stat found {};
  const int seals = fcntl(fd, F_GET_SEALS);
  return seals >= 0 && (seals & F_SEAL_SHRINK) != 0 && fstat(fd, &found) == 0 &&
         found.st_size == static_cast<off_t>(os::page_size());
}

std::shared_ptr<const CounterPage> map_page(int fd) {
  void* const address = mmap(nullptr, os::page_size(), PROT_READ, MAP_SHARED, fd, 0);
  if (address == MAP_FAILED) return nullptr;
  return {static_cast<const CounterPage*>(address),
          [](const CounterPage* page) { munmap(const_cast<CounterPage*>(page), os::page_size()); }};
}

uint64_t get(const CounterPage::Word& word) { return word.load(std::memory_order_relaxed); }

bool is_complete(const CounterPage& page) {
  return page.magic.load(std::memory_order_acquire) == CounterPage::kMagic &&
         get(page.version) == CounterPage::kVersion;
}

PhaseCounters read_phase(const CounterPage& page, size_t index) {
  const PhaseRecord& record = page.phases[index];
  PhaseCounters phase;
  phase.name = std::string(record.name, strnlen(record.name, sizeof record.name));
  phase.is_in_force = get(page.phase_now) == index;
  phase.entered = get(record.entered);
  phase.ns = ns_in_phase(page, index, os::now_ns());
  phase.peak_live = get(record.peak_live);
  phase.peak_held = get(record.peak_held);
  phase.peak_pinned = get(record.peak_pinned);
  phase.peak_overflow = get(record.peak_overflow);
  return phase;
}

}  // namespace

std::optional<CounterReader> CounterReader::open(pid_t process) {
  const std::string path = "/proc/" + std::to_string(process) + "/fd";
  const Descriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const std::string name = folder.get() < 0 ? "" : find_descriptor(folder.get());
  if (name.empty()) return std::nullopt;
  const Descriptor file(openat(folder.get(), name.c_str(), O_RDONLY | O_CLOEXEC));
  auto reader = file.get() < 0 ? std::nullopt : of_descriptor(file.get());
  if (!reader || get(reader->page_->process) != own_number(process)) return std::nullopt;
  return reader;
}

std::optional<CounterReader> CounterReader::of_descriptor(int page) {
  if (!is_sealed_page(page)) return std::nullopt;
  std::shared_ptr<const CounterPage> mapped = map_page(page);
  if (mapped == nullptr || !is_complete(*mapped)) return std::nullopt;
  return CounterReader(std::move(mapped));
}

ProcessCounters CounterReader::read() const {
  ProcessCounters counters;
#define RDMALLOC_READ(name) counters.name = get(page_->name);
  RDMALLOC_PAGE_COUNTERS(RDMALLOC_READ)
#undef RDMALLOC_READ
  counters.process = get(page_->process);
  const uint64_t last = static_cast<uint64_t>(LimitedBy::kMachine);
  counters.limit_name = name(static_cast<LimitedBy>(std::min(counters.limited_by, last)));
  const uint64_t phases = page_->phase_count.load(std::memory_order_acquire);
  for (size_t i = 0; i < std::min<uint64_t>(phases, CounterPage::kMostPhases); ++i) {
    counters.phases.push_back(read_phase(*page_, i));
  }
  return counters;
}

CounterReader::Now CounterReader::now() const {
  return {get(page_->live), get(page_->held), get(page_->pinned), get(page_->overflow)};
}

}  // namespace rdmalloc::cli
