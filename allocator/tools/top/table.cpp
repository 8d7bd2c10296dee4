#include "allocator/tools/top/table.h"

#include <algorithm>
#include <cstdio>
#include <iterator>

#include "allocator/os/limits.h"
#include "allocator/tools/info/system_facts.h"
#include "allocator/tools/lines.h"

namespace rdmalloc::cli {
namespace {

constexpr ColumnInfo kColumns[] = {
    {"PID", 7, 0, Column::kProcess, false, 'i'},  {"USER", 8, 6, Column::kUser, true, 'u'},
    {"NAME", 15, 0, Column::kName, true, 'n'},    {"RSS", 6, 5, Column::kResident, false, 'r'},
    {"VMPIN", 6, 0, Column::kVmPin, false, 'v'},  {"VMLCK", 6, 0, Column::kVmLck, false, 'k'},
    {"HELD", 6, 3, Column::kHeld, false, 'h'},    {"PINNED", 6, 1, Column::kPinned, false, 'e'},
    {"LIVE", 6, 4, Column::kLive, false, 'l'},    {"OVERFL", 6, 2, Column::kOverflow, false, 'o'},
    {"CAP", 6, 8, Column::kCap, false, 'c'},      {"MEMLOCK", 7, 9, Column::kMemlock, false, 'm'},
    {"DOM", 3, 10, Column::kDomains, false, 'd'}, {"GRANT", 6, 7, Column::kGranted, false, 'g'},
    {"OVER", 43, 0, Column::kOver, true, 'w'}};

constexpr size_t kLeastName = 8;
constexpr size_t kLeastOver = 9;

using Number = std::optional<uint64_t>;

Number of_counters(const MachineProcess& process, uint64_t ProcessCounters::*field) {
  if (!process.counters) return std::nullopt;
  return (*process.counters).*field;
}

Number number(const MachineProcess& process, Column column) {
  switch (column) {
    case Column::kProcess:
      return static_cast<uint64_t>(process.number);
    case Column::kResident:
      return process.status.resident;
    case Column::kVmPin:
      return process.status.pinned;
    case Column::kVmLck:
      return process.status.locked;
    case Column::kHeld:
      return of_counters(process, &ProcessCounters::held);
    case Column::kPinned:
      return of_counters(process, &ProcessCounters::pinned);
    case Column::kLive:
      return of_counters(process, &ProcessCounters::live);
    case Column::kOverflow:
      return of_counters(process, &ProcessCounters::overflow);
    case Column::kCap:
      return of_counters(process, &ProcessCounters::budget);
    case Column::kMemlock:
      return process.memlock;
    case Column::kDomains:
      return of_counters(process, &ProcessCounters::domains);
    case Column::kGranted:
      return process.granted;
    case Column::kUser:
    case Column::kName:
    case Column::kOver:
      break;
  }
  return std::nullopt;
}

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : ", ") + word;
  return out;
}

bool has_sum(Column column) {
  constexpr Column kSummed[] = {Column::kResident, Column::kVmPin,   Column::kVmLck,
                                Column::kHeld,     Column::kPinned,  Column::kLive,
                                Column::kOverflow, Column::kDomains, Column::kGranted};
  return std::ranges::find(kSummed, column) != std::end(kSummed);
}

const ColumnInfo* column_of(char key) {
  const auto found = std::ranges::find(kColumns, key, &ColumnInfo::key);
  return found == std::end(kColumns) ? nullptr : found;
}

// What is over, without saying so again below the title OVER; what is so by right only if it is
// all.
std::string short_over(std::string text) {
  for (const std::string_view said :
       {"over memlock by right, ", ", over memlock by right", "over memlock ", "over "}) {
    for (size_t at = 0; (at = text.find(said, at)) != std::string::npos;)
      text.erase(at, said.size());
  }
  return text;
}

// Cuts instead of wrapping.
void append(std::string* line, const std::string& text, const ColumnInfo& column) {
  const bool is_short = column.column == Column::kOver && text.size() > column.width;
  const std::string shown = (is_short ? short_over(text) : text).substr(0, column.width);
  const std::string blanks(shown.size() < column.width ? column.width - shown.size() : 0, ' ');
  if (!line->empty()) *line += ' ';
  *line += column.is_text ? shown + blanks : blanks + shown;
}

std::string trimmed(std::string line) {
  line.resize(line.find_last_not_of(' ') + 1);
  return line;
}

template <typename TextOf>
std::string make_line(std::span<const ColumnInfo> columns, TextOf text_of) {
  std::string line;
  for (const ColumnInfo& column : columns) append(&line, text_of(column), column);
  return trimmed(line);
}

}  // namespace

std::span<const ColumnInfo> all_columns() { return kColumns; }

std::string short_size(uint64_t bytes) {
  constexpr char kUnits[] = " KMGTPE";
  if (bytes == os::kNoLimit) return "unlim";
  if (bytes < 1024) return std::to_string(bytes);
  auto amount = static_cast<double>(bytes);
  size_t unit = 0;
  // Rounded, only 1000 to 1023 have four digits.
  for (; amount >= 1023.5; ++unit) amount /= 1024;
  char text[16];
  snprintf(text, sizeof text, amount < 9.95 ? "%.1f%c" : "%.0f%c", amount, kUnits[unit]);
  return text;
}

std::string cell(const MachineProcess& process, Column column) {
  if (column == Column::kUser) return process.user;
  if (column == Column::kName) return printable(process.status.name);
  if (column == Column::kOver) return joined(process.over);
  const Number value = number(process, column);
  if (!value) return "-";
  const bool is_count = column == Column::kProcess || column == Column::kDomains;
  return is_count ? std::to_string(*value) : short_size(*value);
}

std::string total(const std::vector<MachineProcess>& processes, Column column) {
  if (column == Column::kProcess) return "total";
  if (!has_sum(column)) return "";
  uint64_t sum = 0;
  for (const MachineProcess& process : processes) sum += number(process, column).value_or(0);
  return column == Column::kDomains ? std::to_string(sum) : short_size(sum);
}

// Unknown values come last.
void sort_processes(std::vector<MachineProcess>* processes, Order order) {
  const ColumnInfo* const column = column_of(order.key);
  const bool is_text = column != nullptr && column->is_text;
  const auto amount = [column](const MachineProcess& of) {
    if (column == nullptr) return of.weight() + 1;
    const Number value = number(of, column->column);
    return value ? *value + (*value != UINT64_MAX) : 0;
  };
  const auto is_before = [&](const MachineProcess& a, const MachineProcess& b) {
    if (is_text) return cell(a, column->column) < cell(b, column->column);
    return amount(a) > amount(b);
  };
  std::ranges::sort(*processes, {}, &MachineProcess::number);
  std::ranges::stable_sort(*processes, [&](const MachineProcess& a, const MachineProcess& b) {
    return order.is_reversed ? is_before(b, a) : is_before(a, b);
  });
}

std::vector<ColumnInfo> columns_within(size_t width) {
  std::vector<ColumnInfo> columns(std::begin(kColumns), std::end(kColumns));
  const auto before_over = [&columns] {
    size_t sum = 0;
    for (const ColumnInfo& column : columns) sum += column.width + 1;
    return sum - columns.back().width - 1;
  };
  while (before_over() + kLeastOver > width) {
    const auto highest = std::ranges::max_element(columns, {}, &ColumnInfo::rank);
    if (highest->rank == 0) break;
    columns.erase(highest);
  }
  ColumnInfo& name = *std::ranges::find(columns, Column::kName, &ColumnInfo::column);
  while (before_over() + kLeastOver > width && name.width > kLeastName) --name.width;
  columns.back().width =
      std::clamp(width - std::min(width, before_over()), kLeastOver, columns.back().width);
  return columns;
}

std::string title_line(std::span<const ColumnInfo> columns) {
  return make_line(columns, [](const ColumnInfo& column) { return std::string(column.title); });
}

std::string line_of(const MachineProcess& process, std::span<const ColumnInfo> columns) {
  return make_line(columns, [&](const ColumnInfo& column) { return cell(process, column.column); });
}

std::string total_line(const std::vector<MachineProcess>& processes,
                       std::span<const ColumnInfo> columns) {
  return make_line(columns,
                   [&](const ColumnInfo& column) { return total(processes, column.column); });
}

std::vector<std::string> head_lines(const TopView& view, size_t width) {
  const LedgerView& ledger = view.ledger;
  std::vector<std::string> lines = {count_of_processes(view.scan.seen) + ", " +
                                    std::to_string(view.scan.processes.size()) + " shown"};
  if (ledger.is_kept && ledger.cap) {
    lines.push_back("the node's limit is " + size_text(*ledger.cap) + ": " +
                    size_text(ledger.sum()) + " granted to " +
                    count_of_processes(ledger.granted.size()) + ", " + size_text(ledger.left()) +
                    " left (" + printable(ledger.path) + ")");
  } else if (ledger.is_kept && ledger.granted_in_groups.empty()) {
    lines.push_back("the node's ledger has no process in it (" + printable(ledger.path) + ")");
  }
  if (!ledger.granted_in_groups.empty()) {
    lines.push_back(count_of_processes(ledger.granted_in_groups.size()) +
                    " in the limits of control groups (" + printable(ledger.path) + ")");
  }
  std::ranges::copy(view.notes, std::back_inserter(lines));
  if (width == SIZE_MAX) return lines;
  std::vector<std::string> narrow;
  for (const std::string& line : lines) {
    std::ranges::copy(fill(words_of(line), " ", width), std::back_inserter(narrow));
  }
  return narrow;
}

}  // namespace rdmalloc::cli
