# The parts of `rdmalloc study` that decide something.
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
set(cli ${PROJECT_SOURCE_DIR}/allocator/cli)
set(study_sources ${cli}/counter_reader.cpp ${cli}/library.cpp ${cli}/option_flags.cpp)
foreach(part allocators configurations csv document interrupts launch machine output_folder proc_file
             process_tree program_run sampler summary verdict watched_process)
  list(APPEND study_sources ${cli}/study/${part}.cpp)
endforeach()
add_library(rdmalloc_study_for_tests OBJECT ${study_sources})
target_link_libraries(rdmalloc_study_for_tests PUBLIC rdmalloc_test_flags CLI11::CLI11
  nlohmann_json::nlohmann_json Threads::Threads ${CMAKE_DL_LIBS})
target_compile_definitions(rdmalloc_study_for_tests PRIVATE RDMALLOC_VERSION="${PROJECT_VERSION}"
  RDMALLOC_LIBRARY_NAME="librdmalloc.so.0" RDMALLOC_LIBRARY_FOLDER="../lib")
foreach(name study_document_test study_summary_test study_verdict_test)
  rdmalloc_add_test(${name} unit rdmalloc_study_for_tests rdmalloc_os_for_tests)
endforeach()

foreach(name process_status_test top_test)
  rdmalloc_add_test(${name} unit rdmalloc_top_for_tests rdmalloc_os_for_tests Threads::Threads)
endforeach()
rdmalloc_add_test(study_report_test unit rdmalloc_report_for_tests rdmalloc_fake_os Threads::Threads)
