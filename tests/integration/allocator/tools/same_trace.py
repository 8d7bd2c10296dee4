#!/usr/bin/env python3
"""Checks that two text traces make the same requests in the same order and threads.

usage: same_trace.py ORIGINAL RECORDED_AGAIN

The recording of a replay has one more zeroed allocation for each thread but the first:
pthread_create's, which may be freed when the thread ends. So objects are identified by the
allocation that made them, without counting those.
"""
import sys


def events(path):
    """(kind, which allocation, size and alignment, thread) of each event, without times."""
    thread = "0"
    found = []
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            words = line.split()
            if words[0] == "program":
                continue
            kind, name, rest = words[0], words[1], words[2:]
            if "at" in rest:
                rest = rest[:rest.index("at")]
            if "thread" in rest:
                thread = rest[rest.index("thread") + 1]
                rest = rest[:rest.index("thread")]
            found.append((kind, name, tuple(rest), thread))
    return found


def compare(original, again):
    """The first difference, or None; and the number of extra allocations."""
    made = [{}, {}]  # object -> its allocation's index, in each trace
    number = extra = at = 0
    of_threads = set()
    for kind, name, rest, thread in again:
        wanted = original[at] if at < len(original) else None
        is_new = kind in "az"
        fits = wanted is not None and (wanted[0], wanted[2], wanted[3]) == (kind, rest, thread)
        if not fits and kind == "z":
            extra += 1
            of_threads.add(name)
            continue
        if kind == "f" and name in of_threads:
            of_threads.remove(name)
            continue
        if not fits:
            return f"event {at}: {wanted} became {(kind, name, rest, thread)}", extra
        if is_new:
            made[0][wanted[1]] = made[1][name] = number
            number += 1
        elif made[0].get(wanted[1]) != made[1].get(name):
            return f"event {at}: {wanted} is of another object", extra
        at += 1
    return (None if at == len(original) else f"only {at} of {len(original)} events"), extra


def main():
    original, again = events(sys.argv[1]), events(sys.argv[2])
    threads = len({event[3] for event in original})
    difference, extra = compare(original, again)
    if difference is None and extra != threads - 1:
        difference = f"{extra} allocations more, for {threads} threads"
    print(difference or f"{len(original)} events of {threads} threads are the same")
    return 1 if difference or not original else 0


if __name__ == "__main__":
    sys.exit(main())
