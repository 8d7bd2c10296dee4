#!/usr/bin/env python3
"""Runs each command line that a README gives under one of its marks, exactly as written.

    recipes_test.py MPI FILE:BLOCK...      MPI as in job.py; BLOCK as in <!-- recipes: BLOCK -->

The lines run in a folder prepared for them: build/ is the build folder, ./program is a program that
checks each byte it receives, and mpirun is that MPI's. Each line must deliver the right bytes, have
our malloc in every rank, and leave nothing behind. If it names a shim that registers the heap on
every transport, the heap must have been registered.
"""

import os
import pathlib
import re
import sys

from job import SHIMS, Job, build, mpirun, program
from verdict import Failed, check, fail, skip, test_in_folder

RANKS = 2
REGISTERING = ("verbs", "ucx")  # where there is a card; not ofi: providers that copy are left alone


def lines_of(readme, block):
    text = pathlib.Path(readme).read_text(encoding="utf-8")
    found = re.search(rf"<!-- recipes: {re.escape(block)} -->\s*```sh\n(.*?)```", text, re.DOTALL)
    check(found, f"{readme} has no recipes: {block}")
    lines = [re.sub(r"(^|\s+)# .*", "", line) for line in found[1].splitlines()]
    lines = [line for line in lines if line]
    check(lines, f"{readme} has no line under recipes: {block}")
    return lines


def all_lines(marks):
    """The lines of all files, without duplicates, each with whether it is for a card."""
    return dict.fromkeys((line, mark.endswith("-card"))
                         for mark in marks for line in lines_of(*mark.rsplit(":", 1)))


def make_place(folder, mpi):
    """The folder that the lines run in, and the one where they find mpirun."""
    place, tools = folder / "place", folder / "tools"
    for path in (place, tools):
        path.mkdir()
    (place / "build").symlink_to(build())
    (place / "program").symlink_to(program(mpi, "messages"))
    # Not a symbolic link: MPICH's mpirun looks for its helpers beside itself.
    (tools / "mpirun").write_text(f'#!/bin/sh\nexec {mpirun(mpi)} "$@"\n')
    (tools / "mpirun").chmod(0o755)
    return place, tools


def names(line, shim):
    return f"--{shim} " in line or f"librdmalloc-{shim}.so" in line


def missing(line):
    """The first shim that the line names and the build lacks, or None."""
    built = build() / "lib"
    return next((name for name in SHIMS
                 if names(line, name) and not (built / f"librdmalloc-{name}.so").exists()), None)


def run_line(line, has_card, place, tools, folder):
    """Runs the line with only the program's argument added."""
    script = f"cd '{place}' && {line} isend"
    job = Job(["/bin/sh", "-c", script], folder, environment={
        "PATH": f"{tools}:{os.environ['PATH']}"}, seconds=100)
    if "%r" not in line:
        job.expect(0, ranks=RANKS)
        if has_card and any(names(line, shim) for shim in REGISTERING):
            job.expect_registered()
        return
    job.expect(0)
    found = sorted(path.name for path in place.glob("rank-*.json"))
    check(found == [f"rank-{rank}.json" for rank in range(RANKS)], f"the reports are {found}")


def recipes(folder):
    mpi, *marks = sys.argv[1:]
    place, tools = make_place(folder, mpi)
    failures, skipped = [], []
    for line, has_card in all_lines(marks):
        shim = missing(line)
        if shim:
            skipped.append(f"without librdmalloc-{shim}.so: {line}")
            continue
        try:
            run_line(line, has_card, place, tools, folder)
            print(f"  passed: {line}", flush=True)
        except Failed as why:
            failures.append(line)
            print(f"  FAILED: {line}\n{why}", flush=True)
    if failures:
        fail(f"{len(failures)} of the lines do not work")
    if skipped:
        skip("; ".join(skipped))


test_in_folder(recipes)
