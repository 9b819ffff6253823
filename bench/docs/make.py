#!/usr/bin/env python3
"""Puts the tables of docs/benchmarks.md and docs/benchmarks/*.md between their markers and draws their plots, from the reports and CSVs in
docs/benchmarks.

    bench/docs/make.py             tables and plots; plots need matplotlib (Debian: python3-matplotlib, for /usr/bin/python3)
    bench/docs/make.py --no-plot   tables only
    bench/docs/make.py --check     writes nothing; exit status 1 if a page or a plot is not what this would make. A plot is not looked at,
                                   and a line says so, where matplotlib is missing or is another version than drew it
"""

import argparse
import difflib
import io
import json
import pathlib
import re
import sys

import cpu
import device
import sycl

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = ROOT / "docs/benchmarks"


def report(path):
    found = json.loads(path.read_text(encoding="utf-8"))
    if found.get("format") != "recoverssm-bench" or found.get("format_version") != 1:
        sys.exit(f"make.py: {path} is no recoverssm-bench report of version 1")
    return found


XEON = report(DATA / "xeon-2-cores.json")
H200 = device.Run(device.read_csv(DATA / "h200.csv"), device.read_csv(DATA / "h200-fla.csv"))

# Page, marker, what stands between the markers.
SECTIONS = (
    (ROOT / "docs/benchmarks.md", "results", lambda: cpu.markdown(XEON, "xeon-2-cores")),
    (ROOT / "docs/benchmarks.md", "others", lambda: cpu.others(device.read_csv(DATA / "python.csv"))),
    (DATA / "h200.md", "results", lambda: device.markdown(H200, "h200")),
    (DATA / "sycl-cpu.md", "results", lambda: sycl.markdown(*(device.read_csv(DATA / f"sycl-cpu{of}.csv") for of in ("", "-native")))),
)
FIGURES = (
    (DATA / "xeon-2-cores.svg", lambda pyplot: cpu.figure(XEON, pyplot)),
    (DATA / "h200.svg", lambda pyplot: device.figure(H200, pyplot)),
)


def filled(page, marker, made):
    begin, end = f"<!-- {marker}: begin (bench/docs/make.py) -->", f"<!-- {marker}: end -->"
    if page.count(begin) != 1 or page.count(end) != 1 or page.index(begin) > page.index(end):
        raise ValueError(f"needs the lines {begin} and {end}, in this order")
    return f"{page.split(begin)[0]}{begin}\n\n{made}\n\n{end}{page.split(end)[1]}"


def pages():
    made = {}
    for path, marker, make in SECTIONS:
        try:
            made[path] = filled(made.get(path) or path.read_text(encoding="utf-8"), marker, make())
        except ValueError as error:
            sys.exit(f"make.py: {path}: {error}")
    return made


def matplotlib():
    try:
        import matplotlib
    except ImportError:
        return None
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "recoverssm"  # the same figures give the same file
    return matplotlib


def drawn(make):
    from matplotlib import pyplot

    figure, file = make(pyplot), io.StringIO()
    figure.savefig(file, format="svg", metadata={"Date": None})
    pyplot.close(figure)
    return file.getvalue()


def check(made):
    right = True
    for path, text in made.items():
        old = path.read_text(encoding="utf-8")
        if text != old:
            right = False
            sys.stdout.writelines(difflib.unified_diff(old.splitlines(True), text.splitlines(True), str(path), "made now", n=0))
    library = matplotlib()
    for path, make in FIGURES:
        old = path.read_text(encoding="utf-8")
        version = re.search(r"Matplotlib v([0-9.]+)", old)[1]
        if library is None or library.__version__ != version:
            print(f"{path.name}: not looked at, matplotlib {version} drew it, {sys.executable} has {library and library.__version__}")
        elif drawn(make) != old:
            right = False
            print(f"{path.name}: not what bench/docs/make.py draws")
    sys.exit(0 if right else "make.py: not as committed; run bench/docs/make.py")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--no-plot", action="store_true")
    arguments = parser.parse_args()
    made = pages()
    if arguments.check:
        check(made)
    for path, text in made.items():
        path.write_text(text, encoding="utf-8")
    if arguments.no_plot:
        return
    if matplotlib() is None:
        sys.exit(f"make.py: {sys.executable} has no matplotlib; install python3-matplotlib (for /usr/bin/python3), or use --no-plot")
    for path, make in FIGURES:
        path.write_text(drawn(make), encoding="utf-8")


if __name__ == "__main__":
    main()
