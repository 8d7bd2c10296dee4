// Turns a document's text into HTML: nothing that a program's name or a note says becomes markup.
#pragma once

#include <map>
#include <span>
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

// A table of figures: the numbers of one column share unit and decimals, so that they are easy to
// compare.
class Table {
 public:
  enum class Kind { kBytes, kSeconds, kRatio, kCount, kPercent };
  struct Column {
    const char* key;  // in a row's object
    const char* heading;
    Kind kind;
  };

  // Columns of words come first, then those of figures. `columns` must outlive the table.
  Table(std::string caption, std::vector<std::string> headings, std::span<const Column> columns)
      : caption_(std::move(caption)), headings_(std::move(headings)), columns_(columns) {}

  void row(std::vector<std::string> words, std::vector<Figure> figures);
  void row(std::vector<std::string> words, const Json& object);

  // Omits columns of figures that no row has. Empty if there are no rows.
  std::string html() const;

 private:
  struct Row {
    std::vector<std::string> words;
    std::vector<Figure> figures;
  };
  struct Scale {
    double divisor = 1;
    int decimals = 0;
    std::string unit;
  };

  double most(size_t column) const;  // the largest figure, at least 0
  bool known(size_t column) const;
  Scale scale_of(size_t column) const;

  std::string caption_;
  std::vector<std::string> headings_;
  std::span<const Column> columns_;
  std::vector<Row> rows_;
};

}  // namespace rdmalloc::cli::report
