// Renders a study's document, as the command does after its runs: report_writer STUDY.json FOLDER.
// Prints the notes about the plots.
#include <exception>
#include <fstream>
#include <iostream>

#include "allocator/tools/study/output_folder.h"
#include "allocator/tools/study/report/report.h"

int main(int count, char** arguments) {
  if (count != 3) return 2;
  try {
    std::ifstream file(arguments[1]);
    const auto study = nlohmann::json::parse(file);
    rdmalloc::cli::study::OutputFolder folder(arguments[2], true);
    rdmalloc::cli::write_report(study, folder);
    for (const auto& note : rdmalloc::cli::write_plots(study, folder)) {
      std::cout << note << "\n";
    }
  } catch (const std::exception& problem) {
    std::cerr << problem.what() << "\n";
    return 1;
  }
  return 0;
}
