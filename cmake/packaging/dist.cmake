# The source tarball: the files that git tracks or would add (without git: all files here but builds),
# and the chart library of reports, so that building from it needs no npm.
#
#   cmake -D SOURCE=folder -D VERSION=x.y.z -D CHARTS=library.js -D LICENCES=file -D OUTPUT=folder -P dist.cmake
set(name rdmalloc-${VERSION})
file(SIZE ${CHARTS} size)
if(size EQUAL 0)
  message(FATAL_ERROR "a source tarball carries the chart library of reports, and this build has none: "
    "install npm, configure again, and see that npm reaches its registry")
endif()

execute_process(COMMAND git -c core.quotePath=off ls-files --cached --others --exclude-standard
  WORKING_DIRECTORY ${SOURCE} OUTPUT_VARIABLE listed RESULT_VARIABLE no_git ERROR_QUIET)
if(no_git)
  file(GLOB_RECURSE files RELATIVE ${SOURCE} ${SOURCE}/*)
  list(FILTER files EXCLUDE REGEX "^build[^/]*/")
else()
  string(REGEX REPLACE "\n" ";" files "${listed}")
endif()

set(folder ${OUTPUT}/${name})
file(REMOVE_RECURSE ${folder})
foreach(file ${files})
  get_filename_component(below ${file} DIRECTORY)
  if(EXISTS ${SOURCE}/${file})
    file(COPY ${SOURCE}/${file} DESTINATION ${folder}/${below})
  endif()
endforeach()
set(carried ${folder}/allocator/tools/study/report/carried)
file(MAKE_DIRECTORY ${carried})
configure_file(${CHARTS} ${carried}/library.js COPYONLY)
configure_file(${LICENCES} ${carried}/licences.txt COPYONLY)
execute_process(COMMAND ${CMAKE_COMMAND} -E tar czf ${name}.tar.gz --format=gnutar ${name}
  WORKING_DIRECTORY ${OUTPUT} RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "${OUTPUT}/${name}.tar.gz could not be written")
endif()
file(REMOVE_RECURSE ${folder})
message(STATUS "made ${OUTPUT}/${name}.tar.gz")
