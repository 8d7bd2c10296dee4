#include "allocator/tools/study/report/assets.h"

#include <map>

#include "allocator/tools/embedded.h"

namespace rdmalloc::cli::report {

EMBED(page_template, ASSETS "/page.html")
EMBED(page_style, ASSETS "/report.css")
EMBED(page_script,
      ASSETS "/charts.js\"\n.incbin \"" ASSETS "/tradeoff.js\"\n.incbin \"" ASSETS "/report.js")
EMBED(chart_library, CHART_LIBRARY)
EMBED(chart_licences, CHART_LICENCES)

namespace {
EMBED(plot, ASSETS "/plots/plot.gp")
EMBED(memory, ASSETS "/plots/memory.gp")
EMBED(measures, ASSETS "/plots/measures.gp")
EMBED(ratio, ASSETS "/plots/ratio.gp")
EMBED(tradeoff, ASSETS "/plots/tradeoff.gp")
EMBED(cap, ASSETS "/plots/cap.gp")
EMBED(phases, ASSETS "/plots/phases.gp")
}  // namespace

std::string_view plot_template(std::string_view name) {
  const std::map<std::string_view, std::string_view> all = {
      {"plot", plot()},         {"memory", memory()}, {"measures", measures()}, {"ratio", ratio()},
      {"tradeoff", tradeoff()}, {"cap", cap()},       {"phases", phases()}};
  return all.at(name);
}

}  // namespace rdmalloc::cli::report
