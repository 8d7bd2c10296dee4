#!/usr/bin/env python3
"""Two programs as the distribution ships them, without and with rdmalloc, side by side, and what
the kernel says about it.

    demo.py BUILD_FOLDER
"""

import contextlib
import io
import os
import pathlib
import shutil
import statistics
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "real"))
sys.dont_write_bytecode = True

from side_by_side import Run, check_books, check_same  # noqa: E402
from verdict import Failed  # noqa: E402

TIMES = 3  # each program runs so often each way; the table shows the medians

SQL = """
CREATE TABLE part (id INTEGER PRIMARY KEY, name TEXT, weight INTEGER);
CREATE TABLE sale (id INTEGER PRIMARY KEY, part INTEGER, amount INTEGER, note TEXT);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30000)
INSERT INTO part SELECT i, printf('part %08d', i * 7919 % 1000003), i * 31 % 977 FROM n;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000000)
INSERT INTO sale SELECT i, 1 + i * 104729 % 30000, i * 17 % 1009,
  printf('%0*d', 20 + i % 170, i) FROM n;
CREATE INDEX sale_part ON sale (part, amount);
SELECT count(*), sum(amount), sum(length(note)) FROM sale;
SELECT name, sum(amount * weight) AS total FROM sale JOIN part ON part.id = part
  GROUP BY part ORDER BY total DESC, name LIMIT 5;
SELECT sum(r) FROM (SELECT rank() OVER (PARTITION BY amount % 100 ORDER BY id) AS r FROM sale);
PRAGMA integrity_check;
"""

CXX = """
#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <regex>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>
template <int N> struct Level {
  std::map<std::string, std::variant<int, std::string, std::vector<Level<N - 1>>>> children;
  std::unordered_map<int, std::function<int(Level<N - 1>&)>> visit;
  int depth() { return 1 + Level<N - 1>{}.depth(); }
};
template <> struct Level<0> { int depth() { return 1; } };
int main() {
  std::vector<std::string> words{"the", "quick", "brown", "fox"};
  std::regex vowels("[aeiou]+");
  std::sort(words.begin(), words.end());
  for (const auto& word : words) std::cout << std::regex_replace(word, vowels, "*") << '\\n';
  return Level<8>{}.depth();
}
"""


class Terminal:
    """Bold and faint where that can be seen, plain text where not."""

    def __init__(self):
        rich = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        self.codes = ("\033[1m", "\033[2m", "\033[0m") if rich else ("", "", "")

    def bold(self, text):
        return f"{self.codes[0]}{text}{self.codes[2]}"

    def faint(self, text):
        return f"{self.codes[1]}{text}{self.codes[2]}"


OUT = Terminal()


def amount(count):
    if count == 0:
        return "0"
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"


def seconds(value):
    return f"{value:.2f} s"


def number(value):
    return f"{int(value):,}"


def run_once(command, folder, files, rdmalloc):
    own = folder / "run"
    shutil.rmtree(own, ignore_errors=True)
    own.mkdir()
    for name, text in files.items():
        (own / name).write_text(text)
    run = Run(command, own, rdmalloc=rdmalloc, seconds=120).wait()
    if run.status != 0:
        raise Failed(f"{command[0]} ended with {run.status}: {run.errors.decode()[-500:]}")
    if not run.processes:
        raise Failed("this system allows no ptrace: the demo cannot see a process's end")
    run.main = max(run.processes.values(), key=lambda note: note["VmHWM"])
    product = own / "product"
    run.output += product.read_bytes() if product.exists() else b""
    return run


def percent(without, with_it):
    return f"{100 * (with_it - without) / without:+.0f} %" if without else ""


def table(runs):
    """Rows of (what, without, with, remark), the medians over the runs."""
    def figure(rdmalloc, get):
        return statistics.median(get(run) for run in runs[rdmalloc])

    def row(what, get, form, compare=False):
        one, two = figure(False, get), figure(True, get)
        return what, form(one), form(two), percent(one, two) if compare else ""

    cpu = ("user_seconds", "system_seconds")
    return [
        row("time, wall clock", lambda r: r.main["wall_seconds"], seconds, True),
        row("time, user + system", lambda r: sum(r.main[key] for key in cpu), seconds, True),
        row("page faults, minor", lambda r: r.main["minor_faults"], number, True),
        row("page faults, major", lambda r: r.main["major_faults"], number),
        row("resident, most (VmHWM)", lambda r: r.main["VmHWM"], amount, True),
        row("resident at exit (VmRSS)", lambda r: r.main["VmRSS"], amount),
        row("locked at exit (VmLck)", lambda r: r.main["VmLck"], amount),
    ]


def show(title, note, runs):
    last = runs[True][-1]
    process = last.main
    report = last.report[process["pid"]]
    print(OUT.bold(title))
    print(OUT.faint(f"   {note}"))
    print()
    print(OUT.faint(f"   {'':30}{'without':>14}{'with rdmalloc':>18}"))
    for what, without, with_it, remark in table(runs):
        print(f"   {what:30}{without:>14}{with_it:>18}{remark:>10}".rstrip())
    print()
    print(OUT.faint(f"   {'rdmalloc reports':18}"
                    f"{'peak live':>12}{'held':>12}{'pinned':>12}{'overflow':>12}{'sparse':>10}"
                    f"{'regions':>10}"))
    print(f"   {process['name']:18}{amount(report['peak_live_bytes']):>12}"
          f"{amount(report['held_bytes']):>12}{amount(report['pinned_bytes']):>12}"
          f"{amount(report['overflow_bytes']):>12}{amount(report['sparse_bytes']):>10}"
          f"{report['regions']:>10}")
    print()
    # measure() has compared them, for every process of every run.
    print(OUT.bold(f"   the kernel confirms: VmLck {process['VmLck']:,} = pinned "
                   f"{report['pinned_bytes']:,} bytes"))
    others = len(last.report) - 1
    if others:
        print(f"   and so it does for the {others} other processes of this run")
    print("   same result without and with: yes")
    print()


def measure(command, files):
    """The runs without and with, in turn; Failed when results differ or the books do not agree."""
    runs = {False: [], True: []}
    with tempfile.TemporaryDirectory(prefix="rdmalloc-demo-") as folder:
        for _ in range(TIMES):
            for rdmalloc in (False, True):
                runs[rdmalloc].append(run_once(command, pathlib.Path(folder), files, rdmalloc))
    for run in runs[True]:
        with contextlib.redirect_stdout(io.StringIO()):  # the tests' own words
            check_books(run)
        check_same(runs[False][0], run)
    return runs


def programs():
    yield ("1. sqlite3: a database in memory",
           "a million rows, an index, joins; most of its memory is pages of 4,368 bytes,\n   "
           "which size classes (also jemalloc's and mimalloc's own) round up to 5,120",
           ["/usr/bin/sqlite3", "-batch", ":memory:", ".read script.sql"], {"script.sql": SQL})
    yield ("2. g++: a compilation",
           "its largest process, cc1plus; most of it is gcc's own collector's, without malloc",
           ["/usr/bin/g++", "-std=c++20", "-O2", "-c", "-o", "product", "program.cpp"],
           {"program.cpp": CXX})


def main():
    build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build").resolve()
    os.environ["RDMALLOC_LIBRARY"] = str(build / "lib" / "librdmalloc.so")
    os.environ["RDMALLOC_COMMAND"] = str(build / "bin" / "rdmalloc")
    print(OUT.bold("rdmalloc under two programs as the distribution ships them"))
    print(OUT.faint(f"medians of {TIMES} runs; /proc/PID/status as of the process's last moment"))
    print()
    for title, note, command, files in programs():
        show(title, note, measure(command, files))


if __name__ == "__main__":
    try:
        main()
    except Failed as why:
        sys.exit(f"the demo failed: {why}")
