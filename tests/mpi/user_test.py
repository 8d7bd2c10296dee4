#!/usr/bin/env python3
"""Four ranks of an ordinary user with a small RLIMIT_MEMLOCK share a node.

    user_test.py openmpi|mpich

The limit applies to each rank separately. A rank pins no more than that, the rest of its memory is
overflow, and every byte arrives. The user cannot read the build folder, so the needed files are
copied.
"""

import os
import shutil
import sys

from job import RUN, Job, build, mpirun, program, under
from verdict import as_user, check, need_root, test_in_folder

RANKS = 4
MEMLOCK_KIB = 4096


def copied(folder, mpi):
    """The folder of a build with only these files."""
    place = folder / "build"
    for part in ("bin", "lib", "tests/mpi"):
        (place / part).mkdir(parents=True)
    shutil.copy(build() / "bin/rdmalloc", place / "bin")
    for library in (build() / "lib").glob("librdmalloc*.so*"):
        shutil.copy(library, place / "lib", follow_symlinks=False)
    shutil.copy(program(mpi, "messages"), place / "tests/mpi")
    return place


def user(folder):
    mpi = sys.argv[1]
    need_root("becoming another user")
    launcher = mpirun(mpi)
    os.environ["RDMALLOC_BUILD"] = str(copied(folder, mpi))
    limited = ["sh", "-c", f'ulimit -l {MEMLOCK_KIB} && exec "$@"', "sh"]
    job = Job([*limited, *as_user(), launcher, "-np", RANKS, *under(mpi, RUN),
               program(mpi, "messages"), "isend"], folder)
    job.expect(0, ranks=RANKS)
    for report in job.reports:
        pinned, overflow = report["pinned_bytes"], report["overflow_bytes"]
        print(f"  process {report['pid']}: pinned {pinned}, overflow {overflow} bytes")
        check(0 < pinned <= MEMLOCK_KIB << 10, "pinned is not within the limit")
        check(report["budget_limited_by"] == "memlock", "memlock is not what limits")
    check(any(report["overflow_bytes"] for report in job.reports),
          "no rank reached its limit: this test shows nothing")


test_in_folder(user)
