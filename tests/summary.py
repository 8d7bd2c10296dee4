#!/usr/bin/env python3
"""Sums up a run of ctest: what was skipped and why, the most frequent reason first, and how each test
that failed ended, which is far above in ctest's own output.

usage: summary.py JUNIT_FILE    as `ctest --output-junit` writes it
"""
import re
import sys
import xml.etree.ElementTree
from collections import Counter

REASON = re.compile(r"^skipped: *(.+)$", re.IGNORECASE | re.MULTILINE)
LAST_LINES = 60


def output_of(test):
    return test.findtext("system-out") or ""


def reasons_of(test):
    # None of a test that ran into its limit of output, say.
    return REASON.findall(output_of(test)) or ["no reason is told"]


def show_skips(tests):
    whole, parts, absent = Counter(), Counter(), []
    for test in tests:
        if test.find("skipped") is None:
            # One that passed, but for some of its cases.
            if test.get("status") == "run":
                parts.update(set(REASON.findall(output_of(test))))
            continue
        reason = "; ".join(dict.fromkeys(reasons_of(test)))
        if reason.startswith("not built: "):
            absent.append(reason)
        else:
            whole[reason] += 1
    print(f"{len(tests)} tests: {whole.total()} skipped, {parts.total()} skipped in part, "
          f"{len(absent)} suites not built")
    for counter, what in ((whole, "skipped"), (parts, "skipped in part")):
        for reason, count in counter.most_common():
            print(f"  {count} {what}: {reason}")
    for reason in absent:
        print(f"  {reason}")


def show_failures(tests):
    failed = [test for test in tests if test.get("status") == "fail"]
    for test in failed:
        print(f"\nfailed: {test.get('name')}")
        for line in output_of(test).splitlines()[-LAST_LINES:]:
            print(f"  {line}")


def main():
    if len(sys.argv) != 2:
        print(__doc__.splitlines()[3], file=sys.stderr)
        return 2
    tests = xml.etree.ElementTree.parse(sys.argv[1]).getroot().findall("testcase")
    show_skips(tests)
    show_failures(tests)
    return 0


if __name__ == "__main__":
    sys.exit(main())
