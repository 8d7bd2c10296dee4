"""Starts MPI jobs without and with rdmalloc, and checks what they leave behind.

The environment variable RDMALLOC_BUILD names the build folder. A test ends by returning (passed),
by skip() or by fail(); by then no process of a job is left.
"""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.append(sys.path[0] + "/../support")
from verdict import check, clean_environment, skip

SECONDS_TO_GO = 5  # for a job's processes to end after its mpirun
MOST_SHOWN = 3000
MPIS = ("openmpi", "mpich")
SHIMS = ("verbs", "ucx", "ofi", "mpi")
PLAIN, RUN, PRELOAD = "without", "rdmalloc run", "LD_PRELOAD"
UCX, ALL_SHIMS = "rdmalloc run --ucx", "rdmalloc run, all shims"
FORMS = (PLAIN, RUN, PRELOAD, UCX, ALL_SHIMS)
# Open MPI uses UCX for messages and windows only if there is a card or if told to.
OVER_UCX = ("--mca", "pml", "ucx", "--mca", "osc", "ucx", "--mca", "opal_common_ucx_tls", "any",
            "--mca", "opal_common_ucx_devices", "any")


def build():
    folder = pathlib.Path(os.environ.get("RDMALLOC_BUILD", "/nowhere"))
    check((folder / "bin/rdmalloc").exists(), "RDMALLOC_BUILD must name the build folder")
    return folder


def program(mpi, name):
    path = build() / "tests/mpi" / f"{name}.{mpi}"
    if not path.exists():
        skip(f"{path.name} was not built, for want of mpicc.{mpi}: type: sh cmake/bootstrap.sh test")
    return str(path)


def shims():
    """The flags of the shims that this build has."""
    return [f"--{name}" for name in SHIMS if (build() / f"lib/librdmalloc-{name}.so").exists()]


def mpirun(mpi):
    """The path of mpirun. Run as root and with more ranks than cores, Open MPI must be allowed to
    by JOBS' environment."""
    path = shutil.which(f"mpirun.{mpi}", path="/usr/local/bin:/usr/bin:/bin")
    if path is None:
        skip(f"no mpirun.{mpi}: type: sh cmake/bootstrap.sh test")
    return path


ALLOWED = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
           "OMPI_MCA_rmaps_base_oversubscribe": "1"}


def variable(mpi, name, value):
    """The mpirun arguments that set a variable in every rank."""
    return ["-x", f"{name}={value}"] if mpi == "openmpi" else ["-genv", name, value]


def over(mpi, form):
    """mpirun's own arguments for one of FORMS: the form's transport must be in use."""
    return list(OVER_UCX) if mpi == "openmpi" and form == UCX else []


def under(mpi, form):
    """The command prefix for one of FORMS."""
    command = [str(build() / "bin/rdmalloc"), "run"]
    ucx = [word for word in shims() if word == "--ucx"]
    return {PLAIN: [], RUN: [*command, "--"], UCX: [*command, *ucx, "--"],
            ALL_SHIMS: [*command, *shims(), "--"],
            PRELOAD: variable(mpi, "LD_PRELOAD", str(build() / "lib/librdmalloc.so"))}[form]


def segments():
    """The files in /dev/shm: each outlives a process that forgets to remove it."""
    return {str(path) for path in pathlib.Path("/dev/shm").rglob("*") if path.is_file()}


def mapped(paths):
    """Those of `paths` that a process has mapped; they belong to other jobs."""
    found = set()
    for maps in pathlib.Path("/proc").glob("[0-9]*/maps"):
        with contextlib.suppress(OSError):
            text = maps.read_text(errors="replace")
            found.update(path for path in paths if path in text)
    return found


class Job:
    """One mpirun in its own folder, run to its end."""

    def __init__(self, command, folder, *, environment=None, seconds=60):
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=folder))
        self.folder.chmod(0o777)
        temporary = self.folder / "tmp"
        temporary.mkdir()
        temporary.chmod(0o777)
        # Marks the job's processes.
        self.mark = f"MPI_TEST_JOB={self.folder}"
        surroundings = clean_environment(**ALLOWED, TMPDIR=str(temporary), HOME=str(self.folder),
                                         MPI_TEST_JOB=str(self.folder),
                                         RDMALLOC_REPORT=f"{self.folder}/report.%p.json")
        surroundings.update(environment or {})
        before = segments()
        with open(self.folder / "output", "wb") as output:
            process = subprocess.Popen(list(map(str, command)), cwd=self.folder, env=surroundings,
                                       stdin=subprocess.DEVNULL, stdout=output,
                                       stderr=subprocess.STDOUT, start_new_session=True)
            try:
                self.status = process.wait(seconds)
            except subprocess.TimeoutExpired:
                self.status = None
            self.left = self.what_is_left(before) if self.status is not None else []
            for pid in {process.pid, *self.processes()} if self.status is None or self.left else ():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.wait()
        self.output = (self.folder / "output").read_text(errors="replace")
        self.reports = [json.loads(path.read_text()) for path in self.folder.glob("report.*.json")
                        if path.stat().st_size]

    def processes(self):
        found = []
        for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                if self.mark.encode() in path.read_bytes().split(b"\0"):
                    found.append(int(path.parent.name))
        return found

    def what_is_left(self, before):
        """What has not gone SECONDS_TO_GO after the job, in words; empty if nothing."""
        until = time.monotonic() + SECONDS_TO_GO
        while True:
            left = [f"process {pid}" for pid in self.processes()]
            new = segments() - before
            left += sorted(new - mapped(new)) if new else []
            if not left or time.monotonic() > until:
                return left
            time.sleep(0.1)

    def expect(self, status, *, ranks=None):
        """`ranks`: the least number of reports, one from each rank; None: there must be none."""
        where = f"{self.output[-MOST_SHOWN:]}\n"
        check(self.status is not None, f"{where}it hung, and was killed")
        check(self.status == status, f"{where}ended with {self.status}, promised was {status}")
        check(not self.left, f"{where}left behind: {', '.join(self.left)}")
        if ranks is not None:
            check(len(self.reports) >= ranks, f"{where}{len(self.reports)} reports of {ranks} ranks")
            check(all(report["held_bytes"] for report in self.reports), "malloc did not come to us")
        return self

    def expect_registered(self):
        """Each rank's heap was registered: a shim found its library in use."""
        check(all(report["registrations"] for report in self.reports),
              f"{self.output[-MOST_SHOWN:]}\nno region was registered: nothing came to the shim")
        return self
