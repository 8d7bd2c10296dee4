#!/usr/bin/env python3
"""Runs a program and records what the kernel reports about each of its processes at exit.

    watch.py [--seconds N] [--data BYTES] [--notes FILE] -- PROGRAM ARGUMENTS

Polling /proc can miss the last page that a process locked: the process may end before the next
look. So every process of the program is traced (with ptrace, stopping only at birth, signals and
exit) and inspected in its exit stop, while its memory still exists. The notes are one JSON object
per line, written when all processes have ended. The exit status is the program's, or 124 on
timeout. Nothing is left running then, nor when this process dies.
"""

import argparse
import ctypes
import errno
import json
import os
import resource
import signal
import sys
import time

PTRACE_CONT, PTRACE_SEIZE, PTRACE_LISTEN = 7, 0x4206, 0x4208
TRACE_FORK, TRACE_VFORK, TRACE_CLONE, TRACE_EXIT, EXIT_KILL = 2, 4, 8, 0x40, 0x100000
EVENT_EXIT, EVENT_STOP = 6, 128
WAIT_ALL_KINDS = 0x40000000  # __WALL: threads too
TIMED_OUT = 124

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
libc.ptrace.restype = ctypes.c_long
PR_SET_PDEATHSIG = 1


def ptrace(request, pid, data=0):
    if libc.ptrace(request, pid, None, data) == -1:
        code = ctypes.get_errno()
        if code != errno.ESRCH:  # killed in the meantime; waiting will report its end
            raise OSError(code, os.strerror(code))


def look_at(tid):
    """The figures of the process that this thread belongs to; None if its memory is gone."""
    try:
        with open(f"/proc/{tid}/status", encoding="utf-8", errors="replace") as file:
            status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
        with open(f"/proc/{tid}/stat", encoding="utf-8", errors="replace") as file:
            stat = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    if "VmLck" not in status:
        return None
    note = {"pid": int(status["Tgid"]), "name": status["Name"]}
    for field in ("VmLck", "VmPin", "VmRSS", "VmHWM"):
        note[field] = int(status[field].split()[0]) * 1024
    tick = os.sysconf("SC_CLK_TCK")
    note["minor_faults"], note["major_faults"] = int(stat[7]), int(stat[9])
    note["user_seconds"], note["system_seconds"] = int(stat[11]) / tick, int(stat[12]) / tick
    note["wall_seconds"] = time.clock_gettime(time.CLOCK_BOOTTIME) - int(stat[19]) / tick
    return note


def start(command, data_limit):
    """Starts the program, traced before its first instruction. Returns its pid."""
    gate_read, gate_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(gate_write)
            if not os.read(gate_read, 1):
                os._exit(126)
            os.close(gate_read)
            if data_limit:
                resource.setrlimit(resource.RLIMIT_DATA, (data_limit, data_limit))
            for number in (signal.SIGPIPE, signal.SIGXFSZ):  # this interpreter ignores them
                signal.signal(number, signal.SIG_DFL)
            os.execvp(command[0], command)
        except OSError as error:
            os.write(2, f"watch.py: {command[0]}: {error.strerror}\n".encode())
            os._exit(127)
    os.close(gate_read)
    try:
        ptrace(PTRACE_SEIZE, pid, TRACE_FORK | TRACE_VFORK | TRACE_CLONE | TRACE_EXIT | EXIT_KILL)
    except OSError as error:
        print(f"watch.py: no tracing here ({error.strerror}): no notes", file=sys.stderr)
    os.write(gate_write, b"g")
    os.close(gate_write)
    return pid


def resume(tid, status, notes):
    event, number = status >> 16, os.WSTOPSIG(status)
    if event == EVENT_EXIT:
        note = look_at(tid)
        if note:
            notes[note["pid"]] = note
    if event == 0:
        ptrace(PTRACE_CONT, tid, number)  # a signal: pass it on
    elif event == EVENT_STOP and number != signal.SIGTRAP:
        ptrace(PTRACE_LISTEN, tid)  # a job-control stop: let it continue to stop
    else:
        ptrace(PTRACE_CONT, tid)


def follow(program):
    """Watches until the last process has ended. Returns the program's wait status and the notes."""
    ended, notes = None, {}
    while True:
        try:
            tid, status = os.waitpid(-1, WAIT_ALL_KINDS)
        except ChildProcessError:
            return ended, notes
        if os.WIFSTOPPED(status):
            resume(tid, status, notes)
        elif tid == program:
            ended = status


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--data", type=int, default=0)
    parser.add_argument("--notes")
    parser.add_argument("command", nargs="+")
    given = parser.parse_args()

    def time_is_up(_number, _frame):
        print(f"watch.py: stopped after {given.seconds} s", file=sys.stderr)
        os._exit(TIMED_OUT)  # then the kernel kills what is traced

    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # end with the test, and the program with us
    signal.signal(signal.SIGALRM, time_is_up)
    signal.alarm(given.seconds)
    began = time.monotonic()
    status, notes = follow(start(given.command, given.data))
    if given.notes:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        whole = {"whole": True, "wall_seconds": time.monotonic() - began,
                 "user_seconds": usage.ru_utime, "system_seconds": usage.ru_stime,
                 "minor_faults": usage.ru_minflt, "major_faults": usage.ru_majflt}
        with open(given.notes, "w", encoding="utf-8") as file:
            for note in [whole, *notes.values()]:
                print(json.dumps(note), file=file)
    code = os.waitstatus_to_exitcode(status)
    sys.exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main()
