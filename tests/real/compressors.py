#!/usr/bin/env python3
"""A compressor writes the same bytes without and with rdmalloc, both unpack to what was packed, and the
peak of its memory is glibc's.

    compressors.py [--bar] [--preload LIBRARY] PROGRAM OPTIONS...

Compressors malloc hash tables and windows for the largest input there may be, and touch what the
input at hand needs: `zstd --ultra -22` asks for 4 GB and uses a sixth of it on 1 MB. A malloc that
makes resident what it gives multiplies their memory, by 6 to 22, and they fail in a container that
suffices with glibc. --bar holds the peak to glibc's.

--preload is for the control: this library takes rdmalloc's place, and must fail the bar.
"""

import pathlib
import random
import sys

from side_by_side import Run, check, check_books, fail, need, run_both, skip, test

MIB = 1 << 20
INPUT_BYTES = MIB
MOST_TIMES, MOST_MORE = 1.03, 3 * MIB  # the library itself and its tables
RUNS = 3


def text():
    """Words that come again, always the same: what compressors are made for."""
    draw = random.Random(7)
    letters = b"abcdefghijklmnopqrstuvwxyz"
    words = [bytes(draw.choices(letters, k=draw.randint(2, 9))) for _ in range(4000)]
    return b" ".join(draw.choices(words, k=INPUT_BYTES // 4))[:INPUT_BYTES]


def peak(run, program):
    """VmHWM at exit. (ru_maxrss would be at least that of the interpreter that forked it.)"""
    name = pathlib.Path(program).name[:15]
    found = [note["VmHWM"] for note in run.processes.values() if note["name"] == name]
    if not found:
        skip("no tracing here, hence no peak of memory")
    return max(found)


def peaks(command, folder, preload, given):
    """Of runs without and with, the smallest: how much of a library the kernel maps around a page
    that is touched is its own affair, and differs by half a MiB. Nobody writes a report in these."""
    smallest = []
    for name in ("plain", "other"):
        found = []
        for repeat in range(RUNS):
            own = folder / f"{name}-{repeat}"
            own.mkdir(parents=True)
            words = ["/usr/bin/env", f"LD_PRELOAD={preload}", *command] \
                if preload and name == "other" else command
            run = Run(words, own, rdmalloc=name == "other" and preload is None, stdin=given,
                      report=False)
            found.append(peak(run.wait(), command[0]))
        smallest.append(min(found))
    return smallest


def check_peak(what, libc, ours, bar):
    most = libc * MOST_TIMES + MOST_MORE
    print(f"  {what}: peak {ours / MIB:.1f} MiB, glibc {libc / MIB:.1f} ({ours / libc:.2f} times), "
          f"bar {f'{most / MIB:.1f}' if bar else 'none'}")
    if bar and ours > most:
        fail(f"{what} takes {ours / libc:.1f} times glibc's memory: what it mallocs and does not "
             "touch became resident")


def runs_of(command, folder, preload, given):
    """Without and with; with --preload, the latter is the control's run."""
    if preload is None:
        return run_both(command, folder, stdin=given)
    ended = []
    for name, environment in (("plain", {}), ("preloaded", {"LD_PRELOAD": preload})):
        own = folder / name
        own.mkdir(parents=True)
        words = ["/usr/bin/env", *(f"{key}={value}" for key, value in environment.items()), *command]
        ended.append(Run(words, own, rdmalloc=False, stdin=given).wait())
    return ended


def options():
    words = sys.argv[1:]
    bar = words[0] == "--bar"
    words = words[1:] if bar else words
    preload = words[1] if words[0] == "--preload" else None
    words = words[2:] if preload else words
    check(preload is None or pathlib.Path(preload).is_file(), f"no {preload}")
    return bar, preload, need(words[0]), words[1:]


def both_the_same(what, command, folder, preload, given, bar):
    """The output, which both runs have in common."""
    plain, other = runs_of(command, folder, preload, given)
    for run in (plain, other):
        check(run.status == 0, f"{what}: status {run.status}\n{run.errors.decode()[-1000:]}")
    check(plain.output == other.output, f"{what} wrote other bytes under us")
    if preload is None:
        check_books(other)
    check_peak(what, *peaks(command, folder / "peaks", preload, given), bar)
    return plain.output


def compressors(folder):
    bar, preload, program, words = options()
    original, packed = folder / "original", folder / "packed"
    original.write_bytes(text())
    packed.write_bytes(both_the_same("packing", [program, *words, "-c"], folder / "packing",
                                     preload, original, bar))
    check(packed.stat().st_size < INPUT_BYTES // 2, "nothing was compressed")
    window = [word for word in words if word.startswith("--long")]  # unpacking must allow it, too
    unpacked = both_the_same("unpacking", [program, "-d", *window, "-c"], folder / "unpacking",
                             preload, packed, bar)
    check(unpacked == original.read_bytes(), "what was unpacked is not what was packed")


test(compressors)
