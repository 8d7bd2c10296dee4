#!/usr/bin/env python3
"""Says what a run of ctest skipped, and why: by reason, the most frequent first.

usage: skips.py JUNIT_FILE    as `ctest --output-junit` writes it
"""
import re
import sys
import xml.etree.ElementTree
from collections import Counter

REASON = re.compile(r"^skipped: *(.+)$", re.IGNORECASE | re.MULTILINE)


def reasons_of(test):
    found = REASON.findall(test.findtext("system-out") or "")
    # Of a test that ran into its limit of output, say.
    return found or ["no reason is told"]


def main():
    if len(sys.argv) != 2:
        print(__doc__.splitlines()[2], file=sys.stderr)
        return 2
    tests = xml.etree.ElementTree.parse(sys.argv[1]).getroot().findall("testcase")
    whole, parts, absent = Counter(), Counter(), []
    for test in tests:
        if test.find("skipped") is None:
            # One that passed, but for some of its cases.
            if test.get("status") == "run":
                parts.update(set(REASON.findall(test.findtext("system-out") or "")))
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
    return 0


if __name__ == "__main__":
    sys.exit(main())
