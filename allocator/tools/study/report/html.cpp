#include "allocator/tools/study/report/html.h"

#include <algorithm>
#include <stdexcept>

#include "allocator/tools/text.h"

namespace rdmalloc::cli::report {

std::string escaped(const std::string& text) {
  return escaped_by(
      text, {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}});
}

std::string json_for_script(const Json& document) {
  // These occur only inside strings, so each may be written as a JSON escape.
  return escaped_by(document.dump(-1, ' ', true, Json::error_handler_t::replace),
                    {{'<', "\\u003c"}, {'>', "\\u003e"}, {'&', "\\u0026"}});
}

std::string filled(std::string_view page, const std::map<std::string, std::string>& values) {
  std::string result;
  for (;;) {
    const size_t open = page.find("{{");
    result += page.substr(0, open);
    if (open == std::string_view::npos) return result;
    page.remove_prefix(open + 2);
    const size_t close = page.find("}}");
    const auto value = values.find(std::string(page.substr(0, close)));
    if (close == std::string_view::npos || value == values.end()) {
      throw std::logic_error("a template of the report has a name without value");
    }
    result += value->second;
    page.remove_prefix(close + 2);
  }
}

void Table::row(std::vector<std::string> words, std::vector<Figure> figures) {
  rows_.push_back({std::move(words), std::move(figures)});
}

void Table::row(std::vector<std::string> words, const Json& object) {
  std::vector<Figure> figures;
  for (const Column& column : columns_) figures.push_back(figure(object, column.key));
  row(std::move(words), std::move(figures));
}

double Table::most(size_t column) const {
  double most = 0;
  for (const Row& row : rows_) most = std::max(most, row.figures[column].value_or(0));
  return most;
}

bool Table::known(size_t column) const {
  return std::ranges::any_of(rows_,
                             [&](const Row& row) { return row.figures[column].has_value(); });
}

Table::Scale Table::scale_of(size_t column) const {
  const double most_here = most(column);
  switch (columns_[column].kind) {
    case Kind::kBytes: {
      double most_bytes = 0;  // of the whole table: byte columns are compared with each other too
      for (size_t i = 0; i < columns_.size(); ++i) {
        if (columns_[i].kind == Kind::kBytes) most_bytes = std::max(most_bytes, most(i));
      }
      const Unit unit = unit_for(most_bytes);
      return {unit.bytes, most_bytes < 100 * unit.bytes ? 2 : 1, unit.name};
    }
    case Kind::kSeconds:
      return {1, most_here < 10 ? 3 : most_here < 100 ? 2 : 1, "s"};
    case Kind::kRatio:
      return {1, 2, ""};
    case Kind::kPercent:
      return {0.01, 2, "%"};
    default:
      return {};
  }
}

std::string Table::html() const {
  if (rows_.empty()) return "";
  std::string head, body;
  for (const std::string& heading : headings_) head += "<th scope=\"col\">" + heading + "</th>";
  std::vector<Scale> scales(columns_.size());
  for (size_t i = 0; i < columns_.size(); ++i) {
    if (!known(i)) continue;
    scales[i] = scale_of(i);
    head += std::string("<th scope=\"col\" class=\"n\">") + columns_[i].heading;
    if (!scales[i].unit.empty()) head += " <span class=\"unit\">" + scales[i].unit + "</span>";
    head += "</th>";
  }
  for (const Row& row : rows_) {
    body += "<tr>";
    for (const std::string& word : row.words) {
      const bool is_first = &word == &row.words.front();
      body += (is_first ? "<th scope=\"row\">" : "<td>") + escaped(word) +
              (is_first ? "</th>" : "</td>");
    }
    for (size_t i = 0; i < columns_.size(); ++i) {
      if (!known(i)) continue;
      const Figure& value = row.figures[i];
      body += value ? format("<td class=\"n\">%.*f</td>", scales[i].decimals,
                             *value / scales[i].divisor)
                    : "<td class=\"n none\">\xe2\x80\x93</td>";
    }
    body += "</tr>\n";
  }
  // A wide table scrolls by itself; tabindex makes it reachable by keyboard.
  return "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"" + escaped(caption_) +
         "\"><table><caption>" + escaped(caption_) + "</caption><thead><tr>" + head +
         "</tr></thead>\n<tbody>" + body + "</tbody></table></div>\n";
}

}  // namespace rdmalloc::cli::report
