// Turns a document's text into HTML: nothing that a program's name or a note says becomes markup.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "allocator/tools/study/report/data.h"

namespace rdmalloc::cli::report {

// For text between tags and for attribute values in double quotes. The text is cleaned.
std::string escaped(const std::string& text);

// A document for <script type="application/json">: pure ASCII, and no sequence that ends a script.
std::string json_for_script(const Json& document);

// `page` with each {{name}} replaced. Replacements are not scanned again, so a value with braces
// stays as it is. A name without a value is a bug of ours: std::logic_error.
std::string filled(std::string_view page, const std::map<std::string, std::string>& values);

std::string fixed(double value, int decimals);

// A table of figures: the numbers of one column share unit and decimals, so that they are easy to
// compare.
class Table {
 public:
  enum class Kind { kText, kBytes, kSeconds, kRatio, kCount, kPercent };

  explicit Table(std::string caption) : caption_(std::move(caption)) {}

  void column(std::string heading, Kind kind);
  void row(std::vector<std::string> texts, std::vector<Figure> figures);  // texts first
  bool empty() const { return rows_.empty(); }

  // Omits columns of figures that no row has. Empty if there are no rows.
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
