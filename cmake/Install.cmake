# What `cmake --install` installs, and how other projects find it: find_package(rdmalloc) or
# pkg-config. The command and its manual pages are installed by allocator/tools. Included last, because
# it modifies targets defined elsewhere. Each rule names its component, which is also its package
# (Packages.cmake): runtime, dev, tools or mpi.
include(CMakePackageConfigHelpers)

# Installed files contain no path of the build machine, which debug information would otherwise name.
# These are the folders whose targets are installed.
function(rdmalloc_forget_build_paths folder)
  get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target ${targets})
    get_target_property(type ${target} TYPE)
    if(NOT type MATCHES "INTERFACE|UTILITY")
      target_compile_options(${target} PRIVATE
        -ffile-prefix-map=${PROJECT_BINARY_DIR}=. -ffile-prefix-map=${PROJECT_SOURCE_DIR}/=)
    endif()
  endforeach()
  get_property(below DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
  foreach(subfolder ${below})
    rdmalloc_forget_build_paths(${subfolder})
  endforeach()
endfunction()
foreach(folder allocator regcache)
  if(EXISTS ${PROJECT_SOURCE_DIR}/${folder}/CMakeLists.txt)
    rdmalloc_forget_build_paths(${PROJECT_SOURCE_DIR}/${folder})
  endif()
endforeach()

# rdmalloc::shm, segments of shared memory: independent of malloc.
set_target_properties(rdmalloc_shm PROPERTIES EXPORT_NAME shm)
install(TARGETS rdmalloc rdmalloc_shm EXPORT rdmallocTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT dev
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
# For preloading, not for linking.
foreach(shim verbs ucx ofi)
  if(TARGET rdmalloc_${shim})
    install(TARGETS rdmalloc_${shim}
      LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime)
  endif()
endforeach()
install(TARGETS rdmalloc_mpi LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT mpi)
# The Open MPI component, found with --mca mca_base_component_path.
if(TARGET rdmalloc_mpool)
  install(TARGETS rdmalloc_mpool
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/rdmalloc/openmpi COMPONENT mpi)
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/rdmalloc DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  COMPONENT dev FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/rdmalloc)
install(EXPORT rdmallocTargets NAMESPACE rdmalloc:: DESTINATION ${package_folder}
  COMPONENT dev)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/rdmallocConfig.cmake.in
  ${PROJECT_BINARY_DIR}/generated/rdmallocConfig.cmake INSTALL_DESTINATION ${package_folder})
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/generated/rdmallocConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES
  ${PROJECT_BINARY_DIR}/generated/rdmallocConfig.cmake
  ${PROJECT_BINARY_DIR}/generated/rdmallocConfigVersion.cmake
  DESTINATION ${package_folder} COMPONENT dev)

# Relative to the .pc file, so that an installed tree can be moved.
file(RELATIVE_PATH pc_to_prefix
  ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
file(RELATIVE_PATH pc_libdir ${CMAKE_INSTALL_PREFIX} ${CMAKE_INSTALL_FULL_LIBDIR})
file(RELATIVE_PATH pc_includedir ${CMAKE_INSTALL_PREFIX} ${CMAKE_INSTALL_FULL_INCLUDEDIR})
configure_file(${CMAKE_CURRENT_LIST_DIR}/rdmalloc.pc.in
  ${PROJECT_BINARY_DIR}/generated/rdmalloc.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/generated/rdmalloc.pc
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)

if(PROJECT_IS_TOP_LEVEL)
  include(${CMAKE_CURRENT_LIST_DIR}/packaging/Packages.cmake)
endif()
