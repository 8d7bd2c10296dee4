#!/usr/bin/env python3
"""A study's report as a browser shows it, and its plots as gnuplot draws them.

    study_report_test.py WRITER CASE FOLDER-of-the-report's-sources
"""

import copy
import functools
import html.parser
import http.server
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree as ElementTree

import study_documents

sys.path.append(sys.path[0] + "/../../../../support")
from verdict import Failed, check, fail, need, skip, test_in_folder

WRITER = sys.argv[1]
BROWSER = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
           "--disable-background-networking", "--disable-component-update", "--disable-sync",
           "--disable-dev-shm-usage", "--window-size=1280,1000", "--virtual-time-budget=5000",
           "--dump-dom"]
DARK = ["--blink-settings=preferredColorScheme=0"]
GROUND, DARK_GROUND = "#ffffff", "#15181c"
FIGURES = ["memory", "tradeoff", "ratio", "cap", "phases"]


def write(study, folder, environment=None, prefix=()):
    """Renders it; returns the writer's output and status."""
    path = os.path.join(folder, "study.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(study, file)
    return subprocess.run([*prefix, WRITER, path, folder], capture_output=True, text=True, timeout=120,
                          env={**os.environ, **(environment or {})}, check=False)


def page_of(study, folder):
    done = write(study, folder, {"PATH": "/nonexistent"})
    check(done.returncode == 0, done.stderr)
    with open(os.path.join(folder, "report.html"), encoding="utf-8") as file:
        return file.read()


class Page(html.parser.HTMLParser):
    """The contents of a page once its scripts have run: texts by element, and each chart's
    marks."""

    def __init__(self, text):
        super().__init__()
        self.stack, self.figure = [], None
        self.marks, self.texts, self.unfolded = {}, {"": []}, []
        self.scripts, self.images, self.tips, self.addresses = 0, 0, 0, []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if tag == "figure":
            self.figure = attributes["id"]
            self.marks[self.figure] = []
        self.scripts += tag == "script"
        self.images += tag in ("img", "iframe", "object", "embed", "link")
        self.tips += attributes.get("class") == "tip"
        self.addresses += [attributes[key] for key in ("src", "href") if attributes.get(key)]
        if tag == "path" and any("plot" in name.split() for _, name in self.stack):
            self.marks[self.figure].append((attributes.get("fill"), attributes.get("stroke")))
        if tag not in ("meta", "input", "br", "img", "link"):
            self.stack.append((tag, attributes.get("class") or "" if attributes.get("id") is None
                               else attributes["id"]))

    def handle_endtag(self, tag):
        while self.stack and self.stack.pop()[0] != tag:
            pass
        if tag == "figure":
            self.figure = None

    def handle_data(self, text):
        text = text.replace("\u00a0", " ")  # joins a figure and its unit, and reads as a space
        where = self.stack[-1] if self.stack else ("", "")
        if where[0] not in ("script", "style"):
            self.texts[""].append(text)
            if not any(tag == "details" for tag, _ in self.stack):
                self.unfolded.append(text.strip())
        if where[1]:
            self.texts.setdefault(where[1], []).append(text)

    def text(self, where=""):
        return "".join(self.texts.get(where, []))

    def lines(self, figure, colours):
        """Number of curves by colour."""
        return [sum(fill == "none" and stroke == colour for fill, stroke in self.marks[figure])
                for colour in colours]

    def symbols(self, figure, colours):
        """Number of shapes by colour, whether filled or outlines."""
        return [sum(fill == colour or (fill in (GROUND, DARK_GROUND) and stroke == colour)
                    for fill, stroke in self.marks[figure]) for colour in colours]


def with_script(page, script):
    nonce = re.search(r"nonce-([0-9a-f]+)", page)
    return f'<script nonce="{nonce and nonce.group(1)}">{script}</script></body>'.join(page.rsplit("</body>", 1))


UNFOLD = "for (const fold of document.querySelectorAll('details')) fold.open = true;"


def dump(path, folder, extra, limit):
    """The page as its scripts leave it; fails after `limit` seconds, if there are any."""
    with tempfile.TemporaryDirectory(dir=folder, ignore_cleanup_errors=True) as profile:
        try:
            done = subprocess.run([*BROWSER, f"--user-data-dir={profile}", *extra, f"file://{path}"],
                                  capture_output=True, text=True, timeout=limit, check=False)
        except subprocess.TimeoutExpired:
            fail(f"the browser is not done with {os.path.basename(path)} after {limit:.0f} s")
    check(done.returncode == 0 and "</html>" in done.stdout, f"chromium: {done.stderr[-2000:]}")
    return done.stdout


@functools.cache
def pace(folder):
    """Seconds that the browser takes here for a page without scripts; CTest ends one that hangs."""
    path = os.path.join(folder, "plain.html")
    with open(path, "w", encoding="utf-8") as file:
        file.write("<p>plain</p>")
    began = time.monotonic()
    dump(path, folder, (), None)
    return time.monotonic() - began


def browse(page, folder, extra=(), script=UNFOLD, name="shown.html", least=90):
    page = with_script(page, script)
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(page)
    # An emulated machine takes minutes for what takes two seconds elsewhere.
    return Page(dump(path, folder, extra, max(least, 20 * pace(folder))))


def data_of(page):
    return page.split('id="study">', 1)[1].split("</script>", 1)[0]


def chart_document(page):
    return json.loads(data_of(page))


def check_quiet(shown):
    problems = shown.text("script-errors").strip()
    check(not problems, f"the page says: {problems[:500]}")


def check_full(page, shown, look="light"):
    """Every chart has as many marks as the document has data, and each curve its own."""
    check_quiet(shown)
    document = chart_document(page)
    everyone = [one[look] for one in document["configurations"]]
    ours = [one[look] for one in document["configurations"] if one["allocator"] == "rdmalloc"]
    caps = [one[look] for one in document["configurations"] if one["cap"]]
    others = everyone[:-len(caps)]
    measures = {one["key"]: one[look] for one in document["measures"]}
    check(list(shown.marks) == FIGURES, f"figures {list(shown.marks)}")
    # Caps follow the curve without one, and are drawn when asked for.
    check(shown.lines("memory", everyone) == [1] * len(others) + [0] * len(caps),
          f"curves of memory: {shown.lines('memory', everyone)}")
    check(min(shown.symbols("memory", others)) >= 8, f"marks on curves: {shown.symbols('memory', others)}")
    # Each configuration has three runs and a median.
    check(shown.symbols("tradeoff", everyone) == [4] * len(everyone),
          f"marks of runs: {shown.symbols('tradeoff', everyone)}")
    check(shown.lines("ratio", ours) == [1] * len(ours), "curves of held / live")
    check(min(shown.symbols("ratio", ours)) >= 8, f"marks on curves: {shown.symbols('ratio', ours)}")
    # Three runs, their median, and the overflow.
    check(shown.symbols("cap", caps) == [5] * len(caps), f"marks of caps: {shown.symbols('cap', caps)}")
    bars = [measures[key] for key in ("live", "held", "pinned")]
    check(shown.symbols("phases", bars) == [len(study_documents.PHASES)] * 3, "bars of phases")


def charts(folder):
    page = page_of(study_documents.full(), folder)
    shown = browse(page, folder)
    check_full(page, shown)
    for answer in study_documents.full()["summary"]["answers"]:
        check(answer in shown.text(), f"not there: {answer}")
    check_full(page, browse(page, folder, DARK), "dark")


def folded(folder):
    """Three tiles come first, and all else is folded, with scripts and without."""
    study = study_documents.full()
    page = page_of(study, folder)
    tiles = study["summary"]["tiles"]
    expected = [text for key, title in (("memory", "Memory"), ("time", "Time"), ("cap", "Recommended cap"))
                for text in (title, tiles[key]["verdict"], tiles[key]["figures"])]
    for name, shown in (("with scripts", browse(page, folder, script="")), ("without", Page(page))):
        unfolded = [text for text in shown.unfolded if text]
        check(unfolded[-9:] == expected and len(unfolded) == 13, f"{name}: {unfolded}")
        for words in ("Terms", "Every run", study["summary"]["answers"][0], study["machine"]["cpu"]):
            check(words in shown.text(), f"{name} not there: {words}")
    check(" open" not in "".join(re.findall("<details[^>]*>", page)), "something is unfolded")
    # A link into what is folded unfolds it.
    script = "location.hash = '#notes'; document.body.append(document.querySelectorAll('[open]').length + ' unfolded');"
    check("1 unfolded" in browse(page, folder, script=script).text(), "a link leads to what is folded")
    del study["summary"]["tiles"]
    shown = browse(page_of(study, folder), folder)
    check(shown.text("verdict") == "not known" * 3, f"without verdicts: {shown.text('verdict')}")


# The browser's window is 500 pixels wide at least, so a frame is the screen.
SCREEN = """<iframe width="400" height="900" src="shown.html"></iframe><pre id="said"></pre><script>
onmessage = (event) => { document.getElementById('said').textContent = event.data; };
</script></body>"""
MEASURE = """
function measure() {
  const wide = Array.from(document.querySelectorAll('body *')).filter((one) =>
      one.getBoundingClientRect().right > innerWidth && !one.closest('.scroll, .plot'));
  const plots = Array.from(document.querySelectorAll('.plot')).map((one) => one.scrollWidth);
  parent.postMessage([innerWidth, document.documentElement.scrollWidth, Math.max(...plots) <= 400,
      ...wide.map((one) => one.tagName + '.' + one.className)].join(' '), '*');
}
setTimeout(measure, 500);
"""


def narrow(folder):
    """On a screen of 400 pixels nothing is wider; tables scroll by themselves."""
    for name in ("full", "hostile"):
        page = with_script(page_of(study_documents.ALL[name](), folder), UNFOLD + MEASURE)
        with open(os.path.join(folder, "shown.html"), "w", encoding="utf-8") as file:
            file.write(page)
        said = browse(SCREEN, folder, ["--hide-scrollbars"], script="", name="screen.html").text("said")
        check(said == "400 400 true", f"{name}: {said}")
        # The control: what is too wide is found.
        with open(os.path.join(folder, "shown.html"), "w", encoding="utf-8") as file:
            file.write(page.replace("minmax(15rem, 1fr)", "30rem"))
        said = browse(SCREEN, folder, ["--hide-scrollbars"], script="", name="screen.html").text("said")
        check("ARTICLE" in said, f"control: {said}")


def hostile(folder):
    """Names that contain markup are shown literally, and none of it runs."""
    study = study_documents.hostile()
    page = page_of(study, folder)
    plain = browse(page_of(study_documents.full(), folder), folder)
    shown = browse(page, folder)
    check_quiet(shown)
    check(shown.scripts == plain.scripts and shown.images == 0, f"{shown.scripts} scripts")
    check(list(shown.marks) == FIGURES, f"figures {list(shown.marks)}")
    visible = study_documents.HOSTILE
    for letter in "\u2028\u2029\u202e":
        visible = visible.replace(letter, "\ufffd")
    check(shown.text().count(visible) > 50, f"the name is shown {shown.text().count(visible)} times")


# Operates a page as a reader would, and records how many curves each chart has after each step.
READER = """
const said = document.createElement('pre');
said.id = 'said';
document.body.append(said);
function read() {
const count = (chart) => chart.plot.querySelectorAll('path[stroke-linejoin="bevel"]').length;
window.dispatchEvent(new Event('beforeprint'));
window.dispatchEvent(new Event('afterprint'));
for (const chart of charts) {
  const boxes = () => Array.from(chart.legend.querySelectorAll('input'));
  said.append(`${chart.spec.id} first ${count(chart)}\\n`);
  boxes().forEach((box, i) => box.checked || boxes()[i].click());
  for (const select of chart.selects) {
    for (const {value} of Array.from(select.options)) {
      select.value = value;
      select.dispatchEvent(new Event('change'));
      said.append(`${chart.spec.id} ${value} ${count(chart)}\\n`);
    }
    select.selectedIndex = 0;
    select.dispatchEvent(new Event('change'));
  }
  for (let i = 0; i < boxes().length; ++i) {
    boxes()[i].click();
    said.append(`${chart.spec.id} without-${i} ${count(chart)}\\n`);
  }
  boxes().forEach((box, i) => boxes()[i].click());
  for (const key of ['+', 'ArrowRight', 'ArrowLeft', '-', '0', 'a']) {
    chart.plot.dispatchEvent(new KeyboardEvent('keydown', {key}));
    const zoom = chart.spec.zooms ? chart.chart.getOption().dataZoom[0] : {start: 0, end: 100};
    said.append(`${chart.spec.id} key-${key} ${Math.round(zoom.end - zoom.start)}\\n`);
  }
  chart.chart.dispatchAction({type: 'showTip', seriesIndex: chart.chart.getOption().series.length - 1, dataIndex: 0});
}
}
setTimeout(read, 300);
"""


def used(folder):
    """Choices, legends and keys work."""
    page = page_of(study_documents.full(), folder)
    shown = browse(page, folder, script=UNFOLD + READER)
    check_quiet(shown)
    said = {tuple(line.split()[:2]): int(line.split()[2])
            for line in shown.text("said").splitlines()}
    check(said[("memory", "first")] == 6 and said[("memory", "measure:resident")] == 10, f"{said}")
    check(said[("memory", "measure:live")] == 6, f"{said}")
    check(said[("memory", "configuration:5")] == 5, f"{said}")
    check(said[("memory", "all")] == 30, f"{said}")
    check(said[("memory", "without-0")] == 9 and said[("memory", "without-9")] == 0, f"{said}")
    check(said[("memory", "key-+")] == 50 and said[("memory", "key-0")] == 100, f"{said}")
    check({key[0] for key in said} == set(FIGURES), f"{said}")
    check(shown.tips == len(FIGURES), f"{shown.tips} tooltips")


def odd(folder):
    """Incomplete documents give pages that omit the charts without data."""
    expected = {"single": ["memory", "tradeoff"], "no_samples": ["tradeoff"],
                "one_sample": ["memory", "tradeoff"], "failed": ["memory", "ratio"], "odd": FIGURES,
                "long_run": ["memory", "tradeoff", "ratio"], "empty": []}
    for name, figures in expected.items():
        page = page_of(study_documents.ALL[name](), folder)
        shown = browse(page, folder)
        try:
            check_quiet(shown)
            check(list(shown.marks) == figures, f"figures {list(shown.marks)}")
            check(len(page) < 2_000_000, f"{len(page)} bytes")
            check(("killed by signal 9" in shown.text()) == (name == "failed"), "failures")
            check(("thinned" in shown.text()) == (name in ("long_run", "odd")),
                  "what it says of samples that it leaves out")
            check("undefined" not in shown.text() and "NaN" not in shown.text(), "undefined, NaN")
        except Failed as problem:
            raise Failed(f"{name}: {problem}") from None


def control(folder):
    """Pages with a broken document, a broken script or a missing curve fail the check."""
    page = page_of(study_documents.full(), folder)
    start = page.index('id="study">') + 11
    less = copy.deepcopy(study_documents.full())
    less["series"] = [one for one in less["series"] if one["configuration"] != "tcmalloc"]
    other = page_of(less, folder)
    broken = {"a document cut short": page[:start] + page[start + 40:],
              "a script with a mistake": page.replace("class Chart {", "class Chart { #"),
              "a chart that throws": page.replace("function ratioOption(", "function otherOption("),
              "a script of somebody else": '<script nonce="0'.join(page.rsplit('<script nonce="', 1)),
              "a curve less": page.replace(data_of(page), data_of(other))}
    for what, text in broken.items():
        check(text != page, f"nothing was broken: {what}")
        try:
            check_full(page, browse(text, folder))
        except Failed as problem:
            print(f"found {what}: {problem}")
            continue
        fail(f"not found: {what}")


def endless(folder):
    """A page whose script never ends fails the check, in time."""
    page = page_of(study_documents.full(), folder)
    try:
        browse(page, folder, script="for (;;) {}", least=10)
    except Failed as problem:
        check("is not done with shown.html" in str(problem), f"failed otherwise: {problem}")
        print(f"found: {problem}")
        return
    fail("not found")


def quiet(folder):
    """The page makes no network requests, and its policy forbids them."""
    asked = []

    class Server(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_address[1]}/picture.png"
    page = page_of(study_documents.full(), folder)
    shown = browse(page, folder)
    check(all(one.startswith("#") for one in shown.addresses), f"{shown.addresses}")
    check("default-src 'none'" in page, "no policy")
    planted = browse(page.replace("</main>", f'<img src="{address}" alt=""></main>'), folder)
    check("Refused: img-src" in planted.text("script-errors") and not asked,
          f"{planted.text('script-errors')} {asked}")
    # The control: without the policy the browser requests the same picture, and the listener sees
    # it.
    browse(re.sub(r"<meta http-equiv[^>]*>", "", page)
           .replace("</main>", f'<img src="{address}" alt=""></main>'), folder)
    check(asked == ["/picture.png"], f"control: {asked}")
    server.shutdown()


def check_plot(folder, name, least):
    place = os.path.join(folder, "plots", name)
    tree = ElementTree.parse(place + ".svg")
    drawn = [one for one in tree.iter() if one.tag.split("}")[1] in ("path", "use", "polygon", "circle")]
    check(len(drawn) >= least, f"{name}.svg has {len(drawn)} marks")
    with open(place + ".png", "rb") as file:
        head = file.read(24)
    check(head[:8] == b"\x89PNG\r\n\x1a\n", f"{name}.png is none")
    width, height = struct.unpack(">II", head[16:24])
    check(width >= 1600 and height >= 900 and os.path.getsize(place + ".png") > 10_000,
          f"{name}.png has {width} x {height} pixels")
    return tree


POINTS = {"circle": 7, "rect": 5, "triangle": 9, "diamond": 13, "down": 11, "pentagon": 15}


def check_scripts(folder):
    """Scripts are the templates, filled in; each configuration has the page's mark in all of them."""
    os.mkdir(os.path.join(folder, "page"))
    document = chart_document(page_of(study_documents.full(), os.path.join(folder, "page")))
    marks = {one["label"]: POINTS[one["symbol"]] - one["hollow"] for one in document["configurations"]}
    labels = list(marks)
    check(len(set(marks.values())) == len(marks), f"{marks}")
    for name, drawn in (("memory", labels), ("measures", labels), ("tradeoff", labels), ("ratio", labels[4:]),
                        ("cap", labels[6:]), ("phases", None)):
        with open(os.path.join(folder, "plots", name + ".gp"), encoding="utf-8") as file:
            script = file.read()
        with open(os.path.join(sys.argv[3], "plots", name + ".gp"), encoding="utf-8") as file:
            parts = re.split(r"\{\{\w+\}\}", file.read())
        check(re.search(".*".join(re.escape(part) for part in parts), script, re.DOTALL), script)
        found = dict(re.findall(r"^array (labels|marks)\[\d+\] = \[(.*)\]$", script, re.MULTILINE))
        if drawn:
            check(re.findall("'([^']*)'", found["labels"]) == drawn, f"{name}: {found}")
            check(json.loads(f"[{found['marks']}]") == [marks[label] for label in drawn], f"{name}: {found}")


def plots(folder):
    """All plots, in both forms; the written scripts can be run again."""
    least = {"memory": 90, "measures": 300, "ratio": 60, "tradeoff": 40, "cap": 20, "phases": 12}
    done = write(study_documents.full(), folder)
    check(done.returncode == 0 and not done.stdout, done.stdout + done.stderr)
    for name, marks in least.items():
        check_plot(folder, name, marks)
    check_scripts(folder)
    place = os.path.join(folder, "plots")
    os.remove(os.path.join(place, "memory.svg"))
    again = subprocess.run(["gnuplot", "memory.gp"], cwd=place, capture_output=True, timeout=60, check=False)
    check(again.returncode == 0 and os.path.exists(os.path.join(place, "memory.svg")), again.stderr)
    done = write(study_documents.single(0), folder)
    left = sorted(os.listdir(place))
    check(left == ["tradeoff.dat", "tradeoff.gp", "tradeoff.png", "tradeoff.svg"],
          f"of an older study: {left}")
    for name in ("odd", "one_sample", "failed", "long_run"):
        with tempfile.TemporaryDirectory() as other:
            done = write(study_documents.ALL[name](), other)
            check(done.returncode == 0 and not done.stdout, f"{name}: {done.stdout}{done.stderr}")
            check_plot(other, "memory", 1)


def hostile_plots(folder):
    """gnuplot, too, shows names literally."""
    done = write(study_documents.hostile(), folder, prefix=["env", "-C", folder])
    check(done.returncode == 0 and not done.stdout, done.stdout + done.stderr)
    for name in ("memory", "measures", "ratio", "tradeoff", "cap", "phases"):
        tree = check_plot(folder, name, 6)
        texts = "".join(tree.getroot().itertext())
        check(name == "cap" or "it's \"<script>" in texts, f"{name}.svg has not the name: {texts[:500]}")
    check("hit" not in os.listdir(folder) + os.listdir(os.path.join(folder, "plots")), "it was obeyed")


def no_gnuplot(folder):
    """Without gnuplot, or with one that fails, there are messages, data and scripts."""
    done = write(study_documents.full(), folder, {"PATH": "/nonexistent"})
    check(done.returncode == 0 and len(done.stdout.splitlines()) == 1, done.stdout)
    check(done.stdout.startswith("gnuplot is not installed: "), done.stdout)
    made = sorted(os.listdir(os.path.join(folder, "plots")))
    check("memory.gp" in made and "memory.dat" in made and "memory.svg" not in made, f"{made}")
    with open(os.path.join(folder, "gnuplot"), "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\necho '\"memory.gp\" line 7: it is broken' >&2\nexit 1\n")
    os.chmod(file.name, 0o755)
    done = write(study_documents.full(), folder, {"PATH": f"{folder}:/bin"})
    check(done.returncode == 0 and len(done.stdout.splitlines()) == 6, done.stdout)
    check("memory.svg: gnuplot: line 7: it is broken" in done.stdout, done.stdout)


def no_space(folder):
    """If a report cannot be written completely, the older one stays, and a message is printed."""
    first = page_of(study_documents.single(), folder)
    limit = ["sh", "-c", 'trap "" XFSZ; ulimit -f 8; exec "$@"', "sh"]
    done = write(study_documents.full(), folder, {"PATH": "/usr/bin:/bin"}, limit)
    with open(os.path.join(folder, "report.html"), encoding="utf-8") as file:
        check(file.read() == first, "the older report is gone")
    check(done.returncode == 1 and "report.html cannot be written" in done.stderr and "File too large" in done.stderr,
          done.stderr)
    check(not [name for name in os.listdir(folder) if name.endswith(".part")], "a part is left behind")
    shutil.rmtree(folder)
    done = subprocess.run([WRITER, "/dev/null", folder], capture_output=True, text=True, check=False)
    check(done.returncode == 1, done.stderr)
    os.mkdir(folder)


def fetching(folder):
    """Without npm or a network a build continues, with one line that says so."""
    script = os.path.join(sys.argv[3], "fetch_charts.cmake")
    npm = os.path.join(folder, "npm")
    with open(npm, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\necho 'npm ERR! network' >&2\nexit 1\n")
    os.chmod(npm, 0o755)
    for program, words in (("", "npm is not installed"), (npm, "network"), ("/nonexistent/npm", "npm ci ended")):
        place = os.path.join(folder, "there")
        os.makedirs(place, exist_ok=True)
        done = subprocess.run(["cmake", "-D", f"SOURCE={sys.argv[3]}", "-D", f"FOLDER={place}", "-D",
                               f"NPM={program}", "-P", script], capture_output=True, text=True,
                              timeout=60, check=False)
        check(done.returncode == 0 and words in done.stderr, done.stderr)
        check(len(done.stderr.strip().splitlines()) == 1, done.stderr)
        check(os.path.getsize(os.path.join(place, "library.js")) == 0, "there is a library")


NEEDS = {"plots": ["gnuplot"], "hostile_plots": ["gnuplot"], "no_gnuplot": [], "no_space": [],
         "fetching": ["cmake"]}


def main(folder):
    name, folder = sys.argv[2], str(folder)
    need(*NEEDS.get(name, ["chromium"]))
    if name not in NEEDS and "This report has no charts" in page_of(study_documents.single(), folder):
        skip("built without charts")
    globals()[name](folder)


test_in_folder(main)
