"""python -m recoverssm.demo: the small model, with and without speculation."""

from __future__ import annotations

import argparse
import logging
import sys
import textwrap
from pathlib import Path

from .. import sizes

PROMPT = "Horse \\Horse\\ (h[^o]rs), n. 1. (Zool.) A large "


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m recoverssm.demo", description="Generate text with and without speculation.")
    parser.add_argument("--prompt", default=PROMPT, help="what the text starts with")
    parser.add_argument("--tokens", type=int, default=160, help="tokens (bytes) to generate, %(default)s")
    parser.add_argument("--drafts", type=int, default=4, help="drafts a forward, %(default)s")
    parser.add_argument("--threads", type=int, default=0, help="of PyTorch; 0: as many as it likes")
    parser.add_argument("--figure", type=Path, default=Path("recoverssm-demo.svg"), help=".svg or .png, %(default)s")
    options = parser.parse_args()
    if options.tokens < 1 or options.drafts < 1 or not options.prompt:
        parser.error("--tokens and --drafts: expected at least 1, --prompt: not empty")
    if options.figure.suffix not in (".svg", ".png"):
        parser.error(f"--figure: {options.figure}, expected a name that ends in .svg or .png")
    try:
        import matplotlib  # noqa: F401
        import torch
        import tqdm
        import transformers
    except ImportError as error:
        return _missing(error)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    logging.getLogger("transformers").setLevel(logging.ERROR)
    if options.threads:
        torch.set_num_threads(options.threads)

    from ..transformers import agreement, enable
    from . import decode, encode, load
    from ._figure import draw
    from ._measure import measure

    model, draft = enable(load("target")), load("draft")
    draft.generation_config.num_assistant_tokens = options.drafts
    ways = {
        "plain": {},
        "prompt lookup": {"prompt_lookup_num_tokens": options.drafts},
        "assistant": {"assistant_model": draft},
    }
    ids = encode(options.prompt)
    with tqdm.tqdm(total=len(ways) * options.tokens, unit="token", disable=None) as bar:
        runs = []
        for name, way in ways.items():
            bar.set_description(name)
            runs.append(measure(name, model, ids, bar.update, max_new_tokens=options.tokens, do_sample=False, **way))

    plain = runs[0]
    print("Prompt and text (greedy):")
    print(textwrap.indent(decode(plain.ids[0]), "  "))
    print()
    print(f"{'':15}{'tokens':>8}{'forwards':>10}{'a token':>9}{'drafts':>8}{'accepted':>10}{'seconds':>9}  text")
    for run in runs:
        drafted = f"{sum(run.drafts):>8}{run.acceptance:>10.1%}" if sum(run.drafts) else f"{'-':>8}{'-':>10}"
        counts = f"{run.tokens:>8}{run.forwards:>10}{run.forwards / run.tokens:>9.2f}"
        print(f"{run.name:15}{counts}{drafted}{run.seconds:>9.2f}  {_compare(model, plain, run, agreement)}")

    config = model.config
    layers = config.layer_types.count("linear_attention")
    geometry = {
        "H": config.linear_num_key_heads,
        "HV": config.linear_num_value_heads,
        "K": config.linear_key_head_dim,
        "V": config.linear_value_head_dim,
        "W": config.linear_conv_kernel_dim,
        "activation": "f32",
    }
    table = [sizes(S=1 + drafts, **geometry) for drafts in range(options.drafts + 1)]
    own, copies = table[-1].page_anchored * layers, table[-1].snapshots * layers
    print()
    print(f"Memory per request, {layers} recurrent layers, {options.drafts} drafts:")
    print(f"  one state and records  {own:>12,} bytes")
    print(f"  a state a token        {copies:>12,} bytes, {copies / own:.1f} times as much")
    draw(options.figure, runs[1:], table, layers)
    print(f"Figure: {options.figure}")
    return 0


def _compare(model, plain, run, agreement) -> str:
    if run is plain:
        return ""
    if run.ids.equal(plain.ids):
        return "the same"
    found = agreement(model, run.ids, run.prompt)
    return (
        f"{len(found.ties)} ties (two logits closer than {found.bound:g}), {len(found.differences)} other differences, "
        f"largest gap {found.largest_gap:.2g}"
    )


def _missing(error: ImportError) -> int:
    print(f"recoverssm.demo: {error}; it needs torch >= 2.10, transformers >= 5.17, matplotlib and tqdm", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
