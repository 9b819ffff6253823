"""python -m recoverssm.trace: looks at recorded traces. Exit: 0, 1 something differs, 2 a file or an argument is wrong."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import safetensors

from ..errors import Error
from ._file import Trace, read


def _inspect(options: argparse.Namespace) -> int:
    from ._inspect import inspect

    for path in options.file:
        print(inspect(read(path)))
    return 0


def _merge(options: argparse.Namespace) -> int:
    from ._merge import merge

    merged, checks = merge(read(options.plain), read(options.window))
    for check in checks:
        print(f"{'same' if check.same else 'OTHER'} bits: {check.part} {check.name}")
    return _wrote(options.out, merged, all(check.same for check in checks))


def _repack(options: argparse.Namespace) -> int:
    from ._repack import repack

    repacked, equal = repack(read(options.file))
    for one in equal:
        print(f"{'same' if one.same else 'OTHER'} bits: {one.name}")
    return _wrote(options.out, repacked, all(one.same for one in equal))


def _diff(options: argparse.Namespace) -> int:
    from ._diff import diff

    summary = diff(map(read, options.file), atol=options.atol, rtol=options.rtol)
    print(summary.text())
    return 0 if summary.ok else 1


def _plot(options: argparse.Namespace) -> int:
    from ._plot import plot

    plot(read(options.file), options.out, options.call)
    return 0


def _wrote(path: Path | None, made: Trace, good: bool) -> int:
    if path is not None:
        made.write(path)
    return 0 if good else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m recoverssm.trace", description="Looks at recorded traces (docs/traces.md).")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    command = commands.add_parser("inspect", help="print traces: buffers, arguments, rows, expectations")
    command.add_argument("file", type=Path, nargs="+")
    command.set_defaults(run=_inspect)

    command = commands.add_parser("merge", help="a capture of plain rows and one of windows of a layer as one mixed batch, each part checked")
    command.add_argument("plain", type=Path)
    command.add_argument("window", type=Path)
    command.add_argument("--out", type=Path, metavar="FILE", help="write the mixed batch as a trace")
    command.set_defaults(run=_merge)

    command = commands.add_parser("repack", help="projections from flat to interleaved, or back, and the results compared")
    command.add_argument("file", type=Path)
    command.add_argument("--out", type=Path, metavar="FILE", help="write the repacked trace")
    command.set_defaults(run=_repack)

    command = commands.add_parser("diff", help="captures against transformers' PyTorch functions, summed up by kind and length of rows")
    command.add_argument("file", type=Path, nargs="+")
    command.add_argument("--atol", type=float, default=2e-2)
    command.add_argument("--rtol", type=float, default=2e-2)
    command.set_defaults(run=_diff)

    command = commands.add_parser("plot", help="draw a call of a trace: its rows and the size of its values")
    command.add_argument("file", type=Path)
    command.add_argument("out", help="NAME.svg or NAME.png")
    command.add_argument("--call", type=int, default=0, help="which call of the trace, from 0")
    command.set_defaults(run=_plot)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        return options.run(options)
    except (Error, OSError, ImportError, safetensors.SafetensorError) as error:
        print(f"recoverssm.trace: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
