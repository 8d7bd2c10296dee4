# Builds jemalloc's static PIC archive from a source tree, if the distribution has no suitable one:
#
#   cmake -DRDMALLOC_JEMALLOC_SOURCE=DIR ...
#
# Configures and compiles a copy in the build folder, once, and sets JEMALLOC_INCLUDE and
# JEMALLOC_ARCHIVE. It uses Debian's settings, so that no figure depends on the build machine.
set(tree ${CMAKE_BINARY_DIR}/engine/jemalloc)
set(JEMALLOC_INCLUDE ${tree}/include)
set(JEMALLOC_ARCHIVE ${tree}/lib/libjemalloc_pic.a)

# jemalloc's page may be larger than the kernel's, but not smaller: where a processor's kernels differ,
# take the largest.
set(largest_page 12)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64|ppc64|powerpc64|loongarch64|mips64)")
  set(largest_page 16)
endif()
set(RDMALLOC_LG_PAGE ${largest_page} CACHE STRING "base-2 logarithm of the largest page of the kernels that it is for")

set(arguments --disable-doc --disable-shared --with-lg-page=${RDMALLOC_LG_PAGE} --with-lg-hugepage=21)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|amd64)$")
  list(APPEND arguments --enable-prof)  # elsewhere its stack walks are not reliable
endif()
if(CMAKE_CROSSCOMPILING)
  execute_process(COMMAND ${CMAKE_C_COMPILER} -dumpmachine OUTPUT_VARIABLE host OUTPUT_STRIP_TRAILING_WHITESPACE)
  list(APPEND arguments --host=${host})
endif()
list(JOIN CMAKE_C_COMPILER_LAUNCHER " " launcher)
set(sysroot)
if(CMAKE_SYSROOT)
  set(sysroot --sysroot=${CMAKE_SYSROOT})
endif()
string(STRIP "${launcher} ${CMAKE_C_COMPILER} ${sysroot}" compiler)
string(STRIP "${launcher} ${CMAKE_CXX_COMPILER} ${sysroot}" cxx_compiler)
list(APPEND arguments "CC=${compiler}" "CXX=${cxx_compiler}" "EXTRA_CFLAGS=-g"
  "EXTRA_CXXFLAGS=-g -include ${CMAKE_CURRENT_LIST_DIR}/cxx_runtime.h")

set(asked "${RDMALLOC_JEMALLOC_SOURCE} ${arguments}")
set(stamp ${CMAKE_BINARY_DIR}/engine/jemalloc.made)
set(made "")
if(EXISTS ${stamp} AND EXISTS ${JEMALLOC_ARCHIVE})
  file(READ ${stamp} made)
endif()
if(made STREQUAL asked)
  return()
endif()

foreach(file configure.ac include/jemalloc src/jemalloc.c)
  if(NOT EXISTS ${RDMALLOC_JEMALLOC_SOURCE}/${file})
    message(FATAL_ERROR "RDMALLOC_JEMALLOC_SOURCE is ${RDMALLOC_JEMALLOC_SOURCE}, which has no ${file}: name "
      "the unpacked source tree of jemalloc 5.3.0")
  endif()
endforeach()
find_program(RDMALLOC_MAKE NAMES gmake make)
if(NOT RDMALLOC_MAKE)
  message(FATAL_ERROR "jemalloc is built by make, which is not installed")
endif()
function(run what)
  execute_process(COMMAND ${ARGN} WORKING_DIRECTORY ${tree} RESULT_VARIABLE failed
    OUTPUT_FILE ${CMAKE_BINARY_DIR}/engine/${what}.log ERROR_FILE ${CMAKE_BINARY_DIR}/engine/${what}.err)
  if(failed)
    file(READ ${CMAKE_BINARY_DIR}/engine/${what}.err why)
    message(FATAL_ERROR "jemalloc's ${what} failed (${CMAKE_BINARY_DIR}/engine/${what}.log): ${why}")
  endif()
endfunction()

message(STATUS "making the engine from ${RDMALLOC_JEMALLOC_SOURCE}, with pages of 2^${RDMALLOC_LG_PAGE} bytes")
file(REMOVE_RECURSE ${tree} ${stamp})
file(MAKE_DIRECTORY ${tree})
file(COPY ${RDMALLOC_JEMALLOC_SOURCE}/ DESTINATION ${tree} PATTERN .git EXCLUDE)
if(EXISTS ${tree}/Makefile)
  run(distclean ${RDMALLOC_MAKE} distclean)
endif()
if(NOT EXISTS ${tree}/configure)
  run(autoconf autoconf)
endif()
run(configure sh ./configure ${arguments})
cmake_host_system_information(RESULT processors QUERY NUMBER_OF_LOGICAL_CORES)
run(make ${RDMALLOC_MAKE} -j${processors} build_lib_static)
file(WRITE ${stamp} "${asked}")
