#!/usr/bin/env python3
"""Checks that a hit of rdm_lookup is about as short on AArch64 as it is on x86-64.

usage: lookup_code.py SOURCES SYSROOT

Compiles the function as the library is compiled, by both compilers, and counts the instructions of
the shortest way from its entry to its return.
"""
import os
import re
import subprocess
import sys
import tempfile

MOST_MORE = 12
FUNCTION = "rdm_lookup"
FLAGS = ["-std=c++20", "-O2", "-DNDEBUG", "-fPIC", "-fno-exceptions", "-fno-rtti",
         "-fno-threadsafe-statics", "-fvisibility=hidden", "-fvisibility-inlines-hidden",
         "-ftls-model=initial-exec"]
INSTRUCTION = re.compile(r"^\s*([0-9a-f]+):\s+(\S+)\s*(.*)$")
TARGET = re.compile(r"\b([0-9a-f]+) <" + FUNCTION + r"\+0x[0-9a-f]+>")
ALWAYS_JUMPS = {"jmp", "b", "br"}


def is_branch(name):
    return name.startswith(("j", "b.", "cbz", "cbnz", "tbz", "tbnz")) or name in ALWAYS_JUMPS


def instructions_of(sources, objdump, compiler):
    """(address, name, where it may jump to within the function or None), in order."""
    with tempfile.TemporaryDirectory() as work:
        code = os.path.join(work, "code.o")
        includes = ["-I", sources, "-I", os.path.join(sources, "include")]
        source = os.path.join(sources, "regcache/c_api.cpp")
        subprocess.run([*compiler, *FLAGS, *includes, "-c", source, "-o", code], check=True)
        disassemble = [objdump, "-d", "--no-show-raw-insn", f"--disassemble={FUNCTION}", code]
        text = subprocess.run(disassemble, check=True, capture_output=True, text=True).stdout
    found = []
    for line in text.splitlines():
        match = INSTRUCTION.match(line)
        if match:
            target = TARGET.search(match[3]) if is_branch(match[2]) else None
            found.append((int(match[1], 16), match[2], int(target[1], 16) if target else None))
    return found


def shortest_way(instructions):
    """Instructions from the entry to a return, both included."""
    place = {address: index for index, (address, _, _) in enumerate(instructions)}
    seen, front, length = {0}, [0], 0
    while front:
        length += 1
        after = []
        for index in front:
            _, name, target = instructions[index]
            if name in ("ret", "retq"):
                return length
            following = [] if name in ALWAYS_JUMPS else [index + 1]
            if target in place:
                following.append(place[target])
            after += [i for i in following if i < len(instructions) and i not in seen]
            seen.update(after)
        front = after
    raise SystemExit(f"FAILED: no way through {FUNCTION} ends in a return")


def main():
    if len(sys.argv) != 3:
        print(__doc__.splitlines()[2], file=sys.stderr)
        return 2
    sources, sysroot = sys.argv[1:]
    here = shortest_way(instructions_of(sources, "objdump", ["g++"]))
    there = shortest_way(instructions_of(sources, "aarch64-linux-gnu-objdump",
                                         ["aarch64-linux-gnu-g++", f"--sysroot={sysroot}"]))
    print(f"a hit of {FUNCTION}: {here} instructions on x86-64, {there} on AArch64")
    if there > here + MOST_MORE:
        print(f"FAILED: more than {MOST_MORE} more")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
