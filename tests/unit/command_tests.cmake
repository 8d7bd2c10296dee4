# The parts of `rdmalloc study` that make decisions.
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
product_sources(study rdmalloc_study BUT "^(progress|study|study_plan|study_runner)[.]cpp$")
product_sources(text rdmalloc_text)
product_sources(command rdmalloc_cli ONLY "^(interrupts|top/(counter_reader|process_status)|run/(library|option_flags))[.]cpp$")
add_library(rdmalloc_study_for_tests OBJECT ${study} ${command} ${text})
target_link_libraries(rdmalloc_study_for_tests PUBLIC rdmalloc_test_flags CLI11::CLI11
  nlohmann_json::nlohmann_json Threads::Threads ${CMAKE_DL_LIBS})
target_compile_definitions(rdmalloc_study_for_tests PRIVATE RDMALLOC_VERSION="${PROJECT_VERSION}"
  RDMALLOC_LIBRARY_NAME="librdmalloc.so.0" RDMALLOC_LIBRARY_FOLDER="../lib")
rdmalloc_of_the_command(rdmalloc_study_for_tests)
foreach(test study_comparison_test study_document_test study_summary_test study_verdict_test)
  rdmalloc_add_test(allocator/tools/study/${test} unit rdmalloc_study_for_tests rdmalloc_os_for_tests)
endforeach()

foreach(test process_status_test top_test)
  rdmalloc_add_test(allocator/tools/top/${test} unit rdmalloc_top_for_tests rdmalloc_os_for_tests Threads::Threads)
endforeach()
rdmalloc_add_test(allocator/tools/study/report/study_report_test unit rdmalloc_report_for_tests
  rdmalloc_fake_os Threads::Threads)
