#include "allocator/tools/study/report/assets.h"

#include <algorithm>
#include <utility>

#include "allocator/tools/embedded.h"

EMBED(page, ASSETS "/page.html")
EMBED(style, ASSETS "/report.css")
EMBED(script,
      ASSETS "/charts.js\"\n.incbin \"" ASSETS "/tradeoff.js\"\n.incbin \"" ASSETS "/report.js")
EMBED(plot, ASSETS "/plots/plot.gp")
EMBED(memory, ASSETS "/plots/memory.gp")
EMBED(measures, ASSETS "/plots/measures.gp")
EMBED(ratio, ASSETS "/plots/ratio.gp")
EMBED(tradeoff, ASSETS "/plots/tradeoff.gp")
EMBED(cap, ASSETS "/plots/cap.gp")
EMBED(phases, ASSETS "/plots/phases.gp")
EMBED(library, CHART_LIBRARY)
EMBED(licences, CHART_LICENCES)

namespace rdmalloc::cli::report {

std::string_view page_template() { return page(); }
std::string_view page_style() { return style(); }
std::string_view page_script() { return script(); }
std::string_view plot_template(std::string_view name) {
  const std::pair<std::string_view, std::string_view> all[] = {
      {"plot", plot()},         {"memory", memory()}, {"measures", measures()}, {"ratio", ratio()},
      {"tradeoff", tradeoff()}, {"cap", cap()},       {"phases", phases()}};
  return std::ranges::find(all, name, &std::pair<std::string_view, std::string_view>::first)
      ->second;
}
std::string_view chart_library() { return library(); }
std::string_view chart_licences() { return licences(); }

}  // namespace rdmalloc::cli::report
