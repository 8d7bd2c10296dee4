#!/usr/bin/env python3
"""The distribution's MPI applications: the same answers without and with rdmalloc, and a table of
times and peak memory.

    mpi_applications.py [--long] APPLICATION/MPI...     such as lammps/openmpi tachyon/mpich

LAMMPS and HPCC are packaged for Open MPI only, Tachyon for both MPIs. NWChem and ScaLAPACK's tests
are packaged for both too, but fail with Debian's MPICH 4.0.2 even without rdmalloc (its reductions;
pmodels/mpich issue 6239), so they would show nothing.
"""

import pathlib
import re
import sys

from mpi_inputs import hpcc_input, hpcc_understood, lammps_input, tachyon_scene
from side_by_side import Run, check_books, os, show
from verdict import check, fail, need, skip, test_in_folder

RANKS = 2
LIBRARIES = pathlib.Path("/usr/lib/x86_64-linux-gnu")
# Allows running as root and with more ranks than cores.
OPEN_MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_rmaps_base_oversubscribe": "1"}


class Lammps:
    """Molecular dynamics; the answer is the energies and pressure it prints."""

    def prepare(self, folder, long):
        (folder / "in.lj").write_text(lammps_input(long))

    def command(self, _mpi):
        return [need("lmp"), "-in", "in.lj", "-log", "none"]

    def answer(self, run):
        table = re.search(rb"^Step .*?^Loop time", run.output, re.MULTILINE | re.DOTALL)
        return table[0] if table else b""


# PTRANS's rows, one per transposition, and their count. It draws the shapes with the time as the
# seed, so their number differs from run to run.
TRANSPOSITIONS = re.compile(r"^(WALL|CPU) |^ *\d+ tests completed and passed residual checks\.$")


class Hpcc:
    """Linear algebra, transposition, updates and transforms; each checks its own result."""

    def prepare(self, folder, long):
        self.understood = hpcc_understood(long)
        (folder / "hpccinf.txt").write_text(hpcc_input(long))

    def command(self, _mpi):
        return [need("hpcc")]

    def answer(self, run):
        text = (run.folder / "hpccoutf.txt").read_text(errors="replace")
        said = [line for line in text.splitlines()
                if re.search(r"PASSED|FAILED|^Success=|[Ff]ound \d+ errors|tests completed", line)]
        check("Success=1" in said and not any("FAILED" in line for line in said),
              "\n".join(said) + "\nhpcc failed")
        kept = [line for line in said if not re.search(TRANSPOSITIONS, line)]
        self.check_input(text)
        check(len(kept) > 5, "\n".join(kept) + "\nhpcc left out a part")
        return "\n".join(kept).encode()


    def check_input(self, text):
        """HPCC used the input that was written, and nothing else."""
        of_hpl, _, rest = text.partition("Begin of PTRANS section.")
        of_ptrans = rest.partition("End of PTRANS section.")[0]
        read = dict(re.findall(r"^(\w+) +: +(.*?) *$", of_hpl, re.MULTILINE))
        read.update((f"PTRANS {name}", sizes) for name, sizes in
                    re.findall(r"^(M|N|MB|NB|P|Q): (.*?) *$", of_ptrans, re.MULTILINE))
        for name, written in self.understood.items():
            check(read.get(name) == written,
                  f"hpcc read {name} as {read.get(name)!r}; the input says {written!r}")
        done = re.search(r"^ *(\d+) tests completed and passed", of_ptrans, re.MULTILINE)
        check(done and int(done[1]) > 0, f"hpcc transposed nothing\n{of_ptrans}")


class Tachyon:
    """A ray tracer; the answer is the image."""

    def prepare(self, folder, long):
        (folder / "scene.dat").write_text(tachyon_scene(long))
        (folder / "flavour").mkdir()

    def command(self, mpi):
        library = LIBRARIES / f"libtachyon-{mpi}.so.0"
        if not library.exists():
            skip(f"no {library.name}: type: sh cmake/bootstrap.sh test")
        # One program; the library it finds decides which MPI it uses.
        return ["/bin/sh", "-c", f'ln -sf {library} flavour/libtachyon.so.0; '
                'LD_LIBRARY_PATH=flavour exec "$@"', "sh",
                need("tachyon-nox"), "scene.dat", "-o", "scene.tga", "-format", "TARGA"]

    def answer(self, run):
        picture = (run.folder / "scene.tga").read_bytes()
        check(len(set(picture)) > 100, "the picture shows next to nothing")
        return picture


APPLICATIONS = {"lammps": Lammps, "hpcc": Hpcc, "tachyon": Tachyon}


def runner():
    path = os.environ.get("RDMALLOC_COMMAND", "")
    check(os.path.isfile(path), "RDMALLOC_COMMAND must name the rdmalloc command")
    return path


def run_job(application, mpi, folder, *, rdmalloc, long):
    own = folder / "run"
    own.mkdir()
    application.prepare(own, long)
    environment = dict(OPEN_MPI, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1",
                       RDMALLOC_WARN="off", RDMALLOC_REPORT=f"{own}/reports/%p.json")
    under = [runner(), "run", "--"] if rdmalloc else []
    command = [need(f"mpirun.{mpi}"), "-np", str(RANKS), *under, *application.command(mpi)]
    # Not Run's own rdmalloc mode: that would apply to mpirun instead of the ranks.
    run = Run(command, own, rdmalloc=False, environment=environment,
              seconds=900 if long else 100).wait()
    run.folder = own.rename(folder / ("with" if rdmalloc else "without"))
    check(run.status == 0, f"status {run.status}\n{show(run.output)}{show(run.errors)}")
    return run


def ranks_of(run, application, mpi):
    """The notes of the ranks, without those of mpirun and its helpers."""
    words = application.command(mpi)
    program = next(pathlib.Path(word).name for word in words
                   if str(word).startswith("/usr/") and "libtachyon" not in str(word))
    found = [note for note in run.processes.values() if note["name"] == program[:15]]
    check(len(found) == RANKS, f"{len(found)} processes are called {program}, not {RANKS}")
    return found


def row(name, run, ranks):
    """Peak memory is the sum of the ranks': what the machine must provide."""
    mib = sum(note["VmHWM"] for note in ranks) / (1 << 20)
    processor = sum(note["user_seconds"] + note["system_seconds"] for note in ranks)
    return (f"| {name:36} | {run.whole['wall_seconds']:7.2f} s | {processor:7.2f} s "
            f"| {mib:8.1f} MiB |")


def compare(name, folder, long):
    """The two rows of the table."""
    kind, mpi = name.split("/")
    rows, answers = [], []
    for rdmalloc in (False, True):
        application = APPLICATIONS[kind]()
        run = run_job(application, mpi, folder, rdmalloc=rdmalloc, long=long)
        answers.append(application.answer(run))
        check(answers[-1], f"{name} gave no answer\n{show(run.output)}")
        if not run.whole or not run.processes:
            skip("no tracing here, hence no table")
        rows.append(row(f"{name}, {'rdmalloc' if rdmalloc else 'libc'}", run,
                        ranks_of(run, application, mpi)))
        if rdmalloc:
            check(len(run.report) >= RANKS, f"{len(run.report)} reports of {RANKS} ranks")
            check_books(run)
    if answers[0] != answers[1]:
        fail(f"{name}: the answers differ\n--- libc\n{show(answers[0])}\n"
             f"--- rdmalloc\n{show(answers[1])}")
    return rows


def applications(folder):
    long = "--long" in sys.argv
    rows = []
    for name in sys.argv[1:]:
        if name != "--long":
            own = folder / name.replace("/", "-")
            own.mkdir()
            rows += compare(name, own, long)
    print(f"| {'application, MPI and malloc':36} |      wall |       CPU | peak, {RANKS} ranks |")
    print(f"|{'-' * 38}|{'-' * 11}|{'-' * 11}|{'-' * 14}|")
    print("\n".join(rows))


test_in_folder(applications)
