#include "allocator/tools/render.h"

#include <cctype>
#include <sstream>

#include "allocator/tools/run/option_flags.h"
#include "allocator/tools/text.h"

namespace rdmalloc::cli {
namespace {

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(toupper(c));
  return text;
}

std::string heading(const std::string& title) {
  std::string text = title;
  for (size_t i = 1; i < text.size(); ++i) text[i] = static_cast<char>(tolower(text[i]));
  return text;
}

// Escapes what roff would take for a request, a font, or a hyphen that copies as another character.
std::string roff(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n')) out += "\\&";
      out += c;
    }
  }
  return out;
}

void put_roff(const Section& section, std::ostringstream& out) {
  out << ".SH " << section.title << "\n";
  for (size_t i = 0; i < section.paragraphs.size(); ++i) {
    out << (i == 0 ? "" : ".PP\n") << roff(section.paragraphs[i]) << "\n";
  }
  for (const Entry& entry : section.entries) {
    out << ".TP\n\\fB" << roff(entry.term) << "\\fR\n" << roff(entry.text) << "\n";
  }
}

void put_plain(const Section& section, std::ostringstream& out) {
  out << "\n" << heading(section.title) << "\n";
  for (size_t i = 0; i < section.paragraphs.size(); ++i) {
    out << (i == 0 ? "" : "\n") << wrap(section.paragraphs[i], 2);
  }
  for (const Entry& entry : section.entries) {
    constexpr size_t kTermWidth = 12;
    const std::string term = "  " + entry.term, text = wrap(entry.text, kTermWidth);
    const bool is_short = term.size() < kTermWidth;
    out << term << (is_short ? text.substr(term.size()) : "\n" + text);
  }
}

}  // namespace

std::string as_plain_text(const ManualPage& page) {
  std::ostringstream out;
  out << command_below("rdmalloc", page.command) << ": " << page.summary << "\n\nUsage\n";
  for (const std::string& line : page.synopsis) out << "  " << line << "\n";
  for (const Section& section : page.sections) put_plain(section, out);
  return out.str();
}

std::string as_roff(const ManualPage& page) {
  std::ostringstream out;
  out << ".TH " << upper(page.name()) << " " << page.manual_section << " \"\" \"rdmalloc "
      << RDMALLOC_VERSION << "\"\n.SH NAME\n"
      << roff(page.name()) << " \\- " << roff(page.summary) << "\n";
  if (!page.synopsis.empty()) out << ".SH SYNOPSIS\n.nf\n";
  for (const std::string& line : page.synopsis) out << "\\fB" << roff(line) << "\\fR\n";
  if (!page.synopsis.empty()) out << ".fi\n";
  for (const Section& section : page.sections) put_roff(section, out);
  return out.str();
}

std::string options_as_markdown() {
  std::string out =
      "| variable | flag of `rdmalloc run` | default | meaning |\n|---|---|---|---|\n";
  for (const OptionInfo& option : kOptions) {
    const std::string flag =
        escaped_by(flag_usage(option), {{'|', "\\|"}});  // it would end the cell
    out += "| `" + variable_name(option) + "` | `" + flag + "` | `" + default_text(option) +
           "` | " + option.help + " |\n";
  }
  return out;
}

std::string options_as_text() {
  std::string out;
  for (const OptionInfo& option : kOptions) {
    out += variable_name(option) + ", " + flag_usage(option) + "\n" +
           wrap(std::string(option.help) + " (default " + default_text(option) + ")", 4);
  }
  return out;
}

}  // namespace rdmalloc::cli
