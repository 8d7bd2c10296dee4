# Builds for AArch64 with Debian's cross compiler and its arm64 packages, unpacked in a folder by
# aarch64_sysroot.sh. The result runs under qemu-user:
#
#   sh cmake/aarch64_sysroot.sh build/arm64-sysroot
#   cmake --preset arm64 && cmake --build --preset arm64 && ctest --preset arm64
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(RDMALLOC_SYSROOT ${CMAKE_CURRENT_LIST_DIR}/../build/arm64-sysroot
  CACHE PATH "Debian's arm64 packages, unpacked")
# Also for CMake's own test compilations.
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES RDMALLOC_SYSROOT)
file(REAL_PATH ${RDMALLOC_SYSROOT} CMAKE_SYSROOT)

set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)

set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
foreach(what LIBRARY INCLUDE PACKAGE)
  set(CMAKE_FIND_ROOT_PATH_MODE_${what} ONLY)
endforeach()
set(ENV{PKG_CONFIG_DIR} "")
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${CMAKE_SYSROOT})
set(ENV{PKG_CONFIG_LIBDIR}
  ${CMAKE_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${CMAKE_SYSROOT}/usr/share/pkgconfig)

find_program(RDMALLOC_QEMU NAMES qemu-aarch64-static qemu-aarch64)
if(RDMALLOC_QEMU)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${RDMALLOC_QEMU} -L ${CMAKE_SYSROOT})
endif()
