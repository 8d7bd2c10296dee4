#!/usr/bin/env python3
"""What 16 ranks that do nothing take of their node under us, and under glibc, in one run in turns.

    hello_test.py openmpi|mpich MOST_TIMES [NAME=VALUE...]

The sum of the ranks' proportional set sizes while all are there; medians of the rounds. Of glibc's,
under us it must be at most MOST_TIMES. The variables are for the ranks under us: the control's.
"""

import re
import statistics
import sys

from job import PLAIN, RUN, Job, check, mpirun, program, test, under, variable

RANKS = 16
ROUNDS = 5


def shares(mpi, form, variables, folder):
    """MiB."""
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
          "their node with glibc")


test(hello)
