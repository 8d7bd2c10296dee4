#!/usr/bin/env python3
"""Checks the meaning of each line of HPCC's input against HPCC's README, which numbers the lines,
and against the package's example, if installed."""

import pathlib
import re
import sys

from mpi_inputs import hpcc_input, hpcc_lines

sys.path.append(sys.path[0] + "/../support")
from verdict import check, test_in_folder

EXAMPLE = pathlib.Path("/usr/share/doc/hpcc/examples/_hpccinf.txt")
# By the README's numbers: a count is followed by that many values.
COUNTED = {5: 6, 7: 8, 10: 11, 14: 15, 16: 17, 18: 19, 20: 21, 22: 23, 24: 25, 33: 34, 35: 36}
ALIGNMENT, SEPARATOR, LAST = 31, 32, 36


def meaning(line):
    """A line of the example without its values."""
    return " ".join(re.sub(r"^\S+(\s+\d+)*(?=\s)", "", line).split())


def check_numbers(lines):
    check(len(lines) == LAST, f"{len(lines)} lines, not {LAST}")
    check(lines[SEPARATOR - 1].startswith("#"), f"line {SEPARATOR} is not the separator")
    check(lines[ALIGNMENT - 1].split()[0] == "8", f"line {ALIGNMENT} is not the alignment")
    for number, values in COUNTED.items():
        check(int(lines[number - 1].split()[0]) == 1 and lines[values - 1].split()[0].isdigit(),
              f"line {number} counts the values of line {values}, and there is one")


def check_example():
    example = EXAMPLE.read_text(encoding="utf-8").splitlines()
    check(len(example) == LAST, f"{EXAMPLE} has {len(example)} lines")
    for number, (line, (_, ours)) in enumerate(zip(example, hpcc_lines(False)), 1):
        if number > 2:  # skip the titles
            check(meaning(line) == ours,
                  f"line {number} means {meaning(line)!r}, and is written as {ours!r}")


def inputs(_folder):
    for long in (False, True):
        check_numbers(hpcc_input(long).splitlines())
    if EXAMPLE.exists():
        check_example()
    else:
        print(f"  not compared with the package's example: no {EXAMPLE}")


test_in_folder(inputs)
