#!/usr/bin/env python3
"""Deliberate faults, one for every rule of the contract: does a test catch each?

  scripts/mutate.py             builds every fault of scripts/mutations.toml in a copy of the tree and runs its tests, which must fail
  scripts/mutate.py ID...       only these
  scripts/mutate.py --table     prints docs/contract-tests.md
  scripts/mutate.py --check     each fault's text stands exactly once in its file, and docs/contract-tests.md is up to date

The tree itself is never changed: the copy and its build lie in build/mutants and are kept, so that a second run is quick.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORK = ROOT / "build" / "mutants"
COPY = WORK / "tree"
BUILD = WORK / "build"


def load():
    with open(ROOT / "scripts" / "mutations.toml", "rb") as file:
        return tomllib.load(file)["fault"]


def sh(*command, **options):
    return subprocess.run(command, text=True, capture_output=True, **options)


def prepare():
    """A copy of the tracked files as they are in the work tree; contents decide, so that untouched files are not built again."""
    names = sh("git", "-C", str(ROOT), "ls-files", "-co", "--exclude-standard", check=True).stdout.splitlines()
    for name in names:
        source, copy = ROOT / name, COPY / name
        if not source.is_file():
            continue
        copy.parent.mkdir(parents=True, exist_ok=True)
        if not copy.is_file() or copy.read_bytes() != source.read_bytes():
            shutil.copy(source, copy)
    for copy in [path for path in COPY.rglob("*") if path.is_file()]:
        if not (ROOT / copy.relative_to(COPY)).is_file():
            copy.unlink()
    # One shared library, so that a fault in it is linked once and not into every test.
    configured = sh("cmake", "-S", str(COPY), "-B", str(BUILD), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=None", "-DCMAKE_CXX_FLAGS=-O1",
                    "-DBUILD_SHARED_LIBS=ON", "-DRECOVERSSM_BUILD_CLI=OFF")
    if configured.returncode:
        sys.exit(configured.stdout + configured.stderr)


def build(targets):
    return sh("cmake", "--build", str(BUILD), "--target", *targets)


def find(target):
    for path in (BUILD / "tests").rglob(target):
        if path.is_file() and os.access(path, os.X_OK):
            return str(path)
    sys.exit(f"mutate: no test {target}")


def failed_cases(target):
    """Names of the cases that fail, or the way the program ended."""
    run = sh(find(target), "--gtest_brief=1", cwd=COPY, timeout=900, env={**os.environ, "RC_PARAMS": "seed=1"})
    names = [line.split("]")[1].split("(")[0].split(",")[0].strip() for line in run.stdout.splitlines() if line.startswith("[  FAILED  ]")]
    names = [name for name in names if "." in name]
    if run.returncode and not names:
        names = [f"{target}: exit status {run.returncode}"]
    return list(dict.fromkeys(names))


def try_fault(fault):
    path = COPY / fault["file"]
    original = path.read_text()
    if original.count(fault["find"]) != 1:
        return "text not found exactly once", []
    try:
        path.write_text(original.replace(fault["find"], fault["replace"]))
        built = build(fault["tests"])
        if built.returncode:
            return "does not compile: " + (built.stdout + built.stderr)[-1500:], []
        failed = [name for target in fault["tests"] for name in failed_cases(target)]
    finally:
        path.write_text(original)
    if not failed:
        return "NOT CAUGHT", []
    if fault["caught_by"] not in failed:
        return f"caught, but not by {fault['caught_by']}", failed
    return "", failed


def run(ids):
    faults = [fault for fault in load() if not ids or fault["id"] in ids]
    unknown = set(ids) - {fault["id"] for fault in faults}
    if unknown:
        sys.exit(f"mutate: unknown {', '.join(sorted(unknown))}")
    prepare()
    targets = sorted({target for fault in faults for target in fault["tests"]})
    print(f"building {len(targets)} test programs without a fault", flush=True)
    built = build(targets)
    if built.returncode:
        sys.exit(built.stdout + built.stderr)
    for target in targets:
        if failed := failed_cases(target):
            sys.exit(f"mutate: without a fault these fail: {', '.join(failed)}")
    bad = 0
    for number, fault in enumerate(faults, 1):
        problem, failed = try_fault(fault)
        bad += bool(problem)
        shown = ", ".join(failed[:4]) + (f" and {len(failed) - 4} more" if len(failed) > 4 else "")
        print(f"{number}/{len(faults)} {'FAIL' if problem else 'ok  '} {fault['id']}: {problem or 'caught'}{' by ' + shown if shown else ''}",
              flush=True)
    print(f"{len(faults) - bad} passed, {bad} failed")
    sys.exit(1 if bad else 0)


def table():
    lines = [
        "# Rules, faults, tests",
        "",
        "Every paragraph of the contract's sections 1 to 7 with at least one deliberate fault and the test that fails with it. Made by",
        "`scripts/mutate.py --table` from `scripts/mutations.toml`; `scripts/mutate.py` builds each fault in a copy of the tree and runs",
        "the tests. Section 5 (device graphs) is about devices: on the CPU only its padding rows mean something, which are null rows and rows",
        "without tokens.",
        "",
        "| section | rule | fault | where | caught by |",
        "| --- | --- | --- | --- | --- |",
    ]
    for fault in load():
        lines.append(f"| {fault['section']} | {fault['rule']} | {fault['fault']} | `{fault['file']}` | `{fault['caught_by']}` |")
    return "\n".join(lines) + "\n"


def check():
    problems = [f"{fault['id']}: its text stands {count} times in {fault['file']}, expected once" for fault in load()
                if (count := (ROOT / fault["file"]).read_text().count(fault["find"])) != 1]
    if (ROOT / "docs" / "contract-tests.md").read_text() != table():
        problems.append("docs/contract-tests.md is not what --table prints")
    for problem in problems:
        print(f"mutate: {problem}")
    sys.exit(1 if problems else 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ids", nargs="*", metavar="ID")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    if options.table:
        print(table(), end="")
    elif options.check:
        check()
    else:
        run(options.ids)


if __name__ == "__main__":
    main()
