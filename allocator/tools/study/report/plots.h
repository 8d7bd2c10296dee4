// The plots of a study, for papers: the gnuplot input, from the templates in plots/.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "allocator/tools/study/report/data.h"

namespace rdmalloc::cli::report {

struct Plot {
  std::string name;    // of its files: NAME.gp, NAME.dat; gnuplot makes NAME.svg and NAME.png
  std::string script;  // draws both
  std::string data;    // blocks (gnuplot: index) with two empty lines between
};

inline constexpr const char* kPlotNames[] = {"memory",   "measures", "ratio",
                                             "tradeoff", "cap",      "phases"};

// The plots that the document has data for: a study without samples has no curves, and one without
// caps no plots about them.
std::vector<Plot> plots_of(const Json& study);

// What a template's {{names}} stand for.
using Values = std::map<std::string, std::string>;
using LabelledLook = std::pair<std::string, Look>;

// The template plots/NAME.gp inside plots/plot.gp, as `height` pixels of SVG; the PNG has twice as
// many.
Plot plot_from_template(const Json& study, const std::string& name, int height,
                        const std::string& looks, Values values, std::string data);

// For the scripts' {{looks}}: arrays PREFIXlabels, PREFIXcolours, PREFIXdashes and PREFIXmarks.
std::string looks_for_gnuplot(const std::string& prefix, const std::vector<LabelledLook>& looks);

// A gnuplot string, on one line, in which no character is special.
std::string quoted_for_gnuplot(const std::string& text);

// A number for a data file; NaN (a gap) if it is not known.
std::string number_for_gnuplot(const Figure& value);

// Plots of whole runs (plots_of_runs.cpp). Empty name: no data.
Plot tradeoff_plot(const Json& study);
Plot cap_plot(const Json& study);
Plot phases_plot(const Json& study);

}  // namespace rdmalloc::cli::report
