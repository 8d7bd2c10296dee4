#!/usr/bin/env python3
"""Compares the recorder's trace of a program with the program's own account.

usage: trace_record_test.py COMMAND WITNESS CASE [ALLOCATOR]

Exit status: 0 kept, 1 broken, 77 skipped with a reason.
"""
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

sys.path.append(sys.path[0] + "/../../../support")
from verdict import SKIPPED, check, skip, test_in_folder

COMMAND, WITNESS = (str(Path(name).resolve()) for name in sys.argv[1:3])
SMALLEST = 20001  # as in the witness


def run(words, **more):
    return subprocess.run(words, capture_output=True, text=True, timeout=100, check=False, **more)


def record(program, options=(), folder=".", **more):
    done = run([COMMAND, "trace", "record", "-o", f"{folder}/t.rdtrace", *options, "--", *program],
               **more)
    if "not installed" in done.stderr:
        skip(done.stderr.strip())
    return done


class Trace:
    """The witness's objects in a trace, identified by their sizes."""

    def __init__(self, path, truncated=False):
        shown = run([COMMAND, "trace", "text", str(path)])
        check(shown.returncode == (3 if truncated else 0), f"text {path}: {shown.stderr}")
        self.allocated = self.resized = self.freed = self.events = 0
        live = {}  # by number: size, and whether it is the witness's
        for line in shown.stdout.splitlines():
            words = line.split()
            if words[0] not in "azrf":
                continue
            self.events += 1
            number = int(words[1])
            size = int(words[2]) if words[0] != "f" else 0
            check((number in live) == (words[0] not in "az"), f"{path}: {line}: cannot be")
            if words[0] in "az":
                live[number] = (size, self.ours(size))
                self.allocated += self.ours(size)
            elif words[0] == "r":
                live[number] = (size, live[number][1])
                self.resized += self.ours(size)
            else:
                self.freed += live.pop(number)[1]
        mine = [size for size, is_mine in live.values() if is_mine]
        self.held, self.bytes = len(mine), sum(mine)

    @staticmethod
    def ours(size):
        return SMALLEST <= size < SMALLEST + 8256 and (size % 2 == 1 or size % 256 == 0)

    def said(self):
        return (f"allocated {self.allocated} resized {self.resized} freed {self.freed} "
                f"held {self.held} bytes {self.bytes}")


def agree(trace, line):
    check(trace.said() == line.strip(), f"the program: {line}\nits trace:   {trace.said()}")


def unmatched(done):
    found = re.search(r"left out: (\d+) free", done.stderr)
    return int(found.group(1)) if found else 0


def record_witness(arguments, options=(), status=0):
    """Records the witness and compares the trace with the last line that it printed."""
    done = record([WITNESS, *arguments], options)
    check(done.returncode == status, f"status {done.returncode}: {done.stdout}{done.stderr}")
    trace = Trace("t.rdtrace")
    check(trace.events > 0 and done.stdout, "nothing was recorded")
    agree(trace, done.stdout.splitlines()[-1])
    check("nobody saw" not in done.stderr and "damaged" not in done.stderr, done.stderr)
    check(not list(Path(".").glob("*.raw-*")), "raw files are left behind")
    return done


def under():
    return ["--under", sys.argv[4]] if len(sys.argv) > 4 else []


def storm():
    done = record_witness(["storm", "4", "20000"], under())
    check(unmatched(done) == 0, done.stderr)
    check(re.search(r"of \d+ threads", done.stderr), done.stderr)


def one_thread():
    record_witness(["many", "20000"], under())


def threads():
    record_witness(["threads", "300"], under())


def unsteady():
    """qemu's processor does not say that its counter runs evenly."""
    emulator = "qemu-x86_64-static"
    if platform.machine() != "x86_64" or not shutil.which(emulator):
        skip(f"no {emulator}, which emulates this processor")
    done = record(["sh", "-c", f"{emulator} -cpu max {WITNESS} threads 300; true"],
                  ["--process", Path(WITNESS).name])
    check(done.returncode == 0, done.stderr)
    agree(Trace("t.rdtrace"), done.stdout)
    check("nobody saw" not in done.stderr and unmatched(done) == 0, done.stderr)


def odd():
    record_witness(["odd"], under())


def late():
    record_witness(["late"], under())


def struck():
    for number in (signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM):
        record_witness(["struck", str(int(number))], under(), -number)


def forked():
    done = record([WITNESS, "fork"], ["--all", *under()])
    check(done.returncode == 0, done.stderr)
    traces = sorted(Path(".").glob("t.*.rdtrace"))
    check(len(traces) == 2, f"not two traces: {traces}")
    said = sorted(done.stdout.splitlines())
    check(sorted(Trace(path).said() for path in traces) == said,
            f"the processes: {said}\ntheir traces: {[Trace(path).said() for path in traces]}")
    check(unmatched(done) == 40, f"not the 40 frees of the parent's objects: {done.stderr}")


def execed():
    done = record([WITNESS, "exec"], ["--all", *under()])
    check(done.returncode == 0, done.stderr)
    traces = sorted(Path(".").glob("t.*.rdtrace"))
    check(len(traces) == 2, f"not two traces: {traces}")
    first, second = (Trace(path) for path in traces)
    check(first.allocated == 50 and first.held == 50, f"before: {first.said()}")
    agree(second, done.stdout.splitlines()[-1])


def foreign():
    if run([WITNESS, "foreign"]).returncode == SKIPPED:
        skip("this libc has no other malloc")
    done = record_witness(["foreign"])
    check(unmatched(done) == 5, f"not 5 frees of what was never allocated: {done.stderr}")


def limit():
    done = record([WITNESS, "many", "200000"], ["--limit", "256K", *under()])
    check(done.returncode == 0, done.stderr)
    check("stopped at the limit of 256 KiB" in done.stderr, done.stderr)
    check(done.stdout.startswith("allocated 200000 "), "the program did not go on")
    trace = Trace("t.rdtrace")
    check(1000 < trace.allocated < 100000, trace.said())


def full_disk():
    """A file system of 1 MiB, and a file size limit, which would raise a signal."""
    if os.geteuid() != 0 or not shutil.which("unshare"):
        skip("only root can mount a small file system")
    os.mkdir("small")
    script = (f"mount -t tmpfs -o size=1M none small && '{COMMAND}' trace record -o "
              f"small/t.rdtrace -- '{WITNESS}' many 200000; echo $?; cp small/t.rdtrace t.rdtrace; "
              "ls small")
    done = run(["unshare", "-m", "sh", "-c", script])
    lines = done.stdout.splitlines()
    check(lines and lines[0].startswith("allocated 200000 "), done.stdout + done.stderr)
    check(lines[1] == "0" and lines[2:] == ["t.rdtrace"], done.stdout + done.stderr)
    check("for want of space (No space left on device)" in done.stderr, done.stderr)
    check(Trace("t.rdtrace").allocated > 1000, "nothing is kept")


def file_limit():
    done = record([WITNESS, "many", "200000"], preexec_fn=lambda: limit_files(512 << 10))
    check(done.returncode == 0, done.stderr)
    check("stopped at the limit of 512 KiB" in done.stderr, done.stderr)
    check(Trace("t.rdtrace").allocated > 1000, "nothing is kept")


def limit_files(size):
    import resource
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def address_space():
    """Less space than the recorder would map: it maps less."""
    import resource
    done = record([WITNESS, "many", "1000"], preexec_fn=lambda: resource.setrlimit(
        resource.RLIMIT_AS, (200 << 20, 200 << 20)))
    check(done.returncode == 0, done.stderr)
    agree(Trace("t.rdtrace"), done.stdout)


def refused():
    """A message, the status that `run` uses, and nothing left behind."""
    for status, words, said in [
            (2, [], "no program was named"),
            (2, ["--limit", "12", "true"], "--limit 12: give bytes"),
            (2, ["--limit", "50%", "true"], "--limit 50%: give bytes"),
            (2, ["--under", "bogus", "true"], "bogus"),
            (2, ["--bogus", "true"], "there is no option '--bogus'"),
            (2, ["--all", "--process", "x", "true"], "exclude each other"),
            (2, ["-o", "missing/t.rdtrace", "true"], "cannot write a trace to"),
            (2, ["-o", ".", "true"], "is a folder"),
            (127, ["--", "./not-there"], "No such file"),
            (126, ["--", "/"], "is a directory")]:
        done = run([COMMAND, "trace", "record", *words])
        check(done.returncode == status, f"{words}: {done.returncode} {done.stderr}")
        check(said in done.stderr and done.stderr.count("\n") == 1, f"{words}: {done.stderr}")
    check(not os.listdir("."), f"left behind: {os.listdir('.')}")


def named():
    done = record(["sh", "-c", f"{WITNESS} many 300; true"], ["--process", Path(WITNESS).name])
    check(done.returncode == 0, done.stderr)
    agree(Trace("t.rdtrace"), done.stdout)
    done = record(["sh", "-c", "true"], ["--process", "nobody"])
    check(done.returncode == 1, f"status {done.returncode}")
    check("no process of the name nobody" in done.stderr, done.stderr)


def overhead():
    """The reported cost of recording is above zero and below the whole run time."""
    done = record([WITNESS, "many", "300000"])
    found = re.search(r"took ([\d.]+) s, ([\d.]+) s of processor time; of that the recorder about "
                      r"([\d.]+) s \((\d+) %\), at (\d+) ns a call", done.stderr)
    check(found, done.stderr)
    check(int(found.group(5)) > 0 and 0 < int(found.group(4)) <= 100, done.stderr)


def real():
    """Unmodified programs behave as without the recorder."""
    source = "#include <map>\n#include <string>\nint main() { return std::map<int, std::string>().size(); }\n"
    Path("a.cpp").write_text(source)
    script = "d = {str(i): [i] * 3 for i in range(50000)}; print(sum(len(v) for v in d.values()))"
    sql = ("create table t(a, b); with recursive n(i) as (select 1 union all select i + 1 from n "
           "where i < 20000) insert into t select i, hex(i) from n; select sum(a), max(b) from t;")
    programs = [(["/usr/bin/python3", "-S", "-c", script], "python3", 1000),
                (["sqlite3", ":memory:", sql], "sqlite3", 1000),
                (["g++", "-O1", "-S", "-o", "/dev/stdout", "a.cpp"], "cc1plus", 10000),
                (["redis-server", "--version"], "redis", 10)]
    ran = 0
    for words, name, least in programs:
        if not shutil.which(words[0]):
            continue
        plain = run(words)
        done = record(words)
        check((done.returncode, done.stdout) == (plain.returncode, plain.stdout),
                f"{words[0]} did something else: {done.stderr}")
        check(name in done.stderr, f"not a trace of {name}: {done.stderr}")
        events = re.search(r", (\d+) events", done.stderr)
        check(events and int(events.group(1)) >= least, done.stderr)
        check("nobody saw" not in done.stderr and "damaged" not in done.stderr, done.stderr)
        print(done.stderr.splitlines()[0])
        ran += 1
    check(ran > 0, "none of the programs is installed")


def main(folder):
    os.environ.pop("LD_PRELOAD", None)
    os.chdir(folder)
    globals()[sys.argv[3]]()


test_in_folder(main)
