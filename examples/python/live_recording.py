"""Records a speculative run of the bundled model, then merges and repacks what it captured.

    python examples/python/live_recording.py FOLDER
    recoverssm replay FOLDER/*/*.rst.safetensors

FOLDER/run has every operation call of two turns of `generate` with prompt lookup. FOLDER/merged has the last plain rows and the last window of each
recurrent layer as one mixed batch, the convolution's and the delta rule's; FOLDER/repacked has every projection in the other layout. Each is
compared bit by bit with the run's own results (python -m recoverssm.trace merge, repack). Exit status 1 if anything differs.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import sys
from collections import Counter, defaultdict
from pathlib import Path

import recoverssm
import recoverssm.transformers
import torch
import transformers
from recoverssm import demo, trace
from recoverssm.trace.__main__ import main as trace_tool
from recoverssm.trace.replay import replay

PROMPT = "git log shows the commit logs. git log --oneline shows "
PAIRS = (("causal_conv1d", "causal_conv1d_window"), ("gated_delta_rule", "gated_delta_rule_verify"))


def record(folder: Path) -> tuple[dict[str, list[Path]], int]:
    """The recorded files by operation, in the order of the calls, and the number of recurrent layers."""
    model = recoverssm.transformers.enable(demo.load("target"), max_drafts=4)
    # transformers 5.24 renamed the argument.
    name = "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"
    options = {name: transformers.DynamicCache(config=model.config), "max_new_tokens": 16, "do_sample": False, "prompt_lookup_num_tokens": 4}
    with recoverssm.record(folder, limit=400) as recorder:
        ids = demo.encode(PROMPT)
        text = model.generate(ids, **options)
        # A second turn: its input is longer than a window, so that its first tokens are plain rows on the lines and states of the first turn.
        ids = torch.cat([text, demo.encode(" Then use git ")], 1)
        text = model.generate(ids, **options)
    if recorder.skipped:
        raise SystemExit(f"not everything was recorded: {dict(recorder.skipped)}")
    print(f"recorded {len(recorder.files)} calls of two turns, {text.shape[1]} tokens in all, {recorder.bytes / 1e6:.1f} MB")
    files: dict[str, list[Path]] = defaultdict(list)
    for path in recorder.files:
        files[trace.read(path).document["calls"][0]["op"]].append(path)
    print("  " + ", ".join(f"{len(paths)} {name}" for name, paths in files.items()))
    return files, model.config.layer_types.count("linear_attention")


def tool(*arguments: str | Path) -> bool:
    """python -m recoverssm.trace ARGUMENTS; what it printed only where something differs."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        code = trace_tool([str(argument) for argument in arguments])
    if code != 0:
        print(f"python -m recoverssm.trace {' '.join(map(str, arguments))}: exit status {code}\n{printed.getvalue()}", end="")
    return code == 0


def main(folder: Path) -> int:
    files, layers = record(folder / "run")
    results: Counter[tuple[str, bool]] = Counter()
    for name in ("merged", "repacked"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for plain, window in PAIRS:
        for layer in range(layers):
            out = folder / "merged" / f"layer{layer}.{plain}.rst.safetensors"
            results["merge", tool("merge", files[plain][layer - layers], files[window][layer - layers], "--out", out)] += 1
    for path in files["split_projections"]:
        results["repack", tool("repack", path, "--out", folder / "repacked" / path.name)] += 1
    for path in sorted(folder.glob("*/*.rst.safetensors")):
        results[f"replay of {path.parent.name}", replay(path)["ok"]] += 1
    for (what, good), count in sorted(results.items()):
        print(f"{what}: {count} {'with the same bits' if good else 'DIFFER'}")
    return int(any(not good for _, good in results))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: live_recording.py FOLDER")
    sys.exit(main(Path(sys.argv[1])))
