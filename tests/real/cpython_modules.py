#!/usr/bin/env python3
"""CPython's own tests, every object from malloc: the outcome of each is the one without rdmalloc.

    cpython_modules.py SECONDS MODULE...

SECONDS: how long each of the runs may last.
"""

import os
import sys
import xml.etree.ElementTree

from side_by_side import check, check_books, fail, need, run_both, skip, test, Run

PYTHON = need("python3.11")


def outcomes(run):
    path = run.folder / "results.xml"
    check(path.exists(), f"no results, status {run.status}: {run.errors[-2000:].decode()}")
    found = {}
    for case in xml.etree.ElementTree.parse(path).iter("testcase"):
        bad = [child.tag for child in case if child.tag in ("failure", "error")]
        # A result of a test in a subclass may come more than once under a name: the worst counts.
        name = case.get("name")
        found[name] = bad[0] if bad else found.get(name, case.get("result"))
    return found


def command(modules):
    # A test that hangs is told by faulthandler where; watch.py ends the run if that does not help.
    return [PYTHON, "-m", "test", "--junit-xml", "results.xml", "--timeout", "300", *modules]


def modules_of(differing):
    return sorted({name.split(".")[1] for name in differing if name.startswith("test.")})


def cpython(folder):
    seconds, modules = int(sys.argv[1]), sys.argv[2:]
    if not os.path.exists("/usr/lib/python3.11/test/test_list.py"):
        skip("CPython's tests are not installed (libpython3.11-testsuite)")
    # PYTHONMALLOC: objects come from malloc one by one, not from pymalloc's arenas.
    options = {"environment": {"PYTHONMALLOC": "malloc"}, "seconds": seconds}
    plain, other = run_both(command(modules), folder, **options)
    before, after = outcomes(plain), outcomes(other)
    print(f"  {len(before)} tests; without {len(bad(before))} fail, with {len(bad(after))}")
    check_books(other)
    new = {name for name in before.keys() | after.keys()
           if (name in bad(after)) != (name in bad(before))
           or after.get(name) != before.get(name)}
    if new and set(modules_of(new)):
        again = repeat(modules_of(new), folder, options)
        new = {name for name in new if again.get(name, after.get(name)) != before.get(name)}
    if new:
        fail("other outcome than without:\n" + "\n".join(
            f"  {name}: {before.get(name)} became {after.get(name)}" for name in sorted(new)))


def bad(results):
    return {name for name, result in results.items() if result in ("failure", "error")}


def repeat(modules, folder, options):
    """Some of these tests depend on the machine's load: what differs is run once more."""
    print(f"  other outcome in {' '.join(modules)}: once more")
    own = folder / "again"
    own.mkdir()
    run = Run(command(modules), own, rdmalloc=True, **options).wait()
    return outcomes(run)


test(cpython)
