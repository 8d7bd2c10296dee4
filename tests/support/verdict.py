"""How Python tests report what they found, and the environment that they run with.

A test ends by returning (passed), by skip(), or by fail() or a failed check(). A test in another
folder finds this module with

    sys.path.append(sys.path[0] + "/../support")
"""

import os
import pathlib
import sys
import tempfile
import time

SKIPPED = 77  # SKIP_RETURN_CODE in CMakeLists.txt
NOBODY = 65534
FOLDERS = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
# Environment variables of the caller that would affect the tested programs.
FOREIGN = ("RDMALLOC_", "LD_", "MALLOC_", "OMPI_", "SLURM_", "PMI", "TMUX")


class Failed(Exception):
    pass


def fail(why):
    raise Failed(why)


def check(good, why):
    if not good:
        fail(why)


def skip(why):
    print(f"SKIPPED: {why}")
    sys.exit(SKIPPED)


def need(*programs):
    """Their paths in the system's own folders: a version manager's shims would fork a shell."""
    found = []
    for program in programs:
        path = next((f"{folder}/{program}" for folder in FOLDERS.split(":")
                     if os.access(f"{folder}/{program}", os.X_OK)), None)
        if path is None:
            skip(f"{program} is not installed: type: sh cmake/bootstrap.sh test")
        found.append(path)
    return found[0] if len(found) == 1 else found


def need_root(what):
    if os.geteuid() != 0:
        skip(f"{what} needs root")


def as_user(user=NOBODY):
    """Prefix that runs a command as an ordinary user without capabilities; None keeps the current
    user."""
    if user is None:
        return []
    return [need("setpriv"), f"--reuid={user}", f"--regid={user}", "--clear-groups",
            "--bounding-set=-all", "--inh-caps=-all"]


def clean_environment(**more):
    """This process's environment without FOREIGN variables, plus `more`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
    return kept | more


def comes(condition, seconds):
    """Whether the condition holds within that many seconds."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def test(function, *arguments):
    """Calls the function and exits with its verdict."""
    began = time.monotonic()
    try:
        function(*arguments)
    except Failed as why:
        print(f"FAILED: {why}")
        sys.exit(1)
    print(f"passed after {time.monotonic() - began:.1f} s")


def test_in_folder(function):
    """The same, with a temporary folder that other users may read."""
    with tempfile.TemporaryDirectory(prefix="rdmalloc-") as folder:
        os.chmod(folder, 0o755)
        test(function, pathlib.Path(folder))
