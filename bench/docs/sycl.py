"""What docs/benchmarks/sycl-cpu.md shows: CSVs of `recoverssm bench --backend sycl` and of the native backend at the same shapes."""

from markdown import table, time_text


def _key(r):
    return tuple(r[name] for name in ("case", "rows", "tokens", "layers", "records", "H", "HV", "K", "V", "activation", "state"))


def markdown(sycl, native):
    beside = {_key(r): r for r in native if not r["skipped"]}
    lines = [["8 rows", "T", "layers", "SYCL", "of its limit", "native", "SYCL's speed"]]
    for r in sycl:
        if r["skipped"]:
            continue
        other = beside.get(_key(r))
        seconds, share = float(r["median_s"]), r["share"]
        lines.append([
            r["case"], r["tokens"], r["layers"], time_text(seconds), f"{100 * float(share):.0f} %" if share else "-",
            time_text(float(other["median_s"])) if other else "-",
            f"{100 * float(other['median_s']) / seconds:.0f} %" if other else "-",
        ])  # fmt: skip
    return table(lines)
