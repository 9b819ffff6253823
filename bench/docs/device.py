"""What docs/benchmarks/NAME.md shows of a device: the CSV of `recoverssm bench --backend cuda` and that of bench/cuda/peer.py."""

import csv

from markdown import in_order, table

ROWS, WINDOWS = (1, 8, 32, 64, 128, 256), (1, 2, 4, 8)
COLORS = {1: "#7a7a7a", 2: "#1b6ca8", 4: "#e08e0b", 8: "#a83232"}


def read_csv(path):
    with open(path, encoding="utf-8") as lines:
        return list(csv.DictReader(line for line in lines if not line.startswith("#")))


def _number(text):
    return float(text) if text else None


def _new(r):
    return {
        "case": r["case"].removesuffix("." + r["gate"]) if r["gate"] else r["case"],
        "gate": r["gate"], "rows": int(r["rows"]), "tokens": int(r["tokens"]), "layers": int(r["layers"]), "state": r["state"],
        "us": float(r["median_s"]) * 1e6, "share": _number(r["share"]), "host_us": _number(r["host_s"]) and float(r["host_s"]) * 1e6,
        "compared": r["compared"],
    }  # fmt: skip


class Run:
    """Figures by what they are of."""

    def __init__(self, rows, peers):
        self.all = [_new(r) for r in rows if r.get("skipped", "") == ""]
        self.peers = [{**r, "rows": int(r["rows"]), "tokens": int(r["tokens"]), "us": float(r["us"])} for r in peers]

    def find(self, case, rows, tokens, gate="gdn", state="f32", layers=None):
        for r in self.all:
            of = (r["case"], r["rows"], r["tokens"], r["state"]) == (case, rows, tokens, state) and r["gate"] in (gate, "")
            if of and layers in (None, r["layers"]):
                return r
        return None

    def peer(self, contender, rows, tokens, gate="gdn"):
        for r in self.peers:
            if (r["contender"], r["rows"], r["tokens"], r["gate"]) == (contender, rows, tokens, gate):
                return r["us"]
        return None

    def rule(self, rows, tokens, gate="gdn", state="f32"):
        case = "gated_delta_rule.decode" if tokens == 1 else "gated_delta_rule.window"
        return self.find(case, rows, tokens, gate, state) or self.find("gated_delta_rule.window", rows, tokens, gate, state)


def text(value, digits=1, unit=""):
    return "-" if value is None else f"{value:.{digits}f}{unit}"


def us(found):
    return found and found["us"]


def windows_table(run, gate, state):
    """verify beside everything else that runs a window."""
    lines = [["rows x T", "verify, us", "of bound", "FLA recurrent, us", "FLA / verify", "verify lazy, us", "snapshots, us", "plain, us",
              "FLA with final state, us"]]  # fmt: skip
    for rows in ROWS:
        for tokens in WINDOWS:
            verify = run.find(f"gated_delta_rule_verify.t{tokens}", rows, tokens, gate, state)
            if verify is None:
                continue
            peer = run.peer("FLA recurrent", rows, tokens, gate) if state == "f32" else None
            beside = run.peer("verify", rows, tokens, gate) or verify["us"]  # of the process that ran FLA, where there is one
            lines.append([
                f"{rows} x {tokens}", text(verify["us"]), text(1 / verify["share"], 2, "x"), text(peer),
                text(peer and peer / beside, 2, "x"),
                text(us(run.find("gated_delta_rule_verify.lazy", rows, tokens, gate, state))),
                text(us(run.find(f"gated_delta_rule_snapshots.t{tokens}", rows, tokens, gate, state))),
                text(us(run.rule(rows, tokens, gate, state))),
                text(run.peer("FLA recurrent, final state", rows, tokens, gate) if state == "f32" else None),
            ])  # fmt: skip
    return table(lines) if len(lines) > 1 else ""


def conv_table(run):
    lines = [["convolution and verify of 2 tokens", "fp32 states, us", "bf16 states, us"]]
    for rows in (1, 8, 13):
        found = [run.find("conv_verify", rows, 2, state=state) for state in ("f32", "bf16")]
        if any(found):
            lines.append([f"{rows} row{'s' * (rows > 1)}", *(text(us(r)) for r in found)])
    return table(lines) if len(lines) > 1 else ""


def attention_table(run):
    lines = [["gdn_attention, a layer in three launches", "a token a row, us", "verify of 4 tokens, us"]]
    for rows in (1, 8, 32, 64, 128, 256):
        found = [run.find(f"gdn_attention.{part}", rows, tokens) for part, tokens in (("decode", 1), ("verify", 4))]
        if any(found):
            lines.append([f"{rows} row{'s' * (rows > 1)}", *(text(us(r)) for r in found)])
    return table(lines) if len(lines) > 1 else ""


def commit_table(run):
    lines = [["commit, T = 4, 3 kept", "us", "of copy", "host, us"]]
    for r in run.all:
        if r["case"].startswith("commit.") and r["gate"] == "gdn" and r["state"] == "f32":
            name = r["case"].removeprefix("commit.").replace("_", " ")
            lines.append([f"{name}, {r['layers']} layers x {r['rows']} rows", text(r["us"], 0), text(100 * r["share"], 1, " %"), text(r["host_us"])])
    if all(line[3] == "-" for line in lines[1:]):
        lines = [line[:3] for line in lines]
    return table(lines) if len(lines) > 1 else ""


def prefill_table(run):
    lines = [["prefill", "plain, us", "FLA recurrent with final state, us", "FLA chunk, us"]]
    for rows in (1, 4):
        for tokens in (512, 2048):
            found = run.find("gated_delta_rule.prefill", rows, tokens)
            if found:
                peers = (run.peer(f"FLA {kind}, final state", rows, tokens) for kind in ("recurrent", "chunk"))
                lines.append([f"{rows} x {tokens}", text(found["us"], 0), *(text(peer, 0) for peer in peers)])
    if all(line[3] == "-" for line in lines[1:]):
        lines = [line[:3] for line in lines]
    return table(lines) if len(lines) > 1 else ""


def step_table(run):
    forms = ("records", "lazy", "snapshots")
    lines = [["step of 12 layers, T = 4, 3 kept", *(f"{form}, us" for form in forms), "snapshots / lazy"]]
    for rows in in_order(r["rows"] for r in run.all if r["case"].startswith("step.")):
        found = [us(run.find(f"step.{form}", rows, 4)) for form in forms]
        ratio = found[2] / found[1] if found[1] and found[2] else None
        lines.append([f"{rows} row{'s' * (rows > 1)}", *(text(value, 0) for value in found), text(ratio, 2, "x")])
    return table(lines) if len(lines) > 1 else ""


def markdown(run, name):
    parts = [f"![Verify against its bound, commit against a copy]({name}.svg)"]
    for gate in ("gdn", "kda"):
        for state in ("f32", "bf16"):
            made = windows_table(run, gate, state)
            if made:
                parts += [made] if (gate, state) == ("gdn", "f32") else [f"{gate}, {state} states:", made]
    parts += [part for part in (conv_table(run), attention_table(run), commit_table(run), prefill_table(run), step_table(run)) if part]
    return "\n\n".join(parts)


def figure(run, pyplot):
    """Time of verify over its bound, and commit's share of a copy."""
    drawn, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.5))
    for tokens in WINDOWS:
        found = [r for rows in ROWS if (r := run.find(f"gated_delta_rule_verify.t{tokens}", rows, tokens))]
        left.plot([r["rows"] for r in found], [1 / r["share"] for r in found], "o-", color=COLORS[tokens], label=f"T = {tokens}")
        peers = [(r["rows"], peer / (r["us"] * r["share"])) for r in found if (peer := run.peer("FLA recurrent", r["rows"], tokens))]
        left.plot(*zip(*peers, strict=True), "x--", color=COLORS[tokens], linewidth=0.8) if peers else None
    left.set_xscale("log", base=2)
    left.set_yscale("log", base=2)
    left.set_xticks(ROWS, [str(rows) for rows in ROWS])
    left.set_yticks([1, 2, 4, 8, 16], ["1", "2", "4", "8", "16"])
    left.set_xlabel("rows")
    left.set_title("verify (dashed: FLA recurrent): time / bound", fontsize=10)
    left.grid(alpha=0.3)
    left.legend(fontsize=8)
    commits = [r for r in run.all if r["case"].startswith("commit.") and r["gate"] == "gdn" and r["state"] == "f32"]
    names = [f"{r['case'].removeprefix('commit.').replace('_', ' ')}, {r['layers']} x {r['rows']}" for r in commits]
    right.barh(range(len(commits)), [100 * r["share"] for r in commits], 0.7, color=COLORS[2])
    right.set_yticks(range(len(commits)), names, fontsize=8)
    right.invert_yaxis()
    right.axvline(100, color="black", linewidth=0.8)
    right.set_title("commit (layers x rows): % of the best copy", fontsize=10)
    right.grid(axis="x", alpha=0.3)
    right.set_axisbelow(True)
    drawn.tight_layout()
    return drawn
