#include "allocator/tools/study/report/report.h"

#include <random>

#include "allocator/tools/study/output_folder.h"
#include "allocator/tools/study/report/assets.h"
#include "allocator/tools/study/report/charts.h"
#include "allocator/tools/study/report/html.h"
#include "allocator/tools/study/report/tables.h"

namespace rdmalloc::cli {
namespace {

using namespace report;

// Identifies the page's own scripts to the browser, which then runs no others: if markup slipped
// through from a program's name, it would stay inert.
std::string new_nonce() {
  std::random_device source;
  std::string nonce;
  for (int i = 0; i < 24; ++i) nonce += "0123456789abcdef"[source() % 16];
  return nonce;
}

// The id is that of the contents, which a browser unfolds when a link leads to them.
std::string folded(const char* id, const char* title, const std::string& html) {
  if (html.empty()) return "";
  return std::string("<details><summary><h2>") + title + "</h2></summary><div id=\"" + id +
         "\">\n" + html + "</div></details>\n";
}

std::string wrapped(const char* tag, const std::string& html) {
  return html.empty() ? "" : std::string("<") + tag + ">" + html + "</" + tag + ">\n";
}

std::string failures(const Json& study) {
  const std::string failed = failed_runs(study);
  if (failed.empty()) return "";
  return "<p class=\"warning\">Not all runs went well: see <a href=\"#notes\">notes and "
         "failures</a>. They are in the table of runs, and in no median.</p>\n";
}

std::string scripts(const Json& study, const std::string& nonce) {
  const std::string open = "<script nonce=\"" + nonce + "\">";
  return "<script type=\"application/json\" id=\"study\">" +
         json_for_script(chart_document(study)) + "</script>\n" + open +
         std::string(chart_library()) + "</script>\n" + open + std::string(page_script()) +
         "</script>\n";
}

std::string no_charts() {
  return "<p class=\"warning\">This report has no charts, because rdmalloc was built without the "
         "chart library. For charts, install npm, build again with "
         "<code>-D RDMALLOC_REPORT_CHARTS=ON</code> and a network, and study again.</p>\n";
}

std::string page_of(const Json& study) {
  const std::string nonce = new_nonce(), command = command_line(study);
  const bool charts = report_has_charts();
  const std::string tables = summary_table(study) + phases_table(study) + runs_table(study);
  const std::string failed = failed_runs(study), noted = notes(study);
  return filled(
      page_template(),
      {{"nonce", nonce},
       {"style", std::string(page_style())},
       {"command", escaped(command.empty() ? "an unnamed command" : command)},
       {"run", what_was_run(study)},
       {"tiles", tiles(study)},
       {"answers", folded("answers", "Answers", answers(study))},
       {"failures", failures(study)},
       {"charts", charts ? "" : no_charts()},
       {"tables", folded("figures", "Figures", tables)},
       {"machine", folded("machine", "Command and machine", wrapped("dl", machine(study)))},
       {"notes",
        folded("notes", "Notes and failures", wrapped("ul", failed) + wrapped("ul", noted))},
       {"scripts", charts ? scripts(study, nonce) : ""},
       {"licences", charts ? "<details><summary>Charts by Apache ECharts: licences</summary><pre>" +
                                 escaped(std::string(chart_licences())) + "</pre></details>"
                           : ""}});
}

}  // namespace

bool report_has_charts() { return !chart_library().empty(); }

void write_report(const Json& study, study::OutputFolder& folder) {
  folder.write("report.html", page_of(study));
}

}  // namespace rdmalloc::cli
