#!/usr/bin/env python3
"""Studies of real programs: what never returning memory costs each, and which cap loses nothing.

    run.py RDMALLOC FOLDER [--short] [NAME ...]

Writes FOLDER/NAME (a study each) and prints a row of Markdown for each. --short: that it works, in
seconds; its figures mean nothing. 77 when what a named program needs is not installed, 1 when a
program misses its bars.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
PYTHON = "/usr/bin/python3"
MIB = 1 << 20


def compiler(folder, short):
    """One file of C++ that instantiates much, optimized."""
    count = 2 if short else 24
    body = "\n".join(f"""struct Key{i} {{ std::string name; int number; auto operator<=>(const Key{i}&) const = default; }};
int use{i}(std::map<Key{i}, std::vector<std::string>>& all, const std::string& text) {{
  static const std::regex words("a{i}|(b+)c");
  for (std::sregex_iterator at(text.begin(), text.end(), words), end; at != end; ++at)
    all[Key{i}{{at->str(), {i}}}].push_back(text);
  return static_cast<int>(std::ranges::count_if(all, [](auto& one) {{ return one.second.size() > {i}; }}));
}}""" for i in range(count))
    (folder / "many.cpp").write_text(f"#include <bits/stdc++.h>\n{body}\n")
    return ["g++", "-std=c++20", "-O1", "-c", str(folder / "many.cpp"), "-o", "/dev/null"]


def interpreter(_folder, short):
    return [PYTHON, str(HERE / "interpreter.py"), "1" if short else "6"]


def database(folder, short):
    text = (HERE / "database.sql").read_text().replace("@ROWS@", "20000" if short else "300000")
    (folder / "database.sql").write_text(text)
    return ["sqlite3", "-batch", ":memory:", f".read {folder / 'database.sql'}"]


def mpi(folder, short):
    (folder / "melt.in").write_text((HERE / "melt.in").read_text()
                                    .replace("@SIDE@", "10" if short else "24")
                                    .replace("@STEPS@", "20" if short else "100"))
    return ["mpirun.openmpi", "-np", "2", "--allow-run-as-root", "--oversubscribe",
            "lmp", "-in", str(folder / "melt.in"), "-log", "none"]


def node(_folder, short):
    return ["node", str(HERE / "node.js"), "10" if short else "150"]


def growth(_folder, short):
    return [PYTHON, str(HERE / "growth.py"), "24" if short else "384"]


def spike(_folder, short):
    return [PYTHON, str(HERE / "spike.py"), "24" if short else "384", "0.2" if short else "1.5"]


# What it stands for, how to make its command, the programs it needs.
EXAMPLES = {
    "compiler": ("g++ -c", compiler, ["g++"]),
    "interpreter": ("python3", interpreter, [PYTHON]),
    "database": ("sqlite3", database, ["sqlite3"]),
    "mpi": ("LAMMPS, 2 ranks", mpi, ["mpirun.openmpi", "lmp"]),
    "node": ("node.js", node, ["node"]),
    "growth": ("bad: blocks that grow", growth, [PYTHON]),
    "spike": ("bad: a short peak", spike, [PYTHON]),
}

# Where the bad case is to cost nothing any more: the most of a row of the study's table, against glibc.
BARS = {"growth": {"peak_against_glibc": 1.10, "time_against_glibc": 1.05}}


def study(rdmalloc, folder, name, short):
    """Carries it out; the document."""
    work = folder / "inputs" / name
    work.mkdir(parents=True, exist_ok=True)
    command = EXAMPLES[name][1](work, short)
    options = ["--repeats", "1", "--caps", "50%", "--allocators", "glibc,rdmalloc"] if short else []
    done = subprocess.run([rdmalloc, "study", "--quiet", "--force", "-o", str(folder / name), *options, "--",
                           *command], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=3600, check=False)
    if done.returncode:
        sys.exit(f"{name}: rdmalloc study ended with {done.returncode}")
    return json.loads((folder / name / "study.json").read_text())


def rows_of(document):
    return {row["configuration"]: row for row in document["summary"]["table"]}


def keeps_bars(name, document):
    """Says on standard error how each bar was kept."""
    ours, met = rows_of(document)["rdmalloc"], True
    for key, most in BARS.get(name, {}).items():
        met = met and ours[key] <= most
        print(f"{name}: {key} {ours[key]:.2f}, bar {most:.2f}: {'met' if ours[key] <= most else 'MISSED'}", file=sys.stderr)
    return met


def row_of(name, document):
    rows = rows_of(document)
    glibc, ours = rows["glibc"], rows["rdmalloc"]
    cap = document["summary"]["smallest_cap_without_loss_bytes"]
    mean = ours["mean_resident_bytes"] / glibc["mean_resident_bytes"]
    ratio = ours["held_to_live"]
    return " | ".join(["", EXAMPLES[name][0], f"{glibc['seconds']:.2f} s", f"{glibc['peak_resident_bytes'] / MIB:.0f} MiB",
                       f"{ours['peak_against_glibc']:.2f}", f"{mean:.2f}", f"{ours['time_against_glibc']:.2f}",
                       f"{ratio:.2f}" if ratio else "–", f"{cap / MIB:.0f} MiB" if cap else "none", ""]).strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rdmalloc")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(EXAMPLES)}; all if none")
    parser.add_argument("--short", action="store_true")
    options = parser.parse_intermixed_args()
    unknown = set(options.names) - set(EXAMPLES)
    if unknown:
        parser.error(f"no such example: {', '.join(sorted(unknown))}")
    print("| program | glibc | glibc's peak | peak | mean | time | held / live | smallest cap without loss |")
    print("|---|---|---|---|---|---|---|---|")
    met = True
    for name in options.names or EXAMPLES:
        missing = [program for program in EXAMPLES[name][2] if not shutil.which(program)]
        if missing:
            print(f"SKIPPED: {name}: not installed: {', '.join(missing)}", file=sys.stderr)
            if options.names:
                sys.exit(77)
            continue
        folder = options.folder.resolve()
        document = study(os.path.abspath(options.rdmalloc), folder, name, options.short)
        print(row_of(name, document), flush=True)
        if not options.short:
            met = keeps_bars(name, document) and met
    if not met:
        sys.exit(1)


if __name__ == "__main__":
    main()
