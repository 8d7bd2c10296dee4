"""What ranks leave and print: reports of killed ranks, and a single sentence on overflow.

usage: reports_test.py MPI killed|control|once
"""
import json
import os
import platform
import sys

from job import Job, build, mpirun
from verdict import check, test_in_folder

RANKS = 4
SENTENCE = "from here on memory is not pinned"
HOLD = "import os, signal, time; held = bytearray(b'x') * (40 << 20); "
# The third rank dies, and the launcher ends the others.
DIE = HOLD + "time.sleep(2); os.environ[{rank!r}] == '2' and os.kill(os.getpid(), 9); time.sleep(40)"
STAY = HOLD + "time.sleep(4)"
RANK = {"openmpi": "OMPI_COMM_WORLD_RANK", "mpich": "PMI_RANK"}


def ranks(mpi, folder, program, *options, environment=None):
    command = [mpirun(mpi), "-np", RANKS, build() / "bin/rdmalloc", "run", *options, "--",
               "/usr/bin/python3", "-c", program]
    job = Job(command, folder, environment=environment)
    check(not job.left, f"{job.output}\nleft behind: {', '.join(job.left)}")
    return job


def reports_of(mpi, folder, *options):
    job = ranks(mpi, folder, DIE.format(rank=RANK[mpi]), "--report", "%h-%j-rank%r.json", *options)
    check(job.status != 0, "the launcher did not hear of the rank that died")
    return job, sorted(job.folder.glob(f"{platform.node()}-*-rank?.json"))


def killed(mpi, folder):
    job, paths = reports_of(mpi, folder, "--report-every", "1")
    check([path.name[-6] for path in paths] == list("0123"), f"{job.output}\n{paths}")
    for path in paths:
        report = json.loads(path.read_text())
        check(report["partial"] and report["held_bytes"] >= 40 << 20, f"{path}: {report}")
    if mpi == "openmpi":
        jobs = {path.name.split("-")[-2] for path in paths}
        check(len(jobs) == 1, f"the ranks are of several jobs: {jobs}")


def control(mpi, folder):
    _, paths = reports_of(mpi, folder)
    check(not [path for path in paths if path.name.endswith("rank2.json")],
          "the rank that was killed left a report by itself: the other test proves nothing")


def once(mpi, folder):
    job = ranks(mpi, folder, STAY, environment={"RDMALLOC_CAP": "8M"})
    check(job.status == 0, job.output)
    said = [line for line in job.output.splitlines() if SENTENCE in line]
    check(len(said) == 1, f"{job.output}\nsaid {len(said)} times")
    check(f" on {platform.node()}: " in said[0] and "process " in said[0] and "rank " in said[0],
          said[0])


def main():
    os.environ.pop("RDMALLOC_REPORT", None)
    case = {"killed": killed, "control": control, "once": once}[sys.argv[2]]
    test_in_folder(lambda folder: case(sys.argv[1], folder))


main()
