#!/usr/bin/env python3
"""The files that sites use to install rdmalloc agree with the tree: versions, files, options,
flags.

    sites_test.py recipes|modules|slurm     the environment: BUILD, SOURCE, COMMAND
"""

import ast
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.append(sys.path[0] + "/../../support")
from verdict import SKIPPED, check, test

SOURCE, BUILD = pathlib.Path(os.environ["SOURCE"]), pathlib.Path(os.environ["BUILD"])
PACKAGING = SOURCE / "cmake/packaging"
VERSION = re.search(r"project\(rdmalloc VERSION (\S+)", (SOURCE / "CMakeLists.txt").read_text())[1]


def cmake_text():
    folders = [SOURCE / name for name in ("allocator", "regcache", "cmake", "tests", "bench")]
    files = [SOURCE / "CMakeLists.txt"] + [path for folder in folders for pattern in ("CMakeLists.txt", "*.cmake")
                                           for path in folder.rglob(pattern)]
    return "\n".join(path.read_text() for path in files)


def check_options(what, text):
    known = cmake_text()
    names = set(re.findall(r"(?:\b|-D)((?:RDMALLOC|JEMALLOC)_[A-Z_]+)\b", text)) - {"RDMALLOC_ROOT"}
    check(names, f"{what} sets no option")
    for name in names:
        check(re.search(rf"(option|set|find_path|find_library)\({name}\b", known), f"{what} sets {name}, which no CMake file knows")


def recipes():
    check(re.fullmatch(r"\d+\.\d+\.\d+", VERSION), f"{VERSION} is no version of SemVer's")
    changes = (SOURCE / "CHANGELOG.md").read_text()
    check(re.search(rf"^## {re.escape(VERSION)}\b", changes, re.M), f"CHANGELOG.md says nothing of {VERSION}")
    headings = re.findall(r"^## (\S+?),? ", changes, re.M)
    check(all(re.fullmatch(r"\d+\.\d+\.\d+", heading) for heading in headings), f"CHANGELOG.md has {headings}")

    recipe = (PACKAGING / "spack/package.py").read_text()
    tree = ast.parse(recipe)
    check([node.name for node in tree.body if isinstance(node, ast.ClassDef)] == ["Rdmalloc"], "Spack wants a class Rdmalloc")
    check(f'version("{VERSION}")' in recipe, f"Spack's recipe has no version {VERSION}")
    check_options("Spack's recipe", recipe)

    files = list((PACKAGING / "easybuild").glob("*.eb"))
    check(len(files) == 1, f"EasyBuild's recipes are {files}")
    values = {}
    exec(compile(files[0].read_text(), str(files[0]), "exec"), values)  # recipes are Python
    chain = values["toolchain"]
    check(values["name"] == "rdmalloc" and values["version"] == VERSION, "EasyBuild's recipe has another name or version")
    check(files[0].name == f"rdmalloc-{VERSION}-{chain['name']}-{chain['version']}.eb", f"EasyBuild finds no {files[0].name}")
    check_options("EasyBuild's recipe", values["configopts"])
    values["configopts"] % {"builddir": "/build"}
    for name in values["sanity_check_paths"]["files"]:
        check((SOURCE / name).exists() or (BUILD / name).exists(), f"EasyBuild's recipe looks for {name}")
    check(any(f"rdmalloc-{VERSION}.tar.gz" == source % {"version": VERSION} for source in values["sources"]),
          "EasyBuild's recipe has another tarball than the target dist")

    image = (PACKAGING / "Containerfile").read_text()
    presets = (SOURCE / "CMakePresets.json").read_text()
    for name in set(re.findall(r"--preset (\S+)", image)):
        check(f'"name": "{name}"' in presets, f"Containerfile: there is no preset {name}")
    for name in re.findall(r"cmake/\S+\.sh", image):
        check((SOURCE / name).exists(), f"Containerfile: there is no {name}")
    print("- versions, options and files are the tree's")


def modules():
    with tempfile.TemporaryDirectory() as name:
        prefix = pathlib.Path(name).resolve()
        place = prefix / "share/rdmalloc/modulefiles/rdmalloc"
        place.mkdir(parents=True)
        shutil.copy(BUILD / "generated/modulefile.tcl", place / VERSION)
        shutil.copy(BUILD / "generated/modulefile.lua", place / f"{VERSION}.lua")
        ran = 0
        ran += run_module("tclsh", """
          set ModulesCurrentModulefile [lindex $argv 0]
          proc module-whatis {text} {}
          proc conflict {name} {}
          proc prepend-path {name value} { puts "$name=$value" }
          source $ModulesCurrentModulefile
        """, place / VERSION, prefix)
        lua = next((name for name in ("lua5.4", "lua5.3", "lua") if shutil.which(name)), "lua")
        ran += run_module(lua, """
          function help() end  function whatis() end  function conflict() end
          function myFileName() return arg[1] end
          function pathJoin(a, b) return a .. "/" .. b end
          function prepend_path(name, value) print(name .. "=" .. value) end
          function setenv(name, value) print(name .. "=" .. value) end
          dofile(arg[1])
        """, place / f"{VERSION}.lua", prefix)
        if ran == 0:
            sys.exit(SKIPPED)


def run_module(program, script, module, prefix):
    if shutil.which(program) is None:
        print(f"SKIPPED: no {program}: type: sh cmake/bootstrap.sh test")
        return 0
    with tempfile.NamedTemporaryFile("w", suffix=".script") as file:
        file.write(script)
        file.flush()
        done = subprocess.run((program, file.name, str(module)), capture_output=True, text=True, check=False)
    check(done.returncode == 0, f"{module.name}: {done.stderr}")
    found = dict(line.split("=", 1) for line in done.stdout.splitlines())
    wanted = {"PATH": f"{prefix}/bin", "MANPATH": f"{prefix}/share/man", "CMAKE_PREFIX_PATH": str(prefix)}
    for name, value in wanted.items():
        check(found.get(name) == value, f"{module.name}: {name} is {found.get(name)}, expected was {value}")
    check(found["PKG_CONFIG_PATH"].startswith(str(prefix)), f"{module.name}: {found}")
    print(f"- {module.name} sets the paths of the prefix that it lies below ({program})")
    return 1


# Stands in for srun: runs the command after its options once, as the first task.
SRUN = '#!/bin/sh\nexport SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_NTASKS=1 SLURM_TASKS_PER_NODE=1\nexec "$@"\n'


def slurm():
    job = "4711"
    ledger = pathlib.Path(f"/dev/shm/rdmalloc-job-{job}")
    check(not ledger.exists(), f"{ledger} is there already")
    environment = {"PATH": os.environ["PATH"], "SLURM_JOB_ID": job, "SLURM_JOBID": job}
    prolog = str(PACKAGING / "slurm/task_prolog.sh")
    said = subprocess.run(("sh", prolog), env={**environment, "SLURM_MEM_PER_NODE": "1000"}, capture_output=True,
                          text=True, check=True).stdout.splitlines()
    check(said == ["export RDMALLOC_LEDGER=/dev/shm/rdmalloc-job-%j", "export RDMALLOC_NODE_CAP=900M"], f"the prolog says {said}")
    outside = subprocess.run(("sh", prolog), env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, check=True)
    check(outside.stdout == "", "the prolog says something outside a job")
    environment.update(line.removeprefix("export ").split("=", 1) for line in said)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "srun").write_text(SRUN)
        (folder / "srun").chmod(0o755)
        (folder / "rdmalloc").symlink_to(os.environ["COMMAND"])
        environment["PATH"] = f"{folder}:{environment['PATH']}"
        done = subprocess.run(("sh", str(PACKAGING / "slurm/job.sbatch"), "python3", "-c", "pass"), env=environment,
                              cwd=folder, capture_output=True, text=True, check=False)
        check(done.returncode == 0, f"the job ends with {done.returncode}: {done.stderr}")
        reports = list(folder.glob(f"reports/{job}/*-0.json"))
        check(len(reports) == 1, f"the job leaves {list(folder.rglob('*.json'))}: {done.stderr}")
        check(ledger.exists(), f"the job keeps no ledger in {ledger}")
    subprocess.run(("sh", str(PACKAGING / "slurm/epilog.sh")), env=environment, check=True)
    check(not ledger.exists(), "the epilog leaves the job's ledger")
    print("- the prolog's variables, the job's flags and the epilog do what they say")


test({"recipes": recipes, "modules": modules, "slurm": slurm}[sys.argv[1]])
