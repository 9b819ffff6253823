"""Texts of the small real model under vLLM with the plugin against its texts without speculation, and what the plugin says it did.

Run by scripts/vllm-test. Greedy texts may part where two tokens are nearly as likely: then the token taken instead must be within BOUND (in
log probability, of the plain run) of the one that the plain run took. Exit status 1 if anything is not as it should be.
"""

from __future__ import annotations

import argparse
import sys
import traceback

import engines
from engines import PROMPTS, accepted_by_position, attention_specs, build, capacity, close, dummy_run, gdn_specs, greedy, metric, prompt, scheduler

BOUND = 0.25
failures: list[str] = []


def expect(right: bool, text: str) -> None:
    print(f"  {'ok' if right else 'WRONG'}: {text}", flush=True)
    if not right:
        failures.append(text)


def tokens_of(texts: list) -> list[list[int]]:
    return [list(one.outputs[0].token_ids) for one in texts]


def compare(plain: list, texts: list[list[int]], name: str) -> None:
    """Longest common beginnings; the gap where texts part."""
    same, worst, kept = 0, 0.0, 0
    for place, (expected, other) in enumerate(zip(plain, texts, strict=True)):
        ids = list(expected.outputs[0].token_ids)
        parts = next((i for i, (a, b) in enumerate(zip(ids, other, strict=False)) if a != b), None)
        expect_length = len(ids) == len(other)
        if not expect_length:
            expect(False, f"{name}: text {place} has {len(other)} tokens, expected {len(ids)}")
        if parts is None:
            same += 1
            kept += len(ids)
            continue
        kept += parts
        likely = expected.outputs[0].logprobs[parts]
        gap = likely[ids[parts]].logprob - likely[other[parts]].logprob if other[parts] in likely else float("inf")
        worst = max(worst, gap)
    total = sum(len(one.outputs[0].token_ids) for one in plain)
    text = f"{same} of {len(plain)} texts equal, {kept} of {total} tokens before they part"
    expect(worst <= BOUND, f"{name}: {text}; largest gap {worst:.4f} <= {BOUND}")


def by_transformers(tokens: int) -> list[list[int]]:
    """The same greedy texts by transformers, on which vLLM's own are checked."""
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(engines.MODELS / "hybrid-target", dtype=torch.bfloat16)
    model.generation_config.eos_token_id = None  # the end-of-text token is ignored
    texts, threads = [], torch.get_num_threads()
    torch.set_num_threads(1)  # small tensors, one token at a time
    for ids in PROMPTS:
        given = torch.tensor([list(ids)])
        texts.append(model.generate(given, attention_mask=torch.ones_like(given), max_new_tokens=tokens, do_sample=False)[0, len(ids) :].tolist())
    torch.set_num_threads(threads)
    return texts


def check_layer_without_constructor(layer: type) -> None:
    """It is vLLM's, and counted as a fallback."""
    from recoverssm.integrations.vllm import counters

    before, stock = counters.fallbacks, layer.__base__.forward_cpu
    layer.__base__.forward_cpu = lambda self, hidden_states: ("vLLM's", hidden_states)
    try:
        ran = layer.__new__(layer).forward_cpu(7)
    finally:
        layer.__base__.forward_cpu = stock
    expect(ran == ("vLLM's", 7) and counters.fallbacks == before + 1, "a layer made without its constructor is vLLM's, and a fallback")


def check_graphs_are_split() -> None:
    """Without a device nothing is captured; the list by which vLLM splits graphs can be looked at."""
    from recoverssm.integrations.vllm._layer import _split_graphs
    from vllm.config import CompilationConfig

    config = CompilationConfig(splitting_ops=["vllm::unified_attention"])
    _split_graphs(config), _split_graphs(config)
    right = config.splitting_ops == ["vllm::unified_attention", "vllm::recoverssm_gdn_attention"]
    whole = CompilationConfig(splitting_ops=[])
    _split_graphs(whole)
    expect(right and whole.splitting_ops == [], f"graphs in pieces are split at {config.splitting_ops}")


def run(reference, plain: list, name: str, speculation: str, tokens: int, *, alone: bool = False, preempt: bool = False, **named) -> tuple:
    """reference: the engine without speculation; plain: its texts of PROMPTS. Returns the capacity of this run's cache."""
    from recoverssm.integrations.vllm import counters, reset_counters

    reset_counters()
    engine = build(speculation, on=True, **named)
    prompts = [prompt(ids) for ids in PROMPTS]
    dummy_run(engine, 5)
    expect(counters.dummy_calls == 3, f"{name}: layers in a dummy run {counters.dummy_calls}")
    if preempt:
        # Texts that outgrow their last page of attention while no other is free.
        page = max(spec.block_size for spec in attention_specs(engine))
        prompts = [prompt((ids * page)[: page - tokens // 2]) for ids in PROMPTS]
        plain = reference.generate(prompts, greedy(tokens, logprobs=5), use_tqdm=False)
    if alone:
        texts = [engine.generate([one], greedy(tokens), use_tqdm=False)[0] for one in prompts]
    else:
        texts = engine.generate(prompts, greedy(tokens), use_tqdm=False)
    compare(plain, tokens_of(texts), name)
    specs = gdn_specs(engine)
    states = max(spec.max_memory_usage_bytes(engine.llm_engine.vllm_config) // spec.page_size_bytes for spec in specs)
    expect(states == 1, f"{name}: states per request {states}")
    expect(counters.layers == 3 and counters.stock_layers == 0, f"{name}: layers {counters.layers}, of them vLLM's {counters.stock_layers}")
    expect(counters.fallbacks == 0, f"{name}: fallbacks {counters.fallbacks}")
    expect(counters.window_rows > 0 and counters.plain_rows > 0, f"{name}: {counters}")
    expect(counters.short_windows > 0 or speculation == "draft", f"{name}: windows shorter than {engines.DRAFTS + 1}: {counters.short_windows} calls")
    drafted, accepted = metric(engine, "spec_decode_num_draft_tokens"), metric(engine, "spec_decode_num_accepted_tokens")
    expect(accepted > 0, f"{name}: accepted {accepted:.0f} of {drafted:.0f} drafts, by position {accepted_by_position(engine)}")
    preemptions = metric(engine, "num_preemptions")
    expect(preemptions > 0 or not preempt, f"{name}: preemptions {preemptions:.0f}")
    if "max_num_batched_tokens" in named:
        longest, limit = max(map(len, PROMPTS)), scheduler(engine).max_num_scheduled_tokens
        # Every prompt has one plain row at least a layer; chunks are more of them.
        expect(longest > limit and counters.plain_rows > 3 * len(PROMPTS), f"{name}: prompts of up to {longest} tokens in chunks of {limit}")
    fit = capacity(engine)
    close(engine)
    return fit


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=96, help="tokens a text")
    parser.add_argument("--only", default="", help="names of runs, with commas between them")
    arguments = parser.parse_args()
    tokens, only = arguments.tokens, set(filter(None, arguments.only.split(",")))

    print(engines.versions())
    print(f"plain texts, {len(PROMPTS)} prompts of {min(map(len, PROMPTS))} to {max(map(len, PROMPTS))} tokens, {tokens} tokens each", flush=True)
    reference = build("none", on=False)
    plain = reference.generate([prompt(ids) for ids in PROMPTS], greedy(tokens, logprobs=5), use_tqdm=False)
    for one in plain[:3]:
        print("   ", bytes(i for i in one.outputs[0].token_ids if 0 < i < 256)[:70])
    # A model that says one thing whatever is asked would agree with everything.
    said = {tuple(one.outputs[0].token_ids) for one in plain}
    expect(len(said) == len(plain) and all(len(set(ids)) > 1 for ids in said), f"plain texts: {len(said)} different ones")

    from recoverssm.integrations.vllm._layer import RecoverSSMGatedDeltaNetAttention as Layer

    check_layer_without_constructor(Layer)
    check_graphs_are_split()
    compare(plain, by_transformers(tokens), "plain texts, transformers' beside them")

    runs = {
        "ngram-8": dict(speculation="ngram", max_num_seqs=8),
        "draft-8": dict(speculation="draft", max_num_seqs=8),
        "draft-4": dict(speculation="draft", max_num_seqs=4),
        "ngram-4": dict(speculation="ngram", max_num_seqs=4),
        "draft-alone": dict(speculation="draft", max_num_seqs=1, alone=True),
        "ngram-alone": dict(speculation="ngram", max_num_seqs=1, alone=True),
        "ngram-chunked": dict(speculation="ngram", max_num_seqs=8, max_num_batched_tokens=48),
        "draft-chunked": dict(speculation="draft", max_num_seqs=4, max_num_batched_tokens=48),
        # One page more than the null one and those of the first page of each: four for n-grams, whose groups have one layer each, else two.
        "ngram-preempted": dict(speculation="ngram", max_num_seqs=8, preempt=True, num_gpu_blocks_override=34),
        "draft-preempted": dict(speculation="draft", max_num_seqs=8, preempt=True, num_gpu_blocks_override=18),
    }
    with_plugin = None
    for name, given in runs.items():
        if not only or name in only:
            print(name, flush=True)
            try:
                fit = run(reference, plain, name, tokens=tokens, **given)
            except Exception:  # the other runs are still worth their time
                traceback.print_exc()
                expect(False, f"{name}: did not end")
                continue
            if name == "draft-8":
                with_plugin = fit
    if with_plugin is not None:
        print("capacity of the same cache", flush=True)
        engine = build("draft", on=False)
        pages, fit = capacity(engine)
        print(f"  vLLM's own: {pages} pages, {fit:.0f} tokens, {1 + gdn_specs(engine)[0].num_speculative_blocks} states a request")
        print(f"  plugin: {with_plugin[0]} pages, {with_plugin[1]:.0f} tokens")
        expect(with_plugin[1] > fit, f"capacity: {with_plugin[1] / fit:.2f} times as many tokens")
        texts = tokens_of(engine.generate([prompt(ids) for ids in PROMPTS], greedy(tokens), use_tqdm=False))
        equal = sum(one == other for one, other in zip(tokens_of(plain), texts, strict=True))
        print(f"  vLLM's own layers with the draft model, without the plugin: {equal} of {len(plain)} texts equal")
        close(engine)
    print("left out: " + ", ".join(name for name in runs if only and name not in only) if only else "nothing left out")
    print(f"{len(failures)} of the expectations failed" if failures else "all as expected")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
