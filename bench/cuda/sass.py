"""Counts instructions of kernels in machine code: of all, and of the loop with the most multiply-adds (a token of the delta kernels).

    python bench/cuda/sass.py FILE.cubin... [--match verify] [--nvdisasm PATH]

A cubin comes from nvcc -cubin; nvdisasm from CUDA, or from triton's package (backends/nvidia/bin).
"""

import argparse
import collections
import re
import shutil
import subprocess

INSTRUCTION = re.compile(r"/\*([0-9a-f]{4,})\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9]*)([^;]*);")
LABEL = re.compile(r"^(\.L_x?_?\w+):")


def kernels(text):
    """Kernel -> [(address, opcode, rest)], labels -> address."""
    found, name, labels, waiting = {}, None, {}, []
    for line in text.splitlines():
        if (start := re.match(r"\.text\.(\S+):", line)) is not None:
            name = start[1]
            found[name], labels[name], waiting = [], {}, []
        elif (label := LABEL.match(line)) is not None:
            waiting.append(label[1])
        elif name and (instruction := INSTRUCTION.search(line)) is not None:
            address = int(instruction[1], 16)
            for label in waiting:
                labels[name][label] = address
            waiting = []
            found[name].append((address, instruction[2], instruction[3]))
    return found, labels


def token_loop(code, labels):
    """The loop without a loop in it that has the most FFMA."""
    loops = []
    for address, opcode, rest in code:
        target = re.search(r"`\((\.L\w+)\)", rest)
        if opcode == "BRA" and target and labels.get(target[1], address + 1) <= address:
            loops.append((labels[target[1]], address))
    inner = [loop for loop in loops if not any(other != loop and loop[0] <= other[0] and other[1] <= loop[1] for other in loops)]
    bodies = [[opcode for address, opcode, _ in code if begin <= address <= end] for begin, end in inner]
    return max(bodies, key=lambda body: body.count("FFMA"), default=[])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--match", default="_kernel")
    parser.add_argument("--nvdisasm", default=shutil.which("nvdisasm"))
    arguments = parser.parse_args()
    for file in arguments.files:
        text = subprocess.run([arguments.nvdisasm, "-c", file], check=True, capture_output=True, text=True).stdout
        found, labels = kernels(text)
        for name, code in found.items():
            if arguments.match not in name:
                continue
            loop = token_loop(code, labels[name])
            registers = 1 + max((int(r) for *_, rest in code for r in re.findall(r"\bR(\d+)\b", rest)), default=-1)
            short = re.search(r"\d([a-z_]+_kernel)(I\w+?EE)?", name)
            counts = ", ".join(f"{opcode} {count}" for opcode, count in collections.Counter(loop).most_common(12))
            print(f"{file} {''.join(part or '' for part in short.groups()) if short else name}: {len(code)} instructions, "
                  f"{registers} registers; token loop {len(loop)}: {counts}")  # fmt: skip


if __name__ == "__main__":
    main()
