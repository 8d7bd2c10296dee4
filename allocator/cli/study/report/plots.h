// The plots of a study, for papers: what gnuplot is to draw, as text.
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

// Those that the document has data for, each without its neighbours: a study without samples has
// no curves, and one without caps nothing to say about them.
std::vector<Plot> plots_of(const Json& study);

// The body of a plot: its commands, and what is to be drawn, one curve or more.
struct Drawing {
  int width = 960, height = 540;  // of the SVG, in pixels; the PNG has twice as many
  std::string commands;           // for each of the two
};
std::string script_of(const Json& study, const std::string& name, const Drawing& drawing);

// A string of gnuplot's, on one line, in which nothing has a meaning.
std::string quoted_for_gnuplot(const std::string& text);
std::string label_for_gnuplot(
    const std::string& text);  // the same, shortened to what there is room for

// A number for a data file, NaN (a gap) where it is not known.
std::string number_for_gnuplot(const Figure& value);

// Of whole runs (plots_of_runs.cpp). Empty name: no data.
Plot tradeoff_plot(const Json& study);
Plot cap_plot(const Json& study);
Plot phases_plot(const Json& study);

}  // namespace rdmalloc::cli::report
