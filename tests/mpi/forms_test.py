#!/usr/bin/env python3
"""Runs one MPI program without rdmalloc, and in each form in which it can run with it.

    forms_test.py openmpi|mpich STATUS PROGRAM ARGUMENTS...

Each run must end with STATUS and leave no process and no segment behind; if STATUS is 0, each rank
under rdmalloc must also write a report. Under the UCX shim, UCX carries the messages.
"""

import sys
import time

from job import FORMS, PLAIN, Job, mpirun, over, program, under
from verdict import SKIPPED, skip, test_in_folder

RANKS = 2


def forms(folder):
    mpi, status, name, *arguments = sys.argv[1:]
    words = [program(mpi, name), *arguments]
    for form in FORMS:
        began = time.monotonic()
        launch = [mpirun(mpi), "-np", RANKS, *over(mpi, form)]
        job = Job([*launch, *under(mpi, form), *words], folder)
        if form == PLAIN and job.status == SKIPPED:
            skip(job.output.strip().splitlines()[-1].removeprefix("SKIPPED: "))
        reported = form != PLAIN and int(status) == 0
        job.expect(int(status), ranks=RANKS if reported else None)
        print(f"  {form}: status {job.status} after {time.monotonic() - began:.1f} s", flush=True)


test_in_folder(forms)
