// The plots of a study, for papers: the gnuplot input, as text.
#pragma once

#include <string>
#include <vector>

#include "allocator/cli/study/report/data.h"

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

// The body of a plot: its commands, and one or more curves to draw.
struct Drawing {
  int width = 960, height = 540;  // of the SVG, in pixels; the PNG has twice as many
  std::string commands;           // for each of the two
};
std::string script_of(const Json& study, const std::string& name, const Drawing& drawing);

// A gnuplot string, on one line, in which no character is special.
std::string quoted_for_gnuplot(const std::string& text);
std::string label_for_gnuplot(
    const std::string& text);  // the same, shortened to fit the available space

// A number for a data file; NaN (a gap) if it is not known.
std::string number_for_gnuplot(const Figure& value);

// Plots of whole runs (plots_of_runs.cpp). Empty name: no data.
Plot tradeoff_plot(const Json& study);
Plot cap_plot(const Json& study);
Plot phases_plot(const Json& study);

}  // namespace rdmalloc::cli::report
