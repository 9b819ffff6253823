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
