"""Times flash-linear-attention's recurrent gated delta rule beside bench_cuda, on the same shapes: a CUDA graph over several layers whose
states together exceed the L2 several times, median of 50 replays. Its gates are computed before (g, beta), it leaves no records, and its
dots are summed in another order: for time only.

    python fla_peer.py [--csv FILE]
"""

import argparse
import statistics

import torch
from fla.ops.gated_delta_rule import fused_recurrent_gated_delta_rule

H, HV, K, V = 16, 48, 128, 128
ROTATION = 320 << 20


def inputs(rows, tokens, seed):
    torch.manual_seed(seed)

    def make(*shape):
        return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)

    return {
        "q": make(rows, tokens, H, K),
        "k": make(rows, tokens, H, K),
        "v": make(rows, tokens, HV, V),
        "g": -torch.rand(rows, tokens, HV, device="cuda"),
        "beta": torch.rand(rows, tokens, HV, device="cuda"),
        "initial_state": torch.randn(rows, HV, K, V, device="cuda") * 0.1,
    }


def median_us(data, final, replays=50):
    def work():
        for layer in data:
            fused_recurrent_gated_delta_rule(**layer, output_final_state=final, use_qk_l2norm_in_kernel=True)

    work()  # compiles
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    times = []
    for i in range(replays + 5):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        if i >= 5:
            times.append(begin.elapsed_time(end) * 1000)
    return statistics.median(times)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--csv")
    args = parser.parse_args()
    import fla

    lines = [f"# {torch.cuda.get_device_name()}, torch {torch.__version__}, flash-linear-attention {fla.__version__}", "op,rows,window,layers,us"]
    print(lines[0])
    shapes = [(r, t) for r in (1, 8, 32, 64, 128, 256) for t in (1, 2, 4, 8)] + [(1, 512), (1, 2048), (4, 512), (4, 2048)]
    for final in (False, True):
        name = "fla_recurrent_final_state" if final else "fla_recurrent"
        for rows, tokens in shapes:
            layers = max(2, min(12, -(-ROTATION // (rows * HV * K * V * 4))))
            data = [inputs(rows, tokens, seed) for seed in range(layers)]

            us = median_us(data, final) / layers
            lines.append(f"{name},{rows},{tokens},{layers},{us:.3f}")
            print(f"{name:28s} rows {rows:4d} T {tokens:5d} layers {layers:3d} {us:10.2f} us", flush=True)
    if args.csv:
        with open(args.csv, "w") as out:
            out.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
