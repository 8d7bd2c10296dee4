#!/usr/bin/env python3
"""Pinned memory that a program has before main, or it does not start.

    reserve_test.py RDMALLOC had|control|refused|node
"""

import os
import subprocess
import sys
import tempfile

MIB = 1 << 20
USER = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all",
        "--inh-caps=-all"]
SHOW = """
import sys
locked = [line.split()[1] for line in open("/proc/self/status") if line.startswith("VmLck")]
print(locked[0])
"""


def check(good, why):
    if not good:
        print(f"FAILED: {why}")
        sys.exit(1)


def run(*flags, memlock=None):
    """Its status, the bytes that are locked, and what it said. `memlock`: KiB, as an ordinary user."""
    words = [sys.argv[1], "run", *flags, "--", "/usr/bin/python3", "-c", SHOW]
    if memlock is not None:
        if os.geteuid() != 0:
            print("SKIPPED: becoming another user needs root")
            sys.exit(77)
        words = ["sh", "-c", f'ulimit -l {memlock} && exec "$@"', "sh", *USER, *words]
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith(("RDMALLOC_", "LD_"))}
    done = subprocess.run(words, capture_output=True, env=environment, timeout=60, cwd="/")
    return done.returncode, int(done.stdout or b"0") << 10, done.stderr.decode()


def had():
    status, locked, errors = run("--reserve", "32M")
    check(status == 0 and not errors, f"status {status}: {errors}")
    # And the first regions of the heap, of which that of large blocks has 16 MiB.
    check(32 * MIB <= locked <= 64 * MIB, f"{locked} bytes are locked")


def control():
    status, locked, _ = run()
    check(status == 0 and locked < 32 * MIB, "it has as much without: the other test shows nothing")


def refused():
    status, locked, errors = run("--reserve", "32M", memlock=8192)
    check(status == 2 and locked == 0, f"status {status}, {locked} bytes locked")
    for words in ("RDMALLOC_RESERVE asks for 32 MiB", "the memlock limit is 8 MiB", "ulimit -l"):
        check(words in errors, f"not '{words}': {errors}")
    check(len(errors.splitlines()) == 1, f"not one sentence: {errors}")
    status, locked, errors = run("--reserve", "4M", memlock=8192)
    check(status == 0 and locked >= 4 * MIB, f"status {status}, {locked} bytes: {errors}")


def node():
    """Another process has the node's memory: it is named."""
    with tempfile.TemporaryDirectory() as folder:
        limits = ["--node-cap", "64M", "--ledger", f"{folder}/ledger"]
        holder = subprocess.Popen([sys.argv[1], "run", *limits, "--reserve", "40M", "--",
                                   "/bin/sh", "-c", "echo up; read line"],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        holder.stdout.readline()
        status, locked, errors = run(*limits, "--reserve", "32M")
        holder.communicate(b"\n")
        check(status == 2 and locked == 0, f"status {status}, {locked} bytes locked")
        check("RDMALLOC_NODE_CAP" in errors, f"not which limit: {errors}")
        check(f"process {holder.pid} " in errors, f"not who has it: {errors}")
        status, locked, errors = run(*limits, "--reserve", "32M")
        check(status == 0 and locked >= 32 * MIB, f"status {status} when it is gone: {errors}")


{"had": had, "control": control, "refused": refused, "node": node}[sys.argv[2]]()
print("passed")
