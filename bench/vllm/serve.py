"""Serving the small real model with vLLM on the CPU: without speculation, with vLLM's own, with the plugin.

    scripts/vllm-bench                        20 prompts of 256 random bytes, 512 tokens each, one and four at a time, three rounds
    scripts/vllm-bench --prompts 4 --output 64 --rounds 1 --speculation draft

All engines live in one process and take turns in every round. Greedy, the end-of-text token is ignored. Printed as a table, with --json
written as JSON. Log probabilities are of the tokens that both texts have before they part. Exit status 1 if a layer of the plugin fell back,
or none ran.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests/vllm"))
import engines


class Windows:
    """An engine's windows that have drafts, as its scheduler sees them: vLLM's metrics are one for all engines of a process."""

    def __init__(self, engine) -> None:
        self.of: dict[str, list[tuple[int, int]]] = {}  # by request: drafts and how many of them were accepted
        scheduler = engines.scheduler(engine)
        self.original, scheduler.make_spec_decoding_stats = scheduler.make_spec_decoding_stats, self.count

    def count(self, stats, num_draft_tokens: int, num_accepted_tokens: int, request_id: str, **named):
        if num_draft_tokens > 0:
            # vLLM puts eight random characters behind the name that a request was given.
            self.of.setdefault(request_id.rsplit("-", 1)[0], []).append((num_draft_tokens, num_accepted_tokens))
        given = {"num_draft_tokens": num_draft_tokens, "num_accepted_tokens": num_accepted_tokens, "request_id": request_id}
        return self.original(stats, **given, **named)

    def taken(self, requests: list[str] | None = None) -> dict:
        """Sums over some requests, or all: shares of the drafts and, by position, of the windows."""
        windows = [one for name in (self.of if requests is None else requests) for one in self.of.get(name, [])]
        drafts, kept = sum(d for d, _ in windows), sum(k for _, k in windows)
        shares = [sum(k > position for _, k in windows) / max(len(windows), 1) for position in range(engines.DRAFTS)]
        return {"windows": len(windows), "drafts": drafts, "accepted": kept, "acceptance": kept / max(drafts, 1),
                "length": 1 + kept / max(len(windows), 1), "positions": shares}  # fmt: skip


def in_words(taken: dict) -> str:
    shares = ", ".join(f"{share:.3f}" for share in taken["positions"])
    return (f"{taken['acceptance']:.3f} of {taken['drafts']} drafts accepted, {taken['length']:.3f} tokens a window, "
            f"by position {shares}")  # fmt: skip


def serve(engine, prompts: list[bytes], output: int, concurrency: int) -> dict:
    """One run: so many requests in flight, the next one added when one ends."""
    core, waiting, started, times, results = engine.llm_engine, list(enumerate(prompts)), {}, {}, {}
    begin = time.perf_counter()
    names = [f"{begin}-{place}" for place in range(len(prompts))]
    while waiting or len(results) < len(prompts):
        while waiting and len(started) - len(results) < concurrency:
            place, ids = waiting.pop(0)
            started[place] = time.perf_counter()
            times[place] = []
            core.add_request(names[place], engines.prompt(ids), engines.greedy(output, logprobs=0))
        for one in core.step():
            place = int(one.request_id.rsplit("-", 1)[1].split("_")[0])
            times[place].append((time.perf_counter(), len(one.outputs[0].token_ids)))
            if one.finished:
                results[place] = one
    wall = time.perf_counter() - begin
    tokens = [list(results[place].outputs[0].token_ids) for place in range(len(prompts))]
    likely = [results[place].outputs[0].logprobs for place in range(len(prompts))]
    chosen = [[entry[token].logprob for token, entry in zip(ids, given, strict=True)] for ids, given in zip(tokens, likely, strict=True)]
    return {
        "wall": wall,
        "throughput": sum(map(len, tokens)) / wall,
        "ttft": statistics.median(times[place][0][0] - started[place] for place in started),
        "tpot": statistics.median((times[p][-1][0] - times[p][0][0]) / max(times[p][-1][1] - times[p][0][1], 1) for p in started),
        "tokens": tokens,
        "logprobs": chosen,
        "requests": names,
    }


def differences(plain: dict, other: dict) -> tuple[float, float, int, int]:
    """Largest and mean difference of log probabilities of common tokens, their number, and how many texts are equal."""
    found, same = [], 0
    for ids, likely, others, other_likely in zip(plain["tokens"], plain["logprobs"], other["tokens"], other["logprobs"], strict=True):
        common = next((i for i, (a, b) in enumerate(zip(ids, others, strict=False)) if a != b), min(len(ids), len(others)))
        same += common == len(ids) == len(others)
        found += [abs(a - b) for a, b in zip(likely[:common], other_likely[:common], strict=True)]
    return max(found, default=0.0), statistics.fmean(found) if found else 0.0, len(found), same


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompts", type=int, default=20)
    parser.add_argument("--input", type=int, default=256, help="bytes of a prompt")
    parser.add_argument("--output", type=int, default=512, help="tokens of a text")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--speculation", choices=["draft", "ngram"], default="draft")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    draw = random.Random(7)
    # Random, but of bytes that texts are made of: the model has never seen others.
    prompts = [bytes(draw.choice(b"abcdefghijklmnopqrstuvwxyz ABC.,\n012") for _ in range(given.input)) for _ in range(given.prompts)]
    most = max(given.concurrency)

    from recoverssm.integrations.vllm import _drafter, counters

    # Else vLLM's own layers and its draft model write into each other's pages, and there is nothing to measure.
    _drafter.for_stock_layers = True
    print(engines.versions())
    paths = {"plain": ("none", False), "stock": (given.speculation, False), "plugin": (given.speculation, True)}
    built = {name: engines.build(speculation, on=on, max_num_seqs=most, max_model_len=1024) for name, (speculation, on) in paths.items()}
    # By path, why it has no figures. Its engine stays in `built`: the end of one engine takes vLLM's process groups from all of this process.
    left_out: dict[str, str] = {}

    def served(name: str, *arguments) -> dict | None:
        """A run of this path; None if vLLM's own speculation, which does not run everywhere, ends with an error."""
        try:
            return serve(built[name], *arguments)
        except Exception as error:
            if name != "stock":
                raise
            left_out[name] = f"{type(error).__name__}: {error}"
            print(f"left out: {name}: {left_out[name]}", flush=True)
            return None

    for name in built:
        served(name, prompts[:2], 8, 1)
    runs: dict[tuple[str, int], list[dict]] = {(name, c): [] for c in given.concurrency for name in built}
    counted = {name: Windows(engine) for name, engine in built.items()}
    for turn in range(given.rounds):
        for c in given.concurrency:
            for name in built:
                if name in left_out or (run := served(name, prompts, given.output, c)) is None:
                    continue
                runs[name, c].append(run)
                print(f"round {turn + 1}, {c} at a time, {name}: {run['wall']:.1f} s", file=sys.stderr, flush=True)
    rows = []
    print(f"{given.prompts} prompts of {given.input} tokens, {given.output} tokens each, {given.rounds} rounds")
    corrected = "; vLLM's own draft-model path with the plugin's correction of its pages" if given.speculation == "draft" else ""
    print(f"speculation: {given.speculation}, {engines.DRAFTS} drafts{corrected}")
    print("| path | at a time | tokens/s | wall s | TPOT ms | TTFT ms | texts as plain | logprob max | mean |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for (name, c), taken in runs.items():
        if name in left_out:
            rows.append({"path": name, "concurrency": c, "left_out": left_out[name]})
            print(f"| {name} | {c} | left out: {left_out[name]} | | | | | | |")
            continue
        middle = {key: statistics.median(run[key] for run in taken) for key in ("throughput", "wall", "tpot", "ttft")}
        largest, mean, common, same = differences(runs["plain", c][0], taken[0])
        found = {"texts_equal": same, "logprob_max": largest, "logprob_mean": mean, "common_tokens": common}
        rows.append({"path": name, "concurrency": c, **middle, **found})
        print(f"| {name} | {c} | {middle['throughput']:.1f} | {middle['wall']:.1f} | {1000 * middle['tpot']:.2f} | {1000 * middle['ttft']:.1f}"
              f" | {same} of {given.prompts} | {largest:.4f} | {mean:.5f} |")  # fmt: skip
    for name, windows in counted.items():
        if windows.of and name not in left_out:
            rows.append({"path": name, **windows.taken()})
            print(f"{name}: {in_words(rows[-1])}")
    for c in given.concurrency:
        if left_out:
            break
        # The same text is the same work for the draft model; where texts differ they may be as predictable as they like.
        texts = {name: runs[name, c][0]["tokens"] for name in ("stock", "plugin")}
        alike = [a == b for a, b in zip(*texts.values(), strict=True)]
        for kind, which in (("alike", True), ("different", False)):
            for name in texts:
                requests = [one for one, same in zip(runs[name, c][0]["requests"], alike, strict=True) if same == which]
                rows.append({"path": name, "concurrency": c, "texts": kind, "of": len(requests), **counted[name].taken(requests)})
                print(f"{c} at a time, {len(requests)} texts {kind} with stock and plugin, {name}: {in_words(rows[-1])}")
    print(counters)
    if given.json:
        arguments = {name: str(value) for name, value in vars(given).items()}
        given.json.write_text(json.dumps({"arguments": arguments, "rows": rows, "counters": vars(counters)}, indent=1) + "\n")
    print(f"fallbacks: {counters.fallbacks}")
    # Layers that are vLLM's under the plugin too would make no fallback: they would run no window here.
    return 1 if counters.fallbacks or not counters.window_rows else 0


if __name__ == "__main__":
    sys.exit(main())
