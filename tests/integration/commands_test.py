#!/usr/bin/env python3
"""Every command that README.md tells its reader to type works: commands.txt has for each what runs it.

    commands_test.py SOURCE_FOLDER BUILD_FOLDER

What is run here finds what it names in a folder made for it, where ./program says whether the library
serves its malloc.
"""
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

SECONDS = 100  # for one command
SKIPPED = 77
PROGRAM = "#!/bin/sh\nif grep -q librdmalloc /proc/self/maps; then echo served; fi\n"
# Stand-ins for what bootstrap.sh calls, which print their arguments: the real build is the one that
# this test belongs to.
TOOLS = {"dpkg-query": "#!/bin/sh\necho installed\n", "cmake": '#!/bin/sh\necho "cmake $*"\n',
         "apt-get": '#!/bin/sh\necho "apt-get $*"\nexit 1\n'}
# What bootstrap.sh refuses where it installs nothing, or not without jemalloc's sources.
OTHER_SYSTEM = re.compile(r"^bootstrap: (packages are installed by this script on|jemalloc of|GCC of) .*", re.MULTILINE)
BUILT = ["cmake -S . -B build -G Ninja", "cmake --build build"]


def commands_of(readme):
    lines = []
    for block in re.findall(r"^```sh\n(.*?)^```", readme, re.MULTILINE | re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            command = " ".join(re.sub(r"(^|\s)#.*", "", line).split())
            if command:
                lines.append(command)
    return list(dict.fromkeys(lines))


def rows_of(table):
    return dict(line.rsplit(" | ", 1) for line in table.splitlines() if line and not line.startswith("#"))


class NotHere(Exception):
    """This machine or this build cannot try the command."""


def unpaired(commands, rows):
    return ([f"README.md has '{command}', and commands.txt says nothing of it"
             for command in commands if command not in rows] +
            [f"commands.txt has '{command}', and README.md does not" for command in rows
             if command not in commands])


def write_script(path, text):
    path.write_text(text)
    path.chmod(0o755)


def make_place(folder, source, build):
    for name in ("build/bin", "build/lib", "build/demo/bin", "build/demo/lib"):
        link = folder / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(build / link.name)
    write_script(folder / "program", PROGRAM)
    tools = folder / "tools"
    tools.mkdir()
    for name, text in TOOLS.items():
        write_script(tools / name, text)
    cmake = folder / "source/cmake"
    cmake.mkdir(parents=True)
    (cmake / "bootstrap.sh").write_text((source / "cmake/bootstrap.sh").read_text())


def try_it(command, place, **given):
    return subprocess.run(["/bin/sh", "-c", command], cwd=place, stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS, **given)


def run(command, statuses, place):
    done = try_it(command, place)
    wrong = []
    if str(done.returncode) not in statuses:
        wrong.append(f"it ended with {done.returncode}")
    if command.endswith("./program") and " study " not in command and "served" not in done.stdout:
        wrong.append("the library does not serve the program")
    if "--report" in command and '"held_bytes"' not in (place / "report.json").read_text():
        wrong.append("there is no report")
    if wrong:
        print(done.stdout)
    return [f"{command}: {what}" for what in wrong]


def bootstrap(command, place):
    """The command's steps, with tools that only print how they are called."""
    done = try_it(command, place / "source", env={"PATH": f"{place}/tools:{os.environ['PATH']}"})
    called = [line for line in done.stdout.splitlines() if line.startswith(("cmake ", "apt-get "))]
    if done.returncode == 0 and called == BUILT:
        return []
    if refusal := OTHER_SYSTEM.search(done.stdout):
        raise NotHere(refusal[0])
    print(done.stdout)
    return [f"{command}: it ended with {done.returncode}, and called {called}"]


def wrong_with(command, how, place, names, build):
    kind, _, rest = how.partition(" ")
    if kind == "test":
        return [] if names.has(rest) else [f"{command}: no test is called '{rest}'"]
    if kind == "bootstrap":
        return bootstrap(command, place)
    shim = re.search(r" --(verbs) ", command)
    if shim and not (build / f"lib/librdmalloc-{shim[1]}.so").exists():
        raise NotHere(f"librdmalloc-{shim[1]}.so was not built")
    return run(command, rest.split(), place)


def check_itself():
    """Checks the parser on made-up text."""
    text = "```sh\n# no\na b    # why\nc \\\n  d\n```\n```c\ne();\n```\n```sh\na  b\n```\n"
    assert commands_of(text) == ["a b", "c d"], commands_of(text)
    rows = rows_of("# x\na b | run 0\ne | f | test g\n")
    assert rows == {"a b": "run 0", "e | f": "test g"}
    assert len(unpaired(["a b", "c d"], rows)) == 2


def main():
    source, build = (Path(name).resolve() for name in sys.argv[1:])
    sys.path.insert(0, str(source / "tests/unit"))
    from coverage_test import Names
    check_itself()
    commands = commands_of((source / "README.md").read_text())
    rows = rows_of((source / "tests/commands.txt").read_text())
    wrong = unpaired(commands, rows)
    for name in [name for name in os.environ if name.startswith("RDMALLOC_") or name == "LD_PRELOAD"]:
        del os.environ[name]
    names = Names(source / "tests")
    skipped = []
    with tempfile.TemporaryDirectory() as folder:
        make_place(Path(folder), source, build)
        for command, how in rows.items():
            try:
                wrong += wrong_with(command, how, Path(folder), names, build)
            except NotHere as why:
                skipped.append(f"{command}: {why}")
            except (OSError, subprocess.TimeoutExpired) as why:
                wrong.append(f"{command}: {why}")
    for line in wrong:
        print(f"BROKEN: {line}")
    print(f"{len(commands)} commands, {len(wrong)} wrong")
    if wrong or len(commands) < 10:
        return 1
    for line in skipped:
        print(f"SKIPPED: {line}")
    return SKIPPED if skipped else 0


if __name__ == "__main__":
    sys.exit(main())
