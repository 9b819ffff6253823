#!/usr/bin/env python3
"""docs/reports.md against the tree: names every id of report_ids.txt once, in order; every test it names is in the file it names; every
Reports test of tests/reports and tests/session is named in its id's row; a row says how its fault is covered."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FILES = [*(ROOT / "tests" / "reports").glob("*.cc"), *(ROOT / "tests" / "session").glob("reports_*.cc")]


def tests_of(path):
    return set(re.findall(r"\bTEST(?:_[FP])?\(Reports, (\w+)\)", path.read_text()))


def main():
    problems = []
    ids = (ROOT / "tests" / "docs" / "report_ids.txt").read_text().split()
    in_tree = {path.name: tests_of(path) for path in sorted(FILES)}
    rows = re.findall(r"^\| (B\d\d) \|(.*)\|$", (ROOT / "docs" / "reports.md").read_text(), re.MULTILINE)
    if [row[0] for row in rows] != ids:
        problems.append(f"ids are {' '.join(row[0] for row in rows)}, expected {' '.join(ids)}")
    named = {}
    for id_, text in rows:
        file, found = None, False
        for word in re.findall(r"`([^`]+)`", text):
            if word.endswith(".cc"):
                file = word
                if file not in in_tree:
                    problems.append(f"{id_}: no file {file} in tests/reports or tests/session")
            elif re.match(r"B\d\d_", word):
                found = True
                named.setdefault(word, set()).add(id_)
                if word not in in_tree.get(file, ()):
                    problems.append(f"{id_}: no test {word} in {file or 'any file: none is named before it'}")
        if not (found or "not applicable" in text or re.search(r"issues? \d", text)):
            problems.append(f"{id_}: no test, no reason and no backend")
    for file, names in in_tree.items():
        for name in sorted(names):
            if name[:3] not in ids:
                problems.append(f"{file}: {name} is not named after an id")
            elif name[:3] not in named.get(name, ()):
                problems.append(f"{file}: {name} is not in the row of {name[:3]}")
    if not any(in_tree.values()):
        problems.append("no tests found")
    for problem in problems:
        print(f"docs/reports.md: {problem}")
    print(f"{len(rows)} ids, {sum(map(len, in_tree.values()))} tests")
    sys.exit(1 if problems else 0)


main()
