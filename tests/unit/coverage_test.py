#!/usr/bin/env python3
"""tests/coverage.txt names a test for everything that is promised: each public function, status and
flag, each option, each flag of the command, and each sentence of "What gets worse", the most
important parts of which are in README.md.

usage: coverage_test.py SOURCE_FOLDER RDMALLOC
"""
import re
import subprocess
import sys
from pathlib import Path

COMMANDS = ("run", "info", "doctor", "options", "shm-plan", "top", "stats", "trace record",
            "trace replay", "trace import", "trace text", "trace info", "study")
# Where test names are written, literally or with a ${variable}.
DEFINITIONS = ("*.cmake", "CMakeLists.txt", "*.sh")


def functions(headers):
    return {name for text in headers for name in re.findall(r"\b(rdm_[a-z_]+)\(", text)}


def constants(headers, pattern):
    return {name for text in headers
            for name in re.findall(rf"(?:#define|enum \{{|^)\s*({pattern})\s*[=,]", text, re.MULTILINE)}


def options(table):
    return set(re.findall(r"^OPTION\((\w+),", table, re.MULTILINE))


def flags(command, of_options):
    """The flags of one subcommand that belong to no option, without --help."""
    found = set()
    for name in COMMANDS:
        text = subprocess.run([command, *name.split(), "--help"], stdout=subprocess.PIPE, text=True,
                              timeout=20, check=True).stdout
        for flag in re.findall(r"^ +(?:-\w, )?--([a-z-]+)", text, re.MULTILINE):
            if flag != "help" and flag.replace("-", "_") not in of_options:
                found.add(f"{name} --{flag}")
    return found


def bullets(text):
    """The bullets of "What gets worse"; each begins in bold."""
    part = text.split("\n## What gets worse\n", 1)[1].split("\n## ", 1)[0]
    return [" ".join(bullet.split()).replace("**", "")
            for bullet in re.split(r"^- ", part, flags=re.MULTILINE)[1:]]


def sentences(bullet):
    return re.split(r"(?<=[.])\s+(?=[A-Z`])", bullet)


def rows(table):
    """By section: items and their tests."""
    found = {}
    for line in table.splitlines():
        if line.startswith("["):
            section = found.setdefault(line.strip("[]"), {})
        elif line and not line.startswith("#"):
            item, test = line.split(" | ", 1)
            section[item] = test
    return found


def compare(section, items, lines):
    """The errors of a section."""
    return ([f"{section}: {item} has no test in tests/coverage.txt" for item in sorted(items - set(lines))] +
            [f"{section}: {item} is in tests/coverage.txt, and is gone" for item in sorted(set(lines) - items)])


def compare_bullets(all_texts, first_page, lines):
    section = "what gets worse"
    all_sentences = [sentence for text in all_texts for sentence in sentences(text)]
    return ([f"{section}: no line for '{text[:60]}'" for text in all_sentences + first_page
             if not any(text.startswith(item) for item in lines)] +
            [f"{section}: no sentence begins with '{item}'" for item in lines
             if not any(text.startswith(item) for text in all_sentences)])


class Names:
    """The names of all tests, as written in the sources."""

    def __init__(self, folder):
        self.exact = set()
        self.patterns = []
        for path in sorted(folder.rglob("*.cpp")):
            text = re.sub(r'"\s*\n\s*"', "", path.read_text(errors="replace"))
            self.exact |= set(re.findall(r'TEST_CASE\w*\([^"]*"([^"]+)"', text))
        for pattern in DEFINITIONS:
            for path in sorted(folder.rglob(pattern)):
                for name in re.findall(r'"([^"\n]{8,})"', path.read_text(errors="replace")):
                    self.add(name)
        for path in folder.parent.glob("bench/bench_*.cpp"):
            self.exact.add(path.stem.replace("_", ".", 1))

    def add(self, name):
        if "${" not in name:
            self.exact.add(name)
        elif len(re.sub(r"\$\{+\w+\}+", "", name)) >= 8:
            pattern = ".+".join(re.escape(part) for part in re.split(r"\$\{+\w+\}+", name))
            self.patterns.append(re.compile(pattern))

    def has(self, name):
        # Remove the prefix that a CMake function puts before a sentence.
        plain = re.sub(r"^(guest|verbs|ucx|ofi|shm|cuda|openmpi|mpich|integration\.cli): ", "", name)
        plain = re.sub(r"^control: ", "", plain)
        return any(form in self.exact or any(pattern.fullmatch(form) for pattern in self.patterns)
                   for form in (name, plain, f"control: {plain}"))


def check_itself():
    """Checks this script on made-up input, in which errors must be found."""
    header = "RDM_API int rdm_new(int a);\nenum { RDM_DOMAIN_NEW = 1 };\n  RDM_LATE = 3,\n"
    assert functions([header]) == {"rdm_new"}
    assert constants([header], r"RDM_DOMAIN_\w+|RDM_LATE") == {"RDM_DOMAIN_NEW", "RDM_LATE"}
    assert options('OPTION(new, kAmount, "0",') == {"new"}
    assert len(compare("x", {"a", "b"}, {"b": "t", "c": "t"})) == 2
    assert len(compare_bullets(["First is", "Second"], [], {"First": "t", "Third": "t"})) == 2
    assert len(compare_bullets(["First is"], ["First", "Else"], {"First": "t"})) == 1
    assert len(compare_bullets(["First is. Then `x`."], ["First"], {"First": "t"})) == 1
    assert len(compare_bullets(["First is. Then `x`."], ["First"], {"First": "t", "Then": "t"})) == 0
    assert sentences("Since 5.12, `x`. `y` (e. g. z). We go.") == ["Since 5.12, `x`.", "`y` (e. g. z).", "We go."]
    assert bullets("\n## What gets worse\n\n- **One**\n  more.\n- Two.\n\n## Next\n- No") == ["One more.", "Two."]
    assert rows("# x\n[a]\nb | c | d\n") == {"a": {"b": "c | d"}}
    names = Names.__new__(Names)
    names.exact, names.patterns = {"it holds"}, []
    names.add("under ${mpi}, it holds")
    assert names.has("it holds") and names.has("control: it holds") and names.has("under MPICH, it holds")
    assert not names.has("it holds not") and not names.has("under MPICH, it does not hold")


def main():
    source = Path(sys.argv[1])
    command = sys.argv[2]
    check_itself()
    headers = [path.read_text() for path in sorted((source / "include/rdmalloc").glob("*.h"))]
    table = rows((source / "tests/coverage.txt").read_text())
    of_options = options((source / "allocator/limits/options.def").read_text())
    public = (source / "include/rdmalloc/rdmalloc.h").read_text()
    statuses = re.search(r"enum \{\s*(RDM_OK.*?)\}", public, re.DOTALL).group(1)
    wrong = compare("functions", functions(headers), table["functions"])
    wrong += compare("statuses", set(re.findall(r"^\s*(RDM_[A-Z_]+)\b", statuses, re.MULTILINE)), table["statuses"])
    wrong += compare("flags of the interface",
                     constants(headers, r"RDM_DOMAIN_[A-Z_]+|RDM_BACKEND_[A-Z_]+|RDM_EXPOSED"),
                     table["flags of the interface"])
    wrong += compare("options", of_options, table["options"])
    wrong += compare("flags of the command", flags(command, of_options),
                     table["flags of the command"])
    wrong += compare_bullets(bullets((source / "allocator/OPTIONS.md").read_text()),
                             bullets((source / "README.md").read_text()), table["what gets worse"])
    names = Names(source / "tests")
    tests = [test for section in table.values() for test in section.values()]
    wrong += [f"no test is called '{test}'" for test in sorted(set(tests)) if not names.has(test)]
    for line in wrong:
        print(f"BROKEN: {line}")
    print(f"{len(tests)} items, {len(set(tests))} tests, {len(wrong)} wrong")
    return 1 if wrong or len(tests) < 150 else 0


if __name__ == "__main__":
    sys.exit(main())
