# The engine: our copy of jemalloc's static PIC archive, with the linker flags that put our hooks in.
# Defines the target rdmalloc_engine_archive (link it whole) and RDMALLOC_ENGINE_WRAPS.
find_path(JEMALLOC_INCLUDE jemalloc/jemalloc.h)
find_library(JEMALLOC_ARCHIVE NAMES libjemalloc_pic.a)
if(NOT JEMALLOC_INCLUDE OR NOT JEMALLOC_ARCHIVE)
  message(FATAL_ERROR "rdmalloc needs jemalloc's static PIC archive (libjemalloc_pic.a) and header: "
    "install Debian's libjemalloc-dev, or run sh cmake/bootstrap.sh build")
endif()
file(STRINGS ${JEMALLOC_INCLUDE}/jemalloc/jemalloc.h line REGEX "define JEMALLOC_VERSION \"")
string(REGEX REPLACE ".*\"([0-9]+\\.[0-9]+)\\.([0-9]+).*" "\\1" version "${line}")
string(REGEX REPLACE ".*\"([0-9.]+)-.*" "\\1" RDMALLOC_JEMALLOC_VERSION "${line}")
if(NOT version STREQUAL "5.3")
  message(FATAL_ERROR "rdmalloc's hooks are written for jemalloc 5.3, and ${JEMALLOC_INCLUDE} has "
    "${RDMALLOC_JEMALLOC_VERSION}: install libjemalloc-dev 5.3 and set JEMALLOC_INCLUDE and JEMALLOC_ARCHIVE")
endif()

set(engine ${CMAKE_BINARY_DIR}/engine/libjemalloc_engine.a)
set(prepare ${PROJECT_SOURCE_DIR}/cmake/prepare_engine.sh)
set(wraps ${PROJECT_SOURCE_DIR}/cmake/engine_wraps.txt)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${prepare} ${wraps} ${JEMALLOC_ARCHIVE})
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/engine)
execute_process(
  COMMAND sh ${prepare} ${JEMALLOC_ARCHIVE} ${engine} ${CMAKE_BINARY_DIR}/engine/objects
  RESULT_VARIABLE failed ERROR_VARIABLE why)
if(failed)
  message(FATAL_ERROR "${why}")
endif()
file(STRINGS ${wraps} RDMALLOC_ENGINE_WRAPS)

add_library(rdmalloc_engine_archive INTERFACE)
target_link_options(rdmalloc_engine_archive INTERFACE ${RDMALLOC_ENGINE_WRAPS})
target_link_libraries(rdmalloc_engine_archive INTERFACE -Wl,--whole-archive ${engine} -Wl,--no-whole-archive)
