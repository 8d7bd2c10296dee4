#!/usr/bin/env python3
"""What a process under the library exposes: phases in its report, a page behind a descriptor.

    counters_test.py RDMALLOC phases|children|descriptors|small|off|control
"""

import ctypes
import json
import os
import subprocess
import sys
import tempfile

sys.path.append(sys.path[0] + "/../support")
from verdict import check, clean_environment, test

MIB = 1 << 20
LINK = "/memfd:rdmalloc (deleted)"


def run(program, *flags, under=True, **more):
    """The Python program's output."""
    words = ["/usr/bin/python3", "-c", program]
    if under:
        words = [sys.argv[1], "run", *flags, "--", *words]
    done = subprocess.run(words, stdout=subprocess.PIPE, env=clean_environment(), timeout=60, **more)
    check(done.returncode == 0, f"status {done.returncode}")
    return done.stdout.decode()


# Shows the descriptors of the process that runs this, by their link targets.
SHOW = """
import os
def show():
    for fd in sorted(os.listdir("/proc/self/fd"), key=int):
        try:
            print(fd, os.readlink("/proc/self/fd/" + fd), flush=True)
        except OSError:
            pass
"""


def pages(shown):
    return [line.split(" ", 1)[0] for line in shown.splitlines() if line.endswith(LINK)]


PHASES = f"""
import ctypes, os, time
phase = ctypes.CDLL(None).rdm_phase
phase(b"build")
block = bytearray(192 * {MIB})  # more than a processor's cache keeps
del block
phase(b'a "quiet"\\n one')
time.sleep(0.05)
if os.fork() == 0:
    phase(b"the child's")
    os._exit(0)
os.wait()
phase(b"build")
phase(None)
block = bytearray(384 * {MIB})
"""


def phases():
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report")
        run(PHASES, "--report", report)
        with open(report, encoding="utf-8") as file:
            found = json.load(file)
    build, quiet = found["phases"]
    check((build["name"], quiet["name"]) == ("build", 'a "quiet"\n one'), f"names: {found['phases']}")
    check((build["entered"], quiet["entered"]) == (2, 1), "entered so often")
    check(192 * MIB <= build["peak_live_bytes"] < 256 * MIB, f"the first phase's peak: {build}")
    check(quiet["peak_live_bytes"] < 16 * MIB, f"a peak that was before: {quiet}")
    check(quiet["peak_held_bytes"] >= 192 * MIB, f"what was held went away: {quiet}")
    check(quiet["ns"] >= 50_000_000 and build["ns"] > 0, "time")
    check(found["peak_held_bytes"] >= 384 * MIB, "what was in no phase is in the whole")


def children():
    """A child of fork, and a program it executes, each have one page of their own."""
    shown = run(SHOW + f"""
import subprocess, sys
def own():
    return [os.stat("/proc/self/fd/" + fd).st_ino for fd in os.listdir("/proc/self/fd")
            if os.path.lexists("/proc/self/fd/" + fd)
            and os.readlink("/proc/self/fd/" + fd) == "{LINK}"]
print(len(own()), own()[0], flush=True)
if os.fork() == 0:
    print(len(own()), own()[0], flush=True)
    os._exit(0)
os.wait()
code = "import os\\nLINK = '{LINK}'\\n" + '''
found = [fd for fd in os.listdir("/proc/self/fd")
         if os.path.lexists("/proc/self/fd/" + fd)
         and os.readlink("/proc/self/fd/" + fd) == LINK]
print(len(found), os.stat("/proc/self/fd/" + found[0]).st_ino)'''
subprocess.run([sys.executable, "-c", code], close_fds=False)
""", "--counters-from", "1")
    lines = [tuple(line.split()) for line in shown.splitlines()]
    check(len(lines) == 3, shown)
    check(all(count == "1" for count, _ in lines), f"not one page each: {lines}")
    check(len({file for _, file in lines}) == 3, f"a page is shared: {lines}")


def descriptors():
    """The program's descriptor numbers are unaffected; it may close ours and go on."""
    shown = run(SHOW + """
print("first", os.open("/dev/null", os.O_RDONLY), flush=True)
show()
os.closerange(3, 4096)
show()
os.dup2(0, 200)
if os.fork() == 0:
    block = bytearray(32 << 20)
    print("kept", os.readlink("/proc/self/fd/200") == os.readlink("/proc/self/fd/0"), flush=True)
    os._exit(0)
os.wait()
block = bytearray(32 << 20)
""", "--counters-from", "1", stdin=subprocess.DEVNULL)
    check("first 3\n" in shown, f"the program's first descriptor is another: {shown}")
    found = pages(shown)
    check(len(found) == 1 and int(found[0]) >= 200, f"one page, and out of the way: {found}")
    check("kept True" in shown, f"a child closed what the program put there: {shown}")
    shown = run(SHOW + "show()", "--counters-from", "1", preexec_fn=lambda: few_descriptors(24))
    check(pages(shown) == ["23"], f"with few descriptors it has the last: {shown}")


def few_descriptors(count):
    import resource
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, count))


def small():
    """A small process has only the descriptors it opened; a large one, or one with phases, has
    ours."""
    check(not pages(run(SHOW + "show()")), "a small process has a page")
    check(len(pages(run(SHOW + f"block = bytearray(32 * {MIB})\nshow()"))) == 1, "a large one has none")
    phase = "import ctypes\nctypes.CDLL(None).rdm_phase(b'one')\n"
    check(len(pages(run(SHOW + phase + "show()"))) == 1, "one with a phase has none")
    shown = run(SHOW + f"""
block = bytearray(32 * {MIB})
if os.fork() == 0:
    show()
    os._exit(0)
os.wait()
""")
    check(len(pages(shown)) == 1, f"a large one's child: {shown}")


def off():
    shown = run(SHOW + f"block = bytearray(32 * {MIB})\nshow()", "--counters-from", "0")
    check(not pages(shown), f"there is a page: {shown}")


def control():
    shown = run(SHOW + "show()", under=False)
    check(not pages(shown), f"there is a page without us: {shown}")
    check(not hasattr(ctypes.CDLL(None), "rdm_phase"), "rdm_phase is there without us")


test(globals()[sys.argv[2]])
