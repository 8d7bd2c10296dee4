// The rendering of a study's document (study.json, described in bench/study/README.md): a page with
// charts, and plots for papers. Both take any document: what is missing, null or of a wrong type is
// "not known", and no text of it is trusted. Called by the command, outside malloc.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace rdmalloc::cli {

// Writes `folder`/report.html: one file that needs no network and no other file. Replaces an older
// one only when the new one is whole. Throws std::runtime_error with a sentence.
void write_report(const nlohmann::json& study, const std::string& folder);

// Whether reports have charts: not when the chart library could not be had at build time.
bool report_has_charts();

// Writes `folder`/plots: data, gnuplot scripts, and with gnuplot also SVG and PNG of each. What
// went wrong comes back as notes, a sentence each, because a study is good without plots.
std::vector<std::string> write_plots(const nlohmann::json& study, const std::string& folder);

}  // namespace rdmalloc::cli
