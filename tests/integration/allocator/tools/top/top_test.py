#!/usr/bin/env python3
"""`rdmalloc top` and `rdmalloc stats` against the kernel's figures for the same processes.

    top_test.py RDMALLOC kernel|control|without_ledger|with_ledger|bad_ledger|user|foreign_stats|
                         phases|no_stats|vanishing|names|kernel_threads|container|hidden|bad_input
"""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

sys.path.append(sys.path[0] + "/../../../../support")
from verdict import NOBODY, as_user, check, clean_environment, need, need_root, skip, test

MIB = 1 << 20
RDMALLOC = sys.argv[1]
HOLDER = """
import ctypes, sys
own = ctypes.CDLL(None)
kept = []
for word in sys.argv[2:]:
    if hasattr(own, "rdm_phase"):
        own.rdm_phase(word.encode())
    kept.append(bytearray(int(sys.argv[1]) << 20))
print("ready", flush=True)
sys.stdin.readline()
"""
RENAMED = """
import ctypes, mmap, sys
ctypes.CDLL(None).prctl(15, sys.argv[1].encode("latin1"), 0, 0, 0)
kept = mmap.mmap(-1, 1 << 20)
ctypes.CDLL(None).mlock(ctypes.byref(ctypes.c_char.from_buffer(kept)), ctypes.c_size_t(1 << 20))
print("ready", flush=True)
sys.stdin.readline()
"""
CLOSER = """
import os, sys
for name in os.listdir("/proc/self/fd"):
    try:
        if os.readlink("/proc/self/fd/" + name).startswith("/memfd:rdmalloc"):
            os.close(int(name))
    except OSError:
        pass
print("ready", flush=True)
sys.stdin.readline()
"""


def settings(ledger=None):
    """The environment of the programs that this test runs."""
    own = {} if ledger is None else {"RDMALLOC_LEDGER": str(ledger)}
    return clean_environment(RDMALLOC_COUNTERS_FROM="1", **own)


class Sleeper:
    """A program that reports when it is ready and stays until released."""

    def __init__(self, command, ledger=None):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        env=settings(ledger), cwd="/")
        self.pid = self.process.pid
        check(self.process.stdout.readline() == b"ready\n", f"it did not start: {command}")

    def end(self):
        if self.process.poll() is None:
            self.process.communicate(b"\n", timeout=30)


@contextlib.contextmanager
def sleepers(*commands, ledger=None):
    started = []
    try:
        for command in commands:
            started.append(Sleeper(command, ledger))
        yield started
    finally:
        for one in started:
            one.end()


def holder(mib=8, *, flags=None, user=None, words=("one",)):
    under = [] if flags is None else [RDMALLOC, "run", *flags, "--"]
    return as_user(user) + under + ["/usr/bin/python3", "-c", HOLDER, str(mib), *words]


def ask(*arguments, ledger="/nowhere/ledger", user=None, status=0):
    """The command's output; it must end with that status within its time limit."""
    done = subprocess.run(as_user(user) + [RDMALLOC, *arguments], env=settings(ledger), cwd="/",
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=30, check=False)
    errors = done.stderr.decode(errors="replace")
    check(done.returncode == status, f"status {done.returncode} of {arguments}: {errors}")
    check(status != 0 or errors == "", f"{arguments} says {errors}")
    return done.stdout.decode("ascii") if status == 0 or done.stdout else errors


def look(*arguments, **keywords):
    """`top --json`, with its processes by their pids."""
    seen = json.loads(ask("top", "--json", *arguments, **keywords))
    seen["by_pid"] = {one["pid"]: one for one in seen["processes"]}
    return seen


def kernel_says(pid):
    """The kB fields of /proc/PID/status, in bytes."""
    fields = {}
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if value.endswith(" kB"):
            fields[name] = int(value.split()[0]) << 10
    return fields


def kernel():
    with sleepers(holder(8, flags=[]), holder(24, flags=["--cap", "16M"]), holder(8)) as running:
        before = {one.pid: kernel_says(one.pid) for one in running}
        seen = look("--all")["by_pid"]
        for one in running:
            shown = seen[one.pid]
            # The kernel may take a page from a process that sleeps, or count one later.
            told = before[one.pid], kernel_says(one.pid)
            for key, field in (("resident_bytes", "VmRSS"), ("vm_pin_bytes", "VmPin"),
                               ("vm_lck_bytes", "VmLck")):
                least, most = sorted(fields[field] for fields in told)
                check(least <= shown[key] <= most, f"{key} {shown[key]}, {field} {least} to {most}")
            limits = pathlib.Path(f"/proc/{one.pid}/limits").read_text()
            soft = [line.split()[3] for line in limits.splitlines() if "locked memory" in line][0]
            check(shown["memlock_bytes"] == (None if soft == "unlimited" else int(soft)), "memlock")
            check(shown["name"] == pathlib.Path(f"/proc/{one.pid}/comm").read_text()[:-1], "name")
        under, capped, control_ = (seen[one.pid] for one in running)
        check(under["pinned_bytes"] == under["vm_lck_bytes"] > 8 * MIB, "pinned is not VmLck")
        check(capped["overflow_bytes"] >= 8 * MIB and "overflow" in capped["over"], "no overflow")
        check(capped["budget_bytes"] == 16 * MIB and capped["budget_limited_by"] == "cap", "cap")
        check("overflow" not in under["over"], "overflow of one that has none")
        check(not control_["rdmalloc"] and control_["held_bytes"] is None, "the control holds")


def control():
    """A process without rdmalloc that pins nothing is shown only on request."""
    with sleepers(holder(8), holder(8, flags=[])) as (plain, under):
        seen = look()["by_pid"]
        check(plain.pid not in seen and under.pid in seen, "the wrong ones are shown")
        check(plain.pid in look("--all")["by_pid"], "--all does not show it")
        alone = look(*["--pid", str(plain.pid)] * 2)
        check(len(alone["processes"]) == 1, "asked for twice, it is shown twice")
        alone = alone["by_pid"]
        check(list(alone) == [plain.pid], "--pid does not show it alone")
        check(alone[plain.pid]["held_bytes"] is None, "the control holds something")


def without_ledger():
    with tempfile.TemporaryDirectory(prefix="rdmalloc-top-") as folder:
        ledger = pathlib.Path(folder) / "ledger"
        with sleepers(holder(8, flags=[])) as (one,):
            seen = look(ledger=ledger)
            check(seen["by_pid"][one.pid]["held_bytes"] > 8 * MIB, "held")
            check(seen["by_pid"][one.pid]["granted_bytes"] is None, "granted")
            check(not seen["ledger"]["kept"] and seen["ledger"]["trouble"] == "", "ledger")
        check(not ledger.exists(), "looking made a ledger")


def with_ledger():
    with tempfile.TemporaryDirectory(prefix="rdmalloc-top-") as folder:
        ledger = pathlib.Path(folder) / "ledger"
        flags = ["--node-cap", "64M", "--ledger", str(ledger)]
        with sleepers(holder(40, flags=flags), holder(4, flags=flags)) as (large, small):
            seen = look(ledger=ledger)
            books, shown = seen["ledger"], seen["by_pid"]
            for one in (large, small):
                check(shown[one.pid]["granted_bytes"] == kernel_says(one.pid)["VmLck"],
                      "granted is not what is locked")
            check(books["cap_bytes"] == 64 * MIB and books["processes"] == 2, f"{books}")
            total = sum(shown[one.pid]["granted_bytes"] for one in (large, small))
            check(books["granted_bytes"] == total, f"{books}, {total}")
            check(books["left_bytes"] == 64 * MIB - total, f"{books}")
            check("over share" in shown[large.pid]["over"], "the large one is not over its share")
            check("over share" not in shown[small.pid]["over"], "the small one is over its share")
            check("the machine's limit is 64 MiB" in ask("top", ledger=ledger), "no line of it")


def bad_ledger():
    with tempfile.TemporaryDirectory(prefix="rdmalloc-top-") as folder:
        ledger = pathlib.Path(folder) / "led\x1b[31mger"
        ledger.write_bytes(b"no ledger at all" * 1000)
        ledger.chmod(0o600)
        with sleepers(holder(8, flags=[])) as (one,):
            seen = look(ledger=ledger)
            check("is damaged" in seen["ledger"]["trouble"], f"{seen['ledger']}")
            check(any("is damaged" in note for note in seen["notes"]), f"{seen['notes']}")
            check(seen["by_pid"][one.pid]["held_bytes"] > 8 * MIB, "the rest does not go on")
            check("\x1b" not in ask("top", ledger=ledger), "its name reaches the terminal")
            check("absolute" in look(ledger="led/ger")["notes"][0], "no word of a relative name")
            if os.geteuid() == 0:
                os.chown(ledger, NOBODY, NOBODY)
                check("not this user's" in look(ledger=ledger)["notes"][0], "foreign")
        check(ledger.read_bytes() == b"no ledger at all" * 1000, "the file was written to")


def user():
    """An ordinary user sees the counters of his own processes, and of others what /proc shows."""
    need_root("being two users")
    with sleepers(holder(4, flags=[], user=NOBODY), holder(4, flags=[])) as (own, others):
        seen = look(user=NOBODY)["by_pid"]
        check(seen[own.pid]["held_bytes"] > 4 * MIB, "not even his own")
        check(seen[others.pid]["held_bytes"] is None, "another user's counters")
        check(seen[others.pid]["vm_lck_bytes"] == kernel_says(others.pid)["VmLck"], "VmLck")
        check(own.pid in look("--user", str(NOBODY))["by_pid"], "--user does not find him")
        check(others.pid not in look("--user", "nobody")["by_pid"], "--user finds another")
        check(look()["by_pid"][own.pid]["held_bytes"] > 4 * MIB, "root does not see his")


def phases():
    with sleepers(holder(8, flags=[], words=("load", "sol\x1bve"))) as (one,):
        said = json.loads(ask("stats", str(one.pid), "--json"))
        check(said["pinned_bytes"] == kernel_says(one.pid)["VmLck"], "pinned is not VmLck")
        check(said["held_bytes"] >= said["peak_live_bytes"] >= 16 * MIB, f"{said}")
        load, solve = said["phases"]
        check((load["name"], solve["name"]) == ("load", "sol\x1bve"), "names")
        check(load["entered"] == 1 and not load["in_force"] and solve["in_force"], "in force")
        check(8 * MIB <= load["peak_live_bytes"] < 16 * MIB, f"{load}")
        check(solve["peak_live_bytes"] >= 16 * MIB and solve["ns"] > 0, f"{solve}")
        text = ask("stats", str(one.pid))
        check("\x1b" not in text and "sol?ve" in text, "a phase's name reaches the terminal")
        check(f"held_bytes              {said['held_bytes']}" in text, text)


def heap_of(said):
    return sum(node["heap_resident_bytes"] for node in said["numa"]["nodes"])


def numa_text_at_rest(pid):
    """The heap's resident bytes and the text, of a moment in which the process touches no page."""
    look = lambda: heap_of(json.loads(ask("stats", str(pid), "--numa", "--json")))
    after = look()
    for _ in range(20):
        before, text, after = after, ask("stats", str(pid), "--numa"), look()
        if before == after:
            break
    check(before == after, "the process does not rest")
    return after, text


def numa():
    """On which nodes a process's pages lie; every page is on some node."""
    if not pathlib.Path("/proc/self/numa_maps").exists():
        skip("this kernel knows no NUMA nodes")
    with sleepers(holder(32, flags=[])) as (one,):
        said = json.loads(ask("stats", str(one.pid), "--numa", "--json"))
        nodes, policies = said["numa"]["nodes"], said["numa"]["policies"]
        heap = heap_of(said)
        everything = heap + sum(node["other_resident_bytes"] for node in nodes)
        check(32 * MIB <= heap <= said["held_bytes"], f"{heap} of {said['held_bytes']}")
        resident = kernel_says(one.pid)["VmRSS"]
        check(0.9 * resident <= everything <= 1.1 * resident, f"{everything} of {resident}")
        check(sum(each["heap_resident_bytes"] for each in policies) == heap, f"{policies}")
        check(all(node["processors"] >= 0 and node["memory_bytes"] > 0 for node in nodes), "hwloc")
        heap, text = numa_text_at_rest(one.pid)
        check(f"{heap}\n" in text if len(nodes) == 1 else "node" in text, text)
        check("numa" not in json.loads(ask("stats", str(one.pid), "--json")), "not asked for")


def no_stats():
    closer = [RDMALLOC, "run", "--", "/usr/bin/python3", "-c", CLOSER]
    with sleepers(holder(1), closer) as (plain, closed):
        check("does not run under rdmalloc" in ask("stats", str(plain.pid), status=1), "plain")
        check("closed the descriptor" in ask("stats", str(closed.pid), status=1), "closed")
    check("there is no process" in ask("stats", str(plain.pid), status=1), "ended")
    for word in ("x", "0", "-5", "99999999999"):
        check("use a process id" in ask("stats", word, status=2), f"no sentence for {word}")


def foreign_stats():
    need_root("being two users")
    with sleepers(holder(1, flags=[])) as (one,):
        check("is another user's (root)" in ask("stats", str(one.pid), user=NOBODY, status=1), "")
    check("thread of the kernel" in ask("stats", "2", status=1) or
          pathlib.Path("/proc/2/comm").read_text() != "kthreadd\n", "a thread of the kernel")


def vanishing():
    """Looks while processes come and go; each look must succeed and show those that stay."""
    with sleepers(holder(2, flags=[])) as (one,):
        storm = subprocess.Popen(["/bin/sh", "-c", "while :; do /bin/true & wait; done"])
        try:
            for _ in range(40):
                check(one.pid in look("--all")["by_pid"], "one that stays is not shown")
        finally:
            storm.kill()
            storm.wait()


def names():
    hostile = "\x1b[2J\x9b31m\xe9\n\\"
    with sleepers(["/usr/bin/python3", "-c", RENAMED, hostile]) as (one,):
        shown = look()["by_pid"][one.pid]["name"]
        kept = hostile.encode("latin1")[:15].decode(errors="replace")  # the kernel keeps no more
        check(shown == kept, f"{shown!r} is not {kept!r}")
        text = ask("top")
        check(all(c == "\n" or " " <= c <= "~" for c in text), "it reaches the terminal")
        check("?[2J" in text, "it is not shown at all")


def kernel_threads():
    if pathlib.Path("/proc/2/comm").read_text() != "kthreadd\n":
        skip("threads of the kernel are not seen here")
    thread = look("--all")["by_pid"][2]
    check(thread["resident_bytes"] is None and not thread["rdmalloc"], f"{thread}")
    check(2 not in look()["by_pid"], "it is shown among those that pin")


def container():
    """A process in its own PID namespace is visible from outside, and sees only itself from
    inside."""
    need_root("a namespace of process numbers")
    command = ["unshare", "--pid", "--fork", "--mount-proc", *holder(4, flags=[])]
    probe = subprocess.run(command[:4] + ["/bin/true"], check=False, stderr=subprocess.DEVNULL)
    if probe.returncode != 0:
        skip("no namespaces here")
    with sleepers(command) as (parent,):
        children = pathlib.Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text()
        inside = int(children.split()[0])
        seen = look()["by_pid"]
        check(seen[inside]["pinned_bytes"] == kernel_says(inside)["VmLck"] > 4 * MIB, "outside")
    program = [*command[:4], RDMALLOC, "top", "--all", "--json"]
    done = subprocess.run(program, check=True, stdout=subprocess.PIPE, timeout=30,
                          env=settings("/nowhere/ledger"))
    check([one["pid"] for one in json.loads(done.stdout)["processes"]] == [1], "inside")


def hidden():
    """If /proc shows a user only his own processes, the rest works and a note says so."""
    need_root("mounting /proc")
    script = ('mount -t proc -o hidepid="$1" proc /proc || exit 77; shift; '
              f'exec {" ".join(as_user(NOBODY))} "$@"')
    for how in ("invisible", "noaccess"):
        done = subprocess.run(
            ["unshare", "--mount", "--pid", "--fork", "/bin/sh", "-c", script, "sh", how, RDMALLOC,
             "top", "--all", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=settings("/nowhere/ledger"), cwd="/", timeout=30, check=False)
        if done.returncode == 77:
            skip(f"no hidepid here: {done.stderr.decode()}")
        check(done.returncode == 0, done.stderr.decode())
        check(any("hidepid" in note for note in json.loads(done.stdout)["notes"]), f"{done.stdout}")


def bad_input():
    for arguments, why in ((("--pid", "x"), "use a process id"), (("--pid", "0"), "process id"),
                           (("--watch=0",), "use seconds"), (("--watch=soon",), "use seconds"),
                           (("--watch=nan",), "use seconds"), (("--bogus",), "no option"),
                           (("--user", "no\x1bbody"), "there is no user 'no?body'")):
        said = ask("top", *arguments, status=2)
        check(why in said and len(said.splitlines()) == 1, f"{arguments}: {said}")
    text = ask("top", "--pid", "4194305", status=1)
    check("there is no process 4194305" in text, text)
    # Nobody reads the output.
    with open("/dev/full", "wb") as full:
        done = subprocess.run([RDMALLOC, "top"], stdout=full, check=False, timeout=30)
    check(done.returncode == 1, f"status {done.returncode} with a full disk")
    # Repeatedly until told to stop; either whole tables or lines of JSON.
    with subprocess.Popen([RDMALLOC, "top", "--watch=0.1", "--json"], stdout=subprocess.PIPE,
                          env=settings("/nowhere/ledger")) as watch:
        for _ in range(3):
            check(json.loads(watch.stdout.readline())["format"] == "rdmalloc-top", "no line")
        began = time.monotonic()
        watch.send_signal(signal.SIGTERM)
        check(watch.wait(10) == -signal.SIGTERM and time.monotonic() - began < 5, "SIGTERM")
    dumb = settings("/nowhere/ledger") | {"TERM": "dumb"}
    with subprocess.Popen([RDMALLOC, "top", "--watch=0.1"], stdout=subprocess.PIPE,
                          env=dumb) as watch:
        lines = b"".join(watch.stdout.readline() for _ in range(20))
        watch.kill()
    check(b"\x1b" not in lines and b"VMPIN" in lines, f"{lines}")


def main():
    need("setpriv")
    cases = {case.__name__: case for case in (
        kernel, control, without_ledger, with_ledger, bad_ledger, user, foreign_stats, phases,
        numa, no_stats, vanishing, names, kernel_threads, container, hidden, bad_input)}
    cases[sys.argv[2]]()


test(main)
