#!/usr/bin/env python3
"""Every relative link in a Markdown file is valid: the file exists, and so does the heading. Every
source file or folder named in `code` exists (in a command, if it has a folder). README.md stays a
short first page.

    links_test.py SOURCE_FOLDER
"""
import re
import subprocess
import sys
from pathlib import Path

MOST_LINES = 150  # of README.md
SOURCE = re.compile(r"[\w./*-]*\w\.(?:h|hpp|c|cpp|f90|def|cmake|sh|py|md|map)")
FOLDER = re.compile(r"(?:[\w.-]+/)+")
# Files of other projects, and of builds.
FOREIGN = {"mpi.h", "pmix.h", "mpif.h", "build/", "build/guest/", "plots/"}


def files_of(source):
    """Names relative to the source folder, without those that git ignores."""
    listed = subprocess.run(["git", "-C", str(source), "ls-files", "-co", "--exclude-standard"],
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    names = (listed.stdout.splitlines() if listed.returncode == 0 else
             [str(path.relative_to(source)) for path in source.rglob("*") if path.is_file()])
    return [name for name in names if not name.startswith("build/") and (source / name).exists()]


def without_blocks(text):
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors(text):
    """The anchors that GitHub makes from the headings."""
    found = set()
    for heading in re.findall(r"^#+ +(.+?) *$", without_blocks(text), re.MULTILINE):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
        anchor = re.sub(r"[^\w -]", "", plain).replace(" ", "-")
        number, unique = 0, anchor
        while unique in found:
            number += 1
            unique = f"{anchor}-{number}"
        found.add(unique)
    return found


def broken_links(source, path, text):
    for target in re.findall(r"\]\(([^)\s]+)\)", without_blocks(text)):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        there = (path.parent / name) if name else path
        if not there.exists():
            yield f"{target} does not exist"
        elif source.resolve() not in [there.resolve(), *there.resolve().parents]:
            yield f"{target} lies outside of the project"
        elif anchor and anchor not in anchors(there.read_text()):
            yield f"{target}: there is no such heading"


def exists(source, path, name, known):
    """Looks from the file that names it, a folder above, or one of the product's folders. A bare
    name may be any file's."""
    if "/" not in name and "*" not in name:
        return name in known
    folders = [folder for folder in path.parents if folder == source or source in folder.parents]
    folders += [source / folder for folder in ("include/rdmalloc", "regcache", "allocator", "tests")]
    return any(any(folder.glob(name)) for folder in folders)


def missing_files(source, path, text, known):
    for code in re.findall(r"`([^`\n]+)`", without_blocks(text)):
        for word in code.split():
            if word in FOREIGN or word.startswith("/") or "$" in word or (word != code and "/" not in word):
                continue
            if (SOURCE.fullmatch(word) or FOLDER.fullmatch(word)) and not exists(source, path, word, known):
                yield f"`{word}` does not exist"


def wrong_in(source, path, known):
    text = path.read_text()
    return [*broken_links(source, path, text), *missing_files(source, path, text, known)]


def check_itself(source):
    """Checks this script on made-up input, in which errors must be found."""
    path = source / "README.md"
    text = ("# One `two`: three\n\n[a](#one-two-three) [b](#four) [c](LICENSE) [d](LICENCE) [e](https://f.g)\n"
            "`tests/unit/` `tests/unity/` `unit/links_test.py` `links.py` `mpi.h`\n```\n[g](h) `i.cpp`\n```\n")
    assert anchors(text) == {"one-two-three"}
    assert anchors("# A\n\n## A\n") == {"a", "a-1"}
    path_text = {"broken": list(broken_links(source, path, "[d](LICENCE) [c](LICENSE) [o](../x)\n")),
                 "missing": list(missing_files(source, path, text, {"links_test.py"}))}
    assert [line.split()[0] for line in path_text["broken"]] == ["LICENCE", "../x"], path_text
    assert path_text["missing"] == ["`tests/unity/` does not exist", "`links.py` does not exist"], path_text


def main():
    source = Path(sys.argv[1]).resolve()
    check_itself(source)
    names = files_of(source)
    known = {name.rsplit("/", 1)[-1] for name in names}
    files = [name for name in names if name.endswith(".md")]
    wrong = [f"{name}: {what}" for name in files for what in wrong_in(source, source / name, known)]
    lines = len((source / "README.md").read_text().splitlines())
    if lines > MOST_LINES:
        wrong.append(f"README.md has {lines} lines, of at most {MOST_LINES}")
    for line in wrong:
        print(f"BROKEN: {line}")
    print(f"{len(files)} files, {len(wrong)} wrong")
    return 1 if wrong or len(files) < 8 else 0


if __name__ == "__main__":
    sys.exit(main())
