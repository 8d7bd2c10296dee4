// The prose of the manual pages, from manual.txt. A page begins with "# COMMAND: SUMMARY" and a
// "$ LINE" for each way to use it, without which it is hidden. "## TITLE" begins a section; it has
// paragraphs with empty lines between, and then entries, "- TERM: TEXT", the term on one line.
#include <sstream>

#include "allocator/tools/embedded.h"
#include "allocator/tools/manual_page.h"

namespace rdmalloc::cli {
namespace {

EMBED(manual, MANUAL)

Entry entry_of(const std::string& line) {
  const size_t colon = line.find(": ");
  return {line.substr(0, colon), line.substr(colon + 2)};
}

ManualPage page_of(const std::string& line) {
  const Entry head = entry_of(line);
  return {head.term == "rdmalloc" ? "" : head.term, head.text, {}, {}};
}

std::vector<ManualPage> read_pages() {
  std::vector<ManualPage> pages;
  std::string* prose = nullptr;  // what the next line goes on with
  std::istringstream text{std::string(manual())};
  for (std::string line; std::getline(text, line);) {
    const auto is_a = [&line](const char* mark) { return line.starts_with(mark); };
    if (is_a("# ")) {
      pages.push_back(page_of(line.substr(2)));
    } else if (is_a("$ ")) {
      pages.back().synopsis.push_back(line.substr(2));
    } else if (is_a("## ")) {
      pages.back().sections.push_back({line.substr(3), {}, {}});
    } else if (is_a("- ")) {
      auto& entries = pages.back().sections.back().entries;
      prose = &entries.emplace_back(entry_of(line.substr(2))).text;
    } else if (prose != nullptr && !line.empty()) {
      *prose += " " + line;
    } else {
      const bool begins = !line.empty();
      prose = begins ? &pages.back().sections.back().paragraphs.emplace_back(line) : nullptr;
    }
  }
  return pages;
}

}  // namespace

const std::vector<ManualPage>& all_manual_pages() {
  static const std::vector<ManualPage> pages = read_pages();
  return pages;
}

const ManualPage* find_manual_page(const std::string& command) {
  for (const ManualPage& page : all_manual_pages()) {
    if (page.command == command) return &page;
  }
  return nullptr;
}

}  // namespace rdmalloc::cli
