# Packages, by `cpack -G DEB` or `cpack -G RPM` in the build folder:
#
#   rdmalloc         the library, the shims and the command: what `rdmalloc run` needs
#   rdmalloc-dev     headers, find_package and pkg-config (-devel as .rpm)
#   rdmalloc-tools   what records and replays allocation traces
#   rdmalloc-mpi     the shim for MPI programs, and Open MPI's memory pool
#   rdmalloc-dbgsym  the debug information of all of these (-debuginfo as .rpm)
#
# To package for a distribution, configure there with -DCMAKE_INSTALL_PREFIX=/usr, as the preset
# `package` does: libraries then go to its own folder (lib64, lib/x86_64-linux-gnu).
set(components runtime dev tools mpi debug)
set(here ${CMAKE_CURRENT_LIST_DIR})

# Each package's copyright file: our licence, and those of the libraries linked in.
set(copyright ${PROJECT_BINARY_DIR}/generated/copyright)
file(READ ${PROJECT_SOURCE_DIR}/LICENSE text)
function(append_licence what)
  foreach(file ${ARGN})
    if(EXISTS ${file})
      file(READ ${file} licence)
      string(APPEND text "\n\n---- ${what}, of which it contains parts ----\n\n${licence}")
      set(text "${text}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
endfunction()
append_licence(jemalloc ${RDMALLOC_JEMALLOC_SOURCE}/COPYING /usr/share/doc/libjemalloc-dev/copyright)
append_licence(CLI11 /usr/share/doc/libcli11-dev/copyright)
append_licence("JSON for Modern C++" /usr/share/doc/nlohmann-json3-dev/copyright)
append_licence(Zstandard /usr/share/doc/libzstd-dev/copyright)
file(CONFIGURE OUTPUT ${copyright} CONTENT "@text@" @ONLY)
install(FILES ${copyright} DESTINATION share/doc/rdmalloc COMPONENT runtime)
foreach(component dev tools mpi dbgsym)
  string(REPLACE dbgsym debug part ${component})
  install(FILES ${copyright} DESTINATION share/doc/rdmalloc-${component} COMPONENT ${part} EXCLUDE_FROM_ALL)
endforeach()
# On no search path until a site adds it: module use PREFIX/share/rdmalloc/modulefiles
foreach(kind lua tcl)
  configure_file(${here}/modulefile.${kind}.in ${PROJECT_BINARY_DIR}/generated/modulefile.${kind} @ONLY)
endforeach()
install(FILES ${PROJECT_BINARY_DIR}/generated/modulefile.lua DESTINATION share/rdmalloc/modulefiles/rdmalloc
  RENAME ${PROJECT_VERSION}.lua COMPONENT runtime)
install(FILES ${PROJECT_BINARY_DIR}/generated/modulefile.tcl DESTINATION share/rdmalloc/modulefiles/rdmalloc
  RENAME ${PROJECT_VERSION} COMPONENT runtime)
install(PROGRAMS ${here}/slurm/task_prolog.sh ${here}/slurm/epilog.sh ${here}/slurm/job.sbatch
  DESTINATION share/doc/rdmalloc/examples/slurm COMPONENT runtime)
install(FILES ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/CHANGELOG.md
  DESTINATION share/doc/rdmalloc COMPONENT runtime)

set(CPACK_PACKAGE_NAME rdmalloc)
set(CPACK_PACKAGE_VENDOR "the rdmalloc authors")
set(CPACK_PACKAGE_CONTACT "the rdmalloc authors" CACHE STRING "who maintains the packages, with an address")
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_GENERATOR RPM)
if(EXISTS /etc/debian_version)
  set(CPACK_GENERATOR DEB)
endif()
set(CPACK_COMPONENTS_ALL ${components})
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_RPM_COMPONENT_INSTALL ON)
set(CPACK_PRE_BUILD_SCRIPTS ${here}/prepare_files.cmake)

set(summary "Allocator whose memory stays registered with RDMA devices")
set(what_it_is "Preloaded under a program, it takes memory from one reserved window and gives
no address back to the system, so that no registration of it with a device
can go stale.")
# The first line of a .deb's description is its summary; the others have at most 79 characters.
function(describe component what text)
  set(CPACK_DEBIAN_${component}_DESCRIPTION "${summary}${what}\n${what_it_is}\n${text}" PARENT_SCOPE)
  set(CPACK_RPM_${component}_PACKAGE_SUMMARY "${summary}${what}" PARENT_SCOPE)
  set(CPACK_RPM_${component}_PACKAGE_DESCRIPTION "${what_it_is}\n${text}" PARENT_SCOPE)
endfunction()
describe(RUNTIME "" "This is the library, its shims for verbs, UCX and libfabric, and the command
rdmalloc.")
describe(DEV ": headers" "These are the headers, and what find_package and pkg-config need.")
describe(TOOLS ": traces" "This is what rdmalloc trace records and replays allocations with.")
describe(MPI ": MPI" "This gives MPI_Alloc_mem memory of the window: a shim for any MPI, and a
component of Open MPI.")
describe(DEBUG ": debug information" "This is the debug information of all its packages, which gdb finds by
itself.")

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
# Fast, and supported by every dpkg; the debug sections are already compressed.
set(CPACK_DEBIAN_COMPRESSION_TYPE gzip)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_LIBRARY_OUTPUT_DIRECTORY})
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEBUG_PACKAGE_SECTION debug)
set(CPACK_RPM_FILE_NAME RPM-DEFAULT)
set(CPACK_RPM_MAIN_COMPONENT runtime)
set(CPACK_RPM_PACKAGE_LICENSE BSD-3-Clause)
set(CPACK_RPM_PACKAGE_GROUP "System/Libraries")
# Links from build ids belong to the package of debug information.
set(CPACK_RPM_SPEC_MORE_DEFINE "%define _build_id_links none")
# Folders that belong to other packages.
set(CPACK_RPM_EXCLUDE_FROM_AUTO_FILELIST_ADDITION
  /usr/${CMAKE_INSTALL_LIBDIR} /usr/${CMAKE_INSTALL_LIBDIR}/cmake
  /usr/${CMAKE_INSTALL_LIBDIR}/pkgconfig /usr/lib/debug /usr/lib/debug/.build-id
  /usr/share/man /usr/share/man/man1 /usr/share/man/man7 /usr/share/bash-completion
  /usr/share/bash-completion/completions)
foreach(component DEV TOOLS MPI)
  string(TOLOWER ${component} suffix)
  set(CPACK_DEBIAN_${component}_PACKAGE_NAME rdmalloc-${suffix})
  set(CPACK_RPM_${component}_PACKAGE_NAME rdmalloc-${suffix})
endforeach()
set(CPACK_RPM_DEV_PACKAGE_NAME rdmalloc-devel)
set(CPACK_DEBIAN_DEBUG_PACKAGE_NAME rdmalloc-dbgsym)
set(CPACK_RPM_DEBUG_PACKAGE_NAME rdmalloc-debuginfo)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME rdmalloc)
set(CPACK_RPM_RUNTIME_PACKAGE_NAME rdmalloc)
set(CPACK_PROJECT_CONFIG_FILE ${here}/same_version.cmake)
# What packages that link to the libraries must depend on.
set(shlibs ${PROJECT_BINARY_DIR}/generated/shlibs)
foreach(library librdmalloc librdmalloc-shm)
  string(APPEND lines "${library} ${PROJECT_VERSION_MAJOR} rdmalloc (>= ${PROJECT_VERSION})\n")
endforeach()
file(WRITE ${shlibs} "${lines}")
set(triggers ${PROJECT_BINARY_DIR}/generated/triggers)
file(WRITE ${triggers} "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_CONTROL_EXTRA ${shlibs} ${triggers})
set(CPACK_DEBIAN_TOOLS_PACKAGE_CONTROL_EXTRA ${triggers})
set(CPACK_DEBIAN_MPI_PACKAGE_CONTROL_EXTRA ${triggers})
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SUGGESTS "rdmalloc-mpi, rdmalloc-tools")
# The shim works with any MPI and requires none to be installed. It needs no newer libc than the library
# itself, which a test checks.
set(CPACK_DEBIAN_MPI_PACKAGE_SHLIBDEPS OFF)
set(CPACK_DEBIAN_MPI_PACKAGE_ENHANCES "openmpi-bin, mpich")
set(CPACK_RPM_MPI_PACKAGE_AUTOREQ OFF)
set(CPACK_DEBIAN_DEBUG_PACKAGE_SHLIBDEPS OFF)
set(CPACK_RPM_DEBUG_PACKAGE_AUTOREQPROV OFF)
# Not every distribution's rpm does this by itself.
set(ldconfig ${PROJECT_BINARY_DIR}/generated/ldconfig)
file(WRITE ${ldconfig} "/sbin/ldconfig\n")
foreach(component RUNTIME TOOLS MPI)
  set(CPACK_RPM_${component}_POST_INSTALL_SCRIPT_FILE ${ldconfig})
  set(CPACK_RPM_${component}_POST_UNINSTALL_SCRIPT_FILE ${ldconfig})
endforeach()

# What dpkg and rpm show as news: one line that names the changelog. prepare_files.cmake writes Debian's.
set(CPACK_RDMALLOC_NEWS "See /usr/share/doc/rdmalloc/CHANGELOG.md.")
string(TIMESTAMP date "%a %b %d %Y" UTC)
set(CPACK_RPM_CHANGELOG_FILE ${PROJECT_BINARY_DIR}/generated/changelog.rpm)
file(WRITE ${CPACK_RPM_CHANGELOG_FILE}
  "* ${date} ${CPACK_PACKAGE_CONTACT} - ${PROJECT_VERSION}-1\n- ${CPACK_RDMALLOC_NEWS}\n")

include(CPack)
