"""Runs one program without and with rdmalloc, and compares its behaviour and the report.

The environment names the library to preload, RDMALLOC_LIBRARY, or the command that preloads it,
RDMALLOC_COMMAND. A test ends by returning (passed), by skip() or by fail(); by then everything it
started is gone: see watch.py.
"""

import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys

sys.path.append(sys.path[0] + "/../support")
from verdict import check, clean_environment, fail

HERE = pathlib.Path(__file__).resolve().parent
MOST_DATA = 8 << 30  # the most that a runaway program may map, without and with
MOST_HELD = "4G"


def under_rdmalloc(command):
    runner = os.environ.get("RDMALLOC_COMMAND", "")
    if os.path.isfile(runner):
        return [runner, "run", "--", *command]
    path = os.environ.get("RDMALLOC_LIBRARY", "")
    check(os.path.isfile(path), "RDMALLOC_LIBRARY must name librdmalloc.so")
    return ["/usr/bin/env", f"LD_PRELOAD={path}", *command]


class Run:
    """One program in its own folder. It runs until wait()."""

    def __init__(self, command, folder, *, rdmalloc, environment=None, stdin=None, seconds=120,
                 report=True):
        self.rdmalloc, self.seconds = rdmalloc, seconds
        self.folder = pathlib.Path(folder)
        self.reports = self.folder / "reports"
        self.reports.mkdir()
        surroundings = clean_environment(PATH="/usr/local/bin:/usr/bin:/bin", LC_ALL="C.UTF-8",
                                         TZ="UTC", HOME=str(self.folder), TMPDIR=str(self.folder))
        surroundings.update(environment or {})
        if rdmalloc:
            surroundings.update(RDMALLOC_WARN="off", RDMALLOC_MEMORY_CAP=MOST_HELD)
            if report:
                surroundings.update(RDMALLOC_REPORT=f"{self.reports}/%p.json")
            command = under_rdmalloc(command)  # the program, not the interpreter that watches it
        self.notes_path = self.folder / "notes"
        watch = [sys.executable, "-B", str(HERE / "watch.py"), f"--seconds={seconds}",
                 f"--data={MOST_DATA}", f"--notes={self.notes_path}", "--"]
        with contextlib.ExitStack() as files:
            def opened(name):
                return files.enter_context(open(self.folder / name, "wb"))
            given = files.enter_context(open(stdin or os.devnull, "rb"))
            self.process = subprocess.Popen(
                [*watch, *map(str, command)], cwd=self.folder, env=surroundings, stdin=given,
                stdout=opened("stdout"), stderr=opened("stderr"))

    def wait(self):
        self.status = self.process.wait(self.seconds + 20)
        self.output = (self.folder / "stdout").read_bytes()
        self.errors = (self.folder / "stderr").read_bytes()
        notes = []
        if self.notes_path.exists():
            notes = [json.loads(line) for line in self.notes_path.read_text().splitlines()]
        self.whole = next((note for note in notes if "whole" in note), None)
        self.processes = {note["pid"]: note for note in notes if "whole" not in note}
        self.report = {}
        for path in self.reports.glob("*.json"):
            text = path.read_text()
            if text:  # empty if it was killed while writing
                self.report[int(path.stem)] = json.loads(text)
        return self

    def kill(self):
        """Also ends the program: when watch.py dies, the kernel kills what it traces."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def name_of(self, pid):
        return f"{self.processes[pid]['name'] if pid in self.processes else 'process'} {pid}"


def check_books(run, *, least_held=0):
    """Every process's report agrees with itself, and with the kernel's count to the byte."""
    check(run.report, "no process wrote a report: rdmalloc was not loaded")
    compared = 0
    for pid, report in run.report.items():
        who = run.name_of(pid)
        check(report["pid"] == pid, f"{who}: the report says it is of process {report['pid']}")
        check(report["held_bytes"] > 0, f"{who}: held_bytes is 0: malloc did not come to rdmalloc")
        check(report["peak_live_bytes"] <= report["peak_held_bytes"], f"{who}: live above held")
        listed = sum(region["length"] - region["retired"] for region in report["region_list"])
        check(listed == report["held_bytes"],
              f"{who}: regions of {listed} bytes, but held_bytes is {report['held_bytes']}")
        if not report["forked"]:
            unpinned = report["overflow_bytes"] + report["sparse_bytes"]
            check(report["pinned_bytes"] == report["held_bytes"] - unpinned,
                  f"{who}: pinned {report['pinned_bytes']} is not held {report['held_bytes']} "
                  f"- overflow {report['overflow_bytes']} - sparse {report['sparse_bytes']}")
        if pid in run.processes:
            locked = run.processes[pid]["VmLck"]
            check(locked == report["pinned_bytes"],
                  f"{who}: the kernel counts {locked} locked, the report {report['pinned_bytes']}")
            compared += 1
    held = max(report["held_bytes"] for report in run.report.values())
    check(held >= least_held, f"held at most {held} bytes: this test no longer tests much")
    mib = 1 << 20
    print(f"  {len(run.report)} processes reported; the largest held {held / mib:.1f} MiB; "
          f"VmLck = pinned in {compared} of {compared} seen")


def check_same(plain, other, *, errors=True):
    for what in ("status", "output") + (("errors",) if errors else ()):
        one, two = getattr(plain, what), getattr(other, what)
        if one != two:
            fail(f"{what} differs\n--- without\n{show(one)}\n--- with\n{show(two)}")


def show(value):
    if not isinstance(value, bytes):
        return str(value)
    return re.sub(r"[^\x20-\x7e\n\t]", "?", value[-3000:].decode("latin-1"))


def run_both(command, folder, *, prepare=None, **options):
    """Runs the command without and with rdmalloc, to the end. `command` may be a function of the
    run's folder, which prepare(folder) fills. Both runs see the same path; afterwards it is
    run.folder."""
    runs = []
    for rdmalloc in (False, True):
        own = pathlib.Path(folder) / "run"
        own.mkdir(parents=True)
        if prepare:
            prepare(own)
        words = command(own) if callable(command) else command
        run = Run(words, own, rdmalloc=rdmalloc, **options).wait()
        runs.append(run)
        name = "with" if rdmalloc else "without"
        run.folder = own.rename(own.with_name(name))
        seconds = f"{run.whole['wall_seconds']:.1f} s" if run.whole else "no notes"
        print(f"  {name + ':':8} {seconds}, status {run.status}", flush=True)
    return runs
