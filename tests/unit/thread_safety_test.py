#!/usr/bin/env python3
"""Runs clang's thread safety analysis (allocator/thread_safety.h) on every source of the build that
can see a Mutex: no guarded member is read without its lock, and no function takes two locks in the
wrong order. Skipped (77) without clang++.

usage: thread_safety_test.py SOURCE_FOLDER BUILD_FOLDER
"""
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

FOLDERS = ("allocator/", "regcache/")
# Disables all other warnings, because the sources are written for gcc.
CHECKS = ["-fsyntax-only", "-Wno-everything", "-Werror=thread-safety", "-Werror=thread-safety-beta"]

MOST_AT_ONCE = 30

SETTING = """
#include "allocator/pages/depot.h"
#include "allocator/pages/window.h"
#include "regcache/foreign/policy.h"
using namespace rdmalloc;
struct Owner {
  Mutex& mutex() RETURN_CAPABILITY(growth_lock) { return mutex_; }
  Mutex mutex_{Rank::kGrowth};
  int member GUARDED_BY(growth_lock) = 0;
};
"""
# Code that must be refused, with part of the message ...
PLANTED = [
    ("int read(Owner& owner) { return owner.member; }",
     "reading variable 'member' requires holding lock 'growth_lock'"),
    ("void write(Owner& owner) { owner.member = 1; }",
     "writing variable 'member' requires holding lock 'growth_lock'"),
    ("void* carve(Window& window) { return window.carve(4096); }",
     "calling function 'carve' requires holding lock 'growth_lock'"),
    ("size_t runs(Depot& depot) { return depot.free().runs(); }",
     "calling function 'free' requires holding lock 'depot_lock'"),
    ("bool twice(Depot& depot) { depot.lock(); bool has = depot.has(1, 1); depot.unlock(); return has; }",
     "cannot call function 'has' while lock 'depot_lock' is held"),
    ("bool end(CachePolicy& policy, CacheEntry& entry) { return policy.claim(entry); }",
     "calling function 'claim' requires holding lock 'cache_lock'"),
    ("void keep(Owner& owner) { owner.mutex().lock(); }",
     "is still held at the end of function"),
    ("void turn(Owner& owner, Depot& depot) { depot.lock(); { Locked hold(owner.mutex()); } depot.unlock(); }",
     "'growth_lock' must be acquired before 'depot_lock'"),
]
# ... and code that must be accepted.
PERMITTED = [
    "int read(Owner& owner) { Locked hold(owner.mutex()); return owner.member; }",
    "void* carve(Owner& owner, Window& window) { Locked hold(owner.mutex()); return window.carve(4096); }",
    "size_t runs(Depot& depot) { depot.lock(); size_t n = depot.free().runs(); depot.unlock(); return n; }",
    "void order(Owner& owner, Depot& depot) { Locked hold(owner.mutex()); depot.lock(); depot.unlock(); }",
]


def included_by(root, sources):
    """The sources that see a Mutex, directly or indirectly."""
    texts = {}

    def sees(path, above=()):
        if path == "allocator/mutex.h":
            return True
        if path not in texts:
            file = root / path
            texts[path] = re.findall(r'#include "([^"]+)"', file.read_text()) if file.exists() else []
        return any(sees(name, above + (path,)) for name in texts[path] if name not in above)

    return [source for source in sources if sees(source)]


def commands(root, build):
    """The flags of each source of the product, from its first build rule."""
    found = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        path = os.path.relpath(os.path.join(entry["directory"], entry["file"]), root)
        if not path.startswith(FOLDERS) or not path.endswith(".cpp") or path in found:
            continue
        words = shlex.split(entry["command"])
        kept = [word for word in words if re.match(r"-(I.|D|U|std=|fno-exceptions|fno-rtti)", word)]
        for i, word in enumerate(words):
            if word in ("-isystem", "-I"):
                kept += words[i:i + 2]
        found[path] = kept
    return found


def analyse(root, paths, flags):
    """All of them as one source, so that what they include is read once."""
    text = "".join(f'#include "{root / path}"\n' for path in paths)
    done = subprocess.run(["clang++", *CHECKS, *flags, "-x", "c++", "-"], cwd=root, input=text,
                          capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


def refused(root, batch):
    """What is said of those of a batch that are refused. Sources that clang does not take together
    may be sound one by one."""
    flags, paths = batch
    if analyse(root, paths, flags)[0] == 0:
        return []
    alone = [analyse(root, [path], flags) for path in paths]
    return [said for status, said in alone if status != 0]


def batches(known, sources):
    """Of one folder each: those have few names twice."""
    alike = {}
    for path in sources:
        alike.setdefault((tuple(known[path]), os.path.dirname(path)), []).append(path)
    return [(flags, paths[i:i + MOST_AT_ONCE]) for (flags, _), paths in alike.items()
            for i in range(0, len(paths), MOST_AT_ONCE)]


def check_itself(root):
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "planted.cpp"
        for code, sentence in PLANTED + [(code, None) for code in PERMITTED]:
            file.write_text(SETTING + code + "\n")
            status, said = analyse(root, [file], ["-std=c++20", "-I.", "-Iinclude"])
            if sentence is None and status != 0:
                wrong.append(f"refused: {code}\n{said}")
            elif sentence is not None and (status == 0 or sentence not in said):
                wrong.append(f"not refused with \"{sentence}\": {code}\n{said}")
    return wrong


def unguarding(root):
    """A Mutex that clang does not know about guards nothing."""
    return [f"{path.relative_to(root)}: a Mutex, and nothing GUARDED_BY it"
            for folder in FOLDERS for path in sorted((root / folder).rglob("*.h"))
            if re.search(r"^\s*Mutex \w+_\b", text := path.read_text(), re.MULTILINE)
            and "GUARDED_BY(" not in text]


def main():
    root, build = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    if shutil.which("clang++") is None:
        print("SKIPPED: no clang++")
        return 77
    if not (build / "compile_commands.json").exists():
        print(f"SKIPPED: no {build}/compile_commands.json")
        return 77
    wrong = check_itself(root)
    for line in wrong:
        print(f"the check itself is wrong, {line}")
    for line in (found := unguarding(root)):
        print(line)
    known = commands(root, build)
    sources = included_by(root, sorted(known))
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        said_of = list(threads.map(lambda batch: refused(root, batch), batches(known, sources)))
    all_said = [said for some in said_of for said in some]
    for said in all_said:
        print(said)
    print(f"{len(sources)} sources that see a Mutex, {len(all_said)} refused, "
          f"{len(PLANTED) + len(PERMITTED) - len(wrong)} of {len(PLANTED) + len(PERMITTED)} controls")
    return 1 if wrong or found or all_said or not sources else 0


if __name__ == "__main__":
    sys.exit(main())
