#include "allocator/tools/top/ledger.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <vector>

#include "allocator/limits/launcher.h"
#include "allocator/limits/ledger_file.h"
#include "allocator/limits/options.h"
#include "allocator/message.h"
#include "allocator/report/file_name.h"

namespace rdmalloc::cli {
namespace {

constexpr size_t kMostAtFirst = 256;
constexpr size_t kLongestTrouble = 512;

// All records of the ledger; nothing if it cannot be read.
std::optional<std::vector<LedgerRecord>> read_all(const char* path, Message* trouble) {
  std::vector<LedgerRecord> records(kMostAtFirst);
  for (;;) {
    const size_t count = read_ledger_file(path, records.data(), records.size(), trouble);
    if (count == SIZE_MAX) return std::nullopt;
    const bool is_all = count <= records.size();
    records.resize(count);
    if (is_all) return records;
  }
}

void add(const LedgerRecord& record, LedgerView* view) {
  const auto number = static_cast<pid_t>(record.process.number);
  if (record.group != 0) {
    view->granted_in_groups[number] = record.granted;
    return;
  }
  view->granted[number] = record.granted;
  view->has_several_caps = view->has_several_caps || (view->cap && *view->cap != record.cap);
  view->cap = std::max(view->cap.value_or(0), record.cap);
}

}  // namespace

uint64_t LedgerView::sum() const {
  uint64_t sum = 0;
  for (const auto& [process, bytes] : granted) {
    sum = sum > UINT64_MAX - bytes ? UINT64_MAX : sum + bytes;
  }
  return sum;
}

uint64_t LedgerView::left() const { return cap && *cap > sum() ? *cap - sum() : 0; }

uint64_t LedgerView::even_share() const {
  return cap && !granted.empty() ? *cap / granted.size() : 0;
}

bool LedgerView::is_over_share(uint64_t of) const {
  return cap && of > even_share() && left() < even_share();
}

LedgerView read_ledger() {
  constexpr std::string_view kWho = "rdmalloc: ";
  Options options;
  options.load();
  LedgerView view;
  char named[LedgerFile::kLongestPath];
  const bool fits =
      expand_file_name(options.path(OptionId::ledger), find_place(), named, sizeof named);
  if (!fits || (named[0] != '\0' && named[0] != '/')) {
    view.path = named;
    view.trouble = "the machine's ledger " + view.path + " has no absolute name";
    return view;
  }
  char path[LedgerFile::kLongestPath];
  name_ledger(named, path);
  view.path = path;
  struct stat file;
  if (lstat(path, &file) != 0 && errno == ENOENT) return view;
  Message trouble;
  const auto records = read_all(path, &trouble);
  if (!records) {
    char text[kLongestTrouble];
    trouble.copy_to(text, sizeof text);
    const std::string_view sentence = text;
    view.trouble = sentence.substr(sentence.starts_with(kWho) ? kWho.size() : 0);
    return view;
  }
  view.is_kept = true;
  for (const LedgerRecord& record : *records) add(record, &view);
  return view;
}

}  // namespace rdmalloc::cli
