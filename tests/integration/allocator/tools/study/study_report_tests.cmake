# A study's report and plots, made from test documents and seen as a reader would: in a browser, and
# drawn by gnuplot.
add_executable(integration_report_writer ${CMAKE_CURRENT_LIST_DIR}/report_writer.cpp
  ${PROJECT_SOURCE_DIR}/allocator/tools/study/output_folder.cpp)
target_link_libraries(integration_report_writer PRIVATE rdmalloc_report rdmalloc_core rdmalloc_os)
set_target_properties(integration_report_writer PROPERTIES
  RUNTIME_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})

function(report_case name sentence)
  rdm_test("${sentence}" TIMEOUT 300 LABELS ${ARGN} COMMAND ${RDMALLOC_SYSTEM_PYTHON} -B
    ${CMAKE_CURRENT_LIST_DIR}/study_report_test.py $<TARGET_FILE:integration_report_writer> ${name}
    ${PROJECT_SOURCE_DIR}/allocator/tools/study/report)
endfunction()
if(RDMALLOC_SYSTEM_PYTHON)
  report_case(charts "a report in a browser has a mark for each figure, and no script error")
  report_case(folded "a report begins with three tiles, and the rest is folded")
  report_case(narrow "a report on a narrow screen is as wide as the screen")
  report_case(hostile "names of programs that are markup are shown in a report and not obeyed")
  report_case(used "a report's choices, legends and keys change what its charts show")
  report_case(odd "a report of a study in which things are missing has the charts that it can have")
  report_case(control "control: a report with a broken document or script does not pass")
  report_case(endless "control: a report whose script never ends does not pass")
  report_case(quiet "a report makes no request")
  report_case(plots "a study's plots are drawn, and can be drawn again")
  report_case(hostile_plots "names of programs that are commands of gnuplot are text in plots")
  report_case(no_gnuplot "without gnuplot a study's plots are data, scripts and a sentence")
  report_case(no_space "a report that cannot be written whole leaves the older one")
  report_case(fetching "a build without npm or network says that reports will have no charts")

  # The examples in their short form: each must produce its report.
  function(example_case sentence label)
    rdm_test("${sentence}" TIMEOUT 300 LABELS ${label} COMMAND ${CMAKE_COMMAND} -E env
      RDMALLOC_STUDY=$<TARGET_FILE:rdmalloc_cli> sh ${CMAKE_CURRENT_LIST_DIR}/study_examples.sh
      ${RDMALLOC_SYSTEM_PYTHON} ${PROJECT_SOURCE_DIR}/bench/study/examples/run.py ${ARGN})
  endfunction()
  example_case("studies of an interpreter, a database and blocks that grow get to their reports"
    real interpreter database growth)
  example_case("a study of an MPI application gets to its report" mpi mpi)
endif()
