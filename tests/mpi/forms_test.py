#!/usr/bin/env python3
"""Runs one MPI program without us, and in each form in which it can be run with us.

    forms_test.py openmpi|mpich STATUS PROGRAM ARGUMENTS...

It must end with STATUS each time, leave no process and no segment behind, and, if that is 0, write a
report from each rank that ran with us. Under the shim for UCX, UCX carries the messages, and each
rank's heap is mapped.
"""

import sys
import time

from job import FORMS, PLAIN, UCX, Job, mpirun, over, program, shims, skip, test, under

RANKS = 2


def forms(folder):
    mpi, status, name, *arguments = sys.argv[1:]
    words = [program(mpi, name), *arguments]
    for form in FORMS:
        began = time.monotonic()
        launch = [mpirun(mpi), "-np", RANKS, *over(mpi, form)]
        job = Job([*launch, *under(mpi, form), *words], folder)
        if job.status == 77:
            skip(job.output.strip().splitlines()[-1].removeprefix("SKIPPED: "))
        reported = form != PLAIN and int(status) == 0
        job.expect(int(status), ranks=RANKS if reported else None)
        if reported and form == UCX and "--ucx" in shims():
            job.expect_registered()
        print(f"  {form}: status {job.status} after {time.monotonic() - began:.1f} s", flush=True)


test(forms)
