#!/usr/bin/env python3
"""A debugger's core of a process that holds 50 MiB is small and contains all its live memory.

    core_test.py gdb|gcore PROGRAM [--library FILE] [NAME=VALUE...] [ARGUMENT...]

Debuggers write every mapping not marked MADV_DONTDUMP, including reserved addresses: people dump
hanging ranks, and a terabyte of addresses would fill their disk and the process's page tables.
Reserved memory must be marked, and memory in use must not. RLIMIT_FSIZE bounds the core here.
"""

import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile

sys.path.append(sys.path[0] + "/../support")
from verdict import fail, need, skip, test

MIB = 1 << 20
MOST = 200 * MIB
BOUND = 400 * MIB
SECONDS = 60
QUIET = ["-nx", "-iex", "set debuginfod enabled off", "-iex", "set auto-load off"]


def bounded():
    resource.setrlimit(resource.RLIMIT_FSIZE, (BOUND, BOUND))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # of the debugger itself, if it is killed
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))


def debug(command, folder):
    """Its output and its status, which is negative if a signal or the timeout ended it."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, errors="replace",
                               preexec_fn=bounded, cwd=folder, start_new_session=True,
                               env={**os.environ, "LC_ALL": "C", "HOME": str(folder)})
    try:
        output = process.communicate(timeout=SECONDS)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)  # gcore is a shell script that runs gdb
        output = process.communicate()[0] + f"\nstopped after {SECONDS} s"
    return output, process.returncode


def page_tables(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(re.search(r"VmPTE:\s*(\d+)", status)[1]) << 10


def write_core(how, pid, folder):
    core = folder / f"core.{pid}"
    command = {"gdb": ["gdb", *QUIET, "-batch", "-p", str(pid), "-ex", f"generate-core-file {core}"],
               "gcore": ["gcore", "-o", str(folder / "core"), str(pid)]}[how]
    before = page_tables(pid)
    output, status = debug(command, folder)
    if re.search(r"ptrace: (Operation not permitted|Inappropriate)", output):
        skip(f"no tracing here: {output.strip().splitlines()[-1]}")
    size = core.stat().st_size if core.exists() else 0
    print(f"  {how}: {size / MIB:.1f} MiB, status {status}; the process's page tables "
          f"{before >> 10} -> {page_tables(pid) >> 10} KiB")
    if size >= MOST or status < 0:
        fail(f"the core is above {MOST // MIB} MiB, bounded at {BOUND // MIB}\n{output[-400:]}")
    if status != 0 or size == 0:
        fail(f"no core\n{output[-400:]}")
    return core


def check_markers(program, core, markers):
    asked = []
    for address in markers:
        asked += ["-ex", f"x/s {address}"]
    output, _ = debug(["gdb", *QUIET, "-batch", program, str(core), *asked], core.parent)
    found = dict(re.findall(r'^(0x[0-9a-f]+).*?:\s+"([^"]*)"', output, re.MULTILINE))
    for address, marker in markers.items():
        if found.get(address) != marker:
            fail(f"the core has {found.get(address)!r} at {address}, and the process {marker!r}\n"
                 f"{output[-400:]}")
    print(f"  {len(markers)} markers are in the core")


def started(words, environment):
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                            env={**os.environ, **environment})


def markers_of(process):
    """Where each marker lies, once all are there."""
    markers = {}
    for line in process.stdout:
        if line == "ready\n":
            return markers
        if line.startswith("SKIPPED"):
            skip(line.split(": ", 1)[1].strip())
        address, marker = line.rstrip("\n").split(" ", 1)
        markers[address] = marker
    return fail(f"the program ended with {process.wait()}")


def main():
    how, program, *words = sys.argv[1:]
    environment, arguments = {}, []
    while words:
        word = words.pop(0)
        if word == "--library":
            environment["LD_PRELOAD"] = words.pop(0)
        elif "=" in word:
            environment.update([word.split("=", 1)])
        else:
            arguments.append(word)
    need("gdb", how)
    with tempfile.TemporaryDirectory(prefix="rdmalloc-core-") as folder:
        if shutil.disk_usage(folder).free < 2 * BOUND:
            skip(f"less than {2 * BOUND // MIB} MiB is free in {folder}")
        process = started([program, *arguments], environment)
        try:
            markers = markers_of(process)
            check_markers(program, write_core(how, process.pid, pathlib.Path(folder)), markers)
            process.stdin.write("\n")
            process.stdin.close()
            if process.wait(10) != 0:
                fail(f"afterwards the process ended with {process.returncode}")
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()


test(main)
