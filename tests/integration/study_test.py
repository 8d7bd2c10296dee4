#!/usr/bin/env python3
"""`rdmalloc study`, with real programs and with all that may go wrong.

    study_test.py RDMALLOC PROGRAM CASE
"""

import csv
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RDMALLOC, PROGRAM, CASE = sys.argv[1:4]
MIB = 1 << 20
USER = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all",
        "--inh-caps=-all"]


def check(good, why):
    if not good:
        print(f"FAILED: {why}")
        sys.exit(1)


def skip(why):
    print(f"SKIPPED: {why}")
    sys.exit(77)


def environment():
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(("RDMALLOC_", "LD_"))}
    # Plots take longer than these studies, and have tests of their own.
    return kept | {"LC_ALL": "C"}


class Result:
    def __init__(self, status, output, errors, folder):
        self.status, self.output, self.errors, self.folder = status, output, errors, Path(folder)

    @property
    def document(self):
        return json.loads((self.folder / "study.json").read_text())

    def runs(self, configuration):
        return [run for run in self.document["runs"] if run["configuration"] == configuration]

    def series(self, configuration):
        return next(series for series in self.document["series"]
                    if series["configuration"] == configuration)


def study(words, folder, flags=(), prefix=(), timeout=90):
    command = [*prefix, RDMALLOC, "study", "-o", str(folder), *flags, "--", *words]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(),
                          timeout=timeout, stdin=subprocess.DEVNULL)
    return Result(done.returncode, done.stdout, done.stderr, folder)


def descendants_named(name):
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if name in (entry / "cmdline").read_bytes().decode(errors="replace"):
                found.append(int(entry.name))
        except OSError:
            pass
    return found


def refused(result, status, *words):
    check(result.status == status, f"status {result.status}, not {status}: {result.errors}")
    for word in words:
        check(word in result.errors, f"not '{word}': {result.errors}")
    check(len(result.errors.strip().splitlines()) == 1, f"not one sentence: {result.errors}")
    check(not result.folder.exists(), "a folder was left behind")


def hill(folder):
    """A program that gives back what it had: glibc's series falls, ours does not."""
    done = study([PROGRAM, "hill"], folder,
                 ["--allocators", "glibc,rdmalloc", "--caps", "50%,100%", "--repeats", "1"])
    check(done.status == 0, f"status {done.status}: {done.errors}")
    glibc, ours = done.series("glibc"), done.series("rdmalloc")
    peak = max(glibc["resident_bytes"])
    check(256 * MIB < peak < 280 * MIB, f"glibc's peak is {peak}")
    check(glibc["resident_bytes"][-2] < 32 * MIB, "glibc's series does not fall: no control")
    check(ours["resident_bytes"][-2] > 256 * MIB, "ours has fallen")
    check(ours["held_bytes"][-1] >= 256 * MIB > ours["live_bytes"][-1] + 128 * MIB,
          f"held {ours['held_bytes'][-1]}, live {ours['live_bytes'][-1]}")
    names = [entry["name"] for entry in done.document["configurations"]]
    check(names == ["glibc", "rdmalloc-unpinned", "rdmalloc", "rdmalloc-50%", "rdmalloc-100%"],
          f"{names}")
    pinned, half = done.runs("rdmalloc")[0], done.runs("rdmalloc-50%")[0]
    cap = next(entry["cap_bytes"] for entry in done.document["configurations"]
               if entry["name"] == "rdmalloc-50%")
    check(abs(cap - pinned["peak_held_bytes"] / 2) <= 4096, f"cap {cap}")
    check(half["peak_pinned_bytes"] <= cap, "more than the cap was pinned")
    check(half["peak_overflow_bytes"] > 100 * MIB, "a cap of half left nothing over")
    check("Never returning memory costs" in done.output or "lower" in done.output, done.output)
    check((done.folder / "report.html").stat().st_size > 1000, "no report")
    with open(done.folder / "runs.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    check(len(rows) == 5 and all(row["ok"] == "1" for row in rows), f"{rows}")
    with open(done.folder / "samples.csv", newline="") as file:
        samples = [row for row in csv.DictReader(file) if row["configuration"] == "glibc"]
    check(len(samples) == done.runs("glibc")[0]["samples"], "samples.csv lacks samples")
    expected = done.runs("glibc")[0]["seconds"] * 100
    check(len(samples) >= expected / 2, f"{len(samples)} samples of {expected}")


def books(folder):
    """What ours tells from outside is what the kernel says, to the page."""
    done = study([PROGRAM, "locked"], folder,
                 ["--allocators", "rdmalloc", "--caps", "none", "--repeats", "1"])
    check(done.status == 0, f"status {done.status}: {done.errors}")
    said = (folder / "output" / "rdmalloc.1.stdout").read_text()
    locked = int(re.search(r"VmLck:\s*(\d+) kB", said).group(1)) * 1024
    run = done.runs("rdmalloc")[0]
    check(run["peak_pinned_bytes"] == locked, f"pinned {run['peak_pinned_bytes']}, VmLck {locked}")
    check(run["peak_held_bytes"] == locked + run["peak_overflow_bytes"], f"{run}")
    unpinned = done.runs("rdmalloc-unpinned")[0]
    check(unpinned["peak_pinned_bytes"] == 0 and unpinned["peak_overflow_bytes"] >= 256 * MIB,
          f"{unpinned}")


def tree(folder):
    """Children count, a program that becomes another is followed."""
    done = study([PROGRAM, "tree", "4"], folder,
                 ["--allocators", "glibc,rdmalloc", "--caps", "none", "--repeats", "1"])
    check(done.status == 0, f"status {done.status}: {done.errors}")
    for name in ("glibc", "rdmalloc"):
        run = done.runs(name)[0]
        check(run["processes"] == 5, f"{name}: {run['processes']} processes")
        check(run["peak_resident_bytes"] >= 80 * MIB, f"{name}: peak {run['peak_resident_bytes']}")
    check(done.runs("rdmalloc")[0]["peak_live_bytes"] >= 80 * MIB, "children's counters are missing")
    shutil.rmtree(folder)
    done = study([PROGRAM, "exec"], folder,
                 ["--allocators", "rdmalloc", "--caps", "none", "--repeats", "1"])
    check(done.runs("rdmalloc")[0]["peak_live_bytes"] >= 256 * MIB, f"{done.runs('rdmalloc')}")


def daemon(folder):
    """A daemon is waited for, then ended; nobody else is."""
    bystander = subprocess.Popen([PROGRAM, "rest", "30"])
    try:
        flags = ["--allocators", "glibc", "--repeats", "1", "--linger"]
        done = study([PROGRAM, "daemon", "60"], folder, [*flags, "0.5"])
        check(done.status == 0, f"status {done.status}: {done.errors}")
        check("still there after the program had ended" in done.errors, done.errors)
        said = (folder / "output" / "glibc.1.stdout").read_text()
        check(not Path(f"/proc/{said.split()[1]}").exists(), "the daemon is still there")
        check(bystander.poll() is None, "another process was ended")
        check(done.document["runs"][0]["seconds"] < 1, "the daemon's time was counted")
        check(done.document["runs"][0]["peak_resident_bytes"] > 30 * MIB, "its memory was not")
        shutil.rmtree(folder)
        done = study([PROGRAM, "daemon", "0.5"], folder, [*flags, "5"])
        check(done.status == 0 and "still there" not in done.errors, done.errors)
    finally:
        bystander.kill()
        bystander.wait()


def failures(folder):
    """Runs that fail are told, and kept."""
    flags = ["--allocators", "glibc,rdmalloc", "--caps", "none", "--repeats", "1"]
    done = study([PROGRAM, "exit", "7"], folder, flags)
    check(done.status == 3, f"status {done.status}: {done.errors}")
    check({run["outcome"] for run in done.document["runs"]} == {"exited with 7"}, "outcome")
    check("No run succeeded" in done.output, done.output)
    shutil.rmtree(folder)
    done = study([PROGRAM, "crash"], folder, flags)
    check(done.status == 3, f"status {done.status}: {done.errors}")
    check("was killed by signal 6 (Aborted)" in done.errors, done.errors)
    shutil.rmtree(folder)
    done = study([PROGRAM, "rest", "60"], folder, [*flags, "--timeout", "0.3"])
    check(done.status == 3 and "--timeout" in done.errors, done.errors)
    shutil.rmtree(folder)
    done = study([PROGRAM, "exit", "0"], folder, flags)  # over before it can be looked at
    check(done.status == 0, f"status {done.status}: {done.errors}")
    check("Never returning" not in done.output or "nan" not in done.output, done.output)


def refusals(folder):
    """What cannot be studied is refused in a sentence, before anything is run or made."""
    refused(study(["./no-such-program"], folder), 127, "no-such-program")
    refused(study(["no-such-program"], folder), 127, "not found on PATH")
    refused(study(["/etc/passwd"], folder), 126, "/etc/passwd")
    quick = [PROGRAM, "exit", "0"]
    refused(study(quick, folder, ["--allocators", "dlmalloc"]), 2, "dlmalloc", "known are glibc")
    refused(study(quick, folder, ["--repeats", "0"]), 2, "--repeats")
    refused(study(quick, folder, ["--rate", "0"]), 2, "--rate")
    refused(study(quick, folder, ["--rate", "nan"]), 2, "--rate")
    refused(study(quick, folder, ["--caps", "lots"]), 2, "lots")
    refused(study(quick, folder, ["--set", "colour=red"]), 2, "colour")
    refused(study(quick, folder, ["--stdin", "/no/such/file"]), 2, "/no/such/file")
    refused(study([], folder), 2, "no program was named")
    bad = folder.with_suffix(".trace")
    bad.write_text("this is no trace")
    refused(study([], folder, ["--trace", str(bad)]), 2, str(bad))
    refused(study(quick, folder, ["--trace", str(bad)]), 2, "--trace")
    bad.unlink()


def static(folder):
    compiler = shutil.which("cc")
    if compiler is None:
        skip("no compiler to make a static program with")
    source, program = folder.with_suffix(".c"), folder.with_suffix(".static")
    source.write_text("int main(void) { return 0; }")
    made = subprocess.run([compiler, "-static", "-o", program, source], capture_output=True)
    if made.returncode != 0:
        skip("no static libc")
    refused(study([str(program)], folder), 2, "statically linked")
    done = study([str(program)], folder, ["--allocators", "glibc", "--repeats", "1"])
    check(done.status == 0, f"under glibc alone: {done.errors}")
    if os.geteuid() == 0:
        set_user_id = folder.with_suffix(".setuid")
        shutil.copy(PROGRAM, set_user_id)
        os.chown(set_user_id, 65534, 65534)
        os.chmod(set_user_id, 0o4755)
        shutil.rmtree(folder)
        refused(study([str(set_user_id), "exit", "0"], folder), 2, "set")


def folders(folder):
    """An output folder that is not empty, read-only, or full."""
    folder.mkdir()
    (folder / "notes").write_text("mine")
    flags = ["--allocators", "glibc", "--repeats", "1"]
    quick = [PROGRAM, "exit", "0"]
    done = study(quick, folder, flags)
    check(done.status == 2 and "is not empty" in done.errors, f"{done.status}: {done.errors}")
    check(os.listdir(folder) == ["notes"], "something was written")
    done = study(quick, folder, [*flags, "--force"])
    check(done.status == 0 and (folder / "notes").read_text() == "mine", done.errors)
    done = study(quick, "/proc/study", flags)
    check(done.status == 2 and "/proc/study" in done.errors, f"{done.status}: {done.errors}")


def full(folder):
    """The disk is full in the middle: a sentence with the file, and what was there is kept."""
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=12k", "none", folder],
                      capture_output=True).returncode != 0:
        skip("no file system can be mounted here")
    try:
        flags = ["--allocators", "glibc", "--repeats", "9", "--rate", "1000"]
        done = study([PROGRAM, "rest", "0.5"], folder / "out", flags)
        check(done.status == 1, f"status {done.status}: {done.errors}")
        check("samples.csv cannot be written: No space left" in done.errors, done.errors)
        check((folder / "out" / "runs.csv").read_text().count("exited with 0") >= 1, "runs.csv")
    finally:
        subprocess.run(["umount", folder], check=True)


def user(folder):
    """An ordinary user whose limit on locked memory is small is told so, and has results."""
    if os.geteuid() != 0:
        skip("becoming another user needs root")
    os.chmod(folder.parent, 0o777)
    done = study([PROGRAM, "hill"], folder,
                 ["--allocators", "glibc,rdmalloc", "--caps", "50%", "--repeats", "1"],
                 ["sh", "-c", 'ulimit -l 8192 && exec "$@"', "sh", *USER])
    check(done.status == 0, f"status {done.status}: {done.errors}")
    check("could not be pinned" in done.output, done.output)
    check(0 < done.runs("rdmalloc")[0]["peak_pinned_bytes"] <= 8 * MIB, "pinned")
    check(done.document["machine"]["memlock_bytes"] == 8 * MIB, "memlock")


def interrupt(folder):
    """Ctrl-C: what there is is written, the program is ended, and the terminal is left sane."""
    command = [RDMALLOC, "study", "-o", str(folder), "--allocators", "glibc", "--repeats", "5",
               "--", PROGRAM, "rest", "0.6"]
    child, terminal = pty.fork()
    if child == 0:
        os.execve(command[0], command, environment())
    time.sleep(1.2)
    os.write(terminal, b"\x03")
    seen = b""
    try:
        while piece := os.read(terminal, 4096):
            seen += piece
    except OSError:
        pass
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    check(status == 130, f"status {status}: {seen!r}")
    runs = json.loads((folder / "study.json").read_text())["runs"]
    check(runs[0]["ok"] and runs[-1]["outcome"] == "was interrupted", f"{runs}")
    check(b"runs; now glibc, 1 of 5" in seen, f"no progress: {seen!r}")
    check(seen.count(b"\r\x1b[K") >= seen.count(b"runs; now"), "the line is still there")
    check(not descendants_named(f"{PROGRAM}\0rest\0000.6"), "the program is still there")


def output(folder):
    """What the program says is kept; it reads what it is given; options make configurations."""
    words = folder.with_suffix(".txt")
    words.write_text("from the file\n")
    done = study([PROGRAM, "echo", "a,\"<script>"], folder,
                 ["--allocators", "glibc,rdmalloc", "--caps", "64M", "--set", "huge=off",
                  "--repeats", "1", "--stdin", str(words), "--quiet"])
    check(done.status == 0 and done.errors == "", f"status {done.status}: {done.errors}")
    for name in ("glibc", "rdmalloc-64M", "rdmalloc-huge=off"):
        check((folder / "output" / f"{name}.1.stdout").read_text() == "from the file\n", name)
        check("to stderr" in (folder / "output" / f"{name}.1.stderr").read_text(), name)
    check(done.document["command"][-1] == "a,\"<script>", "command")


def trace(folder):
    """A recorded trace in place of a program; one that is cut short fails its runs."""
    text, packed = folder.with_suffix(".text"), folder.with_suffix(".trace")
    lines = [f"a {i} 1M" for i in range(64)] + [f"f {i}" for i in range(64)]
    text.write_text("program hill\n" + "\n".join(lines) + "\n")
    subprocess.run([RDMALLOC, "trace", "import", text, packed], check=True,
                   env=environment(), timeout=30)
    flags = ["-o", str(folder), "--allocators", "glibc,rdmalloc", "--caps", "none", "--repeats",
             "1", "--trace"]
    done = subprocess.run([RDMALLOC, "study", *flags, str(packed)], capture_output=True, text=True,
                          env=environment(), timeout=60)
    result = Result(done.returncode, done.stdout, done.stderr, folder)
    check(result.status == 0, f"status {result.status}: {result.errors}")
    check(result.runs("rdmalloc")[0]["peak_live_bytes"] >= 64 * MIB, f"{result.runs('rdmalloc')}")
    shutil.rmtree(folder)
    packed.write_bytes(packed.read_bytes()[:-20])
    done = subprocess.run([RDMALLOC, "study", *flags, str(packed)], capture_output=True, text=True,
                          env=environment(), timeout=60)
    if done.returncode == 2:
        check(str(packed) in done.stderr and not folder.exists(), done.stderr)
    else:
        check(done.returncode == 3 and "glibc.1.stderr" in done.stderr, done.stderr)


with tempfile.TemporaryDirectory(prefix="study-") as above:
    globals()[CASE](Path(above) / "out")
print("passed")
