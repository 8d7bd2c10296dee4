#!/usr/bin/env python3
"""Pinned memory that a program has before main; otherwise it does not start.

    reserve_test.py RDMALLOC had|control|refused|node
"""

import subprocess
import sys
import tempfile

sys.path.append(sys.path[0] + "/../support")
from verdict import as_user, check, clean_environment, need_root, test

MIB = 1 << 20
SHOW = """
import sys
locked = [line.split()[1] for line in open("/proc/self/status") if line.startswith("VmLck")]
print(locked[0])
"""


def run(*flags, memlock=None):
    """Its status, the locked bytes, and its output. `memlock`: KiB, as an ordinary user."""
    words = [sys.argv[1], "run", *flags, "--", "/usr/bin/python3", "-c", SHOW]
    if memlock is not None:
        need_root("becoming another user")
        words = ["sh", "-c", f'ulimit -l {memlock} && exec "$@"', "sh", *as_user(), *words]
    done = subprocess.run(words, capture_output=True, env=clean_environment(), timeout=60, cwd="/")
    return done.returncode, int(done.stdout or b"0") << 10, done.stderr.decode()


def had():
    status, locked, errors = run("--reserve", "32M")
    check(status == 0 and not errors, f"status {status}: {errors}")
    # Includes the heap's first regions; the one for large blocks has 16 MiB.
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
    """Another process holds the machine's memory and is named."""
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


test({"had": had, "control": control, "refused": refused, "node": node}[sys.argv[2]])
