// The table of processes: its columns, their format and order, for a terminal and for a file. All
// text is printable ASCII.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "allocator/tools/top/view.h"

namespace rdmalloc::cli {

using Number = std::optional<uint64_t>;

struct ColumnInfo {
  enum class Kind { kText, kNumber, kCount, kLimit, kBytes };  // counts and bytes have a sum

  const char* title;
  size_t width;
  int rank;  // in a narrow table the highest go first; 0 stay
  char key;  // that sorts by it
  Kind kind;
  Number (*number)(const MachineProcess&);               // nothing: not known
  std::string (*text)(const MachineProcess&) = nullptr;  // of kText, instead

  bool is_text() const { return kind == Kind::kText; }  // to the left, and sorted upwards
};

std::span<const ColumnInfo> all_columns();

struct Order {
  static constexpr char kDefaultKey = 'p';
  char key = kDefaultKey;  // of a column; by default what is pinned and locked together
  bool is_reversed = false;
};

void sort_processes(std::vector<MachineProcess>* processes, Order order);

// "-" where it is not known.
std::string cell(const MachineProcess& process, const ColumnInfo& column);

// The sum of a column that has one; "" of the others.
std::string total(const std::vector<MachineProcess>& processes, const ColumnInfo& column);

// Bytes in five columns at most, such as 512K or 1.5G (powers of 1024).
std::string short_size(uint64_t bytes);

// Those columns that `width` has room for; where it is little, with shorter names. Their lines fit
// into 40 columns and more.
std::vector<ColumnInfo> columns_within(size_t width);

// A line of the table, without blanks at its end.
std::string title_line(std::span<const ColumnInfo> columns);
std::string line_of(const MachineProcess& process, std::span<const ColumnInfo> columns);
std::string total_line(const std::vector<MachineProcess>& processes,
                       std::span<const ColumnInfo> columns);

// What is said above the table: the machine, the ledger, the notes. In lines of at most `width`.
std::vector<std::string> head_lines(const TopView& view, size_t width);

}  // namespace rdmalloc::cli
