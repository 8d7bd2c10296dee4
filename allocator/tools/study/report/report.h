// Renders a study's document (study.json, described in bench/study/README.md): a page with charts,
// and plots for papers. Both accept any document: what is missing, null or of a wrong type is "not
// known", and no text in it is trusted. Called by the command, outside malloc.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace rdmalloc::cli {

namespace study {
class OutputFolder;
}

// Writes report.html: one file that needs no network and no other file. Throws WriteFailure.
void write_report(const nlohmann::json& study, study::OutputFolder& folder);

// Whether reports have charts: not if the chart library was unavailable at build time.
bool report_has_charts();

// Writes plots/: data, gnuplot scripts, and if gnuplot is installed an SVG and a PNG of each.
// Throws WriteFailure; returns gnuplot's problems as notes, one sentence each, because a study is
// useful without pictures.
std::vector<std::string> write_plots(const nlohmann::json& study, study::OutputFolder& folder);

}  // namespace rdmalloc::cli
