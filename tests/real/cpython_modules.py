#!/usr/bin/env python3
"""CPython's own tests with every object from malloc: the outcomes match those without rdmalloc.

    cpython_modules.py SECONDS MODULE...

SECONDS: the time limit of each run.
"""

import os
import sys
import xml.etree.ElementTree

from side_by_side import Run, check_books, run_both
from verdict import check, fail, need, skip, test_in_folder

PYTHON = need("python3.11")


def outcomes(run):
    path = run.folder / "results.xml"
    check(path.exists(), f"no results, status {run.status}: {run.errors[-2000:].decode()}")
    found = {}
    for case in xml.etree.ElementTree.parse(path).iter("testcase"):
        bad = [child.tag for child in case if child.tag in ("failure", "error")]
        # A subclass may repeat a test's name: the worst result counts.
        name = case.get("name")
        found[name] = bad[0] if bad else found.get(name, case.get("result"))
    return found


def command(modules):
    # faulthandler tells a hanging test where it hangs; if that does not help, watch.py ends the
    # run.
    return [PYTHON, "-m", "test", "--junit-xml", "results.xml", "--timeout", "300", *modules]


def modules_of(differing):
    return sorted({name.split(".")[1] for name in differing if name.startswith("test.")})


def cpython(folder):
    seconds, modules = int(sys.argv[1]), sys.argv[2:]
    if not os.path.exists("/usr/lib/python3.11/test/test_list.py"):
        skip("CPython's tests are not installed (libpython3.11-testsuite)")
    # PYTHONMALLOC: each object comes from malloc, not from pymalloc's arenas.
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
    """Some of these tests depend on the machine's load, so differing ones are run once more."""
    print(f"  other outcome in {' '.join(modules)}: once more")
    own = folder / "again"
    own.mkdir()
    run = Run(command(modules), own, rdmalloc=True, **options).wait()
    return outcomes(run)


test_in_folder(cpython)
