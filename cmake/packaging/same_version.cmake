# Read by cpack. Each package depends on exactly this version and release (-D
# CPACK_DEBIAN_PACKAGE_RELEASE=2) of the others, because they share more than the C interface.
set(debian ${CPACK_PACKAGE_VERSION})
if(CPACK_DEBIAN_PACKAGE_RELEASE)
  string(APPEND debian "-${CPACK_DEBIAN_PACKAGE_RELEASE}")
endif()
set(rpm ${CPACK_PACKAGE_VERSION})
if(CPACK_RPM_PACKAGE_RELEASE)
  string(APPEND rpm "-${CPACK_RPM_PACKAGE_RELEASE}")
endif()
foreach(component DEV TOOLS MPI DEBUG)
  set(CPACK_DEBIAN_${component}_PACKAGE_DEPENDS "rdmalloc (= ${debian})")
  set(CPACK_RPM_${component}_PACKAGE_REQUIRES "rdmalloc = ${rpm}")
endforeach()
