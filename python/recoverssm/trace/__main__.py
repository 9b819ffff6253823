"""python -m recoverssm.trace: looks at recorded traces. Exit: 0, 1 something differs, 2 a file or an argument is wrong."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import safetensors

from ..errors import Error
from ._file import read


def _inspect(options: argparse.Namespace) -> int:
    from ._inspect import inspect

    for path in options.file:
        print(inspect(read(path)))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m recoverssm.trace", description="Looks at recorded traces (docs/traces.md).")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    command = commands.add_parser("inspect", help="print traces: buffers, arguments, rows, expectations")
    command.add_argument("file", type=Path, nargs="+")
    command.set_defaults(run=_inspect)
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
