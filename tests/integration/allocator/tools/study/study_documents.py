"""Made-up study documents that a report must render correctly."""

import math
import random

MIB = 1 << 20
HOSTILE = "it's \"<script>window.hit=1</script></script><!--\u2028\u2029 {{style}} {b|x} \u202e%s&amp;"


def curve(peak, seconds, count, seed):
    """Bytes over time: grows, falls, and peaks once in a single sample."""
    wander = random.Random(seed)
    times = [seconds * i / (count - 1) for i in range(count)]
    live = [int(peak * (0.15 + 0.6 * math.sin(math.pi * i / count) ** 2 +
                        0.05 * wander.random())) for i in range(count)]
    live[count * 2 // 3] = peak
    return times, live


def series(name, repeat, peak, seconds, count, knows, cap):
    times, live = curve(peak, seconds, count, repeat)
    held, most = [], 0
    for value in live:
        most = max(most, value)
        held.append(int(most * 1.08))
    pinned = [min(value, cap) if cap else value for value in held]
    resident = [value + 6 * MIB for value in (held if knows else live)]
    return {"configuration": name, "repeat": repeat, "seconds": times, "resident_bytes": resident,
            "live_bytes": live if knows else None, "held_bytes": held if knows else None,
            "pinned_bytes": pinned if knows else [0] * count,
            "overflow_bytes": [h - p for h, p in zip(held, pinned)] if knows else None,
            "faults": list(range(count))}


PHASES = ("read", "assemble", "solve", "write")


def run(name, repeat, seconds, curves, knows, phases):
    peak = {key: max(curves[key + "_bytes"]) if curves[key + "_bytes"] else None
            for key in ("resident", "live", "held", "pinned", "overflow")}
    return {"configuration": name, "repeat": repeat, "outcome": "exited with 0", "ok": True,
            "seconds": seconds, "user_seconds": seconds * 0.9, "system_seconds": seconds * 0.08,
            "processes": 1, **{f"peak_{key}_bytes": value for key, value in peak.items()},
            "mean_resident_bytes": peak["resident"] * 0.7, "minor_faults": 12345 + repeat,
            "major_faults": 0, "samples": len(curves["seconds"]), "sampling_cpu_share": 0.004,
            "phases": [{"name": phase, "entered": 1, "seconds": seconds / 4,
                        "peak_live_bytes": peak["live"] * (i + 1) // 4,
                        "peak_held_bytes": peak["held"] * (i + 2) // 5,
                        "peak_pinned_bytes": peak["pinned"] * (i + 2) // 5}
                       for i, phase in enumerate(PHASES)] if knows and phases else []}


def full(repeats=3, samples=400, phases=True):
    """A study that has everything."""
    known = [("glibc", "glibc", "glibc", False, None, 92, 1.30),
             ("jemalloc", "jemalloc", "jemalloc", False, None, 96, 1.18),
             ("mimalloc", "mimalloc", "mimalloc", False, None, 99, 1.12),
             ("tcmalloc", "tcmalloc", "tcmalloc", False, None, 101, 1.15),
             ("rdmalloc-unpinned", "rdmalloc, not pinned", "rdmalloc", False, None, 100, 1.17),
             ("rdmalloc", "rdmalloc, pinned", "rdmalloc", True, None, 104, 1.21)] + \
            [(f"rdmalloc-{part}%", f"rdmalloc, cap {104 * part // 100} MiB ({part} % of its peak)",
              "rdmalloc", True, 104 * part // 100 * MIB, 100 + (part > 90), 1.21 + (100 - part) / 400)
             for part in (40, 60, 80, 100)]
    study = {"format": "rdmalloc-study", "version": 1,
             "command": ["lmp", "-in", "in.melt", "-var", "steps", "4000"],
             "date": "2026-11-21T18:00:00Z", "rdmalloc": "0.1.0",
             "machine": {"cpu": "A processor at 2.4 GHz", "cores": 2, "memory_bytes": 16 << 30,
                         "kernel": "6.1.0-26-amd64", "memlock_bytes": 8 << 30},
             "rate_hz": 100, "repeats": repeats, "configurations": [], "runs": [], "series": [],
             "summary": {"tiles": {
                 "memory": {"verdict": "13 % more than glibc", "figures": "Peak 104 MiB against 92 MiB."},
                 "time": {"verdict": "cannot be told", "figures": "Measured: 2.0 % less, between 6.1 % "
                          "less and 2.3 % more; about 40 repeats would tell (--repeats)."},
                 "cap": {"verdict": "RDMALLOC_CAP=83M", "figures": "All stays pinned; no time is lost."}},
                         "answers": [
                 "Never returning memory costs this program 13 % more memory at its peak than glibc "
                 "(104 MiB against 92 MiB), and no time (1.21 s against 1.30 s).",
                 "A cap of 83 MiB loses nothing that can be measured: 1.26 s against 1.21 s."],
                 "table": [], "smallest_cap_without_loss_bytes": 83 * MIB,
                 "notes": ["One run in ten is too few to tell differences below 2 %."]}}
    for name, label, allocator, pinned, cap, peak, seconds in known:
        study["configurations"].append({"name": name, "label": label, "allocator": allocator,
                                        "pinned": pinned, "cap_bytes": cap})
        knows = allocator == "rdmalloc"
        runs = []
        for repeat in range(1, repeats + 1):
            took = seconds * (1 + 0.012 * (repeat - 2))
            curves = series(name, repeat, (peak - 6 + repeat) * MIB, took, samples, knows, cap)
            study["series"].append(curves)
            runs.append(run(name, repeat, took, curves, knows, phases))
        study["runs"] += runs
        middle = runs[len(runs) // 2]
        study["summary"]["table"].append(
            {"configuration": name, "runs_ok": repeats, "seconds": middle["seconds"],
             "seconds_spread": 0.02, "peak_resident_bytes": middle["peak_resident_bytes"],
             "peak_live_bytes": middle["peak_live_bytes"], "peak_held_bytes": middle["peak_held_bytes"],
             "held_to_live": 1.08 if knows else None, "time_against_glibc": seconds / 1.30,
             "peak_against_glibc": peak / 92, "peak_overflow_bytes": middle["peak_overflow_bytes"],
             "on_pareto": name in ("glibc", "jemalloc", "mimalloc")})
    return study


def hostile():
    """Names that contain markup, the end of a script, gnuplot commands, or invalid text."""
    study = full(repeats=2, samples=20)
    study["command"] = [HOSTILE, "a b", "", "$(touch hit)", "`touch hit`", "new\nline\x07"]
    for i, configuration in enumerate(study["configurations"]):
        new = HOSTILE + str(i)
        for entry in study["runs"] + study["series"] + study["summary"]["table"]:
            if entry["configuration"] == configuration["name"]:
                entry["configuration"] = new
        configuration["name"] = new
        configuration["label"] = HOSTILE + "`touch hit`\n\\" + str(i)
    for one in study["runs"]:
        for phase in one["phases"]:
            phase["name"] += HOSTILE
    study["runs"][1].update(ok=False, outcome="killed by " + HOSTILE)
    study["machine"]["cpu"] = study["date"] = study["rdmalloc"] = HOSTILE
    study["summary"]["answers"].append(HOSTILE)
    study["summary"]["tiles"]["cap"]["verdict"] = HOSTILE
    study["summary"]["notes"].append(HOSTILE)
    return study


def single(samples=60):
    """One configuration, one run."""
    study = full(repeats=1, samples=max(samples, 2), phases=False)
    for key in ("configurations", "runs", "series"):
        study[key] = study[key][:1]
    study["summary"]["table"] = study["summary"]["table"][:1]
    study["summary"]["smallest_cap_without_loss_bytes"] = None
    study["runs"][0]["samples"] = samples
    if samples == 0:
        study["series"] = []
    return study


def one_sample():
    """A run that ended before its second sample."""
    study = single(1)
    study["series"][0]["seconds"] = [0.0]
    return study


def failed():
    """No run succeeded."""
    study = full(repeats=2, samples=5)
    for one in study["runs"]:
        one.update(ok=False, outcome="killed by signal 9", seconds=None, peak_resident_bytes=None)
    for row in study["summary"]["table"]:
        row.update({key: None for key in row if key != "configuration"}, runs_ok=0, on_pareto=False)
    study["summary"].update(answers=[], smallest_cap_without_loss_bytes=None)
    return study


def odd():
    """Nulls inside series, series of unequal length, wrong types, runs of unknown configurations."""
    study = full(repeats=2, samples=50)
    first = study["series"][0]
    first["resident_bytes"][10:20] = [None] * 10
    first["seconds"][5] = "soon"
    study["series"][1]["resident_bytes"] = study["series"][1]["resident_bytes"][:7]
    study["series"][2]["seconds"] = None
    study["series"].append({"configuration": "nobody", "repeat": None, "seconds": [0.1],
                            "resident_bytes": [5 * MIB]})
    study["runs"].append({"configuration": "nobody", "phases": 7, "ok": "yes"})
    study["runs"].append(None)
    study["machine"] = "a box"
    study["summary"]["notes"] = {"a": 1}
    del study["rate_hz"]
    return study


def long_run():
    """Ten minutes at 100 Hz, thinned as the command does it."""
    study = single(60000)
    study["series"] = [series("glibc", 1, 900 * MIB, 600.0, 1200, True, None)]
    return study


ALL = {"full": full, "hostile": hostile, "single": single, "no_samples": lambda: single(0),
       "one_sample": one_sample,
       "failed": failed, "odd": odd, "long_run": long_run, "empty": dict}
