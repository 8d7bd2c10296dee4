// The parts of the page and the plots that are the same in every report: files of this folder, and
// the chart library that npm fetched at build time, embedded in the command.
#pragma once

#include <string_view>

namespace rdmalloc::cli::report {

std::string_view page_template();                       // page.html: text with {{names}} to fill in
std::string_view page_style();                          // report.css
std::string_view page_script();                         // charts.js, tradeoff.js, report.js
std::string_view plot_template(std::string_view name);  // plots/NAME.gp, with {{names}} as well
std::string_view chart_library();                       // empty when the build could not fetch it
std::string_view chart_licences();  // what the library's licences require to be kept with it

}  // namespace rdmalloc::cli::report
