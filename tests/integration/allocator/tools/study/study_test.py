#!/usr/bin/env python3
"""`rdmalloc study` with real programs, and when things go wrong.

    study_test.py RDMALLOC PROGRAM CASE
"""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

sys.path.append(sys.path[0] + "/../../../../support")
from terminal import OnTerminal
from verdict import as_user, check, clean_environment, need_root, skip, test_in_folder

RDMALLOC, PROGRAM, CASE = sys.argv[1:4]
MIB = 1 << 20
ENVIRONMENT = clean_environment(LC_ALL="C", TERM="xterm")


class Result:
    def __init__(self, status, output, errors, folder):
        self.status, self.output, self.errors, self.folder = status, output, errors, Path(folder)

    @property
    def document(self):
        return json.loads((self.folder / "study.json").read_text())

    def runs(self, configuration):
        return [run for run in self.document["runs"] if run["configuration"] == configuration]

    def sampled_run(self, configuration):
        """The first run. Skips where looking at processes takes so long that most samples would cost
        too much: in an emulator, say."""
        run = self.runs(configuration)[0]
        left_out, taken = run["samples_left_out"], run["samples"]
        if left_out > taken:
            skip(f"a sample takes so long here that {left_out} of {left_out + taken} were left out")
        return run

    def series(self, configuration):
        return next(series for series in self.document["series"]
                    if series["configuration"] == configuration)


def study(words, folder, flags=(), prefix=(), timeout=90):
    command = [*prefix, RDMALLOC, "study", "-o", str(folder), *flags, "--", *words]
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT,
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
    """A program that frees its memory: under glibc the curve falls, under rdmalloc it does not."""
    done = study([PROGRAM, "hill"], folder,
                 ["--allocators", "glibc,rdmalloc", "--caps", "50%,100%", "--repeats", "1"])
    check(done.status == 0, f"status {done.status}: {done.errors}")
    _, pinned, half = map(done.sampled_run, ("glibc", "rdmalloc", "rdmalloc-50%"))
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
    cap = next(entry["cap_bytes"] for entry in done.document["configurations"]
               if entry["name"] == "rdmalloc-50%")
    check(abs(cap - pinned["peak_held_bytes"] / 2) <= 4096, f"cap {cap}")
    check(half["peak_pinned_bytes"] <= cap, "more than the cap was pinned")
    check(half["peak_overflow_bytes"] > 100 * MIB, "a cap of half left nothing over")
    check("returning memory costs this program more at its peak than glibc cannot be told from "
          "fewer than three runs" in done.output, done.output)
    check(done.output.splitlines()[-1] == f"The report: {done.folder / 'report.html'}", done.output)
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
    """What study measures from outside matches the kernel, to the page."""
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


def seconds_to_be_seen():
    """Looking for processes may take 0.15 % of a processor (sampler.cpp): how long one has to be
    there to be found by the second look, where a look is as slow as here."""
    start = time.thread_time()
    os.listdir("/proc")
    return 0.4 + 4 * (time.thread_time() - start) / 0.0015


def seconds_to_start():
    """How long a program takes here that does nothing."""
    start = time.monotonic()
    subprocess.run([RDMALLOC, "run", "--", "true"], check=True, env=ENVIRONMENT, timeout=60)
    return time.monotonic() - start


def tree(folder):
    """Children count, and a program that execs another is followed."""
    seconds = seconds_to_be_seen()
    done = study([PROGRAM, "tree", "4", str(seconds)], folder,
                 ["--allocators", "glibc,rdmalloc", "--caps", "none", "--repeats", "1"],
                 timeout=90 + 4 * seconds)
    check(done.status == 0, f"status {done.status}: {done.errors}")
    for name in ("glibc", "rdmalloc"):
        run = done.runs(name)[0]
        check(run["processes"] == 5, f"{name}: {run['processes']} processes")
        check(run["peak_resident_bytes"] >= 80 * MIB, f"{name}: peak {run['peak_resident_bytes']}")
    check(done.runs("rdmalloc")[0]["peak_live_bytes"] >= 80 * MIB, "children's counters are missing")
    shutil.rmtree(folder)
    done = study([PROGRAM, "exec"], folder,
                 ["--allocators", "rdmalloc", "--caps", "none", "--repeats", "1"])
    run = done.sampled_run("rdmalloc")
    check(run["peak_live_bytes"] >= 256 * MIB, f"{run}")


def daemon(folder):
    """A daemon is waited for, then ended; no other process is."""
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
    """Failed runs are reported and kept."""
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
    done = study([PROGRAM, "exit", "0"], folder, flags)  # ends before the first sample
    check(done.status == 0, f"status {done.status}: {done.errors}")
    check("Never returning" not in done.output or "nan" not in done.output, done.output)


def refusals(folder):
    """What cannot be studied is refused with a message, before anything is run or created."""
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
    """An output folder that is not empty, is read-only, or is full."""
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
    """The disk fills up during a study: a message names the file, and what was written stays."""
    folder.mkdir()
    size = max(12 << 10, 2 * os.sysconf("SC_PAGE_SIZE"))  # one file takes a page at least
    if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", folder],
                      capture_output=True).returncode != 0:
        skip("no file system can be mounted here")
    try:
        flags = ["--allocators", "glibc", "--repeats", "9", "--rate", "1000"]
        done = study([PROGRAM, "rest", "0.5"], folder / "out", flags)
        check(done.status == 1, f"status {done.status}: {done.errors}")
        check(re.search(r"(samples\.csv|study\.json) cannot be written: No space left", done.errors),
              done.errors)
        check((folder / "out" / "runs.csv").read_text().count("exited with 0") >= 1, "runs.csv")
    finally:
        subprocess.run(["umount", folder], check=True)


def user(folder):
    """An ordinary user with a small limit on locked memory is told so, and gets results."""
    need_root("becoming another user")
    os.chmod(folder.parent, 0o777)
    done = study([PROGRAM, "hill"], folder,
                 ["--allocators", "glibc,rdmalloc", "--caps", "50%", "--repeats", "1"],
                 ["sh", "-c", 'ulimit -l 8192 && exec "$@"', "sh", *as_user()])
    check(done.status == 0, f"status {done.status}: {done.errors}")
    check("could not be pinned" in done.output, done.output)
    check(0 < done.runs("rdmalloc")[0]["peak_pinned_bytes"] <= 8 * MIB, "pinned")
    check(done.document["machine"]["memlock_bytes"] == 8 * MIB, "memlock")


def rate(folder):
    """At most as many samples as requested; a higher rate gives more."""
    flags = ["--allocators", "glibc", "--repeats", "1", "--rate"]
    samples = {}
    for hertz in (5, 50):
        done = study([PROGRAM, "rest", "2"], folder, [*flags, str(hertz)])
        check(done.status == 0, f"status {done.status}: {done.errors}")
        samples[hertz] = done.sampled_run("glibc")["samples"]
        shutil.rmtree(folder)
    check(samples[5] <= 20, f"more than were asked for: {samples}")
    check(samples[50] > 2 * samples[5], f"a higher rate has no more samples: {samples}")


def shown_lines(seen):
    """Lines of a terminal as they are in the end."""
    return [line.rsplit("\r\x1b[K", 1)[-1] for line in seen.split("\r\n") if line]


def progress(folder):
    """One line that fits, is rewritten during a run, too, and goes before the answers."""
    command = [RDMALLOC, "study", "-o", str(folder), "--allocators", "glibc", "--repeats", "2",
               "--", PROGRAM, "rest", "3.5"]
    status, seen = OnTerminal(command, ENVIRONMENT, 40).finish()
    check(status == 0, f"status {status}: {seen!r}")
    first, *drawn = seen.split("\r\x1b[K")
    answers = drawn.pop()
    check(first == "" and all(len(line) < 40 and "\n" not in line for line in drawn), f"{drawn}")
    check(drawn.count("run 1 of 2: glibc, 1 of 2") >= 2, f"{drawn}")
    left = [int(line.removeprefix("run 2 of 2, about ").split(" s left: glibc, 2")[0])
            for line in drawn if line.startswith("run 2")]
    check(left[0] >= 3 and left[-1] < left[0] and left == sorted(left, reverse=True), f"{drawn}")
    check("The report: " in answers and "run 2 of 2" not in answers, f"{answers!r}")
    shutil.rmtree(folder)
    command[-1] = "0.1"
    for plain in (OnTerminal(command, ENVIRONMENT | {"TERM": "dumb"}).finish()[1],
                  study([PROGRAM, "rest", "0.1"], folder, command[4:8] + ["--force"]).errors):
        check("\x1b" not in plain and "1/2 glibc, 1: exited with 0" in plain, f"{plain!r}")


def interrupt(folder):
    """Ctrl-C: results so far are written, the program is ended, the terminal is left usable."""
    command = [RDMALLOC, "study", "-o", str(folder), "--allocators", "glibc", "--repeats", "5",
               "--", PROGRAM, "rest", "0.6"]
    started = OnTerminal(command, ENVIRONMENT)
    time.sleep(1.2)
    started.type(b"\x03")
    status, seen = started.finish()
    check(status == 130, f"status {status}: {seen!r}")
    runs = json.loads((folder / "study.json").read_text())["runs"]
    check(runs[0]["ok"] and runs[-1]["outcome"] == "was interrupted", f"{runs}")
    check("run 1 of 5: glibc, 1 of 5" in seen, f"no progress: {seen!r}")
    check(shown_lines(seen)[-1].startswith("The report: "), f"the line is still there: {seen!r}")
    check(not descendants_named(f"{PROGRAM}\0rest\0000.6"), "the program is still there")


def output(folder):
    """The program's output is kept; it reads its input; options make configurations."""
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


def claims(folder):
    """No difference is claimed between programs that are equal or differ by chance; a program that
    leaks is reported with its peak, which no allocator can lower."""
    counter = folder.with_suffix(".count")
    # Each configuration gets the same three times in another order.
    noisy = (f"import time, os; path = {str(counter)!r}; "
             "count = os.path.getsize(path) if os.path.exists(path) else 0; open(path, 'a').write('x'); "
             "time.sleep((0.2, 0.5, 0.8)[(count % 3 + count // 3) % 3])")
    leaking = "kept = [bytearray(b'x') * 200000 for _ in range(400)]; import time; time.sleep(0.1)"
    cannot_tell = "Time: what rdmalloc costs against glibc"
    # It may be over before its processes are seen.
    small = "of less than 4 MiB", "No peak was seen"
    programs = {"short": (["/bin/true"], [cannot_tell, "of runs below 0.1 s", small]),
                # The library's start is no part of what may differ.
                "sleeping": (["sleep", str(max(0.2, 10 * seconds_to_start()))], ["of less than 4 MiB"]),
                "noisy": ([sys.executable, "-c", noisy], [cannot_tell, "measured ",
                                                          "repeats would tell"]),
                "leaking": ([sys.executable, "-c", leaking], ["times what is live"])}
    for name, (words, said) in programs.items():
        done = study(words, folder.with_suffix("." + name),
                     ["--allocators", "glibc,rdmalloc", "--caps", "none"])
        check(done.status == 0, f"{name}: status {done.status}: {done.errors}")
        for sentence in said:
            either = (sentence,) if isinstance(sentence, str) else sentence
            check(any(one in done.output for one in either), f"{name}: not '{sentence}': {done.output}")
        check("Before the study the machine's load was" in done.output, done.output)
        for claim in re.findall(r"Time: rdmalloc (?:costs|saves) ([\d.]+) %", done.output):
            check(name == "leaking" or float(claim) < 20, f"{name}: {claim} % is claimed")


def trace(folder):
    """A recorded trace instead of a program; a truncated trace makes its runs fail."""
    text, packed = folder.with_suffix(".text"), folder.with_suffix(".trace")
    lines = [f"a {i} 1M" for i in range(64)] + [f"f {i}" for i in range(64)]
    text.write_text("program hill\n" + "\n".join(lines) + "\n")
    subprocess.run([RDMALLOC, "trace", "import", text, packed], check=True,
                   env=ENVIRONMENT, timeout=30)
    flags = ["-o", str(folder), "--allocators", "glibc,rdmalloc", "--caps", "none", "--repeats",
             "1", "--trace"]
    done = subprocess.run([RDMALLOC, "study", *flags, str(packed)], capture_output=True, text=True,
                          env=ENVIRONMENT, timeout=60)
    result = Result(done.returncode, done.stdout, done.stderr, folder)
    check(result.status == 0, f"status {result.status}: {result.errors}")
    run = result.sampled_run("rdmalloc")
    check(run["peak_live_bytes"] >= 64 * MIB, f"{run}")
    shutil.rmtree(folder)
    packed.write_bytes(packed.read_bytes()[:-20])
    done = subprocess.run([RDMALLOC, "study", *flags, str(packed)], capture_output=True, text=True,
                          env=ENVIRONMENT, timeout=60)
    if done.returncode == 2:
        check(str(packed) in done.stderr and not folder.exists(), done.stderr)
    else:
        check(done.returncode == 3 and "glibc.1.stderr" in done.stderr, done.stderr)


test_in_folder(lambda above: globals()[CASE](above / "out"))
