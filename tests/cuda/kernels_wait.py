"""Every kernel of src/cuda waits for those before it, once and in any case: Launcher starts all of them early (src/cuda/dependent.cuh), and one
that does not wait reads what another is still writing, or lets the next one run beside that. No device run would have to show it.

    kernels_wait.py SRC_CUDA
"""

import re
import sys
from pathlib import Path

WAIT = "after_previous();"


def body_of(text, start):
    """What is between the first { behind `start` and its }."""
    begin = text.index("{", start)
    depth = 0
    for i in range(begin, len(text)):
        depth += {"{": 1, "}": -1}.get(text[i], 0)
        if depth == 0:
            return text[begin + 1 : i]
    raise ValueError("a brace is not closed")


def faults(path):
    text = re.sub(r"//[^\n]*", "", path.read_text())
    for kernel in re.finditer(r"__global__\s[^;{]*?(\w+)\s*\((?=[^()]*\)\s*\{)", text):
        body = body_of(text, kernel.end())
        before, found, after = body.partition(WAIT)
        if not found:
            yield kernel[1], f"has no {WAIT}"
        elif WAIT in after:
            yield kernel[1], f"has {WAIT} twice"
        elif (early := re.search(r"\b(if(?! constexpr)|for|while|switch|return|__syncthreads)\b|\?", before)) is not None:
            yield kernel[1], f"may leave, or not come to, {WAIT}: {early[0]} before it"
        else:
            yield kernel[1], None


def main():
    seen, bad = 0, 0
    for path in sorted(Path(sys.argv[1]).glob("*.cu*")):
        marked = len(re.findall(r"\b__global__\b", re.sub(r"//[^\n]*", "", path.read_text())))
        found = list(faults(path))
        seen += len(found)
        if len(found) != marked:
            print(f"{path.name}: {marked} kernels, of which {len(found)} could be read")
            bad += 1
        for name, fault in found:
            if fault:
                print(f"{path.name}: {name} {fault}")
                bad += 1
    print(f"{seen} kernels, {bad} faults")
    sys.exit(bad > 0 or seen == 0)


if __name__ == "__main__":
    main()
