#!/usr/bin/env python3
"""Builds the packages of a build, checks their metadata and contents, and runs what it unpacked.

    packages_test.py deb|rpm     the environment: CMAKE, CPACK, BUILD, SOURCE, GENERATOR, CC,
PKG_CONFIG
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.append(sys.path[0] + "/../../support")
from verdict import check, need, test_in_folder

BUILD, SOURCE = os.environ["BUILD"], os.environ["SOURCE"]
PARTS = {"deb": ("rdmalloc", "rdmalloc-dev", "rdmalloc-tools", "rdmalloc-mpi", "rdmalloc-dbgsym"),
         "rpm": ("rdmalloc", "rdmalloc-devel", "rdmalloc-tools", "rdmalloc-mpi", "rdmalloc-debuginfo")}
# What each package must contain, as patterns below usr/.
HOLDS = (("bin/rdmalloc", "lib.*/librdmalloc.so.0", "lib.*/librdmalloc-shm.so.0", "share/man/man1/rdmalloc.1.gz",
          "share/doc/rdmalloc/copyright", "share/doc/rdmalloc/CHANGELOG.md",
          "share/bash-completion/completions/rdmalloc", "share/rdmalloc/modulefiles/rdmalloc/[0-9.]*[.]lua"),
         ("include/rdmalloc/rdmalloc.h", "lib.*/librdmalloc.so", "lib.*/pkgconfig/rdmalloc.pc",
          "lib.*/cmake/rdmalloc/rdmallocConfig.cmake"),
         ("bin/rdmalloc-replay", "share/man/man1/rdmalloc-replay.1.gz", "lib.*/librdmalloc-trace.so"),
         ("lib.*/librdmalloc-mpi.so",),
         ("lib/debug/.build-id/../.*[.]debug",))


def output(*command, **more):
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", **more)
    check(done.returncode == 0, f"{' '.join(map(str, command))}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def pack(generator, folder):
    output(os.environ["CPACK"], "--config", f"{BUILD}/CPackConfig.cmake", "-G", generator, "-B", str(folder),
           "-D", f"CPACK_PACKAGE_DIRECTORY={folder}")
    shutil.rmtree(folder / "_CPack_Packages")
    return sorted(path for path in folder.iterdir() if path.is_file())


def unpack(kind, package, root):
    root.mkdir(parents=True, exist_ok=True)
    if kind == "deb":
        output("dpkg-deb", "-x", str(package), str(root))
    else:
        output("sh", "-c", 'rpm2cpio "$1" | (cd "$2" && cpio -idm --quiet)', "sh", str(package), str(root))
    return sorted(str(path.relative_to(root / "usr")) for path in root.rglob("*") if not path.is_dir() or path.is_symlink())


def is_elf(path):
    return path.is_file() and not path.is_symlink() and path.open("rb").read(4) == b"\x7fELF"


def newest_libc(path):
    """The newest version of glibc's symbols that the file needs, as numbers."""
    found = re.findall(r"GLIBC_(\d+)\.(\d+)", output("objdump", "-T", str(path)))
    return max(((int(a), int(b)) for a, b in found), default=(0, 0))


def look_at_files(kind, roots):
    parts = PARTS[kind]
    files = {part: roots[part][1] for part in parts}
    for part, patterns in zip(parts, HOLDS):
        for pattern in patterns:
            check(any(re.fullmatch(pattern, name) for name in files[part]), f"{part} has no {pattern}: {files[part]}")
    owners = {}
    for part in parts:
        for name in files[part]:
            check(name not in owners, f"{name} is in {part} and in {owners.get(name)}")
            owners[name] = part
    print("- each file is in one package")
    debug = roots[parts[4]][0] / "usr/lib/debug/.build-id"
    elves = [root / "usr" / name for root, names in (roots[part] for part in parts[:4]) for name in names
             if is_elf(root / "usr" / name)]
    check(len(elves) >= 8, f"only {len(elves)} programs and libraries")
    for path in elves:
        shown = output("readelf", "-SnW", str(path))
        check(not re.search(r"\.(symtab|debug_info)\b", shown), f"{path} is not stripped")
        build_id = re.search(r"Build ID: (..)(\S+)", shown)
        symbols = debug / build_id[1] / f"{build_id[2]}.debug"
        check(symbols.exists() and "debug_info" in output("readelf", "-SW", str(symbols)),
              f"{path} has no debug information in {symbols}")
        check(not re.search(r"R(UN)?PATH.*\[/", output("readelf", "-d", str(path))), f"{path} has an absolute run path")
    print(f"- {len(elves)} programs and libraries are stripped, and their debug information is found by build id")
    for part in parts[:4]:
        for place in (BUILD, SOURCE):
            found = subprocess.run(("grep", "-rlF", place, str(roots[part][0])), capture_output=True, text=True)
            check(found.returncode == 1, f"{part} names {place} in {found.stdout}")
    print("- no path of the build is named")
    main = [path for path in elves if path.name.startswith(("librdmalloc.so", "rdmalloc"))]
    bound = max(newest_libc(path) for path in main)
    for path in elves:
        check(newest_libc(path) <= bound, f"{path} needs a newer libc than the package that it depends on")


def look_at_control(packages, version):
    for part, package in packages.items():
        fields = dict(re.findall(r"^(\S+): (.*)$", output("dpkg-deb", "-f", str(package)), re.M))
        check(fields["Package"] == part and fields["Version"] == version, f"{package} says {fields}")
        check(fields["Architecture"] == output("dpkg", "--print-architecture").strip(), f"{package}: {fields}")
        depends = fields.get("Depends", "")
        if part == "rdmalloc":
            for wanted in ("libc6 (>= ", "libhwloc15"):
                check(wanted in depends, f"rdmalloc depends on {depends}, and not on {wanted}")
            check("rdmalloc" not in depends and "ibverbs" not in depends and "jemalloc" not in depends,
                  f"rdmalloc depends on {depends}")
        else:
            check(f"rdmalloc (= {version})" in depends, f"{part} depends on {depends}")
        check("openmpi" not in depends, f"{part} depends on {depends}")
        check(1 < len(fields["Description"]) <= 80, f"{part}: a summary is one short line")
        for script, command in scripts_of(package):
            check(command == "ldconfig", f"{part} has a {script} that runs {command}")
        # Whoever compiles has dpkg-dev, and with it the judge of the format.
        changelog = f"dpkg-deb --fsys-tarfile {package} | tar -xO ./usr/share/doc/{part}/changelog.gz | gunzip"
        news = output("sh", "-c", f"{changelog} | dpkg-parsechangelog -l - 2>&1")
        check(f"Version: {version}\n" in news and "warning: " not in news and "CHANGELOG.md" in news,
              f"{part} has as its changelog {news}")
        owners = set(line.split()[1] for line in output("dpkg-deb", "-c", str(package)).splitlines())
        check(owners == {"root/root"}, f"{part} has files of {owners}")
    print("- names, versions, dependencies, scripts and owners are as they should be")


def scripts_of(package):
    """(name, its only command) of each maintainer script."""
    with tempfile.TemporaryDirectory() as folder:
        output("dpkg-deb", "-e", str(package), f"{folder}/control")
        for script in sorted(pathlib.Path(folder, "control").glob("p*[mt]*")):
            lines = [line.strip() for line in script.read_text().splitlines() if line.strip() and line[0] != "#"]
            yield script.name, ", ".join(line for line in lines if not re.match(r"set -e|if |fi$|else$|then$", line))


def look_at_headers(packages, version):
    for part, package in packages.items():
        query = lambda what: output("rpm", "-qp", *what.split(), str(package))
        check(query("--qf %{NAME}=%{VERSION}") == f"{part}={version}", f"{package} says another name")
        requires = query("--requires")
        check(part == "rdmalloc" or f"rdmalloc = {version}" in requires, f"{part} requires {requires}")
        for foreign in ("mpi", "open-pal", "ibverbs", "jemalloc"):
            check(foreign not in requires, f"{part} requires {requires}")
        scripts = re.findall(r"^(?!post(?:un)?install scriptlet).*$", query("--scripts"), re.M)
        check(set(scripts) <= {"/sbin/ldconfig", ""}, f"{part} has scripts that run {scripts}")
        check("CHANGELOG.md" in query("--changelog"), f"{part} has as its changelog {query('--changelog')}")
        check(query("--qf %{LICENSE}") == "BSD-3-Clause", f"{part}: another licence")
    print("- names, versions, requirements and scripts are as they should be")


def install_and_remove(packages, root):
    """Installs and removes them with rpm in a separate root: only rpm's database remains."""
    if os.geteuid() != 0:
        print("- not installed by rpm: that needs root")
        return
    books = root / "var/lib/rpm"
    books.mkdir(parents=True)
    rpm = ("rpm", "--root", str(root), "--dbpath", "/var/lib/rpm")
    output(*rpm, "-i", "--nodeps", *map(str, packages.values()))
    check((root / "usr/bin/rdmalloc").exists(), "rpm installed no command")
    output(*rpm, "-V", "--nodeps", *packages)
    output(*rpm, "-e", "--nodeps", *packages)
    # Folders that every distribution has may stay.
    left = [path for path in root.rglob("*rdmalloc*")]
    check(not left, f"left by rpm -e: {left}")
    left = [path for path in (root / "usr").rglob("*") if not path.is_dir()]
    check(not left, f"left by rpm -e: {left}")
    print("- rpm installs, verifies and removes them, and nothing is left")


def use(root):
    command = root / "usr/bin/rdmalloc"
    report = root / "report"
    output(str(command), "run", "--report", str(report), "--", "python3", "-c", "pass")
    check('"held_bytes": ' in report.read_text(), "rdmalloc run wrote no report")
    print("- rdmalloc run works from where they are unpacked")
    here = pathlib.Path(__file__).parent
    done = subprocess.run(("sh", str(here / "install_and_use.sh")),
                          env={**os.environ, "PREFIX": str(root / "usr")}, check=False)
    check(done.returncode == 0, "find_package and pkg-config from where they are unpacked")


def check_packages(folder):
    kind = sys.argv[1]
    need(*(("dpkg-deb", "dpkg-shlibdeps") if kind == "deb" else ("rpmbuild", "rpm2cpio", "cpio")))
    version = re.search(r"VERSION (\S+)", pathlib.Path(SOURCE, "CMakeLists.txt").read_text().split("project(")[1])[1]
    (folder / "made").mkdir()
    made = pack(kind.upper(), folder / "made")
    separator = "_" if kind == "deb" else "-"
    packages = {part: next((path for path in made if path.name.startswith(f"{part}{separator}{version}")), None)
                for part in PARTS[kind]}
    check(all(packages.values()) and len(made) == len(packages), f"made were {[path.name for path in made]}")
    roots = {part: (folder / part, unpack(kind, package, folder / part)) for part, package in packages.items()}
    look_at_files(kind, roots)
    if kind == "deb":
        look_at_control(packages, version)
        for part in PARTS[kind][:4]:
            unpack(kind, packages[part], folder / "root")
        use(folder / "root")
    else:
        look_at_headers(packages, version)
        install_and_remove(packages, folder / "installed")


test_in_folder(check_packages)
