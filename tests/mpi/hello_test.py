#!/usr/bin/env python3
"""Compares the memory that 16 idle ranks use under rdmalloc and under glibc, alternating in one
run.

    hello_test.py openmpi|mpich MOST_TIMES [NAME=VALUE...]

It sums the ranks' proportional set sizes while all are running and takes the median of the rounds.
Under rdmalloc it must be at most MOST_TIMES glibc's. The variables are for the ranks under
rdmalloc; the control uses them.
"""

import re
import statistics
import sys

from job import PLAIN, RUN, Job, mpirun, program, under, variable
from verdict import check, test_in_folder

RANKS = 16
ROUNDS = 5


def shares(mpi, form, variables, folder):
    """In MiB."""
    given = [word for entry in variables for word in variable(mpi, *entry.split("=", 1))]
    job = Job([mpirun(mpi), "-np", RANKS, *given, *under(mpi, form), program(mpi, "hello")], folder)
    job.expect(0, ranks=None if form == PLAIN else RANKS)
    found = re.search(rf"shares of {RANKS} ranks: (\d+) KiB", job.output)
    check(found, f"{job.output}\nno sum")
    check(job.output.count("hello from") == RANKS, "some rank did not say hello")
    return int(found[1]) / 1024


def hello(folder):
    mpi, most, *variables = sys.argv[1:]
    sums = {PLAIN: [], RUN: []}
    for _ in range(ROUNDS):
        for form, all_sums in sums.items():
            all_sums.append(shares(mpi, form, variables if form == RUN else [], folder))
    plain, ours = (statistics.median(all_sums) for all_sums in sums.values())
    print(f"  {RANKS} ranks under {mpi}: {ours:.1f} MiB, glibc {plain:.1f}: {ours / plain:.2f} times, "
          f"{(ours - plain) / RANKS:.1f} MiB a rank; bar {most}")
    check(ours <= plain * float(most), f"ranks take {ours / plain:.2f} times what they take of "
          "their machine with glibc")


test_in_folder(hello)
