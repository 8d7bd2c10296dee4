#!/usr/bin/env python3
"""Ordinary programs under one limit for the machine.

    node_cap_test.py RDMALLOC sum|control|killed|damaged|foreign

What counts is what the kernel reports as locked (VmLck).
"""

import contextlib
import os
import subprocess
import sys

sys.path.append(sys.path[0] + "/../support")
from verdict import check, clean_environment, need_root, test_in_folder

MIB = 1 << 20
CAP = 64
EACH = 24
HOLDER = """
import sys
kept = bytearray(int(sys.argv[1]) << 20)
locked = [line.split()[1] for line in open("/proc/self/status") if line.startswith("VmLck")]
print(locked[0], flush=True)
sys.stdin.readline()
"""


class Holder:
    """A program that allocates, reports what it has locked, and stays until released."""

    def __init__(self, flags, mib=EACH):
        self.process = subprocess.Popen(
            [sys.argv[1], "run", *flags, "--", sys.executable, "-c", HOLDER, str(mib)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=clean_environment())
        self.locked = int(self.process.stdout.readline() or b"0") << 10
        self.errors = None

    def end(self, *, kill=False):
        if self.errors is None:
            if kill:
                self.process.kill()
            self.errors = self.process.communicate(b"\n", timeout=30)[1].decode()
        return self.errors


@contextlib.contextmanager
def holders(flags, count):
    started = []
    try:
        for _ in range(count):
            started.append(Holder(flags))
        yield started
    finally:
        for one in started:
            one.end()


def add_up(flags):
    with holders(flags, 5) as all_of_them:
        total = sum(one.locked for one in all_of_them)
        print(f"  five programs of {EACH} MiB have locked {total / MIB:.1f} MiB of {CAP}")
        return total, [one.end() for one in all_of_them]


def sum_is_kept(flags, _ledger):
    total, errors = add_up(flags)
    check(total <= CAP * MIB, "more than the machine's limit")
    check(total >= 2 * EACH * MIB, "much less than the machine's limit")
    check("RDMALLOC_NODE_CAP allows 64 MiB on this machine" in errors[-1], f"no sentence: {errors[-1]}")
    check("; process " in errors[-1], f"not who holds it: {errors[-1]}")


def control(_flags, _ledger):
    total, _ = add_up([])
    check(total > CAP * MIB, "without the limit they stay below it, too: this test shows nothing")


def killed(flags, _ledger):
    with holders(flags, 2) as (first, second):
        check(second.locked >= EACH * MIB, "the second was given too little")
        third = Holder(flags)
        check(third.locked < EACH * MIB, "there was room for a third: this test shows nothing")
        third.end()
        first.end(kill=True)
        fourth = Holder(flags)
        check(fourth.locked >= EACH * MIB, "the share of the dead was not given to the next")
        fourth.end()


def refused(flags, why):
    """Runs on under its own limits, one of which is the flag."""
    one = Holder(flags)
    errors = one.end()
    check(one.process.returncode == 0, f"status {one.process.returncode}: {errors}")
    check(one.locked >= EACH * MIB, "its own limit would have allowed more")
    check(why in errors and "RDMALLOC_LEDGER" in errors, f"not the sentence: {errors}")
    check(len(errors.splitlines()) == 1, f"not one sentence: {errors}")


def damaged(flags, ledger):
    ledger.write_bytes(b"no ledger at all" * 1000)
    ledger.chmod(0o600)
    refused(flags, "is damaged")


def foreign(flags, ledger):
    need_root("giving a file to another user")
    ledger.touch(mode=0o600)
    os.chown(ledger, 65534, 65534)
    refused(flags, "is not this user's own file")


CASES = {"sum": sum_is_kept, "control": control, "killed": killed, "damaged": damaged,
         "foreign": foreign}


def main(folder):
    ledger = folder / "ledger"
    CASES[sys.argv[2]](["--node-cap", f"{CAP}M", "--ledger", str(ledger)], ledger)


test_in_folder(main)
