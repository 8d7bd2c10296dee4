// Text of a document made into HTML: nothing that a program's name or a note says becomes markup.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "allocator/cli/study/report/data.h"

namespace rdmalloc::cli::report {

// For text between tags and for attribute values in double quotes; the text is clean.
std::string escaped(const std::string& text);

// A document for <script type="application/json">: pure ASCII, and no sequence that ends a script.
std::string json_for_script(const Json& document);

// `page` with each {{name}} replaced. What is put in is not looked at again, so that a value with
// braces stays as it is. A name without value is a mistake of ours: std::logic_error.
std::string filled(std::string_view page, const std::map<std::string, std::string>& values);

std::string fixed(double value, int decimals);

// A table of figures: numbers of one column share unit and decimals, so that they can be compared
// by eye.
class Table {
 public:
  enum class Kind { kText, kBytes, kSeconds, kRatio, kCount, kPercent };

  explicit Table(std::string caption) : caption_(std::move(caption)) {}

  void column(std::string heading, Kind kind);
  void row(std::vector<std::string> texts, std::vector<Figure> figures);  // texts first
  bool empty() const { return rows_.empty(); }

  // Columns of figures that no row knows are left out. Empty without rows.
  std::string html() const;

 private:
  struct Column {
    std::string heading;
    Kind kind;
  };
  struct Row {
    std::vector<std::string> texts;
    std::vector<Figure> figures;
  };
  struct Scale {
    double divisor = 1;
    int decimals = 0;
    std::string unit;
  };

  size_t texts() const { return columns_.size() - rows_.front().figures.size(); }
  double most(size_t figure) const;  // the largest of a column, at least 0
  bool known(size_t figure) const;
  Scale scale_of(size_t column) const;

  std::string caption_;
  std::vector<Column> columns_;
  std::vector<Row> rows_;
};

}  // namespace rdmalloc::cli::report
