#!/usr/bin/env python3
"""Counts what a malloc-per-message loop asks of the kernel, while MPI's hooks into munmap are on.

    steady_test.py [--control] HOOKS

HOOKS says whose: one of HOOKED below. First it is shown that they are on: the code of munmap was
changed. Then strace counts the calls between steady's marks by which memory is given back: none,
so no hook of whatever kind is ever triggered. With --control the job runs without us, and must make
some such calls.
"""

import re
import sys

from job import PLAIN, RUN, Job, check, mpirun, program, shutil, skip, test, under, variable

RANKS = 2
UCX = ["--mca", "pml", "ucx", "--mca", "btl", "self", "--mca", "opal_common_ucx_tls", "any",
       "--mca", "opal_common_ucx_devices", "any", "-x", "UCX_TLS=posix,cma,self"]
OWN_HOOKS = "opal_common_ucx_opal_mem_hooks"
# Open MPI tells UCX what its own patcher hears, or leaves UCX to patch. libfabric patches for itself.
HOOKED = {"patcher": [*UCX, "--mca", OWN_HOOKS, "1"],
          "bistro": [*UCX, "--mca", OWN_HOOKS, "0"],
          "libfabric": ["--mca", "pml", "cm", "--mca", "mtl", "ofi", "-x", "FI_UNIVERSE_SIZE=4"]}
WATCHED = "munmap,mremap,madvise,brk,mmap"
MARK = re.compile(r" munmap\(NULL, 0[ )]")
# Growth: populating is an madvise, too (23 to a strace that does not know it).
GROWTH = re.compile(r" mmap\(|MADV_POPULATE_WRITE|0x17 |, 23\)|<\.\.\. ")
CALL = re.compile(r"([a-z]+)\(")
# glibc's default, held: else it stops giving large blocks back, once some were freed.
GLIBC = ("MALLOC_MMAP_THRESHOLD_", "131072")


def given_back(text):
    """Calls by which memory was given back between the marks, by name."""
    marks, calls = 0, {}
    for line in text.splitlines():
        if MARK.search(line):
            marks += 1
        elif marks == 1 and not GROWTH.search(line):
            found = CALL.search(line)
            if found:
                calls[found[1]] = calls.get(found[1], 0) + 1
    check(marks == 2, "the marks are missing")
    return calls


def steady(folder):
    control = sys.argv[1] == "--control"
    options = HOOKED[sys.argv[-1]]
    if shutil.which("strace") is None:
        skip("no strace")
    name, form = program("openmpi", "steady"), PLAIN if control else RUN
    launch = [mpirun("openmpi"), "-np", RANKS, *options, *variable("openmpi", *GLIBC)]
    Job([*launch, *under("openmpi", form), name, "hooked"], folder).expect(0)
    print("  munmap's code was changed")
    traced = f'exec strace -f -qq -e trace={WATCHED} -o trace.$$ "$@"'
    job = Job([*launch, "sh", "-c", traced, "sh", *under("openmpi", form), name], folder)
    job.expect(0, ranks=None if control else RANKS)
    traces = list(job.folder.glob("trace.*"))
    check(len(traces) == RANKS, f"{len(traces)} traces of {RANKS} ranks")
    total = 0
    for path in traces:
        calls = given_back(path.read_text())
        total += sum(calls.values())
        print(f"  {path.name}: {calls or 'nothing given back'}")
    if control:
        check(total > 0, "without us nothing was given back either: this test shows nothing")
    else:
        check(total == 0, f"{total} calls by which memory is given back")


test(steady)
