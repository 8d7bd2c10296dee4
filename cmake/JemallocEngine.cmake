# The engine: our copy of jemalloc's static PIC archive, and the linker flags that insert our hooks.
# Defines the target rdmalloc_engine_archive (link it whole), RDMALLOC_ENGINE_WRAPS, and
# RDMALLOC_ENGINE_LG_PAGE, the logarithm of the page that the archive was built for.
# The archive is the distribution's, or is built from jemalloc's sources.
set(RDMALLOC_JEMALLOC_SOURCE "" CACHE PATH "source tree of jemalloc 5.3.0 to make the engine from, instead of an archive")
set(jemalloc_wanted "Install jemalloc 5.3.0's header and static PIC archive (libjemalloc-dev of Debian 12 and 13, "
  "Ubuntu 24.04: sh cmake/bootstrap.sh build), or unpack its sources and configure with one of\n"
  "  -DRDMALLOC_JEMALLOC_SOURCE=DIR                      the engine is made from these sources\n"
  "  -DJEMALLOC_INCLUDE=DIR -DJEMALLOC_ARCHIVE=FILE      a libjemalloc_pic.a and header that you made of them")
list(JOIN jemalloc_wanted "" jemalloc_wanted)
if(RDMALLOC_JEMALLOC_SOURCE)
  include(JemallocSource)
else()
  find_path(JEMALLOC_INCLUDE jemalloc/jemalloc.h)
  find_library(JEMALLOC_ARCHIVE NAMES libjemalloc_pic.a)
endif()
if(NOT JEMALLOC_INCLUDE OR NOT JEMALLOC_ARCHIVE)
  message(FATAL_ERROR "rdmalloc is built on jemalloc 5.3.0, and no libjemalloc_pic.a was found. ${jemalloc_wanted}")
endif()
file(STRINGS ${JEMALLOC_INCLUDE}/jemalloc/jemalloc.h line REGEX "define JEMALLOC_VERSION \"")
string(REGEX REPLACE ".*\"([0-9]+\\.[0-9]+)\\.([0-9]+).*" "\\1" version "${line}")
string(REGEX REPLACE ".*\"([0-9.]+)-.*" "\\1" RDMALLOC_JEMALLOC_VERSION "${line}")
if(NOT version STREQUAL "5.3")
  message(FATAL_ERROR "rdmalloc's hooks are written for jemalloc 5.3, and ${JEMALLOC_INCLUDE} has "
    "${RDMALLOC_JEMALLOC_VERSION}. ${jemalloc_wanted}")
endif()

set(engine ${CMAKE_BINARY_DIR}/engine/libjemalloc_engine.a)
set(prepare ${PROJECT_SOURCE_DIR}/cmake/prepare_engine.sh)
set(wraps ${PROJECT_SOURCE_DIR}/cmake/engine_wraps.txt)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${prepare} ${wraps} ${JEMALLOC_ARCHIVE})
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/engine)
execute_process(
  COMMAND ${CMAKE_COMMAND} -E env NM=${CMAKE_NM} AR=${CMAKE_AR} OBJCOPY=${CMAKE_OBJCOPY}
    sh ${prepare} ${JEMALLOC_ARCHIVE} ${engine} ${CMAKE_BINARY_DIR}/engine/objects
  RESULT_VARIABLE failed OUTPUT_VARIABLE RDMALLOC_ENGINE_LG_PAGE ERROR_VARIABLE why
  OUTPUT_STRIP_TRAILING_WHITESPACE)
if(failed)
  message(FATAL_ERROR "${why}")
endif()
file(STRINGS ${wraps} RDMALLOC_ENGINE_WRAPS)

add_library(rdmalloc_engine_archive INTERFACE)
target_link_options(rdmalloc_engine_archive INTERFACE ${RDMALLOC_ENGINE_WRAPS})
target_link_libraries(rdmalloc_engine_archive INTERFACE -Wl,--whole-archive ${engine} -Wl,--no-whole-archive)
