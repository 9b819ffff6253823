"""Every kernel of src/cuda waits for those before it, in any case and before it looks at memory: Launcher starts all of them early
(src/cuda/dependent.cuh), and one that does not wait reads what another is still writing, or lets the next one run beside that. No device run
would have to show it.

    kernels_wait.py SRC_CUDA
    kernels_wait.py --self-test     bad kernels, each of which has to be found
"""

import re
import sys
from pathlib import Path

WAIT = "after_previous();"
# What may stand before the wait: these calls work out addresses and read parameters alone.
CALLS = {"int", "lane_of_thread", "part_of_block", "token_source", "key_head", "row_of_lane", "dtype_of", "size_of", "row_source", "z_run", "gate_run", "settle", "at", "let_next_start", "static_cast", "reinterpret_cast"}
# Control, elements behind a pointer, conditions that may skip something: but for the one that ends a call of let_next_start, which decides nothing here.
REFUSED = re.compile(r"\b(?:if(?!\s+constexpr)|for|while|switch|do|goto|return|asm|__syncthreads)\b|&&(?!\s*!?[kL\w.]+\)?;)|\|\||#|->")


def without_comments(text):
    return re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.S)


def body_of(text, start):
    """What is between the first { behind `start` and its }."""
    begin = text.index("{", start)
    depth = 0
    for i in range(begin, len(text)):
        depth += {"{": 1, "}": -1}.get(text[i], 0)
        if depth == 0:
            return text[begin + 1 : i]
    raise ValueError("a brace is not closed")


def fault_of(body):
    before, found, after = body.partition(WAIT)
    if not found:
        return f"has no {WAIT}"
    if WAIT in after:
        return f"has {WAIT} twice"
    if before.count("{") != before.count("}") or before.rstrip()[-1:] not in ("", ";", "}"):
        return f"comes to {WAIT} only sometimes"
    if re.search(r"#\s*(?!pragma\b)", body):
        return "has preprocessor lines"
    if (refused := REFUSED.search(before)) is not None:
        return f"may leave, or read, before {WAIT}: {refused[0]}"
    # An element, or what a pointer points to: declarations of arrays and pointers are neither, nor is a parameter's stride.
    if (read := re.search(r"[\w)]\s*\[(?!\])|(?:^|[^\w)\]>\s])\s*\*\s*[A-Za-z_(]|\)\*\s*\w", re.sub(r"shared\[\]|\.stride\[\d\]", "", before))) is not None:
        return f"may read before {WAIT}: {read[0]}"
    calls = set(re.findall(r"\b([A-Za-z_]\w*)\s*(?:<[^;(){}]*>)?\(", before)) - {"constexpr"}
    if unknown := calls - CALLS:
        return f"calls {', '.join(sorted(unknown))} before {WAIT}"
    return None


def kernels(text):
    text = without_comments(text)
    for kernel in re.finditer(r"__global__\s[^;{]*?(\w+)\s*\((?=[^()]*\)\s*\{)", text):
        yield kernel[1], fault_of(body_of(text, kernel.end()))


BAD = [
    "", "if (x) return; after_previous();", "return after_previous();", "if constexpr (A) { after_previous(); }",
    "auto f = [&] { after_previous(); };", "const int x = p[0]; after_previous();", "const int x = *p; after_previous();",
    "row_of(args, 0); after_previous();", "/* after_previous(); */", "// after_previous();\n", "if (x) after_previous();",
    "const bool b = x && after_previous();", "f(p->x); after_previous();", "after_previous(); after_previous();",
    "#if A\n after_previous();\n#endif\n", "const int y = x ? p[0] : 0; after_previous();", "x ? f() : after_previous();", "x ? *p : 0; after_previous();",
    "*p = 1; after_previous();", "int y = -*p; after_previous();", "int y = x ? !*p : 0; after_previous();", "int y{*p}; after_previous();",
    "int y = x ? (int)*p : 0; after_previous();", "int y = 1 + *P; after_previous();",
]  # fmt: skip


def self_test():
    missed = [body for body in BAD if [fault for _, fault in kernels(f"__global__ void k(int* p) {{ {body} }}")] in ([], [None])]
    good = list(kernels("__global__ void k(int* p) { const int x = static_cast<int>(threadIdx.x); after_previous(); p[0] = x; }"))
    for body in missed:
        print(f"not found: {body!r}")
    print(f"{len(BAD)} bad kernels, {len(missed)} not found; a good one: {good}")
    sys.exit(bool(missed) or good != [("k", None)])


def main():
    if sys.argv[1] == "--self-test":
        self_test()
    seen, bad = 0, 0
    for path in sorted(Path(sys.argv[1]).iterdir()):
        text = path.read_text()
        marked, found = len(re.findall(r"\b__global__\b", without_comments(text))), list(kernels(text))
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
