#!/usr/bin/env python3
"""Who may include whom: the layer order, stated once, and a check of every include against it.

usage: layering_test.py SOURCE_FOLDER
"""
import re
import sys
import tempfile
from pathlib import Path

# The layers, lowest first: (name, its files, layers it may include besides itself). A file belongs
# to the first layer from the top of the table with a pattern that matches its path.
LAYERS = [
    ("status", r"allocator/status\.h", set()),
    ("public", r"include/rdmalloc/.*", set()),
    ("os", r"allocator/os/.*", {"status"}),
    # What a region is; the budget refers to it, too.
    ("region", r"allocator/pages/region\.h", {"status", "os"}),
    # The page heap's interface ...
    ("heap", r"allocator/pages/(heap(_counters|_fork)?|page_marks|region_observer|region_table|window)\.h",
     {"status", "os", "core", "region", "pages"}),
    # ... and its parts.
    ("pages", r"allocator/pages/.*", {"status", "os", "core", "region", "heap"}),
    # jemalloc's hooks and malloc's own names: they call the page heap, and no layer calls them ...
    ("engine", r"allocator/engine/.*", {"status", "os", "core", "region", "heap", "pages"}),
    # ... except the top layer, which asks jemalloc for its counters.
    ("top", r"allocator/(report/(stats|report)|c_api|limits/reserve)\.(h|cpp)",
     {"status", "os", "core", "region", "heap", "engine", "public"}),
    # Allocation traces: the file, the recorder and the replayer. The command reads and packs them.
    ("trace", r"allocator/trace/.*", {"status", "os", "public"}),
    ("cli", r"allocator/tools/.*",
     {"status", "os", "core", "region", "heap", "engine", "top", "trace", "public"}),
    # Registers fork handlers for the heap.
    ("fork", r"allocator/fork\.cpp", {"status", "os", "core", "heap"}),
    # Options, budget, counters, messages, locks.
    ("core", r"allocator/((limits|report)/)?[^/]+", {"status", "os", "public", "region"}),
    # The functions of a foreign library, which its backend and its shim share.
    ("library", r"regcache/backends/[^/]+/library\.(h|cpp)",
     {"status", "os", "core", "public", "regcache"}),
    # A folder for each foreign library: no other file includes a backend, and neither backends nor
    # shims include another library's (checked below).
    ("backend", r"regcache/backends/.*",
     {"status", "os", "core", "region", "heap", "public", "regcache", "library"}),
    ("preload", r"regcache/preload/.*",
     {"status", "os", "core", "region", "heap", "public", "regcache", "library"}),
    # Buffers for messaging libraries' internals: built on domains, which do not know them.
    ("pool", r"regcache/pool/.*", {"status", "os", "core", "region", "heap", "public", "regcache"}),
    # Between those who change memory and those who keep registrations of it.
    ("board", r"regcache/foreign/monitor/(announcements|changes|monitor|range_counts)\.(h|cpp)",
     {"status", "os"}),
    # One leaf per monitor, like the backends. Monitors may ask whose memory is changed.
    ("monitor", r"regcache/foreign/monitor/.*", {"status", "os", "board", "region", "heap"}),
    # A separate library, built only on the public headers and the code that reads /proc.
    ("shm", r"regcache/shm/.*", {"status", "os", "public"}),
    ("regcache", r"regcache/.*", {"status", "os", "core", "region", "heap", "public", "board"}),
    # Shared by tests and benchmarks: how a child is started and how it ended.
    ("child", r"tests/support/child\.h", set()),
    ("bench", r"bench/.*",
     {"status", "os", "core", "region", "heap", "pages", "top", "cli", "public", "regcache", "board",
      "child"}),
    ("tests", r"tests/.*",
     {"status", "os", "core", "region", "heap", "pages", "engine", "top", "cli", "public", "regcache",
      "backend", "preload", "library", "board", "monitor", "pool", "shm", "trace", "child"}),
]

# System headers that only some layers may include: system calls stay in one place.
SYSTEM = [
    (r"sys/(mman|syscall|resource|ipc|shm)\.h|sched\.h|numa(if)?\.h|linux/.*",
     {"os", "cli", "backend", "monitor", "preload", "shm", "tests", "bench", "child"}),
    (r"hwloc.*", {"os", "cli", "shm", "tests", "bench"}),
    (r"(.*/)?jemalloc(\.h|/.*)", {"engine", "tests", "bench"}),
    (r"infiniband/.*|rdma/.*|cuda.*|uc[pst]/.*", {"backend", "preload", "library", "tests", "bench"}),
    # libstdc++ at run time, exceptions, locales: not in preloaded code.
    (r"iostream|sstream|fstream|thread|regex", {"cli", "tests", "bench"}),
]

# All that a public header may include, apart from the C++ one.
PUBLIC_C = r"(std(def|int|bool|arg)|sys/types)\.h|rdmalloc/.*"
PUBLIC_CXX = PUBLIC_C + r"|[a-z_]+"

INCLUDE = re.compile(r'^\s*#\s*include\s*(?:<([^>]+)>|"([^"]+)")', re.MULTILINE)
FOLDERS = ("allocator", "regcache", "include", "tests", "bench")
SUFFIXES = {".h", ".hpp", ".c", ".cc", ".cpp", ".inl"}


def layer_of(path):
    for name, pattern, _ in LAYERS:
        if re.fullmatch(pattern, path):
            return name
    return None


def leaf_of(path, layer):
    """What a file serves: a foreign library, by its folder, or a monitor, by the first word of its
    name: userfaultfd.cpp and userfaultfd_events.cpp are one. None: all."""
    folder = re.match(r"regcache/(?:backends|preload)/([^/]+)/", path)
    if folder:
        return folder[1]
    return Path(path).stem.split("_")[0] if layer == "monitor" else None


def resolve(root, includer, name):
    """Which of our files an include names, relative to the root; or None."""
    for folder in (root, root / "include", includer.parent):
        target = (folder / name).resolve()
        if target.is_file() and root in target.parents:
            return target.relative_to(root).as_posix()
    return None


def violations_of(root, path):
    here = path.relative_to(root).as_posix()
    layer = layer_of(here)
    may = {name: allowed for name, _, allowed in LAYERS}
    for match in INCLUDE.finditer(path.read_text(encoding="utf-8", errors="replace")):
        name = match.group(1) or match.group(2)
        target = resolve(root, path, name)
        if layer == "public":
            allowed = PUBLIC_CXX if path.suffix == ".hpp" else PUBLIC_C
            if not re.fullmatch(allowed, name):
                yield f"{here}: a public header includes {name}"
            continue
        if target is None:
            # Not one of our files, or a missing one: judge it by name.
            for pattern, layers in SYSTEM:
                if re.fullmatch(pattern, name) and layer not in layers:
                    yield f"{here}: {layer} includes {name}"
            if name.startswith(tuple(folder + "/" for folder in FOLDERS)) and \
                    layer_of(name) not in may[layer] | {layer}:
                yield f"{here}: {layer} includes {name}"
            continue
        other = layer_of(target)
        if other != layer and other not in may[layer]:
            yield f"{here}: {layer} includes {target} of {other}"
        leaf, other_leaf = leaf_of(here, layer), leaf_of(target, other)
        if leaf and other_leaf and leaf != other_leaf:
            yield f"{here}: {layer} of {leaf} includes {target} of {other_leaf}"


def check(root):
    root = root.resolve()
    found = []
    files = 0
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in SUFFIXES and path.is_file():
                files += 1
                found += violations_of(root, path)
    return files, found


# Each violation must be found when planted: the check itself is checked.
PLANTED = [
    ("allocator/pages/heap.cpp", '#include "regcache/domain/domain.h"'),
    ("allocator/pages/heap.cpp", '#include "tests/support/catch.h"'),
    ("allocator/pages/heap.cpp", '#include "allocator/engine/jemalloc.h"'),
    ("allocator/pages/heap.cpp", '#include "allocator/report/stats.h"'),
    ("allocator/pages/heap.cpp", "#include <sys/mman.h>"),
    ("allocator/pages/heap.cpp", "# include  <sched.h>"),
    ("allocator/pages/heap.cpp", "#include <iostream>"),
    ("allocator/report/stats.cpp", '#include "allocator/tools/run/run.h"'),
    ("allocator/os/memory.cpp", '#include "allocator/limits/budget.h"'),
    ("allocator/os/memory.cpp", '#include "../pages/heap.h"'),
    ("allocator/engine/hooks.cpp", "#include <sys/syscall.h>"),
    ("include/rdmalloc/rdmalloc.h", "#include <sys/mman.h>"),
    ("include/rdmalloc/rdmalloc.h", '#include "allocator/pages/heap.h"'),
    ("allocator/pages/heap.cpp", '#include "include/rdmalloc/rdmalloc.h"'),
    ("allocator/limits/budget.h", '#include "allocator/pages/window.h"'),
    ("allocator/limits/budget.h", '#include "allocator/pages/growth.h"'),
    ("regcache/domain/domain.cpp", '#include "allocator/pages/growth.h"'),
    ("regcache/domain/domain.cpp", '#include "allocator/pages/free_pages.h"'),
    ("regcache/pool/pool.cpp", '#include "allocator/pages/depots.h"'),
    ("allocator/report/stats.cpp", '#include "allocator/pages/gathering.h"'),
    ("regcache/domain/domain.cpp", "#include <jemalloc/jemalloc.h>"),
    ("regcache/domain/domain.cpp", '#include "regcache/backends/verbs/backend.h"'),
    ("regcache/domain/domain.cpp", "#include <infiniband/verbs.h>"),
    ("regcache/backends/verbs/backend.cpp", '#include "regcache/backends/cuda/backend.h"'),
    ("regcache/backends/verbs/backend.cpp", '#include "regcache/backends/ucx/library.h"'),
    ("regcache/preload/ucx/shim.cpp", '#include "regcache/preload/verbs/room.h"'),
    ("regcache/preload/ucx/shim.cpp", '#include "regcache/backends/verbs/library.h"'),
    ("regcache/preload/verbs/shim.cpp", '#include "regcache/backends/verbs/backend.h"'),
    ("regcache/domain/domain.cpp", '#include "regcache/backends/verbs/library.h"'),
    ("regcache/backends/verbs/library.cpp", '#include "regcache/backends/verbs/backend.h"'),
    ("regcache/domain/domain.cpp", '#include "regcache/foreign/monitor/interposed.h"'),
    ("regcache/foreign/monitor/interposed.cpp", '#include "regcache/domain/domain.h"'),
    ("regcache/foreign/monitor/userfaultfd.cpp", '#include "regcache/foreign/monitor/interposed.h"'),
    ("regcache/foreign/monitor/changes.cpp", "#include <sys/mman.h>"),
]
# And none of these.
PERMITTED = [
    ("allocator/os/memory.cpp", '#include "allocator/status.h"\n#include <sys/mman.h>'),
    ("allocator/pages/heap.cpp", '#include "allocator/os/memory.h"\n#include <atomic>'),
    ("allocator/pages/growth.cpp", '#include "allocator/limits/budget.h"\n#include "allocator/pages/heap.h"'),
    ("allocator/limits/budget.h", '#include "allocator/pages/region.h"'),
    ("allocator/engine/hooks.cpp", '#include "allocator/pages/large_blocks.h"'),
    ("regcache/domain/domain.cpp", '#include "allocator/pages/page_marks.h"'),
    ("regcache/domain/region_source.h", '#include "allocator/pages/region_table.h"'),
    ("allocator/report/stats.cpp", '#include "allocator/engine/jemalloc.h"'),
    ("allocator/tools/run/run.cpp", '#include "allocator/limits/options.h"\n#include <iostream>'),
    ("include/rdmalloc/rdmalloc.hpp", "#include <memory_resource>\n#include <rdmalloc/rdmalloc.h>"),
    ("regcache/backends/verbs/backend.cpp", '#include "regcache/domain/domain.h"\n#include <infiniband/verbs.h>'),
    ("regcache/backends/verbs/failure.cpp", '#include "regcache/backends/verbs/backend.h"'),
    ("regcache/backends/verbs/backend.cpp", '#include "regcache/backends/verbs/library.h"'),
    ("regcache/preload/verbs/real.h", '#include "regcache/backends/verbs/library.h"'),
    ("regcache/preload/verbs/shim.cpp", '#include "regcache/preload/ucx_and_verbs.h"'),
    ("regcache/domain/domain.cpp", '#include "regcache/foreign/monitor/changes.h"'),
    ("regcache/foreign/monitor/interposed_calls.cpp",
     '#include "regcache/foreign/monitor/interposed.h"\n#include <sys/mman.h>'),
]


def check_itself():
    files = {name for name, _ in PLANTED + PERMITTED}
    for _, text in PLANTED + PERMITTED:
        files |= {name for name in re.findall(r'"([^"]+)"', text) if not name.startswith("..")}
    wrong = []
    for planted, cases in ((True, PLANTED), (False, PERMITTED)):
        for where, text in cases:
            with tempfile.TemporaryDirectory() as folder:
                root = Path(folder)
                for name in files:
                    (root / name).parent.mkdir(parents=True, exist_ok=True)
                    (root / name).write_text("")
                (root / where).write_text(text + "\n")
                if bool(check(root)[1]) != planted:
                    wrong.append(f"{'not found' if planted else 'found'}: {where}: {text}")
    return wrong


def main():
    wrong = check_itself()
    files, found = check(Path(sys.argv[1]))
    for line in wrong:
        print(f"the check itself is wrong, {line}")
    for line in found:
        print(line)
    print(f"{files} files, {len(found)} forbidden includes, "
          f"{len(PLANTED) + len(PERMITTED) - len(wrong)} of {len(PLANTED) + len(PERMITTED)} controls")
    return 1 if wrong or found or files == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
