#!/usr/bin/env python3
"""Runs each command line that the README gives under one of its marks, as it stands there.

    recipes_test.py README BLOCK      BLOCK as in <!-- recipes: BLOCK -->, which begins with the MPI

The lines find what they name in a folder made for them: build/ is the build folder, ./program a
program that looks at each byte it receives, and mpirun the MPI's own. Each must send the right bytes,
have malloc come to us in every rank, and leave nothing behind. Where the line names a shim that
registers the heap whatever the transport, the heap must have been registered.
"""

import os
import pathlib
import re
import sys

from job import SHIMS, Job, Failed, build, check, fail, mpirun, program, skip, test

RANKS = 2
REGISTERING = ("verbs", "ucx")  # libfabric's providers that copy are left alone


def lines_of(readme, block):
    text = pathlib.Path(readme).read_text(encoding="utf-8")
    found = re.search(rf"<!-- recipes: {re.escape(block)} -->\s*```sh\n(.*?)```", text, re.DOTALL)
    check(found, f"{readme} has no recipes: {block}")
    lines = [line for line in found[1].splitlines() if line and not line.startswith("#")]
    check(lines, f"{readme} has no line under recipes: {block}")
    return lines


def make_place(folder, mpi):
    """The folder that the lines stand in, and the one where they find mpirun."""
    place, tools = folder / "place", folder / "tools"
    for path in (place, tools):
        path.mkdir()
    (place / "build").symlink_to(build())
    (place / "program").symlink_to(program(mpi, "messages"))
    # No link: MPICH's looks for its helpers beside itself.
    (tools / "mpirun").write_text(f'#!/bin/sh\nexec {mpirun(mpi)} "$@"\n')
    (tools / "mpirun").chmod(0o755)
    return place, tools


def names(line, shim):
    return f"--{shim} " in line or f"librdmalloc-{shim}.so" in line


def missing(line):
    """The first shim the line names and the build has not, or None."""
    built = build() / "lib"
    return next((name for name in SHIMS
                 if names(line, name) and not (built / f"librdmalloc-{name}.so").exists()), None)


def run_line(line, place, tools, folder):
    """Adds the program's argument, and nothing else."""
    script = f"cd '{place}' && {line} isend"
    job = Job(["/bin/sh", "-c", script], folder, environment={
        "PATH": f"{tools}:{os.environ['PATH']}"}, seconds=100)
    if "%r" not in line:
        job.expect(0, ranks=RANKS)
        if any(names(line, shim) for shim in REGISTERING):
            job.expect_registered()
        return
    job.expect(0)
    found = sorted(path.name for path in place.glob("rank-*.json"))
    check(found == [f"rank-{rank}.json" for rank in range(RANKS)], f"the reports are {found}")


def recipes(folder):
    readme, block = sys.argv[1:]
    place, tools = make_place(folder, block.split("-")[0])
    failures, skipped = [], []
    for line in lines_of(readme, block):
        shim = missing(line)
        if shim:
            skipped.append(f"without librdmalloc-{shim}.so: {line}")
            continue
        try:
            run_line(line, place, tools, folder)
            print(f"  passed: {line}", flush=True)
        except Failed as why:
            failures.append(line)
            print(f"  FAILED: {line}\n{why}", flush=True)
    if failures:
        fail(f"{len(failures)} of the lines do not work")
    if skipped:
        skip("; ".join(skipped))


test(recipes)
