#!/usr/bin/env python3
"""What the command writes to a terminal, and not to a pipe.

    terminal_test.py RDMALLOC doctor|complaint|width
"""

import re
import subprocess
import sys

sys.path.append(sys.path[0] + "/../../../support")
from terminal import OnTerminal
from verdict import check, clean_environment, test

RDMALLOC = sys.argv[1]
DOCTOR = ["/bin/sh", "-c", f"ulimit -v 900000; exec {RDMALLOC} doctor"]  # which is a problem
COMPLAINT = [RDMALLOC, "no-such-command"]
RED = "\x1b[31m"


def environment(**more):
    kept = clean_environment()
    kept.pop("NO_COLOR", None)
    return kept | {"TERM": "xterm"} | more


def promise_colour(command, coloured):
    """Only a terminal gets colour, and one that does not refuse it."""
    for setting in ({}, {"NO_COLOR": ""}):
        _, seen = OnTerminal(command, environment(**setting)).finish()
        check(coloured in seen, f"with {setting} there is no {coloured!r}: {seen!r}")
    for setting in ({"NO_COLOR": "1"}, {"TERM": "dumb"}, {"TERM": ""}):
        _, seen = OnTerminal(command, environment(**setting)).finish()
        check(seen and "\x1b" not in seen, f"with {setting}: {seen!r}")
    done = subprocess.run(command, env=environment(), check=False, timeout=60,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    check(done.stdout and b"\x1b" not in done.stdout, f"in a pipe: {done.stdout!r}")


def doctor():
    promise_colour(DOCTOR, f"{RED}problem\x1b[m  address space ")
    promise_colour(DOCTOR, "\x1b[32mok\x1b[m       library ")


def complaint():
    promise_colour(COMPLAINT, f"{RED}rdmalloc:\x1b[m there is no command")


def width():
    """Lines break at blanks; what is to be typed stays whole."""
    for columns in (80, 40):
        _, seen = OnTerminal(DOCTOR, environment(NO_COLOR="1"), columns).finish()
        lines = seen.splitlines()
        findings = [line for line in lines[1:-1] if " > " not in line and " " in line.strip()]
        check(len(findings) > 20, seen)
        check(all(len(line) <= columns for line in findings), seen)
        check("         > ulimit -v unlimited   (this shell)" in lines, seen)
        check(lines[0] == lines[-1] and re.match("[0-9]+ problem", lines[0]),
              f"the last line, which a terminal still shows, is not the first: {seen}")


test({"doctor": doctor, "complaint": complaint, "width": width}[sys.argv[2]])
