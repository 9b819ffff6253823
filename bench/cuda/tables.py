"""Prints the tables of docs/benchmarks/h200.md from the CSV files of bench_cuda and fla_peer.py.

    python bench/cuda/tables.py docs/benchmarks/h200.csv docs/benchmarks/h200-fla.csv
"""

import csv
import sys


def rows(path):
    with open(path) as lines:
        return list(csv.DictReader(line for line in lines if not line.startswith("#")))


def main():
    ours = rows(sys.argv[1])
    first = {}
    for row in ours:
        first.setdefault((row["op"], row["rows"], row["window"], row["state"]), row)
    fla = {(row["op"], row["rows"], row["window"]): float(row["us"]) for row in rows(sys.argv[2])}

    def us(op, n, window):
        return float(first[op, n, window, "f32"]["us"])

    columns = ["rows x T", "verify, us", "of bound", "FLA recurrent, us", "FLA / verify", "verify lazy, us", "snapshots, us", "plain, us"]
    print("| " + " | ".join([*columns, "FLA with final state, us"]) + " |\n| --- |" + " ---: |" * len(columns))
    for n in ("1", "8", "32", "64", "128", "256"):
        for window in ("1", "2", "4", "8"):
            verify, peer = us("verify", n, window), fla["fla_recurrent", n, window]
            bound = 1 / float(first["verify", n, window, "f32"]["share"])
            others = " | ".join(f"{us(op, n, window):.1f}" for op in ("verify_lazy", "snapshots", "plain"))
            final = fla["fla_recurrent_final_state", n, window]
            print(f"| {n} x {window} | {verify:.1f} | {bound:.2f}x | {peer:.1f} | {peer / verify:.2f}x | {others} | {final:.1f} |")

    print("\n| commit, T = 4, 3 kept | us | of copy |\n| --- | ---: | ---: |")
    for row in ours:
        if row["op"].startswith("commit"):
            name = row["op"].removeprefix("commit_").replace("_", " ")
            print(f"| {name}, {row['layers']} layers x {row['rows']} rows | {float(row['us']):.0f} | {100 * float(row['share']):.1f} % |")

    print("\n| prefill | plain, us | FLA with final state, us |\n| --- | ---: | ---: |")
    for n in ("1", "4"):
        for window in ("512", "2048"):
            print(f"| {n} x {window} | {us('plain', n, window):.0f} | {fla['fla_recurrent_final_state', n, window]:.0f} |")


if __name__ == "__main__":
    main()
