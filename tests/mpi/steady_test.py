#!/usr/bin/env python3
"""Counts the system calls of a malloc-per-message loop while MPI's hooks into munmap are active.

    steady_test.py [--control] HOOKS

HOOKS is a key of HOOKED below. First the test verifies that the hooks are active: munmap's code was
changed. Then strace counts the calls between steady's marks that return memory: there are none, so
no hook of any kind is ever triggered, even with the heap mapped into UCX's contexts when UCX
carries the messages. With --control the job runs without rdmalloc, and must make some such calls.
"""

import re
import sys

from job import OVER_UCX, RUN, UCX, Job, mpirun, program, shutil, under, variable
from verdict import check, skip, test_in_folder

RANKS = 2
BY_UCX = [*OVER_UCX, "--mca", "btl", "self", "-x", "UCX_TLS=posix,cma,self"]
OWN_HOOKS = "opal_common_ucx_opal_mem_hooks"
# Open MPI passes on to UCX what its patcher hears, or lets UCX patch. libfabric patches for itself.
HOOKED = {"patcher": [*BY_UCX, "--mca", OWN_HOOKS, "1"],
          "bistro": [*BY_UCX, "--mca", OWN_HOOKS, "0"],
          "libfabric": ["--mca", "pml", "cm", "--mca", "mtl", "ofi", "-x", "FI_UNIVERSE_SIZE=4"]}
WATCHED = "munmap,mremap,madvise,brk,mmap"
MARK = re.compile(r" munmap\(NULL, 0[ )]")
# Growth: populating is an madvise too (23 in an strace that does not know it).
GROWTH = re.compile(r" mmap\(|MADV_POPULATE_WRITE|0x17 |, 23\)|<\.\.\. ")
CALL = re.compile(r"([a-z]+)\(")
# glibc's default, fixed: otherwise it stops returning large blocks after some were freed.
GLIBC = ("MALLOC_MMAP_THRESHOLD_", "131072")


def given_back(text):
    """Counts, by name, the calls between the marks that returned memory."""
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


def calls_of(launch, words, folder, reports):
    """The calls of all ranks that returned memory between the marks."""
    Job([*launch, *words, "hooked"], folder).expect(0)
    print("  munmap's code was changed")
    traced = f'exec strace -f -qq -e trace={WATCHED} -o trace.$$ "$@"'
    job = Job([*launch, "sh", "-c", traced, "sh", *words], folder)
    job.expect(0, ranks=reports)
    traces = list(job.folder.glob("trace.*"))
    check(len(traces) == RANKS, f"{len(traces)} traces of {RANKS} ranks")
    total = 0
    for path in traces:
        calls = given_back(path.read_text())
        total += sum(calls.values())
        print(f"  {path.name}: {calls or 'nothing given back'}")
    return total


def steady(folder):
    control = sys.argv[1] == "--control"
    options = HOOKED[sys.argv[-1]]
    if shutil.which("strace") is None:
        skip("no strace")
    launch = [mpirun("openmpi"), "-np", RANKS, *options, *variable("openmpi", *GLIBC)]
    name = program("openmpi", "steady")
    if control:
        check(calls_of(launch, [name], folder, None) > 0,
              "without us nothing was given back either: this test shows nothing")
        return
    for form in (RUN, UCX) if "ucx" in options else (RUN,):
        print(f"  {form}", flush=True)
        total = calls_of(launch, [*under("openmpi", form), name], folder, RANKS)
        check(total == 0, f"{total} calls by which memory is given back")


test_in_folder(steady)
