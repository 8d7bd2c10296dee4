#include "allocator/tools/top/table.h"

#include <algorithm>
#include <iterator>

#include "allocator/os/limits.h"
#include "allocator/tools/text.h"

namespace rdmalloc::cli {
namespace {

using Kind = ColumnInfo::Kind;

Number process_number(const MachineProcess& process) {
  return static_cast<uint64_t>(process.number);
}

template <auto kField>
Number of(const MachineProcess& process) {
  return process.*kField;
}

template <auto kField>
Number of_status(const MachineProcess& process) {
  return process.status.*kField;
}

template <auto kField>
Number of_counters(const MachineProcess& process) {
  return process.counters ? Number((*process.counters).*kField) : std::nullopt;
}

std::string user(const MachineProcess& process) { return process.user; }
std::string name(const MachineProcess& process) { return printable(process.status.name); }
std::string over_text(const MachineProcess& process) { return joined(process.over); }

constexpr ColumnInfo kColumns[] = {
    {"PID", 7, 0, 'i', Kind::kNumber, process_number},
    {"USER", 8, 6, 'u', Kind::kText, nullptr, user},
    {"NAME", 15, 0, 'n', Kind::kText, nullptr, name},
    {"RSS", 6, 5, 'r', Kind::kBytes, of_status<&ProcessStatus::resident>},
    {"VMPIN", 6, 0, 'v', Kind::kBytes, of_status<&ProcessStatus::pinned>},
    {"VMLCK", 6, 0, 'k', Kind::kBytes, of_status<&ProcessStatus::locked>},
    {"HELD", 6, 3, 'h', Kind::kBytes, of_counters<&ProcessCounters::held>},
    {"PINNED", 6, 1, 'e', Kind::kBytes, of_counters<&ProcessCounters::pinned>},
    {"LIVE", 6, 4, 'l', Kind::kBytes, of_counters<&ProcessCounters::live>},
    {"OVERFL", 6, 2, 'o', Kind::kBytes, of_counters<&ProcessCounters::overflow>},
    {"CAP", 6, 8, 'c', Kind::kLimit, of_counters<&ProcessCounters::budget>},
    {"MEMLOCK", 7, 9, 'm', Kind::kLimit, of<&MachineProcess::memlock>},
    {"DOM", 3, 10, 'd', Kind::kCount, of_counters<&ProcessCounters::domains>},
    {"GRANT", 6, 7, 'g', Kind::kBytes, of<&MachineProcess::granted>},
    {"OVER", 43, 0, 'w', Kind::kText, nullptr, over_text}};
constexpr char kName = 'n';
constexpr char kOver = 'w';

constexpr size_t kLeastName = 8;
constexpr size_t kLeastOver = 9;

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
  const bool is_short = column.key == kOver && text.size() > column.width;
  const std::string shown = (is_short ? short_over(text) : text).substr(0, column.width);
  const std::string blanks(shown.size() < column.width ? column.width - shown.size() : 0, ' ');
  if (!line->empty()) *line += ' ';
  *line += column.is_text() ? shown + blanks : blanks + shown;
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
  return format(amount < 9.95 ? "%.1f%c" : "%.0f%c", amount, kUnits[unit]);
}

std::string cell(const MachineProcess& process, const ColumnInfo& column) {
  if (column.is_text()) return column.text(process);
  const Number value = column.number(process);
  if (!value) return "-";
  const bool is_size = column.kind == Kind::kBytes || column.kind == Kind::kLimit;
  return is_size ? short_size(*value) : std::to_string(*value);
}

std::string total(const std::vector<MachineProcess>& processes, const ColumnInfo& column) {
  if (column.key == kColumns[0].key) return "total";
  if (column.kind != Kind::kBytes && column.kind != Kind::kCount) return "";
  uint64_t sum = 0;
  for (const MachineProcess& process : processes) sum += column.number(process).value_or(0);
  return column.kind == Kind::kCount ? std::to_string(sum) : short_size(sum);
}

// Unknown values come last.
void sort_processes(std::vector<MachineProcess>* processes, Order order) {
  const ColumnInfo* const column = column_of(order.key);
  const bool is_text = column != nullptr && column->is_text();
  const auto amount = [column](const MachineProcess& of) {
    if (column == nullptr) return of.weight() + 1;
    const Number value = column->number(of);
    return value ? *value + (*value != UINT64_MAX) : 0;
  };
  const auto is_before = [&](const MachineProcess& a, const MachineProcess& b) {
    if (is_text) return cell(a, *column) < cell(b, *column);
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
  ColumnInfo& name = *std::ranges::find(columns, kName, &ColumnInfo::key);
  while (before_over() + kLeastOver > width && name.width > kLeastName) --name.width;
  columns.back().width =
      std::clamp(width - std::min(width, before_over()), kLeastOver, columns.back().width);
  return columns;
}

std::string title_line(std::span<const ColumnInfo> columns) {
  return make_line(columns, [](const ColumnInfo& column) { return std::string(column.title); });
}

std::string line_of(const MachineProcess& process, std::span<const ColumnInfo> columns) {
  return make_line(columns, [&](const ColumnInfo& column) { return cell(process, column); });
}

std::string total_line(const std::vector<MachineProcess>& processes,
                       std::span<const ColumnInfo> columns) {
  return make_line(columns, [&](const ColumnInfo& column) { return total(processes, column); });
}

std::vector<std::string> head_lines(const TopView& view, size_t width) {
  const LedgerView& ledger = view.ledger;
  std::vector<std::string> lines = {count_text(view.scan.seen, "process") + ", " +
                                    std::to_string(view.scan.processes.size()) + " shown"};
  if (ledger.is_kept && ledger.cap) {
    lines.push_back("the machine's limit is " + size_text(*ledger.cap) + ": " +
                    size_text(ledger.sum()) + " granted to " +
                    count_text(ledger.granted.size(), "process") + ", " + size_text(ledger.left()) +
                    " left (" + printable(ledger.path) + ")");
  } else if (ledger.is_kept && ledger.granted_in_groups.empty()) {
    lines.push_back("the machine's ledger has no process in it (" + printable(ledger.path) + ")");
  }
  if (!ledger.granted_in_groups.empty()) {
    lines.push_back(count_text(ledger.granted_in_groups.size(), "process") +
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
