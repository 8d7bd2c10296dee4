#!/usr/bin/env python3
"""A compressor writes the same bytes without and with rdmalloc, its output unpacks to the input,
and its peak memory is that under glibc.

    compressors.py [--bar] [--preload LIBRARY] PROGRAM OPTIONS...

Compressors allocate hash tables and windows for the largest possible input and touch what this
input needs: `zstd --ultra -22` asks for 4 GB and uses a sixth of it on 1 MB. A malloc that makes
its memory resident multiplies their memory by 6 to 22, and they fail in a container that suffices
with glibc. --bar requires a peak like glibc's.

--preload is for the control: this library replaces rdmalloc, and must fail the bar.
"""

import pathlib
import random
import sys

from side_by_side import Run, check_books, run_both
from verdict import check, fail, need, skip, test_in_folder

MIB = 1 << 20
INPUT_BYTES = MIB
MOST_TIMES, MOST_MORE = 1.03, 3 * MIB  # the library itself and its tables
RUNS = 3


def text():
    """Words that keep repeating: the input that compressors are made for."""
    draw = random.Random(7)
    letters = b"abcdefghijklmnopqrstuvwxyz"
    words = [bytes(draw.choices(letters, k=draw.randint(2, 9))) for _ in range(4000)]
    return b" ".join(draw.choices(words, k=INPUT_BYTES // 4))[:INPUT_BYTES]


def peak(run, program):
    """VmHWM at exit. (ru_maxrss would include the interpreter that forked the process.)"""
    name = pathlib.Path(program).name[:15]
    found = [note["VmHWM"] for note in run.processes.values() if note["name"] == name]
    if not found:
        skip("no tracing here, hence no peak of memory")
    return max(found)


def peaks(command, folder, preload, given):
    """The smallest of the runs without and with. How much of a library the kernel maps around a
    touched page varies by half a MiB. These runs write no report."""
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
    """Without and with; under --preload, the latter is the control."""
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
    """The output, which must be the same in both runs."""
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
    window = [word for word in words if word.startswith("--long")]  # needed to unpack, too
    unpacked = both_the_same("unpacking", [program, "-d", *window, "-c"], folder / "unpacking",
                             preload, packed, bar)
    check(unpacked == original.read_bytes(), "what was unpacked is not what was packed")


test_in_folder(compressors)
