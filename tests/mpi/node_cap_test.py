#!/usr/bin/env python3
"""Ranks share the machine's limit evenly, divided by the launcher's count of ranks.

    node_cap_test.py openmpi|mpich
"""

import sys

from job import Job, build, mpirun, program
from verdict import check, test_in_folder

RANKS = 4
CAP = 64 << 20


def node_cap(folder):
    mpi = sys.argv[1]
    words = [program(mpi, "messages"), "isend"]
    for ranks in (RANKS, 2):
        under = [build() / "bin/rdmalloc", "run", "--node-cap", CAP, "--ledger", folder / "ledger",
                 "--"]
        job = Job([mpirun(mpi), "-np", ranks, *under, *words], folder).expect(0, ranks=ranks)
        for report in job.reports:
            budget, by = report["budget_bytes"], report["budget_limited_by"]
            print(f"  {ranks} ranks: process {report['pid']} may pin {budget} bytes, by {by}")
            check(by == "node" and budget == CAP // ranks, "not an even share of the node's limit")
    check((folder / "ledger").stat().st_size > 64, "the ranks wrote nothing into the ledger")


test_in_folder(node_cap)
