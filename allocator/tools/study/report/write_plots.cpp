// Writes the plots as files, and runs gnuplot on them.
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <fstream>

#include "allocator/tools/study/report/gnuplot.h"
#include "allocator/tools/study/report/plots.h"
#include "allocator/tools/study/report/report.h"

namespace rdmalloc::cli {
namespace {

bool write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  return static_cast<bool>(file);
}

// Removes pictures of an older study, which must not pass for this one if gnuplot fails or draws
// none.
void remove_older(const std::string& place) {
  for (const char* name : report::kPlotNames) {
    for (const char* ending : {".gp", ".dat", ".svg", ".png"}) {
      remove((place + "/" + name + ending).c_str());
    }
  }
}

std::string not_written(const std::string& path) {
  return "no plots: cannot write " + path + ": " + strerror(errno);
}

}  // namespace

std::vector<std::string> write_plots(const nlohmann::json& study, const std::string& folder) {
  const std::vector<report::Plot> plots = report::plots_of(study);
  const std::string place = folder + "/plots";
  if (plots.empty()) return {"no plots: no run went well enough to be drawn"};
  if (mkdir(place.c_str(), 0777) != 0 && errno != EEXIST) return {not_written(place)};
  remove_older(place);
  for (const report::Plot& plot : plots) {
    for (const auto& [ending, text] : {std::pair(".dat", plot.data), {".gp", plot.script}}) {
      const std::string path = place + "/" + plot.name + ending;
      if (!write_file(path, text)) return {not_written(path)};
    }
  }
  std::vector<std::string> notes;
  for (const report::Plot& plot : plots) {
    const report::GnuplotOutcome outcome = report::run_gnuplot(place, plot.name + ".gp");
    if (!outcome.found) {
      return {"gnuplot is not installed: " + place +
              " has data and scripts, but no pictures; install "
              "it (Debian: gnuplot-nox) and type there: for f in *.gp; do gnuplot $f; done"};
    }
    if (!outcome.problem.empty()) {
      notes.push_back("no plot " + place + "/" + plot.name + ".svg: gnuplot: " + outcome.problem);
    }
  }
  return notes;
}

}  // namespace rdmalloc::cli
