#!/usr/bin/env python3
"""`rdmalloc top --watch` in a real terminal, tmux: what the screen shows, and how it is left.

    top_screen_test.py RDMALLOC keys|scrolling|resizing|narrow|colours|signals|names|plain|gone
"""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time

sys.path.append(sys.path[0] + "/../../../../support")
from verdict import comes, clean_environment, fail, need, test

RDMALLOC = sys.argv[1]
PATIENCE = 30  # seconds
# Locks a number of MiB, under a given name; "over": its limit is lower, and no right lifts that.
LOCKER = """
import ctypes, mmap, resource, sys
own = ctypes.CDLL(None)
own.prctl(15, sys.argv[1].encode("latin1"), 0, 0, 0)
size = int(sys.argv[2]) << 20
kept = mmap.mmap(-1, size)
own.mlock(ctypes.byref(ctypes.c_char.from_buffer(kept)), ctypes.c_size_t(size))
if sys.argv[3:] == ["over"]:
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (1 << 20, 1 << 20))
    own.capset((ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)())
print("ready", flush=True)
sys.stdin.readline()
"""


class Terminal:
    """A shell in the terminal of its own tmux server."""

    def __init__(self, columns=150, rows=24):
        self.socket = f"rdmalloc-top-{os.getpid()}"
        self.tmux("new-session", "-d", "-x", str(columns), "-y", str(rows), "env PS1='$ ' sh")
        self.wait_for(lambda text: "$" in text, "a shell")

    def tmux(self, *words, may_fail=False):
        # The command is typed by its name: its path may be wider than the screen.
        path = f"{os.path.dirname(RDMALLOC)}:{os.environ['PATH']}"
        ours = clean_environment(PATH=path, RDMALLOC_LEDGER="/nowhere/ledger", RDMALLOC_COUNTERS_FROM="1")
        done = subprocess.run(["tmux", "-L", self.socket, "-f", "/dev/null", *words],
                              check=not may_fail, env=ours, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL if may_fail else None, timeout=PATIENCE)
        return done.stdout.decode()

    def end(self):
        self.tmux("kill-server", may_fail=True)

    def text(self, *flags):
        return self.tmux("capture-pane", "-p", *flags)

    def press(self, *keys):
        self.tmux("send-keys", *keys)

    def type(self, line):
        self.tmux("send-keys", "-l", line)
        self.press("Enter")

    def resize(self, columns, rows):
        self.tmux("resize-window", "-x", str(columns), "-y", str(rows))

    def resize_at_prompt(self, columns, rows):
        """Until what the shell starts sees the new size: tmux tells the pane of it some time later."""
        self.resize(columns, rows)
        self.type(f"until [ \"$(stty size)\" = '{rows} {columns}' ]; do sleep 0.1; done; echo resi''zed")
        self.wait_for(lambda text: re.search("^resized$", text, re.M), "the new size")

    def is_whole(self):
        """Whether a program has the whole screen."""
        return self.tmux("display-message", "-p", "#{alternate_on}").strip() == "1"

    def shows_cursor(self):
        return self.tmux("display-message", "-p", "#{cursor_flag}").strip() == "1"

    def wait_for(self, is_there, what):
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            text = self.text()
            if is_there(text):
                return text
            time.sleep(0.05)
        return fail(f"not seen: {what}\n{text}")

    def watch(self, *flags):
        # Without a trap the shell would stop after a program that died of SIGINT.
        self.type("trap : INT; before=$(stty -g)")
        self.type(f"rdmalloc top --watch=0.3 {' '.join(flags)}; echo status=$?")
        self.wait_for(lambda text: "VMPIN" in text and "q quit" in text, "the screen")
        if not self.is_whole():
            fail("it does not have the whole screen")

    def promise_restored(self, status):
        text = self.wait_for(lambda text: f"status={status}" in text, f"its end with {status}")
        if self.is_whole() or not self.shows_cursor() or "VMPIN" in text:
            fail(f"the screen is not as it was\n{text}")
        self.type('[ "$before" = "$(stty -g)" ] && echo modes=kept')
        self.wait_for(lambda text: "\nmodes=kept" in text, "the terminal's modes as they were")
        self.clear()

    def clear(self):
        self.type("clear")
        self.wait_for(lambda text: not re.search("status|VMPIN", text), "a cleared screen")


class Locker:
    def __init__(self, name, mib, *more):
        self.process = subprocess.Popen(["/usr/bin/python3", "-c", LOCKER, name, str(mib), *more],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.process.stdout.readline()

    def end(self):
        self.process.communicate(b"\n", timeout=PATIENCE)


@contextlib.contextmanager
def terminal_with(*named):
    lockers = [Locker(*one) for one in named]
    terminal = Terminal()
    terminal.of_lockers = " ".join(f"--pid {one.process.pid}" for one in lockers)
    try:
        yield terminal
    finally:
        terminal.end()
        for one in lockers:
            one.end()


def order_of(text, *names):
    """The names on the screen, from top to bottom."""
    found = [(text.find(name), name) for name in names if name in text]
    return [name for _, name in sorted(found)]


def keys():
    with terminal_with(("beta-b", 3), ("alpha-a", 2), ("gamma-c", 1)) as terminal:
        names = ("alpha-a", "beta-b", "gamma-c")

        def promise(*order):
            terminal.wait_for(lambda text: order_of(text, *names) == list(order), f"{order}")

        terminal.watch()
        promise("beta-b", "alpha-a", "gamma-c")
        terminal.press("n")
        promise("alpha-a", "beta-b", "gamma-c")
        terminal.press("R")
        promise("gamma-c", "beta-b", "alpha-a")
        terminal.press("k")
        promise("beta-b", "alpha-a", "gamma-c")
        terminal.press("i", "R")
        promise("beta-b", "alpha-a", "gamma-c")
        terminal.press("p")
        terminal.wait_for(lambda text: "sorted by VMPIN + VMLCK;" in text, "how it is sorted")
        terminal.press("a", "n")
        terminal.wait_for(lambda text: re.search(r"(\d+) processes, \1 shown", text), "all processes")
        terminal.press("q")
        terminal.promise_restored(0)


def scrolling():
    with terminal_with(*((f"locker-{i:02}", 1) for i in range(12))) as terminal:
        terminal.resize(150, 12)
        terminal.watch(terminal.of_lockers)
        terminal.press("n")
        for key, seen, unseen in (("Home", "locker-00", "locker-11"), ("Down", "", "locker-11"),
                                  ("End", "locker-11", "locker-00"), ("PPage", "locker-03", ""),
                                  ("Home", "locker-00", "locker-11"), ("NPage", "", "locker-00"),
                                  ("Up", "", "")):
            terminal.press(key)
            terminal.wait_for(lambda text, seen=seen, unseen=unseen: seen in text and
                              (unseen == "" or unseen not in text), f"{seen} after {key}")
        terminal.press("q")
        terminal.promise_restored(0)


def resizing():
    with terminal_with(("beta-b", 2)) as terminal:
        terminal.watch()
        terminal.wait_for(lambda text: "MEMLOCK" in text, "all columns")
        terminal.resize(70, 20)
        terminal.wait_for(lambda text: "beta-b" in text and "MEMLOCK" not in text and
                          "VMLCK" in text, "fewer columns")
        for columns, rows in ((30, 5), (10, 2), (1, 1), (2, 40), (200, 2), (40, 7), (150, 24)):
            terminal.resize(columns, rows)
            time.sleep(0.4)
        text = terminal.wait_for(lambda text: "MEMLOCK" in text and "beta-b" in text, "all again")
        if text.count(" PID USER ") != 1 or text.count("q quit") != 1:
            fail(f"it is not drawn once\n{text}")
        terminal.press("q")
        terminal.promise_restored(0)


def narrow():
    with terminal_with(("a-name-cut-at-8", 3, "over")) as terminal:
        for columns, name in ((80, "a-name-cut-at-8"), (40, "a-name-c")):
            terminal.resize_at_prompt(columns, 24)
            terminal.clear()
            terminal.type(f"rdmalloc top {terminal.of_lockers}")
            terminal.wait_for(lambda text: "total" in text, "a table")
            promise_narrow(terminal.text("-J"), columns, name)
            terminal.clear()
            terminal.watch(terminal.of_lockers)
            text = terminal.wait_for(lambda text: "a-name-c" in text, "the locker")
            promise_narrow(terminal.text("-J"), columns, name)
            keys = re.findall(r"\bk VMLCK\b|\bw OVER\b|\bm MEMLOCK\b", text)
            if sorted(keys) != ["k VMLCK", "w OVER"]:
                fail(f"the keys of the columns that are shown are not told\n{text}")
            terminal.press("q")
            terminal.promise_restored(0)
        terminal.type(f"rdmalloc top {terminal.of_lockers} | "
                      "grep -c -e 'MEMLOCK DOM  GRANT OVER$' -e 'a-name-cut-at-8.*over memlock$'")
        terminal.wait_for(lambda text: re.search("^2$", text, re.M), "all columns in a pipe")


def promise_narrow(text, columns, name):
    """Columns that matter, names cut. `text` has a line that the terminal has wrapped as one."""
    if any(len(line.rstrip()) > columns for line in text.splitlines()):
        fail(f"a line is longer than {columns}\n{text}")
    if not re.search(r"^ +PID NAME +VMPIN +VMLCK .*\bOVER", text, re.M):
        fail(f"columns that matter are missing\n{text}")
    if not re.search(rf"^ *\d+ {name} +0 +3.0M .*memlock *$", text, re.M):
        fail(f"the locker's line does not say what is over\n{text}")


def colours():
    """Whoever has too much is red, unless that was refused or the terminal has none."""
    with terminal_with(("greedy", 3, "over"), ("modest", 2)) as terminal:
        terminal.resize_at_prompt(80, 24)
        red = r"\x1b\[(1;)?(0;)?31m(\x1b\[49m)? *\d+ greedy"  # tmux may name the ground, too
        for setting, is_red in (("NO_COLOR=", True), ("NO_COLOR=1", False), ("TERM=dumb", False)):
            terminal.clear()
            terminal.type(f"{setting} rdmalloc top {terminal.of_lockers}")
            terminal.wait_for(lambda text: "total" in text, "a table")
            promise_red(terminal, red, is_red, setting)
        for setting, is_red in (("NO_COLOR=", True), ("NO_COLOR=1", False)):
            terminal.type(f"export {setting}")
            terminal.clear()
            terminal.watch(terminal.of_lockers)
            terminal.wait_for(lambda text: "greedy" in text, "the locker")
            promise_red(terminal, red, is_red, setting)
            terminal.press("q")
            terminal.promise_restored(0)


def promise_red(terminal, red, is_red, setting):
    text = terminal.text("-e")
    if bool(re.search(red, text)) != is_red or ("[31m" in text) != is_red:
        fail(f"with {setting} red should be {is_red}\n{text!r}")
    if re.search(r"31m[^\n]*modest", text):
        fail(f"red is who has not too much\n{text!r}")


def signals():
    with terminal_with(("beta-b", 2)) as terminal:
        terminal.watch()
        terminal.press("C-c")
        terminal.promise_restored(128 + signal.SIGINT)
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            terminal.type("ulimit -c 0")
            terminal.watch()
            os.kill(watching(terminal), number)
            terminal.promise_restored(128 + number)
        terminal.watch()
        terminal.press("C-z")
        terminal.wait_for(lambda text: "VMPIN" not in text, "the shell, while it is stopped")
        terminal.type("fg")
        terminal.wait_for(lambda text: "q quit" in text, "the screen again")
        terminal.press("q")
        terminal.promise_restored("")


def watching(terminal):
    """The process that owns the terminal's screen."""
    shell = terminal.tmux("display-message", "-p", "#{pane_pid}").strip()
    done = subprocess.run(["ps", "-o", "pid=,args=", "--ppid", shell], check=True,
                          stdout=subprocess.PIPE)
    numbers = [int(line.split()[0]) for line in done.stdout.decode().splitlines()
               if " top --watch" in line]
    return numbers[0] if numbers else fail("it does not run")


def names():
    """Escape sequences that a terminal would obey: clear the screen, set a colour or a title."""
    with terminal_with(("\x1b[2J\x1b[31mred", 4), ("\x9b2J\x1b]0;own\x07", 3),
                       ("caf\xe9", 2)) as terminal:
        terminal.watch()
        terminal.wait_for(lambda text: "?[2J?[31mred" in text and "?2J?]0;own?" in text and
                          "caf?" in text, "names without what terminals obey")
        if terminal.tmux("display-message", "-p", "#{pane_title}").strip() == "own":
            fail("a process's name became the terminal's title")
        terminal.press("q")
        terminal.promise_restored(0)


def plain():
    """If the cursor cannot be moved, tables are printed one after the other."""
    with terminal_with(("beta-b", 2)) as terminal:
        for name in ("dumb", "no-such-terminal", ""):
            terminal.type(f"TERM={name} rdmalloc top --watch=0.2 | grep -c . & "
                          f"TERM={name} rdmalloc top --watch=0.2")
            terminal.wait_for(lambda text: text.count("beta-b") > 1, "several tables")
            if terminal.is_whole():
                fail(f"it took the whole screen of a terminal called '{name}'")
            terminal.press("C-c")
            terminal.type("kill %1; wait; clear; echo ready")
            terminal.wait_for(lambda text: "\nready" in text or text.startswith("ready"), "its end")


def is_over(process):
    """Also of one that has ended and whose new parent does not ask."""
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def gone():
    """When the terminal disappears the program ends."""
    with terminal_with(("beta-b", 2)) as terminal:
        terminal.watch()
        process = watching(terminal)
        terminal.end()
        if not comes(lambda: is_over(process), PATIENCE):
            os.kill(process, signal.SIGKILL)
            fail("it runs on without a terminal")


def main():
    need("tmux", "ps")
    cases = {case.__name__: case for case in
             (keys, scrolling, resizing, narrow, colours, signals, names, plain, gone)}
    cases[sys.argv[2]]()


test(main)
