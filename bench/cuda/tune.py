"""Times candidates of the delta kernels against each other on a device, all in one go.

    bench/cuda/tune.py build FOLDER REF...    here: one program a commit, into FOLDER (say .device/tune), with this file; needs build/cuda
                                              (cmake --preset cuda, recoverssm_cli)
    python3 FOLDER/tune.py run [ROUNDS]       there: every program in turn, ROUNDS times (2); a table, and CSVs in $OUT

A program is `recoverssm` with verify, rule, commit and materialize of its commit, compiled for K = V = 128, gdn, fp32 and bf16 states alone,
which takes a minute; everything else is of build/cuda. The first round compares bits with the CPU before it times. TUNE_SOURCES and TUNE_OPS
name fewer sources and other operations.
"""

import csv
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

OPERATIONS = ("gated_delta_rule_verify*", "gated_delta_rule.decode*", "gated_delta_rule.prefill*", "commit.in_place*", "commit.align*")
OPERATIONS = tuple(os.environ.get("TUNE_OPS", "").split()) or OPERATIONS
REPLACED = ("verify", "rule", "replay", "commit", "materialize")
REPLACED = tuple(os.environ.get("TUNE_SOURCES", "").split()) or REPLACED
ONLY_COMMON = """template <class State, class F>
void dispatch_common(const DeltaTile& t, F&& f) {
  if (t.rows == 1) return f(DeltaKernel<State, 4, 1, true, false>{});
  f(DeltaKernel<State, 4, 4, true, false>{});
}
template <class F>
void dispatch_delta(const DeltaTile& t, DType state, Gate, F&& f) {
  if (state == DType::f32) return dispatch_common<float>(t, f);
  dispatch_common<__nv_bfloat16>(t, f);
}

"""
NVCC = ["-std=c++20", "-arch=sm_90", "-fmad=false", "--expt-relaxed-constexpr", "-O3", "-Isrc", "-Iinclude", "-Xcompiler=-ffp-contract=off"]


def output(*command, cwd=None):
    return subprocess.run(command, cwd=cwd, check=True, capture_output=True, text=True).stdout


def build(folder, refs):
    root = pathlib.Path(__file__).resolve().parents[2]
    made = root / "build/cuda"
    folder = pathlib.Path(folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    link = output("ninja", "-C", str(made), "-t", "commands", "src/recoverssm").splitlines()[-1]
    for number, ref in enumerate(refs):
        name = f"{number}-{output('git', 'rev-parse', '--short', ref, cwd=root).strip()}"
        with tempfile.TemporaryDirectory() as scratch:
            subprocess.run(f"git archive {ref} src include | tar -x -C {scratch}", shell=True, check=True, cwd=root)
            host = pathlib.Path(scratch, "src/cuda/delta_host.cuh")
            text = host.read_text()
            begin, end = text.index("// Calls f with the instantiation's tag."), text.index("inline std::size_t shared_bytes")
            host.write_text(text[:begin] + ONLY_COMMON + text[end:])
            sources = REPLACED
            for source in sources:
                subprocess.run(["nvcc", *NVCC, "-c", f"src/cuda/{source}.cu", "-o", f"{source}.cu.o"], check=True, cwd=scratch)
            archive = pathlib.Path(scratch, "lib.a")
            archive.write_bytes((made / "src/librecoverssm.a").read_bytes())
            objects = [f"{source}.cu.o" for source in sources]
            output("ar", "d", str(archive), *objects)
            output("ar", "r", str(archive), *objects, cwd=scratch)
            command = link.replace(" src/librecoverssm.a", f" {archive}").replace("-o src/recoverssm ", f"-o {folder / name} ")
            subprocess.run(command, shell=True, check=True, cwd=made)
        subprocess.run(["strip", str(folder / name)], check=True)
        title = output("git", "log", "-1", "--format=%s", ref, cwd=root).strip()
        (folder / f"{name}.txt").write_text(title + "\n")
        print(name, title, flush=True)
    (folder / "tune.py").write_bytes(pathlib.Path(__file__).read_bytes())


def figures(path):
    with open(path, encoding="utf-8") as lines:
        rows = csv.DictReader(line for line in lines if not line.startswith("#"))
        return {(r["case"], r["rows"], r["tokens"], r["layers"], r["state"]): r for r in rows}


def run(rounds):
    here, out = pathlib.Path(__file__).resolve().parent, pathlib.Path(os.environ.get("OUT", "out"))
    out.mkdir(parents=True, exist_ok=True)
    names = sorted(path.stem for path in here.glob("*.txt"))
    taken = {name: {} for name in names}
    for turn in range(rounds):
        for name in names:
            file = out / f"{name}.{turn}.csv"
            command = [str(here / name), "bench", "--backend", "cuda", "--gate", "gdn", "--csv", str(file)]
            command += ["--compare", "0.1" if turn == 0 else "0"]
            for operation in OPERATIONS:
                command += ["--op", operation]
            with open(out / f"{name}.{turn}.log", "w") as log:
                code = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT).returncode
            print(f"{name}, round {turn}: exit status {code}, {(here / (name + '.txt')).read_text().strip()}", flush=True)
            for key, r in figures(file).items() if file.exists() else ():
                taken[name].setdefault(key, []).append(float(r["median_s"]) * 1e6 if r["median_s"] else float("nan"))
    print(f"{'us':66}" + "".join(f"{name[:9]:>10}" for name in names))
    for key in taken[names[0]]:
        base = statistics.median(taken[names[0]][key])
        values = [statistics.median(taken[name].get(key, [float("nan")])) for name in names]
        case, rows, tokens, layers, state = key
        text = f"{case}, {rows} x {tokens}, {layers} layer{'s' * (layers != '1')}, {state}"
        print(f"{text:58}{base:8.1f}" + "".join(f"{value / base:10.3f}" for value in values))


if __name__ == "__main__":
    if len(sys.argv) > 3 and sys.argv[1] == "build":
        build(sys.argv[2], sys.argv[3:])
    elif len(sys.argv) in (2, 3) and sys.argv[1] == "run":
        run(int(sys.argv[2]) if len(sys.argv) == 3 else 2)
    else:
        sys.exit(__doc__)
