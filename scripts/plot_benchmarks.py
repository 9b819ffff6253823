#!/usr/bin/env python3
"""Table and plot of one `recoverssm bench --json` report.

    scripts/plot_benchmarks.py docs/benchmarks/NAME.json

writes docs/benchmarks/NAME.svg and puts the tables between the markers of docs/benchmarks.md.
--no-plot leaves the plot out; it needs matplotlib (Debian: python3-matplotlib).
"""
import argparse
import json
import pathlib
import sys

BEGIN, END = "<!-- results: begin (scripts/plot_benchmarks.py) -->", "<!-- results: end -->"
ROOT = pathlib.Path(__file__).resolve().parent.parent
COLORS = {"avx512": "#1b6ca8", "avx2": "#e08e0b", "portable": "#7a7a7a"}


def time_text(seconds):
    for scale, unit in ((1, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def bytes_text(count):
    for scale, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= scale:
            return f"{count / scale:.3g} {unit}"
    return f"{count} B" if count else "-"


def row(cells):
    return "| " + " | ".join(cells) + " |"


def table(cells, numbers_from=1):
    head, *body = cells
    rule = ["---"] * numbers_from + ["---:"] * (len(head) - numbers_from)
    return "\n".join(row(line) for line in [head, rule, *body])


def in_order(values):
    return list(dict.fromkeys(values))


def ceilings_table(report):
    lines = [["threads", "size", "best read", "best copy", "memcpy", "update in place", "multiply-add slots"]]
    for c in report["ceilings"]:
        rates = [f"{c[name]['rate'] / 1e9:.1f} GB/s" for name in ("read", "copy", "memcpy", "update")]
        issue = ", ".join(f"{target} {rate / 1e9:.3g} G/s" for target, rate in c["issue_slots_per_second"].items())
        lines.append([str(c["threads"]), c["size"], *rates, issue])
    return table(lines, 2)


def cell(result):
    if result is None:
        return "-"
    if result["skipped"]:
        return "skipped"
    text = time_text(result["seconds"]["median"])
    if result["bytes_per_second"]:
        text += f", {result['bytes_per_second'] / 1e9:.3g} GB/s"
    if result["share"] is not None:
        text += f", {result['share'] * 100:.0f} %"
        if result["limit"] == "FMA issue":
            text += " F"
    if ".prefill" in result["case"] and result["threads"] > 1 and result["scaling"] is not None:
        text += f", {result['scaling']:.2f}x of one thread"
    return text


def shape_text(result):
    s = result["shape"]
    text = f"{s['rows']} x {s['tokens']}"
    if s["layers"] > 1:
        text += f" x {s['layers']} layers"
    return text


def results_table(report, size):
    results = [r for r in report["results"] if r["size"] == size]
    columns = in_order((r["target"], r["threads"]) for r in sorted(results, key=lambda r: r["threads"]))
    lines = [["case", "rows x tokens", "bytes", *(f"{target} x{threads}" for target, threads in columns)]]
    for name in in_order(r["case"] for r in results):
        found = {(r["target"], r["threads"]): r for r in results if r["case"] == name}
        # Bytes and shape of the widest target; a target that runs fewer tokens says so in its cell, in cache threads change the shape.
        first = found.get(columns[-1], next(iter(found.values()))) if size == "in-cache" else next(iter(found.values()))
        cells = []
        for column in columns:
            text = cell(found.get(column))
            if size != "in-cache" and column in found and found[column]["shape"] != first["shape"]:
                text += f" ({shape_text(found[column])})"
            cells.append(text)
        lines.append([f"`{name}`", shape_text(first), bytes_text(first["bytes"]["total"]), *cells])
    return table(lines)


def markdown(report, name, plotted):
    h = report["hardware"]
    parts = [
        f"`{report['command']}`, {report['date']}, library {report['library']}, commit {report['commit']}, {report['compiler']}.",
        f"{h['cpu']}, {h['cores']} cores, L2 {h['l2_bytes'] >> 10} KiB, last-level cache {h['last_level_bytes'] >> 20} MiB, "
        f"memory {h['memory_bytes'] / 2**30:.1f} GiB, {h['kernel']}, transparent huge pages {h['huge_pages']}, "
        f"governor {h['governor']}, load before the run {h['load_before']:.2f}. Whole report: "
        f"[benchmarks/{name}.json](benchmarks/{name}.json).",
        ceilings_table(report),
    ]
    if plotted:
        parts.append(f"![Shares of the limits](benchmarks/{name}.svg)")
    titles = {"beyond-cache": "Beyond the last-level cache", "in-cache": "In cache"}
    for size, title in titles.items():
        if any(r["size"] == size for r in report["results"]):
            parts += [f"### {title}", "Median of a call, bytes a second, share of the limit (F: FMA issue).", results_table(report, size)]
    return "\n\n".join(parts)


def plot(report, path):
    try:
        import matplotlib
    except ImportError:
        sys.exit(f"plot_benchmarks.py: {sys.executable} has no matplotlib; install python3-matplotlib (for /usr/bin/python3), or use --no-plot")
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "recoverssm"  # the same report gives the same file
    from matplotlib import pyplot

    def shares(size, threads):
        return [r for r in report["results"] if r["size"] == size and r["threads"] == threads and r["share"] is not None]

    threads = max(r["threads"] for r in report["results"])
    sizes = [size for size in ("beyond-cache", "in-cache") if shares(size, threads)]
    if not sizes:
        sys.exit("plot_benchmarks.py: no result in this report has a share of a limit")
    cases = in_order(r["case"] for size in sizes for r in shares(size, threads))
    targets = in_order(r["target"] for size in sizes for r in shares(size, threads))
    figure, axes = pyplot.subplots(1, len(sizes), sharey=True, squeeze=False, figsize=(3 + 4.5 * len(sizes), 1.2 + 0.34 * len(cases)))
    height = 0.8 / len(targets)
    for axis, size in zip(axes[0], sizes):
        for i, target in enumerate(targets):
            of = {r["case"]: r["share"] * 100 for r in shares(size, threads) if r["target"] == target}
            places = [place + (i - (len(targets) - 1) / 2) * height for place in range(len(cases))]
            axis.barh(places, [of.get(case, 0) for case in cases], height, color=COLORS.get(target), label=target)
        axis.axvline(100, color="black", linewidth=0.8)
        axis.set_title(f"{size}, {threads} thread{'' if threads == 1 else 's'}", fontsize=10)
        axis.set_xlabel("% of the limit that bounds the case")
        axis.grid(axis="x", alpha=0.3)
        axis.set_axisbelow(True)
    axes[0][0].set_yticks(range(len(cases)), cases, fontsize=8)
    axes[0][0].invert_yaxis()
    axes[0][-1].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, format="svg", metadata={"Date": None})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", type=pathlib.Path, help="what recoverssm bench --json wrote")
    parser.add_argument("--docs", type=pathlib.Path, default=ROOT / "docs/benchmarks.md", help="the page that gets the tables")
    parser.add_argument("--no-plot", action="store_true", help="only the tables")
    arguments = parser.parse_args()
    report = json.loads(arguments.report.read_text(encoding="utf-8"))
    if report.get("format") != "recoverssm-bench" or report.get("format_version") != 1:
        sys.exit(f"plot_benchmarks.py: {arguments.report} is no recoverssm-bench report of version 1")
    page = arguments.docs.read_text(encoding="utf-8")
    if page.count(BEGIN) != 1 or page.count(END) != 1 or page.index(BEGIN) > page.index(END):
        sys.exit(f"plot_benchmarks.py: {arguments.docs} needs the lines {BEGIN} and {END}, in this order")
    name = arguments.report.stem
    if not arguments.no_plot:
        plot(report, arguments.report.with_suffix(".svg"))
    before, after = page.split(BEGIN)[0], page.split(END)[1]
    text = f"{before}{BEGIN}\n\n{markdown(report, name, not arguments.no_plot)}\n\n{END}{after}"
    arguments.docs.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
