"""What docs/benchmarks.md shows of a CPU: one report of `recoverssm bench --json`, and the comparison of bench/python."""

from markdown import bytes_text, in_order, table, time_text

COLORS = {"avx512": "#1b6ca8", "avx2": "#e08e0b", "portable": "#7a7a7a"}


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


def markdown(report, name):
    """Report: what `recoverssm bench --json` wrote on a CPU, as benchmarks/NAME.json."""
    h = report["hardware"]
    parts = [
        f"`{report['command']}`, {report['date']}, library {report['library']}, commit {report['commit']}, {report['compiler']}.",
        f"{h['cpu']}, {h['cores']} cores, L2 {h['l2_bytes'] >> 10} KiB, last-level cache {h['last_level_bytes'] >> 20} MiB, "
        f"memory {h['memory_bytes'] / 2**30:.1f} GiB, {h['kernel']}, transparent huge pages {h['huge_pages']}, "
        f"governor {h['governor']}, load before the run {h['load_before']:.2f}. Whole report: "
        f"[benchmarks/{name}.json](benchmarks/{name}.json).",
        ceilings_table(report),
    ]
    parts.append(f"![Shares of the limits](benchmarks/{name}.svg)")
    titles = {"beyond-cache": "Beyond the last-level cache", "in-cache": "In cache"}
    for size, title in titles.items():
        if any(r["size"] == size for r in report["results"]):
            parts += [f"### {title}", "Median of a call, bytes a second, share of the limit (F: FMA issue).", results_table(report, size)]
    return "\n\n".join(parts)


def figure(report, pyplot):
    """Shares of the limits, beyond the cache and in it."""

    def shares(size, threads):
        return [r for r in report["results"] if r["size"] == size and r["threads"] == threads and r["share"] is not None]

    threads = max(r["threads"] for r in report["results"])
    sizes = [size for size in ("beyond-cache", "in-cache") if shares(size, threads)]
    if not sizes:
        raise ValueError("no result in this report has a share of a limit")
    cases = in_order(r["case"] for size in sizes for r in shares(size, threads))
    targets = in_order(r["target"] for size in sizes for r in shares(size, threads))
    drawn, axes = pyplot.subplots(1, len(sizes), sharey=True, squeeze=False, figsize=(3 + 4.5 * len(sizes), 1.2 + 0.34 * len(cases)))
    height = 0.8 / len(targets)
    for axis, size in zip(axes[0], sizes, strict=True):
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
    return drawn


# Of bench/python's CSV: contender, its line in the page, whose ratio to verify + plan + commit is of interest.
OTHERS = (
    ("verify", "`verify` (state read, records written)", False),
    ("verify + plan + commit", "`verify` + `commit_plan` + `commit` (the states of all four tokens in place)", False),
    ("lazy verify", "lazy `verify` (three records folded)", False),
    ("gated_delta_rule", "`gated_delta_rule` (state read and written)", False),
    ("snapshots", "`gated_delta_rule_snapshots` (a state a token)", False),
    ("commit", "`commit` with its plan", False),
    ("conv + verify", "`causal_conv1d_window`, `verify`", False),
    ("vLLM speculative (a state a token)", "vLLM's speculative operation (a state a token)", True),
    ("vLLM decode, 4 calls", "vLLM's decode operation, four calls", True),
    ("transformers recurrent", "transformers `torch_recurrent_gated_delta_rule`", True),
    ("transformers chunk", "transformers `torch_chunk_gated_delta_rule`", True),
    ("transformers conv + recurrent", "transformers `causal_conv1d_update`, then recurrent", False),
)


def others(rows):
    """Eight rows of four tokens of bench/python's CSV, states rotating."""
    found = {r["contender"]: r for r in rows if (r["rows"], r["tokens"], r["states"]) == ("8", "4", "rotating")}
    verify = float(found["verify"]["median_ms"])
    lines = [["", "median", "against verify", "against verify + plan + commit"]]
    for contender, text, whole in OTHERS:
        r = found[contender]
        ratio = "" if contender == "verify" else f"{float(r['median_ms']) / verify:.1f} x"
        if contender == "transformers conv + recurrent":
            ratio = f"{float(r['ratio_to_conv_verify']):.1f} x of convolution and verify"
        median = time_text(float(r["median_ms"]) / 1e3)
        lines.append([text, median, ratio, f"{float(r['ratio_to_verify_plan_commit']):.1f} x" if whole else ""])
    return table(lines)
