"""A recipe of Spack. Put the folder into a repository of yours as packages/rdmalloc, and call spack where
the source tarball (the target `dist`) lies:

    spack install rdmalloc@0.1.0
"""

import os

from spack.package import *


class Rdmalloc(CMakePackage):
    """A malloc whose memory stays registered with RDMA devices: pinned, from one window of addresses
    that never go back to the system."""

    # The tarball lies in the folder where spack is called, or in one of its mirrors.
    manual_download = True
    url = f"file://{os.getcwd()}/rdmalloc-0.1.0.tar.gz"
    license("BSD-3-Clause")
    version("0.1.0")

    variant("verbs", default=True, description="the backend and shim for libibverbs")
    variant("ucx", default=True, description="the backend and shim for UCX")
    variant("ofi", default=True, description="the backend and shim for libfabric")
    variant("screen", default=True, description="the whole screen of top --watch")
    variant("tests", default=False, description="the unit tests")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.18:", type="build")
    depends_on("ninja", type="build")
    depends_on("pkgconfig", type="build")
    # The engine: its static archive becomes part of the library.
    depends_on("jemalloc@5.3.0 libs=static +prof", type="build")
    depends_on("hwloc@2:")
    depends_on("zstd")
    depends_on("boost@1.74: +headers", type="build")
    depends_on("cli11", type="build")
    depends_on("nlohmann-json", type="build")
    # Headers alone: the libraries are found at run time.
    depends_on("rdma-core", when="+verbs", type="build")
    depends_on("ucx", when="+ucx", type="build")
    depends_on("libfabric", when="+ofi", type="build")
    depends_on("ncurses", when="+screen")
    depends_on("catch2", when="+tests", type="build")
    depends_on("benchmark", when="+tests", type="build")

    conflicts("%gcc@:10", msg="C++20 is needed: GCC 11 or clang 14")
    conflicts("%clang@:13", msg="C++20 is needed: GCC 11 or clang 14")
    conflicts("platform=darwin")

    generator("ninja")

    def cmake_args(self):
        return [
            self.define("JEMALLOC_INCLUDE", self.spec["jemalloc"].prefix.include),
            self.define("JEMALLOC_ARCHIVE", self.spec["jemalloc"].prefix.lib.join("libjemalloc_pic.a")),
            self.define_from_variant("RDMALLOC_TESTS", "tests"),
            self.define("RDMALLOC_BENCH", False),
        ]

    def setup_run_environment(self, env):
        env.set("RDMALLOC_ROOT", self.prefix)
