"""recoverssm beside flash-linear-attention and torch, in one process, on the same tensors: results first, then time.

    python bench/cuda/peer.py --library LIBRECOVERSSM.SO [--csv FILE] [--quick]
    python bench/cuda/peer.py --library LIBRECOVERSSM.SO --device cpu      # the comparison with torch alone: no FLA, no time

Inputs: x goes through recoverssm's convolution; q, k and v are views of its output, for everyone. States are [rows, HV, V, K] fp32, gates
raw (FLA computes decay and sigmoid in its kernel, as recoverssm does). Results: largest differences of outputs, records and states against
the formula in torch, double and single precision, and against FLA. Time: a CUDA graph of each contender over the same layers, whose states
together exceed the L2 five times; replays in turns, one of each after the other; median of 50, divided by the layers.
"""

import argparse
import csv
import signal
import statistics
import sys

import torch
import torch.nn.functional as F
from abi import GATES, LINE_ANCHORED, SILU, Library

H, HV, K, V, W = 16, 48, 128, 128, 4
C = 2 * H * K + HV * V
ROTATION = 320 << 20
REPLAYS, WARM_UP = 50, 5


class Layer:
    """One layer's tensors, and the calls of recoverssm on them. block i of every pool is row i's."""

    def __init__(self, library, device, rows, tokens, gate, seed, records=True):
        generator = torch.Generator(device=device).manual_seed(seed)

        def draw(*shape, dtype=torch.bfloat16):
            return torch.randn(*shape, generator=generator, device=device).to(dtype)

        self.rows, self.tokens, self.gate, n = rows, tokens, gate, rows * tokens
        self.x, self.weight = draw(n, C), draw(C, W) * 0.5
        self.mixed = torch.empty_like(self.x)
        q, k, v = self.mixed.split([H * K, H * K, HV * V], dim=1)
        self.q, self.k, self.v = q.unflatten(1, (H, K)), k.unflatten(1, (H, K)), v.unflatten(1, (HV, V))
        self.a = draw(n, HV) if gate == "gdn" else draw(n, HV, K)
        self.b = draw(n, HV)
        self.A_log = torch.rand(HV, generator=generator, device=device) * 2
        self.dt_bias = draw(HV, dtype=torch.float32) if gate == "gdn" else draw(HV, K, dtype=torch.float32)
        self.state = draw(rows, HV, V, K, dtype=torch.float32) * 0.1
        self.line = draw(rows, W - 1 + tokens, C) if records else draw(rows, W - 1 + 1, C)
        self.out = torch.empty(n, HV, V, dtype=torch.bfloat16, device=device)
        offsets = torch.arange(rows + 1, dtype=torch.int32, device=device) * tokens
        blocks = torch.arange(rows, dtype=torch.int32, device=device)
        shared = {"query_start_loc": offsets, "state_indices": blocks, "null_block_id": -1}
        windows = library.make("rows", window_capacity=tokens, **shared)
        plain = library.make("rows", **shared)
        inputs = library.make(
            "rule_inputs", q=self.q, k=self.k, v=self.v, a=self.a, b=self.b, A_log=self.A_log, dt_bias=self.dt_bias, gate=GATES[gate]
        )
        if records:
            self.conv = library.call(
                "causal_conv1d_window", device, x=self.x, weight=self.weight, out=self.mixed, line=self.line, rows=windows,
                activation=SILU, line_kind=LINE_ANCHORED,
            )  # fmt: skip
            self.packed = self.corrections = self.key_gate = None
            if gate == "gdn":
                self.packed = torch.zeros(rows, HV, tokens, V + K + 1, device=device)
                made = library.make("records", packed=self.packed)
            else:
                self.corrections = torch.zeros(rows, HV, tokens, V, device=device)
                self.key_gate = torch.zeros(rows, HV, tokens, 2 * K, dtype=torch.bfloat16, device=device)
                made = library.make("records", corrections=self.corrections, key_gate=self.key_gate)
            self.verify = library.call(
                "gated_delta_rule_verify", device, inputs=inputs, rows=windows, records=made, state=self.state, out=self.out
            )
        else:
            self.mixed.copy_(self.x)
        self.plain = library.call("gated_delta_rule", device, inputs=inputs, rows=plain, state=self.state, out=self.out)

    def by_row(self, tensor):
        return tensor.view(self.rows, self.tokens, *tensor.shape[1:])

    def fla_inputs(self):
        """q, k and v as FLA reads them: contiguous, rows first."""
        return {name: self.by_row(getattr(self, name).contiguous()) for name in ("q", "k", "v")}


def reference(layer, state, dtype):
    """Outputs, corrections, keys, decays and the final state, of the formula in `dtype`."""
    q, k, v, a, b = (t.to(dtype) for t in (layer.q, layer.k, layer.v, layer.a, layer.b))
    q = (q * torch.rsqrt((q * q).sum(-1, keepdim=True) + 1e-6) * K**-0.5).repeat_interleave(HV // H, 1)
    k = (k * torch.rsqrt((k * k).sum(-1, keepdim=True) + 1e-6)).repeat_interleave(HV // H, 1)
    amplitude = layer.A_log.to(dtype).exp()
    if layer.gate == "kda":
        amplitude = amplitude[:, None]
    decay = torch.exp(-amplitude * F.softplus(a + layer.dt_bias.to(dtype)))
    beta, h = b.sigmoid(), state.to(dtype)
    outs, corrections = [], []
    for t in range(layer.tokens):
        i = torch.arange(layer.rows, device=state.device) * layer.tokens + t
        d = decay[i][..., None, None] if layer.gate == "gdn" else decay[i][:, :, None, :]
        h = h * d
        c = (v[i] - torch.einsum("nhvk,nhk->nhv", h, k[i])) * beta[i][..., None]
        h = h + c[..., None] * k[i][:, :, None, :]
        outs.append(torch.einsum("nhvk,nhk->nhv", h, q[i]))
        corrections.append(c)
    stack = [torch.stack(part, 2) for part in (outs, corrections)]  # [rows, HV, T, V]
    return {"outputs": stack[0], "corrections": stack[1], "keys": layer.by_row(k).transpose(1, 2),
            "decays": layer.by_row(decay).transpose(1, 2), "state": h}  # fmt: skip


def largest(got, want):
    return (got.double() - want.double()).abs().max().item()


def fla_recurrent(layer, inputs, final):
    from fla.ops.gated_delta_rule import fused_recurrent_gated_delta_rule
    from fla.ops.kda import fused_recurrent_kda

    operation = fused_recurrent_gated_delta_rule if layer.gate == "gdn" else fused_recurrent_kda
    return operation(
        **inputs, g=layer.by_row(layer.a), beta=layer.by_row(layer.b), A_log=layer.A_log, dt_bias=layer.dt_bias,
        initial_state=layer.state, output_final_state=final, use_qk_l2norm_in_kernel=True, use_gate_in_kernel=True,
        use_beta_sigmoid_in_kernel=True, state_v_first=True,
    )  # fmt: skip


def fla_chunk(layer, inputs):
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule

    return chunk_gated_delta_rule(
        **inputs, g=layer.by_row(layer.a), beta=layer.by_row(layer.b), A_log=layer.A_log, dt_bias=layer.dt_bias,
        initial_state=layer.state, output_final_state=True, use_qk_l2norm_in_kernel=True, use_gate_in_kernel=True,
        use_beta_sigmoid_in_kernel=True, state_v_first=True,
    )  # fmt: skip


# Bounds of what is only rounded differently: outputs, below 0.3, are bf16 (2^-9 of their size), the rest fp32 sums of 128.
BOUNDS = {"outputs": 2e-3, "corrections": 2e-5, "keys": 1e-6, "decays": 2e-6, "state": 2e-5}


def compare(library, device, log):
    """Lines (gate, tokens, against, what, largest difference); False if one exceeds its bound."""
    good = True
    for gate in ("gdn", "kda"):
        for tokens in (1, 2, 4, 8):
            layer = Layer(library, device, 8, tokens, gate, tokens)
            state = layer.state.clone()
            layer.conv()
            layer.verify()
            if device == "cuda":
                torch.cuda.synchronize()
            if not torch.equal(layer.state, state):
                log(gate, tokens, "itself", "state changed by verify", 1.0)
                good = False
            ours = {"outputs": layer.by_row(layer.out).transpose(1, 2).clone()}
            if gate == "gdn":
                ours["corrections"], ours["keys"], decay = layer.packed.split([V, K, 1], dim=-1)
                ours["decays"] = decay.squeeze(-1)
            else:
                ours["corrections"] = layer.corrections
            layer.plain()
            ours["state"] = layer.state.clone()
            same = torch.equal(layer.by_row(layer.out).transpose(1, 2), ours["outputs"])
            log(gate, tokens, "plain rows", "outputs, differing bits", 0.0 if same else 1.0)
            good &= same
            layer.state.copy_(state)
            wants = {"torch fp64": reference(layer, state, torch.float64), "torch fp32": reference(layer, state, torch.float32)}
            if device == "cuda":
                out, final = fla_recurrent(layer, layer.fla_inputs(), True)
                wants["FLA recurrent"] = {"outputs": out.transpose(1, 2), "state": final}
            for against, want in wants.items():
                for what in ours:
                    if what not in want:
                        continue
                    difference = largest(ours[what], want[what])
                    log(gate, tokens, against, what, difference)
                    good &= difference <= BOUNDS[what] and ours[what].isfinite().all().item()
    return good


def in_turns(contenders):
    """Median us of each contender's graph, replays taken in turns."""
    graphs, names = [], []
    for name, work in contenders.items():
        try:
            work()  # compiles, allocates
            torch.cuda.synchronize()
        except Exception as error:
            if not name.startswith("FLA chunk"):
                raise
            print(f"{name}: left out: {type(error).__name__}: {str(error).splitlines()[0]}")
            continue
        names.append(name)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            work()
        graphs.append(graph)
    times = [[] for _ in graphs]
    for _ in range(REPLAYS + WARM_UP):
        for graph, taken in zip(graphs, times, strict=True):
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            taken.append(begin.elapsed_time(end) * 1e3)
    return {name: statistics.median(taken[WARM_UP:]) for name, taken in zip(names, times, strict=True)}


def time(library, quick, log):
    rows = (8, 64) if quick else (1, 8, 32, 64, 128, 256)
    shapes = [("gdn", r, t) for r in rows for t in (1, 2, 4, 8)] + [("kda", r, 4) for r in rows]
    shapes += [("gdn", 2, t) for t in (1, 2, 3, 4)] + [("kda", r, t) for r in (1, 2) for t in (1, 2)]
    for gate, r, tokens in shapes:
        count = max(2, min(12, -(-ROTATION // (r * HV * K * V * 4))))
        layers = [Layer(library, "cuda", r, tokens, gate, seed) for seed in range(count)]
        for layer in layers:
            layer.conv()
        inputs = [layer.fla_inputs() for layer in layers]

        def ours(name, layers=layers):
            return lambda: [getattr(layer, name)() for layer in layers]

        def fla(final, layers=layers, inputs=inputs):
            return lambda: [fla_recurrent(*pair, final) and None for pair in zip(layers, inputs, strict=True)]

        log(gate, r, tokens, count, in_turns({"verify": ours("verify"), "FLA recurrent": fla(False)}))
        log(gate, r, tokens, count, in_turns({"plain rows": ours("plain"), "FLA recurrent, final state": fla(True)}))
    for r, tokens in ((1, 512),) if quick else ((1, 512), (1, 2048), (4, 512), (4, 2048)):
        layers = [Layer(library, "cuda", r, tokens, "gdn", seed, records=False) for seed in range(4)]
        inputs = [layer.fla_inputs() for layer in layers]
        pairs = list(zip(layers, inputs, strict=True))
        log("gdn", r, tokens, 4, in_turns({
            "plain rows": lambda layers=layers: [layer.plain() for layer in layers],
            "FLA recurrent, final state": lambda pairs=pairs: [fla_recurrent(*pair, True) and None for pair in pairs],
            "FLA chunk, final state": lambda pairs=pairs: [fla_chunk(*pair) and None for pair in pairs],
        }))  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--csv", help="times; the differences go to FILE with -differences before its ending")
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    library = Library(arguments.library)
    header = [f"# recoverssm {library.c.recoverssm_version().decode()}, torch {torch.__version__}"]
    if arguments.device == "cuda":
        import fla

        torch.backends.cuda.matmul.allow_tf32 = False
        header[0] += f", flash-linear-attention {fla.__version__}, {torch.cuda.get_device_name()}, CUDA {torch.version.cuda}"
    header.append("# " + " ".join(sys.argv))
    print("\n".join(header))

    def save(path, columns, lines):
        if not path:
            return
        with open(path, "w", newline="") as file:
            file.write("\n".join(header) + "\n")
            writer = csv.writer(file, lineterminator="\n")
            writer.writerows([columns, *lines])

    differences, times = [], []

    def log_difference(*line):
        differences.append((*line[:-1], f"{line[-1]:.3g}"))
        print("{:4} T {}  against {:14} {:28} {:.3g}".format(*line), flush=True)

    def log_times(gate, rows, tokens, layers, medians):
        for name, us in medians.items():
            times.append((gate, rows, tokens, layers, name, f"{us / layers:.3f}"))
            print(f"{gate} rows {rows:4} T {tokens:5} layers {layers:3}  {name:28} {us / layers:10.2f} us", flush=True)

    good = compare(library, arguments.device, log_difference)
    path = arguments.csv and arguments.csv.removesuffix(".csv") + "-differences.csv"
    save(path, ("gate", "tokens", "against", "what", "largest"), differences)
    if not good:
        sys.exit("peer.py: a difference exceeds its bound; nothing was timed")
    if arguments.device == "cpu":
        print("FLA and times: left out, they need a GPU")
        return
    columns = ("gate", "rows", "tokens", "layers", "contender", "us")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("peer.py: stopped; the CSV has what was timed before"))
    try:
        time(library, arguments.quick, log_times)
    finally:
        save(arguments.csv, columns, times)


if __name__ == "__main__":
    main()
